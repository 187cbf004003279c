//! Expand: the impls of `Event` and `Field`.

use super::model::{Class, Field, Format, Shape, Variant};
use crate::support::location;
use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{GenericArgument, GenericParam, Ident, Lifetime};

pub(super) fn event(class: &Class) -> TokenStream {
    let Class { ident, name, .. } = class;
    let Shape::Structure(fields) = &class.shape else { return TokenStream::new() };
    let (impl_generics, type_generics, clause) = class.generics.split_for_impl();
    let class_type = made_static(class);
    let location = location(ident);
    let (descriptors, sizes) = (descriptors(fields), sizes(fields));
    let write = write(&payload(), fields, |field| {
        let member = &field.member;
        placed(quote!(&self.#member), field.ty.span())
    });
    let value = value(quote!(field), fields, |field| {
        let member = &field.member;
        placed(quote!(&self.#member), field.ty.span())
    });
    let payload = payload();
    let check = placed(quote!(__rt::check_event(<#class_type as __rt::Event>::SIZES)), ident.span());
    quote! {
        #[automatically_derived]
        impl #impl_generics __rt::Event for #ident #type_generics #clause {
            type Class = #class_type;
            const DESCRIPTION: &'static __rt::EventClass = &__rt::EventClass {
                name: #name,
                module_path: ::core::module_path!(),
                location: #location,
                fields: #descriptors,
            };
            const SIZES: __rt::Sizes = #sizes;
            #[inline(always)]
            fn write<'__payload>(&'__payload self, #payload: &mut __rt::Payload<'__payload>) {
                #write
            }
            #[inline]
            fn value(&self, field: ::core::primitive::u16, path: &[__rt::Step]) -> __rt::Value<'_> {
                let _ = path;
                #value
            }
        }
        const _: () = #check;
    }
}

pub(super) fn field(class: &Class) -> TokenStream {
    let ident = &class.ident;
    let (impl_generics, type_generics, clause) = class.generics.split_for_impl();
    let payload = payload();
    let parts = match &class.shape {
        Shape::Structure(fields) => structure(fields),
        Shape::Enumeration { repr, variants } => enumeration(repr.as_ref(), variants),
        Shape::Variant { options } => variant(options),
    };
    let Parts { class, sizes, write, value } = parts;
    quote! {
        #[automatically_derived]
        impl #impl_generics __rt::Field for #ident #type_generics #clause {
            const CLASS: __rt::FieldClass = #class;
            const SIZES: __rt::Sizes = #sizes;
            #[inline(always)]
            fn write<'__payload>(&'__payload self, #payload: &mut __rt::Payload<'__payload>) {
                #write
            }
            #[inline]
            fn value(&self, path: &[__rt::Step]) -> __rt::Value<'_> {
                #value
            }
        }
    }
}

struct Parts {
    class: TokenStream,
    sizes: TokenStream,
    write: TokenStream,
    value: TokenStream,
}

