//! What can be wrong with ids and with the content of objects.

use crate::HashKind;

/// Text or bytes that are not an object id, or not an abbreviation of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// Raw bytes of a length that no hash has.
    #[error("{found} bytes are no object id: it has 20 (sha1) or 32 (sha256)")]
    Length {
        /// Bytes given.
        found: usize,
    },
    /// Hexadecimal text of a length that no hash has.
    #[error("{found} digits are no object id: it has 40 (sha1) or 64 (sha256)")]
    HexLength {
        /// Characters given.
        found: usize,
    },
    /// A character that is not one of `0-9a-fA-F`.
    #[error("byte {found:#04x} at {at} is not a hexadecimal digit")]
    Digit {
        /// Zero-based index of the character.
        at: usize,
        /// The byte found there.
        found: u8,
    },
    /// An abbreviation shorter than [`Prefix::MIN_DIGITS`](crate::Prefix::MIN_DIGITS) or longer than an id.
    #[error("an abbreviated {kind} id has 4 to {} digits, not {found}", kind.hex_len())]
    PrefixLength {
        /// The kind of id that was to be abbreviated.
        kind: HashKind,
        /// Characters given.
        found: usize,
    },
}

/// Content of a commit, tree, tag or object header that git would refuse too.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {at}")]
pub struct ParseError {
    /// Byte offset in the content where the trouble begins.
    pub at: u64,
    /// What is wrong there.
    pub kind: ParseErrorKind,
}

/// What is wrong with the content of an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The content ends inside something.
    #[error("truncated {what}")]
    Truncated {
        /// What was cut.
        what: &'static str,
    },
    /// Something mandatory is not there, or in another place.
    #[error("expected {what}")]
    Expected {
        /// What should begin here.
        what: &'static str,
    },
    /// An id that is not hexadecimal digits of the repository's hash.
    #[error("bad id in {what}")]
    BadId {
        /// The line it stands in.
        what: &'static str,
    },
    /// A tree entry's mode that is empty or holds something else than octal digits.
    #[error("malformed mode in tree entry")]
    BadMode,
    /// A tree entry without a name.
    #[error("empty name in tree entry")]
    EmptyName,
    /// A kind of object that does not exist.
    #[error("unknown object kind")]
    UnknownKind,
    /// A size that is not plain decimal digits, or does not fit 64 bits.
    #[error("malformed object size")]
    BadSize,
}

impl ParseError {
    pub(crate) fn new(at: usize, kind: ParseErrorKind) -> Self {
        Self { at: at as u64, kind }
    }
}
