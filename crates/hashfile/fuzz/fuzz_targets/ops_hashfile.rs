#![no_main]

#[path = "../bodies.rs"]
#[allow(dead_code)] // the tests use more of it
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::ops_hashfile(data));
