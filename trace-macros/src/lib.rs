//! The macros of Ringtrace. Users reach them through the crate `ringtrace`, which is also what expansions name.
//!
//! Each macro is a pipeline: parse → model → validate → expand, and a fallback where validation fails.
//!
//! | Room | Holds |
//! | --- | --- |
//! | `tracepoint` | `#[tracepoint]` |
//! | `function` | `#[tracepoint]` on what has a body |
//! | `adhoc` | `event!`, `span!` |
//! | `site` | what those two have in common |
//! | `probe` | `#[probe]` |
//! | `fields` | `#[derive(Event)]`, `#[derive(Field)]`: the fields of a type and how they are written |
//! | `abi`, `stamp` | `#[derive(Abi)]`; a hash of the sources that a package is made from |
//! | `options`, `lifetimes`, `errors` | attribute words; lifetimes of types that are named elsewhere; errors, all at once |
//! | `support` | the names that expansions use: the support module, linker sections |
//!
//! An expansion is data and one call. What it calls lives in `trace-registry`, where lints and tests see it.
//!
//! # Invariants
//!
//! - MA-1: Expansions name one crate, by absolute path, and `::core::…` in full.
//! - MA-2: Generated `unsafe`, `static` and attribute tokens carry call-site spans, so that lints of the user's crate
//!   (`forbid(unsafe_code)`) do not see them; only types, field expressions and the lines that check them carry the user's.
//! - MA-3: Generated local names carry mixed-site spans, so that no name of the user's captures them.

mod abi;
mod adhoc;
mod errors;
mod fields;
mod function;
mod lifetimes;
mod options;
mod probe;
mod site;
mod stamp;
mod state_dump;
mod support;
mod tracepoint;

use proc_macro::TokenStream;

/// Declares a tracepoint: a function without a body that fires it, and a type of the same name that stands for it.
///
/// ```
/// #[derive(Clone, Copy)]
/// pub enum Reason {
///     Lru,
///     Capacity,
/// }
///
/// /// A page left the cache.
/// #[ringtrace::tracepoint]
/// pub fn page_evicted(page: &[u8], reason: Reason);
///
/// page_evicted(b"index", Reason::Lru); // a call: its arguments are evaluated like those of any other
/// ringtrace::fire!(page_evicted(&[0; 4096], Reason::Capacity)); // evaluated only when the tracepoint is on
/// assert!(!page_evicted::enabled()); // no probe is attached
/// ```
///
/// The declaration says nothing of what is recorded: [`macro@probe`]s do, in any crate. While none is attached, firing costs
/// one load and one predicted branch.
///
/// # Arguments
///
/// Any number of names with `Copy` types: numbers, references, enums, function pointers. Lifetimes may be elided or named;
/// nothing needs to be `'static` or `Send`. There are no type or const parameters and no bounds, because every probe takes the
/// same types; and a tracepoint is a free function, also inside another function.
///
/// # Options
///
/// | Option | Meaning |
/// | --- | --- |
/// | `name = "…"` | its name in rules and traces, instead of `crate:module::function` |
/// | `record` | makes the obvious probe as well: an event whose fields are the arguments, which may carry `#[field(…)]` |
/// | `record, level = Debug` | level of that probe's events; `Info` without it |
/// | `reentrant` | it may fire in signal handlers and allocators, so that only probes made for that attach |
/// | `unsafe(crate = path)` | where `ringtrace` is, for frameworks that hand it on; `path` is ringtrace itself, and nothing that looks like it |
///
/// ```
/// #[ringtrace::tracepoint(record, level = Debug)]
/// fn request(id: u64, #[field(sensitive)] path: &str, #[field(unit = "B")] length: u32);
///
/// request(1, "/index", 5120);
/// ```
///
/// A renamed dependency needs one line at the root of the crate: `extern crate rt as ringtrace;`.
///
/// # Functions with a body
///
/// On a function with a body, all functions of an `impl` block, or all of an inline module, the attribute records each call: an
/// event `crate:module::function::entry` with the arguments, and `…::exit` with its outcome (returned, panicked, cancelled) and
/// duration, however it is left. A rule that names the function takes both. While they are off, a call costs one load and one
/// predicted branch.
///
/// ```
/// #[ringtrace::tracepoint(result = debug)]
/// fn parse(text: &str, base: u32) -> Result<u64, std::num::ParseIntError> {
///     Ok(u64::from_str_radix(text, base)?)
/// }
///
/// struct Cart(Vec<u64>);
///
/// #[ringtrace::tracepoint] // `module::Cart::add`, `module::Cart::total`
/// impl Cart {
///     #[tracepoint(fields(price, count = self.0.len()))]
///     fn add(&mut self, price: u64) {
///         self.0.push(price);
///     }
///     async fn total(&self) -> u64 {
///         self.0.iter().sum()
///     }
/// }
/// # parse("1", 10).unwrap();
/// # Cart(Vec::new()).add(1);
/// ```
///
/// Of the arguments, those are recorded whose types are fields; an argument of a type parameter is one only if a bound says so
/// (`T: Field`). An async function has a number, `future`, in all its events: entry, `poll::entry` and `poll::exit`, exit.
///
/// | Option | Meaning |
/// | --- | --- |
/// | `name = "…"` | its name; needed on a lone method, whose type the attribute does not see |
/// | `skip(a, b)` | arguments that are not recorded |
/// | `fields(a, n = b.len(), c = ?d, e = %f)` | what is recorded instead; `?` by `Debug`, `%` by `Display` |
/// | `result`, `result = debug`, `result = display` | the exit has the result |
/// | `level = Debug` | level of its events; `Info` without it |
/// | `off` | a function of a traced block or module that is not traced |
///
/// A `const fn` is refused; in a block or module it is left out, and so is what bears `#[test]`.
///
/// # Errors
///
/// All mistakes of a declaration are reported at once. A module of the tracepoint's name in the same module is one: both are
/// types to the compiler. In a trait, an impl or an extern block the message is that an enum (the tracepoint's type) cannot
/// stand there.
///
/// ```compile_fail
/// #[ringtrace::tracepoint]
/// fn opened(path: String); // not `Copy`: take `&str`
/// ```
///
/// # Signal safety
///
/// Firing is async-signal-safe and wait-free, and leaves `errno` alone, if the probes are and do. A probe that fires tracepoints
/// nests; beyond a depth of four, firings are counted as lost.
#[proc_macro_attribute]
pub fn tracepoint(options: TokenStream, item: TokenStream) -> TokenStream {
    tracepoint::declare(options.into(), item.into()).into()
}

