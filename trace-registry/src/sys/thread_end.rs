//! A thread that is ended inside a probe goes on ending behind it.
//!
//! pthread_exit(3) and the cancellation of a thread unwind its stack, frame by frame, so that each can clean up. `catch_unwind`, which
//! contains panics of probes, stops whatever unwinds, and aborts the program where that is no panic. So a destructor inside of it (probe.rs,
//! `Inside`) begins to unwind anew in the frame that called the probe, as if the call there had been one of pthread_exit(3):
//!
//! ```text
//! the program's frames            cleaned up, as they are where a program calls pthread_exit(3) itself
//! the emitter                     has nothing to clean up; the read side is never left
//! the probe's own frame           passed over: it holds the marker
//!   catch_unwind and what it runs passed over
//!     the probe                   cleaned up already
//! ```
//!
//! # Invariants
//!
//! - TE-1: The frames that are passed over are of [`Entry::run`](crate::probe::Entry::run), of `Closure::run` and of `catch_unwind`: nothing
//!   waits there to be cleaned up. The same frames a longjmp(3) out of a probe drops.
//!
//! # References
//!
//! pthread_exit(3), pthread_cleanup_push(3); Itanium C++ ABI: Exception Handling, 1.6.1 to 1.6.3 and 2.2.2; LSB Core, `_Unwind_Backtrace`;
//! System V ABI, AMD64, 3.2.1, and AAPCS64, 6.1.1, on the registers that a function preserves.
#![expect(unsafe_code, reason = "a frame is left, and its caller's registers are restored, by assembly")]

use core::ffi::{CStr, c_int, c_void};
use core::mem::{MaybeUninit, offset_of};

/// `_URC_NO_REASON` and `_URC_NORMAL_STOP` of `_Unwind_Reason_Code`.
const GO_ON: c_int = 0;
const ENOUGH: c_int = 4;

/// The general and the floating-point registers that a function preserves, by the numbers of the platform's DWARF mapping.
#[cfg(target_arch = "x86_64")]
const PRESERVED: [c_int; 6] = [3, 6, 12, 13, 14, 15];
#[cfg(target_arch = "aarch64")]
const PRESERVED: [c_int; 19] = [19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 72, 73, 74, 75, 76, 77, 78, 79];

#[repr(C)]
struct Frame {
    /// Value of the stack pointer there; 0: not found.
    stack: usize,
    /// Where it goes on.
    next: usize,
    preserved: [usize; PRESERVED.len()],
    /// The frame that is sought is the first wholly above.
    above: usize,
}

// Of what assembly loads.
const _: () = assert!(offset_of!(Frame, next) == 8 && offset_of!(Frame, preserved) == 16);

/// Room for glibc's `__pthread_unwind_buf_t`: a `jmp_buf` and four words (`bits/types/__cancel_jmp_buf_tag.h`).
#[repr(C, align(16))]
struct CleanupBuffer(MaybeUninit<[u8; 512]>);

unsafe extern "C" {
    fn _Unwind_Backtrace(look: extern "C" fn(*mut c_void, *mut Frame) -> c_int, frame: *mut Frame) -> c_int;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_GetGR(context: *mut c_void, register: c_int) -> usize;
    fn __pthread_register_cancel(buffer: *mut CleanupBuffer);
}
unsafe extern "C-unwind" {
    fn __pthread_unwind_next(buffer: *mut CleanupBuffer) -> !;
}

/// Goes on ending this thread in the frame that called the one which `marker` lies in. Returns where that is not possible, or what unwinds
/// is an exception of C++.
///
/// # Safety
///
/// The thread is being ended by pthread_exit(3) or cancelled. Between here and the frame of `marker`, this included, lie the frames of TE-1,
/// and that was called by code which may be unwound.
pub(crate) unsafe fn end_behind(marker: *const MaybeUninit<u8>) {
    if has_cpp_exception() {
        return;
    }
    let mut frame = Frame { stack: 0, next: 0, preserved: [0; PRESERVED.len()], above: marker.addr() };
    // SAFETY: `look` takes what is handed to it here.
    unsafe { _Unwind_Backtrace(look, &raw mut frame) };
    if frame.stack != 0 {
        // SAFETY: the caller's duty; the frame was found.
        unsafe { go_on_in(&frame) };
    }
}

