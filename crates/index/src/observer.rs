//! Told about what reading an index passed over.

use crate::error::ExtError;

/// Told about damage that does not keep an index from being used. All methods do nothing by default.
pub trait Observer: Sync {
    /// An optional extension was damaged and is treated as if it were not there; its data begin at byte `at` of the file.
    fn dropped(&self, signature: [u8; 4], at: u64, why: &ExtError) {
        let _ = (signature, at, why);
    }

    /// A hint for reading in parallel did not fit the entries and was not used.
    fn hint_ignored(&self, what: &'static str, at: u64) {
        let _ = (what, at);
    }

    /// What should be an extension at byte `at` runs past the end of the file. It and all behind it are not there.
    fn cut_short(&self, at: u64) {
        let _ = at;
    }
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quiet;

impl Observer for Quiet {}