/// Second stage of `#[tracepoint]`. Not part of the API.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn __tracepoint(declaration: TokenStream, _carrier: TokenStream) -> TokenStream {
    tracepoint::define(declaration.into()).into()
}

/// Makes a function a probe of a tracepoint: it takes the tracepoint's arguments, and makes an event of them.
///
/// ```
/// #[ringtrace::tracepoint]
/// fn sent(to: &str, payload: &[u8]);
///
/// #[derive(ringtrace::Event)]
/// struct Sent<'a> {
///     to: &'a str,
///     #[field(unit = "B")]
///     length: usize,
/// }
///
/// #[ringtrace::probe(sent, level = Debug)]
/// fn record_sent<'a>(to: &'a str, payload: &[u8]) -> Option<Sent<'a>> {
///     (!payload.is_empty()).then(|| Sent { to, length: payload.len() })
/// }
///
/// sent("a", b"xyz");
/// ```
///
/// It returns an event ([`macro@Event`]), an `Option` of one (`None` skips this firing), or nothing: an action, which may count
/// or trigger something. A tracepoint has any number of probes, in any crates; each runs once per firing, however many sessions
/// record its event. A crate that has only probes must be named once by the program (`use storage_probes as _;`), or the linker
/// leaves it out.
///
/// # Options
///
/// | Option | Meaning |
/// | --- | --- |
/// | path | the tracepoint, first |
/// | `name = "…"` | name of the event, instead of the tracepoint's; needed for a second probe of one tracepoint |
/// | `level = Debug` | level of its events, one of the variants of `Level`; `Info` without it |
/// | `unsafe(crate = path)` | where `ringtrace` is, for frameworks that hand it on; `path` is ringtrace itself, and nothing that looks like it |
///
/// # Errors
///
/// Parameters that are not the tracepoint's, a result that is no event, and a path that is no tracepoint are errors where they
/// stand. A probe cannot have its tracepoint's name in the same module.
///
/// ```compile_fail
/// #[ringtrace::tracepoint]
/// fn sent(bytes: u64);
///
/// #[ringtrace::probe(sent)]
/// fn record_sent(bytes: u32) {} // the tracepoint's argument is a `u64`
/// ```
///
/// # Panics
///
/// A panic of a probe does not reach the traced program: it is counted, and the probe is detached and reported. With
/// `panic = "abort"` the program aborts.
///
/// # Signal safety
///
/// A probe runs where its tracepoint fires. It should not allocate, lock, block or make a system call; on a `reentrant`
/// tracepoint it must not.
#[proc_macro_attribute]
pub fn probe(options: TokenStream, item: TokenStream) -> TokenStream {
    probe::expand(options.into(), item.into()).into()
}

