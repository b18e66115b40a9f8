//! Many changes at once, merged in one pass.

use std::cmp::Ordering;

use crate::edit::{AddOptions, check_new};
use crate::entry::{Entry, NewEntry, Stage};
use crate::error::EditError;
use crate::index::Index;
use crate::store::{Slot, Slots};

/// Changes to be made together, in the order they are added: the outcome is that of making them one by one.
#[derive(Debug, Clone, Default)]
pub struct Batch<'p> {
    changes: Vec<Change<'p>>,
}

#[derive(Debug, Clone, Copy)]
enum Change<'p> {
    Put(NewEntry<'p>),
    /// All stages, conflicts recorded as resolved.
    Remove(&'p [u8]),
    RemoveStage(&'p [u8], Stage),
}

impl<'p> Change<'p> {
    fn path(&self) -> &'p [u8] {
        match self {
            Change::Put(entry) => entry.path,
            Change::Remove(path) | Change::RemoveStage(path, _) => path,
        }
    }
}

/// What a batch did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Applied {
    /// Entries that are new.
    pub inserted: usize,
    /// Entries that say something else now.
    pub replaced: usize,
    /// Entries that are gone.
    pub removed: usize,
}

impl<'p> Batch<'p> {
    /// No changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// As [`Index::add`].
    pub fn put(&mut self, entry: NewEntry<'p>) {
        self.changes.push(Change::Put(entry));
    }

    /// As [`Index::remove`].
    pub fn remove(&mut self, path: &'p [u8]) {
        self.changes.push(Change::Remove(path));
    }

    /// As [`Index::remove_stage`].
    pub fn remove_stage(&mut self, path: &'p [u8], stage: Stage) {
        self.changes.push(Change::RemoveStage(path, stage));
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// What may be at one path and stage when all is done.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a [u8],
    stage: Stage,
    /// `None`: removed, or never more than in between.
    slot: Option<Slot>,
    /// What was there before, if anything.
    old: Option<usize>,
    /// The last change that put an entry here, counted from 1; 0: none. It drives out files and directories that
    /// cannot be beside it, even if it is removed later.
    put: usize,
    driven_out: bool,
}

impl<'a> Index<'a> {
    /// Makes all changes of a batch, or none.
    ///
    /// What the batch itself takes away is not in the way of what it puts, and an entry that one change drives out and another
    /// puts back is one that stayed.
    ///
    /// Linear in entries and changes (after sorting these): a million changes to a million entries are one pass.
    ///
    /// # Errors
    /// As [`Index::add`] for the first change that cannot be made; the index is then as it was.
    pub fn apply(&mut self, batch: &Batch<'_>, options: &AddOptions) -> Result<Applied, EditError> {
        for change in &batch.changes {
            if let Change::Put(entry) = change {
                check_new(entry, self.kind, self.sparse, options)?;
            }
        }
        // Stable, so that changes of one path stay in order.
        let mut order: Vec<usize> = (0..batch.changes.len()).collect();
        let path_of = |n: &usize| batch.changes.get(*n).map_or(&[][..], |change| change.path());
        order.sort_by(|a, b| path_of(a).cmp(path_of(b)));

        let mut resolved = Vec::new();
        let mut places = self.merge(batch, &order, options, &mut resolved)?;
        drive_out(&mut places, options)?;
        self.check_sparse_dirs(&places)?;
        Ok(self.commit(&places, &resolved))
    }

    /// Walks entries and changes side by side.
    fn merge(
        &mut self,
        batch: &Batch<'_>,
        order: &[usize],
        options: &AddOptions,
        resolved: &mut Vec<Entry<'a>>,
    ) -> Result<Vec<Place<'a>>, EditError> {
        let mut places = Vec::with_capacity(self.len() + order.len());
        let mut at = 0;
        for group in order.chunk_by(|a, b| match (batch.changes.get(*a), batch.changes.get(*b)) {
            (Some(a), Some(b)) => a.path() == b.path(),
            _ => false,
        }) {
            let Some(path) = group.first().and_then(|&n| batch.changes.get(n)).map(Change::path) else { continue };
            // What lies in front stays; its number is found by doubling steps, so that few changes cost little.
            let before = self.count_before(at, path);
            self.keep(at..at + before, &mut places);
            at += before;
            let stages = self.iter_range(at..self.len()).take_while(|entry| entry.path() == path).count();
            self.change_path(at..at + stages, path, group, batch, options, &mut places, resolved)?;
            at += stages;
        }
        self.keep(at..self.len(), &mut places);
        Ok(places)
    }

    fn count_before(&self, from: usize, path: &[u8]) -> usize {
        let less = |at: usize| self.slots.get(at).is_some_and(|slot| self.store.path(slot) < path);
        let (mut low, mut step) = (from, 1);
        while less(low + step - 1) {
            low += step;
            step *= 2;
        }
        let end = (low + step).min(self.len());
        self.slots.partition_point(low..end, |slot| self.store.path(slot) < path) - from
    }

