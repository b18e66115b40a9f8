//! Tests of the public API: against a naive model, against git's own bytes, against hostile bytes.

mod golden;
mod hostile;
mod model;
mod props;
mod regressions;
