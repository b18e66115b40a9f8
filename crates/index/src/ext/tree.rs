//! `TREE`: tree objects that stretches of the entries are known to make.
//!
//! | bytes | meaning |
//! |---|---|
//! | up to NUL | name of the directory in its parent; the root's is empty |
//! | digits, space | number of entries below it, decimal; negative: invalid, the tree has to be made anew |
//! | digits, newline | number of subdirectories that follow, each with all below it |
//! | 20 or 32 | id of the tree; missing if invalid |
//!
//! for the root, and so on depth first (gitformat-index, "Cache tree"). Siblings are in the order of their names' *length*,
//! then of their bytes, which is not the order of a tree object.

use std::borrow::Cow;
use std::cmp::Ordering;

use object::{HashKind, ObjectId};

use super::{Cursor, push_decimal};
use crate::error::{ExtError, ExtErrorKind};

/// A node of one [`CacheTree`]. Means nothing in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeId(u32);

/// The cache tree of an index.
///
/// All nodes are in one list, so that reading 40,000 of them allocates twice; names and ids stay where they were read.
#[derive(Debug, Clone)]
pub struct CacheTree<'a> {
    kind: HashKind,
    /// What `Record::id_at` counts in: the data read, or ids put together by a builder.
    ids: Cow<'a, [u8]>,
    /// The root is the first.
    nodes: Vec<Record<'a>>,
    /// Every node's children side by side, sorted; a removed one keeps its place.
    children: Vec<u32>,
    any_removed: bool,
}

#[derive(Debug, Clone, Copy)]
struct Record<'a> {
    name: &'a [u8],
    /// Offset of the node in the data it was read from.
    at: u32,
    id_at: u32,
    /// Entries covered, or [`INVALID`] or [`REMOVED`].
    count: u32,
    first_child: u32,
    child_len: u32,
}

const INVALID: u32 = u32::MAX;
const REMOVED: u32 = u32::MAX - 1;

/// Bytes of the shortest node below the root: `x`, NUL, `-1 0`, newline.
const MIN_NODE: u64 = 7;

/// One node, as [`CacheTree::nodes`] gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node<'a> {
    /// Which one.
    pub id: NodeId,
    /// How many nodes are above it.
    pub depth: usize,
    /// Name in its parent.
    pub name: &'a [u8],
    /// Entries covered and the tree they make; `None` if it has to be made anew.
    pub valid: Option<(u32, ObjectId)>,
    /// Number of subdirectories.
    pub subtrees: u32,
    /// Byte offset in the data it was read from; 0 if it was not read.
    pub at: u64,
}

/// A node whose children are being read.
struct Open<'a> {
    node: u32,
    next: u32,
    end: u32,
    /// Entries that the children read so far cover.
    covered: u64,
    previous: &'a [u8],
}

