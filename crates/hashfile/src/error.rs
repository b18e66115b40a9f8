//! Errors, one type per verb.

use std::io;
use std::path::PathBuf;

use object::ObjectId;

use crate::compare::Difference;

/// Writing stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The sink refused. `source` is its own error, the system's number included.
    #[error("write failed at byte {taken}")]
    Io {
        /// Bytes the sink had taken, counted from the writer's first byte.
        taken: u64,
        /// What the sink said.
        source: io::Error,
    },
    /// A [`Compare`](crate::Compare) sink met other bytes than those written.
    #[error(transparent)]
    Differs(#[from] Difference),
    /// The checkpoint is another writer's, or lies on a part of the stream that was cut off since.
    #[error("checkpoint at byte {checkpoint} is not on the stream, which has {total} bytes")]
    StaleCheckpoint {
        /// Where the checkpoint was taken.
        checkpoint: u64,
        /// Bytes accepted so far.
        total: u64,
    },
}

impl WriteError {
    pub(crate) fn at(taken: u64, source: io::Error) -> Self {
        match source.downcast::<Difference>() {
            Ok(difference) => WriteError::Differs(difference),
            Err(source) => WriteError::Io { taken, source },
        }
    }

    /// Whether nobody reads the other end any more: the usual reason for a filter to end quietly.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, WriteError::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<WriteError> for io::Error {
    /// The sink's own error where there is one, so that its kind and number survive.
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Io { source, .. } => source,
            other => io::Error::other(other),
        }
    }
}

/// A file's trailer does not vouch for its content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// Too short to hold a trailer.
    #[error("{len} bytes are too few for a trailer of {need}")]
    Truncated {
        /// Bytes there are.
        len: u64,
        /// Bytes of a trailer.
        need: u64,
    },
    /// Content and trailer disagree.
    #[error("trailer at byte {at} is {found}, content hashes to {computed}")]
    Mismatch {
        /// Byte offset of the trailer: the length of the content.
        at: u64,
        /// The trailer in the file.
        found: ObjectId,
        /// The hash of the content.
        computed: ObjectId,
    },
    /// The file could not be read.
    #[error("read failed at byte {at}")]
    Io {
        /// Bytes read before.
        at: u64,
        /// What the source said.
        source: io::Error,
    },
    /// The file could not be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// One of the above, in a file that this crate opened.
    #[error("{}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<VerifyError>,
    },
}

/// A file did not get its name.
///
/// Except for [`SyncDir`](PublishError::SyncDir), which comes after the rename, an error means that the destination is
/// as it was and that the temporary file is gone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The temporary file could not be created.
    #[error("cannot create a temporary file in {}", dir.display())]
    Create {
        /// Where it should have been.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A step on the temporary file failed: its mode, its flush to disk, its close.
    #[error("cannot {step} {}", path.display())]
    Prepare {
        /// What was tried: "set the mode of", "sync", "close", "read".
        step: &'static str,
        /// The temporary file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The rename failed.
    #[error("cannot rename {} to {}", from.display(), to.display())]
    Rename {
        /// The temporary file.
        from: PathBuf,
        /// The name it should have got.
        to: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The name is taken, and the caller wanted it to be free.
    #[error("{} exists already", path.display())]
    Exists {
        /// The name.
        path: PathBuf,
    },
    /// The name is taken by a file with other content.
    #[error("{} exists already and differs at byte {at}", path.display())]
    Collision {
        /// The name.
        path: PathBuf,
        /// Offset of the first byte that differs, or the length of the shorter file.
        at: u64,
    },
    /// The file that has the name already could not be compared or made durable.
    #[error("cannot read {}, which exists already", path.display())]
    Existing {
        /// The name.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The name kept appearing and vanishing; somebody else works on it.
    #[error("{} vanished repeatedly while it was to be replaced", path.display())]
    Unsettled {
        /// The name.
        path: PathBuf,
    },
    /// The file has its name, but a crash of the machine may still undo that.
    #[error("cannot sync directory {}", dir.display())]
    SyncDir {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
