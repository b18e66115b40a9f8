//! Receiving packs: stream to pack, idx and rev, or to loose objects.
//!
//! This release only reserves the front page: receiving packs is not here yet, and the crate has no API.

#![forbid(unsafe_code)]
