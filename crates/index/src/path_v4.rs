//! How version 4 writes a path: a number of bytes to remove from the end of the path before, then what to append, then NUL.
//!
//! The number has the encoding of pack entries' base offsets (gitformat-pack, "OFS_DELTA"): seven bits a byte, highest first,
//! the top bit says that more follow, and each that follows adds one, so that no number has two encodings.

use std::cmp::Ordering;

/// Most bytes of a number that fits 64 bits.
pub(crate) const MAX_LEN: usize = 10;

/// Reads a number: its value and its bytes. `None` if it does not end, or not within 64 bits.
#[inline]
pub(crate) fn decode(bytes: &[u8]) -> Option<(u64, usize)> {
    let &first = bytes.first()?;
    if first & 0x80 == 0 {
        return Some((u64::from(first), 1));
    }
    decode_long(bytes)
}

fn decode_long(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (at, &byte) in bytes.iter().take(MAX_LEN).enumerate() {
        value = value.checked_mul(128)?.checked_add(u64::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
        value = value.checked_add(1)?;
    }
    None
}

/// Appends a number.
#[inline]
pub(crate) fn encode(mut value: u64, out: &mut Vec<u8>) {
    if value < 0x80 {
        out.push(value as u8);
        return;
    }
    let mut bytes = [0u8; MAX_LEN];
    let mut at = MAX_LEN - 1;
    bytes[at] = (value & 0x7f) as u8;
    while value >= 0x80 {
        value = (value >> 7) - 1;
        at -= 1;
        bytes[at] = 0x80 | (value & 0x7f) as u8;
    }
    out.extend_from_slice(&bytes[at..]);
}

/// The path before, while a file is read.
#[derive(Default)]
pub(crate) struct Path {
    /// At least `len` bytes; what is behind them means nothing.
    bytes: Vec<u8>,
    len: usize,
}

impl Path {
    /// How much at most is copied in one step of fixed length, which is faster than a short copy of any length.
    const STEP: usize = 16;

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// As [`replace_end`](Path::replace_end), if it is seen at once that the new path is the greater one, and there is room.
    /// `false`: nothing was done.
    #[inline(always)]
    pub(crate) fn replace_rising(&mut self, keep: usize, field: &[u8; SHORT], len: usize) -> bool {
        let removed = keep < self.len;
        let Some(to) = self.bytes.get_mut(keep..).and_then(|to| to.first_chunk_mut::<SHORT>()) else { return false };
        if len == 0 || removed && to[0] >= field[0] {
            return false;
        }
        *to = *field;
        self.len = keep + len;
        true
    }

    /// Keeps `keep` bytes and appends the first `len` of `field`. Gives how the path before compares with the new one.
    ///
    /// # Panics
    /// If there are fewer bytes than that.
    #[inline]
    pub(crate) fn replace_end(&mut self, keep: usize, field: &[u8], len: usize) -> Ordering {
        // In front of both are the same bytes, and mostly the first that differ tell.
        let old = &self.bytes[keep..self.len];
        let order = match (old.first(), field.first().filter(|_| len > 0)) {
            (None, Some(_)) => Ordering::Less,
            (Some(a), Some(b)) if a != b => a.cmp(b),
            _ => old.cmp(&field[..len]),
        };
        match (field.first_chunk::<{ Self::STEP }>(), self.bytes.get_mut(keep..keep + Self::STEP)) {
            (Some(from), Some(to)) if len <= Self::STEP => to.copy_from_slice(from),
            _ => {
                self.bytes.truncate(keep);
                self.bytes.extend_from_slice(&field[..len]);
                // Room for the steps to come.
                self.bytes.resize(keep + len + 4 * SHORT, 0);
            }
        }
        self.len = keep + len;
        order
    }
}

/// Bytes in front of the NUL. What is appended is mostly short, and eight bytes at a time are faster than a general search.
#[inline]
pub(crate) fn suffix_len(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*chunk);
        let zeros = word.wrapping_sub(LOW) & !word & HIGH;
        if zeros != 0 {
            return Some(at + zeros.trailing_zeros() as usize / 8);
        }
        at += 8;
        if at == 64 {
            return Some(at + memchr::memchr(0, bytes.get(at..)?)?);
        }
    }
    Some(at + bytes.get(at..)?.iter().position(|&byte| byte == 0)?)
}

