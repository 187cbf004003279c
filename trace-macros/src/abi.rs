//! `#[derive(Abi)]`: a hash of the layout of a type.
//!
//! The compiler says where fields lie, how large they are and what their types hash to. Of an enum with data it does not say
//! how it is laid out; that follows from what is hashed: `repr`, the discriminants, and names and types of the fields, in their
//! order. Lifetimes are no part of a layout, and none of a constant either: they are hashed as they are written. So a type with
//! lifetimes must be written by its own name ([`named`]), and not by a macro or as an associated type ([`concealed`]): behind those,
//! and behind an alias, they could not be seen.

use crate::lifetimes;
use crate::support::{name_hash, scope};
use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote};
use std::collections::BTreeSet;
use syn::punctuated::Punctuated;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Data, DeriveInput, Expr, Field, Fields, GenericParam, Generics, Ident, Lifetime, Meta, Path, PathArguments, Token, Type,
    TypeMacro, TypePath, TypeReference, WherePredicate,
};

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
    if let Some(place) = of_fields(input).iter().find_map(|field| concealed(&field.ty)) {
        let message = "the lifetimes of this type are not all written here: `Abi` hashes them as they are written, so name the type \
                       itself in place of a macro or an associated type";
        return Err(syn::Error::new_spanned(place, message));
    }
    let parameters: Vec<Lifetime> = input.generics.lifetimes().map(|parameter| parameter.lifetime.clone()).collect();
    let (generics, arguments, clause) = input.generics.split_for_impl();
    let name = ident.to_string();
    let representation = Representation::of(input)?;
    let (kind, steps) = match &input.data {
        Data::Struct(data) => ("struct", fields(&data.fields, &parameters, true)),
        Data::Enum(data) => {
            let mut values = Values { integer: representation.integer(), explicit: None, behind: 0 };
            let variants = data.variants.iter().map(|variant| {
                let (name, value) =
                    (variant.ident.to_string(), values.next(variant.discriminant.as_ref().map(|(_, value)| value)));
                let fields = fields(&variant.fields, &parameters, false);
                quote! {
                    hash = __rt::hash(__rt::hash(hash, "variant", &[]), #name, &[#value as ::core::primitive::u64]);
                    #fields
                }
            });
            ("enum", quote!(#(#variants)*))
        }
        Data::Union(data) => {
            return Err(syn::Error::new_spanned(data.union_token, "a union does not say what it holds: it has no `Abi`"));
        }
    };
    let (words, bounds) = (representation.0.into_iter(), outlives(&input.generics, &parameters));
    let number = parameters.len() as u64;
    let own_name = name_hash(&name);
    let own_name = (number > 0).then(|| {
        quote! {
            // SAFETY: it is the name of the type.
            unsafe impl #generics __rt::Named<#own_name> for #ident #arguments #clause {}
        }
    });
    let names = named_by_fields(input);
    let items = quote! {
        // SAFETY: names, offsets, types and lifetimes of all fields are hashed; for an enum, what the compiler lays it out from.
        unsafe impl #generics __rt::Abi for #ident #arguments #clause {
            const HASH: ::core::primitive::u64 = {
                let mut hash = __rt::hash(__rt::hash(__rt::SEED, #kind, &[]), #name, &[
                    ::core::mem::size_of::<Self>() as ::core::primitive::u64,
                    ::core::mem::align_of::<Self>() as ::core::primitive::u64,
                    #number,
                    #(#bounds,)*
                ]);
                #(hash = __rt::hash(hash, #words, &[]);)*
                #steps
                hash
            };
        }
        #own_name
        #names
    };
    Ok(scope(None, &items))
}

/// The words of `repr`, sorted: some of them decide how values are passed, and not only how they lie in memory.
struct Representation(BTreeSet<String>);

impl Representation {
    fn of(input: &DeriveInput) -> syn::Result<Representation> {
        let mut words = BTreeSet::new();
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
            let list = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)?;
            words.extend(list.into_iter().map(|word| format!("repr {}", word.to_token_stream())));
        }
        Ok(Representation(words))
    }

    /// The type of discriminants.
    fn integer(&self) -> Ident {
        let is_integer =
            |word: &&str| word.starts_with(['u', 'i']) && word[1..].starts_with(|c: char| c.is_ascii_digit() || c == 's');
        let word = self.0.iter().filter_map(|word| word.strip_prefix("repr ")).find(is_integer);
        Ident::new(word.unwrap_or("isize"), proc_macro2::Span::call_site())
    }
}

/// The discriminants of an enum, as the compiler numbers them.
struct Values<'i> {
    integer: Ident,
    /// The last one that is written.
    explicit: Option<&'i Expr>,
    behind: i128,
}

