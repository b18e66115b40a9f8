//! Errors, one type per verb, each saying where.

use crate::entry::Stage;

/// An index that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {at}")]
#[non_exhaustive]
pub struct ReadError {
    /// Byte offset in the index file.
    pub at: u64,
    /// What is wrong there.
    pub kind: ReadErrorKind,
}

/// What is wrong with an index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadErrorKind {
    /// The file ends inside something.
    #[error("{what} needs {need} bytes, {have} are left")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Bytes it needs.
        need: u64,
        /// Bytes there are.
        have: u64,
    },
    /// The first four bytes are not `DIRC`.
    #[error("bad signature {:#010x}", u32::from_be_bytes(*found))]
    Signature {
        /// What stands there.
        found: [u8; 4],
    },
    /// A version other than 2, 3 and 4.
    #[error("bad index version {found}")]
    Version {
        /// What the header says.
        found: u32,
    },
    /// A bit of an entry's second flag word that no version defines.
    #[error("unknown index entry format {found:#06x}")]
    EntryFlags {
        /// The flag word.
        found: u16,
    },
    /// A path whose length and terminator disagree.
    #[error("path of {len} bytes is not terminated")]
    Unterminated {
        /// The length that the entry states.
        len: u64,
    },
    /// Version 4: more bytes to remove than the previous path has, or a number that does not end.
    #[error("malformed name field: {strip} bytes to remove from a path of {previous}")]
    Strip {
        /// Bytes to remove.
        strip: u64,
        /// Bytes that the previous path has.
        previous: u64,
    },
    /// An entry without a path.
    #[error("entry without a path")]
    EmptyPath,
    /// An entry that should come before the one in front of it, or is the same.
    #[error("entry '{}' (stage {}) is out of order", String::from_utf8_lossy(path), *stage as u8)]
    Order {
        /// The entry's path.
        path: Vec<u8>,
        /// Its stage.
        stage: Stage,
    },
    /// Version 4 paths that expand beyond [`ReadOptions::path_limit`](crate::ReadOptions::path_limit), or one path of 32 MiB
    /// (versions 2 and 3) or 2 GiB (version 4), which no file system has.
    #[error("paths expand beyond the limit of {limit} bytes")]
    PathLimit {
        /// The limit in bytes.
        limit: u64,
    },
    /// An extension that must be understood, and is not.
    #[error("index uses {} extension, which is not understood", signature.escape_ascii())]
    RequiredExtension {
        /// Its four letters.
        signature: [u8; 4],
    },
    /// A required extension (`link`, `sdir`) that is damaged.
    #[error("{} extension: {source}", signature.escape_ascii())]
    Extension {
        /// Its four letters.
        signature: [u8; 4],
        /// What is wrong in it.
        source: ExtError,
    },
    /// A split index: the shared index it builds on has to be given, too.
    #[error("split index needs the shared index {base}")]
    NeedsShared {
        /// The shared index's checksum, which is part of its name.
        base: object::ObjectId,
    },
    /// The shared index given is another one.
    #[error("shared index has checksum {found}, expected {expected}")]
    WrongShared {
        /// The checksum that the split index names.
        expected: object::ObjectId,
        /// The one of the file given.
        found: object::ObjectId,
    },
    /// The shared index is itself damaged. Offsets in `source` are in that file.
    #[error("shared index: {source}")]
    Shared {
        /// What is wrong with it.
        source: Box<ReadError>,
    },
    /// Bits or entries of a split index that do not match its shared index.
    #[error("split index does not fit its shared index: {what}")]
    Split {
        /// What does not fit.
        what: &'static str,
    },
    /// The trailer is not the hash of the content.
    #[error("trailer is {found}, content hashes to {computed}")]
    Checksum {
        /// The trailer in the file.
        found: object::ObjectId,
        /// The hash of the content.
        computed: object::ObjectId,
    },
}

impl ReadError {
    #[cold]
    pub(crate) fn new(at: usize, kind: ReadErrorKind) -> Self {
        ReadError { at: at as u64, kind }
    }
}

