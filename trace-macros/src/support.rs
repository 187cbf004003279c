//! What expansions name: the one crate with its hidden support module, linker sections, places and identifiers.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Path, ReturnType, Token, Type};

/// What `unsafe(crate = path)` names. Expansions promise, by `unsafe`, what they make of the items there: that they are ringtrace's is the
/// word of whoever wrote the `unsafe`.
#[derive(Clone)]
pub(crate) struct Krate {
    pub(crate) unsafety: Token![unsafe],
    pub(crate) path: Path,
}

/// The support module: of the crate that `unsafe(crate = path)` names, or of `::ringtrace`.
pub(crate) fn support(krate: Option<&Krate>) -> TokenStream {
    match krate {
        Some(Krate { path, .. }) => quote!(#path::__private),
        None => quote!(::ringtrace::__private),
    }
}

/// `items` in a scope of their own, where `__rt` is the support module: a short name, because the time that a macro takes
/// goes by its tokens.
pub(crate) fn scope(krate: Option<&Krate>, items: &TokenStream) -> TokenStream {
    let support = support(krate);
    let given = krate.map(|Krate { unsafety, .. }| {
        // In the place of the user's own `unsafe`, so that a crate that forbids it does not compile.
        let mut call = Group::new(Delimiter::Brace, quote!(__rt::crate_given()));
        call.set_span(unsafety.span);
        quote!(const _: () = #unsafety #call;)
    });
    quote! {
        const _: () = {
            use #support as __rt;
            #given
            #items
        };
    }
}

/// Attributes of a static that the linker collects in `slice`, a slice of the support module.
pub(crate) fn collected(slice: &str) -> TokenStream {
    let slice = Ident::new(slice, Span::call_site());
    quote! {
        #[__rt::linkme::distributed_slice(__rt::#slice)]
        #[linkme(crate = __rt::linkme)]
    }
}

/// Attribute of a gate: on ELF all gates lie together, so that a cache line of them holds nothing that is written.
pub(crate) fn gate_section() -> TokenStream {
    quote!(#[cfg_attr(all(unix, not(target_vendor = "apple")), unsafe(link_section = "ringtrace_gates"))])
}

/// Where `ident` stands.
pub(crate) fn location(ident: &Ident) -> TokenStream {
    // `line!` counts from the outermost macro call of its span, which is the attribute for a call-site span.
    let line = quote_spanned!(ident.span()=> ::core::line!());
    quote!(__rt::Location { file: ::core::file!(), line: #line })
}

/// `ident` where lints do not see it as written by the user.
pub(crate) fn hidden(ident: &Ident) -> Ident {
    let mut hidden = ident.clone();
    hidden.set_span(ident.span().resolved_at(Span::call_site()));
    hidden
}

/// The text of `ident` without `r#`.
pub(crate) fn plain(ident: &Ident) -> String {
    ident.unraw().to_string()
}

/// What stands for the name of a type.
///
/// # References
///
/// FNV-1a, 64 bits: <http://www.isthe.com/chongo/tech/comp/fnv/>.
pub(crate) fn name_hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Whether a function returns `()`.
pub(crate) fn returns_nothing(output: &ReturnType) -> bool {
    match output {
        ReturnType::Default => true,
        ReturnType::Type(_, ty) => matches!(&**ty, Type::Tuple(tuple) if tuple.elems.is_empty()),
    }
}
