//! The header of an object: `kind SP size NUL`, hashed before the content, and stored before it in loose objects.
//!
//! The size is the content's, in bytes, in decimal digits without sign or leading zero.

use std::ops::Deref;

use crate::{ObjectKind, ParseError, ParseErrorKind};

/// The longest header that is read, NUL included. Git reads no longer ones; all that fit 64 bits are shorter.
pub const MAX_LEN: usize = 32;

/// An encoded header, on the stack.
#[derive(Clone, Copy)]
pub struct Encoded {
    bytes: [u8; MAX_LEN],
    len: usize,
}

impl Deref for Encoded {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The header of an object of `size` bytes, NUL included.
pub fn encode(kind: ObjectKind, size: u64) -> Encoded {
    let mut digits = [0; 20]; // 2^64 - 1 has 20
    let mut start = digits.len();
    let mut rest = size;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let (name, digits) = (kind.name().as_bytes(), &digits[start..]);
    let mut bytes = [0; MAX_LEN];
    let len = name.len() + 1 + digits.len() + 1;
    bytes[..name.len()].copy_from_slice(name);
    bytes[name.len()] = b' ';
    bytes[name.len() + 1..len - 1].copy_from_slice(digits);
    Encoded { bytes, len }
}

/// Reads the header that `bytes` begins with: kind, size, and the header's own length, NUL included.
///
/// Looks at no more than [`MAX_LEN`] bytes. A header that is not complete in these is an error.
pub fn parse(bytes: &[u8]) -> Result<(ObjectKind, u64, usize), ParseError> {
    let bytes = bytes.get(..MAX_LEN).unwrap_or(bytes);
    let Some(nul) = bytes.iter().position(|&b| b == 0) else {
        return Err(ParseError::new(bytes.len(), ParseErrorKind::Truncated { what: "object header" }));
    };
    let text = bytes.get(..nul).unwrap_or_default();
    let Some(space) = text.iter().position(|&b| b == b' ') else {
        return Err(ParseError::new(nul, ParseErrorKind::Expected { what: "a space in the object header" }));
    };
    let (name, size) = text.split_at(space);
    let kind = ObjectKind::from_name(name).ok_or_else(|| ParseError::new(0, ParseErrorKind::UnknownKind))?;
    let size = size.get(1..).and_then(decimal);
    let size = size.ok_or_else(|| ParseError::new(space + 1, ParseErrorKind::BadSize))?;
    Ok((kind, size, nul + 1))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    match digits {
        [] | [b'0', _, ..] => None,
        _ => digits.iter().try_fold(0u64, |value, &digit| {
            let digit = digit.checked_sub(b'0').filter(|&d| d < 10)?;
            value.checked_mul(10)?.checked_add(u64::from(digit))
        }),
    }
}
