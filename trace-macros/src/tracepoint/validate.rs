//! Validate: every mistake that the tokens show, each on the token that makes it.

use super::model::{Declaration, End, Tracepoint, Words};
use crate::errors::Errors;
use crate::fields::Recorded;
use crate::support::hidden;
use syn::visit_mut::VisitMut;
use syn::{FnArg, GenericParam, Pat, PatType, ReturnType, Safety, TypeImplTrait, TypeInfer};

/// Returns the tracepoint that `declaration` declares; what it returns has gaps once an error was noted.
pub(super) fn validate(declaration: &Declaration, words: Words, errors: &mut Errors) -> Tracepoint {
    let Declaration { attrs, vis, sig, end } = declaration;
    qualifiers(declaration, errors);
    let end = match end {
        End::Semicolon(span) => *span,
        // Never here: what has a body is traced, and no declaration.
        End::Body(body) => body.span(),
    };
    if let (Some(level), None) = (&words.level, &words.record) {
        let message = "the level belongs to the probe: add `record`, or give it in `#[probe(…, level = …)]`";
        errors.push(level, message);
    }
    let mut tracepoint = Tracepoint {
        attrs: attrs.clone(),
        vis: vis.clone(),
        sig: sig.clone(),
        lifetimes: Vec::new(),
        arguments: Vec::new(),
        recorded: None,
        end,
        words,
    };
    generics(&mut tracepoint, errors);
    arguments(&mut tracepoint, errors);
    tracepoint
}

fn qualifiers(declaration: &Declaration, errors: &mut Errors) {
    let sig = &declaration.sig;
    if let Some(token) = &sig.constness {
        errors.push(token, "a tracepoint cannot be `const`: whether it is on is known at run time only");
    }
    if let Some(token) = &sig.asyncness {
        errors.push(token, "a tracepoint cannot be `async`: it fires where it is called");
    }
    match &sig.safety {
        Safety::Unsafe(token) => errors.push(token, "a tracepoint cannot be `unsafe`: firing it asks nothing of the caller"),
        Safety::Safe(token) => errors.push(token, "a tracepoint is always safe: remove `safe`"),
        Safety::Default => {}
    }
    if let Some(abi) = &sig.abi {
        errors.push(abi, "a tracepoint cannot be `extern`: it is called from Rust only");
    }
    if let Some(variadic) = &sig.variadic {
        errors.push(variadic, "a tracepoint has a fixed number of arguments");
    }
    if let ReturnType::Type(_, _) = &sig.output {
        errors.push(&sig.output, "a tracepoint returns nothing");
    }
}

fn generics(tracepoint: &mut Tracepoint, errors: &mut Errors) {
    for parameter in &tracepoint.sig.generics.params {
        match parameter {
            GenericParam::Lifetime(lifetime) => {
                if !lifetime.bounds.is_empty() {
                    let message = "a lifetime of a tracepoint cannot have bounds: its probes take any lifetime";
                    errors.push(&lifetime.bounds, message);
                }
                tracepoint.lifetimes.push(lifetime.clone());
            }
            GenericParam::Type(ty) => {
                errors.push(ty, "a tracepoint cannot have type parameters: every probe takes the same types");
            }
            GenericParam::Const(value) => {
                errors.push(value, "a tracepoint cannot have const parameters: every probe takes the same types");
            }
        }
    }
    if let Some(clause) = &tracepoint.sig.generics.where_clause {
        errors.push(clause, "a tracepoint cannot have a `where` clause");
    }
}

fn arguments(tracepoint: &mut Tracepoint, errors: &mut Errors) {
    let records = tracepoint.words.record.is_some();
    let mut fields = Vec::new();
    for input in &mut tracepoint.sig.inputs {
        let argument = match input {
            FnArg::Receiver(receiver) => {
                errors.push(receiver, "a tracepoint is a free function: it cannot take `self`");
                continue;
            }
            FnArg::Typed(argument) => argument,
        };
        let attrs = std::mem::take(&mut argument.attrs);
        for attr in &attrs {
            if !attr.path().is_ident("field") {
                errors.push(attr, "an argument of a tracepoint takes no attribute but `#[field(…)]`");
            } else if !records {
                errors.push(attr, "only `#[tracepoint(record)]` makes fields of its arguments");
            }
        }
        ArgumentType { errors }.visit_type_mut(&mut argument.ty);
        match name(argument) {
            Ok(ident) => {
                tracepoint.arguments.push((ident.clone(), (*argument.ty).clone()));
                fields.push((attrs, ident, (*argument.ty).clone()));
            }
            Err(error) => errors.add(error),
        }
    }
    tracepoint.recorded = records.then(|| Recorded::model(&hidden(&tracepoint.sig.ident), &fields, errors));
}

fn name(argument: &PatType) -> syn::Result<syn::Ident> {
    match &*argument.pat {
        Pat::Ident(name) if name.by_ref.is_none() && name.mutability.is_none() && name.subpat.is_none() => Ok(name.ident.clone()),
        pattern => Err(syn::Error::new_spanned(pattern, "an argument of a tracepoint is a name, not a pattern")),
    }
}

/// Refuses types that are not one type.
struct ArgumentType<'a> {
    errors: &'a mut Errors,
}

impl VisitMut for ArgumentType<'_> {
    fn visit_type_impl_trait_mut(&mut self, ty: &mut TypeImplTrait) {
        self.errors.push(ty, "an argument of a tracepoint cannot be `impl Trait`: every probe takes the same type");
    }

    fn visit_type_infer_mut(&mut self, ty: &mut TypeInfer) {
        self.errors.push(ty, "the type of an argument must be written out");
    }
}
