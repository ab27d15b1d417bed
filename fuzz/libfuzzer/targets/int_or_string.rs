#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| berth_fuzz::int_or_string::run(data));
