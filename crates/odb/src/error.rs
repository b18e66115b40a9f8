//! What can go wrong, and where.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use hashfile::PublishError;
use object::{CollisionDetected, ObjectId};
use pack_format::delta::DeltaError;
use pack_format::zlib::ZlibError;

/// A store could not be opened, or its list of packs not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The operating system refused something that a store cannot do without.
    #[error("cannot open {}", path.display())]
    Io {
        /// What was to be opened or listed.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The object directory is something else.
    #[error("{} is not a directory", path.display())]
    NotADirectory {
        /// The path given.
        path: PathBuf,
    },
}

/// An object could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// No source has the object, also after the list of packs was read anew.
    #[error("object {id} is not in the store")]
    Missing {
        /// The object asked for.
        id: ObjectId,
    },
    /// The object is there, but its bytes are damaged, in this copy and in all others.
    #[error(transparent)]
    Corrupt(Box<Corrupt>),
    /// The object is larger than [`Options::max_object_size`](crate::Options::max_object_size).
    #[error("an object of {size} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// Its size, in bytes.
        size: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The operating system could not deliver the bytes. Says nothing about their health: it may pass.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The list of packs could not be made.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl ReadError {
    /// Whether the object is simply not there.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, ReadError::Missing { .. })
    }

    /// Whether bytes on disk are damaged.
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        matches!(self, ReadError::Corrupt(_))
    }

    pub(crate) fn corrupt(path: &Path, at: u64, damage: impl Into<Damage>) -> ReadError {
        ReadError::Corrupt(Box::new(Corrupt { path: path.to_owned(), at, damage: damage.into() }))
    }

    pub(crate) fn io(path: &Path, source: io::Error) -> ReadError {
        ReadError::Io { path: path.to_owned(), source }
    }
}

/// An object could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Its content was made for an attack on SHA-1.
    #[error(transparent)]
    Collision(#[from] CollisionDetected),
    /// The content could not be read.
    #[error("cannot read the content of an object")]
    Input(#[source] io::Error),
    /// The content has another length than was said.
    #[error("content does not have the {size} bytes that were announced")]
    Size {
        /// Bytes announced.
        size: u64,
    },
    /// A temporary file could not be written.
    #[error("cannot write {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file did not get its name.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// An [`Overlay`](crate::Overlay) would hold more than it may.
    #[error("objects of {held} bytes in memory exceed the limit of {limit}")]
    OverBudget {
        /// Bytes there would be.
        held: u64,
        /// Bytes there may be.
        limit: u64,
    },
    /// The store that is written to could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A quarantine's directory could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Where a file is damaged, and how.
#[derive(Debug, thiserror::Error)]
#[error("{} is damaged at byte {at}: {damage}", path.display())]
pub struct Corrupt {
    /// The file.
    pub path: PathBuf,
    /// Zero-based offset: of the entry for packs, 0 for loose objects.
    pub at: u64,
    /// What is wrong.
    pub damage: Damage,
}

/// What is wrong with a damaged file or entry.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The file ends before something that must be there.
    #[error("{what} is cut short")]
    Truncated {
        /// What should have been there.
        what: &'static str,
    },
    /// A header or table does not follow its format.
    #[error("{0}")]
    Format(String),
    /// The deflate stream is broken, or does not hold the size that its header says.
    #[error("{0}")]
    Zlib(ZlibError),
    /// A delta breaks its rules.
    #[error("{0}")]
    Delta(DeltaError),
    /// A declared size that the bytes present cannot produce.
    #[error("a declared size of {size} bytes cannot come out of {stored} stored bytes")]
    ImplausibleSize {
        /// The size, in bytes.
        size: u64,
        /// Deflated bytes there are at most.
        stored: u64,
    },
    /// There are more or fewer content bytes than declared.
    #[error("content does not have the declared size of {size} bytes")]
    SizeMismatch {
        /// The size declared, in bytes.
        size: u64,
    },
    /// Bytes follow where the file should end.
    #[error("garbage follows the content")]
    Garbage,
    /// An offset in the index lies outside of the pack.
    #[error("index gives an offset outside of the pack")]
    Offset,
    /// An offset delta's base does not begin at an entry before it.
    #[error("delta base {distance} bytes back is not an entry of the pack")]
    BaseOutOfBounds {
        /// How far back the base should be.
        distance: u64,
    },
    /// A stored pack has to hold the bases of its deltas, and this one is not there.
    #[error("delta base {base} is not in the pack")]
    BaseNotInPack {
        /// The base.
        base: ObjectId,
    },
    /// A delta chain that leads back to itself.
    #[error("delta chain is a cycle")]
    Cycle,
    /// Content that has another name than the one it is stored under.
    #[error("content does not have the name {expected}")]
    WrongName {
        /// The name asked for.
        expected: ObjectId,
    },
    /// The entry's bytes do not have the CRC-32 that the index gives.
    #[error("entry does not have the CRC-32 in the index")]
    Crc,
    /// Content made for a SHA-1 collision attack.
    #[error("content is part of a SHA-1 collision attack")]
    Collision,
}

impl From<ZlibError> for Damage {
    fn from(error: ZlibError) -> Self {
        Damage::Zlib(error)
    }
}

impl From<DeltaError> for Damage {
    fn from(error: DeltaError) -> Self {
        Damage::Delta(error)
    }
}

impl From<pack_format::ParseError> for Damage {
    fn from(error: pack_format::ParseError) -> Self {
        Damage::Format(error.to_string())
    }
}

impl From<object::ParseError> for Damage {
    fn from(error: object::ParseError) -> Self {
        Damage::Format(error.to_string())
    }
}

/// Something about the store that does not stop it: told once, for whoever wants to warn.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The file or directory.
    pub path: PathBuf,
    /// What is the matter with it.
    pub kind: ProblemKind,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.kind)
    }
}

/// What is the matter with a file or directory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemKind {
    /// An alternate that is not an existing directory.
    #[error("alternate object directory does not exist; check info/alternates")]
    AlternateMissing,
    /// Alternates nested deeper than [`Options::max_alternates_depth`](crate::Options::max_alternates_depth).
    #[error("ignoring alternate object stores, nesting too deep")]
    AlternatesTooDeep,
    /// A directory or file that could not be read, with the system's answer.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// A `.pack` without an `.idx`: an interrupted or running fetch.
    #[error("pack has no index and is ignored")]
    PackWithoutIndex,
    /// An `.idx` without a `.pack`.
    #[error("index has no pack and is ignored")]
    IndexWithoutPack,
    /// A pack or its index does not follow its format, so that the pack is not used.
    #[error("pack is not used: {0}")]
    BrokenPack(String),
    /// A multi-pack-index, or a layer of one, does not follow its format or could not be read; the packs' own indices are used.
    #[error("multi-pack-index is not used: {0}")]
    BrokenMidx(String),
    /// A multi-pack-index names packs that are not there, as it may for a moment while another process repacks.
    #[error("multi-pack-index names packs that are not there, {0} for one")]
    MidxPackMissing(String),
    /// A `.rev` does not fit its pack; the order was computed instead.
    #[error("reverse index is not used: {0}")]
    BrokenRev(String),
    /// One object's copy is damaged; another is used where there is one.
    #[error("copy of {id} is damaged: {reason}")]
    DamagedCopy {
        /// The object.
        id: ObjectId,
        /// What is wrong with the copy.
        reason: String,
    },
}
