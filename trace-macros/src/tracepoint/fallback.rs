//! Fallback: an inert stub of a broken declaration, so that what uses it gives no errors of its own.

use super::model::Declaration;
use crate::support::Support;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{FnArg, ReturnType, Type};

/// Returns a function, and a type where one can stand, that take what the declaration takes and do nothing.
pub(super) fn stub(declaration: &Declaration, support: &Support) -> TokenStream {
    let Declaration { attrs, vis, sig, .. } = declaration;
    let (ident, generics, output) = (&sig.ident, &sig.generics, returned(&sig.output));
    let clause = &generics.where_clause;
    let safety = &sig.safety;
    if let Some(receiver) = sig.receiver() {
        let types = types(declaration);
        return quote! {
            #(#attrs)* #[allow(dead_code)]
            #vis #safety fn #ident #generics (#receiver, #(_: #types),*) #output #clause { loop {} }
        };
    }
    let types = types(declaration);
    let takes = format_ident!("takes_{}_arguments", types.len());
    quote! {
        #(#attrs)* #[allow(dead_code)]
        #vis #safety fn #ident #generics (#(_: #types),*) #output #clause { loop {} }
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        #vis enum #ident {}
        #[allow(dead_code)]
        impl #ident {
            #vis fn enabled() -> bool { false }
            #[doc(hidden)]
            #vis fn __emit #generics (#(_: #types),*) #clause {}
            #[doc(hidden)]
            #vis fn #takes<F>(_: F) -> #support::ErasedProbe { loop {} }
        }
        impl #support::Tracepoint for #ident {
            type Itself = Self;
            fn descriptor() -> &'static #support::TracepointDescriptor { loop {} }
        }
    }
}

fn types(declaration: &Declaration) -> Vec<&Type> {
    let typed = |input| match input {
        &FnArg::Typed(ref argument) => Some(&*argument.ty),
        FnArg::Receiver(_) => None,
    };
    declaration.sig.inputs.iter().filter_map(typed).collect()
}

/// The return type, so that a caller's use of it is not an error too; `impl Trait` would need a value.
fn returned(output: &ReturnType) -> Option<&ReturnType> {
    match output {
        ReturnType::Type(_, ty) if !matches!(**ty, Type::ImplTrait(_)) => Some(output),
        _ => None,
    }
}
