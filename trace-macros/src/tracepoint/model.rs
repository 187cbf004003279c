//! Parse and model: what a declaration says, right or wrong.

use crate::errors::Errors;
use crate::fields::Recorded;
use crate::options::Options;
use crate::support::Krate;
use proc_macro2::{Group, Span, TokenStream, TokenTree};
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Attribute, Ident, ItemImpl, ItemMod, LifetimeParam, LitStr, Signature, Token, Type, Visibility};

/// `attributes visibility signature ;`, as it is written.
pub(super) struct Declaration {
    pub(super) attrs: Vec<Attribute>,
    pub(super) vis: Visibility,
    pub(super) sig: Signature,
    pub(super) end: End,
}

pub(super) enum End {
    Semicolon(Span),
    Body(Group),
}

impl Parse for Declaration {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let (vis, sig) = (input.parse()?, input.parse()?);
        let end = if input.peek(syn::token::Brace) {
            End::Body(input.parse()?)
        } else {
            End::Semicolon(input.parse::<Token![;]>()?.span)
        };
        Ok(Declaration { attrs, vis, sig, end })
    }
}

/// What the attribute stands on.
pub(super) enum Annotated {
    /// A function, with or without a body.
    Declaration(Box<Declaration>),
    Implementation(Box<ItemImpl>),
    Module(Box<ItemMod>),
}

impl Annotated {
    pub(super) fn from_item(item: TokenStream) -> syn::Result<Annotated> {
        let head = |input: ParseStream<'_>| {
            input.call(Attribute::parse_outer)?;
            input.parse::<Visibility>()?;
            while !input.peek(Token![impl]) && (input.peek(Token![unsafe]) || input.peek(Token![default])) {
                input.parse::<TokenTree>()?;
            }
            let found = (input.peek(Token![impl]), input.peek(Token![mod]));
            input.parse::<TokenStream>()?;
            Ok(found)
        };
        let (is_impl, is_module) = Parser::parse2(head, item.clone()).unwrap_or_default();
        if is_impl {
            return syn::parse2(item).map(Annotated::Implementation);
        }
        if is_module {
            return syn::parse2(item).map(Annotated::Module);
        }
        let is_function = item.clone().into_iter().any(|t| matches!(t, TokenTree::Ident(word) if word == "fn"));
        if !is_function {
            let message = "a tracepoint is declared as a function without a body: `fn name(arguments);`; what has a body and can \
                           be traced is a function, an impl block or an inline module";
            return Err(syn::Error::new_spanned(item, message));
        }
        syn::parse2(item).map(Annotated::Declaration)
    }
}

/// The words inside `#[tracepoint(…)]`.
pub(super) struct Words {
    pub(super) name: Option<LitStr>,
    pub(super) record: Option<Ident>,
    pub(super) level: Option<Ident>,
    pub(super) reentrant: bool,
    pub(super) krate: Option<Krate>,
}

impl Words {
    pub(super) fn parse(tokens: TokenStream, errors: &mut Errors) -> Words {
        let known = ["name", "record", "level", "reentrant", "crate"];
        let mut options = Options::parse(tokens, "`#[tracepoint]`", &known, errors);
        Words {
            name: options.event_name(errors),
            record: options.flag("record", errors),
            level: options.level(errors),
            reentrant: options.flag("reentrant", errors).is_some(),
            krate: options.krate(errors),
        }
    }
}

/// A tracepoint without mistakes.
pub(super) struct Tracepoint {
    pub(super) attrs: Vec<Attribute>,
    pub(super) vis: Visibility,
    /// The signature, arguments without attributes.
    pub(super) sig: Signature,
    pub(super) lifetimes: Vec<LifetimeParam>,
    /// Names and types.
    pub(super) arguments: Vec<(Ident, Type)>,
    /// The event of `record`.
    pub(super) recorded: Option<Recorded>,
    /// Where the `;` is.
    pub(super) end: Span,
    pub(super) words: Words,
}
