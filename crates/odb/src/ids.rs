//! All ids of a store, in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::FusedIterator;
use std::sync::Arc;
use std::vec;

use object::ObjectId;
use pack_format::IdxPos;

use crate::pack::Pack;

/// The ids of all objects, each once, ascending: made by [`Store::ids`](crate::Store::ids).
///
/// Merges sorted lists, so that each step costs O(log n) of the number of packs, and memory is one id per pack.
#[derive(Debug)]
pub struct Ids {
    packs: Arc<[Arc<Pack>]>,
    loose: vec::IntoIter<ObjectId>,
    /// The next id of each list; the list by number (a pack's, or [`LOOSE`]) and the id's rank in it.
    heads: BinaryHeap<Reverse<(ObjectId, usize, u32)>>,
    last: Option<ObjectId>,
}

const LOOSE: usize = usize::MAX;

impl Ids {
    /// `loose` must be sorted.
    pub(crate) fn new(packs: Arc<[Arc<Pack>]>, loose: Vec<ObjectId>) -> Ids {
        let mut ids =
            Ids { heads: BinaryHeap::with_capacity(packs.len() + 1), packs, loose: loose.into_iter(), last: None };
        for number in 0..ids.packs.len() {
            ids.push_packed(number, 0);
        }
        ids.push_loose();
        ids
    }

    fn push_packed(&mut self, number: usize, pos: u32) {
        if let Some(pack) = self.packs.get(number).filter(|pack| pos < pack.count()) {
            self.heads.push(Reverse((pack.idx().id(IdxPos::new(pos)), number, pos)));
        }
    }

    fn push_loose(&mut self) {
        self.heads.extend(self.loose.next().map(|id| Reverse((id, LOOSE, 0))));
    }
}

impl Iterator for Ids {
    type Item = ObjectId;

    fn next(&mut self) -> Option<ObjectId> {
        loop {
            let Reverse((id, number, pos)) = self.heads.pop()?;
            if number == LOOSE {
                self.push_loose();
            } else {
                self.push_packed(number, pos + 1); // below the pack's count, a u32
            }
            if self.last != Some(id) {
                self.last = Some(id);
                return Some(id);
            }
        }
    }
}

impl FusedIterator for Ids {}
