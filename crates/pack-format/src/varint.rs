//! The two variable-length integers of packs. Both use seven bits of a byte and the eighth to say that more follow;
//! they differ in the order of the groups, and in one addition. (gitformat-pack, "Size encoding" and "offset encoding".)
//!
//! | | groups | each continuation | used for |
//! |---|---|---|---|
//! | size | least significant first | adds nothing; padding is possible | sizes in entry and delta headers |
//! | offset | most significant first | adds one; every number has exactly one form | distance of an `OFS_DELTA`; index v4 |

/// Most bytes that either encoding needs for 64 bits.
pub const MAX_LEN: usize = 10;

/// Why no number could be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VarintError {
    /// The bytes end while the last one says that more follow.
    #[error("truncated number")]
    Truncated,
    /// The number does not fit 64 bits.
    #[error("number does not fit 64 bits")]
    Overflow,
}

/// The size that `bytes` begins with, and how many bytes it takes.
///
/// Padding (groups of zeros at the end) is accepted as far as the tenth byte, as git does at least.
#[inline]
pub fn decode_size(bytes: &[u8]) -> Result<(u64, usize), VarintError> {
    decode_size_after(0, 0, bytes)
}

/// Goes on with a size whose lowest `shift` bits are `value`. The entry header begins with such a part.
#[inline]
pub(crate) fn decode_size_after(mut value: u64, mut shift: u32, bytes: &[u8]) -> Result<(u64, usize), VarintError> {
    for (i, &byte) in bytes.iter().enumerate() {
        let group = u64::from(byte & 0x7f);
        if shift >= 64 || (group << shift) >> shift != group {
            return Err(VarintError::Overflow);
        }
        value |= group << shift;
        if byte & 0x80 == 0 {
            return Ok((value, i + 1));
        }
        shift += 7;
    }
    Err(if shift >= 64 { VarintError::Overflow } else { VarintError::Truncated })
}

/// Appends a size in its shortest form.
#[inline]
pub fn encode_size(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The offset that `bytes` begins with, and how many bytes it takes.
#[inline]
pub fn decode_offset(bytes: &[u8]) -> Result<(u64, usize), VarintError> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().enumerate() {
        value |= u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Ok((value, i + 1));
        }
        value = value.checked_add(1).filter(|value| value >> 57 == 0).ok_or(VarintError::Overflow)? << 7;
    }
    Err(VarintError::Truncated)
}

/// Appends an offset in its only form.
#[inline]
pub fn encode_offset(mut value: u64, out: &mut Vec<u8>) {
    let mut groups = [0; MAX_LEN];
    let mut start = MAX_LEN - 1;
    groups[start] = (value & 0x7f) as u8;
    while value > 0x7f {
        value = (value >> 7) - 1;
        start -= 1;
        groups[start] = 0x80 | (value & 0x7f) as u8;
    }
    out.extend_from_slice(&groups[start..]);
}
