//! `link`: the shared index that a split one changes.
//!
//! | bytes | meaning |
//! |---|---|
//! | 20 or 32 | checksum of the shared index, which is part of its name; all zero: there is none |
//! | .. | bitmap over the shared entries: those to remove |
//! | .. | bitmap over the shared entries: those replaced by the first entries of this file, in order |
//!
//! (gitformat-index, "Split index".) Both bitmaps may be absent together. They are over entries of another file, so their
//! bits are checked by whoever has it.

use ewah::Ewah;
use object::{HashKind, ObjectId};

use super::Cursor;
use crate::error::{ExtError, ExtErrorKind};

/// A parsed `link`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link<'a> {
    /// Checksum of the shared index; null if there is none.
    pub base: ObjectId,
    /// Entries of the shared index to remove.
    pub delete: Option<Ewah<'a>>,
    /// Entries of the shared index to replace.
    pub replace: Option<Ewah<'a>>,
}

impl<'a> Link<'a> {
    /// Reads the data.
    pub fn parse(data: &'a [u8], kind: HashKind) -> Result<Self, ExtError> {
        let Some(base) = ObjectId::from_prefix(data, kind) else {
            return Err(ExtError::new(data.len(), ExtErrorKind::Truncated { what: "checksum of the shared index" }));
        };
        let mut at = Cursor::new(data);
        at.take(kind.len(), "checksum of the shared index")?;
        if at.rest().is_empty() {
            return Ok(Link { base, delete: None, replace: None });
        }
        let delete = at.bitmap(u32::MAX as usize)?;
        let replace = at.bitmap(u32::MAX as usize)?;
        at.end("end of the bitmaps")?;
        Ok(Link { base, delete: Some(delete), replace: Some(replace) })
    }

    /// Appends the data.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.base.as_bytes());
        if self.delete.is_some() || self.replace.is_some() {
            for bitmap in [self.delete, self.replace] {
                bitmap.map_or_else(Default::default, |bitmap| bitmap.to_owned()).append_to(out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ewah::EwahBuf;

    fn ones(bits: &[u32]) -> EwahBuf {
        let mut out = EwahBuf::builder();
        bits.iter().for_each(|&bit| out.set(bit).unwrap());
        out.finish()
    }

    #[test]
    fn there_and_back() {
        for kind in HashKind::ALL {
            let (delete, replace) = (ones(&[0, 5, 900]), ones(&[]));
            for (delete, replace) in [(None, None), (Some(delete.as_ewah()), Some(replace.as_ewah()))] {
                let link = Link { base: kind.empty_blob(), delete, replace };
                let mut data = Vec::new();
                link.append_to(&mut data);
                assert_eq!(Link::parse(&data, kind), Ok(link));
            }
        }
    }

    #[test]
    fn one_bitmap_alone_and_stray_bytes_are_refused() {
        for kind in HashKind::ALL {
            let bitmap = ones(&[3]);
            let mut data = kind.empty_blob().as_bytes().to_vec();
            bitmap.append_to(&mut data);
            assert!(Link::parse(&data, kind).is_err());
            bitmap.append_to(&mut data);
            assert!(Link::parse(&data, kind).is_ok());
            for bytes in crate::ext::tests::damaged(&data) {
                let _ = Link::parse(&bytes, kind);
            }
            data.push(0);
            assert_eq!(Link::parse(&data, kind).unwrap_err().at, data.len() as u64 - 1);
        }
    }
}
