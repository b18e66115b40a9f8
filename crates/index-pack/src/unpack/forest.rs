//! What waits for a base, as flat arrays: which entries are made from which.
//!
//! Each base's children lie side by side, the ones with the smallest trees of their own first. Who makes them in this order, and
//! lets go of the base before the last one, never holds more than log2(n) bases at once, however deep the tree is.

use std::sync::atomic::{AtomicBool, Ordering};

use object::{ObjectId, ObjectKind};

use super::spool::{Place, Spool};
use crate::options::Object;

/// An entry of the pack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    /// Offset in the pack.
    pub(crate) at: u64,
    /// Its content, put aside: as it came if it is whole, inflated if it is a delta.
    pub(crate) place: Place,
    /// Bytes inflated.
    pub(crate) size: u64,
    pub(crate) base: Base,
}

/// What an entry is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// From nothing: it is whole.
    None(ObjectKind),
    /// It is whole, and was stored right away; nothing is put aside.
    Stored(ObjectKind),
    /// From an earlier entry.
    Entry(u32),
    /// From an object that is named.
    Named,
    /// It is damaged, and nothing is made from it.
    Bad,
}

/// Entries that are made from the same base, and are still to be made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct List {
    from: u32,
    to: u32,
}

impl List {
    pub(crate) fn len(self) -> u32 {
        self.to - self.from
    }

    pub(crate) fn is_empty(self) -> bool {
        self.from == self.to
    }

    /// Takes the second half away.
    pub(crate) fn split(&mut self) -> List {
        let middle = self.from + self.len().div_ceil(2);
        let half = List { from: middle, to: self.to };
        self.to = middle;
        half
    }
}

/// All entries, and the bytes put aside.
pub(crate) struct Forest {
    entries: Vec<Entry>,
    pub(crate) spool: Spool,
    /// Large blobs, by entry.
    stored: Vec<(u32, ObjectId)>,
    /// Members of all lists.
    members: Vec<u32>,
    /// Where each entry's list begins; one more than there are entries.
    starts: Vec<u32>,
    /// Deltas whose base is named and was not known when the pack ended, sorted, and behind `starts` in `members`.
    named: Vec<(ObjectId, u32)>,
    named_from: u32,
    /// Whether the list that begins at this place in `named` was taken.
    taken: Vec<AtomicBool>,
    /// Whether an entry was made.
    made: Vec<AtomicBool>,
}

