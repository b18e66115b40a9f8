//! Git object ids, kinds, hashers, and borrowed parsers of commits, trees and tags.
//!
//! An [`ObjectId`] is a SHA-1 or a SHA-256 name; which of the two is a run-time value ([`HashKind`]), and both are
//! always compiled in, so one program serves repositories of either kind. Use this crate to name objects, to hash
//! them, and to read links out of their content. To *find* objects use `packstone-odb`; to read the bytes of packs use
//! `packstone-pack-format`. Nothing here does I/O.
//!
//! ```
//! use packstone_object::{HashKind, ObjectId, ObjectKind, object_id, tree};
//!
//! let id = object_id(HashKind::Sha1, ObjectKind::Blob, b"hello\n")?;
//! assert_eq!(id.to_string(), "ce013625030ba8dba906f756967f9e9ca394464a");
//!
//! let mut bytes = b"100644 greeting\0".to_vec();
//! bytes.extend_from_slice(id.as_bytes());
//! for entry in tree::Entries::new(&bytes, HashKind::Sha1) {
//!     let entry = entry?;
//!     assert_eq!((entry.name, entry.id), (&b"greeting"[..], id));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The types
//! - [`HashKind`], [`ObjectKind`]: the two enumerations everything else is built on.
//! - [`ObjectId`], [`Prefix`], [`Hex`](hex::Hex): names, abbreviated names, and their text.
//! - [`Checksum`] for a file's trailer, [`NameHasher`] for an object's name: two hashers, because they face two
//!   different enemies. A trailer guards against bit rot and takes the fastest SHA-1; a name is computed over data that
//!   a stranger may have made and takes the SHA-1 that detects collision attacks.
//! - [`header`]: the `kind size\0` that precedes an object's content wherever it is hashed or stored loose.
//! - [`commit`], [`tree`], [`tag`]: parsers that borrow from the content and accept what git accepts.
//! - [`fsck`]: what is wrong with an object's content, by git's names and severities; `.gitmodules` and `.gitattributes`, too.
//!
//! # Guarantees
//! - **Panics**: none that bytes can reach. What can be misused says so under `# Panics`.
//! - **Allocation**: none, except where a caller's `Vec` is filled, and by [`fsck`] where it says so.
//! - **Complexity**: every parser is one pass over the bytes it reads.
//! - **Determinism**: results depend on the arguments only.

// Untrusted bytes come through here first; nothing in it is worth an `unsafe`.
#![forbid(unsafe_code)]

mod error;
mod hasher;
pub mod hex;
mod id;
mod kind;
mod prefix;

pub mod commit;
pub mod fsck;
pub mod header;
pub mod tag;
pub mod tree;

pub use error::{IdError, ParseError, ParseErrorKind};
pub use hasher::{Checksum, CollisionDetected, NameHasher, object_id, object_ids};
pub use id::ObjectId;
pub use kind::{HashKind, ObjectKind};
pub use prefix::Prefix;
