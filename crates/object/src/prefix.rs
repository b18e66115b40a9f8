//! Abbreviated ids.

use std::{cmp::Ordering, fmt};

use crate::{HashKind, IdError, ObjectId, hex};

/// The first digits of an id, as people type them: 4 to 40 or 64.
///
/// An odd number of digits ends inside a byte; the comparisons below know that.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The digits, then zeros.
    bytes: [u8; 32],
    digits: u8,
    kind: HashKind,
}

impl Prefix {
    /// The fewest digits that git takes for an id.
    pub const MIN_DIGITS: usize = 4;

    /// The abbreviation of a `kind` id by these digits, of either case.
    pub fn from_hex(text: &[u8], kind: HashKind) -> Result<Self, IdError> {
        if text.len() < Self::MIN_DIGITS || text.len() > kind.hex_len() {
            return Err(IdError::PrefixLength { kind, found: text.len() });
        }
        let mut bytes = [0; 32];
        for (at, &found) in text.iter().enumerate() {
            let value = hex::digit(found).ok_or(IdError::Digit { at, found })?;
            if let Some(byte) = bytes.get_mut(at / 2) {
                *byte |= value << (4 * (1 - at % 2));
            }
        }
        // At most 64, so it fits.
        Ok(Self { bytes, digits: text.len() as u8, kind })
    }

    /// The kind of id that is abbreviated.
    #[inline]
    pub fn kind(&self) -> HashKind {
        self.kind
    }

    /// How many digits there are.
    #[inline]
    pub fn digits(&self) -> usize {
        usize::from(self.digits)
    }

    /// The lowest id with these digits: where a search in a sorted table begins.
    #[inline]
    pub fn lowest(&self) -> ObjectId {
        ObjectId::from_raw(self.bytes, self.kind)
    }

    /// The byte that fan-out tables are indexed by; always complete, since there are at least four digits.
    #[inline]
    pub fn first_byte(&self) -> u8 {
        self.bytes[0]
    }

    /// How the prefix compares to as many leading digits of `id`'s raw bytes: `Equal` when `id` begins with it,
    /// `Greater` when all ids that begin with it come after `id`. Digits that `id` lacks count as missing, before `0`.
    pub fn cmp_id(&self, id: &[u8]) -> Ordering {
        let whole = self.digits() / 2;
        let own = self.bytes.get(..whole).unwrap_or_default();
        let other = id.get(..whole).unwrap_or(id);
        own.cmp(other).then_with(|| {
            if self.digits().is_multiple_of(2) {
                return Ordering::Equal;
            }
            let own = self.bytes.get(whole).map(|byte| byte >> 4);
            own.cmp(&id.get(whole).map(|byte| byte >> 4))
        })
    }

    /// Whether `id` is of this kind and begins with these digits.
    pub fn matches(&self, id: &ObjectId) -> bool {
        self.kind == id.kind() && self.cmp_id(id.as_bytes()).is_eq()
    }
}

impl From<ObjectId> for Prefix {
    /// All digits of the id.
    fn from(id: ObjectId) -> Self {
        let mut bytes = [0; 32];
        bytes[..id.kind().len()].copy_from_slice(id.as_bytes());
        // 40 or 64.
        Self { bytes, digits: id.kind().hex_len() as u8, kind: id.kind() }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 64];
        hex::encode(&self.bytes, &mut text);
        f.pad(str::from_utf8(text.get(..self.digits()).unwrap_or_default()).unwrap_or_default())
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
