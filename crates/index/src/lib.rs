//! git's index file (.git/index): versions 2 to 4 and every extension, in arenas.

// Mapping a file is the one exception, with its reason, in `source`.
#![deny(unsafe_code)]

mod index;

mod edit;
mod read;
mod write;

pub mod ext;
pub mod path;

mod entry;
mod header;
mod observer;
mod source;
mod stat;

mod error;

pub use bumpalo::Bump;
pub use entry::{Entry, Flags, Mode, NewEntry, Stage};
pub use error::{EditError, ExtError, ExtErrorKind, ReadError, ReadErrorKind, WriteError};
pub use header::{Header, Version};
pub use index::{Extension, Index, Iter};
pub use observer::{Observer, Quiet};
pub use read::ReadOptions;
pub use stat::{Stat, Time};
