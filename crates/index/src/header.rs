//! The first twelve bytes.
//!
//! | offset | bytes | meaning |
//! |---|---|---|
//! | 0 | 4 | `DIRC` |
//! | 4 | 4 | version: 2, 3 or 4 |
//! | 8 | 4 | number of entries |
//!
//! Big endian (gitformat-index, "The Git index file has the following format").

use object::HashKind;

use crate::error::{ReadError, ReadErrorKind};

/// A version of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Version {
    /// Whole paths, no second flag word.
    #[default]
    V2 = 2,
    /// As 2; entries may have a second flag word.
    V3 = 3,
    /// As 3; a path says how it differs from the one before.
    V4 = 4,
}

impl Version {
    /// The version of this number.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            2 => Some(Version::V2),
            3 => Some(Version::V3),
            4 => Some(Version::V4),
            _ => None,
        }
    }
}

/// The header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Version of the format.
    pub version: Version,
    /// Number of entries. A claim until as many have been read.
    pub count: u32,
}

impl Header {
    /// Bytes of it.
    pub const LEN: usize = 12;
    /// The first four.
    pub const SIGNATURE: [u8; 4] = *b"DIRC";

    /// The inverse of [`parse`](Header::parse).
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        let words = [Self::SIGNATURE, u32::from(self.version as u8).to_be_bytes(), self.count.to_be_bytes()];
        for (place, word) in out.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word;
        }
        out
    }

    /// Reads the header of a whole index file, and checks that there is room for the trailer.
    pub fn parse(bytes: &[u8], kind: HashKind) -> Result<Header, ReadError> {
        let need = Self::LEN + kind.len();
        let short = || {
            let kind = ReadErrorKind::Truncated { what: "index file", need: need as u64, have: bytes.len() as u64 };
            ReadError::new(bytes.len(), kind)
        };
        if bytes.len() < need {
            return Err(short());
        }
        let (words, _) = bytes.as_chunks::<4>();
        let [signature, version, count, ..] = words else { return Err(short()) };
        if *signature != Self::SIGNATURE {
            return Err(ReadError::new(0, ReadErrorKind::Signature { found: *signature }));
        }
        let number = u32::from_be_bytes(*version);
        let Some(version) = Version::from_number(number) else {
            return Err(ReadError::new(4, ReadErrorKind::Version { found: number }));
        };
        Ok(Header { version, count: u32::from_be_bytes(*count) })
    }
}
