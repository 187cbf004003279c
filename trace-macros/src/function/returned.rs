//! What a traced function returns: a value, or a future, whose end is that of the call.
//!
//! An attribute sees tokens, so a future is what is written as one: an `async fn`, and the return types `impl Future`,
//! `Pin<Box<dyn Future>>` and `BoxFuture`. The last two are what `#[async_trait]` makes of an `async fn`.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::parse::Parser;
use syn::visit_mut::VisitMut;
use syn::{
    Block, Expr, ExprAsync, ExprClosure, ExprReturn, GenericArgument, Item, PathArguments, ReturnType, Signature, Stmt, Type,
    TypeParamBound, parse_quote,
};

/// What is said of a boxed future that cannot be traced where it is made, without a second box.
pub(super) const NOT_SEEN: &str = "it returns a boxed future, whose end the attribute cannot see: end the function in \
    `Box::pin(async move { … })` or `future.boxed()`, without a `return` before; or trace the call alone, by `#[tracepoint(sync)]`";

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Returned {
    /// The function is over when it returns.
    Value,
    /// The output of an `async fn`.
    Output,
    /// `impl Future`.
    Future,
    /// A future in a box, which another type cannot replace.
    Boxed,
}

impl Returned {
    pub(super) fn of(sig: &Signature) -> Returned {
        match &sig.output {
            _ if sig.asyncness.is_some() => Returned::Output,
            ReturnType::Default => Returned::Value,
            ReturnType::Type(_, ty) => Returned::of_type(ty),
        }
    }

    fn of_type(ty: &Type) -> Returned {
        match ty {
            Type::ImplTrait(ty) if is_future(&ty.bounds) => Returned::Future,
            Type::Paren(inner) => Returned::of_type(&inner.elem),
            Type::Group(inner) => Returned::of_type(&inner.elem),
            Type::Path(path) => {
                let Some(last) = path.path.segments.last() else { return Returned::Value };
                let is_boxed = match last.ident.to_string().as_str() {
                    "BoxFuture" | "LocalBoxFuture" => true,
                    "Pin" | "Box" => first_type(&last.arguments).is_some_and(|inner| match inner {
                        Type::TraitObject(object) => is_future(&object.bounds),
                        inner => Returned::of_type(inner) == Returned::Boxed,
                    }),
                    _ => false,
                };
                if is_boxed { Returned::Boxed } else { Returned::Value }
            }
            _ => Returned::Value,
        }
    }
}

fn is_future<'b>(bounds: impl IntoIterator<Item = &'b TypeParamBound>) -> bool {
    let is_it = |bound: &TypeParamBound| match bound {
        TypeParamBound::Trait(bound) => bound.path.segments.last().is_some_and(|last| last.ident == "Future"),
        _ => false,
    };
    bounds.into_iter().any(is_it)
}

fn first_type(arguments: &PathArguments) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// The statements of a function that ends in `Box::pin(future)` or `future.boxed()`, with the future wrapped; `None`: it does not, or
/// returns before.
pub(super) fn boxed(statements: TokenStream, wrapped: impl FnOnce(TokenStream) -> TokenStream) -> Option<TokenStream> {
    let mut statements = Block::parse_within.parse2(statements).ok()?;
    let mut returns = Returns(false);
    statements.iter_mut().for_each(|statement| returns.visit_stmt_mut(statement));
    let Some(Stmt::Expr(last, None)) = statements.last_mut() else { return None };
    let future = match last {
        Expr::Call(call) if call.args.len() == 1 && is_box_pin(&call.func) => call.args.first_mut()?,
        Expr::MethodCall(call) if call.method == "boxed" || call.method == "boxed_local" => &mut *call.receiver,
        _ => return None,
    };
    let traced = wrapped(future.to_token_stream());
    *future = parse_quote!(#traced);
    (!returns.0).then(|| statements.iter().map(ToTokens::to_token_stream).collect())
}

fn is_box_pin(function: &Expr) -> bool {
    let Expr::Path(path) = function else { return false };
    let mut segments = path.path.segments.iter().rev();
    segments.next().is_some_and(|last| last.ident == "pin") && segments.next().is_some_and(|of| of.ident == "Box")
}

/// Whether the function itself returns somewhere.
struct Returns(bool);

impl VisitMut for Returns {
    fn visit_expr_return_mut(&mut self, _: &mut ExprReturn) {
        self.0 = true;
    }

    fn visit_expr_async_mut(&mut self, _: &mut ExprAsync) {}

    fn visit_expr_closure_mut(&mut self, _: &mut ExprClosure) {}

    fn visit_item_mut(&mut self, _: &mut Item) {}
}
