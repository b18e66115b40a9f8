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

/// Reads the data for an index of `entries` entries; of a split index, all of them. Gives the token that the monitor is to be
/// asked with, version 1's number as decimal text, as git hands it on; and the entries that may have changed.
pub fn parse(data: &[u8], entries: usize) -> Result<(Cow<'_, [u8]>, Ewah<'_>), ExtError> {
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
    Ok((token, dirty))
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

/// Both of the above under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fsmonitor<'a> {
    /// What the monitor is to be asked with.
    pub token: Cow<'a, [u8]>,
    /// Entries that may have changed.
    pub dirty: Ewah<'a>,
}

impl<'a> Fsmonitor<'a> {
    /// [`parse`].
    pub fn parse(data: &'a [u8], entries: usize) -> Result<Self, ExtError> {
        parse(data, entries).map(|(token, dirty)| Fsmonitor { token, dirty })
    }

    /// [`append`].
    pub fn append(token: &[u8], dirty: impl IntoIterator<Item = u32>, out: &mut Vec<u8>) {
        append(token, dirty, out);
    }
}