/// Makes a struct an event class: its fields are those of the event, in order.
///
/// ```
/// use ringtrace::Event as _;
///
/// #[derive(ringtrace::Event)]
/// struct Evicted<'a> {
///     #[field(hex)]
///     address: u64,
///     #[field(unit = "B", rename = "size")]
///     length: u32,
///     #[field(sensitive)]
///     path: &'a str,
///     #[field(debug)]
///     reason: Result<(), std::fmt::Error>,
/// }
///
/// let names: Vec<_> = Evicted::DESCRIPTION.fields.iter().map(|f| f.name).collect();
/// assert_eq!(names, ["address", "size", "path", "reason"]);
/// ```
///
/// Any struct without type parameters will do; the fields of a tuple struct are named `_0`, `_1`, …. The name and the level of
/// an event are not here but with the [`macro@probe`] that makes it.
///
/// # Options
///
/// | Option | Meaning |
/// | --- | --- |
/// | `rename = "…"` | name of the field |
/// | `hex` | integers are shown in hexadecimal |
/// | `unit = "B"` | unit of the values; of a `Duration` it is `ns` |
/// | `sensitive` | left out of recordings, unless a session asks for it |
/// | `debug`, `display` | text by `Debug` or `Display`, formatted where the event is recorded, at most 128 bytes |
///
/// On the struct, `#[field(unsafe(crate = path))]` says where `ringtrace` is, for frameworks that hand it on; `path` is ringtrace itself,
/// and nothing that looks like it.
///
/// # Errors
///
/// A field's type must implement `Field`, or `Debug` or `Display` where that was asked for. An event has at most 384 bytes of
/// fields besides text and slices of numbers, and eleven fields of those.
///
/// # Signal safety
///
/// Writing an event is that of its fields: those of this crate, and derived ones, are async-signal-safe and wait-free. `debug`
/// and `display` run foreign code, which may not be.
#[proc_macro_derive(Event, attributes(field))]
pub fn derive_event(item: TokenStream) -> TokenStream {
    fields::derive_event(item.into()).into()
}

/// Makes a struct or an enum the type of a field.
///
/// ```
/// use ringtrace::{Field as _, FieldClass};
///
/// #[derive(Clone, Copy, ringtrace::Field)]
/// enum Reason {
///     Lru,
///     Capacity = 300,
/// }
///
/// #[derive(ringtrace::Field)]
/// enum Change<'a> {
///     Gone,
///     Moved { to: &'a str, by: Reason },
/// }
///
/// assert!(matches!(Reason::CLASS, FieldClass::Enumeration { bits: 16, signed: false, .. }));
/// assert!(matches!(Change::CLASS, FieldClass::Variant { .. }));
/// ```
///
/// - A struct becomes a structure of its fields, which take the options of [`macro@Event`].
/// - An enum without data becomes an enumeration: the integer of its `#[repr]`, or the smallest one that holds all values, with
///   the names of the variants in the trace. It needs not be `Copy`.
/// - An enum with data, of at most 256 variants, becomes a variant: one byte that selects, then the fields of the one selected.
///
/// `#[field(rename = "…")]` renames a variant.
///
/// # Errors
///
/// Type parameters, unions and enums without variants are refused.
///
/// # Signal safety
///
/// That of its fields; see [`macro@Event`].
#[proc_macro_derive(Field, attributes(field))]
pub fn field(item: TokenStream) -> TokenStream {
    fields::derive_field(item.into()).into()
}

