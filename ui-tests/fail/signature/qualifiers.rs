//~ KEY: a tracepoint cannot be `unsafe`
#[ringtrace::tracepoint]
const fn constant();

#[ringtrace::tracepoint]
async fn later();

#[ringtrace::tracepoint]
unsafe fn dangerous();

#[ringtrace::tracepoint]
extern "C" fn foreign();

fn main() {
    constant();
    later();
    // SAFETY: it does nothing.
    unsafe { dangerous() };
    foreign();
}
