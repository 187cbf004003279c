//! What expansions name: the one crate with its hidden support module, linker sections, places and identifiers.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Path;
use syn::ext::IdentExt;

/// The support module, by absolute path: `::ringtrace::__private`, or that of the crate that `crate = path` names.
#[derive(Clone)]
pub(crate) struct Support(Option<Path>);

impl Support {
    pub(crate) fn of(path: Option<Path>) -> Support {
        Support(path)
    }
}

impl ToTokens for Support {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(match &self.0 {
            Some(path) => quote!(#path::__private),
            None => quote!(::ringtrace::__private),
        });
    }
}

/// Attributes of a static that the linker collects in `slice`, a slice of the support module.
pub(crate) fn collected(support: &Support, slice: &str) -> TokenStream {
    let slice = Ident::new(slice, Span::call_site());
    quote! {
        #[#support::linkme::distributed_slice(#support::#slice)]
        #[linkme(crate = #support::linkme)]
    }
}

/// Attribute of a gate: on ELF all gates lie together, so that a cache line of them holds nothing that is written.
pub(crate) fn gate_section() -> TokenStream {
    quote!(#[cfg_attr(all(unix, not(target_vendor = "apple")), unsafe(link_section = "ringtrace_gates"))])
}

/// Where `ident` stands.
pub(crate) fn location(ident: &Ident, support: &Support) -> TokenStream {
    // `line!` counts from the outermost macro call of its span, which is the attribute for a call-site span.
    let line = quote_spanned!(ident.span()=> ::core::line!());
    quote!(#support::Location { file: ::core::file!(), line: #line })
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
