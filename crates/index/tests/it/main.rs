//! Tests of the public API: against git, against naive models, against hostile bytes.

mod crash;
mod ext;
mod hostile;
mod model;
mod objects;
mod paths;
mod refresh;
mod regressions;
mod roundtrip;
#[path = "../../../hashfile/tests/it/seam.rs"]
mod seam;
mod sparse;
mod split;
mod trees;
mod verify;
mod view;

/// For `seam`.
mod fs {
    pub(crate) use hashfile::{FileSystem, RealFs};
}
