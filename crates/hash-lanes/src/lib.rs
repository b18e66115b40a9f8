//! Many independent SHA-1 and SHA-256 messages hashed side by side in SIMD lanes.
//!
//! This release only reserves the front page: hashing many independent messages side by side is not here yet, and the crate has no API.

#![forbid(unsafe_code)]
