//! The head of a pack, and of each entry in it.
//!
//! The pack begins with twelve bytes (gitformat-pack, "pack-*.pack files"), integers big-endian:
//!
//! | offset | width | meaning | valid |
//! |---|---|---|---|
//! | 0 | 4 | signature | `PACK` |
//! | 4 | 4 | version | 2, or 3 (read, never written) |
//! | 8 | 4 | number of entries | any |
//!
//! An entry, whose offset is that of its first byte:
//!
//! | width | meaning |
//! |---|---|
//! | 1 | bit 7: more size bytes follow; bits 6-4: type; bits 3-0: the size's lowest bits |
//! | 0-9 | more of the size, seven bits a byte, lowest first ([`varint`]) |
//! | `OFS_DELTA`: 1-10 | distance back to the base's entry ([`varint`], offset encoding) |
//! | `REF_DELTA`: 20, 32 | id of the base |
//! | rest | zlib stream of the object, or of the delta |
//!
//! The size is that of the inflated stream: the object's, or the delta's.

use object::{HashKind, ObjectId, ObjectKind};

use crate::{PackOffset, ParseError, ParseErrorKind, varint, varint::VarintError};

/// The most bytes a [`Header`] takes: ten of type and size, and an id of 32.
pub const MAX_LEN: usize = varint::MAX_LEN + 32;

/// The head of a whole pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackHeader {
    /// 2 or 3.
    pub version: u32,
    /// How many entries follow.
    pub count: u32,
}

impl PackHeader {
    /// Bytes it takes; also the offset of the first entry.
    pub const LEN: usize = 12;

    const SIGNATURE: [u8; 4] = *b"PACK";

    /// The head of a version 2 pack, the only one that is written.
    pub const fn new(count: u32) -> Self {
        Self { version: 2, count }
    }

    /// Reads the head that `bytes` begins with.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ParseError> {
        let Some([signature, version, count]) = bytes.as_chunks::<4>().0.first_chunk() else {
            return Err(ParseError::truncated("pack header", Self::LEN, bytes.len()));
        };
        if *signature != Self::SIGNATURE {
            return Err(ParseError::new(0, ParseErrorKind::Signature { what: "a pack" }));
        }
        let version = u32::from_be_bytes(*version);
        if !matches!(version, 2 | 3) {
            return Err(ParseError::new(4, ParseErrorKind::Unsupported { what: "pack version", found: version }));
        }
        Ok(Self { version, count: u32::from_be_bytes(*count) })
    }

    /// The bytes.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&Self::SIGNATURE);
        bytes[4..8].copy_from_slice(&self.version.to_be_bytes());
        bytes[8..].copy_from_slice(&self.count.to_be_bytes());
        bytes
    }
}

/// What an entry stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A whole commit.
    Commit,
    /// A whole tree.
    Tree,
    /// A whole blob.
    Blob,
    /// A whole tag.
    Tag,
    /// A delta against an earlier entry of the same pack.
    OfsDelta {
        /// Bytes from the base's entry to this one; never 0 in a parsed header.
        distance: u64,
    },
    /// A delta against an object anywhere in the pack; outside it in a thin pack, which is only sent, never stored.
    RefDelta {
        /// The base.
        base: ObjectId,
    },
}

impl EntryKind {
    /// The kind of a whole object; `None` for a delta, whose kind is its base's.
    #[inline]
    pub const fn object_kind(self) -> Option<ObjectKind> {
        match self {
            EntryKind::Commit => Some(ObjectKind::Commit),
            EntryKind::Tree => Some(ObjectKind::Tree),
            EntryKind::Blob => Some(ObjectKind::Blob),
            EntryKind::Tag => Some(ObjectKind::Tag),
            EntryKind::OfsDelta { .. } | EntryKind::RefDelta { .. } => None,
        }
    }

    /// Whether it is a delta of either form.
    #[inline]
    pub const fn is_delta(self) -> bool {
        self.object_kind().is_none()
    }

    /// The number in the type field.
    const fn type_bits(self) -> u8 {
        match self {
            EntryKind::Commit => 1,
            EntryKind::Tree => 2,
            EntryKind::Blob => 3,
            EntryKind::Tag => 4,
            EntryKind::OfsDelta { .. } => 6,
            EntryKind::RefDelta { .. } => 7,
        }
    }
}

