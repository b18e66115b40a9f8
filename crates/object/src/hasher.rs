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
/// Hand over as many as are at hand: independent messages can be hashed side by side, and what neighbours of the same kind
/// and size have in common at their beginning is hashed once. Versions of a folder are often such neighbours. The first
/// collision stops it; then `out` holds the names before that one, so `out`'s growth tells which item it was.
pub fn object_ids<'a>(
    hash: HashKind,
    items: impl Iterator<Item = (ObjectKind, &'a [u8])>,
    out: &mut Vec<ObjectId>,
) -> Result<(), CollisionDetected> {
    ids_by_neighbours(hash, items, out).0
}

/// Also tells how many bytes of content were not hashed again.
fn ids_by_neighbours<'a>(
    hash: HashKind,
    items: impl Iterator<Item = (ObjectKind, &'a [u8])>,
    out: &mut Vec<ObjectId>,
) -> (Result<(), CollisionDetected>, u64) {
    let mut items = items.peekable();
    let mut saved = 0;
    // What is known of the item's beginning: so many bytes of content, and the state behind them; the longest last.
    let mut known: Vec<(usize, NameHasher)> = Vec::new();
    while let Some((kind, content)) = items.next() {
        let (mut done, mut hasher) = match known.last() {
            Some((done, hasher)) => (*done, hasher.clone()),
            None => (0, NameHasher::new(hash, kind, content.len() as u64)),
        };
        saved += done as u64;
        let common = match items.peek() {
            Some((next, other))
                if *next == kind && other.len() == content.len() && content.len() >= WORTH_COMPARING =>
            {
                whole_blocks(common_prefix(content, other), kind, content.len())
            }
            _ => 0,
        };
        if common > done {
            hasher.update(content.get(done..common).unwrap_or_default());
            known.push((common, hasher.clone()));
            done = common;
        } else {
            while known.last().is_some_and(|(done, _)| *done > common) {
                known.pop();
            }
        }
        hasher.update(content.get(done..).unwrap_or_default());
        match hasher.finish() {
            Ok(id) => out.push(id),
            Err(found) => return (Err(found), saved),
        }
    }
    (Ok(()), saved)
}

/// Of shorter contents no beginning is kept.
const WORTH_COMPARING: usize = 512;

/// Both hash functions work on blocks of so many bytes.
const BLOCK: usize = 64;

/// How many of `common` bytes of content end with a block, after the header.
fn whole_blocks(common: usize, kind: ObjectKind, size: usize) -> usize {
    let header = header::encode(kind, size as u64).len();
    ((common + header) / BLOCK * BLOCK).saturating_sub(header)
}

/// How many bytes are the same at the beginning of two slices.
fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    const STEP: usize = 128; // compared at once, which is as fast as memory allows
    let steps = one.chunks(STEP).zip(other.chunks(STEP));
    let whole = steps.take_while(|(one, other)| one == other).map(|(one, _)| one.len()).sum::<usize>();
    let rest = one.iter().zip(other).skip(whole);
    whole + rest.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What names come out, and how much was not hashed twice.
    fn check(hash: HashKind, items: &[(ObjectKind, Vec<u8>)]) -> u64 {
        let mut out = Vec::new();
        let (done, saved) =
            ids_by_neighbours(hash, items.iter().map(|(kind, bytes)| (*kind, bytes.as_slice())), &mut out);
        done.unwrap();
        let alone: Vec<ObjectId> = items.iter().map(|(kind, bytes)| object_id(hash, *kind, bytes).unwrap()).collect();
        assert_eq!(out, alone);
        saved
    }

    #[test]
    fn versions_of_a_folder() {
        for hash in HashKind::ALL {
            let first: Vec<u8> = (0..4000u32).flat_map(u32::to_le_bytes).collect();
            let mut items = vec![(ObjectKind::Tree, first)];
            for at in [9000, 12000, 15999, 15998, 700, 8000, 0, 64, 63, 10000] {
                let (kind, mut bytes) = items[items.len() - 1].clone();
                bytes[at] ^= 1;
                items.push((kind, bytes));
            }
            // Whole blocks of what is shared with the one before, less what states are not kept for.
            let saved = check(hash, &items);
            assert!((70_000..72_000).contains(&saved), "{saved}");
            // Another kind or size has another header.
            items[3].0 = ObjectKind::Blob;
            items[7].1.push(0);
            assert!(check(hash, &items) < saved);
            let small = vec![(ObjectKind::Blob, vec![7; 100]); 5];
            assert_eq!(check(hash, &small), 0);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever is shared with whom.
        #[test]
        fn as_one_by_one(
            size in 500usize..3000,
            changes in prop::collection::vec((0usize..3000, any::<bool>(), any::<bool>()), 1..20),
        ) {
            let mut items = vec![(ObjectKind::Tree, vec![0u8; size])];
            for (at, grow, blob) in changes {
                let mut bytes = items[items.len() - 1].1.clone();
                let at = at % bytes.len();
                bytes[at] ^= 0x55;
                if grow && at % 4 == 0 {
                    bytes.push(1);
                }
                items.push((if blob && at % 5 == 0 { ObjectKind::Blob } else { ObjectKind::Tree }, bytes));
            }
            for hash in HashKind::ALL {
                check(hash, &items);
            }
        }
    }
}
