//! Reading commits ahead of a walk, on several threads.
//!
//! Packs hold commits together and roughly in the order of walks, so a walk that had to read many commits one by one is likely
//! to want those that follow in the pack. They are read in batches that grow as long as they bring commits that were not known.
//! What is read is what any read would give; only entries stored whole are taken, and whatever cannot be read is left
//! to the walk, which knows how to find other copies.

use std::collections::HashMap;
use std::sync::Arc;

use object::{ObjectId, commit};
use odb::{Location, Pack, Scratch, Store};
use pack_format::PackPos;
use pack_format::entry::EntryKind;

/// Single reads before the first batch: small walks shall not pay for threads, nor for commits they do not want.
const SINGLES: u32 = 256;
const FIRST_BATCH: u32 = 512;
const LARGEST_BATCH: u32 = 16 << 10;

/// When to read how much ahead. One per walk.
pub(crate) struct ReadAhead {
    threads: usize,
    /// Single reads to go until the next batch.
    singles: u32,
    batch: u32,
    /// Where batches were made, per pack: bit n is the n-th block of positions.
    seen: HashMap<u64, Vec<bool>>,
}

/// What a batch found: commits one after the other, with their parents in one vector.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) commits: Vec<FoundCommit>,
    pub(crate) parents: Vec<ObjectId>,
}

/// A commit of [`Found`].
pub(crate) struct FoundCommit {
    pub(crate) id: ObjectId,
    pub(crate) tree: ObjectId,
    pub(crate) time: u64,
    /// How many of the parents are its.
    pub(crate) parents: usize,
}

impl ReadAhead {
    pub(crate) fn new(store: &Store, threads: usize) -> Self {
        // Names are checked by whole reads through the store only.
        let threads = if store.options().verify_on_read { 1 } else { threads };
        ReadAhead { threads, singles: SINGLES, batch: FIRST_BATCH, seen: HashMap::new() }
    }

    /// Called before a commit is read: the batch around it, if it is time for one.
    pub(crate) fn next(&mut self, store: &Store, id: &ObjectId) -> Vec<Found> {
        if self.threads < 2 {
            return Vec::new();
        }
        if self.singles > 0 {
            self.singles -= 1;
            return Vec::new();
        }
        let Ok(Some(Location::Packed { pack, pos, .. })) = store.find(id) else { return Vec::new() };
        let Ok(order) = pack.order() else { return Vec::new() };
        let start = order.pack_pos(pos).get();
        // Whole blocks, so that batches do not overlap.
        let block = start / FIRST_BATCH;
        let blocks = pack.count().div_ceil(FIRST_BATCH);
        let seen = self.seen.entry(pack.serial()).or_insert_with(|| vec![false; blocks as usize]);
        let fresh = seen[block as usize..].iter().take((self.batch / FIRST_BATCH) as usize);
        let fresh = fresh.take_while(|seen| !**seen).count() as u32;
        if fresh == 0 {
            return Vec::new();
        }
        seen[block as usize..][..fresh as usize].fill(true);
        let (first, last) = (block * FIRST_BATCH, ((block + fresh) * FIRST_BATCH).min(pack.count()));
        read_range(&pack, first, last, self.threads)
    }

    /// Told how many new commits the last batch brought.
    pub(crate) fn learned(&mut self, fresh: usize) {
        if fresh >= self.batch as usize / 2 {
            self.batch = (self.batch * 2).min(LARGEST_BATCH);
        } else {
            self.batch = FIRST_BATCH;
            self.singles = if fresh < FIRST_BATCH as usize / 8 { SINGLES } else { 0 };
        }
    }
}

/// Reads the commits at these positions, cut into one run for each thread.
fn read_range(pack: &Arc<Pack>, first: u32, last: u32, threads: usize) -> Vec<Found> {
    let run = (last - first).div_ceil(threads as u32).max(1);
    std::thread::scope(|scope| {
        let runs = (first..last).step_by(run as usize).map(|start| (start, (start + run).min(last)));
        let mut runs: Vec<_> = runs.collect();
        let own = runs.pop();
        let workers: Vec<_> =
            runs.into_iter().map(|(start, end)| scope.spawn(move || read_run(pack, start, end))).collect();
        let own = own.map(|(start, end)| read_run(pack, start, end));
        // A worker that panicked has read nothing: the walk reads what it wanted by itself.
        workers.into_iter().filter_map(|worker| worker.join().ok()).chain(own).collect()
    })
}

fn read_run(pack: &Pack, start: u32, end: u32) -> Found {
    let mut found = Found::default();
    let Ok(order) = pack.order() else { return found };
    let (mut scratch, mut content, mut parents) = (Scratch::new(), Vec::new(), Vec::new());
    for pos in (start..end).map(PackPos::new) {
        let at = order.offset(pos);
        let is_commit = pack.entry(at).is_ok_and(|(header, _)| header.kind == EntryKind::Commit);
        if !is_commit || pack.read(at, &mut scratch, &mut content).is_err() {
            continue;
        }
        if let Ok((tree, time)) = commit::links(&content, pack.hash_kind(), &mut parents) {
            let id = pack.idx().id(order.idx_pos(pos));
            found.commits.push(FoundCommit { id, tree, time, parents: parents.len() });
            found.parents.extend_from_slice(&parents);
        }
    }
    found
}
