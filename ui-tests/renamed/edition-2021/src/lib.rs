//! Declarations in edition 2021, with the dependency under another name.
#![deny(warnings, missing_docs)]
#![forbid(unsafe_code)]

include!("../../declarations.rs");
