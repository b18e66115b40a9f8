#![no_main]

#[path = "../bodies.rs"]
#[allow(dead_code)] // the tests and the other targets use more of it
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::parse_index(data));
