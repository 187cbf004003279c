//! Lifetimes of types that are named where other lifetimes hold.

use proc_macro2::Span;
use syn::visit_mut::{self, VisitMut};
use syn::{BoundLifetimes, GenericParam, Lifetime, ParenthesizedGenericArguments, Type, TypeFnPtr, TypeReference};

/// `ty` with every lifetime that it names, but does not bind itself, left to the compiler: for use in a function body.
pub(crate) fn inferred(mut ty: Type) -> Type {
    map(&mut ty, |lifetime| {
        if lifetime.ident != "static" {
            *lifetime = Lifetime::new("'_", lifetime.span());
        }
    });
    ty
}

/// The lifetimes that `ty` names and does not bind itself.
pub(crate) fn named(ty: &Type) -> Vec<Lifetime> {
    let mut found = Vec::new();
    map(&mut ty.clone(), |lifetime| {
        if lifetime.ident != "_" && lifetime.ident != "static" {
            found.push(lifetime.clone());
        }
    });
    found
}

/// Every lifetime that `ty` names, in the order of its text.
pub(crate) fn all(ty: &Type) -> Vec<Lifetime> {
    struct All(Vec<Lifetime>);

    impl VisitMut for All {
        fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
            self.0.push(lifetime.clone());
        }
    }

    let mut all = All(Vec::new());
    all.visit_type_mut(&mut ty.clone());
    all.0
}

/// `ty` with `'static` for every lifetime that it names, but does not bind itself, and for those that its references elide.
pub(crate) fn made_static(mut ty: Type) -> Type {
    name_elided(&mut ty, &mut Vec::new());
    map(&mut ty, |lifetime| *lifetime = Lifetime::new("'static", lifetime.span()));
    ty
}

/// Gives each elided lifetime of `ty` a name, which it adds to `names`.
pub(crate) fn name_elided(ty: &mut Type, names: &mut Vec<Lifetime>) {
    let mut visitor = NameElided(names);
    visitor.visit_type_mut(ty);
}

struct NameElided<'a>(&'a mut Vec<Lifetime>);

impl NameElided<'_> {
    fn fresh(&mut self) -> Lifetime {
        let name = Lifetime::new(&format!("'__{}", self.0.len()), Span::call_site());
        self.0.push(name.clone());
        name
    }
}

impl VisitMut for NameElided<'_> {
    fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
        if reference.lifetime.is_none() {
            reference.lifetime = Some(self.fresh());
        }
        visit_mut::visit_type_reference_mut(self, reference);
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident == "_" {
            *lifetime = self.fresh();
        }
    }

    // Elided lifetimes of a function type are its own.
    fn visit_type_fn_ptr_mut(&mut self, _: &mut TypeFnPtr) {}
    fn visit_parenthesized_generic_arguments_mut(&mut self, _: &mut ParenthesizedGenericArguments) {}
}

fn map(ty: &mut Type, change: impl FnMut(&mut Lifetime)) {
    struct Map<F> {
        change: F,
        bound: Vec<Lifetime>,
    }

    impl<F> Map<F> {
        fn bind(&mut self, lifetimes: Option<&BoundLifetimes>) {
            for parameter in lifetimes.iter().flat_map(|l| &l.lifetimes) {
                if let GenericParam::Lifetime(parameter) = parameter {
                    self.bound.push(parameter.lifetime.clone());
                }
            }
        }
    }

    impl<F: FnMut(&mut Lifetime)> VisitMut for Map<F> {
        fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
            if !self.bound.contains(lifetime) {
                (self.change)(lifetime);
            }
        }

        // A lifetime cannot be bound twice, so what is bound anywhere inside stays bound.
        fn visit_type_fn_ptr_mut(&mut self, function: &mut TypeFnPtr) {
            self.bind(function.lifetimes.as_ref());
            visit_mut::visit_type_fn_ptr_mut(self, function);
        }

        fn visit_trait_bound_mut(&mut self, bound: &mut syn::TraitBound) {
            self.bind(bound.lifetimes.as_ref());
            visit_mut::visit_trait_bound_mut(self, bound);
        }
    }

    Map { change, bound: Vec::new() }.visit_type_mut(ty);
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::ToTokens;
    use syn::parse_quote;

    #[test]
    fn lifetimes_are_replaced_where_they_are_free() {
        let text = |ty: Type| ty.to_token_stream().to_string().replace(' ', "");
        assert_eq!(text(inferred(parse_quote!(A<'a, '_, &'b u8>))), "A<'_,'_,&'_u8>");
        assert_eq!(text(inferred(parse_quote!(for<'a> fn(&'a u8, &'b u8)))), "for<'a>fn(&'au8,&'_u8)");
        let (mut ty, mut names) = (parse_quote!(&A<'_, &'b u8, fn(&u8)>), Vec::new());
        name_elided(&mut ty, &mut names);
        assert_eq!(text(ty), "&'__0A<'__1,&'bu8,fn(&u8)>");
        assert_eq!(
            text(made_static(parse_quote!(&A<'_, Option<&'b u8>, for<'c> fn(&'c u8)>))),
            "&'staticA<'static,Option<&'staticu8>,for<'c>fn(&'cu8)>"
        );
        assert_eq!(
            all(&parse_quote!(&'a A<'b, &'static u8>)).iter().map(|l| l.ident.to_string()).collect::<Vec<_>>(),
            ["a", "b", "static"]
        );
        assert_eq!(named(&parse_quote!(&'a (&'b u8, &'static u8, &u8))).len(), 2);
    }
}
