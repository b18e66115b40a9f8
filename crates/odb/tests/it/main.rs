//! The public API against git, against packs made to hurt, and against a naive model.

mod alternates;
mod concurrency;
mod damage;
mod differential;
mod golden;
mod hostile;
mod loose;
mod many;
mod midx;
mod midx_lookup;
mod props;
mod regressions;
mod support;
mod write;
