//! What can go wrong, and where.

use std::io;
use std::path::PathBuf;

use hashfile::PublishError;
use object::{CollisionDetected, ObjectId};
use odb::ReadError;
use pack_format::delta::DeltaError;
use pack_format::zlib::ZlibError;
use pack_format::{ParseError, WriteError};

use crate::options::Refusal;

/// A pack that was not received, indexed or found sound. Offsets are in bytes from the start of the pack.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// No pack, or of an unknown version.
    #[error("bad pack header")]
    Header(#[source] ParseError),
    /// An entry that does not begin as entries do.
    #[error("bad entry at offset {at}")]
    Entry {
        /// Where it begins.
        at: u64,
        /// What is wrong with it.
        source: ParseError,
    },
    /// An entry whose zlib stream is damaged, or not as long as its header says.
    #[error("bad zlib stream of the entry at offset {at}")]
    Zlib {
        /// Where the entry begins.
        at: u64,
        /// What is wrong with the stream.
        source: ZlibError,
    },
    /// The stream ends early.
    #[error("the pack ends early, at offset {at}")]
    Truncated {
        /// Where it ends.
        at: u64,
    },
    /// Bytes follow the pack in its file.
    #[error("{extra} bytes of junk follow the pack, at offset {at}")]
    Junk {
        /// Where the pack ends.
        at: u64,
        /// How many there are, at least.
        extra: u64,
    },
    /// The trailer is not the checksum of what came before it.
    #[error("the pack's checksum is {found}, but its bytes have {expected}")]
    Checksum {
        /// Of the bytes.
        expected: ObjectId,
        /// In the trailer.
        found: ObjectId,
    },
    /// No entry begins where a delta says that its base does.
    #[error("no entry begins at offset {base}, where the delta at offset {at} has its base")]
    NoBase {
        /// Where the delta's entry begins.
        at: u64,
        /// Where its base should.
        base: u64,
    },
    /// Deltas whose bases are nowhere: not in the pack, and not in the store, if that was asked; or in a cycle.
    #[error("{count} deltas have no base, first the one at offset {at} against {base}")]
    Unresolved {
        /// How many, those against them included.
        count: u32,
        /// Where the first entry begins that names a missing base.
        at: u64,
        /// The base it names.
        base: ObjectId,
    },
    /// A delta that cannot be applied to its base.
    #[error("bad delta at offset {at}")]
    Delta {
        /// Where its entry begins.
        at: u64,
        /// What is wrong with it.
        source: DeltaError,
    },
    /// An object that is part of a SHA-1 collision attack.
    #[error("refused the object at offset {at}")]
    Collision {
        /// Where its entry begins.
        at: u64,
        /// Its name.
        source: CollisionDetected,
    },
    /// The store has another object of the same name.
    #[error("the object at offset {at} is not the {id} that the store has")]
    Clash {
        /// Where its entry begins.
        at: u64,
        /// Its name.
        id: ObjectId,
    },
    /// An object that comes twice, where that is refused.
    #[error("the object {id} comes twice in the pack")]
    Duplicate {
        /// Its name.
        id: ObjectId,
    },
    /// More than the caller allows.
    #[error("{what} {found} exceeds the limit of {limit}, at offset {at}")]
    Limit {
        /// What there is too much of, and its unit.
        what: &'static str,
        /// What was claimed, or found.
        found: u64,
        /// The limit.
        limit: u64,
        /// Where the entry begins, or what was read when it was noticed.
        at: u64,
    },
    /// The pack has more entries than an index can list.
    #[error("too many entries")]
    TooMany,
    /// The temporary pack does not hold what was written to it.
    #[error("{} does not hold what was written to it", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The index does not say what the pack holds.
    #[error("the index {} does not fit its pack", path.display())]
    IndexDiffers {
        /// The index.
        path: PathBuf,
        /// Where they differ.
        source: io::Error,
    },
    /// The index is no index.
    #[error("bad index {}", path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ParseError,
    },
    /// The stream cannot be read.
    #[error("cannot read the pack")]
    Input(#[source] io::Error),
    /// A file cannot be read or written.
    #[error("cannot access {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file cannot be made, or not get its name.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// An index cannot be written.
    #[error("cannot write {what}")]
    Write {
        /// Which file.
        what: &'static str,
        /// Why.
        source: WriteError,
    },
    /// The store cannot say what it has.
    #[error("cannot read from the store")]
    Store(#[from] ReadError),
    /// The [`Inspect`](crate::Inspect) said no.
    #[error("refused")]
    Refused(#[source] Refusal),
    /// The observer asked to stop.
    #[error("cancelled")]
    Cancelled,
    /// A thread ended early, which only a panic does.
    #[error("a thread ended early")]
    Thread,
}

impl ReceiveError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ReceiveError {
        move |source| ReceiveError::File { path: path.into(), source }
    }

    /// Where in the pack it is, if it is about a place there.
    #[must_use]
    pub fn at(&self) -> Option<u64> {
        match self {
            ReceiveError::Entry { at, .. }
            | ReceiveError::Zlib { at, .. }
            | ReceiveError::Truncated { at }
            | ReceiveError::Junk { at, .. }
            | ReceiveError::NoBase { at, .. }
            | ReceiveError::Unresolved { at, .. }
            | ReceiveError::Delta { at, .. }
            | ReceiveError::Collision { at, .. }
            | ReceiveError::Clash { at, .. }
            | ReceiveError::Limit { at, .. } => Some(*at),
            ReceiveError::Header(source) => Some(source.at),
            _ => None,
        }
    }
}
