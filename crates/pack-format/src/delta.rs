//! Deltas: programs that make an object from another.
//!
//! Two sizes ([`varint`], size encoding): the base's and the result's. Then instructions until the end (gitformat-pack,
//! "Deltified representation"):
//!
//! | first byte | then | does |
//! |---|---|---|
//! | `1xxxxxxx` | one byte for each bit set in bits 0-6: four of offset, three of length, each lowest first | copies from the base; length 0 means 65,536 |
//! | `0xxxxxxx` | as many bytes as the low bits say, 1-127 | inserts them |
//! | `00000000` | | reserved, an error |
//!
//! A delta is sound when the first size is the base's, every copy stays inside the base, and the instructions make
//! exactly the second size. Git refuses deltas under four bytes whatever they say, and so do we.

use crate::varint::{self, VarintError};

/// The fewest bytes of a delta.
pub const MIN_LEN: usize = 4;

/// A delta that cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {at} of the delta")]
pub struct DeltaError {
    /// Byte offset in the delta, of the instruction or size that is wrong.
    pub at: u64,
    /// What is wrong with it.
    pub kind: DeltaErrorKind,
}

/// What is wrong with a delta.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeltaErrorKind {
    /// Fewer than [`MIN_LEN`] bytes.
    #[error("only {0} bytes")]
    TooShort(u64),
    /// The delta ends inside a size or an instruction.
    #[error("truncated")]
    Truncated,
    /// A size that does not fit 64 bits.
    #[error("size does not fit 64 bits")]
    Overflow,
    /// Made for a base of another size.
    #[error("made for a base of {expected} bytes, not {found}")]
    BaseSize {
        /// What the delta says.
        expected: u64,
        /// The base at hand.
        found: u64,
    },
    /// The reserved instruction.
    #[error("reserved instruction")]
    Reserved,
    /// A copy that leaves the base.
    #[error("copy of {len} bytes at {offset} leaves the base of {base} bytes")]
    CopyOutOfBase {
        /// Where in the base it begins.
        offset: u64,
        /// Bytes to copy.
        len: u64,
        /// Bytes the base has.
        base: u64,
    },
    /// The instructions make more than the delta says.
    #[error("more than the {expected} bytes that it should make")]
    TooMuch {
        /// What the delta says.
        expected: u64,
    },
    /// The instructions make less than the delta says.
    #[error("makes {found} bytes, not {expected}")]
    TooLittle {
        /// What the delta says.
        expected: u64,
        /// What the instructions make.
        found: u64,
    },
    /// The result would be larger than the caller allows.
    #[error("would make {size} bytes, more than the limit of {limit}")]
    Limit {
        /// What the delta says.
        size: u64,
        /// The caller's limit.
        limit: u64,
    },
}

fn error(at: usize, kind: DeltaErrorKind) -> DeltaError {
    DeltaError { at: at as u64, kind }
}

/// The two sizes that a delta begins with, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Of the base it was made for.
    pub base_size: u64,
    /// Of what it makes.
    pub result_size: u64,
}

impl Header {
    /// The most bytes it takes, so that inflating this many is enough to read it.
    pub const MAX_LEN: usize = 2 * varint::MAX_LEN;

    /// Reads the header that `delta` begins with, and its length. The rest of the delta need not be there.
    #[inline]
    pub fn parse(delta: &[u8]) -> Result<(Self, usize), DeltaError> {
        let (base_size, at) = varint::decode_size(delta).map_err(|e| size_error(0, e))?;
        let rest = delta.get(at..).unwrap_or_default();
        let (result_size, len) = varint::decode_size(rest).map_err(|e| size_error(at, e))?;
        Ok((Self { base_size, result_size }, at + len))
    }
}

fn size_error(at: usize, e: VarintError) -> DeltaError {
    error(
        at,
        match e {
            VarintError::Overflow => DeltaErrorKind::Overflow,
            _ => DeltaErrorKind::Truncated,
        },
    )
}

/// One step of a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instruction<'a> {
    /// Copy from the base. Offsets stay below 2^32, lengths below 2^24; neither is checked against the base here.
    Copy {
        /// Where in the base, in bytes.
        offset: u64,
        /// How many bytes; never 0.
        len: u64,
    },
    /// Insert these bytes, 1 to 127.
    Insert(&'a [u8]),
}

impl Instruction<'_> {
    /// Bytes it adds to the result.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> u64 {
        match self {
            Instruction::Copy { len, .. } => *len,
            Instruction::Insert(bytes) => bytes.len() as u64,
        }
    }
}

/// The instructions of a delta, in their order. Fused: nothing follows an error.
///
/// For readers that follow a delta without making its result. Only each instruction's own form is checked: bounds of
/// the base and the total are the reader's to check.
#[derive(Debug, Clone)]
pub struct Instructions<'a> {
    delta: &'a [u8],
    at: usize,
}