/// An extension whose data make no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {at} of the extension")]
#[non_exhaustive]
pub struct ExtError {
    /// Byte offset in the extension's data.
    pub at: u64,
    /// What is wrong there.
    pub kind: ExtErrorKind,
}

/// What is wrong with an extension.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtErrorKind {
    /// The data end inside something.
    #[error("{what} is truncated")]
    Truncated {
        /// What was being read.
        what: &'static str,
    },
    /// Bytes that are no value of what should stand there.
    #[error("{what} is malformed")]
    Malformed {
        /// What should stand there.
        what: &'static str,
    },
    /// A number whose meaning is not defined.
    #[error("{what} {found} is not supported")]
    Unsupported {
        /// What the number is.
        what: &'static str,
        /// The number.
        found: u32,
    },
    /// Well formed, but it cannot be so.
    #[error("impossible: {what}")]
    Impossible {
        /// What cannot be.
        what: &'static str,
    },
    /// A bitmap that is not one.
    #[error("bitmap: {0}")]
    Bitmap(#[from] ewah::ParseError),
}

impl ExtError {
    #[cold]
    pub(crate) fn new(at: usize, kind: ExtErrorKind) -> Self {
        ExtError { at: at as u64, kind }
    }
}

/// An edit that was not made. The index is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The path may not be in an index.
    #[error("invalid path '{}'", String::from_utf8_lossy(path))]
    Path {
        /// The path.
        path: Vec<u8>,
        /// Why not.
        source: crate::path::PathError,
    },
    /// The path is not in the index, and may not be added.
    #[error("'{}' is not in the index", String::from_utf8_lossy(path))]
    NotThere {
        /// The path.
        path: Vec<u8>,
    },
    /// A file where a directory is, or the reverse.
    #[error("'{}' appears as both a file and as a directory", String::from_utf8_lossy(path))]
    FileDirectory {
        /// The path that was to be added.
        path: Vec<u8>,
        /// The path that is there.
        other: Vec<u8>,
    },
    /// The path lies in a directory that stands as one entry: the index has to be expanded first.
    #[error("'{}' is inside of the sparse directory '{}'", String::from_utf8_lossy(path), String::from_utf8_lossy(dir))]
    InSparseDir {
        /// The path.
        path: Vec<u8>,
        /// The directory's entry.
        dir: Vec<u8>,
    },
    /// Only a sparse index has entries of directories, and their paths end in `/`.
    #[error("'{}' would be the entry of a directory that is not sparse", String::from_utf8_lossy(path))]
    Directory {
        /// The path.
        path: Vec<u8>,
    },
    /// The id is of the other hash function.
    #[error("'{}' has an id of the wrong kind", String::from_utf8_lossy(path))]
    HashKind {
        /// The path.
        path: Vec<u8>,
    },
    /// Entries handed over in bulk that are not in order.
    #[error("'{}' is out of order", String::from_utf8_lossy(path))]
    Order {
        /// The path.
        path: Vec<u8>,
    },
}

/// An index that was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The sink refused.
    #[error(transparent)]
    Hashfile(#[from] hashfile::WriteError),
    /// An entry that names no object.
    #[error("cache entry has null id: '{}'", String::from_utf8_lossy(path))]
    NullId {
        /// The entry's path.
        path: Vec<u8>,
    },
    /// A path that holds a NUL and can therefore not be written.
    #[error("path '{}' holds a NUL", path.escape_ascii())]
    Nul {
        /// The entry's path.
        path: Vec<u8>,
    },
    /// More entries, or a larger extension, than the format's 32 bits can count.
    #[error("{what} does not fit into the format's 32 bits")]
    TooLarge {
        /// What is too large.
        what: &'static str,
    },
    /// A sparse index cannot be split (git refuses it as well).
    #[error("cannot write a split index for a sparse index")]
    SparseSplit,
    /// The lock was not taken.
    #[error(transparent)]
    Lock(#[from] hashfile::lock::LockError),
    /// The file did not get its name.
    #[error(transparent)]
    Publish(#[from] hashfile::PublishError),
}
