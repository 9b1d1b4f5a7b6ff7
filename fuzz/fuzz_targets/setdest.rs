#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| linkhold_fuzz::setdest(data));
