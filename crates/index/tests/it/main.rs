//! Tests of the public API: against git, against naive models, against hostile bytes.

mod ext;
mod hostile;
mod model;
mod objects;
mod paths;
mod refresh;
mod regressions;
mod roundtrip;
mod sparse;
mod split;
mod trees;
mod verify;
mod view;
