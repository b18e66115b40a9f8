//! The extensions behind the entries: a codec for each, and the frame around them.
//!
//! | offset | bytes | meaning |
//! |---|---|---|
//! | 0 | 4 | signature; a first letter `A` to `Z` makes the extension optional |
//! | 4 | 4 | size of the data in bytes, big endian |
//! | 8 | size | data |
//!
//! (gitformat-index, "Extensions".) Codecs take and give the data only. None does any I/O, allocates from a count that the
//! data merely claim, or recurses; what they hold borrows from the data. Offsets in their errors count from the data's
//! first byte.

pub mod eoie;
pub mod ieot;

mod fsmn;
mod link;
mod reuc;
mod tree;
mod untr;

pub use fsmn::Fsmonitor;
pub use link::Link;
pub use reuc::{ResolveUndo, Stages};
pub use tree::{CacheTree, CacheTreeBuilder, Node, NodeId};
pub use untr::{Directory, Untracked};

use crate::error::{ExtError, ExtErrorKind};
use crate::path_v4;

/// Cache tree: tree objects that stretches of the entries are known to make.
pub const TREE: [u8; 4] = *b"TREE";
/// Resolve undo: the sides of conflicts that were resolved.
pub const REUC: [u8; 4] = *b"REUC";
/// Split index: the shared index that this one changes. Required.
pub const LINK: [u8; 4] = *b"link";
/// Untracked cache.
pub const UNTR: [u8; 4] = *b"UNTR";
/// File system monitor: the token, and entries that may have changed since.
pub const FSMN: [u8; 4] = *b"FSMN";
/// Where the entries end.
pub const EOIE: [u8; 4] = *b"EOIE";
/// Where blocks of entries begin.
pub const IEOT: [u8; 4] = *b"IEOT";
/// Sparse index: some entries stand for whole directories. Required, without data.
pub const SDIR: [u8; 4] = *b"sdir";

/// Bytes in front of an extension's data.
pub const HEADER_LEN: usize = 8;

/// Whether a program that does not know this extension may pass over it.
pub const fn is_optional(signature: [u8; 4]) -> bool {
    signature[0].is_ascii_uppercase()
}

/// What stands in front of an extension's data.
pub fn header(signature: [u8; 4], size: u32) -> [u8; HEADER_LEN] {
    let mut out = [0; HEADER_LEN];
    let (left, right) = out.split_at_mut(4);
    left.copy_from_slice(&signature);
    right.copy_from_slice(&size.to_be_bytes());
    out
}

/// One extension as it lies in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item<'a> {
    /// Its four letters.
    pub signature: [u8; 4],
    /// Byte offset of its data in the file.
    pub at: usize,
    /// Its data.
    pub data: &'a [u8],
}

/// What should be an extension at byte `at` of the file does not end before the trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("extension at byte {at} runs into the trailer")]
pub struct CutShort {
    /// Byte offset of its signature in the file.
    pub at: usize,
}

/// The extensions of a file, in its order. Ends after an error.
#[derive(Debug, Clone)]
pub struct Extensions<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Extensions<'a> {
    /// Those in `bytes[start..end]`: from the end of the entries to the trailer.
    pub fn new(bytes: &'a [u8], start: usize, end: usize) -> Self {
        Extensions { bytes: bytes.get(..end).unwrap_or(bytes), at: start }
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Item<'a>, CutShort>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let found = rest.split_first_chunk::<4>().and_then(|(signature, rest)| {
            let (size, rest) = rest.split_first_chunk::<4>()?;
            let data = rest.get(..usize::try_from(u32::from_be_bytes(*size)).ok()?)?;
            Some((*signature, data))
        });
        let Some((signature, data)) = found else {
            let at = std::mem::replace(&mut self.at, self.bytes.len());
            return Some(Err(CutShort { at }));
        };
        let at = self.at + HEADER_LEN;
        self.at = at + data.len();
        Some(Ok(Item { signature, at, data }))
    }
}

impl std::iter::FusedIterator for Extensions<'_> {}

