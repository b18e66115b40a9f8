//! Facts about single commits, from the commit-graph where it may be used, else from the commits themselves.

use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasherDefault;
use std::sync::{Mutex, PoisonError};

use object::{ObjectId, ObjectKind, commit};
use odb::Store;

use crate::ahead::ReadAhead;
use crate::commit_graph::{CommitGraph, GraphPos};
use crate::error::WalkError;
use crate::numbering::IdHasher;
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
/// Cheap to make; `Send + Sync`, no state of its own but what [`read_ahead`](Self::read_ahead) keeps.
pub struct Commits {
    store: Store,
    graph: Option<CommitGraph>,
    shallow: Shallow,
    ahead: Option<Mutex<Ahead>>,
}

/// Commits that were read ahead of being asked for.
struct Ahead {
    reader: ReadAhead,
    infos: HashMap<ObjectId, CommitInfo, BuildHasherDefault<IdHasher>>,
}

/// Commits kept at most: about 15 MiB. Then all are forgotten, as a walk rarely comes back.
const MOST_AHEAD: usize = 1 << 16;

impl Commits {
    /// The history in `store`. The graph is left aside when `shallow` alters history, as in git; callers that
    /// use replace refs pass none.
    pub fn new(store: &Store, graph: Option<CommitGraph>, shallow: Shallow) -> Commits {
        let graph = graph.filter(|graph| !shallow.alters() && graph.hash_kind() == store.hash_kind());
        Commits { store: store.clone(), graph, shallow, ahead: None }
    }

    /// Lets [`info`](Self::info) read commits that lie behind one another in a pack ahead, on up to `threads` threads, once
    /// it was asked for many that no graph knows. Its answers stay the same.
    #[must_use]
    pub fn read_ahead(mut self, threads: usize) -> Commits {
        self.ahead = (threads > 1 && !self.shallow.alters())
            .then(|| Mutex::new(Ahead { reader: ReadAhead::new(&self.store, threads), infos: HashMap::default() }));
        self
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
        if let Some(info) = self.info_from_ahead(id) {
            return Ok(info);
        }
        let mut parents = Vec::new();
        let read = self.read(id, &mut Vec::new(), &mut parents)?;
        match read {
            Read::Commit { tree, time } => Ok(CommitInfo { tree, parents, time, generation: None }),
            Read::Other(kind) => Err(WalkError::NotACommit { id: *id, kind }),
        }
    }

    fn info_from_ahead(&self, id: &ObjectId) -> Option<CommitInfo> {
        let mut ahead = self.ahead.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let Ahead { reader, infos } = &mut *ahead;
        if let Some(info) = infos.get(id) {
            return Some(info.clone());
        }
        let batch = reader.next(&self.store, id);
        if batch.is_empty() {
            return None;
        }
        if infos.len() > MOST_AHEAD {
            infos.clear();
        }
        let before = infos.len();
        for found in batch {
            let mut parents = found.parents.into_iter();
            for commit in found.commits {
                let parents = parents.by_ref().take(commit.parents).collect();
                let info = CommitInfo { tree: commit.tree, parents, time: commit.time, generation: None };
                infos.insert(commit.id, info);
            }
        }
        reader.learned(infos.len() - before);
        infos.get(id).cloned()
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

impl fmt::Debug for Commits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Commits { store, graph, shallow, ahead } = self;
        let ahead = ahead.is_some();
        f.debug_struct("Commits")
            .field("store", store)
            .field("graph", graph)
            .field("shallow", shallow)
            .field("ahead", &ahead)
            .finish()
    }
}

/// What [`Commits::read`] found.
pub(crate) enum Read {
    /// A commit: its tree and time; the parents are in the caller's vector.
    Commit { tree: ObjectId, time: u64 },
    /// Something else.
    Other(ObjectKind),
}
