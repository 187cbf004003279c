//! Fallback: impls without fields, so that uses of a broken type give no errors of their own.

use crate::support::Support;
use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

pub(super) fn event(input: &DeriveInput, support: &Support) -> TokenStream {
    let ident = &input.ident;
    let (impl_generics, type_generics, clause) = input.generics.split_for_impl();
    quote! {
        impl #impl_generics #support::Event for #ident #type_generics #clause {
            type Class = #support::NoEvent;
            const DESCRIPTION: &'static #support::EventClass = <#support::NoEvent as #support::Event>::DESCRIPTION;
            const SIZES: #support::Sizes = #support::Sizes::NONE;
            fn write<'__payload>(&'__payload self, _: &mut #support::Payload<'__payload>) {}
        }
    }
}

pub(super) fn field(input: &DeriveInput, support: &Support) -> TokenStream {
    let ident = &input.ident;
    let (impl_generics, type_generics, clause) = input.generics.split_for_impl();
    quote! {
        impl #impl_generics #support::Field for #ident #type_generics #clause {
            const CLASS: #support::FieldClass = #support::FieldClass::Structure { fields: &[] };
            const SIZES: #support::Sizes = #support::Sizes::NONE;
            fn write<'__payload>(&'__payload self, _: &mut #support::Payload<'__payload>) {}
        }
    }
}
