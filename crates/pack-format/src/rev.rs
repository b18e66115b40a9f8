//! Reverse index files: from pack order to id order. All integers are big-endian (gitformat-pack, "pack-*.rev files").
//!
//! | offset | width | meaning | valid |
//! |---|---|---|---|
//! | 0 | 4 | signature | `RIDX` |
//! | 4 | 4 | version | 1 |
//! | 8 | 4 | hash | 1 SHA-1, 2 SHA-256 |
//! | 12 | n x 4 | position in the `.idx` of the pack's first entry, second entry, ... | each below n, each once |
//! | end - 2h | h | checksum of the pack | the pack's |
//! | end - h | h | checksum of all bytes before it | |

use std::io::Write;

use object::{HashKind, ObjectId};

use crate::{
    IdxPos, PackPos, ParseError, ParseErrorKind, WriteError,
    idx::{Idx, Table, verify_trailer},
};

pub(crate) const HEADER_LEN: usize = 12;

/// A reverse index over bytes of any owner: borrowed, mapped or read.
#[derive(Debug, Clone)]
pub struct Rev<D> {
    data: D,
    hash: HashKind,
    count: u32,
}

impl<D: AsRef<[u8]>> Rev<D> {
    /// Settles header, length, that it was made for the pack of `count` entries and that checksum, and that every
    /// position is below `count`. Linear, but only a glance at each position.
    ///
    /// Git does not compare the pack's checksum; a `.rev` of another pack with as many entries would give wrong answers.
    pub fn parse(data: D, hash: HashKind, count: u32, pack_checksum: &ObjectId) -> Result<Self, ParseError> {
        let bytes = data.as_ref();
        let at = REV.check(bytes, hash, count, pack_checksum)?;
        let table = bytes.get(HEADER_LEN..at).unwrap_or_default().as_chunks::<4>().0;
        // Without an early end the loop is a plain maximum, sixteen numbers at a time.
        if table.iter().map(|pos| u32::from_be_bytes(*pos)).max() >= Some(count) {
            let bad = table.iter().position(|pos| u32::from_be_bytes(*pos) >= count).unwrap_or(0);
            let found = table.get(bad).map_or(0, |pos| u64::from(u32::from_be_bytes(*pos)));
            let kind = ParseErrorKind::OutOfRange { what: "index position", found, limit: u64::from(count) };
            return Err(ParseError::new(HEADER_LEN + bad * 4, kind));
        }
        Ok(Self { data, hash, count })
    }

    /// How many entries the pack has.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The whole file.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.data.as_ref()
    }

    /// Where the entry at `pos` is listed in the `.idx`; below [`count`](Self::count). Constant time.
    ///
    /// # Panics
    /// If `pos` is not below [`count`](Self::count).
    #[inline]
    pub fn idx_pos(&self, pos: PackPos) -> IdxPos {
        IdxPos::new(u32::from_be_bytes(self.table()[pos.index()]))
    }

    /// The index positions in pack order.
    pub fn positions(&self) -> impl ExactSizeIterator<Item = IdxPos> + Clone + '_ {
        self.table().iter().map(|pos| IdxPos::new(u32::from_be_bytes(*pos)))
    }

    /// Whether the trailer is the checksum of the bytes before it. Linear.
    pub fn verify_checksum(&self) -> Result<(), ParseError> {
        verify_trailer(self.data.as_ref(), self.hash)
    }

    /// All of the contents: checksum, and that the positions list the offsets of `idx` in ascending order, each once.
    /// Linear.
    pub fn verify_all<E: AsRef<[u8]>>(&self, idx: &Idx<E>) -> Result<(), ParseError> {
        self.verify_checksum()?;
        if self.count != idx.count() {
            return Err(ParseError::new(0, ParseErrorKind::Disagrees { what: "reverse index" }));
        }
        let mut last = None;
        for (rank, pos) in self.positions().enumerate() {
            let offset = idx.offset(pos)?;
            // Strictly ascending offsets also mean that no position comes twice.
            if last >= Some(offset) {
                let kind = ParseErrorKind::Disagrees { what: "reverse index" };
                return Err(ParseError::new(HEADER_LEN + rank * 4, kind));
            }
            last = Some(offset);
        }
        Ok(())
    }

    /// Gives the bytes back.
    pub fn into_inner(self) -> D {
        self.data
    }

    #[inline]
    fn table(&self) -> &[[u8; 4]] {
        let rest = self.data.as_ref().get(HEADER_LEN..).unwrap_or_default().as_chunks::<4>().0;
        rest.get(..self.count as usize).unwrap_or_default()
    }
}

