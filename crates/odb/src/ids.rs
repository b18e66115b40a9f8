//! All ids of a store, in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::iter::FusedIterator;
use std::sync::Arc;
use std::vec;

use object::ObjectId;
use pack_format::{IdxPos, MidxPos};

use crate::midx::Layer;
use crate::pack::Pack;

/// The ids of all objects, each once, ascending: made by [`Store::ids`](crate::Store::ids).
///
/// Merges sorted lists, so that each step costs O(log n) of the number of packs, and memory is one id per pack.
#[derive(Debug, Default)]
pub struct Ids {
    lists: Vec<List>,
    /// The next id of each list; the list by number, and the id's rank in it.
    heads: BinaryHeap<Reverse<(ObjectId, usize, u32)>>,
    last: Option<ObjectId>,
}

/// Ids in order.
#[derive(Debug)]
enum List {
    Pack(Arc<Pack>),
    Midx(Arc<Layer>),
    Sorted(vec::IntoIter<ObjectId>),
}

impl List {
    /// The one of this rank; ranks are asked for in their order.
    fn get(&mut self, rank: u32) -> Option<ObjectId> {
        match self {
            List::Pack(pack) => (rank < pack.count()).then(|| pack.idx().id(IdxPos::new(rank))),
            List::Midx(layer) => (rank < layer.midx().count()).then(|| layer.midx().id(MidxPos::new(rank))),
            List::Sorted(ids) => ids.next(),
        }
    }
}

impl Ids {
    pub(crate) fn merge_pack(&mut self, pack: Arc<Pack>) {
        self.merge(List::Pack(pack));
    }

    pub(crate) fn merge_midx(&mut self, layer: Arc<Layer>) {
        self.merge(List::Midx(layer));
    }

    /// `ids` must be sorted.
    pub(crate) fn merge_sorted(&mut self, ids: Vec<ObjectId>) {
        self.merge(List::Sorted(ids.into_iter()));
    }

    fn merge(&mut self, mut list: List) {
        if let Some(first) = list.get(0) {
            self.heads.push(Reverse((first, self.lists.len(), 0)));
            self.lists.push(list);
        }
    }
}

impl Iterator for Ids {
    type Item = ObjectId;

    fn next(&mut self) -> Option<ObjectId> {
        loop {
            let mut head = self.heads.peek_mut()?;
            let Reverse((id, list, rank)) = *head;
            // Wraps in a list of more than 2^32 loose objects only, whose ranks nobody looks at.
            let next = rank.wrapping_add(1);
            match self.lists.get_mut(list).and_then(|list| list.get(next)) {
                Some(id) => *head = Reverse((id, list, next)),
                None => drop(PeekMut::pop(head)),
            }
            if self.last != Some(id) {
                self.last = Some(id);
                return Some(id);
            }
        }
    }
}

impl FusedIterator for Ids {}
