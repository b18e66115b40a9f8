//! Repository builders, naive models, failing readers and writers for packstone's tests.
//!
//! This crate is the oracle: it depends on no crate of the workspace, so that a fault in the tested code cannot hide in
//! what it is compared with. Git itself is the other oracle: [`TestRepo`] runs it in an environment that no user or
//! system configuration can reach, with a fixed identity and a clock that ticks once a commit, so that the same calls
//! give the same object ids on every machine.
//!
//! ```
//! use testkit::{Hash, TestRepo};
//!
//! let repo = TestRepo::init(Hash::Sha256);
//! let first = repo.commit_files(&[("README", b"hello\n")], "first");
//! repo.repack_with_bitmap();
//! assert_eq!(repo.rev_list_objects(&[&first]).len(), 3); // a commit, a tree, a blob
//! ```
//!
//! Everything here panics with the command and its output when something goes wrong: callers are tests.

#![forbid(unsafe_code)]

pub mod disk;
pub mod io;
pub mod pack;
pub mod repo;

pub use disk::Disk;
pub use repo::{Hash, TestRepo};
