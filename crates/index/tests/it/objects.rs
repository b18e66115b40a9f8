//! What tests of trees share: objects in memory and in a repository, and indexes read from repositories.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use object::{HashKind, ObjectId, ObjectKind, object_id};
use packstone_index::trees::ObjectAccess;
use packstone_index::{Bump, Index, ReadOptions};
use testkit::TestRepo;

pub(crate) fn kind(repo: &TestRepo) -> HashKind {
    HashKind::from_name(repo.hash().name()).expect("a kind of ours")
}

pub(crate) fn id(hex: &str) -> ObjectId {
    ObjectId::from_hex(hex.as_bytes()).expect("an id")
}

/// The index of a repository.
pub(crate) fn index<'a>(repo: &TestRepo, arena: &'a Bump) -> Index<'a> {
    let bytes = std::fs::read(repo.git_dir().join("index")).expect("an index");
    Index::read(arena, arena.alloc_slice_copy(&bytes), &ReadOptions::new(kind(repo))).expect("a sound index")
}

/// `git ls-files --stage -z` as it would be for this index; a sparse index is listed as it is.
pub(crate) fn listed(index: &Index<'_>) -> String {
    let line = |entry: packstone_index::Entry<'_>| {
        let (mode, stage) = (entry.mode().0, entry.stage() as u8);
        format!("{mode:06o} {} {stage}\t{}\0", entry.id(), String::from_utf8_lossy(entry.path()))
    };
    index.iter().map(line).collect()
}

/// The cache tree's nodes: depth, name, what it says, number of subtrees.
pub(crate) fn nodes(index: &Index<'_>) -> Vec<String> {
    let Some(tree) = index.cache_tree() else { return Vec::new() };
    let valid = |valid: Option<(u32, ObjectId)>| match valid {
        Some((count, id)) => format!("{count} {id}"),
        None => "invalid".into(),
    };
    let line = |node: packstone_index::ext::Node<'_>| {
        format!("{}{}: {}, {}", "/".repeat(node.depth), node.name.escape_ascii(), valid(node.valid), node.subtrees)
    };
    tree.nodes().map(line).collect()
}

/// Trees in memory. Every blob is there unless it is `missing`.
pub(crate) struct Memory {
    kind: HashKind,
    pub(crate) trees: BTreeMap<ObjectId, Vec<u8>>,
    pub(crate) missing: BTreeSet<ObjectId>,
    pub(crate) calls: usize,
}

impl Memory {
    pub(crate) fn new(kind: HashKind) -> Memory {
        Memory { kind, trees: BTreeMap::new(), missing: BTreeSet::new(), calls: 0 }
    }

    pub(crate) fn put(&mut self, bytes: Vec<u8>) -> ObjectId {
        let id = object_id(self.kind, ObjectKind::Tree, &bytes).expect("no collision");
        self.trees.insert(id, bytes);
        id
    }

    /// A tree of these entries, in the order given.
    pub(crate) fn tree<N: AsRef<[u8]>>(&mut self, entries: &[(&str, N, ObjectId)]) -> ObjectId {
        let record = |(mode, name, id): &(&str, N, ObjectId)| {
            [mode.as_bytes(), b" ", name.as_ref(), b"\0", id.as_bytes()].concat()
        };
        self.put(entries.iter().flat_map(record).collect())
    }
}

impl ObjectAccess for Memory {
    type Error = io::Error;

    fn read_tree(&mut self, id: &ObjectId, out: &mut Vec<u8>) -> io::Result<()> {
        self.calls += 1;
        out.clone_from(self.trees.get(id).ok_or_else(|| io::Error::other(format!("no tree {id}")))?);
        Ok(())
    }

    fn write_tree(&mut self, bytes: &[u8]) -> io::Result<ObjectId> {
        self.calls += 1;
        Ok(self.put(bytes.to_vec()))
    }

    fn contains(&mut self, id: &ObjectId, kind: ObjectKind) -> io::Result<bool> {
        self.calls += 1;
        Ok(if kind == ObjectKind::Tree { self.trees.contains_key(id) } else { !self.missing.contains(id) })
    }
}

/// The objects of a repository, by way of git.
pub(crate) struct ByGit<'r>(pub(crate) &'r TestRepo);

impl ObjectAccess for ByGit<'_> {
    type Error = io::Error;

    fn read_tree(&mut self, id: &ObjectId, out: &mut Vec<u8>) -> io::Result<()> {
        let output = self.0.try_git(["cat-file", "tree", &id.to_string()], b"");
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        *out = output.stdout;
        Ok(())
    }

    fn write_tree(&mut self, bytes: &[u8]) -> io::Result<ObjectId> {
        Ok(id(&self.0.hash_object("tree", bytes)))
    }

    fn contains(&mut self, id: &ObjectId, _: ObjectKind) -> io::Result<bool> {
        Ok(self.0.try_git(["cat-file", "-e", &id.to_string()], b"").status.success())
    }
}
