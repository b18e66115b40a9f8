//! Why a pack was not unpacked.

use std::io;

use object::{CollisionDetected, ObjectId};
use odb::{ReadError, WriteError};
use pack_format::ParseErrorKind;
use pack_format::delta::DeltaError;
use pack_format::zlib::ZlibError;

use crate::options::Refusal;

/// A pack that was not, or not as a whole, unpacked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// The input could not be read.
    #[error("cannot read the pack")]
    Input(#[source] io::Error),
    /// More than [`max_input_size`](super::UnpackOptions::max_input_size) came.
    #[error("pack exceeds maximum allowed size ({limit} bytes)")]
    InputTooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The pack breaks its format.
    #[error("at offset {at} of the pack: {what}")]
    Corrupt {
        /// Offset in the pack, in bytes: of the entry, or where the input ends.
        at: u64,
        /// What is wrong there.
        what: Wrong,
    },
    /// Something in the pack is larger than allowed.
    #[error("at offset {at} of the pack: {what} {value} exceeds the limit of {limit}")]
    Limit {
        /// Offset in the pack, in bytes.
        at: u64,
        /// What it is.
        what: &'static str,
        /// How large it is.
        value: u64,
        /// How large it may be.
        limit: u64,
    },
    /// A base outside of the pack cannot be read.
    #[error("cannot read base {id} of the delta at offset {at} of the pack")]
    Base {
        /// Offset of the delta, in bytes.
        at: u64,
        /// The base.
        id: ObjectId,
        /// Why not.
        source: ReadError,
    },
    /// An object cannot be stored.
    #[error("cannot store the object at offset {at} of the pack")]
    Write {
        /// Offset of its entry, in bytes.
        at: u64,
        /// Why not.
        source: WriteError,
    },
    /// The [`Inspect`](crate::Inspect) said no to an object.
    #[error("refused the object at offset {at} of the pack")]
    RefusedObject {
        /// Offset of its entry, in bytes.
        at: u64,
        /// Why.
        source: Refusal,
    },
    /// The [`Inspect`](crate::Inspect) said no to the pack.
    #[error("refused")]
    Refused(#[source] Refusal),
    /// Objects that were held back cannot be stored.
    #[error("cannot store objects")]
    Finish(#[source] WriteError),
    /// What has to be put aside cannot be.
    #[error("cannot put parts of the pack aside")]
    Aside(#[source] io::Error),
    /// The observer said so.
    #[error("cancelled")]
    Cancelled,
}

/// What is wrong at some place of a pack.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Wrong {
    /// The input ends here.
    #[error("early end of input")]
    Truncated,
    /// A head does not follow the format.
    #[error("{0}")]
    Format(ParseErrorKind),
    /// A zlib stream does not give what the head promises.
    #[error("{0}")]
    Zlib(ZlibError),
    /// A delta does not fit its base, or itself.
    #[error("{0}")]
    Delta(DeltaError),
    /// There is no entry where the delta's base should be.
    #[error("no entry begins at {base}, where the base should be")]
    NoEntry {
        /// Where it should begin, in bytes.
        base: u64,
    },
    /// Neither the pack nor the store has the delta's base.
    #[error("base {id} is missing")]
    MissingBase {
        /// The base.
        id: ObjectId,
    },
    /// Content made for an attack on SHA-1.
    #[error("{0}")]
    Collision(CollisionDetected),
    /// The trailer is not the checksum.
    #[error("trailer is {stored}, but the checksum is {computed}")]
    Trailer {
        /// As it stands there.
        stored: ObjectId,
        /// As it should be.
        computed: ObjectId,
    },
}

impl UnpackError {
    pub(crate) fn at(at: u64, what: Wrong) -> Self {
        UnpackError::Corrupt { at, what }
    }

    /// Whether somebody wants no more.
    pub(crate) fn ends_all(&self) -> bool {
        matches!(self, UnpackError::Cancelled | UnpackError::RefusedObject { .. } | UnpackError::Refused(_))
    }

    /// The offset in the pack, in bytes, that it is about.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        match self {
            UnpackError::Corrupt { at, .. }
            | UnpackError::Limit { at, .. }
            | UnpackError::Base { at, .. }
            | UnpackError::RefusedObject { at, .. }
            | UnpackError::Write { at, .. } => Some(*at),
            _ => None,
        }
    }
}
