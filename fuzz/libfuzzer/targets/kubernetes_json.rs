#![no_main]

libfuzzer_sys::fuzz_target!(
    init: berth_fuzz::on_this_thread(),
    |data: &[u8]| berth_fuzz::kubernetes_json::run(data)
);
