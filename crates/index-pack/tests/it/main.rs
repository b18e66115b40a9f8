//! The public API against git, against packs made to hurt, and on a disk that fails.

mod crash;
mod differential;
mod hostile;
mod process;
mod regressions;
#[path = "../../../hashfile/tests/it/seam.rs"]
mod seam;
mod strict;
mod support;
mod unpack;

/// For `seam`.
mod fs {
    pub(crate) use hashfile::{FileSystem, RealFs};
}
