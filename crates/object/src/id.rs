//! The name of an object.

use std::{
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use crate::{
    HashKind, IdError,
    hex::{self, Hex},
};

/// The name of an object, or the checksum of a file: 20 bytes of SHA-1 or 32 of SHA-256, and which of the two.
///
/// 33 bytes, `Copy`, without indirection. The order is that of the bytes, as in every sorted table of git's; two ids of
/// different kinds never compare equal. Hashing feeds all bytes of the id, without a length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// Zero beyond the kind's length, so that the derived comparisons see what counts.
    bytes: [u8; 32],
    kind: HashKind,
}

impl ObjectId {
    /// `bytes` must be zero beyond the kind's length.
    pub(crate) const fn from_raw(bytes: [u8; 32], kind: HashKind) -> Self {
        Self { bytes, kind }
    }

    /// The SHA-1 id of these bytes.
    #[inline]
    pub const fn from_sha1(id: [u8; 20]) -> Self {
        let mut bytes = [0; 32];
        bytes.split_at_mut(20).0.copy_from_slice(&id);
        Self { bytes, kind: HashKind::Sha1 }
    }

    /// The SHA-256 id of these bytes.
    #[inline]
    pub const fn from_sha256(bytes: [u8; 32]) -> Self {
        Self { bytes, kind: HashKind::Sha256 }
    }

    /// The id of these raw bytes: the length, 20 or 32, says the kind.
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, IdError> {
        if let Ok(id) = <[u8; 20]>::try_from(bytes) {
            Ok(Self::from_sha1(id))
        } else if let Ok(id) = <[u8; 32]>::try_from(bytes) {
            Ok(Self::from_sha256(id))
        } else {
            Err(IdError::Length { found: bytes.len() })
        }
    }

    /// The id of `kind` that `bytes` begins with; `None` if `bytes` is too short for one.
    #[inline]
    pub fn from_prefix(bytes: &[u8], kind: HashKind) -> Option<Self> {
        match kind {
            HashKind::Sha1 => bytes.first_chunk().copied().map(Self::from_sha1),
            HashKind::Sha256 => bytes.first_chunk().copied().map(Self::from_sha256),
        }
    }

    /// The id of this text, 40 or 64 digits of either case: the length says the kind.
    pub fn from_hex(text: &[u8]) -> Result<Self, IdError> {
        let kind = match text.len() {
            40 => HashKind::Sha1,
            64 => HashKind::Sha256,
            found => return Err(IdError::HexLength { found }),
        };
        Self::from_hex_prefix(text, kind).ok_or_else(|| {
            let at = text.iter().position(|&c| hex::digit(c).is_none()).unwrap_or(0);
            IdError::Digit { at, found: text.get(at).copied().unwrap_or(0) }
        })
    }

    /// The id of `kind` whose digits `text` begins with; `None` if they are too few, or no digits.
    #[inline]
    pub fn from_hex_prefix(text: &[u8], kind: HashKind) -> Option<Self> {
        let mut bytes = [0; 32];
        match kind {
            HashKind::Sha1 => hex::decode(text, &mut bytes[..20])?,
            HashKind::Sha256 => hex::decode(text, &mut bytes)?,
        }
        Some(Self { bytes, kind })
    }

    /// The raw bytes, 20 or 32.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.kind.len()]
    }

    /// Which hash made it.
    #[inline]
    pub const fn kind(&self) -> HashKind {
        self.kind
    }

    /// Whether all bytes are zero: the name of no object.
    #[inline]
    pub fn is_null(&self) -> bool {
        self.bytes == [0; 32]
    }

    /// The byte that fan-out tables are indexed by.
    #[inline]
    pub const fn first_byte(&self) -> u8 {
        self.bytes[0]
    }

    /// The text, on the stack.
    #[inline]
    pub fn to_hex(&self) -> Hex {
        Hex::new(self)
    }

    /// Writes the text, lower case, to the start of `out`.
    ///
    /// # Panics
    /// If `out` is shorter than `self.kind().hex_len()`.
    #[inline]
    pub fn write_hex(&self, out: &mut [u8]) {
        hex::encode(self.as_bytes(), &mut out[..self.kind.hex_len()]);
    }
}

impl Hash for ObjectId {
    /// All bytes and no length: one write of 20 or 32 bytes. All, because whoever writes trees chooses ids freely,
    /// and a map that looked at the first eight only could be filled with collisions.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.as_bytes());
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.to_hex())
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl FromStr for ObjectId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::from_hex(text.as_bytes())
    }
}

impl AsRef<[u8]> for ObjectId {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}
