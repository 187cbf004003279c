//! Expand: the function, its type, its gate and descriptor, and the emitter.

use super::model::Tracepoint;
use crate::abi;
use crate::fields::Recorded;
use crate::lifetimes;
use crate::probe;
use crate::support::{collected, gate_section, hidden, location, plain, scope};
use proc_macro2::{Delimiter, Group, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::{Ident, Type};

pub(super) fn expand(tracepoint: &Tracepoint) -> TokenStream {
    let (vis, ident) = (&tracepoint.vis, &tracepoint.sig.ident);
    let function = function(tracepoint);
    let recorder = tracepoint.recorded.as_ref().map(|event| recorder(tracepoint, event));
    let descriptor = descriptor(tracepoint);
    let (collected, gate_section) = (collected("TRACEPOINTS"), gate_section());

    let types: Vec<_> = tracepoint.arguments.iter().map(|(_, ty)| ty).collect();
    let lifetimes = &tracepoint.lifetimes;
    let arguments: Vec<_> = (0..types.len()).map(|i| format_ident!("a{i}", span = Span::mixed_site())).collect();
    let [entry, function_pointer] = ["entry", "function"].map(|name| Ident::new(name, Span::mixed_site()));
    let number = types.len();
    let deprecated = tracepoint.attrs.iter().filter(|a| a.path().is_ident("deprecated"));
    // Lints of names and dead code are about the function, which has the same name.
    let alias = hidden(ident);
    let type_name = type_name(ident);
    let description = description(tracepoint, &types);
    let attach = attach(tracepoint, &type_name, &types, &arguments);

    let items = quote! {
        #gate_section
        static __RINGTRACE_GATE: __rt::Gate = __rt::Gate::new();

        #collected
        static __RINGTRACE_TRACEPOINT: __rt::TracepointDescriptor = #descriptor;

        impl #type_name {
            /// Returns whether a probe is attached.
            #[inline(always)]
            #[must_use]
            #vis fn enabled() -> ::core::primitive::bool {
                __RINGTRACE_GATE.is_on()
            }

            #[doc(hidden)]
            #[cold]
            #[inline(never)]
            #vis fn __emit<#(#lifetimes),*>(#(#arguments: #types),*) {
                #(let _ = __rt::argument::<#types>;)*
                // The function counts as used where only `fire!` fires the tracepoint.
                #[allow(deprecated)]
                let _ = #alias;
                __rt::emit(&__RINGTRACE_GATE, move |#entry| {
                    // SAFETY: TP-2: the list holds functions that `__probe` typed.
                    let #function_pointer = unsafe { #entry.function_as::<fn(&__rt::Entry, #(#types),*)>() };
                    if let ::core::option::Option::Some(#function_pointer) = #function_pointer {
                        #function_pointer(#entry, #(#arguments),*);
                    }
                });
            }

            #[doc(hidden)]
            #vis fn __probe(
                self,
                #function_pointer: for<#(#lifetimes),*> fn(&__rt::Entry, #(#types),*),
            ) -> __rt::ErasedProbe {
                #function_pointer as __rt::ErasedProbe
            }

            #attach

            #description
        }

        // SAFETY: TP-2: the emitter above calls functions of the type that `__probe` takes.
        unsafe impl __rt::Tracepoint for #type_name {
            type Itself = #type_name;
            fn descriptor() -> &'static __rt::TracepointDescriptor {
                &__RINGTRACE_TRACEPOINT
            }
        }

        // SAFETY: as above.
        unsafe impl __rt::Takes<#number> for #type_name {
            type Itself = #type_name;
            const ITSELF: #type_name = #type_name::__Itself;
        }

        #recorder
    };
    let items = scope(tracepoint.words.krate.as_ref(), &items);
    quote! {
        #function

        // An enum, whose variant lies behind its name: a local `let name` can shadow it, which a unit struct does not allow.
        #[doc(hidden)]
        #vis enum #type_name { #[doc(hidden)] __Itself }
        // What follows does not name the alias: if a module has its name, that is one error.
        // Unused where nothing asks for `enabled`, which the lint sees when `macro_rules!` made the declaration.
        #[allow(dead_code)]
        #[doc(hidden)]
        #(#deprecated)*
        #vis type #alias = #type_name;
        #items
    }
}

/// The function that fires the tracepoint.
fn function(tracepoint: &Tracepoint) -> TokenStream {
    let Tracepoint { attrs, vis, sig, arguments, .. } = tracepoint;
    let ident = type_name(&sig.ident);
    let names = arguments.iter().map(|(name, _)| name);
    let fire = quote! {
        if #ident::enabled() {
            #ident::__emit(#(#names),*);
        }
    };
    // The span of the `;`: the function ends there, so that it is seen as the user's own and warned about when it is never used.
    let mut body = Group::new(Delimiter::Brace, fire);
    body.set_span(tracepoint.end);
    let event = event_line(tracepoint);
    quote! {
        #(#attrs)*
        #event
        #[allow(clippy::inline_always)]
        #[inline(always)]
        #vis #sig #body
    }
}

