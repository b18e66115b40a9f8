//! The directories that an index's entries lie in.

use crate::entry::{Entry, Stage};
use crate::ext::{CacheTree, NodeId};
use crate::index::Index;
use object::ObjectId;

/// What comes next in an index, seen as directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// A directory begins: its path with the `/` at the end, and its name.
    Open { dir: &'a [u8], name: &'a [u8] },
    /// An entry, and its name in the directory that is open.
    Entry(Entry<'a>, &'a [u8]),
    /// The directory opened last ends.
    Close,
}

/// Goes through the entries once, in order, and opens and closes directories on the way. The root is neither opened nor
/// closed. Every byte of a path is looked at a bounded number of times, however deep it lies.
pub(crate) struct Walk<'i, 'a> {
    index: &'i Index<'a>,
    /// Position of the entry that comes next or, if `done`, came last.
    at: usize,
    entry: Option<Entry<'a>>,
    done: bool,
    /// Bytes at the beginning of the entry's path which the entry before it has, too.
    common: usize,
    in_order: bool,
    /// Bytes of the entry's path that are known to be the path of directories already open.
    inside: usize,
    /// Length of each open directory's path.
    open: Vec<usize>,
}

impl<'i, 'a> Walk<'i, 'a> {
    pub(crate) fn new(index: &'i Index<'a>) -> Self {
        let entry = index.get(0);
        Walk { index, at: 0, entry, done: false, common: 0, in_order: true, inside: 0, open: Vec::new() }
    }

    /// The position of the entry that comes next; behind a [`Step::Entry`], of that one.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Whether the entry, or the one that a directory was opened for, comes after the entry in front of it.
    pub(crate) fn in_order(&self) -> bool {
        self.in_order
    }

    /// Passes over the directory that was just opened and all the `count` entries in it, at least one. It is not closed.
    pub(crate) fn skip(&mut self, count: usize) {
        self.open.pop();
        self.at += count.saturating_sub(1);
        self.entry = self.index.get(self.at);
        self.done = true;
    }

    /// The path of a file, or of another directory entry, that this directory cannot be beside. To be asked when the
    /// directory (its path with `/`) begins.
    pub(crate) fn in_the_way(&self, dir: &'a [u8]) -> Option<&'a [u8]> {
        let file = dir.strip_suffix(b"/").unwrap_or(dir);
        // Whatever lies between a file and a directory of the same name begins with that name.
        if self.at == 0 || self.common < file.len() {
            return None;
        }
        [file, dir].into_iter().find(|path| self.index.find(path, Stage::Merged).is_ok_and(|found| found < self.at))
    }

    pub(crate) fn next(&mut self) -> Option<Step<'a>> {
        if self.done {
            self.load();
        }
        let Some(entry) = self.entry else { return self.open.pop().map(|_| Step::Close) };
        if self.open.pop_if(|len| *len > self.inside).is_some() {
            return Some(Step::Close);
        }
        let path = entry.path();
        let from = self.open.last().copied().unwrap_or(0);
        let rest = path.get(from..).unwrap_or_default();
        let slash = memchr::memchr(b'/', rest);
        let name = rest.get(..slash.unwrap_or(rest.len())).unwrap_or_default();
        let end = from + name.len() + 1;
        // A `/` at the very end is part of a sparse directory's own path.
        if slash.is_some() && end < path.len() {
            self.open.push(end);
            self.inside = self.inside.max(end);
            return Some(Step::Open { dir: path.get(..end).unwrap_or_default(), name });
        }
        self.done = true;
        Some(Step::Entry(entry, name))
    }

    fn load(&mut self) {
        let previous = self.entry.map_or(&[][..], |entry| entry.path());
        self.at += 1;
        self.entry = self.index.get(self.at);
        self.done = false;
        if let Some(entry) = self.entry {
            let path = entry.path();
            self.common = common_len(previous, path);
            self.in_order = previous.get(self.common) < path.get(self.common);
            self.inside = self.common;
        }
    }
}

/// Length of the longest common beginning.
fn common_len(a: &[u8], b: &[u8]) -> usize {
    let (a_words, b_words) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
    let words = a_words.iter().zip(b_words).take_while(|(a, b)| a == b).count() * 8;
    let tails = a.iter().zip(b).skip(words);
    words + tails.take_while(|(a, b)| a == b).count()
}

/// What a node of a cache tree says about a directory (its path with `/`) whose entries begin at `at`, if the entries can be
/// so: those it covers lie in the directory, and the next one does not. What it covers is not looked at one by one.
pub(crate) fn fitting(
    index: &Index<'_>,
    tree: &CacheTree<'_>,
    node: NodeId,
    at: usize,
    dir: &[u8],
) -> Option<(u32, ObjectId)> {
    let (count, id) = tree.valid(node)?;
    let end = at + count as usize;
    let inside = |at| index.get(at).is_some_and(|entry| entry.path().starts_with(dir));
    (count > 0 && inside(at) && inside(end - 1) && !inside(end)).then_some((count, id))
}
