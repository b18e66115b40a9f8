//! What can go wrong: with the bytes ([`ParseError`]), with the file ([`OpenError`]), with a question
//! ([`AnswerError`]).

use std::path::PathBuf;

use object::{ObjectId, ObjectKind};
use revwalk::WalkError;

/// Bytes that are not a bitmap file for the pack at hand, or parts of one that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (at byte {at})")]
pub struct ParseError {
    /// Offset in the file, in bytes, of the part that is wrong.
    pub at: u64,
    /// What is wrong with it.
    pub kind: ParseErrorKind,
}

/// The ways in which a bitmap file can be unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The file ends inside `what`.
    #[error("cut in {what}: needs {need} bytes, has {have}")]
    Truncated {
        /// The part that is cut.
        what: &'static str,
        /// Bytes it needs.
        need: u64,
        /// Bytes that are left for it.
        have: u64,
    },
    /// The file does not begin with `BITM`.
    #[error("no signature of a bitmap file")]
    Signature,
    /// A version or flag that this crate does not know, or lacks.
    #[error("unsupported {what} {found:#x}")]
    Unsupported {
        /// What is unsupported.
        what: &'static str,
        /// The value found.
        found: u32,
    },
    /// The file belongs to another pack: left behind by a repack, or copied.
    #[error("made for pack {found}, not for {expected}")]
    WrongPack {
        /// Checksum of the pack at hand.
        expected: ObjectId,
        /// Checksum in the file.
        found: ObjectId,
    },
    /// A compressed bitmap is damaged.
    #[error("bitmap of {what} is damaged")]
    Ewah {
        /// Which bitmap.
        what: &'static str,
        /// The damage; its offset counts from the start of the compressed bitmap.
        source: ewah::ParseError,
    },
    /// Some objects have no type or several.
    #[error("bitmaps by type name {typed} types for {objects} objects")]
    Types {
        /// Bits set in the four together; when equal to `objects`, some object has two types and some none.
        typed: u64,
        /// Objects in the pack.
        objects: u32,
    },
    /// A number is too large.
    #[error("{what} is {found}, must be below {limit}")]
    OutOfRange {
        /// What the number is.
        what: &'static str,
        /// The number.
        found: u64,
        /// The first number that is too large.
        limit: u64,
    },
    /// An entry is to be combined with one that is not before it, or too far before it.
    #[error("entry is combined with one {distance} entries before it")]
    XorOffset {
        /// The distance stored.
        distance: u32,
    },
    /// Two entries for one commit, or a table that is not in ascending order.
    #[error("commit at index position {pos} comes twice or out of order")]
    Order {
        /// The commit, by its rank in the pack index.
        pos: u32,
    },
    /// The lookup table and an entry say different things.
    #[error("lookup table and entry disagree about {what}")]
    Disagree {
        /// About what.
        what: &'static str,
    },
    /// Bytes that belong to no part of the file.
    #[error("{len} bytes belong to nothing")]
    Stray {
        /// How many.
        len: u64,
    },
    /// A commit's bitmap lacks the commit itself or something that it reaches.
    #[error("bitmap of the commit at index position {pos} is not closed: it lacks a {what}")]
    NotClosed {
        /// The commit, by its rank in the pack index.
        pos: u32,
        /// What is missing.
        what: &'static str,
    },
    /// The bitmaps by type contradict an object's header in the pack.
    #[error("object {id} is a {actual}, the bitmaps by type say {stated}")]
    Kind {
        /// The object.
        id: ObjectId,
        /// What it is.
        actual: ObjectKind,
        /// What the bitmap file says.
        stated: ObjectKind,
    },
    /// The trailing checksum does not match the file.
    #[error("checksum is {found}, should be {expected}")]
    Checksum {
        /// Computed over the file.
        expected: ObjectId,
        /// Stored in it.
        found: ObjectId,
    },
    /// The pack holds an object twice, so that bit numbers do not identify objects.
    #[error("the pack holds object {id} twice")]
    DuplicateObject {
        /// The object.
        id: ObjectId,
    },
}

impl ParseError {
    pub(crate) fn new(at: usize, kind: ParseErrorKind) -> Self {
        ParseError { at: at as u64, kind }
    }
}

/// A bitmap file that is there and cannot be used. The right thing to do is to warn and go without.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is damaged, stale, or of a kind that this crate does not know.
    #[error("{} cannot be used", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ParseError,
    },
    /// The pack that the file belongs to cannot be read.
    #[error("pack of {} cannot be read", path.display())]
    Pack {
        /// The bitmap file.
        path: PathBuf,
        /// What is wrong with the pack.
        source: odb::ReadError,
    },
}

/// A question that was not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The bitmap file turned out to be damaged. Warn and walk.
    #[error("bitmap is damaged")]
    Bitmap(#[from] ParseError),
    /// Bitmaps cannot tell what this filter leaves out. Walk.
    #[error("filter '{spec}' cannot be answered by bitmaps")]
    UnsupportedFilter {
        /// The part of the filter that cannot be answered.
        spec: String,
    },
    /// Shallow boundaries or grafts change which commits are reachable; bitmaps know nothing of them. Walk.
    #[error("history is altered by shallow boundaries or grafts")]
    AlteredHistory,
    /// The numbering does not begin with the pack of the bitmap file. Misuse.
    #[error("numbering does not begin with the pack of the bitmap file")]
    WrongNumbering,
    /// The walk over what the bitmaps do not cover failed. A walk without bitmaps may fail for the same reason.
    #[error(transparent)]
    Walk(#[from] WalkError),
}

impl AnswerError {
    /// Whether a walk without bitmaps is the way to an answer: the bitmap was no help, the repository may be fine.
    pub fn should_walk(&self) -> bool {
        !matches!(self, AnswerError::Walk(_))
    }
}

impl From<odb::ReadError> for AnswerError {
    fn from(error: odb::ReadError) -> Self {
        AnswerError::Walk(error.into())
    }
}
