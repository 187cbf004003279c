//~ KEY: it returns a boxed future, whose end the attribute cannot see: end the function in `Box::pin(async move { … })`
use std::future::Future;
use std::pin::Pin;

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

async fn body(size: u32) -> u32 {
    size
}

#[ringtrace::tracepoint]
fn made_elsewhere(size: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
    let made = Box::pin(body(size));
    made
}

#[ringtrace::tracepoint]
fn returns_before(size: u32) -> BoxFuture<'static, u32> {
    if size == 0 {
        return Box::pin(body(1));
    }
    Box::pin(body(size))
}

#[ringtrace::tracepoint(sync)]
fn called(size: u32) -> BoxFuture<'static, u32> {
    let made = Box::pin(body(size));
    made
}

fn main() {
    drop((made_elsewhere(1), returns_before(1), called(1)));
}
