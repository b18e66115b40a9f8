//! Reads git's object database (`.git/objects`): packs, loose objects and alternates, through one thread-safe handle; and
//! adds objects to it.
//!
//! For programs that need objects out of a repository, or put some in: servers, mirrors, caches, analysis tools. Use
//! `packstone-pack-format` if you have the bytes of a pack and no repository, `packstone-revwalk` to walk the graph of
//! objects, `packstone-object` to parse what is read here.
//!
//! ```no_run
//! # use object as packstone_object;
//! use packstone_object::{HashKind, ObjectId};
//! use packstone_odb::{Options, Store};
//!
//! let store = Store::open("repo/.git/objects".as_ref(), Options::new(HashKind::Sha1))?;
//! let id: ObjectId = "ce013625030ba8dba906f756967f9e9ca394464a".parse()?;
//! let mut content = Vec::new();
//! let kind = store.read(&id, &mut content)?;
//! println!("{} of {} bytes", kind.name(), content.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The types
//! - [`Store`]: the handle. [`read`](Store::read) (whole), [`header`](Store::header) (kind and size), [`stream`](Store::stream)
//!   (piece by piece), [`find`](Store::find) (where), [`prefix`](Store::prefix) (abbreviations), [`ids`](Store::ids) (all),
//!   [`read_range`](Store::read_range) (part), [`entry`](Store::entry) (how it is stored), [`copies`](Store::copies),
//!   [`abbreviate`](Store::abbreviate). [`headers`](Store::headers) and [`read_many`](Store::read_many) take many ids, and
//!   threads if told so ([`Many`]).
//! - [`Writer`], [`WriteOptions`]: adds objects, from bytes and from streams, durably; what is there is freshened. Large blobs
//!   go into packs. [`Quarantine`] holds objects on trial, [`Overlay`] such that may never be written.
//! - [`Options`]: hash, byte source, cache budget, limits, alternates from the environment ([`alternates`] parses them).
//! - [`Pack`] and [`PackOrder`]: the layer below, for those who work with packs as such: entries as they lie, in the
//!   order of their offsets, without look-ups or copies.
//! - [`ReadError`], [`WriteError`], [`OpenError`], [`Problem`]: damage, absence, limits and the system's refusals, kept
//!   apart.
//! - [`midx`]: the multi-pack-index of an object directory.
//! - [`Observer`]: progress and cancellation, for the crates above this one.
//!
//! # How an object is found
//! One object directory after the other, the own one first, then alternates in git's order. In each, the multi-pack-index
//! first, then the packs it does not cover, those that were of use last before others; then loose objects. After a miss in
//! all of them the directories are listed once more if they may have changed, since other processes repack. Packs and
//! indices are opened when first needed, and closed again when there are too many ([`Options::max_open_files`]).
//!
//! A multi-pack-index that cannot be used is passed over, and one that names packs which are gone, or bad copies, has
//! the indices of the packs it covers asked after all.
//!
//! If the copy found is damaged, others are tried: other entries, packs, loose files. Only then may a delta's base come
//! from outside its pack, and what was recovered so is checked by its name. Whatever the system refuses for the moment
//! (no file handles left, a stale handle) is reported as such and never held against a pack.
//!
//! # Guarantees
//! - **Panics**: none that bytes on disk can reach; positions handed in by callers say so under `# Panics`. The exception
//!   that no program can rule out: see [`ByteSource::Mmap`] on files changed in place.
//! - **Allocation**: never by a claimed size alone. A claim is held against the bytes that are there first, and large
//!   results grow as they are produced. [`Options::max_object_size`] sets a limit on top.
//! - **Termination**: delta chains are followed without recursion and cycles are detected; truncated streams are errors.
//! - **Complexity**: a look-up is O(log log n) in each pack or multi-pack-index as a rule, O(log n) at worst; a read is linear in the object and
//!   its uncached deltas.
//! - **Threads**: [`Store`] is `Clone + Send + Sync`; no lock is held while bytes are read or inflated, and none that all
//!   threads share is taken on the way. The base cache is sharded, and one budget holds for all threads. No thread is
//!   started unless [`Many::threads`] says so.
//! - **Determinism**: what a read returns does not depend on cache, byte source or other threads.

// Denied by the workspace, and lifted for one call in `source.rs`, which maps a file.
#![deny(unsafe_code)]

pub mod alternates;
mod bulk;
mod cache;
mod chain;
mod entry_info;
mod error;
mod fanout;
mod freshen;
mod handles;
mod ids;
mod inflating;
mod loose;
mod many;
pub mod midx;
mod observer;
mod options;
mod order;
mod overlay;
mod pack;
mod packs;
mod platform;
mod quarantine;
mod range;
mod recover;
mod scratch;
mod source;
mod store;
mod stream;
mod write;

pub use entry_info::EntryInfo;
pub use error::{Corrupt, Damage, OpenError, Problem, ProblemKind, ReadError, WriteError};
pub use ids::Ids;
pub use many::{Many, PackOrderIds};
pub use observer::{Observer, Quiet};
pub use options::{ByteSource, Options};
pub use order::PackOrder;
pub use overlay::Overlay;
pub use pack::Pack;
pub use quarantine::Quarantine;
pub use scratch::Scratch;
pub use source::Bytes;
pub use store::{Content, Location, ObjectHeader, PrefixMatch, Source, Store};
pub use stream::ObjectStream;
pub use write::{WriteOptions, Writer};