/// What the arguments are in memory, and to the compiler.
fn description(tracepoint: &Tracepoint, types: &[&syn::Type]) -> TokenStream {
    let lifetimes = &tracepoint.lifetimes;
    let inspected = types.iter().map(|ty| {
        let name = spaced(&ty.to_token_stream().to_string());
        let mut referent = *ty;
        while let syn::Type::Reference(reference) = referent {
            referent = &reference.elem;
        }
        let (hash, written) = if abi::concealed(ty).is_some() {
            (quote!(::core::option::Option::None), quote!(__rt::all_written))
        } else {
            (hash(ty), written(ty))
        };
        quote! {
            __rt::ArgumentType {
                name: #name,
                size: __rt::Inspect::<#referent>::SIZE,
                hash: #hash,
                has_all_written: #written,
            }
        }
    });
    quote! {
        #[allow(unused_imports)]
        fn __arguments<#(#lifetimes),*>() -> &'static [__rt::ArgumentType] {
            use __rt::{Misnamed as _, Unknown as _};
            const { &[#(#inspected),*] }
        }

        fn __identity() -> ::core::any::TypeId {
            __rt::identity::<for<#(#lifetimes),*> fn(#(#types),*)>()
        }
    }
}

/// The hash of a type's layout; none where the type, or what it names, is not written by its own name.
fn hash(ty: &Type) -> TokenStream {
    let hash = quote!(__rt::Inspect::<#ty>::HASH);
    let (paths, names): (Vec<_>, Vec<_>) = abi::named(ty).into_iter().unzip();
    if paths.is_empty() {
        return hash;
    }
    quote!(if #(__rt::Written::<#paths, #names>::BY_NAME)&&* { #hash } else { ::core::option::Option::None })
}

/// A function that says whether a type has all of its lifetimes written, which an alias or a path without them may not.
fn written(ty: &Type) -> TokenStream {
    if !abi::may_elide(ty) {
        return quote!(__rt::all_written);
    }
    let ty = lifetimes::made_static(ty.clone());
    quote! {{
        #[allow(elided_lifetimes_in_paths)]
        fn __written() -> ::core::primitive::bool {
            const ELIDED: __rt::Elided<#ty> = __rt::Elided::NEW;
            __rt::has_all_written::<_, fn(#ty)>(&ELIDED)
        }
        __written
    }}
}

/// `attach`, or `attach_reentrant`: a closure becomes a probe.
fn attach(tracepoint: &Tracepoint, type_name: &Ident, types: &[&syn::Type], arguments: &[Ident]) -> TokenStream {
    let (vis, lifetimes) = (&tracepoint.vis, &tracepoint.lifetimes);
    let [closure, entry, call] = ["closure", "entry", "call"].map(|name| Ident::new(name, Span::mixed_site()));
    let closure_type = Ident::new("RingtraceClosure", Span::mixed_site());
    let bound = quote!(for<#(#lifetimes),*> ::core::ops::Fn(#(#types),*));
    let bounds = quote!(#bound + ::core::marker::Send + ::core::marker::Sync + 'static);
    let reentrant = tracepoint.words.reentrant;
    let body = quote! {
        let trampoline = #type_name::__Itself.__probe(|#entry, #(#arguments),*| {
            // SAFETY: CL-1: the closure of this entry has this type.
            unsafe { #entry.run_closure::<#closure_type>(|#call| #call(#(#arguments),*)) }
        });
        // SAFETY: TP-2, CL-1: typed by `__probe`, and for this type of closure.
        unsafe { __rt::attach(&__RINGTRACE_TRACEPOINT, trampoline, #reentrant, #closure) }
    };
    let allowed = quote!(#[allow(dead_code, private_bounds)]);
    if !reentrant {
        return quote! {
            /// Attaches a closure until the guard is dropped.
            ///
            /// It runs where the tracepoint fires, as probes do, but not inside another probe: then it is skipped, and counted.
            #allowed
            #[track_caller]
            #vis fn attach<#closure_type: #bounds>(#closure: #closure_type) -> __rt::AttachGuard {
                #body
            }
        };
    }
    quote! {
        /// A closure is attached to this tracepoint by [`attach_reentrant`](Self::attach_reentrant) only.
        #allowed
        #vis fn attach<#closure_type: #bound + __rt::AttachesSafely>(_: #closure_type) -> __rt::AttachGuard {
            ::core::unreachable!()
        }

        /// Attaches a closure until the guard is dropped.
        ///
        /// # Safety
        ///
        /// The closure may run in a signal handler, inside an allocator, and inside itself: it must not allocate, lock, wait,
        /// or panic there, nor drop this guard.
        #allowed
        #[track_caller]
        #vis unsafe fn attach_reentrant<#closure_type: #bounds>(#closure: #closure_type) -> __rt::AttachGuard {
            #body
        }
    }
}

/// The type behind a tracepoint's name.
fn type_name(ident: &Ident) -> Ident {
    format_ident!("__tracepoint_{}", ident, span = hidden(ident).span())
}

/// One line of documentation with the event's name. An undocumented tracepoint gets none, so that `missing_docs` sees it.
fn event_line(tracepoint: &Tracepoint) -> Option<TokenStream> {
    if !tracepoint.attrs.iter().any(|a| a.path().is_ident("doc")) {
        return None;
    }
    Some(match &tracepoint.words.name {
        Some(name) => {
            let line = format!("\n\nEvent `{}`.", name.value());
            quote!(#[doc = #line])
        }
        None => {
            let name = plain(&tracepoint.sig.ident);
            quote!(#[doc = ::core::concat!("\n\nEvent `", #name, "` of module `", ::core::module_path!(), "`.")])
        }
    })
}

fn descriptor(tracepoint: &Tracepoint) -> TokenStream {
    let reentrant = tracepoint.words.reentrant;
    let name = match &tracepoint.words.name {
        Some(name) => quote!(__rt::Name::given(#name)),
        None => {
            let name = plain(&tracepoint.sig.ident);
            quote!(__rt::Name::derived(::core::module_path!(), #name))
        }
    };
    let signature = spaced(&tracepoint.sig.to_token_stream().to_string());
    let location = location(&tracepoint.sig.ident);
    let (type_name, stamp) = (type_name(&tracepoint.sig.ident), crate::stamp::of_package());
    quote! {
        __rt::TracepointDescriptor {
            name: #name,
            form: __rt::Form::Declaration,
            signature: #signature,
            location: #location,
            gate: &__RINGTRACE_GATE,
            reentrant: #reentrant,
            module_path: ::core::module_path!(),
            arguments: #type_name::__arguments,
            identity: #type_name::__identity,
            stamp: #stamp,
            // SAFETY: all of it is of this declaration.
            promise: unsafe { __rt::Promise::given() },
        }
    }
}

/// The event, and the probe, of `#[tracepoint(record)]`.
fn recorder(tracepoint: &Tracepoint, event: &Recorded) -> TokenStream {
    let ident = &tracepoint.sig.ident;
    let event = event.expand();
    let names: Vec<_> = tracepoint.arguments.iter().map(|(name, _)| hidden(name)).collect();
    let values: Vec<_> = (0..names.len()).map(|i| format_ident!("a{i}", span = Span::mixed_site())).collect();
    let call = quote!(__RingtraceEvent { #(#names: #values),* });
    let probe = probe::descriptor(&probe::Descriptor {
        tracepoint: type_name(ident).into_token_stream(),
        output: quote!(__RingtraceEvent),
        name: None,
        level: tracepoint.words.level.as_ref(),
        location: location(ident),
        parameters: &values,
        arity_span: Span::call_site(),
        call,
    });
    quote! {
        #event
        #probe
    }
}

/// The text of a signature as people space it. Tokens come with a space between any two.
pub(crate) fn spaced(tokens: &str) -> String {
    // Those of long signatures are over several lines.
    let tokens = tokens.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut text = String::with_capacity(tokens.len());
    let mut rest = tokens.chars().peekable();
    while let Some(c) = rest.next() {
        let opens = text.ends_with(['&', '(', '<', '[', '*', ' ']) || text.ends_with("::");
        let follows = match rest.peek() {
            Some(':' | ',' | ';' | '>' | ')' | ']') => true,
            Some('<' | '(') => !text.ends_with([',', '+', ':', '=']) && !text.ends_with("->"),
            _ => false,
        };
        if c != ' ' || !(opens || follows) {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::spaced;

    #[test]
    fn signatures_are_spaced_as_people_write_them() {
        let tokens =
            "fn f < 'a > (page : & 'a Page < 'a >, all : & [u8 ; 4], p : * const std :: ffi :: c_void, g : fn (u8) -> (u8, u8))";
        let text = "fn f<'a>(page: &'a Page<'a>, all: &[u8; 4], p: *const std::ffi::c_void, g: fn(u8) -> (u8, u8))";
        assert_eq!(spaced(tokens), text);
        assert_eq!(spaced(text), text);
        assert_eq!(spaced("fn f(a : u8, b\n    : u8)"), "fn f(a: u8, b: u8)");
    }
}
