//! git's index file (.git/index): versions 2 to 4 and every extension, in arenas.
//!
//! This release only reserves the front page: reading, editing and writing `.git/index` is not here yet, and the crate has no API.

#![forbid(unsafe_code)]
