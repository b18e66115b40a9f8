//! Modification times of the objects in a cruft pack. All integers are big-endian (gitformat-pack, "pack-*.mtimes files").
//!
//! | offset | width | meaning | valid |
//! |---|---|---|---|
//! | 0 | 4 | signature | `MTME` |
//! | 4 | 4 | version | 1 |
//! | 8 | 4 | hash | 1 SHA-1, 2 SHA-256 |
//! | 12 | n x 4 | time of the object that the `.idx` lists first, second, ...; in seconds since 1970 | |
//! | end - 2h | h | checksum of the pack | the pack's |
//! | end - h | h | checksum of all bytes before it | |

use std::io::Write;

use object::{HashKind, ObjectId};

use crate::{
    IdxPos, ParseError, WriteError,
    idx::verify_trailer,
    rev::{Companion, HEADER_LEN},
};

const MTIMES: Companion = Companion {
    signature: *b"MTME",
    name: "file of modification times",
    a_name: "a file of modification times",
    version: "version of modification times",
    hash: "hash in file of modification times",
};

/// Modification times over bytes of any owner: borrowed, mapped or read.
#[derive(Debug, Clone)]
pub struct Mtimes<D> {
    data: D,
    hash: HashKind,
    count: u32,
}

impl<D: AsRef<[u8]>> Mtimes<D> {
    /// Settles header, length, and that it was made for the pack of `count` entries and that checksum. Constant time.
    ///
    /// Git does not compare the pack's checksum.
    pub fn parse(data: D, hash: HashKind, count: u32, pack_checksum: &ObjectId) -> Result<Self, ParseError> {
        MTIMES.check(data.as_ref(), hash, count, pack_checksum)?;
        Ok(Self { data, hash, count })
    }

    /// How many objects the pack has.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The whole file.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.data.as_ref()
    }

    /// When the object at `pos` was last written or wanted, in seconds since 1970. Constant time.
    ///
    /// # Panics
    /// If `pos` is not below [`count`](Self::count).
    #[inline]
    pub fn mtime(&self, pos: IdxPos) -> u32 {
        u32::from_be_bytes(self.table()[pos.index()])
    }

    /// The times in the order of the `.idx`.
    pub fn mtimes(&self) -> impl ExactSizeIterator<Item = u32> + Clone + '_ {
        self.table().iter().map(|time| u32::from_be_bytes(*time))
    }

    /// Whether the trailer is the checksum of the bytes before it. Linear.
    pub fn verify_checksum(&self) -> Result<(), ParseError> {
        verify_trailer(self.data.as_ref(), self.hash)
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

/// Writes the modification times of a pack's objects and returns the writer and the file's own checksum.
///
/// `times` are in the order of the `.idx`, in seconds since 1970. The bytes are those that git writes.
pub fn write<W: Write>(
    w: W,
    times: impl ExactSizeIterator<Item = u32>,
    pack_checksum: &ObjectId,
) -> Result<(W, ObjectId), WriteError> {
    MTIMES.write(w, times, pack_checksum)
}
