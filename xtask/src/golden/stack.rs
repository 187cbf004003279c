//! How much stack a firing takes, read off the machine code: as far as direct calls go, and those through the global offset
//! table. Probes and the append are called by pointer, so a program that records measures what all of it takes.

use crate::process::{Cmd, Tally};
use anyhow::{Result, bail};
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

/// Where the walk begins: a traced function, which calls its emitter.
const ROOT: &str = "golden_call";

/// Callees that only a failed assertion or a panicking probe reaches.
const PANICS: [&str; 7] =
    ["core::panicking", "std::panicking", "core::slice::index", "core::result::", "core::option::", "_Unwind_", "std::rt::"];

/// Adds up the frames of the deepest chain of calls.
pub(super) fn check(file: &Path, most: u64) -> Result<Tally> {
    let objdump = |args: &[&str]| Cmd::new("objdump").args(args).arg(file).read();
    let table = relocations(&objdump(&["--dynamic-reloc"])?);
    let functions = functions(&objdump(&["--no-show-raw-insn", "--demangle", "-M", "intel", "--disassemble"])?, &table);
    let Some((address, _)) = functions.iter().find(|(_, f)| f.name == ROOT) else {
        bail!("{}: there is no function {ROOT}", file.display());
    };
    let (depth, chain) = deepest(*address, &functions, &mut Depths::new());
    let passed = depth <= most;
    println!("{} stack from {ROOT} on: {depth} bytes, at most {most}: {chain}", if passed { "ok    " } else { "BROKEN" });
    Ok(Tally::of(passed))
}

/// Runs the program, which records on the stack of a signal handler and prints how much of that the deepest event took.
pub(super) fn measure(program: &Path, most: u64) -> Result<Tally> {
    // The recording goes there.
    let dir = tempfile::tempdir()?;
    let printed = Cmd::new(program).dir(dir.path()).read()?;
    let mut tally = Tally::default();
    for line in printed.lines().filter(|l| l.starts_with("stack of ")) {
        let depth = line.rsplit(' ').nth(1).and_then(|bytes| bytes.parse::<u64>().ok());
        let passed = depth.is_some_and(|d| d <= most);
        println!("{} measured {line}, at most {most}", if passed { "ok    " } else { "BROKEN" });
        tally += Tally::of(passed);
    }
    if tally == Tally::default() {
        bail!("{}: it did not say what an event takes: {printed}", program.display());
    }
    Ok(tally)
}

/// What the loader puts into the words of the global offset table: the address of a function, by the address of the word.
type Table = HashMap<u64, u64>;

/// Reads `000000000004e0c0 R_X86_64_RELATIVE *ABS*+0x0000000000012ab0`.
fn relocations(objdump: &str) -> Table {
    let word = |line: &str| {
        let mut words = line.split_whitespace();
        let (place, kind, value) = (words.next()?, words.next()?, words.next()?);
        Some((hex(place)?, (kind == "R_X86_64_RELATIVE").then(|| value.strip_prefix("*ABS*+0x").and_then(hex))??))
    };
    objdump.lines().filter_map(word).collect()
}

/// Reads a whole disassembly.
fn functions(objdump: &str, table: &Table) -> HashMap<u64, Function> {
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
                "call" | "jmp" | "jne" | "je" if operand == "QWORD" => {
                    function.callees.extend(word_of(text).and_then(|w| table.get(&w)))
                }
                "call" | "jmp" | "jne" | "je" => function.callees.extend(hex(operand)),
                _ => {}
            }
        }
    }
    found.insert(current.0, current.1);
    found
}

/// The word that `call QWORD PTR [rip+0x3ba6a]        # 4e0c0 <name>` reads.
fn word_of(text: &str) -> Option<u64> {
    hex(text.split_once(" # ")?.1.split(' ').next()?)
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
    let chain = format!("{} {}", super::listing::name(&function.name), function.frame);
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
    2007:\tcall   QWORD PTR [rip+0x3ba6a]        # 5000 <_DYNAMIC+0x258>
    200a:\tcall   2000 <emit::h0123456789abcdef>
0000000000003000 <core::panicking::panic>:
    3000:\tsub    rsp,0x4000
0000000000004000 <other::slow>:
    4000:\tpush   rbp
";
        let table = relocations("0000000000005000 R_X86_64_RELATIVE  *ABS*+0x0000000000004000\n");
        let functions = functions(objdump, &table);
        assert_eq!(deepest(0x1000, &functions, &mut Depths::new()), (8 + 80 + 16, "golden_call 8, emit 80, slow 16".to_string()));
    }
}
