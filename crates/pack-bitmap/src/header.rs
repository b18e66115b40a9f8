//! The header of a `.bitmap` file, version 1.
//!
//! | offset | width | meaning | valid when |
//! |---|---|---|---|
//! | 0 | 4 | signature | `BITM` |
//! | 4 | 2 | version | 1 |
//! | 6 | 2 | flags, below | all known, 0x1 set |
//! | 8 | 4 | number of entries | so many fit into the file |
//! | 12 | 20 or 32 | checksum of the pack | equals the pack's trailer |
//!
//! | flag | meaning |
//! |---|---|
//! | 0x1 | full closure: whatever an object of the pack refers to is in the pack too; always set |
//! | 0x4 | the file ends with a name-hash cache |
//! | 0x10 | the file has a lookup table |
//! | 0x20 | the file has pseudo-merges |
//!
//! Numbers are unsigned, most significant byte first. The checksum is as long as the repository's hash, although the
//! document says 20. Sources: git's `Documentation/technical/bitmap-format.adoc`, "On-disk format" and "Appendix B",
//! git 1a3e64c6c; flag 0x20 from the same git's behaviour, the list in the document lacks it.

use object::{HashKind, ObjectId};

use crate::error::{ParseError, ParseErrorKind};
use crate::ext::be_u16;
use crate::ext::be_u32;

/// The first 12 bytes; the pack's checksum follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) flags: u16,
    pub(crate) entries: u32,
}

pub(crate) const SIGNATURE: [u8; 4] = *b"BITM";
pub(crate) const VERSION: u16 = 1;

pub(crate) const FULL_CLOSURE: u16 = 0x1;
pub(crate) const HASH_CACHE: u16 = 0x4;
pub(crate) const LOOKUP_TABLE: u16 = 0x10;
pub(crate) const PSEUDO_MERGES: u16 = 0x20;
const KNOWN: u16 = FULL_CLOSURE | HASH_CACHE | LOOKUP_TABLE | PSEUDO_MERGES;

impl Header {
    /// Without the checksum.
    pub(crate) const LEN: usize = 12;

    /// Reads the header and says which pack the file is for. `bytes` is the whole file.
    pub(crate) fn parse(bytes: &[u8], hash: HashKind) -> Result<(Header, ObjectId), ParseError> {
        let need = Self::LEN + 2 * hash.len();
        let checksum = bytes.get(Self::LEN..Self::LEN + hash.len());
        let checksum = checksum.and_then(|bytes| ObjectId::from_bytes(bytes).ok());
        let Some(checksum) = checksum.filter(|_| bytes.len() >= need) else {
            let (need, have) = (need as u64, bytes.len() as u64);
            let what = "header and trailer";
            return Err(ParseError::new(0, ParseErrorKind::Truncated { what, need, have }));
        };
        if !bytes.starts_with(&SIGNATURE) {
            return Err(ParseError::new(0, ParseErrorKind::Signature));
        }
        let unsupported = |at, what, found: u16| {
            let found = found.into();
            Err(ParseError::new(at, ParseErrorKind::Unsupported { what, found }))
        };
        let (version, flags) = (be_u16(bytes, 4), be_u16(bytes, 6));
        if version != VERSION {
            return unsupported(4, "version", version);
        }
        if flags & !KNOWN != 0 {
            return unsupported(6, "flags", flags & !KNOWN);
        }
        if flags & FULL_CLOSURE == 0 {
            return unsupported(6, "flags without full closure", flags);
        }
        let entries = be_u32(bytes, 8);
        Ok((Header { flags, entries }, checksum))
    }
}
