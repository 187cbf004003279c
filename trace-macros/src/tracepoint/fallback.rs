//! Fallback: an inert stub of a broken declaration, so that what uses it gives no errors of its own.

use super::model::Declaration;
use crate::support::{Krate, scope};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::visit_mut::{self, VisitMut};
use syn::{FnArg, ReturnType, Type, parse_quote};

/// Returns a function, and a type where one can stand, that take what the declaration takes and do nothing.
pub(super) fn stub(declaration: &Declaration, krate: Option<&Krate>) -> TokenStream {
    let Declaration { attrs, vis, sig, .. } = declaration;
    let (ident, generics, output) = (&sig.ident, &sig.generics, returned(&sig.output));
    let clause = &generics.where_clause;
    let safety = &sig.safety;
    let types = types(declaration);
    if let Some(receiver) = sig.receiver() {
        return quote! {
            #(#attrs)* #[allow(dead_code)]
            #vis #safety fn #ident #generics (#receiver, #(_: #types),*) #output #clause { loop {} }
        };
    }
    let is_opaque = types.iter().any(|ty| ty.to_token_stream().into_iter().any(|token| token.to_string() == "impl"));
    // Closures cannot take `impl Trait`.
    let attach = (!is_opaque).then(|| {
        quote! {
            #vis fn attach #generics (_: impl Fn(#(#types),*)) -> __rt::AttachGuard #clause { loop {} }
            #vis unsafe fn attach_reentrant #generics (_: impl Fn(#(#types),*)) -> __rt::AttachGuard #clause { loop {} }
        }
    });
    let impls = quote! {
        #[allow(dead_code)]
        impl #ident {
            #vis fn enabled() -> bool { false }
            #[doc(hidden)]
            #vis fn __emit #generics (#(_: #types),*) #clause {}
            #[doc(hidden)]
            #vis fn __probe<F>(self, _: F) -> __rt::ErasedProbe { loop {} }
            #attach
        }
        // SAFETY: it is declared nowhere, and there is no descriptor.
        unsafe impl __rt::Tracepoint for #ident {
            type Itself = Self;
            fn descriptor() -> &'static __rt::TracepointDescriptor { loop {} }
        }
        // SAFETY: as above.
        unsafe impl<const N: usize> __rt::Takes<N> for #ident {
            type Itself = Self;
            const ITSELF: Self = Self::__Itself;
        }
    };
    let impls = scope(krate, &impls);
    quote! {
        #(#attrs)* #[allow(dead_code)]
        #vis #safety fn #ident #generics (#(_: #types),*) #output #clause { loop {} }
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        #vis enum #ident { __Itself }
        #impls
    }
}

/// The argument types; `()` stands for `_`, which no signature may have.
fn types(declaration: &Declaration) -> Vec<Type> {
    struct Written;
    impl VisitMut for Written {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            match ty {
                Type::Infer(_) => *ty = parse_quote!(()),
                _ => visit_mut::visit_type_mut(self, ty),
            }
        }
    }
    let typed = |input: &FnArg| match input {
        FnArg::Typed(argument) => {
            let mut ty = (*argument.ty).clone();
            Written.visit_type_mut(&mut ty);
            Some(ty)
        }
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
