//! Tests of the public API: against git, against naive models, against hostile bytes.

mod ext;
mod model;
mod objects;
mod paths;
mod refresh;
mod sparse;
mod trees;
mod verify;
mod view;
