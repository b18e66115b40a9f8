//! Whether the trees that an index remembers are those of its entries.

use object::{CollisionDetected, ObjectId, ObjectKind, object_id};

use super::{Step, TREE, Walk, push_record};
use crate::entry::Stage;
use crate::index::Index;

/// Something that a cache tree says and that is not so.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheTreeFinding {
    /// Byte offset of the node in the extension's data; 0 if the tree was not read from a file.
    pub at: u64,
    /// The directory, without a `/` at the end; the root's is empty.
    pub dir: Vec<u8>,
    /// What is not so.
    pub kind: CacheTreeFindingKind,
}

/// What is wrong with a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CacheTreeFindingKind {
    /// It covers another number of entries than the directory has.
    #[error("covers {claimed} entries, the directory has {actual}")]
    Span {
        /// What it says.
        claimed: u32,
        /// How many there are.
        actual: usize,
    },
    /// Its tree is not the directory's.
    #[error("names tree {claimed}, the entries make {computed}")]
    Id {
        /// What it says.
        claimed: ObjectId,
        /// What it should be.
        computed: ObjectId,
    },
    /// It covers entries that are no part of a tree: unmerged, or only intended to be added.
    #[error("covers entries that are in no tree")]
    NotInTree,
}

/// Compares every valid node with the entries, and returns the nodes that are wrong in the order of the extension.
///
/// Makes all trees anew by hashing; no object is read. Linear in the bytes of the index, plus a binary search for each node.
///
/// # Errors
/// A tree that would be named by a SHA-1 known to be the product of an attack.
pub fn verify_cache_tree(index: &Index<'_>) -> Result<Vec<CacheTreeFinding>, CollisionDetected> {
    let Some(tree) = index.cache_tree() else { return Ok(Vec::new()) };
    let dirs = directories(index)?;
    let mut findings = Vec::new();
    // The path of the node, and where in it the name of every node above begins and its own.
    let (mut path, mut starts) = (Vec::new(), Vec::new());
    for node in tree.nodes() {
        if let Some(&start) = starts.get(node.depth) {
            path.truncate(start);
            starts.truncate(node.depth);
        }
        starts.push(path.len());
        if node.depth > 0 {
            path.extend_from_slice(node.name);
            path.push(b'/');
        }
        let Some((claimed_count, claimed)) = node.valid else { continue };
        let found = dirs.binary_search_by(|dir| dir.path.cmp(&path)).ok().and_then(|found| dirs.get(found));
        let actual = found.map_or(0, |dir| dir.count);
        let kind = match found {
            _ if claimed_count as usize != actual => CacheTreeFindingKind::Span { claimed: claimed_count, actual },
            Some(dir) if dir.incomplete => CacheTreeFindingKind::NotInTree,
            Some(dir) if dir.id != claimed => CacheTreeFindingKind::Id { claimed, computed: dir.id },
            _ => continue,
        };
        let dir = path.strip_suffix(b"/").unwrap_or(&path).to_vec();
        findings.push(CacheTreeFinding { at: node.at, dir, kind });
    }
    Ok(findings)
}

/// What is true of a directory.
struct Directory<'a> {
    /// With the `/` at the end.
    path: &'a [u8],
    count: usize,
    id: ObjectId,
    incomplete: bool,
}

/// All directories, sorted by their paths.
fn directories<'a>(index: &Index<'a>) -> Result<Vec<Directory<'a>>, CollisionDetected> {
    struct Frame<'a> {
        path: &'a [u8],
        name: &'a [u8],
        start: usize,
        bytes: usize,
        incomplete: bool,
    }
    let root = Frame { path: b"", name: b"", start: 0, bytes: 0, incomplete: false };
    let (mut frames, mut bytes, mut done) = (vec![root], Vec::new(), Vec::new());
    let mut walk = Walk::new(index);
    while !frames.is_empty() {
        match walk.next() {
            Some(Step::Open { dir, name }) => {
                frames.push(Frame { path: dir, name, start: walk.at(), bytes: bytes.len(), incomplete: false });
            }
            Some(Step::Entry(entry, name)) => {
                if entry.stage() == Stage::Merged && !entry.flags().intent_to_add {
                    push_record(&mut bytes, entry.mode(), name, &entry.id());
                } else if let Some(frame) = frames.last_mut() {
                    frame.incomplete = true;
                }
                if entry.is_sparse_dir() {
                    done.push(Directory { path: entry.path(), count: 1, id: entry.id(), incomplete: false });
                }
            }
            Some(Step::Close) | None => {
                let Some(frame) = frames.pop() else { break };
                let tree = bytes.get(frame.bytes..).unwrap_or_default();
                let is_empty = tree.is_empty();
                let id = object_id(index.kind(), ObjectKind::Tree, tree)?;
                bytes.truncate(frame.bytes);
                let (count, incomplete) = (walk.at() - frame.start, frame.incomplete);
                done.push(Directory { path: frame.path, count, id, incomplete });
                if let Some(parent) = frames.last_mut() {
                    parent.incomplete |= incomplete;
                    if !is_empty {
                        push_record(&mut bytes, TREE, frame.name, &id);
                    }
                }
            }
        }
    }
    done.sort_unstable_by_key(|dir| dir.path);
    Ok(done)
}