/// Writes a reverse index and returns the writer and the file's own checksum.
///
/// `positions` are index positions in the order of the pack's entries. The bytes are those that git writes.
pub fn write<W: Write>(
    w: W,
    positions: impl ExactSizeIterator<Item = IdxPos>,
    pack_checksum: &ObjectId,
) -> Result<(W, ObjectId), WriteError> {
    REV.write(w, positions.map(IdxPos::get), pack_checksum)
}

/// A file beside a pack that has a number for each of its objects: header, numbers, checksum of the pack, own checksum.
pub(crate) struct Companion {
    pub(crate) signature: [u8; 4],
    pub(crate) name: &'static str,
    pub(crate) a_name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) hash: &'static str,
}

const REV: Companion = Companion {
    signature: *b"RIDX",
    name: "reverse index",
    a_name: "a reverse index",
    version: "reverse index version",
    hash: "hash in reverse index",
};

impl Companion {
    /// Settles header, length and pack; returns where the numbers end.
    pub(crate) fn check(
        &self,
        bytes: &[u8],
        hash: HashKind,
        count: u32,
        pack_checksum: &ObjectId,
    ) -> Result<usize, ParseError> {
        let (len, h) = (bytes.len(), hash.len());
        let least = HEADER_LEN + 2 * h;
        if len < least {
            return Err(ParseError::truncated(self.name, least, len));
        }
        let header = bytes.as_chunks::<4>().0.first_chunk();
        let Some([signature, version, hash_id]) = header else {
            return Err(ParseError::truncated(self.name, least, len));
        };
        if *signature != self.signature {
            return Err(ParseError::new(0, ParseErrorKind::Signature { what: self.a_name }));
        }
        let version = u32::from_be_bytes(*version);
        if version != 1 {
            let kind = ParseErrorKind::Unsupported { what: self.version, found: version };
            return Err(ParseError::new(4, kind));
        }
        let hash_id = u32::from_be_bytes(*hash_id);
        match HashKind::from_file_id(hash_id) {
            Some(found) if found == hash => {}
            Some(found) => {
                return Err(ParseError::new(8, ParseErrorKind::WrongHash { expected: hash, found }));
            }
            None => {
                let kind = ParseErrorKind::Unsupported { what: self.hash, found: hash_id };
                return Err(ParseError::new(8, kind));
            }
        }
        let expected = least as u64 + u64::from(count) * 4;
        if len as u64 != expected {
            let what = self.name;
            return Err(ParseError::new(len, ParseErrorKind::WrongSize { what, expected, found: len as u64 }));
        }
        let at = len - 2 * h;
        let found = bytes.get(at..).and_then(|rest| ObjectId::from_prefix(rest, hash)).unwrap_or(hash.null());
        if found != *pack_checksum {
            return Err(ParseError::new(at, ParseErrorKind::WrongPack { expected: *pack_checksum, found }));
        }
        Ok(at)
    }

    /// Writes such a file and returns the writer and the file's own checksum.
    pub(crate) fn write<W: Write>(
        &self,
        w: W,
        numbers: impl ExactSizeIterator<Item = u32>,
        pack_checksum: &ObjectId,
    ) -> Result<(W, ObjectId), WriteError> {
        let hash = pack_checksum.kind();
        let count = u32::try_from(numbers.len()).map_err(|_| WriteError::TooMany)?;
        let size = HEADER_LEN as u64 + u64::from(count) * 4 + 2 * hash.len() as u64;
        let mut out = Table::new(w, hash, size);
        out.put(&self.signature)?;
        out.put(&1u32.to_be_bytes())?;
        out.put(&hash.file_id().to_be_bytes())?;
        for number in numbers {
            out.put(&number.to_be_bytes())?;
        }
        out.put(pack_checksum.as_bytes())?;
        out.finish()
    }
}
