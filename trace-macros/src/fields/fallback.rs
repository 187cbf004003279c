//! Fallback: impls without fields, so that uses of a broken type give no errors of their own.

use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

pub(super) fn event(input: &DeriveInput) -> TokenStream {
    let ident = &input.ident;
    let (impl_generics, type_generics, clause) = input.generics.split_for_impl();
    quote! {
        impl #impl_generics __rt::Event for #ident #type_generics #clause {
            type Class = __rt::NoEvent;
            const DESCRIPTION: &'static __rt::EventClass = <__rt::NoEvent as __rt::Event>::DESCRIPTION;
            const SIZES: __rt::Sizes = __rt::Sizes::NONE;
            fn write<'__payload>(&'__payload self, _: &mut __rt::Payload<'__payload>) {}
            fn value(&self, _: ::core::primitive::u16, _: &[__rt::Step]) -> __rt::Value<'_> {
                __rt::Value::Missing
            }
        }
    }
}

pub(super) fn field(input: &DeriveInput) -> TokenStream {
    let ident = &input.ident;
    let (impl_generics, type_generics, clause) = input.generics.split_for_impl();
    quote! {
        impl #impl_generics __rt::Field for #ident #type_generics #clause {
            const CLASS: __rt::FieldClass = __rt::FieldClass::Structure { fields: &[] };
            const SIZES: __rt::Sizes = __rt::Sizes::NONE;
            fn write<'__payload>(&'__payload self, _: &mut __rt::Payload<'__payload>) {}
            fn value(&self, _: &[__rt::Step]) -> __rt::Value<'_> {
                __rt::Value::Missing
            }
        }
    }
}