fn structure(fields: &[Field]) -> Parts {
    let descriptors = descriptors(fields);
    let value = value(quote!(*field), fields, |field| {
        let member = &field.member;
        placed(quote!(&self.#member), field.ty.span())
    });
    Parts {
        class: quote!(__rt::FieldClass::Structure { fields: #descriptors }),
        sizes: sizes(fields),
        write: write(&payload(), fields, |field| {
            let member = &field.member;
            placed(quote!(&self.#member), field.ty.span())
        }),
        value: quote! {
            match path {
                [__rt::Step::Field(field), path @ ..] => {
                    let _ = path;
                    #value
                }
                _ => __rt::Value::Missing,
            }
        },
    }
}

fn enumeration(repr: Option<&Ident>, variants: &[Variant]) -> Parts {
    let payload = payload();
    let repr = match repr {
        Some(repr) => {
            let signed = repr.to_string().starts_with('i');
            quote!(::core::option::Option::Some((::core::primitive::#repr::BITS as ::core::primitive::u8, #signed)))
        }
        None => quote!(::core::option::Option::None),
    };
    let idents: Vec<_> = variants.iter().map(|v| &v.ident).collect();
    let names = variants.iter().map(|v| &v.name);
    Parts {
        class: quote! {
            __rt::enumeration(&[#(__rt::Label { name: #names, value: Self::#idents as ::core::primitive::i128 }),*], #repr)
        },
        sizes: quote!(__rt::enumeration_sizes(<Self as __rt::Field>::CLASS)),
        write: quote! {
            // Not every enum is `Copy`, and only a value can be cast.
            let value = match self { #(Self::#idents => Self::#idents as ::core::primitive::u64),* };
            __rt::write_enumeration(#payload, const { <Self as __rt::Field>::SIZES }, value);
        },
        value: quote! {
            let _ = path;
            __rt::Value::Integer(match self { #(Self::#idents => Self::#idents as ::core::primitive::i128),* })
        },
    }
}

fn variant(options: &[Variant]) -> Parts {
    let payload = payload();
    let idents: Vec<_> = options.iter().map(|o| &o.ident).collect();
    let names = options.iter().map(|o| &o.name);
    let descriptors = options.iter().map(|o| descriptors(&o.fields));
    let sizes: Vec<_> = options.iter().map(|o| sizes(&o.fields)).collect();
    let selectors = (0..options.len()).map(|i| i as u8);
    let indices = 0..options.len() as i128;
    let bindings = |option: &Variant| -> Vec<Ident> {
        (0..option.fields.len()).map(|i| format_ident!("f{i}", span = Span::mixed_site())).collect()
    };
    let patterns = options.iter().map(|option| {
        let members = option.fields.iter().map(|f| &f.member);
        let bindings = bindings(option);
        quote!(#(#members: #bindings),*)
    });
    let writes = options.iter().map(|option| {
        let mut bindings = bindings(option).into_iter();
        write(&payload, &option.fields, |_| bindings.next().to_token_stream())
    });
    let values = options.iter().zip(0u16..).map(|(option, index)| {
        let ident = &option.ident;
        let members = option.fields.iter().map(|f| &f.member);
        let bindings = bindings(option);
        let mut places = bindings.clone().into_iter();
        let value = value(quote!(*field), &option.fields, |_| places.next().to_token_stream());
        quote! {
            (Self::#ident { #(#members: #bindings),* }, [__rt::Step::Option(#index), __rt::Step::Field(field), path @ ..]) => {
                let _ = (path, #(#bindings),*);
                #value
            }
        }
    });
    let values = quote! {
        #(#values)*
        (_, []) => __rt::Value::Integer(match self { #(Self::#idents { .. } => #indices),* }),
        _ => __rt::Value::Missing,
    };
    Parts {
        class: quote! {
            __rt::FieldClass::Variant { options: &[#(__rt::VariantOption {
                name: #names,
                class: __rt::FieldClass::Structure { fields: #descriptors },
            }),*] }
        },
        sizes: {
            let (first, rest) = (&sizes[0], &sizes[1..]);
            quote!(__rt::Sizes::fixed(1).and((#first)#(.or(#rest))*))
        },
        write: quote! {
            let all = <Self as __rt::Field>::SIZES;
            match self {
                #(Self::#idents { #patterns } => {
                    let this = const { __rt::Sizes::fixed(1).and(#sizes) };
                    if __rt::select(#payload, #selectors, this, all) {
                        #writes
                    }
                })*
            }
        },
        value: quote! {
            match (self, path) { #values }
        },
    }
}

/// The type with every lifetime `'static`.
fn made_static(class: &Class) -> TokenStream {
    let ident = &class.ident;
    let arguments = class.generics.params.iter().filter_map(|parameter| match parameter {
        GenericParam::Lifetime(_) => Some(GenericArgument::Lifetime(Lifetime::new("'static", Span::call_site()))),
        _ => None,
    });
    quote!(#ident<#(#arguments),*>)
}

fn payload() -> Ident {
    Ident::new("payload", Span::mixed_site())
}

fn descriptors(fields: &[Field]) -> TokenStream {
    let descriptors = fields.iter().map(|field| {
        let (name, class, sensitive) = (&field.name, class(field), field.sensitive);
        let unit = match (&field.unit, &field.format) {
            (Some(unit), _) => quote!(#unit),
            (None, Format::Plain | Format::Hex) => item(field, "UNIT"),
            (None, Format::Debug | Format::Display) => quote!(""),
        };
        let formatted = matches!(field.format, Format::Debug | Format::Display);
        quote!(__rt::FieldDescriptor {
            name: #name, class: #class, unit: #unit, sensitive: #sensitive, formatted: #formatted,
        })
    });
    quote!(&[#(#descriptors),*])
}

fn class(field: &Field) -> TokenStream {
    let class = item(field, "CLASS");
    match field.format {
        Format::Hex => quote!(#class.hex()),
        _ => class,
    }
}

/// The sizes of `fields` together.
fn sizes(fields: &[Field]) -> TokenStream {
    let sizes = fields.iter().map(field_sizes);
    quote!(__rt::Sizes::NONE #(.and(#sizes))*)
}

fn field_sizes(field: &Field) -> TokenStream {
    let sizes = item(field, "SIZES");
    if field.sensitive { quote!(__rt::sensitive_sizes(#sizes)) } else { sizes }
}

/// Statements that write `fields`, each from the reference that `place` gives.
fn write(payload: &Ident, fields: &[Field], mut place: impl FnMut(&Field) -> TokenStream) -> TokenStream {
    let mut statements = TokenStream::new();
    for field in fields {
        let place = place(field);
        let write = item(
            field,
            match field.format {
                Format::Plain | Format::Hex => "write",
                Format::Debug => "debug",
                Format::Display => "display",
            },
        );
        let write = quote_spanned!(field.ty.span()=> #write(#place, #payload));
        statements.extend(if field.sensitive {
            let sizes = item(field, "SIZES");
            quote!(__rt::write_sensitive(#payload, #sizes, |#payload| #write);)
        } else {
            quote!(#write;)
        });
    }
    statements
}

/// An expression for what a filter sees of the one of `fields` whose index is `index`, at the end of `path`.
fn value(index: TokenStream, fields: &[Field], mut place: impl FnMut(&Field) -> TokenStream) -> TokenStream {
    let arms = (0u16..).zip(fields).map(|(index, field)| {
        let place = place(field);
        match field.format {
            Format::Plain | Format::Hex => {
                let value = item(field, "value");
                let value = quote_spanned!(field.ty.span()=> #value(#place, path));
                quote!(#index => #value,)
            }
            Format::Debug | Format::Display => TokenStream::new(),
        }
    });
    quote!(match #index { #(#arms)* _ => __rt::Value::Missing })
}

/// `CLASS`, `SIZES`, `UNIT` or the function that writes a field. All its tokens stand where the field's type does, so that a type
/// that is no field is one error there, however often it is named.
fn item(field: &Field, name: &str) -> TokenStream {
    let ty = &field.ty;
    let at = Span::call_site().located_at(ty.span());
    let name = Ident::new(name, at);
    match field.format {
        Format::Plain | Format::Hex => quote_spanned!(at=> <#ty as __rt::Field>::#name),
        Format::Debug | Format::Display => quote_spanned!(at=> __rt::Formatted::#name),
    }
}

/// `tokens`, all of them at the place of `span`, where an error in them is shown.
fn placed(tokens: TokenStream, span: Span) -> TokenStream {
    let place = |token: TokenTree| {
        let mut token = match token {
            TokenTree::Group(group) => Group::new(group.delimiter(), placed(group.stream(), span)).into(),
            token => token,
        };
        token.set_span(token.span().located_at(span));
        token
    };
    tokens.into_iter().map(place).collect()
}