impl<'a> CacheTree<'a> {
    /// Reads the data, for an index of `entries` entries. Allocates in proportion to the data. Besides the form, all that can
    /// be told without the entries is checked: no more entries covered than there are, by one node or by all siblings;
    /// no valid directory without entries; siblings in order, each once. Whether the spans fit is for whoever uses them.
    pub fn parse(data: &'a [u8], kind: HashKind, entries: usize) -> Result<Self, ExtError> {
        let malformed = |at, what| Err(ExtError::new(at, ExtErrorKind::Malformed { what }));
        let impossible = |at, what| Err(ExtError::new(at, ExtErrorKind::Impossible { what }));
        if u32::try_from(data.len()).is_err() {
            return impossible(0, "extension of more than 4 GiB");
        }
        let mut at = Cursor::new(data);
        let mut nodes: Vec<Record<'a>> = Vec::with_capacity(data.len() / 36);
        let mut children: Vec<u32> = Vec::with_capacity(data.len() / 36);
        let mut open: Vec<Open<'a>> = Vec::new();
        let mut pending = 0u64;
        loop {
            let start = at.at();
            let name = at.until(0, "name of a subtree")?;
            let count_at = at.at();
            let negative = at.rest().first() == Some(&b'-');
            if negative {
                at.take(1, "number of entries")?;
            }
            let count = decimal(&mut at, b' ', "number of entries")?;
            let subtrees = decimal(&mut at, b'\n', "number of subtrees")?;
            let id_at = at.at();
            if negative && count == 0 {
                return malformed(count_at, "number of entries");
            }
            if !negative {
                at.take(kind.len(), "id of a tree")?;
                if count as usize > entries || count >= REMOVED {
                    return impossible(count_at, "subtree of more entries than there are");
                }
            }
            let number = nodes.len() as u32;
            if let Some(parent) = open.last_mut() {
                if name.is_empty() || memchr::memchr(b'/', name).is_some() {
                    return malformed(start, "name of a subtree");
                }
                if !negative && count == 0 {
                    return impossible(count_at, "subtree without entries");
                }
                if order(parent.previous, name) != Ordering::Less {
                    return impossible(start, "subtrees out of order");
                }
                parent.previous = name;
                if let Some(slot) = children.get_mut(parent.next as usize) {
                    *slot = number;
                }
                parent.next += 1;
                pending -= 1;
            } else if !name.is_empty() {
                return malformed(start, "name of the root");
            }
            pending += u64::from(subtrees);
            if pending.saturating_mul(MIN_NODE) > at.rest().len() as u64 {
                return Err(ExtError::new(data.len(), ExtErrorKind::Truncated { what: "list of subtrees" }));
            }
            let first_child = children.len() as u32;
            let count = if negative { INVALID } else { count };
            nodes.push(Record { name, at: start as u32, id_at: id_at as u32, count, first_child, child_len: subtrees });
            children.resize(children.len() + subtrees as usize, 0);
            let end = first_child + subtrees;
            open.push(Open { node: number, next: first_child, end, covered: 0, previous: &[] });

            while let Some(done) = open.pop_if(|top| top.next == top.end) {
                let Some(node) = nodes.get(done.node as usize) else { break };
                let mut covered = done.covered;
                if node.count != INVALID {
                    if covered > u64::from(node.count) {
                        return impossible(node.at as usize, "subtrees of more entries than their parent");
                    }
                    covered = node.count.into();
                }
                let Some(parent) = open.last_mut() else {
                    if covered > entries as u64 {
                        return impossible(0, "subtrees of more entries than there are");
                    }
                    at.end("end of the cache tree")?;
                    return Ok(CacheTree { kind, ids: Cow::Borrowed(data), nodes, children, any_removed: false });
                };
                parent.covered += covered;
            }
        }
    }