/// What [`ends_at`] looks at.
pub(crate) const SHORT: usize = 32;

/// Whether the first NUL is at `len`: without a branch that depends on what the bytes are.
#[inline(always)]
pub(crate) fn ends_at(bytes: &[u8; SHORT], len: usize) -> bool {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zeros = |bytes: &[u8; 8]| {
        let word = u64::from_le_bytes(*bytes);
        word.wrapping_sub(LOW) & !word & HIGH
    };
    let [a, b, c, d] = bytes.as_chunks::<8>().0 else { return false };
    let first = |a: u64, b: u64| {
        let (a_at, b_at) = (a.trailing_zeros() as usize / 8, 8 + b.trailing_zeros() as usize / 8);
        if a != 0 { a_at } else { b_at }
    };
    // Most paths differ in a few bytes only.
    let (a, b) = (zeros(a), zeros(b));
    if len < 16 { first(a, b) == len } else { a | b == 0 && first(zeros(c), zeros(d)) + 16 == len }
}

/// Bytes that two paths begin with in common.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let (x, y) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    let mut at = 0;
    for (x, y) in x.iter().zip(y) {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return at + differ.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = a.get(at..).unwrap_or_default().iter().zip(b.get(at..).unwrap_or_default());
    at + rest.take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_have_one_form() {
        for shift in 0..64 {
            for value in [(1u64 << shift) - 1, 1 << shift, (1 << shift) + 1, u64::MAX] {
                let mut bytes = Vec::new();
                encode(value, &mut bytes);
                assert_eq!(decode(&bytes), Some((value, bytes.len())), "{value}");
                assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
            }
        }
        // gitformat-pack: 128 is the first number of two bytes.
        let mut bytes = Vec::new();
        encode(128, &mut bytes);
        assert_eq!(bytes, [0x80, 0x00]);
        assert_eq!(decode(&[0xff; 10]), None);
        assert_eq!(decode(&[0x80; 20]), None);
    }

    #[test]
    fn terminators_are_found_at_every_distance() {
        for len in 0..200 {
            let mut bytes = vec![0x80u8; len];
            assert_eq!(suffix_len(&bytes), None);
            bytes.push(0);
            assert_eq!(suffix_len(&bytes), Some(len));
            bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
            assert_eq!(suffix_len(&bytes), Some(len));
            bytes.resize(len.max(SHORT) + SHORT, 0);
            for at in 0..SHORT {
                assert_eq!(ends_at(bytes.first_chunk().unwrap(), at), at == len);
            }
        }
    }

    #[test]
    fn paths_follow() {
        let (mut path, mut plain) = (Path::default(), Vec::new());
        let field: Vec<u8> = (1..=255).collect();
        for (keep, from, len) in
            [(0, 0, 5), (3, 9, 16), (19, 4, 17), (10, 200, 3), (13, 0, 100), (113, 1, 0), (20, 7, 1)]
        {
            let before = plain.clone();
            plain.truncate(keep);
            plain.extend_from_slice(&field[from..from + len]);
            if let (Some(short), true) = (field[from..].first_chunk(), len < SHORT) {
                let mut other = Path { bytes: [path.bytes(), &[0; SHORT]].concat(), len: path.len() };
                assert_eq!(other.replace_rising(keep, short, len), before < plain);
                assert_eq!(other.bytes(), if before < plain { &plain } else { &before });
            }
            assert_eq!(path.replace_end(keep, &field[from..], len), before.cmp(&plain));
            assert_eq!((path.bytes(), path.len()), (&plain[..], plain.len()));
        }
    }

    #[test]
    fn common_prefixes() {
        let long = [7u8; 40];
        for len in 0..40 {
            let mut other = long;
            other[len] = 8;
            assert_eq!(common_prefix(&long, &other), len);
            assert_eq!(common_prefix(&long, &other[..len]), len);
        }
    }
}
