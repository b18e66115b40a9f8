//! Receiving git packs: from a stream that a stranger sends to a pack with its index or to loose objects, or to the news
//! that it is unsound.
//!
//! For servers and clients that take packs over a connection, and for whoever checks packs that are there. To *read*
//! objects use `packstone-odb`; for the bytes of packs `packstone-pack-format`; to make packs `packstone-pack-objects`.
//!
//! ```
//! # use object as packstone_object;
//! use packstone_index_pack::{Destination, Options, receive};
//! use packstone_object::HashKind;
//!
//! let dir = tempfile::tempdir()?;
//! let stream = b"PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e";
//! let options = Options::new(HashKind::Sha1).threads(2);
//! let outcome = receive(&mut &stream[..], Destination::Directory(dir.path().into()), options)?;
//! assert_eq!(outcome.counts.objects, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Contents
//! - [`receive`], [`Receiver`]: a stream, read or pushed, becomes `.pack`, `.idx` and `.rev`, and `.keep` and `.promisor`
//!   if wished; bases that a thin pack lacks are appended.
//! - [`index_file`]: the index of a pack that is in a file.
//! - [`verify`](verify()): a pack and its index, every object of it.
//! - [`Strict`]: content and links of every object, as git's `--strict` and `--fsck-objects` have it.
//! - [`unpack`](unpack::unpack): a stream becomes loose objects of a store.
//! - [`Options`]: threads, memory, limits, how files are made. [`Inspect`]: sees every object before anything is published.
//!
//! # Guarantees
//! - **Panics**: none that bytes can reach.
//! - **Nothing unsound is published**: structure, zlib streams, checksum, every delta, every name; objects that the store
//!   has already are compared byte for byte; collision attacks on SHA-1 are found. Errors say at which offset.
//! - **Durability**: the pack and everything with it is synced before its index, which makes it visible, has its name. An
//!   interrupted run leaves `tmp_*` files at most, which git's cleaners know.
//! - **Memory**: [`Options::memory`] says what is kept within it. No allocation by a claimed size.
//! - **Complexity**: time linear in the bytes of all objects, but for sorting ids, and for bases that are made again where
//!   the memory allowed does not hold those of one path. No recursion.
//! - **Determinism**: results and files do not depend on the number of threads.
//! - **Threads**: none beside the caller's unless [`Options::threads`] asks.
//!
//! # Features
//! - `sirocco`: whole entries are inflated by the library of that name, which is faster.

// A stranger's bytes come in here; nothing in it is worth an `unsafe`.
#![forbid(unsafe_code)]

mod error;
mod options;

mod along;
mod budget;
mod check;
mod collect;
mod eager;
mod emit;
mod forest;
mod links;
mod look;
mod receive;
mod resolve;
mod scan;
mod table;
mod thin;
pub mod unpack;
mod verify;

pub mod strict;

mod platform;

pub use error::ReceiveError;
pub use options::{Destination, IndexVersion, Inspect, Object, Options, Received, Refusal};
pub use receive::{Counts, Outcome, Receiver, Timings, index_file, receive};
pub use strict::{Strict, StrictError, StrictOptions, Verdict};
pub use verify::{PackedObject, Verified, verify};
