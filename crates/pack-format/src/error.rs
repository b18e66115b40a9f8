//! What can be wrong with the bytes of a pack and its companions.

use object::{HashKind, ObjectId};

use crate::chunk::{ChunkId, TocErrorKind};

/// Bytes that are not what their format says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {at}")]
pub struct ParseError {
    /// Byte offset in the parsed bytes where the trouble begins.
    pub at: u64,
    /// What is wrong there.
    pub kind: ParseErrorKind,
}

/// What is wrong with the bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The bytes end too early.
    #[error("truncated {what}: {need} bytes needed, {have} there")]
    Truncated {
        /// What was cut.
        what: &'static str,
        /// Bytes it needs, at least.
        need: u64,
        /// Bytes there are.
        have: u64,
    },
    /// The file is longer or shorter than its own counts say.
    #[error("{what} of {found} bytes, but its contents need {expected}")]
    WrongSize {
        /// Which file.
        what: &'static str,
        /// Bytes that the counts ask for.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// Another kind of file.
    #[error("no signature of {what}")]
    Signature {
        /// What was expected.
        what: &'static str,
    },
    /// A version or variant that is not known here; the file may be fine.
    #[error("unsupported {what} {found}")]
    Unsupported {
        /// What has the version.
        what: &'static str,
        /// The version found.
        found: u32,
    },
    /// A number that does not fit 64 bits.
    #[error("{what} does not fit 64 bits")]
    Overflow {
        /// Which number.
        what: &'static str,
    },
    /// Type 0 or 5 in an entry header.
    #[error("invalid entry type {0}")]
    EntryType(u8),
    /// A delta whose base would be itself, or would begin before the first entry.
    #[error("delta base {distance} bytes back is not in the pack")]
    BaseOutOfPack {
        /// The distance that the entry says.
        distance: u64,
    },
    /// An offset that lies in the pack's own header, where no entry can be.
    #[error("pack offset {0} lies in the pack's header")]
    OffsetInHeader(u64),
    /// A number beyond its limit.
    #[error("{what} {found} is not below {limit}")]
    OutOfRange {
        /// Which number.
        what: &'static str,
        /// What it is.
        found: u64,
        /// The first value that is too large.
        limit: u64,
    },
    /// The fan-out table goes down somewhere.
    #[error("fan-out table is not monotonic")]
    Fanout,
    /// Ids that are not in their order, or not where the fan-out table says.
    #[error("ids out of order")]
    Order,
    /// A table of contents that cannot be used.
    #[error("{0}")]
    Chunks(TocErrorKind),
    /// A chunk that must be there is not.
    #[error("required chunk {chunk} missing")]
    NoChunk {
        /// Which one.
        chunk: ChunkId,
    },
    /// A name that is not that of a file in the folder at hand.
    #[error("pack name is no plain file name")]
    Name,
    /// Names of packs that must ascend and do not.
    #[error("pack names out of order")]
    NameOrder,
    /// A line that is not an id of the repository's kind.
    #[error("line of the multi-pack-index chain is no id")]
    ChainLine,
    /// Made for another pack: its checksum is not the one expected.
    #[error("made for the pack {found}, not {expected}")]
    WrongPack {
        /// Checksum of the pack at hand.
        expected: ObjectId,
        /// Checksum of the pack it was made for.
        found: ObjectId,
    },
    /// Made for another kind of repository.
    #[error("made for {found} ids, not {expected}")]
    WrongHash {
        /// The repository's.
        expected: HashKind,
        /// The file's.
        found: HashKind,
    },
    /// The trailing checksum does not match the bytes.
    #[error("checksum is {found}, but the bytes have {expected}")]
    Checksum {
        /// What the bytes have.
        expected: ObjectId,
        /// What the trailer says.
        found: ObjectId,
    },
    /// Two files that belong together contradict each other.
    #[error("{what} disagrees with the pack index")]
    Disagrees {
        /// Which file.
        what: &'static str,
    },
}

impl ParseError {
    pub(crate) fn new(at: usize, kind: ParseErrorKind) -> Self {
        Self { at: at as u64, kind }
    }

    pub(crate) fn truncated(what: &'static str, need: usize, have: usize) -> Self {
        let (need, have) = (need as u64, have as u64);
        Self { at: have, kind: ParseErrorKind::Truncated { what, need, have } }
    }
}

/// Why an index was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The writer failed.
    #[error("write failed")]
    Io(#[from] std::io::Error),
    /// The entries are not in their order, the second of the pair being number `at`. Or they changed between two
    /// passes.
    #[error("entry {at} is out of order")]
    Order {
        /// Zero-based number of the entry.
        at: u64,
    },
    /// A pack's name that is no plain file name, or is not above the one before it where the format wants that.
    #[error("name of pack {at} is out of order or no file name")]
    Name {
        /// Zero-based number of the pack.
        at: u64,
    },
    /// An entry in a pack that was not named.
    #[error("entry {at} is in no pack that was named")]
    PackNumber {
        /// Zero-based number of the entry.
        at: u64,
    },
    /// More entries than a file can have (2^32 - 1; with 64-bit offsets 2^31).
    #[error("too many entries")]
    TooMany,
    /// An offset that this version cannot hold: beyond 2^32 - 1 in version 1, beyond 2^63 - 1 in version 2.
    #[error("offset {offset} does not fit a version {version} index")]
    Offset {
        /// The offset.
        offset: u64,
        /// The version asked for.
        version: u32,
    },
    /// An id of another kind than the pack checksum's.
    #[error("a {found} id among {expected} ones")]
    WrongHash {
        /// The pack checksum's kind.
        expected: HashKind,
        /// The id's.
        found: HashKind,
    },
}
