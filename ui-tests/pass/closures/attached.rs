//! Signatures and crates in which closures are attached.
#![deny(warnings, missing_docs)]

mod library {
    #![forbid(unsafe_code)]

    #[derive(Clone, Copy)]
    pub struct Page<'a>(pub &'a str);
    struct Private;

    /// With elided and named lifetimes.
    #[ringtrace::tracepoint]
    pub fn elided(page: &Page<'_>, depth: u32);
    #[ringtrace::tracepoint]
    pub fn named<'a>(page: &'a Page<'a>, all: &'a [Page<'a>]);
    #[ringtrace::tracepoint]
    pub fn nothing();
    #[ringtrace::tracepoint]
    fn private(value: &Private);

    pub fn fire() {
        private(&Private);
    }
}

fn main() {
    let guard = library::elided::attach(|page, depth| assert_eq!(page.0.len(), depth as usize));
    library::elided(&library::Page("abc"), 3);
    assert!(!guard.is_panicked());
    let _named = library::named::attach(|page, all| assert_eq!(page.0, all[0].0));
    library::named(&library::Page("a"), &[library::Page("a")]);
    let _nothing = library::nothing::attach(|| {});
    library::nothing();
    library::fire();
}
