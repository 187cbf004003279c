//! What traced functions and ad-hoc events have in common: the static of a site, and the values of its events.

use crate::support::{Krate, collected, gate_section, plain, scope};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Attribute, Expr, Member, Token};

/// A site in a scope of its own, where it is called `__RingtraceSite`.
pub(crate) struct Site<'a> {
    pub(crate) krate: Option<&'a Krate>,
    /// An expression for its name.
    pub(crate) name: TokenStream,
    /// A variant of `trace_registry::tracepoint::Form`.
    pub(crate) form: &'static str,
    pub(crate) signature: String,
    pub(crate) level: Option<&'a Ident>,
    /// Where it stands.
    pub(crate) at: Span,
    /// Names of the values of its event, or of its entry.
    pub(crate) fields: Vec<TokenStream>,
    /// Names of the values of its exit.
    pub(crate) result: Vec<String>,
}

impl Site<'_> {
    pub(crate) fn expand(&self) -> TokenStream {
        let Site { name, signature, fields, result, .. } = self;
        let (collected, gate_section) = (collected("TRACEPOINTS"), gate_section());
        let form = Ident::new(self.form, Span::call_site());
        let level = match self.level {
            Some(level) => Ident::new(&level.to_string(), Span::call_site()),
            None => Ident::new("Info", Span::call_site()),
        };
        let line = quote_spanned!(self.at=> ::core::line!());
        let items = quote! {
            #gate_section
            static __RINGTRACE_GATE: __rt::Gate = __rt::Gate::of_site();

            #collected
            static __RINGTRACE_TRACEPOINT: __rt::TracepointDescriptor = __rt::TracepointDescriptor {
                name: #name,
                form: __rt::Form::#form,
                signature: #signature,
                location: <__RingtraceSite as __rt::Site>::LOCATION,
                gate: &__RINGTRACE_GATE,
                reentrant: false,
                module_path: ::core::module_path!(),
                // Its emitters tell their probes apart by themselves.
                arguments: || &[],
                identity: __rt::identity::<()>,
                stamp: 0,
                // SAFETY: all of it is of this site.
                promise: unsafe { __rt::Promise::given() },
            };

            // SAFETY: SI-1: only `record` takes the list of this gate.
            unsafe impl __rt::Site for __RingtraceSite {
                const LEVEL: __rt::Level = __rt::Level::#level;
                const LOCATION: __rt::Location = __rt::Location { file: ::core::file!(), line: #line };
                const MODULE: &'static ::core::primitive::str = ::core::module_path!();
                const FIELDS: &'static [&'static ::core::primitive::str] = &[#(#fields),*];
                const RESULT: &'static [&'static ::core::primitive::str] = &[#(#result),*];
                #[inline(always)]
                fn descriptor() -> &'static __rt::TracepointDescriptor {
                    &__RINGTRACE_TRACEPOINT
                }
                #[inline(always)]
                fn is_on() -> ::core::primitive::bool {
                    __RINGTRACE_GATE.is_on()
                }
            }
        };
        let items = scope(self.krate, &items);
        quote! {
            enum __RingtraceSite {}
            #items
        }
    }
}

/// How a value is recorded.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Format {
    /// An argument: if its type is a field.
    IfField,
    /// As its type says, which must be a field.
    Field,
    Debug,
    Display,
}

/// What a function's argument binds.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    /// `#[cfg(…)]`.
    pub(crate) conditions: Vec<Attribute>,
}

/// `name = value`, `name = ?value`, `name = %value`, or a value that has a name itself.
#[derive(Clone)]
pub(crate) struct Value {
    pub(crate) name: String,
    /// `#[cfg(…)]` of an argument: where they do not hold, there is none.
    conditions: Vec<Attribute>,
    pub(crate) format: Format,
    pub(crate) value: TokenStream,
}

impl Parse for Value {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut name = None;
        if input.peek(syn::Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==]) {
            name = Some(plain(&input.call(Ident::parse_any)?));
            input.parse::<Token![=]>()?;
        }
        let format = if input.parse::<Option<Token![?]>>()?.is_some() {
            Format::Debug
        } else if input.parse::<Option<Token![%]>>()?.is_some() {
            Format::Display
        } else {
            Format::Field
        };
        let value: Expr = input.parse()?;
        let name = match name.or_else(|| own_name(&value)) {
            Some(name) => name,
            None => return Err(syn::Error::new_spanned(&value, "this value has no name of its own: write `name = value`")),
        };
        Ok(Value { name, conditions: Vec::new(), format, value: value.into_token_stream() })
    }
}

impl Value {
    /// An argument of a function.
    pub(crate) fn argument(Argument { name, conditions }: &Argument) -> Value {
        Value { name: plain(name), conditions: conditions.clone(), format: Format::IfField, value: name.to_token_stream() }
    }

    /// Its name, as an element of an array.
    pub(crate) fn name(&self) -> TokenStream {
        let (conditions, name) = (&self.conditions, &self.name);
        quote!(#(#conditions)* #name)
    }

    /// An expression for what is recorded, as an element of a tuple, where the support module is `__rt` and its traits are in scope.
    pub(crate) fn capture(&self) -> TokenStream {
        let (conditions, value) = (&self.conditions, &self.value);
        let capture = capture(self.format, &quote_spanned!(value.span()=> &(#value)));
        quote!(#(#conditions)* #capture)
    }
}

/// The same for a value that is behind the reference `place`.
pub(crate) fn capture(format: Format, place: &TokenStream) -> TokenStream {
    // Where the value stands, so that a type that is no field is an error there.
    let at = Span::call_site().located_at(place.span());
    match format {
        Format::IfField => quote!((&__rt::Unchosen(#place)).capture()),
        Format::Field => {
            let checked = quote_spanned!(at=> __rt::field(#place));
            quote!((&__rt::Given(#checked)).capture())
        }
        Format::Debug => quote_spanned!(at=> __rt::Formattable::debug(#place)),
        Format::Display => quote_spanned!(at=> __rt::Formattable::display(#place)),
    }
}

/// `block` where the support module is `__rt`, and values can be captured.
pub(crate) fn capturing(support: &TokenStream, block: &TokenStream) -> TokenStream {
    quote! {{
        use #support as __rt;
        #[allow(unused_imports)]
        use __rt::{CaptureByReference as _, CaptureNothing as _};
        #block
    }}
}

/// Notes names that stand for two values.
pub(crate) fn check_names(values: &[Value], errors: &mut crate::errors::Errors) {
    for (i, Value { name, value, .. }) in values.iter().enumerate() {
        if values[..i].iter().any(|other| other.name == *name && other.conditions.is_empty()) {
            errors.at(value.span(), format!("the name `{name}` is used twice"));
        }
    }
}

/// The name of a variable or of a field.
fn own_name(value: &Expr) -> Option<String> {
    match value {
        Expr::Path(path) => path.path.get_ident().map(plain),
        Expr::Field(field) => match &field.member {
            Member::Named(name) => Some(plain(name)),
            Member::Unnamed(_) => None,
        },
        Expr::Reference(reference) => own_name(&reference.expr),
        Expr::Unary(unary) => own_name(&unary.expr),
        Expr::Group(group) => own_name(&group.expr),
        _ => None,
    }
}
