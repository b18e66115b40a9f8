//! Tests of the public API: against git, against naive closures, against damaged and hand-made files.

mod answers;
mod damage;
mod golden;
mod hostile;
mod parts;
mod props;
mod regressions;
mod world;
