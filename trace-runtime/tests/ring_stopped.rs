//! A thread that is stopped at any instruction of an append holds up nobody: others append to the same buffer, and all of it is
//! delivered, sub-buffer after sub-buffer. When it goes on, its own record is written once.
#![expect(unsafe_code, reason = "a handler of traps")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod ring_support;

use ring_support::{BY_CPU, Of, RAW, decode, file};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use trace_runtime::clock::Clock;
use trace_runtime::ring_buffer::{Geometry, Outcome, Purpose, Reader};

/// Not the OS clock, which tries again when the kernel has set it meanwhile: a thread that is stopped at each instruction may never
/// get through that on a machine that is busy.
type Configuration = Of<false, RAW, false, BY_CPU>;

/// Instructions after which the thread was stopped, and after which it may go on.
static STOPPED: AtomicU64 = AtomicU64::new(0);
static RELEASED: AtomicU64 = AtomicU64::new(0);
const OVER: u64 = u64::MAX;

extern "C" fn on_step(_: libc::c_int) {
    let steps = STOPPED.load(SeqCst) + 1;
    STOPPED.store(steps, SeqCst);
    while RELEASED.load(SeqCst) < steps {
        std::thread::yield_now();
    }
}

/// Executes `run`, and is stopped after each instruction.
fn step_through(run: impl FnOnce()) {
    // SAFETY: changes the trap flag of this thread, whose handler is `on_step`.
    unsafe {
        std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
        run();
        std::arch::asm!("pushfq", "and qword ptr [rsp], 0xfffffffffffffeff", "popfq");
    }
}

/// Another thread's records that a reader gets now, and the stopped thread's.
fn read(reader: &mut Reader, own: &mut usize) -> usize {
    let header = reader.settings().header;
    let mut others = 0;
    for buffer in 0..reader.geometry().buffers {
        while let Some(packet) = reader.next(buffer, true) {
            let records = decode(&packet, header);
            *own += records.iter().filter(|r| r.id == 1).count();
            others += records.iter().filter(|r| r.id != 1).count();
            reader.consume(packet);
        }
    }
    others
}

#[test]
fn a_stopped_thread_holds_up_neither_threads_nor_sub_buffers() {
    if !ring_support::has_sequences() || !Clock::process().is_counter() {
        return; // in the fallback region, a reader waits 100 ms for a reservation
    }
    ring_support::pin(); // both threads
    // SAFETY: the handler only uses atomics and sched_yield.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_step as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut());
    }
    let cpus: Vec<u32> = (0..ring_support::cpus()).collect();
    let geometry = Geometry { buffers: ring_support::cpus(), sub_buffer: 4096, sub_buffers: 4, fallback: 16384 };
    let channel = ring_support::create::<Configuration>(file(), geometry, &cpus, Clock::process()).expect("a channel");
    let mut reader = channel.reader(Purpose::Consume).expect("the first reader");
    let mut own = 0;
    let (mut stops, mut delivered) = (0, 0);
    std::thread::scope(|scope| {
        let channel = &channel;
        let stopped = scope.spawn(move || {
            let mut outcome = None;
            step_through(|| outcome = Some(channel.record(1, &[&[7]])));
            STOPPED.store(OVER, SeqCst);
            outcome
        });
        let payload = [30_u8; 30];
        loop {
            while STOPPED.load(SeqCst) == stops {
                std::thread::yield_now();
            }
            if STOPPED.load(SeqCst) == OVER {
                break;
            }
            stops += 1;
            // A sub-buffer's worth at times, so that it is closed and the next one opened in the middle of the other's event.
            let records = if stops % 8 == 0 { 150 } else { 3 };
            for number in 0..records {
                let len = [payload.len() as u8, 0];
                assert_eq!(channel.record(2, &[&len, &payload[2..]]), Outcome::Recorded, "{number} after {stops} stops");
            }
            assert_eq!(read(&mut reader, &mut own), records, "not delivered, after {stops} stops");
            delivered += records;
            RELEASED.store(stops, SeqCst);
        }
        assert_eq!(stopped.join().expect("the thread"), Some(Outcome::Recorded));
    });
    assert_eq!(read(&mut reader, &mut own), 0);
    while let Some(record) = reader.next_fallback(true) {
        assert_eq!((record.id, record.payload), (1, &[7][..]));
        own += 1;
    }
    assert_eq!(own, 1, "the stopped thread's record");
    println!("stopped {stops} times, {delivered} records of others delivered meanwhile; {}", channel.core().losses());
    assert!(stops > 100);
}
