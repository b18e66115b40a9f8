//! Tests of the public API: against git, against naive models, against hostile bytes.

mod ext;
mod paths;
