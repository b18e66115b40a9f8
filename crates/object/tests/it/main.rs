//! The public API against git, against naive models, and against hostile bytes.

mod fsck;
mod fsck_git;
mod golden;
mod hostile;
mod props;
mod regressions;

use packstone_object::HashKind;

/// Both kinds: whatever has ids is tested with each.
fn kinds() -> [(testkit::Hash, HashKind); 2] {
    [(testkit::Hash::Sha1, HashKind::Sha1), (testkit::Hash::Sha256, HashKind::Sha256)]
}
