//! Filters: expressions over the fields and the context of an event.
//!
//! ```text
//! bytes > 4096 && reason == "Lru" && path ~ "*.db" && $ctx.vtid == 12
//! ```
//!
//! An [`Expression`] is parsed once. For each event class it is to be used on, it is checked against a [`Scope`], which says
//! what fields there are, and becomes a [`Program`]: a flat list of steps that asks for values and says yes or no. The run time
//! evaluates it on an event before anything is written; the command line, on decoded events of a trace.
//!
//! | Room | Does |
//! | --- | --- |
//! | `token`, `syntax`, `parse` | text to tree |
//! | `scope` | what an expression may name: from an event class, or put together by a caller |
//! | `check` | types; constants are evaluated, names of enumerations become numbers |
//! | `compile`, `program` | the flat form, and its evaluation |
//! | `survey` | whether an expression fits several classes, each of which may lack some of its names |
//! | `arithmetic` | what operators do to values |
//!
//! # Grammar
//!
//! From the loosest operator to the tightest, with the precedence of Rust:
//!
//! ```text
//! condition  = condition "||" condition
//!            | condition "&&" condition
//!            | value ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) value          does not chain
//!            | value ( "~" | "!~" ) STRING                                    glob: * any characters, ? one
//!            | value "&" value                                                bit test: any bit in common
//!            | "!" condition | "has" "(" path ")" | "(" condition ")"
//!            | path                                                           of a boolean field
//! value      = value ( "|" | "^" | "&" | "<<" | ">>" | "+" | "-" | "*" | "/" | "%" ) value
//!            | "-" value | "(" value ")" | path | NUMBER | STRING | "true" | "false"
//! path       = [ "$ctx" "." ] NAME { "." NAME }                               `NAME` in backquotes may hold any characters
//! NUMBER     = decimal, 0x…, 0o…, 0b…, with `_` between digits, a fraction, an exponent; then
//!              K, M, G (1024, 1024², 1024³) or ns, us, ms, s (nanoseconds)
//! STRING     = "…" with \" \\ \n \t
//! ```
//!
//! # Meaning
//!
//! - All integers are compared and calculated as what they are, signed and unsigned alike, in 128 bits.
//! - A value is *missing* where an `Option` is `None`, an enum with data has another variant, a division or remainder is by
//!   zero, a shift is by less than 0 or more than 127, or a result does not fit 128 bits. What is calculated from a missing
//!   value is missing. **A comparison with a missing value is false, whatever the operator**: so `!(x == 1)` and `x != 1` differ
//!   where `x` is missing. `has(x)` is true if `x` is there.
//! - Where an expression is for events of several classes, a condition on a name that a class lacks does not hold for its events,
//!   and neither does its negation. A name that none of the classes has is an error.
//! - Integers and floats compare exactly, without rounding. Arithmetic on both is in floats; floats follow IEEE 754.
//! - Integer division truncates towards zero. `>>` keeps the sign.
//! - An enumeration compares with its names as strings, by value with numbers, and matches globs by name. A value without a
//!   name differs from every name.
//! - Strings compare byte by byte. Globs take time in proportion to the lengths of pattern and text, multiplied; everything
//!   else, in proportion to the text.
//!
//! # Signal safety
//!
//! [`Program::accepts`] allocates nothing, takes no lock, does not panic or recurse, and is wait-free: each step of a program
//! is executed at most once. It uses some 400 bytes of stack.

#![no_std]

extern crate alloc;

mod arithmetic;
mod check;
mod compile;
mod error;
mod parse;
mod program;
mod scope;
mod survey;
mod syntax;
mod token;

pub use error::{Error, Excerpt};
pub use program::{Comparison, Input, Program, Record};
pub use scope::{Field, Kind, Label, Scope};
pub use survey::Survey;
pub use syntax::{Expression, Key};
pub use trace_registry::field::{Step, Value};
