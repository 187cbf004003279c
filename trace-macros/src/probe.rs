//! `#[probe]`.

use crate::errors::Errors;
use crate::lifetimes;
use crate::options::{Options, Word};
use crate::support::{Krate, collected, hidden, location, scope};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{FnArg, GenericParam, ItemFn, LitStr, Path, ReturnType, Safety, Token, Type};

/// `#[probe(tracepoint, words…)]`.
struct Attribute {
    tracepoint: Path,
    words: Vec<Word>,
}

impl Parse for Attribute {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.is_empty() || input.peek2(Token![=]) {
            let span = if input.is_empty() { Span::call_site() } else { input.span() };
            return Err(syn::Error::new(span, "expected the path of a tracepoint first: `#[probe(path::to::tracepoint)]`"));
        }
        let tracepoint = input.call(Path::parse_mod_style)?;
        let mut words = Vec::new();
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if !input.is_empty() {
                words.push(input.parse()?);
            }
        }
        Ok(Attribute { tracepoint, words })
    }
}

pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let attribute = errors.check(syn::parse2::<Attribute>(attribute));
    let function = match syn::parse2::<ItemFn>(item.clone()) {
        Ok(function) => Some(function),
        Err(error) => {
            errors.add(syn::Error::new(error.span(), format!("a probe is a function with a body: {error}")));
            None
        }
    };
    let model = match (attribute, &function) {
        (Some(attribute), Some(function)) => Some(Probe::model(attribute, function, &mut errors)),
        _ => None,
    };
    match (model, errors.into_tokens()) {
        (Some(probe), None) => {
            let registered = scope(probe.krate.as_ref(), &probe.descriptor());
            let conditions = probe.function.attrs.iter().filter(|a| a.path().is_ident("cfg"));
            quote!(#item #(#conditions)* #registered)
        }
        // The fallback: the function as it is, attached to nothing; nothing at all where its name is taken.
        (Some(probe), errors) if !probe.shares_name() => quote!(#errors #[allow(dead_code)] #function),
        (Some(_), errors) => quote!(#errors),
        (None, errors) => quote!(#errors #function),
    }
}

struct Probe<'f> {
    function: &'f ItemFn,
    tracepoint: Path,
    name: Option<LitStr>,
    level: Option<Ident>,
    krate: Option<Krate>,
}

impl<'f> Probe<'f> {
    /// Notes what is wrong with `function`; the model has gaps then.
    fn model(attribute: Attribute, function: &'f ItemFn, errors: &mut Errors) -> Probe<'f> {
        let known = ["name", "level", "crate"];
        let mut options = Options::new(attribute.words, "`#[probe(tracepoint)]`", &known, errors);
        let probe = Probe {
            function,
            tracepoint: attribute.tracepoint,
            name: options.event_name(errors),
            level: options.level(errors),
            krate: options.krate(errors),
        };
        probe.validate(errors);
        probe
    }

    fn validate(&self, errors: &mut Errors) {
        let sig = &self.function.sig;
        if let Some(token) = &sig.asyncness {
            errors.push(token, "a probe cannot be `async`: it runs where its tracepoint fires");
        }
        if let Safety::Unsafe(token) = &sig.safety {
            errors.push(token, "a probe cannot be `unsafe`: nobody could answer for its call");
        }
        if let Some(variadic) = &sig.variadic {
            errors.push(variadic, "a probe takes the arguments of its tracepoint");
        }
        for parameter in &sig.generics.params {
            if !matches!(parameter, GenericParam::Lifetime(_)) {
                errors.push(parameter, "a probe cannot be generic: it takes the types of its tracepoint");
            }
        }
        for input in &sig.inputs {
            match input {
                FnArg::Receiver(receiver) => errors.push(receiver, "a probe is a free function: it cannot take `self`"),
                FnArg::Typed(argument) if is_opaque(&argument.ty) => {
                    errors.push(&argument.ty, "a probe cannot take `impl Trait`: it takes the types of its tracepoint");
                }
                FnArg::Typed(_) => {}
            }
        }
        if let ReturnType::Type(_, ty) = &sig.output {
            if is_opaque(ty) {
                let message =
                    "a probe cannot return `impl Trait`: name the event type, so that its class is known before it runs";
                errors.push(ty, message);
            }
        }
        if self.shares_name() {
            errors.push(&self.tracepoint, "a probe needs another name than its tracepoint in the same module");
        }
    }

    fn shares_name(&self) -> bool {
        self.tracepoint.is_ident(&self.function.sig.ident)
    }

    fn descriptor(&self) -> TokenStream {
        let sig = &self.function.sig;
        let output = match &sig.output {
            ReturnType::Default => quote!(()),
            ReturnType::Type(_, ty) => lifetimes::inferred((**ty).clone()).into_token_stream(),
        };
        // Each parameter stands where its type does, so that a type that is not the tracepoint's is marked there.
        let parameters: Vec<Ident> = (sig.inputs.iter().enumerate())
            .filter_map(|(i, input)| match input {
                FnArg::Typed(argument) => Some(format_ident!("a{i}", span = at(argument.ty.span()))),
                FnArg::Receiver(_) => None,
            })
            .collect();
        let name = hidden(&sig.ident);
        let arity_span = sig.paren_token.span.join();
        let mut values = Group::new(Delimiter::Parenthesis, quote!(#(#parameters),*));
        values.set_span(Span::call_site().located_at(arity_span));
        descriptor(&Descriptor {
            tracepoint: self.tracepoint.to_token_stream(),
            output,
            name: self.name.as_ref(),
            level: self.level.as_ref(),
            location: location(&sig.ident),
            parameters: &parameters,
            arity_span,
            call: quote!(#name #values),
        })
    }
}

fn is_opaque(ty: &Type) -> bool {
    struct Opaque(bool);
    impl VisitMut for Opaque {
        fn visit_type_impl_trait_mut(&mut self, _: &mut syn::TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut opaque = Opaque(false);
    opaque.visit_type_mut(&mut ty.clone());
    opaque.0
}

/// A mixed-site span at the place of `span`.
fn at(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

/// What the static of a probe is made from.
pub(crate) struct Descriptor<'a> {
    pub(crate) tracepoint: TokenStream,
    pub(crate) output: TokenStream,
    pub(crate) name: Option<&'a LitStr>,
    pub(crate) level: Option<&'a Ident>,
    pub(crate) location: TokenStream,
    pub(crate) parameters: &'a [Ident],
    /// Where a wrong number of parameters is shown.
    pub(crate) arity_span: Span,
    /// The call that makes the output from the parameters.
    pub(crate) call: TokenStream,
}

/// The static that registers a probe, and the function that its list holds.
pub(crate) fn descriptor(probe: &Descriptor<'_>) -> TokenStream {
    let Descriptor { tracepoint, output, name, location, parameters, call, .. } = probe;
    let collected = collected("PROBES");
    let level = match probe.level {
        Some(level) => Ident::new(&level.to_string(), Span::call_site()),
        None => Ident::new("Info", Span::call_site()),
    };
    let name = match name {
        Some(name) => quote!(::core::option::Option::Some(__rt::Name::given(#name))),
        None => quote!(::core::option::Option::None),
    };
    let number = parameters.len();
    let entry = Ident::new("entry", Span::mixed_site());
    let itself = |span: Span| quote_spanned!(span=> <#tracepoint as __rt::Tracepoint>::Itself);
    let at_parameters = Span::call_site().located_at(probe.arity_span);
    let (itself, itself_taking) = (itself(Span::call_site()), itself(at_parameters));
    let takes = quote_spanned!(at_parameters=> <#itself_taking as __rt::Takes<#number>>::ITSELF);
    quote! {
        #collected
        static __RINGTRACE_PROBE: __rt::ProbeDescriptor = __rt::ProbeDescriptor::of::<#itself, #output>(
            #name,
            __rt::Level::#level,
            #location,
            ::core::module_path!(),
            // A call whose argument is typed by the tracepoint: one error where they differ.
            || #takes.__probe(
                |#entry: &__rt::Entry, #(#parameters),*| #entry.run::<#output>(|| #call),
            ),
            // SAFETY: TP-2: `__probe` is the tracepoint's own.
            unsafe { __rt::Promise::given() },
        );
    }
}
