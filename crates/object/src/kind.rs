//! The two enumerations: which hash names objects, and what an object is.

use std::fmt;

use crate::{ObjectId, hex};

/// The hash function that names a repository's objects and guards its files.
///
/// A run-time value: one program handles repositories of both kinds. Numbers and names are those of gitformat-pack
/// ("hash id") and `extensions.objectFormat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum HashKind {
    /// SHA-1: 20 bytes, git's default.
    Sha1 = 1,
    /// SHA-256: 32 bytes.
    Sha256 = 2,
}

impl HashKind {
    /// Both kinds, for code and tests that must cover each.
    pub const ALL: [HashKind; 2] = [HashKind::Sha1, HashKind::Sha256];

    /// Length of an id in bytes: 20 or 32.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // a hash is never empty
    pub const fn len(self) -> usize {
        match self {
            HashKind::Sha1 => 20,
            HashKind::Sha256 => 32,
        }
    }

    /// Length of an id in hexadecimal digits: 40 or 64.
    #[inline]
    pub const fn hex_len(self) -> usize {
        self.len() * 2
    }

    /// The kind whose ids are `len` bytes long.
    #[inline]
    pub const fn from_len(len: usize) -> Option<Self> {
        match len {
            20 => Some(HashKind::Sha1),
            32 => Some(HashKind::Sha256),
            _ => None,
        }
    }

    /// Git's name of it: `sha1` or `sha256`.
    #[inline]
    pub const fn name(self) -> &'static str {
        match self {
            HashKind::Sha1 => "sha1",
            HashKind::Sha256 => "sha256",
        }
    }

    /// The kind that git calls `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The number that stands for it in the headers of `.rev`, `.mtimes`, multi-pack-index and commit-graph files:
    /// 1 or 2.
    #[inline]
    pub const fn file_id(self) -> u32 {
        self as u32
    }

    /// The kind with that number in file headers.
    #[inline]
    pub const fn from_file_id(id: u32) -> Option<Self> {
        match id {
            1 => Some(HashKind::Sha1),
            2 => Some(HashKind::Sha256),
            _ => None,
        }
    }

    /// The id of all zero bytes, which names no object.
    #[inline]
    pub const fn null(self) -> ObjectId {
        ObjectId::from_raw([0; 32], self)
    }

    /// The id of the tree without entries, which git knows even when it is not stored.
    pub const fn empty_tree(self) -> ObjectId {
        match self {
            HashKind::Sha1 => ObjectId::from_sha1(hex::literal("4b825dc642cb6eb9a060e54bf8d69288fbee4904")),
            HashKind::Sha256 => {
                ObjectId::from_sha256(hex::literal("6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"))
            }
        }
    }

    /// The id of the blob without content, which git knows even when it is not stored.
    pub const fn empty_blob(self) -> ObjectId {
        match self {
            HashKind::Sha1 => ObjectId::from_sha1(hex::literal("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")),
            HashKind::Sha256 => {
                ObjectId::from_sha256(hex::literal("473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"))
            }
        }
    }
}

impl fmt::Display for HashKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What an object is.
///
/// The numbers are those of a pack entry's type field (gitformat-pack, "Object types").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ObjectKind {
    /// A snapshot with its history.
    Commit = 1,
    /// A directory.
    Tree = 2,
    /// A file's content.
    Blob = 3,
    /// An annotated tag.
    Tag = 4,
}

impl ObjectKind {
    /// All four, in the order of their numbers.
    pub const ALL: [ObjectKind; 4] = [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Blob, ObjectKind::Tag];

    /// The name in object headers: `commit`, `tree`, `blob` or `tag`.
    #[inline]
    pub const fn name(self) -> &'static str {
        match self {
            ObjectKind::Commit => "commit",
            ObjectKind::Tree => "tree",
            ObjectKind::Blob => "blob",
            ObjectKind::Tag => "tag",
        }
    }

    /// The kind of that exact name.
    #[inline]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"commit" => Some(ObjectKind::Commit),
            b"tree" => Some(ObjectKind::Tree),
            b"blob" => Some(ObjectKind::Blob),
            b"tag" => Some(ObjectKind::Tag),
            _ => None,
        }
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
