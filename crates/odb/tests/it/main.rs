//! The public API against git, against packs made to hurt, and against a naive model.

mod alternates;
mod batch;
mod concurrency;
mod crash;
mod damage;
mod differential;
mod faults;
mod golden;
mod hostile;
mod loose;
mod many;
mod midx;
mod midx_crash;
mod midx_lookup;
mod props;
mod quarantine;
mod range;
mod regressions;
#[path = "../../../hashfile/tests/it/seam.rs"]
mod seam;
mod support;
mod write;

/// For `seam`.
mod fs {
    pub(crate) use hashfile::{FileSystem, RealFs};
}
