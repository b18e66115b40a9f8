//! What can go wrong, and where.

use std::io;
use std::path::PathBuf;

use object::ObjectId;

/// The objects to pack could not be determined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// The walk failed: an object is missing or damaged.
    #[error(transparent)]
    Walk(#[from] revwalk::WalkError),
    /// The store cannot be read.
    #[error(transparent)]
    Read(#[from] odb::ReadError),
    /// The store's packs cannot be listed.
    #[error(transparent)]
    Open(#[from] odb::OpenError),
    /// A filter that this release cannot apply.
    #[error("filter '{filter}' is not supported yet")]
    UnsupportedFilter {
        /// The filter's specification.
        filter: String,
    },
    /// The observer asked to stop.
    #[error("cancelled")]
    Cancelled,
}

/// A pack could not be written. What was written before is incomplete and has no valid trailer;
/// on disk, nothing has got its name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// The output took no more bytes.
    #[error("cannot write the pack")]
    Output(#[source] io::Error),
    /// The output's reader has gone away.
    #[error("the reader of the pack has gone")]
    BrokenPipe,
    /// An object is damaged in all its copies, missing, or unreadable.
    #[error("object {id} cannot be read")]
    Object {
        /// The object.
        id: ObjectId,
        /// Why.
        source: odb::ReadError,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Read(#[from] odb::ReadError),
    /// The store cannot be opened again, to look for sound copies.
    #[error(transparent)]
    Open(#[from] odb::OpenError),
    /// A number or an order cannot be resolved.
    #[error(transparent)]
    Walk(#[from] revwalk::WalkError),
    /// An object's content is part of a SHA-1 collision attack, or it changed while it was read.
    #[error("object {id} changed while it was read")]
    Unstable {
        /// The object.
        id: ObjectId,
    },
    /// A file could not be created, synced or given its name.
    #[error("cannot write {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// More objects than a pack can count (2^32 - 1).
    #[error("too many objects for one pack: {count}")]
    TooMany {
        /// How many there are.
        count: u64,
    },
    /// The observer asked to stop.
    #[error("cancelled")]
    Cancelled,
}

impl PackError {
    /// Whether the reader of the output has gone away, so that there is nobody left to tell.
    pub fn is_broken_pipe(&self) -> bool {
        match self {
            Self::BrokenPipe => true,
            Self::Output(error) => error.kind() == io::ErrorKind::BrokenPipe,
            _ => false,
        }
    }

    pub(crate) fn output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::BrokenPipe } else { Self::Output(error) }
    }
}
