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
    children: Vec<u32>,
    /// How many entries lie below each, itself included.
    weight: Vec<u32>,
}

impl Forest {
    /// Of all deltas whose base is known. Linear, but for the order of children.
    pub(crate) fn new(table: &Table) -> Forest {
        let count = table.len() as usize;
        let mut weight = vec![1u32; count];
        // A base is before its delta, or a whole object, whose own weight goes nowhere.
        for entry in (0..table.len()).rev() {
            let below = weight.get(entry as usize).copied().unwrap_or(0);
            if let Some(slot) = weight.get_mut(table.parent(entry) as usize) {
                *slot += below; // both count different entries, of which there are fewer than 2^32
            }
        }
        let mut starts = vec![0u32; count + 1];
        for entry in 0..table.len() {
            if let Some(slot) = starts.get_mut(table.parent(entry) as usize) {
                *slot += 1;
            }
        }
        let mut sum = 0;
        for slot in &mut starts {
            sum += *slot;
            *slot = sum; // the end, which the next loop makes the start
        }
        let mut children = vec![0u32; sum as usize];
        for entry in (0..table.len()).rev() {
            let parent = table.parent(entry);
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
        let mut forest = Forest { starts, children, weight };
        for entry in 0..count {
            let (from, to) = forest.range(entry as u32);
            if to - from > 1
                && let Some(list) = forest.children.get_mut(from as usize..to as usize)
            {
                let weight = &forest.weight;
                list.sort_unstable_by_key(|&child| (weight.get(child as usize).copied(), child));
            }
        }
        forest
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
