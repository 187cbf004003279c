//! Parse, model, validate: the fields of a type, and what `#[field(…)]` says of each.

use crate::errors::Errors;
use crate::lifetimes;
use crate::options::{Options, Word};
use crate::support::{Krate, hidden, plain};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Data, DeriveInput, Fields, GenericParam, Generics, Ident, Index, LitStr, Member, Meta, Token, Type, parse_quote,
};

/// A type whose fields are recorded.
pub(super) struct Class {
    pub(super) ident: Ident,
    /// What readers see as the name of the class.
    pub(super) name: String,
    pub(super) generics: Generics,
    pub(super) shape: Shape,
    pub(super) krate: Option<Krate>,
    keyword: TokenStream,
}

pub(super) enum Shape {
    Structure(Vec<Field>),
    /// Variants without data; recorded as an integer.
    Enumeration {
        repr: Option<Ident>,
        variants: Vec<Variant>,
    },
    /// Variants of which some have data.
    Variant {
        options: Vec<Variant>,
    },
}

pub(super) struct Variant {
    pub(super) ident: Ident,
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
}

pub(super) struct Field {
    pub(super) member: Member,
    pub(super) name: String,
    pub(super) ty: Type,
    pub(super) format: Format,
    pub(super) unit: Option<LitStr>,
    pub(super) sensitive: bool,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Format {
    /// As the type's `Field` says.
    Plain,
    /// So, but integers are shown in hexadecimal.
    Hex,
    /// Text, by `Debug`.
    Debug,
    /// Text, by `Display`.
    Display,
}

impl Class {
    /// The model of a type; notes what is wrong with it, and has gaps then.
    pub(super) fn of(input: &DeriveInput, errors: &mut Errors) -> Class {
        for parameter in &input.generics.params {
            if !matches!(parameter, GenericParam::Lifetime(_)) {
                errors.push(parameter, "a recorded type cannot be generic: a class has one list of fields");
            }
        }
        let krate = words(&input.attrs, "#[field] of a type", &["crate"], errors).krate(errors);
        let (keyword, shape) = match &input.data {
            Data::Struct(data) => (data.struct_token.to_token_stream(), Shape::Structure(fields(&data.fields, errors))),
            Data::Enum(data) => {
                let variants: Vec<Variant> = data.variants.iter().map(|v| variant(v, errors)).collect();
                unique(variants.iter().zip(&data.variants).map(|(v, at)| (v.name.as_str(), at.to_token_stream())), errors);
                if variants.is_empty() {
                    errors.push(&input.ident, "an enum without variants has no values to record");
                }
                let shape = if data.variants.iter().all(|v| matches!(v.fields, Fields::Unit)) {
                    Shape::Enumeration { repr: repr(&input.attrs), variants }
                } else {
                    if variants.len() > 256 {
                        errors.push(&input.ident, "an enum with data has at most 256 variants: one byte tells them apart");
                    }
                    Shape::Variant { options: variants }
                };
                (data.enum_token.to_token_stream(), shape)
            }
            Data::Union(data) => {
                errors.push(data.union_token, "a union cannot be recorded: nothing tells which of its fields is valid");
                (data.union_token.to_token_stream(), Shape::Structure(Vec::new()))
            }
        };
        let (ident, generics) = (input.ident.clone(), input.generics.clone());
        Class { name: plain(&ident), ident, generics, shape, krate, keyword }
    }