impl Forest {
    /// From entries in the order of the pack; the bases of deltas by name; the names of what is whole.
    pub(crate) fn new(
        entries: Vec<Entry>,
        spool: Spool,
        mut by_name: Vec<(ObjectId, u32)>,
        mut known: Vec<(ObjectId, u32)>,
    ) -> Forest {
        let count = entries.len();
        // How many entries are made from each, itself included. A base by offset lies before what is made from it.
        let mut sizes = vec![1u32; count];
        let mut parents = vec![u32::MAX; count];
        for (at, entry) in entries.iter().enumerate().rev() {
            if let Base::Entry(base) = entry.base {
                parents[at] = base;
                sizes[base as usize] = sizes[base as usize].saturating_add(sizes[at]);
            }
        }
        let stored = |entry: u32| matches!(entries[entry as usize].base, Base::Stored(_));
        let mut stored: Vec<_> = known.iter().filter(|(_, at)| stored(*at)).map(|&(id, at)| (at, id)).collect();
        stored.sort_unstable();
        known.sort_unstable();
        by_name.sort_unstable();
        by_name.retain(|&(base, entry)| {
            let at = known.partition_point(|(id, _)| *id < base);
            match known.get(at) {
                Some(&(id, parent)) if id == base => {
                    parents[entry as usize] = parent;
                    false
                }
                _ => true,
            }
        });
        let mut starts = vec![0u32; count + 1];
        for &parent in parents.iter().filter(|&&parent| parent != u32::MAX) {
            starts[parent as usize + 1] += 1;
        }
        for at in 0..count {
            starts[at + 1] += starts[at];
        }
        let mut next = starts.clone();
        let mut members = vec![0u32; starts[count] as usize];
        for (at, &parent) in parents.iter().enumerate().filter(|&(_, &parent)| parent != u32::MAX) {
            let place = &mut next[parent as usize];
            members[*place as usize] = at as u32;
            *place += 1;
        }
        for at in 0..count {
            members[starts[at] as usize..starts[at + 1] as usize].sort_by_key(|&child| sizes[child as usize]);
        }
        let named_from = members.len() as u32;
        members.extend(by_name.iter().map(|&(_, entry)| entry));
        let flags = |count: usize| (0..count).map(|_| AtomicBool::new(false)).collect();
        Forest {
            taken: flags(by_name.len()),
            made: flags(count),
            entries,
            spool,
            stored,
            members,
            starts,
            named: by_name,
            named_from,
        }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Entries that are known to be made from this one.
    pub(crate) fn children(&self, entry: u32) -> List {
        let at = entry as usize;
        List { from: self.starts[at], to: self.starts[at + 1] }
    }

    /// Whether this entry is made from nothing, and something is made from it; with `all` also if nothing is and it
    /// is still to be stored.
    pub(crate) fn is_root(&self, entry: u32, all: bool) -> bool {
        match self.entries.get(entry as usize).map(|entry| entry.base) {
            Some(Base::None(_)) => all || !self.children(entry).is_empty(),
            Some(Base::Stored(_)) => !self.children(entry).is_empty(),
            _ => false,
        }
    }

    /// Whether there are large blobs.
    pub(crate) fn has_stored(&self) -> bool {
        !self.stored.is_empty()
    }

    /// The name of a large blob.
    pub(crate) fn stored_name(&self, entry: u32) -> Option<ObjectId> {
        let at = self.stored.binary_search_by_key(&entry, |&(at, _)| at).ok()?;
        self.stored.get(at).map(|&(_, id)| id)
    }

    /// The large blobs among these names, which ascend, and where their entries begin.
    pub(crate) fn stored_among(&self, names: &[ObjectId]) -> impl Iterator<Item = (u64, Object<'static>)> {
        let named = self.stored.iter().filter(move |(_, id)| names.binary_search(id).is_ok());
        named.map(|&(entry, id)| {
            let Entry { at, size, .. } = self.entries[entry as usize];
            (at, Object { id, kind: ObjectKind::Blob, size, content: None })
        })
    }

    /// Whether deltas wait for what is not known yet.
    pub(crate) fn has_named(&self) -> bool {
        !self.named.is_empty()
    }

    /// Entries that wait for this object. Given away once.
    pub(crate) fn named(&self, id: &ObjectId) -> List {
        let from = self.named.partition_point(|(base, _)| base < id);
        let rest = self.named.get(from..).unwrap_or_default();
        if rest.first().is_none_or(|(base, _)| base != id) || self.taken[from].swap(true, Ordering::Relaxed) {
            return List::default();
        }
        let len = rest.iter().take_while(|(base, _)| base == id).count() as u32;
        let from = self.named_from + from as u32;
        List { from, to: from + len }
    }

    /// The bases that entries still wait for, each once.
    pub(crate) fn wanted(&self) -> Vec<ObjectId> {
        let mut wanted = Vec::new();
        for (at, (id, _)) in self.named.iter().enumerate() {
            let first = at == 0 || self.named[at - 1].0 != *id;
            if first && !self.taken[at].load(Ordering::Relaxed) {
                wanted.push(*id);
            }
        }
        wanted
    }

    /// What waits for this object, without taking it.
    pub(crate) fn waiting(&self, id: &ObjectId) -> impl Iterator<Item = &Entry> {
        let from = self.named.partition_point(|(base, _)| base < id);
        let named = self.named.get(from..).unwrap_or_default().iter().take_while(move |(base, _)| base == id);
        named.map(|&(_, entry)| &self.entries[entry as usize])
    }

    /// Takes the first of a list.
    pub(crate) fn take(&self, list: &mut List) -> Option<u32> {
        if list.is_empty() {
            return None;
        }
        let member = self.members.get(list.from as usize).copied();
        list.from += 1;
        member
    }

    /// Notes that an entry was made.
    pub(crate) fn made(&self, entry: u32) {
        self.made[entry as usize].store(true, Ordering::Relaxed);
    }

    /// Makes everything anew. Nobody may be at work.
    pub(crate) fn start_over(&self) {
        for flag in self.taken.iter().chain(&self.made) {
            flag.store(false, Ordering::Relaxed);
        }
    }

    /// How many were.
    pub(crate) fn count_made(&self) -> usize {
        self.made.iter().filter(|made| made.load(Ordering::Relaxed)).count()
    }
}
