//! An application that evicts pages from several threads until its input ends. It has no probes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn main() {
    ringtrace::init();
    let (stop, next) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    (0..50).for_each(|_| storage::evict(next.fetch_add(1, Ordering::Relaxed)));
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
        println!("evicting pages; press Enter to stop");
        let _ = std::io::stdin().read_line(&mut String::new());
        stop.store(true, Ordering::Relaxed);
    });
}
