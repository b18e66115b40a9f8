//! git's index file (`.git/index`): read, looked into, edited and written; versions 2, 3 and 4, every extension, SHA-1 and
//! SHA-256.
//!
//! # Should I use this crate?
//! If you stage files, compare work trees, make or read trees through an index, or ask one a question. It knows neither
//! object stores (trees go through a trait, [`trees::ObjectAccess`]) nor what files' content is converted to on its way in
//! (a closure of yours). To write objects there is `packstone-odb`; for files of your own that are written like an index,
//! `packstone-hashfile`.
//!
//! ```
//! use packstone_index::{AddOptions, Bump, Index, Mode, NewEntry, ReadOptions, Stage, WriteOptions};
//! # use object::HashKind;
//!
//! let arena = Bump::new();
//! let mut index = Index::new(&arena, HashKind::Sha1);
//! let blob = HashKind::Sha1.empty_blob();
//! index.add(&NewEntry::new(b"src/lib.rs", Mode(0o100644), blob), &AddOptions::default())?;
//! let (bytes, _) = index.write_to(Vec::new(), &WriteOptions::default())?;
//!
//! let again = Index::read(&arena, &bytes, &ReadOptions::new(HashKind::Sha1))?;
//! let at = again.find(b"src/lib.rs", Stage::Merged).expect("it was added");
//! assert_eq!(again.get(at).unwrap().id(), blob);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Contents
//! - [`Index`]: all of an index. [`Index::read`] with [`ReadOptions`]; entries by position, path and prefix; edits one by one
//!   ([`Index::add`], [`Index::remove`]) or a million at once ([`Batch`], [`Index::apply`]); [`Index::write_to`] with
//!   [`WriteOptions`].
//! - [`IndexView`]: one entry, or a few, out of a file that is not read.
//! - [`mod@file`]: index files on disk, split ones included: opened, locked, replaced, their shared files looked after.
//! - [`trees`]: trees from an index and an index from trees. [`sparse`]: directories that stand as one entry.
//! - [`refresh`]: entries held against a work tree.
//! - [`ext`]: the extensions, a codec each. [`path`]: what paths may enter an index. [`verify`]: what is wrong with a
//!   file.
//!
//! # Where entries live
//! An [`Entry`] is a view into the bytes that were read or into the arena, a [`Bump`]: both outlive it, as the compiler sees
//! to. Reading a version 2 or 3 file copies nothing and keeps one offset for 64 entries; whatever is edited, and the paths
//! of version 4 once they are asked for, is in the arena.
//!
//! # Guarantees
//! - **Panics**: none, whatever the bytes; [`Index::set_id`] if it is given an id of the other hash function.
//! - **Memory**: reading allocates in proportion to the file; version 4 paths up to [`ReadOptions::path_limit`].
//! - **Complexity**: reading, writing, [`Index::apply`] and the tree functions are linear; a look-up is O(log n); a single
//!   edit that inserts or removes moves what lies behind.
//! - **Truth**: no edit leaves a cached tree, an untracked cache, a monitor's bit or a split index's bitmap behind that
//!   says something else. Damaged caches are dropped and told to the [`Observer`]; hints are never believed against the entries.
//! - **Determinism**: what is read and what is written do not depend on threads. Versions 2 to 4 are byte for byte git's.
//! - **Durability**: [`mod@file`] says what a crash leaves.
//! - **Threads**: none unless an option asks for them.
//!
//! Paths are as a file has them: who creates files by them has to check them first, [`path::check`].
//!
//! The crate has no features.

// Mapping a file is the one exception, with its reason, in `source`.
#![deny(unsafe_code)]

mod index;

mod batch;
mod edit;
mod read;
mod view;
mod write;

pub mod refresh;
pub mod sparse;
pub mod trees;
pub mod verify;

pub mod ext;
pub mod path;

pub mod file;
pub mod source;

mod anchor;
mod entry;
mod header;
mod observer;
mod path_v4;
mod scan;
mod split;
mod stat;
mod store;

mod error;

pub use batch::{Applied, Batch};
pub use bumpalo::Bump;
pub use edit::{AddOptions, Added};
pub use entry::{Entry, Flags, Mode, NewEntry, Stage};
pub use error::{EditError, ExtError, ExtErrorKind, ReadError, ReadErrorKind, WriteError};
pub use header::{Header, Version};
pub use index::{Entries, Extension, Index, Iter};
pub use observer::{Observer, Quiet};
pub use read::ReadOptions;
pub use stat::{Stat, Time};
pub use view::{Cursor, IndexView, ViewEntry, ViewError};
pub use write::{DEFAULT_BLOCK, WriteOptions, Written};
