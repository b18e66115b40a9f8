//! Walks over git's object graph: which commits one side has to send to the other, and what hangs off them.
//!
//! This crate reads `commit-graph` files (single and chained, SHA-1 and SHA-256), computes the exact difference of two
//! histories, marks what trees reach, and understands shallow boundaries, grafts, tags and object filters. Use it to find
//! *which* objects make an answer; to read objects use `packstone-odb`, to look the answer up in bitmaps use
//! `packstone-pack-bitmap`, to write it as a pack use `packstone-pack-objects`.
//!
//! ```no_run
//! # use {object as packstone_object, odb as packstone_odb};
//! use packstone_object::HashKind;
//! use packstone_odb::{Options, Store};
//! use packstone_revwalk::{CommitGraph, Commits, LimitOptions, Shallow, limit};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let objects = "repo.git/objects".as_ref();
//! let store = Store::open(objects, Options::new(HashKind::Sha1))?;
//! let (graph, _problems) = CommitGraph::open(&[objects], HashKind::Sha1);
//! let commits = Commits::new(&store, graph, Shallow::none());
//! let (new, old) = ("6c8a2b0fd5f6ae08c1f13ba0a1dcfa7d3e1a4c6b".parse()?, "0d1f2e3c4b5a69788796a5b4c3d2e1f00f1e2d3c".parse()?);
//! for commit in limit(&commits, &[new], &[old], &LimitOptions::default())?.commits {
//!     println!("{} {}", commit.id, commit.tree);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # The types
//! - [`CommitGraph`], [`GraphFile`](commit_graph::GraphFile): facts about commits without reading them.
//! - [`Commits`]: history as a walk sees it, from the graph or from the commits, with [`Shallow`] boundaries and grafts.
//! - [`limit()`]: reachable from the wants, not from the haves, and the edge between; [`peel`]: from tags to objects.
//! - [`Filter`]: `blob:none` and its kin, parsed and printed as git does.
//! - [`ObjectSet`], [`Numbering`], [`ObjectNr`]: sets of objects as bitsets over dense numbers.
//!
//! # Guarantees
//! - **Panics**: none that bytes can reach. What can be misused says so under `# Panics`.
//! - **Exactness**: a [`limit()`] is never fooled by wrong clocks; [`mod@limit`] explains the rule, and its price.
//! - **Wrong files**: a commit-graph is checked for bounds, not for truth. An entry whose parents cannot be read is
//!   replaced by the commit itself; generation numbers that contradict the edges are not used.
//! - **Complexity**: linear in what is visited. No recursion: depth of history or of tags costs no stack.
//! - **Determinism**: results depend on the store's content and the arguments only.

// Files of a repository come through here; nothing in it is worth an `unsafe`.
#![forbid(unsafe_code)]

mod ahead;
mod error;

pub mod commit_graph;
mod commits;
mod edges;
pub mod filter;
pub mod limit;
mod numbering;
mod objects;
mod peel;
mod set;
pub mod shallow;
mod trees;

pub use commit_graph::{CommitGraph, GraphPos};
pub use commits::{CommitInfo, Commits};
pub use error::WalkError;
pub use filter::{Filter, FilterError};
pub use limit::{Edge, LimitOptions, LimitStats, Limited, LimitedCommit, MissingHaves, Stop, limit};
pub use numbering::{Numbering, Place};
pub use objects::{BlobRule, Boundary, Missing, ObjectWalk, WalkOptions, WalkStats};
pub use peel::{Peeled, peel};
pub use set::{ObjectNr, ObjectSet, Ranges};
pub use shallow::{Shallow, ShallowError};
