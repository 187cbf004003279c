//! Rules for Rust sources: what may stand where.

use super::{Context, Finding};
use anyhow::{Context as _, Result};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::str::FromStr;
use syn::visit::{self, Visit};

/// Files, or directories that end in `/`, and why they may.
type Places = &'static [(&'static str, &'static str)];

/// Where `asm!` and `global_asm!` may stand.
const ASSEMBLY: Places = &[
    ("trace-registry/src/sys/", "per-thread block, restartable sequences"),
    ("trace-registry/src/mutation.rs", "switches that assembly reads; in no usual build"),
    ("trace-runtime/src/sys/", "counters, constructors"),
    ("trace-runtime/src/ring_buffer/sequence/", "the append: one restartable sequence"),
    ("trace-runtime/src/clock/", "reading the time stamp counter"),
];

/// Where `libc::` may stand. All else goes through `rustix` or `sys`.
const C_LIBRARY: Places = &[
    ("trace-registry/src/sys/", "raw rseq registration"),
    ("trace-runtime/src/sys/", "what rustix lacks"),
    ("trace-control/src/sys.rs", "peers in other PID namespaces, locks of open files"),
    ("trace-runtime/src/ring_buffer/", "what rustix lacks; a library of its own"),
    ("trace-runtime/src/clock/", "what rustix lacks"),
];

/// Where `core::sync::atomic` may be named. All else takes its atomics from `sync`, so that loom can stand in.
const ATOMICS: Places = &[
    ("trace-registry/src/sync.rs", "the one place"),
    ("trace-runtime/src/sync.rs", "the one place"),
    ("trace-registry/src/field/scalars.rs", "users' atomics as fields"),
];

fn allowed(path: &str, places: Places) -> bool {
    places.iter().any(|(place, _)| if place.ends_with('/') { path.starts_with(place) } else { path == *place })
}

pub(super) fn assembly(context: &Context) -> Result<Vec<Finding>> {
    let found =
        |_: &[String], name: &str, after: &[String]| matches!(name, "asm" | "global_asm" | "naked_asm") && starts(after, &["!"]);
    outside(context, ASSEMBLY, "assembly belongs into a `sys` module", &found)
}

pub(super) fn c_library(context: &Context) -> Result<Vec<Finding>> {
    let found = |_: &[String], name: &str, after: &[String]| name == "libc" && starts(after, &[":", ":"]);
    outside(context, C_LIBRARY, "the C library is called by `sys` modules only; elsewhere use rustix", &found)
}

pub(super) fn atomics(context: &Context) -> Result<Vec<Finding>> {
    let found = |_: &[String], name: &str, after: &[String]| name == "atomic" && starts(after, &[":", ":"]);
    outside(context, ATOMICS, "take atomics from the crate's `sync` module, which loom can replace", &found)
}

fn starts(tokens: &[String], with: &[&str]) -> bool {
    tokens.len() >= with.len() && tokens.iter().zip(with).all(|(a, b)| a == b)
}

/// Whether an identifier, with the tokens before and after it in its group, is what a rule looks for.
type Between = dyn Fn(&[String], &str, &[String]) -> bool;

/// Looks for an identifier between its neighbours, outside `places` and outside `#[cfg(test)]` modules.
fn outside(context: &Context, places: Places, message: &str, found: &Between) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in context.library_sources().filter(|f| !allowed(&f.path, places)) {
        let tokens = TokenStream::from_str(&file.text).ok().with_context(|| format!("{}: no Rust", file.path))?;
        let mut lines = Vec::new();
        identifiers(tokens, &mut lines, found);
        findings.extend(lines.into_iter().map(|line| Finding::at(&file.path, line, message)));
    }
    Ok(findings)
}

/// Walks all tokens, those inside macros and quotations too.
fn identifiers(tokens: TokenStream, lines: &mut Vec<usize>, found: &Between) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let words: Vec<String> = tokens
        .iter()
        .map(|t| match t {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => "{}".to_string(),
            TokenTree::Group(_) => "()".to_string(),
            token => token.to_string(),
        })
        .collect();
    let mut in_test = false;
    for (i, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => {
                let attribute = i > 0 && words[i - 1] == "#";
                if attribute && group.stream().to_string().replace(' ', "") == "cfg(test)" {
                    in_test = true;
                } else if in_test && group.delimiter() == Delimiter::Brace {
                    in_test = false;
                } else if !in_test {
                    identifiers(group.stream(), lines, found);
                }
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => in_test = false,
            TokenTree::Ident(_) if !in_test && found(&words[..i], &words[i], &words[i + 1..]) => {
                lines.push(token.span().start().line);
            }
            _ => {}
        }
    }
}

/// `if let … && …` is Rust 1.88. clippy's `incompatible_msrv` looks at the library only, not at syntax.
pub(super) fn let_chains(context: &Context) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in context.library_sources() {
        let mut chains = LetChains::default();
        chains.visit_file(&syn::parse_file(&file.text).with_context(|| file.path.clone())?);
        let message = "a let chain: the libraries support Rust 1.85, so nest the conditions";
        findings.extend(chains.lines.into_iter().map(|line| Finding::at(&file.path, line, message)));
    }
    Ok(findings)
}

#[derive(Default)]
struct LetChains {
    lines: Vec<usize>,
}

impl<'ast> Visit<'ast> for LetChains {
    fn visit_expr_binary(&mut self, expression: &'ast syn::ExprBinary) {
        let is_let = |side: &syn::Expr| matches!(side, syn::Expr::Let(_));
        if matches!(expression.op, syn::BinOp::And(_)) && (is_let(&expression.left) || is_let(&expression.right)) {
            self.lines.push(syn::spanned::Spanned::span(&expression.op).start().line);
        }
        visit::visit_expr_binary(self, expression);
    }

    /// What a macro is given, and what `quote!` gives to a user's crate, is not parsed; there the tokens `&& let` are looked for.
    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        identifiers(called.tokens.clone(), &mut self.lines, &|before, name, _| {
            name == "let" && before.ends_with(&AND.map(String::from))
        });
    }
}

const AND: [&str; 2] = ["&", "&"];

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(source: &str) -> Vec<usize> {
        let mut chains = LetChains::default();
        chains.visit_file(&syn::parse_file(source).expect("test source"));
        chains.lines
    }

    #[test]
    fn let_chains_are_found() {
        assert_eq!(lines("fn f() { if let Some(x) = y\n && x > 1 {} }"), [2]);
        assert_eq!(lines("fn f() { while a && let Some(x) = y {} }"), [1]);
        assert_eq!(lines("fn f() { quote! { if #a && let Some(x) = y {} } }"), [1]);
        assert!(lines("fn f() { if let Some(x) = y { if a && b {} } }").is_empty());
    }

    #[test]
    fn tests_and_words_in_comments_do_not_count() {
        let source = "// libc::open\nuse a::{sync::atomic::X}; #[cfg(test)] mod tests { use core::sync::atomic::Y; }\nfn f() { m!(atomic::Z) }";
        let mut found = Vec::new();
        identifiers(source.parse().expect("tokens"), &mut found, &|_, name, after| {
            name == "atomic" && starts(after, &[":", ":"])
        });
        assert_eq!(found, [2, 3]);
    }
}
