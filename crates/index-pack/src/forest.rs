//! Who is whose base: lists of children in two flat arrays, the child with the most below it last.
//!
//! Walked depth first in that order, the bases that must be held at one time are those above a child that is not the
//! last: below it lies at most half of what lies below its base, so that there are at most 32, however deep and wide the
//! forest is; the last child takes its base's place.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use object::ObjectId;

use crate::table::{NONE, Table};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Forest {
    /// Where the children of each entry begin in `children`; they end where those of the next begin.
    starts: Vec<u32>,
    /// Only those that are not done, or have some below them that are not.
    children: Vec<u32>,
    /// How many entries that are not done lie below each, itself included.
    weight: Vec<u32>,
    /// A bit for each entry: whether it is done, that is, has its name.
    named: Vec<u64>,
}

impl Forest {
    /// Of all deltas whose base is known; `by_name`, if any names its base by id, so that it may lie behind it. Linear, but
    /// for the order of children.
    pub(crate) fn new(table: &Table, by_name: bool) -> Forest {
        Forest::without(table, by_name, |entry| table.is_named(entry))
    }

    /// As [`new`](Self::new), with other entries than those with names taken for done.
    pub(crate) fn without(table: &Table, by_name: bool, done: impl Fn(u32) -> bool) -> Forest {
        let count = table.len() as usize;
        let mut forest = Forest { named: vec![0; count.div_ceil(64)], ..Forest::default() };
        for entry in (0..table.len()).filter(|&entry| done(entry)) {
            if let Some(word) = forest.named.get_mut(entry as usize / 64) {
                *word |= 1 << (entry % 64);
            }
        }
        forest.weigh(table, by_name);
        forest.list(table);
        forest
    }

    fn weigh(&mut self, table: &Table, by_name: bool) {
        let count = table.len();
        self.weight = (0..count).map(|entry| u32::from(!self.is_named(entry))).collect();
        let weight = &mut self.weight;
        let mut up = |entry: u32| {
            let below = weight.get(entry as usize).copied().unwrap_or(0);
            if let Some(slot) = weight.get_mut(table.parent(entry) as usize) {
                *slot += below; // they count different entries, of which there are fewer than 2^32
            }
        };
        if !by_name {
            (0..count).rev().for_each(up); // bases come first
            return;
        }
        // Leaves first, then what has become one.
        let mut below = vec![0u32; count as usize];
        for entry in 0..count {
            if let Some(slot) = below.get_mut(table.parent(entry) as usize) {
                *slot += 1;
            }
        }
        for leaf in 0..count {
            let mut entry = leaf;
            while below.get(entry as usize) == Some(&0) {
                up(entry);
                if let Some(slot) = below.get_mut(entry as usize) {
                    *slot = NONE; // done
                }
                let parent = table.parent(entry);
                let Some(slot) = below.get_mut(parent as usize).filter(|slot| **slot != NONE) else { break };
                *slot -= 1;
                // One that is yet to come gets its own turn.
                if *slot != 0 || parent > leaf {
                    break;
                }
                entry = parent;
            }
        }
    }

    fn list(&mut self, table: &Table) {
        let count = table.len();
        let mut starts = vec![0u32; count as usize + 1];
        let parent = |entry| if self.weight(entry) == 0 { NONE } else { table.parent(entry) };
        for entry in 0..count {
            if let Some(slot) = starts.get_mut(parent(entry) as usize) {
                *slot += 1;
            }
        }
        let mut sum = 0;
        for slot in &mut starts {
            sum += *slot;
            *slot = sum; // the end, which the next loop makes the start
        }
        let mut children = vec![0u32; sum as usize];
        for entry in (0..count).rev() {
            let parent = parent(entry);
            if parent == NONE {
                continue;
            }
            if let Some(slot) = starts.get_mut(parent as usize) {
                *slot -= 1;
                if let Some(child) = children.get_mut(*slot as usize) {
                    *child = entry;
                }
            }
        }
        for pair in starts.windows(2) {
            let [from, to] = pair else { continue };
            if to - from > 1
                && let Some(list) = children.get_mut(*from as usize..*to as usize)
            {
                list.sort_unstable_by_key(|&child| (self.weight(child), child));
            }
        }
        (self.starts, self.children) = (starts, children);
    }

    /// Whether the entry had its name before the work began.
    pub(crate) fn is_named(&self, entry: u32) -> bool {
        self.named.get(entry as usize / 64).is_some_and(|word| word >> (entry % 64) & 1 != 0)
    }

    /// Where in the list the children of an entry are.
    #[inline]
    pub(crate) fn range(&self, entry: u32) -> (u32, u32) {
        let at = entry as usize;
        match self.starts.get(at..at.saturating_add(2)) {
            Some([from, to]) => (*from, *to),
            _ => (0, 0),
        }
    }

    pub(crate) fn has_children(&self, entry: u32) -> bool {
        let (from, to) = self.range(entry);
        from != to
    }

    #[inline]
    pub(crate) fn child(&self, at: u32) -> u32 {
        self.children.get(at as usize).copied().unwrap_or(NONE)
    }

    pub(crate) fn weight(&self, entry: u32) -> u32 {
        self.weight.get(entry as usize).copied().unwrap_or(1)
    }
}

/// Deltas that wait for an object of a name, by name.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    sorted: Vec<(ObjectId, u32)>,
    /// For the first of each name: whether the base was found.
    claimed: Vec<AtomicBool>,
    /// Deltas whose base was not found yet.
    left: AtomicUsize,
}

impl Waiting {
    pub(crate) fn new(mut refs: Vec<(ObjectId, u32)>) -> Waiting {
        refs.sort_unstable();
        let claimed = refs.iter().map(|_| AtomicBool::new(false)).collect();
        let left = AtomicUsize::new(refs.len());
        Waiting { sorted: refs, claimed, left }
    }

    /// Whether there are or were any.
    pub(crate) fn ever(&self) -> bool {
        !self.sorted.is_empty()
    }

    /// Whether any wait.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// All that wait for `id`, which is `parent`, once: whoever asks first gets them.
    pub(crate) fn claim(&self, id: &ObjectId, parent: u32, table: &Table) -> &[(ObjectId, u32)] {
        let from = self.sorted.partition_point(|(base, _)| base < id);
        let rest = self.sorted.get(from..).unwrap_or_default();
        let len = rest.partition_point(|(base, _)| base == id);
        let Some(claimed) = self.claimed.get(from).filter(|_| len > 0) else { return &[] };
        if claimed.swap(true, Ordering::Relaxed) {
            return &[];
        }
        let mine = rest.get(..len).unwrap_or_default();
        for &(_, entry) in mine {
            table.set_parent(entry, parent);
        }
        self.left.fetch_sub(len, Ordering::Relaxed);
        mine
    }

    /// The names that nobody had, each with the first delta against it, in the order of those.
    pub(crate) fn missing(&self) -> Vec<(ObjectId, u32)> {
        let mut missing: Vec<(ObjectId, u32)> = Vec::new();
        let mut from = 0;
        while let Some(&(id, first)) = self.sorted.get(from) {
            if !self.claimed.get(from).is_some_and(|claimed| claimed.load(Ordering::Relaxed)) {
                missing.push((id, first));
            }
            from += self.sorted.get(from..).unwrap_or_default().partition_point(|(base, _)| *base == id);
        }
        missing.sort_unstable_by_key(|&(_, first)| first);
        missing
    }
}
