//! Hexadecimal text of ids: encoded two digits at a time, decoded by table; no allocation.

use std::{fmt, ops::Deref};

use crate::{HashKind, ObjectId};

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The two digits of every byte.
static PAIRS: [[u8; 2]; 256] = {
    let mut table = [[0; 2]; 256];
    let mut i = 0;
    while i < 256 {
        table[i] = [DIGITS[i >> 4], DIGITS[i & 15]];
        i += 1;
    }
    table
};

/// Marks a character that is no digit. Its high bits survive the shift and the OR of two digits.
const NONE: u8 = 0xff;

/// The value of every character. Upper case counts too, as git reads it.
static VALUES: [u8; 256] = {
    let mut table = [NONE; 256];
    let mut i = 0;
    while i < 16 {
        table[DIGITS[i] as usize] = i as u8;
        table[DIGITS[i].to_ascii_uppercase() as usize] = i as u8;
        i += 1;
    }
    table
};

/// Writes the digits of `bytes` to `out`, which must be exactly twice as long; longer rests stay untouched.
#[inline]
pub(crate) fn encode(bytes: &[u8], out: &mut [u8]) {
    for (pair, &byte) in out.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        *pair = PAIRS[usize::from(byte)];
    }
}

/// Reads as many digit pairs as `out` has bytes. `None` if `hex` has fewer, or something else than digits.
///
/// One test at the end instead of one per digit: bad characters leave high bits behind.
#[inline]
pub(crate) fn decode(hex: &[u8], out: &mut [u8]) -> Option<()> {
    let pairs = hex.as_chunks::<2>().0.get(..out.len())?;
    let mut bad = 0;
    for (byte, [high, low]) in out.iter_mut().zip(pairs) {
        let (high, low) = (VALUES[usize::from(*high)], VALUES[usize::from(*low)]);
        bad |= high | low;
        *byte = (high << 4) | low;
    }
    (bad & 0xf0 == 0).then_some(())
}

/// The value of one digit.
#[inline]
pub(crate) fn digit(c: u8) -> Option<u8> {
    let value = VALUES[usize::from(c)];
    (value != NONE).then_some(value)
}

/// Decodes a constant; a bad one fails the build.
pub(crate) const fn literal<const N: usize>(hex: &str) -> [u8; N] {
    let hex = hex.as_bytes();
    assert!(hex.len() == N * 2);
    let mut out = [0; N];
    let mut i = 0;
    while i < N {
        let (high, low) = (literal_digit(hex[i * 2]), literal_digit(hex[i * 2 + 1]));
        out[i] = (high << 4) | low;
        i += 1;
    }
    out
}

// A `static` cannot be read in a `const fn`.
const fn literal_digit(c: u8) -> u8 {
    match c {
        b'0'..=b'9' => c - b'0',
        b'a'..=b'f' => c - b'a' + 10,
        _ => panic!("not a digit"),
    }
}

/// An id as text, on the stack: 40 or 64 lower-case digits. Made by [`ObjectId::to_hex`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hex {
    digits: [u8; 64],
    kind: HashKind,
}

impl Hex {
    pub(crate) fn new(id: &ObjectId) -> Self {
        let mut digits = [0; 64];
        encode(id.as_bytes(), &mut digits);
        Self { digits, kind: id.kind() }
    }

    /// The digits.
    #[inline]
    pub fn as_str(&self) -> &str {
        // Only digits were written, so the check never fails; 40 bytes are cheap to check.
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }

    /// The digits as bytes, for writers.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.digits[..self.kind.hex_len()]
    }
}

impl Deref for Hex {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<[u8]> for Hex {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}
