//! The time stamp counter and the OS clocks.
#![expect(unsafe_code, reason = "reads the time stamp counter and the OS clocks")]

fn clock_ns(clock: libc::clockid_t) -> i128 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `time`. It fails for unknown clocks only.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// Returns `CLOCK_MONOTONIC` in ns.
///
/// # Signal safety
///
/// As clock_gettime(2): async-signal-safe, no system call where the vDSO serves it.
#[inline]
pub(crate) fn os_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `time`. It fails for unknown clocks only.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Returns `CLOCK_REALTIME` in ns.
pub(crate) fn real_ns() -> i128 {
    clock_ns(libc::CLOCK_REALTIME)
}

#[cfg(target_arch = "x86_64")]
#[allow(unused_unsafe, reason = "newer toolchains declare these intrinsics safe")]
mod x86_64 {
    use core::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};

    /// Returns the counter; may be read ahead of earlier loads.
    #[inline(always)]
    pub(crate) fn read() -> u64 {
        // SAFETY: every x86-64 has it; a system that traps it emulates it.
        unsafe { _rdtsc() }
    }

    /// Returns the counter after all earlier loads.
    #[inline(always)]
    pub(crate) fn read_ordered() -> u64 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            _mm_lfence();
            _rdtsc()
        }
    }

    fn leaf(number: u32, base: u32) -> Option<core::arch::x86_64::CpuidResult> {
        // SAFETY: every x86-64 has it.
        unsafe { (__cpuid(base).eax >= number).then(|| __cpuid(number)) }
    }

    /// Whether the counter has a constant rate, does not stop, and is trusted by the kernel.
    pub(crate) fn is_usable() -> bool {
        let is_invariant = leaf(0x8000_0007, 0x8000_0000).is_some_and(|l| l.edx & 1 << 8 != 0);
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        is_invariant && std::fs::read_to_string(source).is_ok_and(|s| s.trim_end() == "tsc")
    }

    /// Returns the counter's rate as the processor names it (CPUID 15H).
    pub(crate) fn nominal_hz() -> Option<u64> {
        let ratio = leaf(0x15, 0)?;
        let hz = u64::from(ratio.ecx) * u64::from(ratio.ebx) / u64::from(ratio.eax.max(1));
        (ratio.eax != 0 && hz > 100_000_000).then_some(hz)
    }
}
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
mod other {
    /// Returns the OS clock: no counter is used here.
    pub(crate) fn read() -> u64 {
        super::os_ns()
    }

    /// Returns the OS clock.
    pub(crate) fn read_ordered() -> u64 {
        super::os_ns()
    }

    /// Returns false.
    pub(crate) fn is_usable() -> bool {
        false
    }

    /// Returns `None`.
    pub(crate) fn nominal_hz() -> Option<u64> {
        None
    }
}
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use other::*;
