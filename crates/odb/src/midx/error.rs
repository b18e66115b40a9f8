//! What stops work on a multi-pack-index, and what only deserves a word.

use std::io;
use std::path::{Path, PathBuf};

use hashfile::PublishError;
use hashfile::lock::LockError;
use object::ObjectId;
use pack_format::{ParseError, WriteError};

use super::LoadError;

/// Work on a multi-pack-index stopped. What was there is as it was, unless said otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MidxError {
    /// There is nothing to be covered.
    #[error("no pack files to index")]
    NoPacks,
    /// A pack that the multi-pack-index covers is gone, or is no regular file.
    #[error("could not load pack {number}, {}", path.display())]
    PackGone {
        /// Its number over all layers.
        number: u32,
        /// The `.pack`.
        path: PathBuf,
    },
    /// A preferred pack must have an object.
    #[error("cannot select preferred pack {} with no objects", path.display())]
    EmptyPreferred {
        /// The `.pack`.
        path: PathBuf,
    },
    /// A file does not follow its format.
    #[error("{} is damaged", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ParseError,
    },
    /// The multi-pack-index that the work depends on cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// No layer of the chain has that checksum.
    #[error("could not find MIDX: {checksum}")]
    NoLayer {
        /// What was asked for.
        checksum: ObjectId,
    },
    /// No layer has the checksum that the base should have.
    #[error("could not find base MIDX '{checksum}'")]
    NoBase {
        /// What was asked for.
        checksum: ObjectId,
    },
    /// One layer is no range.
    #[error("MIDX compaction endpoints must be unique")]
    SameLayer,
    /// The first layer to compact has to be older than the last.
    #[error("MIDX {from} must be an ancestor of {to}")]
    NotAncestor {
        /// The layer that should be the older one.
        from: ObjectId,
        /// The layer that should be the younger one.
        to: ObjectId,
    },
    /// Compacted layers keep the order of their packs, which version 1 cannot.
    #[error("cannot perform MIDX compaction with v1 format")]
    CompactVersion1,
    /// Packs of a chain are neither expired nor repacked.
    #[error("cannot {what} an incremental multi-pack-index")]
    Chained {
        /// "expire packs from" or "repack".
        what: &'static str,
    },
    /// The lock was not taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The content was not written.
    #[error("cannot write {}", path.display())]
    Write {
        /// What it was to become.
        path: PathBuf,
        /// Why not.
        source: WriteError,
    },
    /// The file did not get its name.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The operating system refused something. After a new multi-pack-index got its name, this may concern the removal of
    /// what it replaces; then the new one holds.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was to be done: "read", "write", "create", "remove".
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The observer asked to stop.
    #[error("cancelled")]
    Cancelled,
}

impl MidxError {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> MidxError {
        let path = path.to_owned();
        move |source| MidxError::Io { what, path, source }
    }

    pub(crate) fn corrupt(path: &Path) -> impl Fn(ParseError) -> MidxError {
        move |source| MidxError::Corrupt { path: path.to_owned(), source }
    }
}

/// Something that did not stop the work.
#[derive(Debug)]
#[non_exhaustive]
pub enum Note {
    /// A file of the multi-pack-index cannot be used.
    Load(LoadError),
    /// The existing multi-pack-index has another checksum than its content; it was not built upon.
    Checksum {
        /// The file.
        path: PathBuf,
    },
    /// An `.idx` has no `.pack`; it was left out.
    NoPack {
        /// The `.idx`.
        idx: PathBuf,
    },
    /// An `.idx` cannot be read; the pack was left out.
    NoIndex {
        /// The `.idx`.
        idx: PathBuf,
        /// Why not.
        reason: String,
    },
    /// There is no pack of the name that should be preferred.
    UnknownPreferred {
        /// As given.
        name: Vec<u8>,
    },
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Note::Load(error) => {
                write!(f, "{error}")?;
                std::error::Error::source(error).map_or(Ok(()), |source| write!(f, ": {source}"))
            }
            Note::Checksum { .. } => f.write_str("ignoring existing multi-pack-index; checksum mismatch"),
            Note::NoPack { idx } => write!(f, "failed to add packfile '{}'", idx.display()),
            Note::NoIndex { idx, .. } => write!(f, "failed to open pack-index '{}'", idx.display()),
            Note::UnknownPreferred { name } => {
                write!(f, "unknown preferred pack: '{}'", String::from_utf8_lossy(name))
            }
        }
    }
}
