//! The public API against git, against packs made to hurt, and against a naive model.

mod alternates;
mod concurrency;
mod damage;
mod differential;
mod golden;
mod hostile;
mod loose;
mod midx;
mod props;
mod regressions;
mod support;
mod write;
