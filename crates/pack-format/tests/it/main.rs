//! The public API against git, against testkit's naive models, and against hostile bytes.

mod golden;
mod hostile;
mod hostile_midx;
mod props;
mod regressions;
mod zlib;

use object::HashKind;
use packstone_pack_format::{ParseErrorKind, idx::Idx};

/// Both kinds: whatever has ids is tested with each.
fn kinds() -> [(testkit::Hash, HashKind); 2] {
    [(testkit::Hash::Sha1, HashKind::Sha1), (testkit::Hash::Sha256, HashKind::Sha256)]
}

/// What is wrong with an index.
fn idx_error(bytes: &[u8], kind: HashKind) -> ParseErrorKind {
    Idx::parse(bytes, kind).map(|_| ()).unwrap_err().kind
}