extern "C" fn look(context: *mut c_void, frame: *mut Frame) -> c_int {
    // SAFETY: the unwinder's own context; `end_behind` waits with the frame. All of these registers have a value: the unwinder saves what a
    // function preserves before it looks at the first frame.
    unsafe {
        let stack = _Unwind_GetCFA(context);
        if stack <= (*frame).above {
            return GO_ON;
        }
        (*frame).stack = stack;
        (*frame).next = _Unwind_GetIP(context);
        for (value, register) in (*frame).preserved.iter_mut().zip(PRESERVED) {
            *value = _Unwind_GetGR(context, register);
        }
        ENOUGH
    }
}

/// Whether the C++ runtime, if the program has one, knows of an exception that is thrown and not yet caught.
fn has_cpp_exception() -> bool {
    /// `__cxa_eh_globals`.
    #[repr(C)]
    struct Globals {
        caught: *mut c_void,
        uncaught: core::ffi::c_uint,
    }
    // SAFETY: the names end in zeroes. The function is the C++ ABI's, which returns this thread's globals.
    let has = |library: *mut c_void| unsafe {
        let address = libc::dlsym(library, c"__cxa_get_globals".as_ptr());
        let get = core::mem::transmute::<*mut c_void, Option<extern "C" fn() -> *const Globals>>(address);
        get.is_some_and(|get| (*get()).uncaught != 0)
    };
    // A library may have loaded it for itself alone.
    // SAFETY: as above; nothing is loaded that is not.
    let loaded = |name: &CStr| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
    has(libc::RTLD_DEFAULT) || [c"libstdc++.so.6", c"libc++abi.so.1"].map(loaded).iter().any(|l| !l.is_null() && has(*l))
}

/// Goes on as a function called by `frame` where that called the one it was found to wait for.
///
/// # Safety
///
/// As for [`end_behind`].
#[cfg(target_arch = "x86_64")]
unsafe fn go_on_in(frame: &Frame) -> ! {
    // SAFETY: the caller's duty: the stack below is nobody's any more. The word there is still the address to return to.
    unsafe {
        core::arch::asm!(
            "mov rbx, qword ptr [rax + 16]",
            "mov rbp, qword ptr [rax + 24]",
            "mov r12, qword ptr [rax + 32]",
            "mov r13, qword ptr [rax + 40]",
            "mov r14, qword ptr [rax + 48]",
            "mov r15, qword ptr [rax + 56]",
            "mov rsp, qword ptr [rax]",
            "sub rsp, 8",
            "jmp {}",
            sym go_on_ending,
            in("rax") frame,
            options(noreturn),
        )
    }
}

/// The same.
///
/// # Safety
///
/// The same.
#[cfg(target_arch = "aarch64")]
unsafe fn go_on_in(frame: &Frame) -> ! {
    // SAFETY: the caller's duty: the stack below is nobody's any more.
    unsafe {
        core::arch::asm!(
            "ldp x16, x30, [x0]",
            "ldp x19, x20, [x0, #16]",
            "ldp x21, x22, [x0, #32]",
            "ldp x23, x24, [x0, #48]",
            "ldp x25, x26, [x0, #64]",
            "ldp x27, x28, [x0, #80]",
            "ldr x29, [x0, #96]",
            "ldp d8, d9, [x0, #104]",
            "ldp d10, d11, [x0, #120]",
            "ldp d12, d13, [x0, #136]",
            "ldp d14, d15, [x0, #152]",
            "mov sp, x16",
            "b {}",
            sym go_on_ending,
            in("x0") frame,
            options(noreturn),
        )
    }
}

/// What pthread_cleanup_pop(3) does after a cleanup function: the thread ends with the value that it began to end with.
extern "C-unwind" fn go_on_ending() -> ! {
    let mut buffer = CleanupBuffer(MaybeUninit::uninit());
    // SAFETY: the buffer lives until the frame is unwound; the first function fills what the second needs.
    unsafe {
        __pthread_register_cancel(&raw mut buffer);
        __pthread_unwind_next(&raw mut buffer)
    }
}
