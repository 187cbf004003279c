//! `#[tracepoint]`.
//!
//! It expands in two stages. An attribute cannot know where it stands, and inside a trait, an impl or an extern block the
//! type of a tracepoint is a syntax error for each of its items. So the first stage leaves a single item, an enum that
//! carries the declaration in the attribute of the second stage: where an enum cannot stand, that is the one error.

mod expand;
mod fallback;
mod model;
mod validate;

use crate::errors::Errors;
use crate::function;
use crate::support::support;
pub(crate) use expand::spaced;
use model::{Annotated, Declaration, End, Tracepoint, Words};
use proc_macro2::{Delimiter, Group, Span, TokenStream};
use quote::{quote, quote_spanned};

/// First stage: reports the mistakes, or hands the declaration to the second stage.
pub(crate) fn declare(options: TokenStream, item: TokenStream) -> TokenStream {
    let declaration = match Annotated::from_item(item.clone()) {
        Ok(Annotated::Declaration(declaration)) => declaration,
        Ok(Annotated::Implementation(block)) => return function::implementation(*block, options),
        Ok(Annotated::Module(module)) => return function::module(*module, options),
        Err(error) => return error.to_compile_error(),
    };
    if let End::Body(body) = &declaration.end {
        let Declaration { attrs, vis, sig, .. } = &*declaration;
        return function::function(attrs, &quote!(#vis #sig), sig, body, options);
    }
    let (tracepoint, errors) = model(&declaration, options.clone());
    let krate = tracepoint.words.krate.as_ref();
    if let Some(errors) = errors.into_tokens() {
        let stub = fallback::stub(&declaration, krate);
        return quote!(#errors #stub);
    }
    let support = support(krate);
    let conditions = declaration.attrs.iter().filter(|a| a.path().is_ident("cfg"));
    let ident = &declaration.sig.ident;
    // This span is what an error in the wrong place shows.
    let at = declaration.sig.fn_token.span.resolved_at(Span::call_site());
    let mut body = Group::new(Delimiter::Brace, TokenStream::new());
    body.set_span(ident.span());
    let carrier = quote_spanned!(at=> enum #ident #body);
    quote! {
        #(#conditions)*
        #[#support::declare({ #options } #item)]
        #carrier
    }
}

/// Second stage: `{ options } item` becomes the tracepoint.
pub(crate) fn define(declaration: TokenStream) -> TokenStream {
    let parts = |input: syn::parse::ParseStream<'_>| Ok((input.parse::<Group>()?, input.parse::<Declaration>()?));
    match syn::parse::Parser::parse2(parts, declaration) {
        Ok((options, declaration)) => {
            let (tracepoint, errors) = model(&declaration, options.stream());
            errors.into_tokens().unwrap_or_else(|| expand::expand(&tracepoint))
        }
        Err(error) => error.to_compile_error(),
    }
}

fn model(declaration: &Declaration, options: TokenStream) -> (Tracepoint, Errors) {
    let mut errors = Errors::default();
    let words = Words::parse(options, &mut errors);
    let tracepoint = validate::validate(declaration, words, &mut errors);
    (tracepoint, errors)
}
