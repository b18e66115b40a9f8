//! git's index file (.git/index): versions 2 to 4 and every extension, in arenas.

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

pub mod ext;
pub mod path;

pub mod file;
pub mod source;

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
