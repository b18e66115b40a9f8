//! git's reachability bitmaps: read them and answer what to send.
//!
//! A `.bitmap` file beside a pack says, for selected commits, which objects of the pack are reachable. With it,
//! "everything that the wants reach and the haves do not" takes milliseconds instead of a walk through all trees. This
//! crate reads such files (version 1, of one pack, SHA-1 and SHA-256; git and JGit write them) and answers that
//! question exactly, walking what the bitmaps do not cover. To walk without bitmaps use `packstone-revwalk`; to turn an
//! answer into a pack use `packstone-pack-objects`; for the compressed bitmaps alone use `packstone-ewah`.
//!
//! ```no_run
//! # // Inside the workspace these crates go by the names of their folders.
//! # use {object as packstone_object, odb as packstone_odb, revwalk as packstone_revwalk};
//! use packstone_object::HashKind;
//! use packstone_odb::{Options, Store};
//! use packstone_pack_bitmap::{OpenOptions, Request, answer, find};
//! use packstone_revwalk::{Commits, Numbering, Shallow};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::open("repo.git/objects".as_ref(), Options::new(HashKind::Sha1))?;
//! if let Some((pack, file)) = find(&store, &OpenOptions::default())?.bitmap {
//!     let numbering = Numbering::new(&store, Some(&pack))?;
//!     let commits = Commits::new(&store, None, Shallow::none());
//!     let want = ["6c8a2b0fd5f6ae08c1f13ba0a1dcfa7d3e1a4c6b".parse()?];
//!     let answer = answer(&numbering, &file, &commits, &Request::new(&want))?;
//!     println!("{} objects", answer.objects.count());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Types
//!
//! - [`BitmapFile`]: the parsed file. [`open`] finds it beside a pack, [`find`] in a store.
//! - [`answer`], [`Request`], [`Answer`]: the question and its answer, as sets over a
//!   [`Numbering`](revwalk::Numbering) that begins with the bitmapped pack, so that an object's number is its bit.
//! - [`BitmapFile::reach`] with [`Scratch`]: one commit's bitmap, XOR chains undone.
//!
//! # Guarantees
//!
//! - No file makes this crate panic, loop, or allocate by a claimed size. After [`BitmapFile::parse`] no accessor fails
//!   but [`BitmapFile::reach`], which checks an entry's bitmap when it is used.
//! - A stale or damaged file is an error that says so, at the latest half-way through an answer; the caller warns
//!   and walks ([`AnswerError::should_walk`]). By default the file's checksum is compared when it is opened.
//! - An answer is exact: the same set that a walk gives. It does not depend on which commits have bitmaps.
//! - History altered by shallow boundaries or grafts is refused, since bitmaps do not know of them.

// Files of a repository come through here; nothing in it is worth an `unsafe`.
#![forbid(unsafe_code)]

mod answer;
mod entries;
mod error;
mod ext;
mod filter;
mod header;
mod read;

pub use answer::{Answer, AnswerStats, Request, answer, to_roaring};
pub use error::{AnswerError, OpenError, ParseError, ParseErrorKind};
pub use ext::name_hash;
pub use read::{BitmapFile, Found, OpenOptions, Scratch, find, open, path_for, verify};
