//! What can go wrong on a walk.

use object::{ObjectId, ObjectKind, ParseError};

use crate::commit_graph::GraphError;

/// A walk that cannot give a right answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WalkError {
    /// An object that was asked for by name is not in the store.
    #[error("object {id} is missing")]
    Missing {
        /// The object.
        id: ObjectId,
    },
    /// A tree that a commit or another tree points at is not in the store.
    #[error("bad tree object {id}: it is missing")]
    MissingTree {
        /// The tree.
        id: ObjectId,
    },
    /// An object that another one points at is not in the store.
    #[error("object {id} is missing, needed by {by}")]
    MissingLink {
        /// The object that is not there.
        id: ObjectId,
        /// The object that points at it.
        by: ObjectId,
    },
    /// An object that must be a commit is something else.
    #[error("object {id} is a {kind}, not a commit")]
    NotACommit {
        /// The object.
        id: ObjectId,
        /// What it is.
        kind: ObjectKind,
    },
    /// An object that must be a tree is something else.
    #[error("object {id} is a {kind}, not a tree")]
    NotATree {
        /// The object.
        id: ObjectId,
        /// What it is.
        kind: ObjectKind,
    },
    /// An object that must be a blob is something else.
    #[error("object {id} is a {kind}, not a blob")]
    NotABlob {
        /// The object.
        id: ObjectId,
        /// What it is.
        kind: ObjectKind,
    },
    /// A tree's content is not a list of entries.
    #[error("tree {id} is malformed at byte {at}")]
    BadTree {
        /// The tree.
        id: ObjectId,
        /// Zero-based offset of the first bad entry in the tree's content.
        at: u64,
    },
    /// A tree larger than the walk may read.
    #[error("tree {id} exceeds the limit of {limit} bytes")]
    TreeTooLarge {
        /// The tree.
        id: ObjectId,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The observer asked to stop.
    #[error("cancelled")]
    Cancelled,
    /// An object's content is not what its kind demands.
    #[error("object {id} is malformed")]
    Malformed {
        /// The object.
        id: ObjectId,
        /// What is wrong, and where in the content.
        source: ParseError,
    },
    /// Tags point at each other in a ring.
    #[error("tag {id} leads back to itself")]
    TagCycle {
        /// One tag of the ring.
        id: ObjectId,
    },
    /// An entry of the commit-graph is unusable. Walks avoid this by reading the commit itself; only direct
    /// use of a [`CommitGraph`](crate::CommitGraph) shows it.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// An object is there and cannot be read.
    #[error(transparent)]
    Read(#[from] odb::ReadError),
    /// The store's packs cannot be listed or opened.
    #[error(transparent)]
    Open(#[from] odb::OpenError),
    /// More objects than 32 bits can number.
    #[error("more than 2^32 - 1 objects")]
    TooManyObjects,
    /// A number that belongs to no object of its numbering.
    #[error("object number {nr} is not in use")]
    UnknownNumber {
        /// The number.
        nr: u32,
    },
}

impl WalkError {
    /// Whether the reason is an object that no source has.
    pub fn is_missing(&self) -> bool {
        match self {
            WalkError::Missing { .. } | WalkError::MissingTree { .. } | WalkError::MissingLink { .. } => true,
            WalkError::Read(error) => error.is_missing(),
            _ => false,
        }
    }
}