    /// The struct `__RingtraceEvent` and its model, with `arguments` as fields.
    pub(super) fn recorded(
        name: &Ident,
        arguments: &[(Vec<Attribute>, Ident, Type)],
        errors: &mut Errors,
    ) -> (TokenStream, Class) {
        let mut elided = Vec::new();
        let mut named = Vec::new();
        let mut fields = Vec::new();
        for (attrs, ident, ty) in arguments {
            let mut ty = ty.clone();
            named.extend(lifetimes::named(&ty));
            lifetimes::name_elided(&mut ty, &mut elided);
            fields.push(field(attrs, Member::Named(hidden(ident)), ty, errors));
        }
        unique(fields.iter().zip(arguments).map(|(f, (_, at, _))| (f.name.as_str(), at.to_token_stream())), errors);
        named.sort();
        named.dedup();
        let members = fields.iter().map(|f| (&f.member, &f.ty)).map(|(member, ty)| quote!(#member: #ty));
        let item = quote! { struct __RingtraceEvent<#(#named,)* #(#elided),*> { #(#members),* } };
        let class = Class {
            ident: Ident::new("__RingtraceEvent", name.span()),
            name: plain(name),
            generics: parse_quote!(<#(#named,)* #(#elided),*>),
            shape: Shape::Structure(fields),
            krate: None,
            keyword: TokenStream::new(),
        };
        (item, class)
    }

    /// `struct`, `enum` or `union`.
    pub(super) fn keyword(&self) -> &TokenStream {
        &self.keyword
    }
}

fn fields(fields: &Fields, errors: &mut Errors) -> Vec<Field> {
    let members = fields.iter().enumerate().map(|(i, f)| match &f.ident {
        Some(ident) => Member::Named(ident.clone()),
        None => Member::Unnamed(Index::from(i)),
    });
    let found: Vec<Field> = members.zip(fields).map(|(member, f)| field(&f.attrs, member, f.ty.clone(), errors)).collect();
    unique(found.iter().zip(fields).map(|(f, at)| (f.name.as_str(), at.to_token_stream())), errors);
    found
}

fn field(attrs: &[Attribute], member: Member, ty: Type, errors: &mut Errors) -> Field {
    let known = ["rename", "hex", "unit", "sensitive", "debug", "display"];
    let mut options = words(attrs, "`#[field]`", &known, errors);
    let name = match (options.string("rename", errors), &member) {
        (Some(name), _) => renamed(&name, errors),
        (None, Member::Named(ident)) => plain(ident),
        (None, Member::Unnamed(index)) => format!("_{}", index.index),
    };
    let mut format = Format::Plain;
    for (word, this) in [("hex", Format::Hex), ("debug", Format::Debug), ("display", Format::Display)] {
        if let Some(word) = options.flag(word, errors) {
            if format != Format::Plain {
                errors.push(&word, "a field is shown one way: `hex`, `debug` or `display`");
            }
            format = this;
        }
    }
    let unit = options.string("unit", errors);
    if let Some(unit) = unit.as_ref().filter(|u| u.value().is_empty() || u.value().chars().any(char::is_control)) {
        errors.push(unit, "a unit is a short text such as `B` or `ns`");
    }
    let sensitive = options.flag("sensitive", errors).is_some();
    Field { member, name, ty, format, unit, sensitive }
}

fn variant(variant: &syn::Variant, errors: &mut Errors) -> Variant {
    let name = match words(&variant.attrs, "#[field] of a variant", &["rename"], errors).string("rename", errors) {
        Some(name) => renamed(&name, errors),
        None => plain(&variant.ident),
    };
    Variant { ident: variant.ident.clone(), name, fields: fields(&variant.fields, errors) }
}

/// The words of all `#[field(…)]` among `attrs`.
fn words(attrs: &[Attribute], attribute: &str, known: &[&str], errors: &mut Errors) -> Options {
    let mut words = Vec::new();
    for attr in attrs.iter().filter(|a| a.path().is_ident("field")) {
        match &attr.meta {
            Meta::List(list) => {
                words.extend(
                    errors.check(list.parse_args_with(Punctuated::<Word, Token![,]>::parse_terminated)).into_iter().flatten(),
                );
            }
            other => errors.push(other, "expected `#[field(…)]`"),
        }
    }
    Options::new(words, attribute, known, errors)
}

/// A name that filters and trace formats can spell.
fn renamed(name: &LitStr, errors: &mut Errors) -> String {
    let text = name.value();
    let is_identifier = !text.starts_with(|c: char| c.is_ascii_digit())
        && !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !is_identifier {
        errors.push(name, "a field name has ASCII letters, digits and `_`, and does not begin with a digit");
    }
    text
}

fn unique<'a>(names: impl Iterator<Item = (&'a str, TokenStream)>, errors: &mut Errors) {
    let mut seen = Vec::new();
    for (name, at) in names {
        if seen.contains(&name) {
            errors.push(at, format!("the name `{name}` is used twice"));
        }
        seen.push(name);
    }
}

/// The integer of `#[repr(…)]`, if one is named.
fn repr(attrs: &[Attribute]) -> Option<Ident> {
    let words = attrs
        .iter()
        .filter(|a| a.path().is_ident("repr"))
        .filter_map(|attr| attr.parse_args_with(Punctuated::<Ident, Token![,]>::parse_terminated).ok());
    words.flatten().find(|word| {
        ["u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize"].iter().any(|integer| word == integer)
    })
}