    /// Appends the data: of a tree that was read and not changed, the bytes that git would write.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        for node in self.nodes() {
            out.extend_from_slice(node.name);
            out.push(0);
            match node.valid {
                Some((count, _)) => push_decimal(count.into(), out),
                None => out.extend_from_slice(b"-1"),
            }
            out.push(b' ');
            push_decimal(node.subtrees.into(), out);
            out.push(b'\n');
            if let Some((_, id)) = node.valid {
                out.extend_from_slice(id.as_bytes());
            }
        }
    }

    /// The node of the work tree's root.
    pub fn root(&self) -> NodeId {
        NodeId(0)
    }

    /// The subdirectory of this name. O(log siblings).
    pub fn child(&self, node: NodeId, name: &[u8]) -> Option<NodeId> {
        let slots = self.slots(node);
        let at = slots.binary_search_by(|&slot| order(self.record(NodeId(slot)).map_or(&[], |child| child.name), name));
        slots.get(at.ok()?).map(|&slot| NodeId(slot)).filter(|&child| self.is_there(child))
    }

    /// The subdirectories, in the order of their names' length, then bytes.
    pub fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.slots(node).iter().map(|&slot| NodeId(slot)).filter(|&child| self.is_there(child))
    }

    /// The name of the node in its parent; the root's is empty.
    pub fn name(&self, node: NodeId) -> &'a [u8] {
        self.record(node).map_or(&[], |record| record.name)
    }

    /// How many entries it covers and which tree they make; `None` if that has to be found out.
    pub fn valid(&self, node: NodeId) -> Option<(u32, ObjectId)> {
        let record = self.record(node).filter(|record| record.count < REMOVED)?;
        let id = ObjectId::from_prefix(self.ids.get(record.id_at as usize..)?, self.kind)?;
        Some((record.count, id))
    }

    /// The node of a directory: `a/b`, or nothing for the root.
    pub fn find(&self, dir: &[u8]) -> Option<NodeId> {
        let mut node = self.root();
        if !dir.is_empty() {
            for name in dir.split(|&byte| byte == b'/') {
                node = self.child(node, name)?;
            }
        }
        Some(node)
    }

    /// The entry of this path was added, removed or changed: every directory on the way to it becomes invalid. A directory of
    /// that very name is forgotten, since the entry has taken its place. O(depth · log siblings).
    pub fn invalidate(&mut self, path: &[u8]) {
        let (mut node, mut rest) = (self.root(), path);
        loop {
            self.mark(node, INVALID);
            let slash = memchr::memchr(b'/', rest);
            let name = rest.get(..slash.unwrap_or(rest.len())).unwrap_or_default();
            let Some(child) = self.child(node, name) else { return };
            let Some(slash) = slash else {
                self.mark(child, REMOVED);
                self.any_removed = true;
                return;
            };
            (node, rest) = (child, rest.get(slash + 1..).unwrap_or_default());
        }
    }

    /// Whether every directory's tree is known. O(n).
    pub fn is_fully_valid(&self) -> bool {
        // Above a removed node there is an invalid one.
        self.nodes.iter().all(|record| record.count != INVALID)
    }

    /// Number of nodes, the root included. O(n).
    pub fn node_count(&self) -> usize {
        self.nodes().count()
    }

    /// All nodes, each in front of those below it, in the order of the file.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'a>> {
        let mut above: Vec<std::slice::Iter<'_, u32>> = Vec::new();
        let mut root = Some(self.root());
        std::iter::from_fn(move || {
            let id = loop {
                match root.take() {
                    Some(root) => break root,
                    None => match above.last_mut()?.next() {
                        Some(&slot) if self.is_there(NodeId(slot)) => break NodeId(slot),
                        Some(_) => {}
                        None => drop(above.pop()),
                    },
                }
            };
            let record = self.record(id)?;
            let depth = above.len();
            let subtrees = if self.any_removed { self.children(id).count() as u32 } else { record.child_len };
            above.push(self.slots(id).iter());
            Some(Node { id, depth, name: record.name, valid: self.valid(id), subtrees, at: record.at.into() })
        })
    }

    fn record(&self, node: NodeId) -> Option<&Record<'a>> {
        self.nodes.get(node.0 as usize)
    }

    fn is_there(&self, node: NodeId) -> bool {
        self.record(node).is_some_and(|record| record.count != REMOVED)
    }

    fn slots(&self, node: NodeId) -> &[u32] {
        let Some(record) = self.record(node) else { return &[] };
        let first = record.first_child as usize;
        self.children.get(first..first + record.child_len as usize).unwrap_or_default()
    }

    fn mark(&mut self, node: NodeId, count: u32) {
        if let Some(record) = self.nodes.get_mut(node.0 as usize) {
            record.count = count;
        }
    }
}

/// Length first, then bytes.
fn order(one: &[u8], two: &[u8]) -> Ordering {
    one.len().cmp(&two.len()).then_with(|| one.cmp(two))
}

/// Digits of a number below 2^32 and the byte behind them, which is passed over.
#[inline]
fn decimal(at: &mut Cursor<'_>, end: u8, what: &'static str) -> Result<u32, ExtError> {
    let mut value = 0u32;
    for (len, &byte) in at.rest().iter().enumerate() {
        let next = match byte {
            b'0'..=b'9' => value.checked_mul(10).and_then(|tens| tens.checked_add(u32::from(byte - b'0'))),
            _ if byte == end && len > 0 => {
                at.take(len + 1, what)?;
                return Ok(value);
            }
            _ => None,
        };
        value = next.ok_or_else(|| ExtError::new(at.at() + len, ExtErrorKind::Malformed { what }))?;
    }
    Err(ExtError::new(at.at() + at.rest().len(), ExtErrorKind::Truncated { what }))
}

/// Puts a cache tree together, depth first: [`open`](Self::open) a directory, its subdirectories, [`close`](Self::close) it.
/// The first one opened is the root. Siblings may come in any order, but each name once.
///
/// ```
/// use packstone_index::ext::CacheTreeBuilder;
/// let id = object::HashKind::Sha1.empty_tree();
/// let mut builder = CacheTreeBuilder::new(id.kind());
/// builder.open(b"");
/// builder.open(b"src");
/// builder.close(Some((3, id)));
/// builder.close(None);
/// let tree = builder.finish();
/// assert_eq!(tree.valid(tree.find(b"src").unwrap()), Some((3, id)));
/// assert_eq!(tree.valid(tree.root()), None);
/// ```
#[derive(Debug)]
pub struct CacheTreeBuilder<'a> {
    kind: HashKind,
    ids: Vec<u8>,
    nodes: Vec<Record<'a>>,
    children: Vec<u32>,
    /// Directories not yet closed, and where in `closed` their subdirectories begin.
    open: Vec<(u32, usize)>,
    closed: Vec<u32>,
}

