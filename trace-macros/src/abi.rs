//! `#[derive(Abi)]`: a hash of the layout of a type.

use crate::support::scope;
use proc_macro2::TokenStream;
use quote::quote;
use syn::visit_mut::{self, VisitMut};
use syn::{Data, DeriveInput, Fields, GenericParam, Ident, Path, TypePath};

pub(crate) fn derive(item: TokenStream) -> TokenStream {
    match syn::parse2(item).and_then(|input| expand(&input)) {
        Ok(tokens) => tokens,
        Err(error) => error.to_compile_error(),
    }
}

fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    if let Some(parameter) = input.generics.params.iter().find(|p| !matches!(p, GenericParam::Lifetime(_))) {
        let message = "a type with type or const parameters has many layouts; derive `Abi` for a type without, which may hold it";
        return Err(syn::Error::new_spanned(parameter, message));
    }
    let ident = &input.ident;
    if let Some(place) = Recursion::in_fields(input) {
        let message = format!("`{ident}` refers to itself, so that its hash would be made from itself: it has no `Abi`");
        return Err(syn::Error::new_spanned(place, message));
    }
    let (generics, arguments, clause) = input.generics.split_for_impl();
    let name = ident.to_string();
    let steps = match &input.data {
        Data::Struct(data) => fields(&data.fields, true),
        Data::Enum(data) => {
            let is_plain = data.variants.iter().all(|v| matches!(v.fields, Fields::Unit));
            let variants = data.variants.iter().map(|variant| {
                let (of_variant, name) = (&variant.ident, variant.ident.to_string());
                // A value with data cannot be made an integer: its place among the others stands for it.
                let value = if is_plain {
                    quote!(#ident::#of_variant as ::core::primitive::i128 as ::core::primitive::u64)
                } else {
                    quote!(0)
                };
                let fields = fields(&variant.fields, false);
                quote! {
                    hash = __rt::hash(hash, #name, &[#value]);
                    #fields
                }
            });
            quote!(#(#variants)*)
        }
        Data::Union(data) => {
            return Err(syn::Error::new_spanned(data.union_token, "a union does not say what it holds: it has no `Abi`"));
        }
    };
    let items = quote! {
        // SAFETY: names, offsets and types of all fields are hashed; for an enum with data, what the compiler lays it out from.
        unsafe impl #generics __rt::Abi for #ident #arguments #clause {
            const HASH: ::core::primitive::u64 = {
                let mut hash = __rt::hash(__rt::SEED, #name, &[
                    ::core::mem::size_of::<Self>() as ::core::primitive::u64,
                    ::core::mem::align_of::<Self>() as ::core::primitive::u64,
                ]);
                #steps
                hash
            };
        }
    };
    Ok(scope(None, &items))
}

/// Looks for the name of a type among the types of its fields.
struct Recursion<'i> {
    of: &'i Ident,
    found: Option<Path>,
}

impl Recursion<'_> {
    fn in_fields(input: &DeriveInput) -> Option<Path> {
        let mut look = Recursion { of: &input.ident, found: None };
        look.visit_data_mut(&mut input.data.clone());
        look.found
    }
}

impl VisitMut for Recursion<'_> {
    fn visit_type_path_mut(&mut self, ty: &mut TypePath) {
        if ty.path.segments.len() == 1 && (ty.path.is_ident("Self") || ty.path.segments[0].ident == *self.of) {
            self.found.get_or_insert_with(|| ty.path.clone());
        }
        visit_mut::visit_type_path_mut(self, ty);
    }
}

fn fields(fields: &Fields, has_offsets: bool) -> TokenStream {
    let steps = fields.members().zip(fields).map(|(member, field)| {
        let ty = &field.ty;
        let name = match &member {
            syn::Member::Named(name) => name.to_string(),
            syn::Member::Unnamed(index) => index.index.to_string(),
        };
        let offset =
            if has_offsets { quote!(::core::mem::offset_of!(Self, #member) as ::core::primitive::u64) } else { quote!(0) };
        quote!(hash = __rt::hash(hash, #name, &[#offset, <#ty as __rt::Abi>::HASH]);)
    });
    quote!(#(#steps)*)
}
