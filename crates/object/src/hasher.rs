//! Two hashers, for two purposes: see the crate's front page.

use sha2::Digest as _;

use crate::{HashKind, ObjectId, ObjectKind, header};

/// The checksum of a file, as its trailer holds it: plain SHA-1 or SHA-256, at full speed.
///
/// Against bit rot only. Never name an object with it: [`NameHasher`] is there for that.
#[derive(Clone)]
pub struct Checksum(ChecksumState);

#[derive(Clone)]
enum ChecksumState {
    Sha1(sha1::Sha1),
    Sha256(sha2::Sha256),
}

impl Checksum {
    /// Begins a checksum of the repository's kind.
    pub fn new(kind: HashKind) -> Self {
        Self(match kind {
            HashKind::Sha1 => ChecksumState::Sha1(sha1::Sha1::new()),
            HashKind::Sha256 => ChecksumState::Sha256(sha2::Sha256::new()),
        })
    }

    /// The kind it was begun with.
    pub fn kind(&self) -> HashKind {
        match self.0 {
            ChecksumState::Sha1(_) => HashKind::Sha1,
            ChecksumState::Sha256(_) => HashKind::Sha256,
        }
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            ChecksumState::Sha1(state) => state.update(bytes),
            ChecksumState::Sha256(state) => state.update(bytes),
        }
    }

    /// The checksum of all bytes added.
    pub fn finish(self) -> ObjectId {
        match self.0 {
            ChecksumState::Sha1(state) => ObjectId::from_sha1(state.finalize().into()),
            ChecksumState::Sha256(state) => ObjectId::from_sha256(state.finalize().into()),
        }
    }
}

impl std::fmt::Debug for Checksum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Checksum").field(&self.kind()).finish()
    }
}

/// The content carries a SHA-1 collision attack, so its name would not name it alone. Refuse the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the content of {id} is part of a SHA-1 collision attack")]
#[non_exhaustive]
pub struct CollisionDetected {
    /// What plain SHA-1 says; shared by at least two contents, so only fit for messages.
    pub id: ObjectId,
}

/// The name of an object: the hash of its header and content, with collision attacks on SHA-1 detected.
#[derive(Clone)]
pub struct NameHasher(NameState);

#[derive(Clone)]
enum NameState {
    Sha1(sha1dc::Hasher),
    Sha256(sha2::Sha256),
}

impl NameHasher {
    /// Begins the name of an object of `size` bytes of content.
    ///
    /// The size is hashed before the content. That as many bytes follow is for the caller to see to: otherwise the
    /// result names nothing.
    pub fn new(hash: HashKind, kind: ObjectKind, size: u64) -> Self {
        let mut hasher = Self::raw(hash);
        hasher.update(&header::encode(kind, size));
        hasher
    }

    /// Begins with nothing hashed, for content that brings its own header, such as an inflated loose object.
    pub fn raw(hash: HashKind) -> Self {
        Self(match hash {
            HashKind::Sha1 => NameState::Sha1(sha1dc::Hasher::new()),
            HashKind::Sha256 => NameState::Sha256(sha2::Sha256::new()),
        })
    }

    /// Adds content.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            NameState::Sha1(state) => state.update(bytes),
            NameState::Sha256(state) => state.update(bytes),
        }
    }

    /// The name.
    pub fn finish(self) -> Result<ObjectId, CollisionDetected> {
        match self.0 {
            NameState::Sha1(state) => match state.finalize() {
                Ok(digest) => Ok(ObjectId::from_sha1(digest.to_bytes())),
                Err(found) => Err(CollisionDetected { id: ObjectId::from_sha1(found.digest().to_bytes()) }),
            },
            NameState::Sha256(state) => Ok(ObjectId::from_sha256(state.finalize().into())),
        }
    }
}

impl std::fmt::Debug for NameHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NameHasher")
    }
}

/// The name of an object whose content is at hand.
pub fn object_id(hash: HashKind, kind: ObjectKind, content: &[u8]) -> Result<ObjectId, CollisionDetected> {
    let mut hasher = NameHasher::new(hash, kind, content.len() as u64);
    hasher.update(content);
    hasher.finish()
}

/// The names of many objects, appended to `out` in their order.
///
/// Hand over as many as are at hand: independent messages can be hashed side by side. The first collision stops it;
/// then `out` holds the names before that one, so `out`'s growth tells which item it was.
pub fn object_ids<'a>(
    hash: HashKind,
    items: impl Iterator<Item = (ObjectKind, &'a [u8])>,
    out: &mut Vec<ObjectId>,
) -> Result<(), CollisionDetected> {
    for (kind, content) in items {
        out.push(object_id(hash, kind, content)?);
    }
    Ok(())
}
