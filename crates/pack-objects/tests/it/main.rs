//! Packs made by this crate, held against git's.

mod crash;
mod damage;
mod disk;
mod requests;
#[path = "../../../hashfile/tests/it/seam.rs"]
mod seam;
mod support;

/// For `seam`.
mod fs {
    pub(crate) use hashfile::{FileSystem, RealFs};
}
