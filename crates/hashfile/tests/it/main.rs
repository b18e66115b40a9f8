//! The public API of hashfile against naive models, git's files, and sinks that fail.

#[path = "../../fuzz/bodies.rs"]
mod bodies;
mod crash;
mod golden;
mod hostile;
mod lock;
mod props;
mod publish;
mod regressions;
mod seam;
mod writer;

use object::HashKind;

const KINDS: [HashKind; 2] = [HashKind::Sha1, HashKind::Sha256];

/// `content` and its trailer, by hashers that hashfile does not use through `object`.
fn with_trailer(kind: HashKind, content: &[u8]) -> Vec<u8> {
    [content, &bodies::hash(kind, content)].concat()
}

/// For `seam`.
mod fs {
    pub(crate) use packstone_hashfile::{FileSystem, RealFs};
}
