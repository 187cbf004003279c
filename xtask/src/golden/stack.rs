//! How much stack a firing takes, read off the machine code.

use crate::process::{Cmd, Tally};
use anyhow::Result;
use std::collections::HashMap;
use std::path::Path;

/// What a function does to the stack.
#[derive(Debug, Default)]
struct Function {
    name: String,
    /// Bytes pushed and reserved, and the return address.
    frame: u64,
    /// Addresses of the functions that it calls or jumps to directly.
    callees: Vec<u64>,
}

/// Where the walk begins: what a traced function calls when its gate is open, and what a probe list calls by pointer.
const ROOTS: [&str; 1] = ["golden_call"];

/// Callees that only a failed assertion or a panicking probe reaches.
const PANICS: [&str; 7] =
    ["core::panicking", "std::panicking", "core::slice::index", "core::result::", "core::option::", "_Unwind_", "std::rt::"];

/// Adds up the frames of the deepest chain of direct calls from each root on.
pub(super) fn check(file: &Path, most: u64) -> Result<Tally> {
    let text = Cmd::new("objdump").args(["--no-show-raw-insn", "--demangle", "-M", "intel", "--disassemble"]).arg(file).read()?;
    let functions = functions(&text);
    let mut tally = Tally::default();
    for root in ROOTS {
        let Some((address, _)) = functions.iter().find(|(_, f)| f.name == root) else {
            println!("BROKEN stack: there is no function {root}");
            tally += Tally::of(false);
            continue;
        };
        let (depth, chain) = deepest(*address, &functions, &mut Depths::new());
        let passed = depth <= most;
        println!("{} stack from {root} on: {depth} bytes, at most {most}: {chain}", if passed { "ok    " } else { "BROKEN" });
        tally += Tally::of(passed);
    }
    Ok(tally)
}

/// Reads a whole disassembly.
fn functions(objdump: &str) -> HashMap<u64, Function> {
    let mut found = HashMap::new();
    let mut current = (0, Function::default());
    for line in objdump.lines() {
        if let Some((address, name)) = heading(line) {
            let done = std::mem::replace(&mut current, (address, Function { name, frame: 8, callees: Vec::new() }));
            found.insert(done.0, done.1);
        } else if let Some((_, text)) = line.split_once(":\t") {
            let mut words = text.split_whitespace();
            let (mnemonic, operand) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            let function = &mut current.1;
            match mnemonic {
                "push" => function.frame += 8,
                "sub" => function.frame += operand.strip_prefix("rsp,0x").and_then(hex).unwrap_or(0),
                // Jumps to another function are tail calls; those within this one lead nowhere new.
                "call" | "jmp" | "jne" | "je" => function.callees.extend(hex(operand)),
                _ => {}
            }
        }
    }
    found.insert(current.0, current.1);
    found
}

/// Reads `0000000000014a30 <name>:`.
fn heading(line: &str) -> Option<(u64, String)> {
    let (address, rest) = line.split_once(" <")?;
    let name = rest.strip_suffix(">:")?;
    let name = name.rsplit_once("::h").map_or(name, |(path, _)| path);
    Some((hex(address)?, name.to_string()))
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Depth and functions of the deepest chain from each address on; `None` while it is being found, so that recursion ends.
type Depths = HashMap<u64, Option<(u64, String)>>;

fn deepest(address: u64, functions: &HashMap<u64, Function>, depths: &mut Depths) -> (u64, String) {
    if let Some(known) = depths.get(&address) {
        return known.clone().unwrap_or_default();
    }
    let Some(function) = functions.get(&address) else { return (0, String::new()) };
    depths.insert(address, None);
    let mut below = (0, String::new());
    for callee in &function.callees {
        let panics = functions.get(callee).is_some_and(|f| PANICS.iter().any(|p| f.name.contains(p)));
        if !panics {
            below = below.max(deepest(*callee, functions, depths));
        }
    }
    let chain = format!("{} {}", function.name, function.frame);
    let result = (function.frame + below.0, if below.0 > 0 { format!("{chain}, {}", below.1) } else { chain });
    depths.insert(address, Some(result.clone()));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_add_up() {
        let objdump = "\
0000000000001000 <golden_call>:
    1000:\tcmp    QWORD PTR [rip+0x2345],0x0
    1008:\tjne    2000 <emit::h0123456789abcdef>
    100a:\tret
0000000000002000 <emit::h0123456789abcdef>:
    2000:\tpush   rbx
    2001:\tsub    rsp,0x40
    2005:\tcall   3000 <core::panicking::panic>
    200a:\tcall   2000 <emit::h0123456789abcdef>
0000000000003000 <core::panicking::panic>:
    3000:\tsub    rsp,0x4000
";
        let functions = functions(objdump);
        assert_eq!(deepest(0x1000, &functions, &mut Depths::new()), (8 + 8 + 8 + 0x40, "golden_call 8, emit 80".to_string()));
    }
}