    fn keep(&self, range: std::ops::Range<usize>, places: &mut Vec<Place<'a>>) {
        for at in range {
            let (Some(slot), Some(entry)) = (self.slots.get(at), self.get(at)) else { return };
            let (path, stage) = (entry.path(), entry.stage());
            places.push(Place { path, stage, slot: Some(slot), old: Some(at), put: 0, driven_out: false });
        }
    }

    /// Plays the changes of one path.
    #[expect(clippy::too_many_arguments, reason = "one step of `merge`, in a function of its own for its length")]
    fn change_path(
        &mut self,
        range: std::ops::Range<usize>,
        path: &[u8],
        group: &[usize],
        batch: &Batch<'_>,
        options: &AddOptions,
        places: &mut Vec<Place<'a>>,
        resolved: &mut Vec<Entry<'a>>,
    ) -> Result<(), EditError> {
        let path: &'a [u8] = match self.get(range.start).filter(|_| !range.is_empty()) {
            Some(entry) => entry.path(),
            None => self.store.arena.alloc_slice_copy(path),
        };
        let mut now = Stage::ALL.map(|stage| Place { path, stage, slot: None, old: None, put: 0, driven_out: false });
        for at in range {
            let (Some(slot), Some(entry)) = (self.slots.get(at), self.get(at)) else { continue };
            let [merged, base, ours, theirs] = &mut now;
            let place = [merged, base, ours, theirs].into_iter().nth(entry.stage() as usize);
            if let Some(place) = place {
                (place.slot, place.old) = (Some(slot), Some(at));
            }
        }
        for &n in group {
            match batch.changes.get(n) {
                Some(Change::Put(new)) => {
                    if !options.add && now.iter().all(|place| place.slot.is_none()) {
                        return Err(EditError::NotThere { path: path.into() });
                    }
                    if new.stage == Stage::Merged {
                        self.resolve(now.get_mut(1..).unwrap_or_default(), resolved);
                    }
                    let Some(place) = now.get_mut(new.stage as usize) else { continue };
                    place.put = n + 1;
                    if place.slot.is_none_or(|slot| NewEntry::from(self.store.entry(slot)) != *new) {
                        place.slot = Some(self.store.put(new));
                    }
                }
                Some(Change::Remove(_)) => self.resolve(&mut now, resolved),
                Some(Change::RemoveStage(_, stage)) => {
                    if let Some(place) = now.get_mut(*stage as usize) {
                        place.slot = None;
                    }
                }
                None => {}
            }
        }
        places.extend(now.into_iter().filter(|place| place.slot.is_some() || place.old.is_some() || place.put > 0));
        Ok(())
    }

    fn resolve(&self, places: &mut [Place<'a>], resolved: &mut Vec<Entry<'a>>) {
        let gone = places.iter_mut().filter_map(|place| place.slot.take());
        resolved.extend(gone.map(|slot| self.store.entry(slot)));
    }

    /// Nothing may be put into a directory that stands as one entry.
    fn check_sparse_dirs(&self, places: &[Place<'a>]) -> Result<(), EditError> {
        if !self.sparse {
            return Ok(());
        }
        let mut dir: Option<&[u8]> = None;
        for place in places {
            let here = place.slot.is_some() && !place.driven_out;
            let inside =
                |dir: &&[u8]| here && place.put > 0 && place.path.starts_with(dir) && place.path.len() > dir.len();
            if let Some(dir) = dir.filter(inside) {
                return Err(EditError::InSparseDir { path: place.path.into(), dir: dir.into() });
            }
            if here && place.path.ends_with(b"/") {
                dir = Some(place.path);
            }
        }
        Ok(())
    }

    /// Makes what was found out true.
    fn commit(&mut self, places: &[Place<'a>], resolved: &[Entry<'a>]) -> Applied {
        let mut done = Applied::default();
        let mut slots = Vec::with_capacity(places.len());
        let mut marks = Vec::with_capacity(if self.marks.is_empty() { 0 } else { places.len() });
        let old_of = self.split.as_mut().map(|split| std::mem::take(&mut split.of)).unwrap_or_default();
        let mut of = Vec::with_capacity(if old_of.is_empty() { 0 } else { places.len() });
        for place in places {
            let before = place.old.and_then(|at| self.slots.get(at));
            let now = place.slot.filter(|_| !place.driven_out);
            if let Some(slot) = place.slot.filter(|_| place.driven_out) {
                self.record_resolved(self.store.entry(slot));
            }
            match (before, now) {
                (None, None) => continue,
                (Some(before), Some(now)) if before == now => {}
                (Some(_), Some(_)) => {
                    done.replaced += 1;
                    self.path_changed(place.path, false);
                }
                (None, Some(_)) => {
                    done.inserted += 1;
                    self.path_changed(place.path, true);
                }
                (Some(_), None) => {
                    done.removed += 1;
                    self.path_changed(place.path, true);
                }
            }
            let Some(now) = now else { continue };
            slots.push(now);
            let same = before == Some(now);
            let column = |at: Option<usize>| at.and_then(|at| old_of.get(at).copied()).unwrap_or(0);
            if !self.marks.is_empty() {
                let old = place.old.filter(|_| same).and_then(|at| self.marks.get(at).copied());
                marks.push(old.unwrap_or(0));
            }
            if !old_of.is_empty() {
                of.push(column(place.old));
            }
        }
        resolved.iter().for_each(|entry| self.record_resolved(*entry));
        self.slots = Slots::List(slots);
        self.marks = marks;
        if let Some(split) = &mut self.split {
            split.of = of;
        }
        done
    }

    /// Even of an entry that was there only in between.
    fn record_resolved(&mut self, entry: Entry<'_>) {
        self.changed |= entry.stage() != Stage::Merged;
        self.resolve_undo.record(entry.path(), entry.stage(), entry.mode(), entry.id());
    }
}

/// A file and a directory of one name cannot be side by side: of two such entries the one put last drives the other out.
///
/// A directory's entries need not follow its name at once (`a`, `a.b`, `a/b`), so the names that everything since begins with
/// are kept on a stack. Linear in the bytes of all paths.
fn drive_out(places: &mut [Place<'_>], options: &AddOptions) -> Result<(), EditError> {
    let mut open: Vec<usize> = Vec::new();
    for at in 0..places.len() {
        let Some(&place) = places.get(at) else { break };
        while let Some(above) = open.last().and_then(|&above| places.get(above)) {
            if place.path.starts_with(above.path) {
                break;
            }
            open.pop();
        }
        for &above in open.iter().rev() {
            let Some(file) = places.get_mut(above) else { continue };
            let sparse_dir = file.path.ends_with(b"/") && file.path.len() < place.path.len();
            if file.stage != place.stage || !sparse_dir && place.path.get(file.path.len()) != Some(&b'/') {
                continue;
            }
            let loser = match file.put.cmp(&place.put) {
                Ordering::Equal => continue, // both were there: not this batch's doing
                Ordering::Greater => at,
                Ordering::Less if sparse_dir => continue, // refused later, if it is still there
                Ordering::Less => above,
            };
            let (winner, loser_place) = (if loser == at { above } else { at }, loser);
            let Some(lost) = places.get_mut(loser_place) else { continue };
            if lost.slot.is_none() {
                continue;
            }
            lost.driven_out = true;
            if !options.replace {
                let other = lost.path.to_vec();
                let path = places.get(winner).map_or(Vec::new(), |winner| winner.path.to_vec());
                return Err(EditError::FileDirectory { path, other });
            }
        }
        open.push(at);
    }
    Ok(())
}

impl<'a> Index<'a> {
    /// Replaces all entries by these, which must be in order. Entries that stay the same keep what is known about them; the
    /// cached trees and the untracked cache go, since they would have to be checked entry by entry. Linear.
    ///
    /// # Errors
    /// Out of order, or an id of the wrong kind; the index is then as it was. Paths are not checked.
    pub fn replace_entries<'p>(&mut self, entries: impl IntoIterator<Item = NewEntry<'p>>) -> Result<(), EditError> {
        let mut slots: Vec<Slot> = Vec::new();
        let mut marks = Vec::new();
        let mut at = 0;
        let mut previous: (&[u8], Stage) = (&[], Stage::Merged);
        for new in entries {
            if new.id.kind() != self.kind {
                return Err(EditError::HashKind { path: new.path.into() });
            }
            if previous >= (new.path, new.stage) {
                return Err(EditError::Order { path: new.path.into() });
            }
            while self.get(at).is_some_and(|old| old.cmp_key(new.path, new.stage).is_lt()) {
                at += 1;
            }
            let same = self.get(at).is_some_and(|old| NewEntry::from(old) == new);
            let slot = match self.slots.get(at).filter(|_| same) {
                Some(slot) => slot,
                None => self.store.put(&new),
            };
            if !self.marks.is_empty() {
                marks.push(self.marks.get(at).copied().filter(|_| same).unwrap_or(0));
            }
            let entry = self.store.entry(slot);
            previous = (entry.path(), entry.stage());
            slots.push(slot);
        }
        self.slots = Slots::List(slots);
        self.marks = marks;
        self.tree = None;
        self.untracked = None;
        self.changed = true;
        self.match_shared();
        Ok(())
    }

    /// Finds out anew which entries are in the shared index: those of the same path and stage.
    fn match_shared(&mut self) {
        let Some(mut split) = self.split.take() else { return };
        let mut of = Vec::with_capacity(self.slots.len());
        let mut shared = (0u32..).zip(split.slots.iter(0..split.slots.len())).peekable();
        for entry in self.iter() {
            let base = |slot: Slot| self.store.entry(slot).cmp_key(entry.path(), entry.stage());
            while shared.next_if(|&(_, slot)| base(slot).is_lt()).is_some() {}
            of.push(shared.next_if(|&(_, slot)| base(slot).is_eq()).map_or(0, |(at, _)| at + 1));
        }
        drop(shared);
        split.of = of;
        self.split = Some(split);
    }
}
