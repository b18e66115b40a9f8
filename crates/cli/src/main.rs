//! `packstone`: git's storage plumbing as one program.

fn main() {}