impl From<ObjectKind> for EntryKind {
    #[inline]
    fn from(kind: ObjectKind) -> Self {
        match kind {
            ObjectKind::Commit => EntryKind::Commit,
            ObjectKind::Tree => EntryKind::Tree,
            ObjectKind::Blob => EntryKind::Blob,
            ObjectKind::Tag => EntryKind::Tag,
        }
    }
}

/// The head of an entry, base reference included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What is stored, and its base.
    pub kind: EntryKind,
    /// Bytes of the inflated stream: of the object, or of the delta.
    pub size: u64,
}

impl Header {
    /// Reads the header that `bytes` begins with, and its length: the zlib stream follows.
    ///
    /// Types 0 and 5, numbers beyond 64 bits and a distance of 0 are errors. Whether the distance stays inside the pack
    /// is for [`base_offset`](Self::base_offset), which knows where the entry is.
    #[inline]
    pub fn parse(bytes: &[u8], hash: HashKind) -> Result<(Self, usize), ParseError> {
        let Some((&first, rest)) = bytes.split_first() else {
            return Err(ParseError::truncated("entry header", 1, 0));
        };
        let (size, len) = if first & 0x80 == 0 {
            (u64::from(first & 0x0f), 1)
        } else {
            let decoded = varint::decode_size_after(u64::from(first & 0x0f), 4, rest);
            let (size, len) = decoded.map_err(|error| number(error, "entry size", 0, bytes))?;
            (size, len + 1)
        };
        let rest = bytes.get(len..).unwrap_or_default();
        let (kind, base_len) = match (first >> 4) & 7 {
            1 => (EntryKind::Commit, 0),
            2 => (EntryKind::Tree, 0),
            3 => (EntryKind::Blob, 0),
            4 => (EntryKind::Tag, 0),
            6 => {
                let decoded = varint::decode_offset(rest);
                let (distance, n) = decoded.map_err(|error| number(error, "delta base distance", len, bytes))?;
                if distance == 0 {
                    return Err(ParseError::new(len, ParseErrorKind::BaseOutOfPack { distance }));
                }
                (EntryKind::OfsDelta { distance }, n)
            }
            7 => match ObjectId::from_prefix(rest, hash) {
                Some(base) => (EntryKind::RefDelta { base }, hash.len()),
                None => {
                    return Err(ParseError::truncated("delta base id", len + hash.len(), bytes.len()));
                }
            },
            other => return Err(ParseError::new(0, ParseErrorKind::EntryType(other))),
        };
        Ok((Self { kind, size }, len + base_len))
    }

    /// Appends the bytes; the zlib stream goes behind them.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let first = self.kind.type_bits() << 4 | (self.size & 0x0f) as u8;
        match self.size >> 4 {
            0 => out.push(first),
            rest => {
                out.push(first | 0x80);
                varint::encode_size(rest, out);
            }
        }
        match self.kind {
            EntryKind::OfsDelta { distance } => varint::encode_offset(distance, out),
            EntryKind::RefDelta { base } => out.extend_from_slice(base.as_bytes()),
            _ => {}
        }
    }

    /// Where the base of this `OFS_DELTA`, itself at `at`, begins: at 12 or later, and before `at`. That an entry begins
    /// there is for whoever knows the entries. `None` for other kinds.
    #[inline]
    pub fn base_offset(&self, at: PackOffset) -> Option<Result<PackOffset, ParseError>> {
        let EntryKind::OfsDelta { distance } = self.kind else {
            return None;
        };
        let base = at.get().checked_sub(distance).filter(|&base| distance > 0 && base >= PackHeader::LEN as u64);
        Some(
            base.map(PackOffset::new)
                .ok_or(ParseError { at: at.get(), kind: ParseErrorKind::BaseOutOfPack { distance } }),
        )
    }
}

fn number(error: VarintError, what: &'static str, at: usize, bytes: &[u8]) -> ParseError {
    match error {
        VarintError::Truncated => ParseError::truncated(what, bytes.len() + 1, bytes.len()),
        _ => ParseError::new(at, ParseErrorKind::Overflow { what }),
    }
}