/// Records an event that is declared where it is recorded.
///
/// ```
/// # let (n, peer, error) = (5, "a", "none");
/// ringtrace::event!("net:sent", len = n, peer);
/// ringtrace::event!("net:failed", peer, error = ?error; level = Warning, if n > 0);
/// ```
///
/// The name comes first, then up to 16 values; a variable or a field goes by its own name. Their types are those of the values,
/// which are fields, or formatted: `?value` by `Debug`, `%value` by `Display`, at most 128 bytes. Behind a `;` stand `level = …`,
/// and last a condition, which is computed only while somebody records the event; so are the values. Each event has a gate of its
/// own: off, it costs one load and one predicted branch.
///
/// On x86-64 and aarch64 Linux the event is known before it happens, so that it is listed, and filters are checked against its
/// fields. Other systems know it from its first hit on, as `ringtrace list` says there. It cannot stand in a `const fn`, nor in the
/// value of a static: the compiler runs those. A macro does not see what it stands in, so the message is the compiler's, of calls
/// that are not `const`; record the event in the function that calls this one.
///
/// # Signal safety
///
/// That of firing a [`macro@tracepoint`], and of the values.
#[proc_macro]
pub fn event(call: TokenStream) -> TokenStream {
    adhoc::event(call.into()).into()
}

/// Records when a scope is entered and left: events `NAME::entry`, with the values, and `NAME::exit`, with outcome and duration.
///
/// ```
/// # let batch = [1, 2];
/// let _span = ringtrace::span!("net:flush", size = batch.len());
/// ```
///
/// It takes what [`event!`] takes. The scope ends where the value is dropped.
///
/// # Signal safety
///
/// That of firing a [`macro@tracepoint`], and of the values.
#[proc_macro]
pub fn span(call: TokenStream) -> TokenStream {
    adhoc::span(call.into()).into()
}

/// Registers a function that records the program's state, such as open tables, connections, names of threads: it runs when a
/// session starts, and when a rule is added to one, and records into that session only.
///
/// It is a free function. In an impl block the message is the compiler's, of a `const` without a name, since an attribute does not
/// see what is around it: put the function beside the block, and let it call the type's.
///
/// ```
/// #[derive(ringtrace::Event)]
/// struct TableOpen<'a> {
///     name: &'a str,
///     rows: u64,
/// }
///
/// #[ringtrace::state_dump]
/// fn tables(dump: &ringtrace::StateDump<'_>) {
///     for (name, rows) in [("users", 3), ("orders", 5)] {
///         dump.record(TableOpen { name, rows });
///     }
/// }
/// ```
///
/// Rules take it by its name, `crate:module::function`, as they take probes of level Info: a session that records `crate:*` has the
/// state of that crate, too. A program's own call of `Session::start` or `enable` returns when the dumps have run, so that its caller
/// must not hold a lock that they take; for sessions that the environment or the command started, they run on a thread of their own.
///
/// `name = "…"` is its name; `unsafe(crate = path)` says where `ringtrace` is, which `path` is itself.
///
/// # Panics
///
/// A panic of the function does not reach the program; the session warns.
#[proc_macro_attribute]
pub fn state_dump(options: TokenStream, item: TokenStream) -> TokenStream {
    state_dump::expand(options.into(), item.into()).into()
}

/// Makes the layout of a type known: a hash of the names, offsets, types and lifetimes of its fields, and of theirs; of `repr`,
/// and of the numbers of variants.
///
/// A loadable probe module is attached to a tracepoint whose argument types have this in the program and in the module, and
/// equal hashes, however the two were built. A field that was added, moved, renamed or given another type is noticed.
///
/// ```
/// #[derive(ringtrace::Abi)]
/// pub struct Page {
///     pub id: u64,
///     pub owner: Owner,
/// }
///
/// #[derive(Clone, Copy, ringtrace::Abi)]
/// pub enum Owner {
///     Nobody,
///     Table(u32),
/// }
///
/// #[ringtrace::tracepoint]
/// pub fn page_evicted(page: &Page);
/// ```
///
/// # Errors
///
/// Type and const parameters, and unions, are refused; so are types of fields that have no `Abi` themselves, and those with
/// lifetimes that are not named by their own names: lifetimes are hashed as they are written. A type that refers to itself has
/// no hash either.
#[proc_macro_derive(Abi)]
pub fn abi(item: TokenStream) -> TokenStream {
    abi::derive(item.into()).into()
}
