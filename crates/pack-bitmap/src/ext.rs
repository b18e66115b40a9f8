//! The optional sections at the end of the file, and reading numbers.
//!
//! In file order, each present if its flag is set: pseudo-merges, lookup table, name-hash cache; then the trailing
//! checksum. Their sizes are known from the end backwards only, so that is how they are found.
//!
//! - **Name-hash cache**: 4 bytes per object of the pack, in the order of the pack *index*: a hash of the end of the
//!   path at which a writer met the object, 0 when it met none.
//! - **Lookup table**: 16 bytes per entry, ascending by commit:
//!
//!   | offset | width | meaning | valid when |
//!   |---|---|---|---|
//!   | 0 | 4 | commit, as rank in the pack index | below the object count, ascending |
//!   | 4 | 8 | where its entry begins, in bytes from the start of the file | among the entries |
//!   | 12 | 4 | row of the table with whose bitmap this one is XORed, 0xffffffff for none | that entry is earlier in the file |
//!
//! - **Pseudo-merges**: only the size is read here, 8 bytes at the section's end, counting the whole section.
//!
//! Sources: git's `Documentation/technical/bitmap-format.adoc`, "Appendix B", git 1a3e64c6c; the order of the sections
//! from files that this git writes.

use std::ops::Range;

use object::HashKind;

use crate::error::{ParseError, ParseErrorKind};
use crate::header::{HASH_CACHE, Header, LOOKUP_TABLE, PSEUDO_MERGES};

/// Bytes in one row of the lookup table.
pub(crate) const ROW: usize = 16;
/// Bytes at the end of the pseudo-merge section, with its size in the last eight.
const PSEUDO_MERGE_TRAILER: u64 = 24;

/// Where the parts of a file lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The bitmaps by type, then the entries.
    pub(crate) bitmaps: Range<usize>,
    pub(crate) pseudo_merges: Option<Range<usize>>,
    pub(crate) table: Option<Range<usize>>,
    pub(crate) hashes: Option<Range<usize>>,
}

impl Layout {
    /// `len` is the file's; [`Header::parse`] has made sure that it holds header and trailer.
    pub(crate) fn new(bytes: &[u8], header: &Header, hash: HashKind, objects: u32) -> Result<Layout, ParseError> {
        let start = Header::LEN + hash.len();
        let mut end = bytes.len() - hash.len();
        let mut peel = |flag: u16, what: &'static str, size: u64| {
            if header.flags & flag == 0 {
                return Ok(None);
            }
            let have = (end - start) as u64;
            if size > have {
                let kind = ParseErrorKind::Truncated { what, need: size, have };
                return Err(ParseError::new(start, kind));
            }
            let section = end - size as usize..end;
            end = section.start;
            Ok(Some(section))
        };
        let hashes = peel(HASH_CACHE, "name-hash cache", u64::from(objects) * 4)?;
        let table = peel(LOOKUP_TABLE, "lookup table", u64::from(header.entries) * ROW as u64)?;
        let trailer = peel(PSEUDO_MERGES, "pseudo-merge trailer", PSEUDO_MERGE_TRAILER)?;
        let pseudo_merges = match trailer {
            None => None,
            Some(trailer) => {
                let size = be_u64(bytes, trailer.end - 8);
                let Some(rest) = size.checked_sub(PSEUDO_MERGE_TRAILER) else {
                    let what = "pseudo-merge section";
                    let kind = ParseErrorKind::Truncated { what, need: PSEUDO_MERGE_TRAILER, have: size };
                    return Err(ParseError::new(trailer.end - 8, kind));
                };
                let rest = peel(PSEUDO_MERGES, "pseudo-merge section", rest)?;
                rest.map(|rest| rest.start..trailer.end)
            }
        };
        Ok(Layout { bitmaps: start..end, pseudo_merges, table, hashes })
    }
}

/// The number at `at`, or 0 if the bytes end before it; callers have checked the length.
pub(crate) fn be_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(field(bytes, at))
}

/// The number at `at`, or 0 if the bytes end before it; callers have checked the length.
pub(crate) fn be_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(field(bytes, at))
}

/// The number at `at`, or 0 if the bytes end before it; callers have checked the length.
pub(crate) fn be_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(field(bytes, at))
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let field = bytes.get(at..).and_then(<[u8]>::first_chunk::<N>);
    field.copied().unwrap_or([0; N])
}

/// The name hash of a path, as kept in the name-hash cache: sixteen or so last characters count, white space does not.
///
/// Source: git's `Documentation/technical/bitmap-format.adoc`, "Name-hash cache", git 1a3e64c6c.
pub fn name_hash(path: &[u8]) -> u32 {
    path.iter().filter(|c| !matches!(c, b' ' | b'\t'..=b'\r')).fold(0, |hash: u32, &c| {
        // `char` is signed where git is mostly run, yet adding it shifted by 24 gives the same 32 bits.
        (hash >> 2).wrapping_add(u32::from(c) << 24)
    })
}
