#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ringtrace_fuzz::tsdl(data));
