//! A tracepoint is as visible as it says, with types that are no more visible than that.
#![deny(warnings, private_interfaces)]

mod cache {
    #[derive(Clone, Copy)]
    pub(crate) struct Page(pub(crate) u32);

    struct Inner;

    /// Crate.
    #[ringtrace::tracepoint]
    pub(crate) fn evicted(page: &Page);

    #[ringtrace::tracepoint]
    pub(super) fn loaded(page: Page);

    #[ringtrace::tracepoint]
    pub(in crate::cache) fn checked(page: &Page);

    #[ringtrace::tracepoint]
    fn inner(inner: &Inner);

    pub(crate) fn run() {
        inner(&Inner);
        checked(&Page(2));
        deeper::run();
    }

    mod deeper {
        #[ringtrace::probe(super::inner)]
        fn probe(_inner: &super::Inner) {}

        pub(super) fn run() {
            super::checked(&super::Page(1));
        }
    }
}

#[derive(ringtrace::Event)]
struct Evicted {
    page: u32,
}

#[ringtrace::probe(cache::evicted)]
fn record_evicted(page: &cache::Page) -> Evicted {
    Evicted { page: page.0 }
}

fn main() {
    use cache::evicted;
    evicted(&cache::Page(1));
    ringtrace::fire!(crate::cache::evicted(&cache::Page(1)));
    cache::loaded(cache::Page(2));
    cache::run();
}