impl<'a> Instructions<'a> {
    /// Reads a whole delta's header, then lists its instructions.
    #[inline]
    pub fn parse(delta: &'a [u8]) -> Result<(Header, Self), DeltaError> {
        if delta.len() < MIN_LEN {
            return Err(error(0, DeltaErrorKind::TooShort(delta.len() as u64)));
        }
        let (header, at) = Header::parse(delta)?;
        Ok((header, Self { delta, at }))
    }

    /// Byte offset in the delta of the next instruction.
    #[inline]
    pub fn offset(&self) -> usize {
        self.at
    }

    #[cold]
    fn fail(&mut self, kind: DeltaErrorKind) -> DeltaError {
        let at = self.at;
        self.at = self.delta.len();
        error(at, kind)
    }
}

impl<'a> Iterator for Instructions<'a> {
    type Item = Result<Instruction<'a>, DeltaError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (&op, rest) = self.delta.get(self.at..)?.split_first()?;
        if op & 0x80 != 0 {
            // The arguments are at most seven bytes: one load of eight serves them all. Only near the end of the
            // delta are there fewer to load.
            let need = (op & 0x7f).count_ones() as usize;
            let mut word = match rest.first_chunk() {
                Some(chunk) => u64::from_le_bytes(*chunk),
                None if need > rest.len() => {
                    return Some(Err(self.fail(DeltaErrorKind::Truncated)));
                }
                None => rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
            };
            // Each bit takes the next byte or none, without a branch: which ones are there is hard to predict.
            let mut field = |bit: u32| {
                let there = u64::from(op >> bit & 1);
                let byte = word & (there * 0xff);
                word >>= there * 8;
                byte
            };
            let offset = field(0) | field(1) << 8 | field(2) << 16 | field(3) << 24;
            let len = match field(4) | field(5) << 8 | field(6) << 16 {
                0 => 0x1_0000,
                len => len,
            };
            self.at += 1 + need;
            Some(Ok(Instruction::Copy { offset, len }))
        } else if op == 0 {
            Some(Err(self.fail(DeltaErrorKind::Reserved)))
        } else {
            let Some(bytes) = rest.get(..usize::from(op)) else {
                return Some(Err(self.fail(DeltaErrorKind::Truncated)));
            };
            self.at += 1 + bytes.len();
            Some(Ok(Instruction::Insert(bytes)))
        }
    }
}

impl std::iter::FusedIterator for Instructions<'_> {}

/// Makes the result of `delta` on `base` in `out`, whose former content is dropped.
///
/// Checks everything that makes a delta sound, and `max_result`, a limit for the result in bytes, before anything is
/// allocated. Memory grows with what the instructions really make: a large claim alone costs nothing. After an error
/// `out` holds some beginning of the result.
///
/// Time is linear in the delta and the result.
pub fn apply(base: &[u8], delta: &[u8], out: &mut Vec<u8>, max_result: u64) -> Result<(), DeltaError> {
    out.clear();
    let (header, mut instructions) = Instructions::parse(delta)?;
    let expected = header.result_size;
    if header.base_size != base.len() as u64 {
        let found = base.len() as u64;
        return Err(error(0, DeltaErrorKind::BaseSize { expected: header.base_size, found }));
    }
    if expected > max_result {
        return Err(error(0, DeltaErrorKind::Limit { size: expected, limit: max_result }));
    }
    // Most results are about as large as their base, and then this is the only allocation.
    let likely = (base.len() as u64).saturating_mul(2).saturating_add(delta.len() as u64);
    out.reserve(expected.min(likely) as usize);
    let mut room = expected;
    loop {
        let at = instructions.offset();
        let Some(instruction) = instructions.next() else {
            break;
        };
        let bytes = match instruction? {
            Instruction::Copy { offset, len } => {
                // Both are far below 2^63, so the sum is exact; on 32 bits a wrapped cast cannot pass the check.
                if offset + len > base.len() as u64 {
                    let base = base.len() as u64;
                    return Err(error(at, DeltaErrorKind::CopyOutOfBase { offset, len, base }));
                }
                base.get(offset as usize..(offset + len) as usize).unwrap_or_default()
            }
            Instruction::Insert(bytes) => bytes,
        };
        match room.checked_sub(bytes.len() as u64) {
            Some(left) => room = left,
            None => return Err(error(at, DeltaErrorKind::TooMuch { expected })),
        }
        out.extend_from_slice(bytes);
    }
    if room != 0 {
        return Err(error(delta.len(), DeltaErrorKind::TooLittle { expected, found: expected - room }));
    }
    Ok(())
}
