//! `#[derive(Event)]` and `#[derive(Field)]`.

mod expand;
mod fallback;
mod model;

use crate::errors::Errors;
use crate::support::scope;
use model::{Class, Shape};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, DeriveInput, Ident, Type};

pub(crate) fn derive_event(item: TokenStream) -> TokenStream {
    derive(
        item,
        |class, errors| {
            if let Shape::Enumeration { .. } | Shape::Variant { .. } = class.shape {
                let message = "an event is a struct: derive `Field` for this enum, and make it a field of one";
                errors.push(class.keyword(), message);
            }
        },
        expand::event,
        fallback::event,
    )
}

pub(crate) fn derive_field(item: TokenStream) -> TokenStream {
    derive(item, |_, _| {}, expand::field, fallback::field)
}

fn derive(
    item: TokenStream,
    validate: fn(&Class, &mut Errors),
    expand: fn(&Class) -> TokenStream,
    fallback: fn(&DeriveInput) -> TokenStream,
) -> TokenStream {
    let input = match syn::parse2::<DeriveInput>(item) {
        Ok(input) => input,
        Err(error) => return error.to_compile_error(),
    };
    let mut errors = Errors::default();
    let class = Class::of(&input, &mut errors);
    validate(&class, &mut errors);
    match errors.into_tokens() {
        None => scope(class.krate.as_ref(), &expand(&class)),
        Some(errors) => {
            let stub = scope(class.krate.as_ref(), &fallback(&input));
            quote!(#errors #stub)
        }
    }
}

/// The event of `#[tracepoint(record)]`.
pub(crate) struct Recorded {
    item: TokenStream,
    class: Class,
}

impl Recorded {
    /// The model of an event of the class `name` with `arguments` as fields; notes what is wrong with them.
    pub(crate) fn model(name: &Ident, arguments: &[(Vec<Attribute>, Ident, Type)], errors: &mut Errors) -> Recorded {
        let (item, class) = Class::recorded(name, arguments, errors);
        Recorded { item, class }
    }

    /// A struct `__RingtraceEvent`, for a scope of the expansion's own.
    pub(crate) fn expand(&self) -> TokenStream {
        let (item, event) = (&self.item, expand::event(&self.class));
        quote!(#item #event)
    }
}
