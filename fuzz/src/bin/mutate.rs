//! Fuzzing without a nightly compiler: seeds and the corpus, changed at random, for a time or a number of executions.
//!
//! Knows nothing of coverage; cargo-fuzz does. `mutate TARGET [--seconds N] [--executions N] [--seed N] [--write DIR] [FILES…]`

use std::fs;
use std::panic;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ringtrace_fuzz::{TARGETS, seeds, target};

/// What one execution may take; more is a finding.
const SLOW: Duration = Duration::from_secs(5);

/// Bytes that decide something.
const TOKENS: [&[u8]; 20] = [
    b"struct { ",
    b" } align(8)",
    b"variant <id> { ",
    b"[ _n ]",
    b"typealias ",
    b" := ",
    b"integer { size = 64; }",
    b"enum : ",
    b" ... ",
    b"\"path\":[null]",
    b"\"length\":64",
    b"{\"type\":\"structure\"}",
    b"[[0,18446744073709551615]]",
    b"-1",
    b"18446744073709551615",
    b"\x1E",
    &[0xFF; 8],
    &[0; 8],
    &[0x80, 0x80, 0x80, 0x80],
    b"\0",
];

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as usize % limit.max(1)
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let Some(run) = target(&name) else {
        eprintln!("no target {name:?}; there are {TARGETS:?}");
        return ExitCode::from(2);
    };
    let (mut seconds, mut executions, mut seed) = (10.0, u64::MAX, 1);
    let mut inputs = seeds(&name);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_default();
        match argument.as_str() {
            "--seconds" => seconds = value().parse().expect("a number of seconds"),
            "--executions" => executions = value().parse().expect("a number"),
            "--seed" => seed = value().parse().expect("a number"),
            "--write" => {
                let directory = PathBuf::from(value());
                fs::create_dir_all(&directory).expect("the directory can be made");
                for (number, input) in inputs.iter().enumerate() {
                    fs::write(directory.join(format!("seed-{number}")), input).expect("the seed can be written");
                }
                return ExitCode::SUCCESS;
            }
            file => inputs.push(fs::read(file).unwrap_or_else(|error| panic!("{file}: {error}"))),
        }
    }
    let start = Instant::now();
    let mut random = Random(seed | 1);
    let mut done = 0;
    for input in &inputs {
        run(input);
    }
    while done < executions && start.elapsed().as_secs_f64() < seconds {
        let mut input = inputs[random.below(inputs.len())].clone();
        for _ in 0..1 + random.below(6) {
            mutate(&mut input, &inputs, &mut random);
        }
        let begin = Instant::now();
        let ended = panic::catch_unwind(|| run(&input));
        if ended.is_err() || begin.elapsed() > SLOW {
            let path = std::env::temp_dir().join(format!("{name}-{done}"));
            let _ = fs::write(&path, &input);
            let what = if ended.is_err() { "panicked" } else { "took too long" };
            eprintln!("{name}: execution {done} {what}; its input is in {}", path.display());
            return ExitCode::FAILURE;
        }
        done += 1;
        // What is new in form is worth more changes; without coverage, chance decides.
        if random.below(400) == 0 && input.len() < 1 << 16 && inputs.len() < 400 {
            inputs.push(input);
        }
    }
    println!("{name}: {done} executions in {:.1} s, nothing found", start.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}

fn mutate(input: &mut Vec<u8>, others: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() + 1);
    match random.below(7) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.below(256) as u8,
        2 => drop(input.splice(at..at, TOKENS[random.below(TOKENS.len())].iter().copied())),
        3 => {
            let end = (at + 1 + random.below(16)).min(input.len());
            input.drain(at..end);
        }
        4 => {
            let other = &others[random.below(others.len())];
            let from = random.below(other.len() + 1);
            let to = (from + 1 + random.below(64)).min(other.len());
            drop(input.splice(at..at, other[from..to].iter().copied()));
        }
        5 => input.truncate(at.max(2)),
        _ => {
            let end = (at + 1 + random.below(64)).min(input.len());
            let piece = input[at..end].to_vec();
            drop(input.splice(at..at, piece));
        }
    }
}
