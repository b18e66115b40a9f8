//! git's object database: packs, loose objects and alternates, with budgeted caches and a thread-safe handle.
// Denied by the workspace; lifted in `source.rs` for the one call that maps a file.
#![deny(unsafe_code)]

pub mod alternates;
mod cache;
mod chain;
mod error;
mod ids;
mod inflating;
mod loose;
mod observer;
mod options;
mod order;
mod pack;
mod packs;
mod platform;
mod scratch;
mod source;
mod store;
mod stream;

pub use error::{Corrupt, Damage, OpenError, Problem, ProblemKind, ReadError};
pub use ids::Ids;
pub use observer::{Observer, Quiet};
pub use options::{ByteSource, Options};
pub use order::PackOrder;
pub use pack::Pack;
pub use scratch::Scratch;
pub use source::Bytes;
pub use store::{Location, ObjectHeader, PrefixMatch, Source, Store};
pub use stream::ObjectStream;
