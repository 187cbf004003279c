//! `#[state_dump]`.

use crate::errors::Errors;
use crate::options::Options;
use crate::support::{collected, hidden, location, plain, returns_nothing, scope};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{GenericParam, ItemFn, ReturnType, Safety};

pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let mut options = Options::parse(options, "`#[state_dump]`", &["name", "crate"], &mut errors);
    let (name, krate) = (options.event_name(&mut errors), options.krate(&mut errors));
    let function = match syn::parse2::<ItemFn>(item) {
        Ok(function) => function,
        Err(error) => {
            errors.add(syn::Error::new(error.span(), format!("a state dump is a function with a body: {error}")));
            return errors.into_tokens().unwrap_or_default();
        }
    };
    let sig = &function.sig;
    if let Some(token) = &sig.asyncness {
        errors.push(token, "a state dump cannot be `async`: it runs when a session starts");
    }
    if let Safety::Unsafe(token) = &sig.safety {
        errors.push(token, "a state dump cannot be `unsafe`: nobody could answer for its call");
    }
    for parameter in &sig.generics.params {
        if !matches!(parameter, GenericParam::Lifetime(_)) {
            errors.push(parameter, "a state dump cannot be generic: the tracer calls it");
        }
    }
    if sig.inputs.len() != 1 || sig.receiver().is_some() {
        errors.push(&sig.ident, "a state dump takes one argument: `fn name(dump: &ringtrace::StateDump<'_>)`");
    }
    if let ReturnType::Type(_, ty) = &sig.output {
        if !returns_nothing(&sig.output) {
            errors.push(ty, "a state dump returns nothing: what it records goes to its argument");
        }
    }
    if let Some(errors) = errors.into_tokens() {
        return quote!(#errors #[allow(dead_code, unused_variables)] #function);
    }
    let (collected, location, ident) = (collected("STATE_DUMPS"), location(&sig.ident), hidden(&sig.ident));
    let name = match &name {
        Some(name) => quote!(__rt::Name::given(#name)),
        None => {
            let name = plain(&sig.ident);
            quote!(__rt::Name::derived(::core::module_path!(), #name))
        }
    };
    let items = quote! {
        #collected
        static __RINGTRACE_STATE_DUMP: __rt::StateDumpDescriptor =
            __rt::StateDumpDescriptor { name: #name, location: #location, function: #ident };
    };
    let registered = scope(krate.as_ref(), &items);
    let conditions = function.attrs.iter().filter(|a| a.path().is_ident("cfg"));
    quote!(#function #(#conditions)* #registered)
}
