//! Pack generation: decides which objects a request asks for, and writes them as a pack, to a stream
//! or to disk, reusing what lies in the store's packs.
//!
//! For programs that serve fetches or write packs and want git's result faster. To *receive* packs
//! see `packstone-index-pack`; to only read objects, `packstone-odb`.
//!
//! ```no_run
//! use object::HashKind;
//! use odb::{Options, Quiet, Store};
//! use packstone_pack_objects::{Request, SelectOptions, Selection, WriteOptions, write_stream};
//! use revwalk::{Commits, Shallow};
//!
//! let store = Store::open("repo.git/objects".as_ref(), Options::default())?;
//! let commits = Commits::new(&store, None, Shallow::none());
//! let tip = "0123456789012345678901234567890123456789".parse()?;
//! let request = Request { wants: &[tip], haves: &[], filter: None, tags: &[] };
//! let selection = Selection::of_request(&store, &commits, request, &SelectOptions::default().bitmaps(true), &Quiet)?;
//! let options = WriteOptions::default().delta_base_offset(true);
//! let outcome = write_stream(&selection, &options, std::fs::File::create("clone.pack")?, &Quiet)?;
//! println!("{} objects, {} bytes", outcome.count, outcome.bytes);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Types
//! - [`Selection`] is the set of objects, found by bitmap, by a walk, or given as a list.
//! - [`write_stream`] and [`write_to_disk`] turn it into a pack; [`Outcome`] says what was reused.
//!
//! # Guarantees
//! - *Determinism*: the same store, request and options give the same bytes, whatever the number of
//!   threads.
//! - *Reuse*: a selection that is exactly one pack is that file, copied by the kernel where the output
//!   allows; else runs of entries are copied, and only what touches a gap is looked at twice.
//! - *Damage*: reused entries are held against the CRC-32 of their index before they leave (a pack
//!   sent as a whole only with [`VerifyReuse::All`]); another copy is used where there is one.
//! - *Memory*: 1 bit an object for each set, the order tables of the packs (12 bytes an object), 4 MiB of
//!   pack at a time where packs are read and not mapped, one object where it is written whole, and
//!   nothing of objects from [`WriteOptions::big_file_threshold`] on outside packs.
//! - *No panics* on whatever the store holds.
//!
//! New deltas are not searched for in this release: an object without a reusable form is deflated
//! whole.

#![forbid(unsafe_code)]

mod disk;
mod error;
mod layout;
mod options;
#[cfg(unix)]
mod platform;
mod select;
mod stream;
mod write;

pub use disk::write_to_disk;
pub use error::{PackError, SelectError};
pub use options::{VerifyReuse, WriteOptions};
pub use select::{Exclude, Request, SelectOptions, Selection};
pub use stream::{Output, Plain, write_stream};
pub use write::Outcome;
