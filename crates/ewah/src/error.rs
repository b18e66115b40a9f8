//! What can go wrong: reading bytes ([`ParseError`]), building ([`BuildError`]), filling dense words
//! ([`TooShort`]).

use core::fmt;

/// Bytes that are not a bitmap, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Offset in the input, in bytes, of the field that is wrong.
    pub at: u64,
    /// What is wrong with it.
    pub kind: ParseErrorKind,
}

/// The ways in which bytes fail to be a bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// The input ends inside `what`.
    Truncated {
        /// The part that is cut.
        what: &'static str,
        /// Bytes that part needs.
        need: u64,
        /// Bytes that are left for it.
        have: u64,
    },
    /// The bitmap says it has more bits than the caller allows.
    TooManyBits {
        /// Bits the bitmap says it has.
        bits: u64,
        /// The caller's bound, rounded up to whole words.
        limit: u64,
    },
    /// A marker word announces more literal words than are left.
    LiteralsBeyondEnd {
        /// Literal words announced.
        need: u64,
        /// Words left after the marker.
        have: u64,
    },
    /// Runs and literals together reach beyond the number of bits.
    WordsBeyondBits {
        /// Words covered so far.
        words: u64,
        /// Words that the number of bits allows.
        limit: u64,
    },
    /// A bit is set at or beyond the end.
    BitBeyondEnd {
        /// The first bit that must not be set.
        end: u64,
    },
    /// The index of the last marker word points outside the words.
    MarkerIndex {
        /// Index stored.
        index: u32,
        /// Number of words.
        words: u32,
    },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ewah bitmap, byte {}: ", self.at)?;
        match self.kind {
            ParseErrorKind::Truncated { what, need, have } => {
                write!(f, "cut in {what}: needs {need} bytes, has {have}")
            }
            ParseErrorKind::TooManyBits { bits, limit } => {
                write!(f, "{bits} bits where at most {limit} are allowed")
            }
            ParseErrorKind::LiteralsBeyondEnd { need, have } => {
                write!(f, "marker announces {need} literal words, {have} are left")
            }
            ParseErrorKind::WordsBeyondBits { words, limit } => {
                write!(f, "runs and literals cover {words} words, the bit count allows {limit}")
            }
            ParseErrorKind::BitBeyondEnd { end } => {
                write!(f, "a bit is set at or beyond bit {end}")
            }
            ParseErrorKind::MarkerIndex { index, words } => {
                write!(f, "last marker said to be word {index} of {words}")
            }
        }
    }
}

impl core::error::Error for ParseError {}

/// A step that would not give a bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The bitmap would have more than [`MAX_BITS`](crate::MAX_BITS) bits, which the wire form cannot say.
    TooLong,
    /// Bits must come in ascending order.
    OutOfOrder {
        /// The bit offered.
        bit: u32,
        /// The lowest bit that could still be set.
        next: u32,
    },
    /// The number of bits asked for does not hold the bits already set.
    BitsTooFew {
        /// Number of bits asked for.
        bits: u32,
        /// Number of bits needed.
        need: u32,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::TooLong => write!(f, "more than {} bits", crate::MAX_BITS),
            BuildError::OutOfOrder { bit, next } => {
                write!(f, "bit {bit} offered after bit {next} was passed")
            }
            BuildError::BitsTooFew { bits, need } => {
                write!(f, "{bits} bits cannot hold the {need} in use")
            }
        }
    }
}

impl core::error::Error for BuildError {}

/// The slice of dense words does not reach to the bitmap's last encoded word. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort {
    /// Words needed.
    pub need: usize,
    /// Words given.
    pub have: usize,
}

impl fmt::Display for TooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} dense words given where the bitmap needs {}", self.have, self.need)
    }
}

impl core::error::Error for TooShort {}