impl<'a> CacheTreeBuilder<'a> {
    /// Nothing yet. Ids must be of this kind.
    pub fn new(kind: HashKind) -> Self {
        let (ids, nodes, children, open, closed) = Default::default();
        CacheTreeBuilder { kind, ids, nodes, children, open, closed }
    }

    /// Begins a directory in the one that is open.
    pub fn open(&mut self, name: &'a [u8]) {
        let node = self.add(name, None);
        self.open.push((node, self.closed.len()));
    }

    /// Ends the directory opened last: so many entries make this tree. `None` leaves it invalid.
    pub fn close(&mut self, valid: Option<(u32, ObjectId)>) {
        let Some((node, start)) = self.open.pop() else { return };
        let first_child = self.children.len();
        self.children.extend(self.closed.drain(start..));
        let name = |slot: &u32| self.nodes.get(*slot as usize).map_or(&[][..], |record| record.name);
        if let Some(slots) = self.children.get_mut(first_child..) {
            slots.sort_unstable_by(|one, two| order(name(one), name(two)));
        }
        let child_len = (self.children.len() - first_child) as u32;
        let (count, id_at) = self.store(valid);
        if let Some(record) = self.nodes.get_mut(node as usize) {
            *record = Record { count, id_at, first_child: first_child as u32, child_len, ..*record };
        }
        self.closed.push(node);
    }

    /// Puts a node of another tree, with all below it, into the directory that is open.
    pub fn keep(&mut self, tree: &CacheTree<'a>, node: NodeId) {
        let top = self.add(tree.name(node), tree.valid(node));
        let mut copied = vec![(node, top)];
        while let Some((from, to)) = copied.pop() {
            let first_child = self.children.len() as u32;
            for child in tree.children(from) {
                let copy = self.add(tree.name(child), tree.valid(child));
                self.children.push(copy);
                copied.push((child, copy));
            }
            let child_len = self.children.len() as u32 - first_child;
            if let Some(record) = self.nodes.get_mut(to as usize) {
                *record = Record { first_child, child_len, ..*record };
            }
        }
        self.closed.push(top);
    }

