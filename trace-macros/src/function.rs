//! `#[tracepoint]` on what has a body: a function, an impl block, an inline module.
//!
//! A function keeps its signature; its body is put behind the gate test and into a scope that records the exit. The site is an
//! item of the body, so a generic function has one gate, and its emitters are generic.

mod returned;
mod words;

use crate::errors::Errors;
use crate::site::{Argument, Site, Value, capture, capturing};
use crate::support::{plain, returns_nothing, support};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use returned::Returned;
use syn::parse::{ParseStream, Parser};
use syn::visit_mut::VisitMut;
use syn::{Attribute, Block, FnArg, ImplItem, Item, ItemImpl, ItemMod, Pat, ReturnType, Signature, TraitItem, Type, parse_quote};
use words::Words;

/// A function with its body, as tokens.
pub(crate) fn function(
    attrs: &[Attribute],
    head: &TokenStream,
    sig: &Signature,
    body: &Group,
    options: TokenStream,
) -> TokenStream {
    let mut errors = Errors::default();
    let words = Words::parse(options, Words::OF_FUNCTION, &mut errors);
    if let Some(token) = &sig.constness {
        errors.push(token, "a `const fn` cannot be traced: it may run in the compiler; trace the function that calls it");
    }
    if body.stream().is_empty() {
        let message = "an empty body: a declaration of a tracepoint ends with `;`, and a traced function has something to trace";
        errors.at(body.span(), message);
    }
    if sig.receiver().is_some() && words.name.is_none() {
        let message = "the attribute of a lone method does not see its type: give `name = \"crate:Type::method\"`, or put \
                       `#[tracepoint]` on the impl block";
        errors.push(&sig.ident, message);
    }
    let name = name(&words, &plain(&sig.ident));
    let traced = traced(sig, body, &words, &name, &mut errors);
    match errors.into_tokens() {
        None => quote!(#(#attrs)* #head #traced),
        Some(errors) => quote!(#errors #(#attrs)* #head #body),
    }
}

/// All functions of an impl block.
pub(crate) fn implementation(mut block: ItemImpl, options: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let words = Words::parse(options, Words::OF_MANY, &mut errors);
    let mut original = block.clone();
    WithoutWords.visit_item_impl_mut(&mut original);
    if methods(&mut block, &words, &mut errors) == 0 {
        errors.push(&block.self_ty, "no function in here can be traced");
    }
    or(block, original, errors)
}

/// All functions of an inline module.
pub(crate) fn module(mut module: ItemMod, options: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let words = Words::parse(options, Words::OF_MANY, &mut errors);
    let mut original = module.clone();
    WithoutWords.visit_item_mod_mut(&mut original);
    if module.content.is_none() {
        let message =
            "the attribute does not see what is in another file: put `#[tracepoint]` on the functions and impl blocks there";
        errors.push(&module.ident, message);
    } else if items(&mut module, &words, &mut errors) == 0 {
        errors.push(&module.ident, "no function in here can be traced");
    }
    or(module, original, errors)
}

fn or(traced: impl ToTokens, original: impl ToTokens, errors: Errors) -> TokenStream {
    match errors.into_tokens() {
        None => traced.into_token_stream(),
        Some(errors) => quote!(#errors #original),
    }
}

/// Takes away the attributes of traced functions, which are not for the compiler to see.
struct WithoutWords;

impl VisitMut for WithoutWords {
    fn visit_impl_item_fn_mut(&mut self, f: &mut syn::ImplItemFn) {
        f.attrs.retain(|attr| !is_tracepoint(attr));
    }

    fn visit_item_fn_mut(&mut self, f: &mut syn::ItemFn) {
        f.attrs.retain(|attr| !is_tracepoint(attr));
    }

    fn visit_trait_item_fn_mut(&mut self, f: &mut syn::TraitItemFn) {
        f.attrs.retain(|attr| !is_tracepoint(attr));
    }
}

fn items(module: &mut ItemMod, words: &Words, errors: &mut Errors) -> usize {
    let Some((_, items)) = &mut module.content else { return 0 };
    let one = |item: &mut Item| match item {
        Item::Fn(f) => {
            let name = plain(&f.sig.ident);
            member(&mut f.attrs, &f.sig, &mut f.block, &name, words, errors)
        }
        Item::Impl(block) if !is_told_apart(&block.attrs) => methods(block, words, errors),
        Item::Mod(inner) if !is_told_apart(&inner.attrs) => self::items(inner, words, errors),
        Item::Trait(declared) if !is_told_apart(&declared.attrs) => {
            let of = plain(&declared.ident);
            let mut count = 0;
            for item in &mut declared.items {
                if let TraitItem::Fn(f) = item {
                    if let Some(block) = &mut f.default {
                        let name = format!("{of}::{}", plain(&f.sig.ident));
                        count += member(&mut f.attrs, &f.sig, block, &name, words, errors);
                    }
                }
            }
            count
        }
        _ => 0,
    };
    items.iter_mut().map(one).sum()
}

fn methods(block: &mut ItemImpl, words: &Words, errors: &mut Errors) -> usize {
    let of = type_name(&block.self_ty);
    let mut count = 0;
    for item in &mut block.items {
        if let ImplItem::Fn(f) = item {
            let name = format!("{of}::{}", plain(&f.sig.ident));
            count += member(&mut f.attrs, &f.sig, &mut f.block, &name, words, errors);
        }
    }
    count
}

/// One function among many. Returns how many are traced.
fn member(attrs: &mut Vec<Attribute>, sig: &Signature, block: &mut Block, name: &str, all: &Words, errors: &mut Errors) -> usize {
    let own = attrs.iter().position(is_tracepoint).map(|at| attrs.remove(at));
    let is_test = attrs.iter().any(|a| a.path().segments.last().is_some_and(|s| s.ident == "test"));
    if sig.constness.is_some() || is_test {
        if let Some(own) = own.filter(|_| sig.constness.is_some()) {
            errors.push(own, "a `const fn` cannot be traced: it may run in the compiler; trace the function that calls it");
        }
        return 0;
    }
    let options = own.map(|own| own.meta.require_list().map(|l| l.tokens.clone()).unwrap_or_default()).unwrap_or_default();
    let mut words = Words::parse(options, Words::OF_MEMBER, errors);
    if words.off {
        return 0;
    }
    let is_result_asked_for = words.result.is_some();
    words = words.or(all);
    if !is_result_asked_for && returns_nothing(&sig.output) {
        words.result = None;
    }
    let mut body = Group::new(Delimiter::Brace, block.stmts.iter().map(ToTokens::to_token_stream).collect());
    body.set_span(block.brace_token.span.join());
    let name = self::name(&words, name);
    let traced = traced(sig, &body, &words, &name, errors);
    if let Ok(traced) = syn::parse2(traced) {
        *block = traced;
    }
    1
}

fn is_tracepoint(attr: &Attribute) -> bool {
    attr.path().segments.last().is_some_and(|segment| segment.ident == "tracepoint")
}

/// Whether an item inside a traced module has an attribute of its own.
fn is_told_apart(attrs: &[Attribute]) -> bool {
    attrs.iter().any(is_tracepoint)
}

fn name(words: &Words, derived: &str) -> TokenStream {
    match &words.name {
        Some(name) => quote!(__rt::Name::given(#name)),
        None => quote!(__rt::Name::derived(::core::module_path!(), #derived)),
    }
}

/// The last name in a type, such as `Cart` in `crate::Cart<'a, T>`.
fn type_name(ty: &Type) -> String {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|s| plain(&s.ident)).unwrap_or_default(),
        Type::Reference(reference) => type_name(&reference.elem),
        Type::Paren(inner) => type_name(&inner.elem),
        Type::Group(inner) => type_name(&inner.elem),
        other => other.to_token_stream().to_string().chars().filter(|c| !c.is_whitespace() && !"*?\"".contains(*c)).collect(),
    }
}

/// The body of a function, traced.
fn traced(sig: &Signature, body: &Group, words: &Words, name: &TokenStream, errors: &mut Errors) -> TokenStream {
    let support = support(words.krate.as_ref());
    let values = words.values(&arguments(sig), errors);
    let result = words.result.filter(|_| !never_returns(&sig.output));
    if result.is_some() && returns_nothing(&sig.output) {
        errors.push(&sig.ident, "it returns nothing: there is no result to record");
    }
    let site = Site {
        krate: words.krate.as_ref(),
        name: name.clone(),
        form: "Function",
        signature: crate::tracepoint::spaced(&sig.to_token_stream().to_string()),
        level: words.level.as_ref(),
        at: sig.ident.span(),
        fields: values.iter().map(Value::name).collect(),
        result: result.iter().map(|_| "result".to_owned()).collect(),
    };
    let items = site.expand();
    let captures: Vec<_> = values.iter().map(Value::capture).collect();
    let [start, scope, exit, outcome, value] =
        ["start", "scope", "exit", "outcome", "value"].map(|n| Ident::new(n, Span::mixed_site()));
    let is_on = quote!(<__RingtraceSite as #support::Site>::is_on());
    let (attributes, statements) = inner_attributes(body);
    let mut statements = Group::new(Delimiter::Brace, statements);
    // Not the function's own braces: those around a single expression would be said to be superfluous.
    statements.set_span(Span::call_site().located_at(body.span()));
    let result = result.map(|format| {
        // Where the type stands that is to be a field.
        let mut value = value.clone();
        value.set_span(value.span().located_at(syn::spanned::Spanned::span(&sig.output)));
        let capture = capture(format, &value.to_token_stream());
        quote!(#value.map(|#value| #capture),)
    });
    let returned = if words.sync { Returned::Value } else { Returned::of(sig) };
    let traced = if returned != Returned::Value {
        let begin = capturing(&support, &quote!(__rt::begin_future::<__RingtraceSite, _>((#(#captures,)*))));
        let leave = capturing(&support, &quote!(__rt::leave_future::<__RingtraceSite, _>(#exit, (#result))));
        let value = result.as_ref().map_or_else(|| Ident::new("_value", Span::mixed_site()), |_| value);
        let start_is = quote! {
            #[allow(unknown_lints, clippy::used_underscore_binding)]
            let #start = if #is_on #begin else { (0, 0) };
        };
        let leave = quote!(|#exit, #value: ::core::option::Option<&_>| #leave);
        let calling = quote!(let #scope = #support::Calling::new(#start, #leave););
        let wrapped = |future: TokenStream| quote!(#scope.future::<__RingtraceSite, _>(#future));
        let output = output(&sig.output).map(|output| {
            quote! {
                #[allow(
                    unknown_lints, unreachable_code, clippy::diverging_sub_expression, clippy::empty_loop, clippy::let_unit_value,
                    clippy::let_with_type_underscore, clippy::needless_return, clippy::never_loop
                )]
                if false {
                    // The type of the block, which nothing else says early enough for `?`.
                    let output: #output = loop {};
                    return output;
                }
            }
        });
        match returned {
            Returned::Output | Returned::Value => quote! {
                #start_is
                #support::Traced::<__RingtraceSite, _, _>::new(#start, async move { #output #statements }, #leave).await
            },
            Returned::Future => {
                let wrapped = wrapped(quote!((move || #statements)()));
                quote! {
                    #start_is
                    #calling
                    #wrapped
                }
            }
            Returned::Boxed => match returned::boxed(statements.stream(), wrapped) {
                Some(statements) => quote! {
                    #start_is
                    #calling
                    #statements
                },
                None => {
                    errors.push(&sig.output, returned::NOT_SEEN);
                    quote!(#statements)
                }
            },
        }
    } else {
        let begin = capturing(&support, &quote!(__rt::begin::<__RingtraceSite, _>((#(#captures,)*))));
        let start_is = quote! {
            #[allow(unknown_lints, clippy::used_underscore_binding)]
            let #start = if #is_on #begin else { 0 };
        };
        match result {
            None => quote! {
                #start_is
                let #scope = #support::Scope::<__RingtraceSite>::of(#start);
                #statements
            },
            Some(result) => {
                let output = output(&sig.output).map_or_else(|| quote!(-> ()), |output| quote!(-> #output));
                let leave = capturing(&support, &quote!(__rt::leave::<__RingtraceSite, _>(#start, #outcome, (#result))));
                quote! {
                    #start_is
                    #support::call(
                        #start,
                        move || #output #statements,
                        |#outcome, #value: ::core::option::Option<&_>| #leave,
                    )
                }
            }
        }
    };
    let mut block = Group::new(Delimiter::Brace, quote!(#(#attributes)* #items #traced));
    block.set_span(body.span());
    block.into_token_stream()
}

/// What the arguments of a function bind.
fn arguments(sig: &Signature) -> Vec<Argument> {
    struct Names(Vec<Ident>);
    impl VisitMut for Names {
        fn visit_pat_ident_mut(&mut self, name: &mut syn::PatIdent) {
            self.0.push(name.ident.clone());
            syn::visit_mut::visit_pat_ident_mut(self, name);
        }
    }
    let mut arguments = Vec::new();
    for input in &sig.inputs {
        if let FnArg::Typed(argument) = input {
            let mut names = Names(Vec::new());
            names.visit_pat_mut(&mut Pat::clone(&argument.pat));
            let conditions: Vec<Attribute> = argument.attrs.iter().filter(|a| a.path().is_ident("cfg")).cloned().collect();
            arguments.extend(names.0.into_iter().map(|name| Argument { name, conditions: conditions.clone() }));
        }
    }
    arguments
}

/// Attributes at the start of a body belong to the whole of it.
fn inner_attributes(body: &Group) -> (Vec<Attribute>, TokenStream) {
    let parts = |input: ParseStream<'_>| Ok((input.call(Attribute::parse_inner)?, input.parse::<TokenStream>()?));
    parts.parse2(body.stream()).unwrap_or_else(|_| (Vec::new(), body.stream()))
}

fn never_returns(output: &ReturnType) -> bool {
    matches!(output, ReturnType::Type(_, ty) if matches!(**ty, Type::Never(_)))
}

/// The type that a function returns, as a closure in it can name it.
fn output(output: &ReturnType) -> Option<Type> {
    struct Opaque;
    impl VisitMut for Opaque {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            match ty {
                Type::ImplTrait(_) => *ty = parse_quote!(_),
                _ => syn::visit_mut::visit_type_mut(self, ty),
            }
        }
    }
    match output {
        ReturnType::Default => None,
        ReturnType::Type(_, ty) => {
            let mut ty = (**ty).clone();
            Opaque.visit_type_mut(&mut ty);
            Some(ty)
        }
    }
}
