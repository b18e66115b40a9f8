//! Facts about single commits, from the commit-graph where it may be used, else from the commits themselves.

use object::{ObjectId, ObjectKind, commit};
use odb::Store;

use crate::commit_graph::{CommitGraph, GraphPos};
use crate::error::WalkError;
use crate::shallow::Shallow;

/// What a walk wants to know about a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitInfo {
    /// The root tree.
    pub tree: ObjectId,
    /// The parents to walk to, in their order: the commit's own, or those that a shallow file or graft gives it.
    pub parents: Vec<ObjectId>,
    /// The committer's time in seconds since 1970. From a commit-graph, its low 34 bits.
    pub time: u64,
    /// The generation number, if a commit-graph has one; see
    /// [`CommitGraph::generation_kind`] for what it counts.
    pub generation: Option<u64>,
}

/// A store seen as history: where facts about commits come from.
///
/// Cheap to make; `Send + Sync`, no state of its own.
#[derive(Debug)]
pub struct Commits {
    store: Store,
    graph: Option<CommitGraph>,
    shallow: Shallow,
}

impl Commits {
    /// The history in `store`. The graph is left aside when `shallow` alters history, as in git; callers that
    /// use replace refs pass none.
    pub fn new(store: &Store, graph: Option<CommitGraph>, shallow: Shallow) -> Commits {
        let graph = graph.filter(|graph| !shallow.alters() && graph.hash_kind() == store.hash_kind());
        Commits { store: store.clone(), graph, shallow }
    }

    /// The store behind it.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The commit-graph, if there is one that may be used.
    pub fn graph(&self) -> Option<&CommitGraph> {
        self.graph.as_ref()
    }

    /// Which commits have other parents than they say.
    pub fn shallow(&self) -> &Shallow {
        &self.shallow
    }

    /// The facts about a commit.
    ///
    /// What the graph says is believed without asking whether the store still has the commit. Where the
    /// graph's entry is unusable, the commit is read.
    ///
    /// # Errors
    ///
    /// [`WalkError::Missing`], [`WalkError::NotACommit`], [`WalkError::Malformed`], or what reading gives.
    pub fn info(&self, id: &ObjectId) -> Result<CommitInfo, WalkError> {
        if let Some((graph, pos)) = self.graph.as_ref().and_then(|graph| graph.lookup(id).map(|pos| (graph, pos))) {
            let mut parents = Vec::new();
            if graph.parents(pos, &mut parents).is_ok() {
                return Ok(CommitInfo {
                    tree: graph.tree(pos),
                    parents: parents.into_iter().map(|parent: GraphPos| graph.id(parent)).collect(),
                    time: graph.commit_time(pos),
                    generation: graph.generation(pos),
                });
            }
        }
        let mut parents = Vec::new();
        let read = self.read(id, &mut Vec::new(), &mut parents)?;
        match read {
            Read::Commit { tree, time } => Ok(CommitInfo { tree, parents, time, generation: None }),
            Read::Other(kind) => Err(WalkError::NotACommit { id: *id, kind }),
        }
    }

    /// Reads an object that should be a commit: its own links, except that shallow commits and grafts get
    /// the parents they are given. For another kind, `buf` holds the content.
    pub(crate) fn read(
        &self,
        id: &ObjectId,
        buf: &mut Vec<u8>,
        parents: &mut Vec<ObjectId>,
    ) -> Result<Read, WalkError> {
        let kind = match self.store.read(id, buf) {
            Ok(kind) => kind,
            Err(error) if error.is_missing() => return Err(WalkError::Missing { id: *id }),
            Err(error) => return Err(error.into()),
        };
        if kind != ObjectKind::Commit {
            return Ok(Read::Other(kind));
        }
        let links = commit::links(buf, id.kind(), parents);
        let (tree, time) = links.map_err(|source| WalkError::Malformed { id: *id, source })?;
        if let Some(given) = self.shallow.parents(id) {
            parents.clear();
            parents.extend_from_slice(given);
        }
        Ok(Read::Commit { tree, time })
    }
}

/// What [`Commits::read`] found.
pub(crate) enum Read {
    /// A commit: its tree and time; the parents are in the caller's vector.
    Commit { tree: ObjectId, time: u64 },
    /// Something else.
    Other(ObjectKind),
}
