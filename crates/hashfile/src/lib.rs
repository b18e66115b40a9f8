//! Writing git's files: a buffered writer that ends its output with a checksum, and what gives the result its name.
//!
//! Packs, indexes, multi-pack-indexes, commit-graphs and the index are all written so: bytes, then the SHA-1 or
//! SHA-256 of those bytes, to a temporary or lock file that is synced and renamed.
//!
//! # Should I use this crate?
//! If you write such files, or files of your own that should be as safe. To read or write what is *in* them there are
//! siblings (`packstone-pack-format`, `packstone-index`); whole operations on a repository are in `packstone-odb` and
//! above.
//!
//! ```
//! use std::io::Write;
//! use object::HashKind;
//! use packstone_hashfile::{HashFile, publish::{IfExists, Options, TempFile}};
//!
//! let dir = tempfile::tempdir()?;
//! let temp = TempFile::create_in(dir.path(), "tmp_pack_", &Options::default())?;
//! let mut out = HashFile::new(temp, HashKind::Sha1);
//! out.write_all(b"content")?;
//! let (temp, id) = out.finish()?; // the trailer
//! temp.persist(&dir.path().join(format!("pack-{id}.pack")), IfExists::Compare)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Contents
//! - [`HashFile`]: the writer. Running CRC-32, [`Checkpoint`] and truncation, hashing on a second thread or not at all.
//! - [`Compare`]: a sink that holds what is written against a file that exists.
//! - [`verify()`], [`verify_reader`], [`verify_file`]: is a trailer right?
//! - [`publish`]: temporary file, sync, rename, sync of the directory; what if the name is taken; batches.
//! - [`lock`]: `NAME.lock` files.
//! - [`FileMode`], [`Shared`], [`create_dir`]: permissions, by umask and `core.sharedRepository`.
//! - [`fs`]: the seam through which all changes go, for tests that let them fail and for those who count.
//! - [`DEFAULT_IO_BUFFER_SIZE`]: the buffer size of all packstone crates.
//!
//! # Guarantees
//! - **Exactness**: the digest covers exactly the bytes the sink took, through short writes, interrupts and failures at
//!   any byte. No failure of a write, flush, sync, close or rename is passed over; nothing gets its name after one.
//! - **Durability**: the table in [`publish`] says what is synced when, and what a crash leaves.
//! - **Panics**: only [`HashFile::crc32_end`], if none was begun.
//! - **Memory**: one buffer a writer; with a second thread at most ten more, however slow it is.
//! - **Complexity**: one pass; a checkpoint hashes what is buffered once more.
//! - **Determinism**: content and trailer do not depend on threads or timing.
//! - **Threads**: none unless [`Options::hash_on_thread`] asks.
//!
//! The crate has no features.

// Nothing here needs it; system calls go through safe wrappers.
#![forbid(unsafe_code)]

mod writer;

mod checkpoint;
mod compare;
mod crc;
mod digest;
mod verify;

pub mod fs;
pub mod lock;
mod mode;
pub mod publish;
mod sys;

mod error;

pub use checkpoint::{Checkpoint, SetLen};
pub use compare::{Compare, Difference, DifferenceKind};
pub use error::{PublishError, VerifyError, WriteError};
pub use fs::{FileSystem, RealFs};
pub use mode::{FileMode, Shared, SharedError, create_dir, create_dir_all, create_dir_on};
pub use verify::{Trailer, verify, verify_file, verify_reader};
pub use writer::{DEFAULT_IO_BUFFER_SIZE, HashFile, Options, Parts};