    /// The tree. Directories still open are closed as invalid.
    pub fn finish(mut self) -> CacheTree<'a> {
        while !self.open.is_empty() {
            self.close(None);
        }
        if self.nodes.is_empty() {
            self.add(b"", None);
        }
        let CacheTreeBuilder { kind, ids, nodes, children, .. } = self;
        CacheTree { kind, ids: Cow::Owned(ids), nodes, children, any_removed: false }
    }

    fn add(&mut self, name: &'a [u8], valid: Option<(u32, ObjectId)>) -> u32 {
        let (count, id_at) = self.store(valid);
        let node = self.nodes.len() as u32;
        self.nodes.push(Record { name, at: 0, id_at, count, first_child: 0, child_len: 0 });
        node
    }

    fn store(&mut self, valid: Option<(u32, ObjectId)>) -> (u32, u32) {
        let Some((count, id)) = valid.filter(|(count, id)| *count < REMOVED && id.kind() == self.kind) else {
            return (INVALID, 0);
        };
        let at = self.ids.len() as u32;
        self.ids.extend_from_slice(id.as_bytes());
        (count, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Nodes as they stand in the file: name, number of entries, number of subtrees, and an id if that is valid.
    fn data(kind: HashKind, nodes: &[(&str, i64, u32)]) -> Vec<u8> {
        let mut out = Vec::new();
        for &(name, count, subtrees) in nodes {
            out.extend(format!("{name}\0{count} {subtrees}\n").as_bytes());
            if count >= 0 {
                out.extend_from_slice(kind.empty_tree().as_bytes());
            }
        }
        out
    }

    fn paths(tree: &CacheTree<'_>) -> Vec<(String, Option<u32>)> {
        let mut path: Vec<String> = Vec::new();
        tree.nodes()
            .map(|node| {
                path.truncate(node.depth);
                path.push(node.name.escape_ascii().to_string());
                (path.join("/"), node.valid.map(|(count, _)| count))
            })
            .collect()
    }

    #[test]
    fn there_and_back() {
        for kind in HashKind::ALL {
            let bytes = data(kind, &[("", 7, 3), ("b", 1, 0), ("c", 3, 1), ("z", 2, 0), ("aa", 2, 0)]);
            let tree = CacheTree::parse(&bytes, kind, 7).unwrap();
            let mut out = Vec::new();
            tree.append_to(&mut out);
            assert_eq!(out, bytes);
            let names: Vec<_> = tree.children(tree.root()).map(|node| tree.name(node)).collect();
            assert_eq!(names, [&b"b"[..], b"c", b"aa"]);
            assert_eq!(tree.valid(tree.find(b"c/z").unwrap()), Some((2, kind.empty_tree())));
            assert_eq!(tree.find(b""), Some(tree.root()));
            for missing in [&b"a"[..], b"c/", b"/c", b"c/z/z", b"aaa", b"z"] {
                assert_eq!(tree.find(missing), None);
            }
            assert!(tree.is_fully_valid());
            assert_eq!(tree.node_count(), 5);
            for node in tree.nodes() {
                assert!(bytes[node.at as usize..].starts_with(&[node.name, b"\0"].concat()));
            }
        }
    }

    #[test]
    fn i6_invalid_nodes_have_no_id_and_may_come_last() {
        for kind in HashKind::ALL {
            let bytes = data(kind, &[("", -1, 1), ("a", -1, 0)]);
            let tree = CacheTree::parse(&bytes, kind, 2).unwrap();
            assert_eq!(paths(&tree), [("".into(), None), ("/a".into(), None)]);
            assert!(!tree.is_fully_valid());
            // Any negative number is invalid, and -1 is written.
            let other = data(kind, &[("", -7, 1), ("a", -4_294_967_295, 0)]);
            let mut out = Vec::new();
            CacheTree::parse(&other, kind, 2).unwrap().append_to(&mut out);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn i6_what_cannot_be_is_refused() {
        for kind in HashKind::ALL {
            let max = i64::from(u32::MAX);
            for (nodes, why) in [
                (&[("", -1, 1), ("a", 0, 0)][..], "a subtree without entries"),
                (&[("", -1, 1), ("a", 500, 0)], "more entries than the index"),
                (&[("", 500, 1), ("a", 1, 0)], "a root of more entries than the index"),
                (&[("", -1, 2), ("a", max, 0), ("b", max, 0)], "a sum beyond 32 bits"),
                (&[("", -1, 2), ("a", 2, 0), ("b", 1, 0)], "siblings of more entries than the index"),
                (&[("", -1, 1), ("d", -1, 2), ("a", 2, 0), ("b", 1, 0)], "the same further down"),
                (&[("", 1, 2), ("a", 1, 0), ("b", 1, 0)], "subtrees of more entries than their parent"),
                (&[("", -1, 1_000_000_000), ("a", 1, 0)], "more subtrees than the data hold"),
                (&[("", -1, 3), ("a", 1, 0), ("b", 1, 0)], "one subtree too few"),
                (&[("", -1, 1), ("a", 1, 0), ("b", 1, 0)], "one subtree too many"),
                (&[("", -1, 2), ("a", 1, 0), ("a", 1, 0)], "a name twice"),
                (&[("", -1, 2), ("b", 1, 0), ("a", 1, 0)], "bytes out of order"),
                (&[("", -1, 2), ("aa", 1, 0), ("b", 1, 0)], "lengths out of order"),
                (&[("", -1, 1), ("", 1, 0)], "no name"),
                (&[("", -1, 1), ("a/b", 1, 0)], "two names"),
                (&[("a", 1, 0)], "a root with a name"),
                (&[], "nothing at all"),
            ] {
                let bytes = data(kind, nodes);
                assert!(CacheTree::parse(&bytes, kind, 2).is_err(), "{why}");
            }
            let id = kind.empty_tree();
            for (text, why) in [
                (&b"\x001 0"[..], "no newline"),
                (b"\x001 0\r", "another end of line"),
                (b"\x001  0\n", "two spaces"),
                (b"\x00 0\n", "no number"),
                (b"\x001 \n", "no number of subtrees"),
                (b"\x00+1 0\n", "a plus"),
                (b"\x00--1 0\n", "two minuses"),
                (b"\x00- 0\n", "only a minus"),
                (b"\x00-0 0\n", "minus nought"),
                (b"\x001 -1\n", "a negative number of subtrees"),
                (b"\x004294967296 0\n", "a number beyond 32 bits"),
                (b"\x00-1 4294967295\n", "the most subtrees"),
            ] {
                assert!(CacheTree::parse(&[text, id.as_bytes()].concat(), kind, 2).is_err(), "{why}");
            }
            let short = &[&b"\x001 0\n"[..], &id.as_bytes()[..10]].concat();
            let what = "id of a tree";
            assert_eq!(CacheTree::parse(short, kind, 2).unwrap_err().kind, ExtErrorKind::Truncated { what });
        }
    }

    #[test]
    fn an_empty_index_has_a_root_without_entries() {
        let kind = HashKind::Sha1;
        assert!(CacheTree::parse(&data(kind, &[("", 0, 0)]), kind, 0).unwrap().is_fully_valid());
    }

    #[test]
    fn damage() {
        for kind in HashKind::ALL {
            let bytes = data(kind, &[("", 9, 2), ("b", 1, 0), ("aa", 6, 2), ("z", 2, 0), ("xyz", -1, 1), ("q", 2, 0)]);
            assert!(CacheTree::parse(&bytes, kind, 9).is_ok());
            for len in 0..bytes.len() {
                assert!(CacheTree::parse(&bytes[..len], kind, 9).is_err());
            }
            for bytes in crate::ext::tests::damaged(&bytes) {
                let Ok(mut tree) = CacheTree::parse(&bytes, kind, 9) else { continue };
                tree.invalidate(b"aa/z/f");
                tree.invalidate(b"aa/xyz");
                let mut out = Vec::new();
                tree.append_to(&mut out);
                let again = CacheTree::parse(&out, kind, 9).unwrap();
                assert_eq!(paths(&again), paths(&tree));
            }
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let kind = HashKind::Sha1;
        let deep = 200_000;
        let mut nodes = vec![("", -1, 1)];
        nodes.extend(vec![("d", -1, 1); deep]);
        nodes.push(("d", 1, 0));
        let bytes = data(kind, &nodes);
        let mut tree = CacheTree::parse(&bytes, kind, 1).unwrap();
        tree.invalidate(&b"d/".repeat(deep + 2));
        assert_eq!(tree.nodes().filter(|node| node.valid.is_none()).count(), deep + 2);
        let mut builder = CacheTreeBuilder::new(kind);
        builder.keep(&tree, tree.root());
        let mut out = Vec::new();
        builder.finish().append_to(&mut out);
        assert_eq!(out.len(), bytes.len() - 20 + 1);
    }

    #[test]
    fn i7_every_directory_on_the_way_becomes_invalid() {
        let kind = HashKind::Sha1;
        let bytes = data(kind, &[("", 5, 2), ("a", 3, 2), ("b", 1, 0), ("c", 1, 0), ("d", 1, 0)]);
        let tree = CacheTree::parse(&bytes, kind, 5).unwrap();
        let after = |path: &[u8]| {
            let mut tree = tree.clone();
            tree.invalidate(path);
            let mut out = Vec::new();
            tree.append_to(&mut out);
            let again = CacheTree::parse(&out, kind, 5).unwrap();
            assert_eq!(paths(&again), paths(&tree));
            assert!(!tree.is_fully_valid());
            paths(&tree)
                .into_iter()
                .map(|(path, count)| format!("{path}:{}", count.map_or(-1, i64::from)))
                .collect::<Vec<_>>()
        };
        assert_eq!(after(b"file"), [":-1", "/a:3", "/a/b:1", "/a/c:1", "/d:1"]);
        assert_eq!(after(b"a/file"), [":-1", "/a:-1", "/a/b:1", "/a/c:1", "/d:1"]);
        assert_eq!(after(b"a/b/file"), [":-1", "/a:-1", "/a/b:-1", "/a/c:1", "/d:1"]);
        assert_eq!(after(b"a/new/dir/file"), [":-1", "/a:-1", "/a/b:1", "/a/c:1", "/d:1"]);
        // A file in a directory's place; a sparse directory.
        assert_eq!(after(b"a/b"), [":-1", "/a:-1", "/a/c:1", "/d:1"]);
        assert_eq!(after(b"a"), [":-1", "/d:1"]);
        assert_eq!(after(b"a/"), [":-1", "/a:-1", "/a/b:1", "/a/c:1", "/d:1"]);
    }

    #[test]
    fn a_removed_directory_is_not_found_again() {
        let kind = HashKind::Sha1;
        let bytes = data(kind, &[("", 5, 1), ("a", 3, 1), ("b", 1, 0)]);
        let mut tree = CacheTree::parse(&bytes, kind, 5).unwrap();
        tree.invalidate(b"a");
        assert_eq!((tree.find(b"a"), tree.find(b"a/b"), tree.node_count()), (None, None, 1));
        tree.invalidate(b"a/b/c");
        assert_eq!(tree.node_count(), 1);
    }

    #[test]
    fn builders_sort_and_keep() {
        for kind in HashKind::ALL {
            let bytes = data(kind, &[("", 5, 2), ("b", 1, 0), ("aa", 3, 2), ("c", 1, 0), ("ab", 1, 0)]);
            let old = CacheTree::parse(&bytes, kind, 5).unwrap();
            let id = kind.empty_tree();
            let mut builder = CacheTreeBuilder::new(kind);
            builder.open(b"");
            builder.keep(&old, old.find(b"aa").unwrap());
            builder.open(b"b");
            builder.close(Some((1, id)));
            builder.close(Some((5, id)));
            builder.close(Some((5, id))); // one too many does nothing
            let new = builder.finish();
            let mut out = Vec::new();
            new.append_to(&mut out);
            assert_eq!(out, bytes);
            assert_eq!(new.find(b"aa/ab").and_then(|node| new.valid(node)), Some((1, id)));
        }
        let empty = CacheTreeBuilder::new(HashKind::Sha1).finish();
        assert_eq!(paths(&empty), [("".into(), None)]);
        let mut left_open = CacheTreeBuilder::new(HashKind::Sha1);
        left_open.open(b"");
        left_open.open(b"a");
        assert_eq!(paths(&left_open.finish()), [("".into(), None), ("/a".into(), None)]);
    }

    /// Directories by path and whether they are valid: as a cache tree, told naively.
    type Model = BTreeMap<String, bool>;

    /// Every directory has one file.
    fn built<'a>(kind: HashKind, model: &'a Model) -> CacheTree<'a> {
        let valid = |dir: &str| {
            let below = |other: &&String| {
                dir.is_empty() || other.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            Some((model.keys().filter(below).count() as u32, kind.empty_tree()))
        };
        let mut builder = CacheTreeBuilder::new(kind);
        builder.open(b"");
        let mut open: Vec<&str> = Vec::new();
        for path in model.keys().filter(|path| !path.is_empty()) {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            while let Some(last) = open.pop_if(|last| *last != parent) {
                builder.close(valid(last));
            }
            builder.open(name.as_bytes());
            open.push(path);
        }
        for dir in open.into_iter().rev().chain([""]) {
            builder.close(valid(dir));
        }
        builder.finish()
    }

    proptest::proptest! {
        #[test]
        fn edits_as_in_the_model(
            dirs in proptest::collection::vec("[ab]{1,2}(/[ab]{1,2}){0,3}", 0..12),
            edits in proptest::collection::vec("[ab]{1,2}(/[ab]{1,2}){0,3}/?", 0..6),
        ) {
            let mut model = Model::from([(String::new(), true)]);
            for dir in &dirs {
                let ends = dir.match_indices('/').map(|(at, _)| at).chain([dir.len()]);
                model.extend(ends.map(|end| (dir[..end].to_owned(), true)));
            }
            let start = model.clone();
            let mut tree = built(HashKind::Sha256, &start);
            for path in &edits {
                tree.invalidate(path.as_bytes());
                model.insert(String::new(), false);
                for (at, _) in path.match_indices('/') {
                    if let Some(valid) = model.get_mut(&path[..at]) {
                        *valid = false;
                    }
                }
                model.retain(|dir, _| dir != path && !dir.starts_with(&format!("{path}/")) || path.ends_with('/'));
            }
            let found: Model = paths(&tree).into_iter().map(|(path, count)| (path.trim_start_matches('/').into(), count.is_some())).collect();
            proptest::prop_assert_eq!(&found, &model);
            for dir in start.keys() {
                proptest::prop_assert_eq!(tree.find(dir.as_bytes()).is_some(), model.contains_key(dir));
            }
            let mut out = Vec::new();
            tree.append_to(&mut out);
            proptest::prop_assert_eq!(paths(&CacheTree::parse(&out, HashKind::Sha256, 100).unwrap()), paths(&tree));
        }
    }
}