/// A position in an extension's data that only moves forward.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Cursor { data, at: 0 }
    }

    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.data.get(self.at..).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], ExtError> {
        let taken = self.rest().get(..len).ok_or_else(|| self.truncated(what))?;
        self.at += len;
        Ok(taken)
    }

    /// The bytes in front of the next `end`, which is passed over.
    #[inline]
    pub(crate) fn until(&mut self, end: u8, what: &'static str) -> Result<&'a [u8], ExtError> {
        let rest = self.rest();
        let len = memchr::memchr(end, rest).ok_or_else(|| self.truncated(what))?;
        self.at += len + 1;
        Ok(rest.get(..len).unwrap_or_default())
    }

    pub(crate) fn be32(&mut self, what: &'static str) -> Result<u32, ExtError> {
        let four = self.rest().first_chunk().ok_or_else(|| self.truncated(what))?;
        self.at += 4;
        Ok(u32::from_be_bytes(*four))
    }

    /// A number in the encoding that version 4 paths have.
    #[inline]
    pub(crate) fn varint(&mut self, what: &'static str) -> Result<u64, ExtError> {
        let Some((value, len)) = path_v4::decode(self.rest()) else {
            return Err(match self.rest().get(path_v4::MAX_LEN) {
                Some(_) => ExtError::new(self.at, ExtErrorKind::Malformed { what }),
                None => self.truncated(what),
            });
        };
        self.at += len;
        Ok(value)
    }

    /// A bitmap over `bits` things.
    pub(crate) fn bitmap(&mut self, bits: usize) -> Result<ewah::Ewah<'a>, ExtError> {
        let (bitmap, len) = ewah::Ewah::parse_within(self.rest(), bits as u64)
            .map_err(|err| ExtError::new(self.at, ExtErrorKind::Bitmap(err)))?;
        self.at += len;
        Ok(bitmap)
    }

    /// Nothing may be left.
    pub(crate) fn end(&self, what: &'static str) -> Result<(), ExtError> {
        match self.rest() {
            [] => Ok(()),
            _ => Err(ExtError::new(self.at, ExtErrorKind::Malformed { what })),
        }
    }

    #[cold]
    fn truncated(&self, what: &'static str) -> ExtError {
        ExtError::new(self.data.len(), ExtErrorKind::Truncated { what })
    }
}

/// Appends a number's decimal digits.
pub(crate) fn push_decimal(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut used = 0;
    for (place, digit) in digits.iter_mut().rev().enumerate() {
        *digit = b'0' + (value % 10) as u8;
        used = place + 1;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend(digits.iter().skip(digits.len() - used));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every prefix of some data, and the data with every byte changed in several ways: nothing that reads them may panic.
    pub(super) fn damaged(data: &[u8]) -> impl Iterator<Item = Vec<u8>> {
        let cut = (0..data.len()).map(|len| data[..len].to_vec());
        let changed = (0..data.len()).flat_map(|at| {
            [0, 1, b'-', b'0', b'9', 0x7f, 0x80, 0xff, data[at] ^ 1, data[at] ^ 0x40].map(|byte| {
                let mut data = data.to_vec();
                data[at] = byte;
                data
            })
        });
        cut.chain(changed)
    }

    fn frames(parts: &[([u8; 4], u32, &[u8])]) -> Vec<u8> {
        parts.iter().flat_map(|&(signature, size, data)| [&header(signature, size)[..], data].concat()).collect()
    }

    #[test]
    fn extensions_follow_each_other() {
        let mut bytes = vec![7; 5];
        bytes.extend(frames(&[(TREE, 3, b"abc"), (SDIR, 0, b""), (EOIE, 1, b"x")]));
        let end = bytes.len();
        bytes.extend([9; 20]);
        let items: Vec<_> = Extensions::new(&bytes, 5, end).map(Result::unwrap).collect();
        assert_eq!(
            items,
            [
                Item { signature: TREE, at: 13, data: b"abc" },
                Item { signature: SDIR, at: 24, data: b"" },
                Item { signature: EOIE, at: 32, data: b"x" },
            ]
        );
        assert_eq!(Extensions::new(&bytes, end, end).next(), None);
        assert_eq!(Extensions::new(&bytes, end + 100, end).next(), None);
        assert!(is_optional(TREE) && !is_optional(LINK) && !is_optional(*b"\0BCD") && !is_optional(*b"[BCD"));
    }

    #[test]
    fn i13_what_runs_into_the_trailer_ends_the_list() {
        let whole = frames(&[(*b"ABCD", 3, b"abc")]);
        for (tail, name) in [
            (frames(&[(TREE, 0xffff_fff0, b"")]), "a size beyond the file"),
            (frames(&[(TREE, 1, b"")]), "a size beyond the trailer"),
            (vec![1; 5], "five stray bytes"),
            (b"TREE\0\0\0".to_vec(), "half a size"),
        ] {
            let bytes = [&whole[..], &tail, &[0; 20]].concat();
            let mut items = Extensions::new(&bytes, 0, whole.len() + tail.len());
            assert!(matches!(items.next(), Some(Ok(_))), "{name}");
            assert_eq!(items.next(), Some(Err(CutShort { at: whole.len() })), "{name}");
            assert_eq!(items.next(), None, "{name}");
        }
    }

    #[test]
    fn decimal_digits() {
        for value in [0, 1, 9, 10, 4_294_967_295, u64::MAX] {
            let mut out = Vec::new();
            push_decimal(value, &mut out);
            assert_eq!(out, value.to_string().as_bytes());
        }
    }

    #[test]
    fn numbers_that_do_not_end() {
        for (bytes, malformed) in [(&[0x80; 20][..], true), (&[0x80; 3], false), (&[], false)] {
            let error = Cursor::new(bytes).varint("number").unwrap_err();
            assert_eq!(matches!(error.kind, ExtErrorKind::Malformed { .. }), malformed, "{bytes:?}");
        }
    }
}
