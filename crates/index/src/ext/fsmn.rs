//! `FSMN`: what a file system monitor was last told, and which entries may have changed since.
//!
//! | bytes | meaning |
//! |---|---|
//! | 4 | version: 1 or 2 |
//! | 8, or up to NUL | version 1: nanoseconds since 1970; version 2: the monitor's token |
//! | 4 | size of the bitmap in bytes |
//! | .. | bitmap over the entries: set for one that is *not* known to be unchanged |
//!
//! Big endian (gitformat-index, "File System Monitor cache"). Version 2 is written.

use std::borrow::Cow;

use ewah::{Ewah, EwahBuf};

use super::{Cursor, push_decimal};
use crate::error::{ExtError, ExtErrorKind};

/// A parsed `FSMN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fsmonitor<'a> {
    /// What the monitor is to be asked with. Version 1's number as decimal text, as git hands it on.
    pub token: Cow<'a, [u8]>,
    /// Entries that may have changed.
    pub dirty: Ewah<'a>,
}

impl<'a> Fsmonitor<'a> {
    /// Reads the data for an index of `entries` entries; of a split index, all of them.
    pub fn parse(data: &'a [u8], entries: usize) -> Result<Self, ExtError> {
        let mut at = Cursor::new(data);
        let token = match at.be32("version")? {
            1 => {
                let [high, low] = [at.be32("time")?, at.be32("time")?];
                let mut text = Vec::new();
                push_decimal(u64::from(high) << 32 | u64::from(low), &mut text);
                Cow::Owned(text)
            }
            2 => Cow::Borrowed(at.until(0, "token")?),
            found => return Err(ExtError::new(0, ExtErrorKind::Unsupported { what: "version", found })),
        };
        let size = at.be32("size of the bitmap")?;
        let start = at.at();
        let dirty = at.bitmap(entries)?;
        if (at.at() - start) as u64 != u64::from(size) {
            return Err(ExtError::new(start - 4, ExtErrorKind::Malformed { what: "size of the bitmap" }));
        }
        at.end("end of the bitmap")?;
        Ok(Fsmonitor { token, dirty })
    }

    /// Appends the data, version 2. The token must be without NUL. `dirty` must ascend: a number that does not is left out.
    pub fn append(token: &[u8], dirty: impl IntoIterator<Item = u32>, out: &mut Vec<u8>) {
        let mut bitmap = EwahBuf::builder();
        for bit in dirty {
            let set = bitmap.set(bit);
            debug_assert!(set.is_ok(), "entry numbers ascend");
        }
        let bitmap = bitmap.finish();
        out.extend_from_slice(&2u32.to_be_bytes());
        out.extend_from_slice(token);
        out.push(0);
        out.extend_from_slice(&(bitmap.as_ewah().encoded_len() as u32).to_be_bytes());
        bitmap.append_to(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for bits in [&[][..], &[0], &[1, 2, 63, 64, 299]] {
            let mut data = Vec::new();
            Fsmonitor::append(b"tok", bits.iter().copied(), &mut data);
            assert_eq!(data[..8], *b"\0\0\0\x02tok\0");
            let Fsmonitor { token, dirty } = Fsmonitor::parse(&data, 300).unwrap();
            assert_eq!((&*token, dirty.ones().collect::<Vec<_>>()), (&b"tok"[..], bits.to_vec()));
        }
    }

    #[test]
    fn version_1_has_a_time() {
        let mut data = Vec::new();
        Fsmonitor::append(b"", [1], &mut data);
        data.splice(..5, [0, 0, 0, 1, 0x17, 0x9e, 0x3c, 0x8f, 0xa0, 0, 0, 1]);
        let Fsmonitor { token, dirty } = Fsmonitor::parse(&data, 2).unwrap();
        assert_eq!(*token, *0x179e_3c8f_a000_0001_u64.to_string().as_bytes());
        assert!(dirty.contains(1));
    }

    #[test]
    fn i13_bits_beyond_the_entries() {
        // 300 bits, one literal word that sets 32 of them; four entries.
        let mut data = b"\0\0\0\x02tok\0".to_vec();
        data.extend(28u32.to_be_bytes());
        data.extend(300u32.to_be_bytes());
        data.extend(2u32.to_be_bytes());
        data.extend((1u64 << 33).to_be_bytes());
        data.extend(0xffff_ffff_u64.to_be_bytes());
        data.extend(0u32.to_be_bytes());
        let error = Fsmonitor::parse(&data, 4).unwrap_err();
        assert!(matches!(error, ExtError { at: 12, kind: ExtErrorKind::Bitmap(_) }), "{error:?}");
        assert!(Fsmonitor::parse(&data, 31).is_err(), "the last bit set is number 31");
        assert!(Fsmonitor::parse(&data, 300).is_ok());

        let mut data = Vec::new();
        Fsmonitor::append(b"tok", [4], &mut data);
        assert!(Fsmonitor::parse(&data, 5).is_ok());
        assert!(Fsmonitor::parse(&data, 4).is_err(), "one bit too many");
    }

    #[test]
    fn damage() {
        let mut data = Vec::new();
        Fsmonitor::append(b"token", [0, 70], &mut data);
        for bytes in crate::ext::tests::damaged(&data) {
            let _ = Fsmonitor::parse(&bytes, 100);
        }
        for len in 0..data.len() {
            assert!(Fsmonitor::parse(&data[..len], 100).is_err());
        }
        let mut long = data.clone();
        long.push(0);
        assert!(Fsmonitor::parse(&long, 100).is_err(), "a stray byte");
        data[3] = 3;
        let kind = ExtErrorKind::Unsupported { what: "version", found: 3 };
        assert_eq!(Fsmonitor::parse(&data, 100), Err(ExtError::new(0, kind)));
    }
}
