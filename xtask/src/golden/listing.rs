//! The machine code of one function, without what differs from build to build.

use crate::process::Cmd;
use anyhow::{Result, bail};
use std::collections::BTreeSet;
use std::path::Path;

/// Disassembles `function` of `file`.
pub(super) fn of(file: &Path, function: &str) -> Result<String> {
    let text = Cmd::new("objdump")
        .args(["--no-show-raw-insn", "--demangle", "-M", "intel", &format!("--disassemble={function}")])
        .arg(file)
        .read()?;
    let listing = normalise(&text, function);
    if listing.lines().count() < 2 {
        bail!("{}: there is no function {function}", file.display());
    }
    Ok(listing)
}

/// Replaces addresses by labels and symbols, and drops the padding behind the code.
fn normalise(objdump: &str, function: &str) -> String {
    let code: Vec<(u64, String)> = objdump.lines().filter_map(instruction).collect();
    let (Some(first), Some(last)) = (code.first().map(|c| c.0), code.last().map(|c| c.0)) else {
        return String::new();
    };
    let targets: BTreeSet<u64> =
        code.iter().filter_map(|(_, text)| jump_target(text)).filter(|t| (first..=last).contains(t)).collect();
    let label = |address: u64| targets.iter().position(|t| *t == address).map(|n| format!(".L{n}"));
    let mut lines = vec![format!("{function}:")];
    for (address, text) in &code {
        if let Some(label) = label(*address) {
            lines.push(format!("{label}:"));
        }
        let text = match jump_target(text).and_then(label) {
            Some(label) => format!("{} {label}", text.split(' ').next().unwrap_or(text)),
            None => symbolic(text),
        };
        lines.push(format!("    {text}"));
    }
    while lines.last().is_some_and(|l| is_padding(l.trim())) {
        lines.pop();
    }
    lines.join("\n") + "\n"
}

/// Reads `  14a30:\tmov    rax,QWORD PTR [rip+0x2345]        # 16d80 <name>`.
fn instruction(line: &str) -> Option<(u64, String)> {
    let (address, text) = line.split_once(":\t")?;
    let address = u64::from_str_radix(address.trim(), 16).ok()?;
    Some((address, text.split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// The address that a direct jump or call goes to.
fn jump_target(text: &str) -> Option<u64> {
    let (mnemonic, rest) = text.split_once(' ')?;
    if !mnemonic.starts_with('j') {
        return None;
    }
    u64::from_str_radix(rest.split(' ').next()?, 16).ok()
}

/// Names what an instruction refers to, instead of where it lies in this build.
fn symbolic(text: &str) -> String {
    let Some((_, symbol)) = text.split_once('<') else { return text.to_string() };
    let symbol = name(symbol.trim_end_matches('>'));
    let (code, comment) = text.split_once(" # ").unwrap_or((text, ""));
    if comment.is_empty() {
        // `call 14a90 <name>`
        let mnemonic = code.split(' ').next().unwrap_or(code);
        return format!("{mnemonic} {symbol}");
    }
    match (code.find("[rip+"), code.find(']')) {
        (Some(start), Some(end)) if start < end => format!("{}[{symbol}]{}", &code[..start], &code[end + 1..]),
        _ => code.to_string(),
    }
}

/// The last part of a symbol, without its offset and hash: what compilers agree on.
pub(super) fn name(symbol: &str) -> String {
    let symbol = symbol.split("+0x").next().unwrap_or(symbol);
    let symbol = match symbol.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => path,
        _ => symbol,
    };
    // Paths stand inside `<…>` too: the last `::` outside.
    let (mut depth, mut start) = (0, 0);
    for (at, c) in symbol.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            ':' if depth == 0 => start = at + 1,
            _ => {}
        }
    }
    symbol[start..].to_string()
}

fn is_padding(text: &str) -> bool {
    text.starts_with("nop")
        || text.starts_with("cs nop")
        || text.starts_with("int3")
        || text.starts_with("data16")
        || text == "xchg ax,ax"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_last_part_of_a_path() {
        assert_eq!(name("site::_::<impl site::request>::__emit::h0123456789abcdef+0x10"), "__emit");
        assert_eq!(name("core::ptr::drop_in_place<a::Section>"), "drop_in_place<a::Section>");
        assert_eq!(name("golden_call"), "golden_call");
    }

    #[test]
    fn addresses_become_names() {
        let objdump = "\
0000000000014a30 <golden_site>:
   14a30:\tcmp    QWORD PTR [rip+0x2345],0x0        # 16d80 <site::GATE::h0123456789abcdef>
   14a38:\tjne    14a3b <golden_site+0xb>
   14a3a:\tret
   14a3b:\tjmp    14a90 <site::emit::h0123456789abcdef>
   14a40:\tnop    DWORD PTR [rax+0x0]
";
        let expected = "golden_site:\n    cmp QWORD PTR [GATE],0x0\n    jne .L0\n    ret\n.L0:\n    jmp emit\n";
        assert_eq!(normalise(objdump, "golden_site"), expected);
    }
}
