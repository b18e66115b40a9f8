//! The bytes of git packs: entries, deltas, zlib, `.idx`, `.rev`, `.mtimes` and multi-pack-indexes, as bounds-checked
//! readers and writers without I/O.
//!
//! For programs that read or write pack files themselves: servers, mirrors, backup and repair tools. It sees `&[u8]` and
//! `io::Write`, never a path. Use `packstone-odb` to read *objects* from a repository: it opens the files, follows
//! deltas across entries and caches. Use `packstone-object` for the content of objects.
//!
//! ```
//! use object::{HashKind, ObjectKind};
//! use packstone_pack_format::{entry::Header, zlib::{Deflate, Inflate}};
//!
//! let mut entry = Vec::new();
//! Header { kind: ObjectKind::Blob.into(), size: 6 }.encode(&mut entry);
//! Deflate::new(-1).deflate(b"hello\n", &mut entry);
//!
//! let (header, at) = Header::parse(&entry, HashKind::Sha1)?;
//! let mut content = Vec::new();
//! Inflate::new().inflate_into(&entry[at..], header.size, &mut content)?;
//! assert_eq!(content, b"hello\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The types
//! - [`PackOffset`], [`PackPos`], [`IdxPos`], [`MidxPos`], [`PseudoPos`], [`MidxPack`]: positions that cannot be mixed up.
//! - [`entry`]: the pack's header, and each entry's. [`varint`]: the numbers in them.
//! - [`zlib`]: the seam to the zlib libraries.
//! - [`delta`]: apply a delta, or follow its instructions.
//! - [`idx`]: ids to offsets, versions 1 and 2, read and written.
//! - [`rev`]: pack order to id order, read and written.
//! - [`mtimes`]: the ages of a cruft pack's objects, read and written.
//! - [`midx`]: multi-pack-indexes, versions 1 and 2, and their chains; read and written.
//! - [`chunk`]: the table of contents that commit-graph and multi-pack-index files share.
//!
//! # Guarantees
//! - **Panics**: none that bytes can reach. After `parse` no accessor panics but for a position that its own file never
//!   handed out; such misuse is under `# Panics`.
//! - **Levels**: `parse` settles structure and bounds; `verify_checksum` the trailer; `verify_all` the contents.
//! - **Allocation**: never by a claimed size. It grows with real data, or the claim is first held against the input's
//!   length or a limit that the caller gives.
//! - **Complexity**: as said at each function; nothing is worse than linear in the input but sorting.
//! - **Determinism**: same input, same bytes. Deflated bytes also depend on the zlib backend, inflated ones never.
//!
//! # Features
//! - `sirocco`: whole buffers are inflated and deflated by the library of that name, which is faster.

// Untrusted bytes are this crate's trade; nothing in it is worth an `unsafe`.
#![forbid(unsafe_code)]

mod error;
mod ids;
mod pos;

pub mod chunk;
pub mod delta;
pub mod entry;
pub mod idx;
pub mod midx;
pub mod mtimes;
pub mod rev;
pub mod varint;
pub mod zlib;

pub use error::{ParseError, ParseErrorKind, WriteError};
pub use pos::{IdxPos, MidxPack, MidxPos, PackOffset, PackPos, PseudoPos};
