//! From the index to tree objects, and back.
//!
//! [`write_tree`] makes the trees that a commit of the index needs. Of a directory whose tree the index remembers (extension
//! `TREE`, [`CacheTree`](crate::ext::CacheTree)) nothing is read or hashed, so that after few edits there is little to do.
//! [`read_tree`] fills an index from a tree. [`verify_cache_tree`] tells whether what the index remembers is true.
//!
//! Objects are reached through [`ObjectAccess`]: this crate knows no object store. Nothing here recurses, and everything is
//! linear in the bytes of the paths and trees it handles.
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use object::{HashKind, ObjectId, ObjectKind};
//! use packstone_index::trees::{ObjectAccess, WriteTreeOptions, write_tree};
//! use packstone_index::{Bump, Index, Mode, NewEntry};
//!
//! #[derive(Default)]
//! struct Objects(BTreeMap<ObjectId, Vec<u8>>);
//!
//! impl ObjectAccess for Objects {
//!     type Error = std::io::Error;
//!     fn read_tree(&mut self, id: &ObjectId, out: &mut Vec<u8>) -> std::io::Result<()> {
//!         out.clone_from(self.0.get(id).ok_or(std::io::ErrorKind::NotFound)?);
//!         Ok(())
//!     }
//!     fn write_tree(&mut self, bytes: &[u8]) -> std::io::Result<ObjectId> {
//!         let id = object::object_id(HashKind::Sha1, ObjectKind::Tree, bytes).map_err(std::io::Error::other)?;
//!         self.0.insert(id, bytes.to_vec());
//!         Ok(id)
//!     }
//!     fn contains(&mut self, id: &ObjectId, _: ObjectKind) -> std::io::Result<bool> {
//!         Ok(self.0.contains_key(id))
//!     }
//! }
//!
//! let arena = Bump::new();
//! let mut index = Index::new(&arena, HashKind::Sha1);
//! index.add(&NewEntry::new(b"src/empty", Mode(0o100644), HashKind::Sha1.empty_blob()), &Default::default())?;
//! let mut objects = Objects::default();
//! let tree = write_tree(&mut index, &mut objects, &WriteTreeOptions::default().missing_ok(true))?;
//! assert_eq!((tree.written, objects.0.len()), (2, 2)); // src, and the root
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod read;
mod verify;
mod walk;
mod write;

use object::{CollisionDetected, ObjectId, ObjectKind, ParseError};

pub(crate) use read::{Collected, Reader};
pub use read::{ReadTreeOptions, TreeLimits, read_tree};
pub use verify::{CacheTreeFinding, CacheTreeFindingKind, verify_cache_tree};
pub(crate) use walk::{Step, Walk, fitting};
pub use write::{WriteTreeOptions, WrittenTree, write_tree};

use crate::entry::Mode;
use crate::error::EditError;
use crate::path::PathError;

/// A directory's mode, in trees and of sparse directories.
pub(crate) const TREE: Mode = Mode(0o040_000);

/// The objects of a repository, as far as an index needs them.
pub trait ObjectAccess {
    /// Why an object cannot be read, written or looked for.
    type Error: std::error::Error + 'static;

    /// Puts the content of a tree into `out`, in place of what is there.
    fn read_tree(&mut self, id: &ObjectId, out: &mut Vec<u8>) -> Result<(), Self::Error>;

    /// Stores a tree and names it.
    fn write_tree(&mut self, bytes: &[u8]) -> Result<ObjectId, Self::Error>;

    /// Whether the object is there.
    fn contains(&mut self, id: &ObjectId, kind: ObjectKind) -> Result<bool, Self::Error>;
}

/// A tree that was not written or read. The index is as it was; objects written meanwhile stay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError<E> {
    /// The object store refused.
    #[error(transparent)]
    Objects(E),
    /// Conflicts have to be resolved before there is a tree.
    #[error("{} unmerged paths, the first is '{}'", paths.len(), lossy(paths.first()))]
    Unmerged {
        /// Their paths, each once.
        paths: Vec<Vec<u8>>,
    },
    /// An object that the tree would name is not there.
    #[error("invalid object {:06o} {id} for '{}'", mode.0, lossy(Some(path)))]
    Missing {
        /// The entry's path.
        path: Vec<u8>,
        /// Its mode.
        mode: Mode,
        /// The object.
        id: ObjectId,
    },
    /// An entry that names no object.
    #[error("null id for '{}'", lossy(Some(path)))]
    NullId {
        /// The entry's path.
        path: Vec<u8>,
    },
    /// A path that may not be in a tree or an index.
    #[error("invalid path '{}'", lossy(Some(path)))]
    Path {
        /// The path.
        path: Vec<u8>,
        /// Why not.
        source: PathError,
    },
    /// A file where a directory is.
    #[error("'{}' appears as both a file and as a directory", lossy(Some(path)))]
    FileDirectory {
        /// The file's path.
        path: Vec<u8>,
    },
    /// A path that does not follow the one before it.
    #[error("'{}' is out of order or there twice", lossy(Some(path)))]
    Order {
        /// The path.
        path: Vec<u8>,
    },
    /// A directory among the entries of an index that is not sparse, or without a `/` at its end.
    #[error("'{}' is a directory", lossy(Some(path)))]
    Directory {
        /// Its path.
        path: Vec<u8>,
    },
    /// There is no directory of this name in the index.
    #[error("prefix '{}' not found", lossy(Some(prefix)))]
    Prefix {
        /// What was asked for.
        prefix: Vec<u8>,
    },
    /// The path is taken.
    #[error("entry '{}' overlaps with an entry in the index", lossy(Some(path)))]
    Overlap {
        /// The path.
        path: Vec<u8>,
    },
    /// A tree that is not one.
    #[error("tree {id} of '{}'", lossy(Some(dir)))]
    Tree {
        /// The tree.
        id: ObjectId,
        /// The directory it stands for; the root's is empty.
        dir: Vec<u8>,
        /// What is wrong in it.
        source: ParseError,
    },
    /// More trees inside each other than [`TreeLimits::max_depth`].
    #[error("trees inside each other beyond the limit of {limit}")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// More than [`TreeLimits::max_entries`].
    #[error("trees and entries beyond the limit of {limit}")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// A tree whose SHA-1 is the product of an attack.
    #[error(transparent)]
    Collision(#[from] CollisionDetected),
    /// The index did not take the entries.
    #[error(transparent)]
    Edit(#[from] EditError),
}

fn lossy(path: Option<&Vec<u8>>) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(path.map_or(&[], Vec::as_slice))
}

/// Appends an entry of a tree.
pub(crate) fn push_record(out: &mut Vec<u8>, mode: Mode, name: &[u8], id: &ObjectId) {
    match mode.0 {
        0o100_644 => out.extend_from_slice(b"100644 "),
        0o040_000 => out.extend_from_slice(b"40000 "),
        other => out.extend_from_slice(format!("{other:o} ").as_bytes()),
    }
    out.extend_from_slice(name);
    out.push(0);
    out.extend_from_slice(id.as_bytes());
}
