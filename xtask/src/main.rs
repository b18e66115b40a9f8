//! `cargo xtask`: every developer task of the workspace.

fn main() {}
