//! `event!` and `span!`.

use crate::errors::Errors;
use crate::options::{LEVELS, Options, Word};
use crate::site::{Site, Value, capturing, check_names};
use crate::support::support;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Ident, LitStr, Token};

/// `"name", values…; words…, if condition`
struct Call {
    name: LitStr,
    values: Vec<Value>,
    words: Vec<Word>,
    condition: Option<Expr>,
}

impl Parse for Call {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let expected =
            |error: syn::Error| syn::Error::new(error.span(), "expected the name of the event first, as a text: `\"net:sent\"`");
        let mut call = Call { name: input.parse().map_err(expected)?, values: Vec::new(), words: Vec::new(), condition: None };
        while input.parse::<Option<Token![,]>>()?.is_some() {
            if input.is_empty() || input.peek(Token![;]) {
                break;
            }
            if input.peek(Token![if]) {
                return Err(input.error("conditions and options come behind a `;`"));
            }
            let value: Value = input.parse()?;
            let level = value.value.to_string();
            if value.name == "level" && LEVELS.contains(&level.as_str()) {
                let message = format!("options stand behind a `;`: `…; level = {level}`");
                return Err(syn::Error::new_spanned(value.value, message));
            }
            call.values.push(value);
        }
        if input.is_empty() {
            return Ok(call);
        }
        if input.parse::<Option<Token![;]>>()?.is_none() {
            return Err(input.error("expected `,` and another value, or `;` and an option"));
        }
        while !input.is_empty() {
            if input.parse::<Option<Token![if]>>()?.is_some() {
                call.condition = Some(input.parse()?);
                if !input.is_empty() {
                    return Err(input.error("the condition comes last"));
                }
                break;
            }
            if !input.peek(Ident::peek_any) {
                return Err(input.error("expected an option, `level = Debug`, or `if condition`"));
            }
            call.words.push(input.parse()?);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(call)
    }
}

/// `event!`
pub(crate) fn event(tokens: TokenStream) -> TokenStream {
    expand(tokens, "event!", "Event", |support, is_on, values| {
        let record = capturing(support, &quote!(__rt::record::<__rt::Once<__RingtraceSite>, _>((#(#values,)*));));
        quote!(if #is_on #record)
    })
}

/// `span!`
pub(crate) fn span(tokens: TokenStream) -> TokenStream {
    expand(tokens, "span!", "Span", |support, is_on, values| {
        let begin = capturing(support, &quote!(__rt::begin_span::<__RingtraceSite, _>((#(#values,)*))));
        quote!(#support::Span::<__RingtraceSite>::of(if #is_on #begin else { (0, 0) }))
    })
}

fn expand(
    tokens: TokenStream,
    macro_name: &str,
    form: &'static str,
    record: impl FnOnce(&TokenStream, TokenStream, Vec<TokenStream>) -> TokenStream,
) -> TokenStream {
    let text = crate::tracepoint::spaced(&tokens.to_string());
    let call = match syn::parse2::<Call>(tokens) {
        Ok(call) => call,
        Err(error) => return error.to_compile_error(),
    };
    let mut errors = Errors::default();
    let mut options = Options::new(call.words, &format!("`{macro_name}`"), &["level", "crate"], &mut errors);
    let (level, krate) = (options.level(&mut errors), options.krate(&mut errors));
    crate::options::check_event_name(&call.name, &mut errors);
    check_names(&call.values, &mut errors);
    if let Some(value) = call.values.iter().find(|value| form == "Span" && value.name == "span") {
        let message = "`span` is the number by which the entry and the exit of a span belong together: choose another name";
        errors.push(&value.value, message);
    }
    if call.values.len() > 16 {
        errors.push(&call.name, "an event has at most 16 values: make a struct of them, and derive `Event` and a probe");
    }
    if let Some(errors) = errors.into_tokens() {
        return errors;
    }
    let support = support(krate.as_ref());
    let name = &call.name;
    let site = Site {
        krate: krate.as_ref(),
        name: quote!(__rt::Name::given(#name)),
        form,
        signature: format!("{macro_name}({text})"),
        level: level.as_ref(),
        at: call.name.span(),
        fields: call.values.iter().map(Value::name).collect(),
        result: Vec::new(),
    };
    let items = site.expand();
    let condition = call.condition.map(|condition| {
        // Where the condition stands, so that another type than `bool` is an error there.
        let at = Span::call_site().located_at(syn::spanned::Spanned::span(&condition));
        quote_spanned!(at=> && (#condition))
    });
    let is_on = quote!(<__RingtraceSite as #support::Site>::is_on() #condition);
    let record = record(&support, is_on, call.values.iter().map(Value::capture).collect());
    quote! {{
        #items
        #record
    }}
}