impl<'i> Values<'i> {
    fn next(&mut self, written: Option<&'i Expr>) -> TokenStream {
        if written.is_some() {
            (self.explicit, self.behind) = (written, 0);
        }
        let (integer, behind) = (&self.integer, self.behind);
        self.behind += 1;
        match self.explicit {
            None => quote!(#behind),
            Some(value) => quote! {
                ({
                    let value: ::core::primitive::#integer = #value;
                    value as ::core::primitive::i128
                } + #behind)
            },
        }
    }
}

/// Which lifetime parameters outlive which others, by their numbers.
fn outlives(generics: &Generics, parameters: &[Lifetime]) -> BTreeSet<u64> {
    let number = |lifetime: &Lifetime| number(lifetime, parameters);
    let pair = |longer: &Lifetime, shorter: &Lifetime| (number(longer) << 32) | number(shorter);
    let of_parameters = generics.lifetimes().flat_map(|p| p.bounds.iter().map(move |bound| (&p.lifetime, bound)));
    let predicates = generics.where_clause.iter().flat_map(|clause| &clause.predicates);
    let of_clause = predicates.filter_map(|predicate| match predicate {
        WherePredicate::Lifetime(predicate) => Some(predicate.bounds.iter().map(move |bound| (&predicate.lifetime, bound))),
        _ => None,
    });
    of_parameters.chain(of_clause.flatten()).map(|(longer, shorter)| pair(longer, shorter)).collect()
}

/// What stands for a lifetime: 0 for `'static`, and the place of a parameter, from 1.
fn number(lifetime: &Lifetime, parameters: &[Lifetime]) -> u64 {
    if lifetime.ident == "static" {
        return 0;
    }
    // One that the type binds itself has no place.
    parameters.iter().position(|parameter| parameter == lifetime).map_or(u32::MAX.into(), |at| at as u64 + 1)
}

fn fields(fields: &Fields, parameters: &[Lifetime], has_offsets: bool) -> TokenStream {
    let steps = fields.members().zip(fields).map(|(member, Field { ty, .. })| {
        let name = match &member {
            syn::Member::Named(name) => name.to_string(),
            syn::Member::Unnamed(index) => index.index.to_string(),
        };
        let offset =
            if has_offsets { quote!(::core::mem::offset_of!(Self, #member) as ::core::primitive::u64) } else { quote!(0) };
        let lifetimes = lifetimes::all(ty).into_iter().map(|lifetime| number(&lifetime, parameters));
        quote!(hash = __rt::hash(hash, #name, &[#offset, <#ty as __rt::Abi>::HASH, #(#lifetimes),*]);)
    });
    quote!(#(#steps)*)
}

/// The part of a type whose lifetimes cannot be seen, if there is one: a macro, an associated type, or what has arguments before its
/// last name.
pub(crate) fn concealed(ty: &Type) -> Option<TokenStream> {
    struct Look(Option<TokenStream>);

    impl VisitMut for Look {
        fn visit_type_macro_mut(&mut self, ty: &mut TypeMacro) {
            self.0.get_or_insert_with(|| ty.to_token_stream());
        }

        fn visit_type_path_mut(&mut self, ty: &mut TypePath) {
            let mut before = ty.path.segments.iter().rev().skip(1);
            if ty.qself.is_some() || before.any(|segment| !matches!(segment.arguments, PathArguments::None)) {
                self.0.get_or_insert_with(|| ty.to_token_stream());
            }
            visit_mut::visit_type_path_mut(self, ty);
        }
    }

    let mut look = Look(None);
    look.visit_type_mut(&mut ty.clone());
    look.0
}

/// Types that a type names and that have lifetimes, or are made of such, with what stands for their names: an alias could have them
/// elsewhere, in another order, or not at all.
pub(crate) fn named(ty: &Type) -> Vec<(TypePath, u64)> {
    struct Paths(Vec<(TypePath, u64)>);

    impl VisitMut for Paths {
        fn visit_type_path_mut(&mut self, ty: &mut TypePath) {
            if let Some(last) = ty.path.segments.last() {
                let mut look = Lifetimes(false);
                look.visit_path_arguments_mut(&mut last.arguments.clone());
                if look.0 {
                    self.0.push((ty.clone(), name_hash(&last.ident.to_string())));
                }
            }
            visit_mut::visit_type_path_mut(self, ty);
        }
    }

    /// Whether there are any, written or elided.
    struct Lifetimes(bool);

    impl VisitMut for Lifetimes {
        fn visit_lifetime_mut(&mut self, _: &mut Lifetime) {
            self.0 = true;
        }

        fn visit_type_reference_mut(&mut self, _: &mut TypeReference) {
            self.0 = true;
        }
    }

    let mut paths = Paths(Vec::new());
    paths.visit_type_mut(&mut ty.clone());
    paths.0
}

/// Types that everybody calls so, and that have no lifetimes of their own which could be elided.
const PLAIN: [&str; 25] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32", "f64", "bool", "char", "str",
    "String", "Duration", "Option", "Vec", "Box", "Arc", "Result", "NonNull",
];

/// Whether a type names one that may have lifetimes which are not written. For the others nothing is generated: the time that a
/// macro takes goes by its tokens.
pub(crate) fn may_elide(ty: &Type) -> bool {
    struct Look(bool);

    impl VisitMut for Look {
        fn visit_type_path_mut(&mut self, ty: &mut TypePath) {
            self.0 |= ty.path.segments.last().is_some_and(|last| !PLAIN.iter().any(|plain| last.ident == plain));
            visit_mut::visit_type_path_mut(self, ty);
        }
    }

    let mut look = Look(false);
    look.visit_type_mut(&mut ty.clone());
    look.0
}

fn of_fields(input: &DeriveInput) -> Vec<&Field> {
    match &input.data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|variant| &variant.fields).collect(),
        Data::Union(_) => Vec::new(),
    }
}

/// Checks that the fields name types with lifetimes by their own names.
fn named_by_fields(input: &DeriveInput) -> Option<TokenStream> {
    let checks: Vec<TokenStream> = of_fields(input)
        .into_iter()
        .flat_map(|field| named(&field.ty))
        .map(|(path, name)| {
            let ty = lifetimes::made_static(Type::Path(path));
            quote!(__rt::is_named::<#ty, #name>();)
        })
        .collect();
    (!checks.is_empty()).then(|| quote!(const _: () = { #(#checks)* };))
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
