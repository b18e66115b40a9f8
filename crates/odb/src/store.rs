//! The store: sources in order, packs before loose objects, other copies where one is damaged.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use std::collections::HashSet;

use object::{HashKind, ObjectId, ObjectKind, Prefix};
use pack_format::{IdxPos, PackOffset};

use crate::cache::{Base, BaseCache};
use crate::chain;
use crate::error::{Damage, OpenError, Problem, ProblemKind, ReadError};
use crate::freshen::Freshened;
use crate::ids::Ids;
use crate::loose;
use crate::options::Options;
use crate::pack::{Pack, Shared};
use crate::packs::{self, Problems, State};
use crate::scratch::{self, Scratch};
use crate::stream::ObjectStream;

/// Kind and size of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectHeader {
    /// The kind.
    pub kind: ObjectKind,
    /// Bytes of content.
    pub size: u64,
}

/// An object directory: the store's own, or an alternate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    path: PathBuf,
}

impl Source {
    pub(crate) fn new(path: PathBuf) -> Source {
        Source { path }
    }

    /// The directory, which holds `pack/` and the fan-out directories.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Where an object was found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Location {
    /// In a pack.
    Packed {
        /// The pack, opened, so that the object stays readable when the file is unlinked.
        pack: Arc<Pack>,
        /// Its rank in the pack's index.
        pos: IdxPos,
        /// Where its entry begins.
        at: PackOffset,
    },
    /// In a file of its own.
    Loose {
        /// Index of its object directory in [`Store::sources`].
        source: usize,
    },
}

/// What an abbreviated id stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrefixMatch {
    /// No object.
    None,
    /// This object.
    One(ObjectId),
    /// Two or more objects, in the order of their ids.
    Many(Vec<ObjectId>),
}

/// A handle to an object database. Cheap to clone, and shared by threads as it is.
///
/// An object is looked for in one source after the other, the own directory first; in each, first in the packs, those
/// first that were of use last, then among the loose objects. If no source has it, the directories are listed anew, once,
/// if they may have changed (a repack by another process moves objects), and only then is it missing.
#[derive(Debug, Clone)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    objects: PathBuf,
    shared: Arc<Shared>,
    state: RwLock<Arc<State>>,
    /// Held while directories are listed, so that threads which miss together list them once.
    reloading: Mutex<()>,
    problems: Problems,
    damaged: Damaged,
    freshened: Freshened,
}

/// Copies found damaged: by pack (serial number) and rank in its index.
#[derive(Debug, Default)]
struct Damaged {
    /// Spares healthy stores the lock.
    any: AtomicBool,
    copies: RwLock<HashSet<(u64, u32)>>,
}

impl Damaged {
    fn holds(&self, pack: &Pack, pos: IdxPos) -> bool {
        self.any.load(Ordering::Acquire)
            && self.copies.read().unwrap_or_else(PoisonError::into_inner).contains(&(pack.serial(), pos.get()))
    }

    fn note(&self, pack: &Pack, pos: IdxPos) {
        self.copies.write().unwrap_or_else(PoisonError::into_inner).insert((pack.serial(), pos.get()));
        self.any.store(true, Ordering::Release);
    }
}

/// A copy of an object, found but not read.
enum Spot<'s> {
    Packed { pack: &'s Arc<Pack>, pos: IdxPos, at: PackOffset },
    Loose { source: usize },
}

/// An object's entry in a pack, and its rank in the pack's index.
type Entry<'s> = (&'s Arc<Pack>, IdxPos, PackOffset);

/// So many times a state is replaced and searched again before a look-up gives up; others must change the store at least
/// as often meanwhile.
const MAX_ROUNDS: usize = 5;

/// How deep recovery follows damaged bases into other copies that are deltas with damaged bases themselves.
const MAX_RECOVERY_DEPTH: usize = 16;

/// After so many bases of one object turned out to be lost, the object is.
const MAX_RECOVERY_FAILURES: usize = 256;

impl Store {
    /// Opens the object directory `objects_dir` (`.git/objects`): lists it and its alternates, opens no pack.
    ///
    /// # Errors
    /// If the directory is not there or cannot be listed. What is wrong with alternates or single packs is no error, but
    /// noted in [`problems`](Self::problems).
    pub fn open(objects_dir: &Path, options: Options) -> Result<Store, OpenError> {
        let cache = BaseCache::new(options.delta_base_cache);
        let shared = Arc::new(Shared { options, cache });
        let problems = Problems::default();
        let state = packs::scan(objects_dir, &shared, &problems, None)?;
        Ok(Store(Arc::new(Inner {
            objects: objects_dir.to_owned(),
            shared,
            state: RwLock::new(Arc::new(state)),
            reloading: Mutex::new(()),
            problems,
            damaged: Damaged::default(),
            freshened: Freshened::default(),
        })))
    }

    /// The hash that names the objects.
    #[must_use]
    pub fn hash_kind(&self) -> HashKind {
        self.options().hash
    }

    /// What the store was opened with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.0.shared.options
    }

    /// The own object directory, as given.
    #[must_use]
    pub fn objects_dir(&self) -> &Path {
        &self.0.objects
    }

    /// The object directories in the order of look-ups: number 0 is the own one. A reload may append to them.
    #[must_use]
    pub fn sources(&self) -> Arc<[Source]> {
        Arc::clone(&self.state().sources)
    }

    /// All usable packs of all sources: by source, the own one first, within it newest first, then by name.
    ///
    /// Opens all their indices. Broken packs are left out and noted in [`problems`](Self::problems).
    ///
    /// # Errors
    /// If the system refuses to open one that may be fine.
    pub fn packs(&self) -> Result<Arc<[Arc<Pack>]>, OpenError> {
        let state = self.state();
        if let Some(packs) = state.packs.get() {
            return Ok(Arc::clone(packs));
        }
        let mapped = self.options().byte_source == crate::ByteSource::Mmap;
        let mut packs = Vec::new();
        for slot in state.slots() {
            // A mapping costs next to nothing and holds no file handle, so the packs listed stay readable for good.
            let pack = if mapped { slot.open_all(&self.0.shared, &self.0.problems) } else { self.open_slot(slot) };
            packs.extend(pack.map_err(into_open_error)?.map(Arc::clone));
        }
        Ok(Arc::clone(state.packs.get_or_init(|| packs.into())))
    }

    /// What was found wrong so far that did not stop the store: each once, in the order met.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = self.0.problems.list();
        for slot in self.state().slots() {
            if let Some(pack) = slot.opened()
                && let Some(text) = pack.rev_problem()
            {
                let path = pack.path().with_extension("rev");
                problems.push(Problem { path, kind: ProblemKind::BrokenRev(text.to_owned()) });
            }
        }
        problems
    }

    /// Lists the directories anew. Open packs that are still there stay open; those no longer listed live on as long as
    /// somebody holds them.
    ///
    /// # Errors
    /// If a directory cannot be listed; the store then goes on with what it knew.
    pub fn reload(&self) -> Result<(), OpenError> {
        let _one = self.0.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        self.rescan(&self.state()).map(drop)
    }

    /// Where the object is; `None` if it is in no source. A copy found damaged before is only given if there is no other.
    ///
    /// # Errors
    /// If no copy was found and the system refused to look somewhere.
    pub fn find(&self, id: &ObjectId) -> Result<Option<Location>, ReadError> {
        self.search(id, |state| {
            Ok(self.locate(state, id)?.map(|spot| match spot {
                Spot::Packed { pack, pos, at } => Location::Packed { pack: Arc::clone(pack), pos, at },
                Spot::Loose { source } => Location::Loose { source },
            }))
        })
    }

    /// Whether any source has the object. Its health is not looked at.
    ///
    /// # Errors
    /// As for [`find`](Self::find).
    pub fn contains(&self, id: &ObjectId) -> Result<bool, ReadError> {
        Ok(self.search(id, |state| Ok(self.locate(state, id)?.map(drop)))?.is_some())
    }

    /// Kind and size, without inflating more than a header: a loose object's, or those along a delta chain.
    ///
    /// # Errors
    /// As for [`read`](Self::read). Damage that only whole reads meet is not found.
    pub fn header(&self, id: &ObjectId) -> Result<ObjectHeader, ReadError> {
        let found = self.search(id, |state| {
            let Some(spot) = self.locate(state, id)? else { return Ok(None) };
            let result = match spot {
                Spot::Packed { pack, pos, at } => self.noting(pack, pos, id, pack.header(at)),
                Spot::Loose { source } => {
                    let path = self.loose_path(state, source, id);
                    // Gone since it was located: searched for again after a reload.
                    let Some(file) = loose::open(&path)? else { return Ok(None) };
                    self.noting_loose(&path, id, scratch::with(|scratch| loose::read_header(&path, file, scratch)))
                }
            };
            result.map(Some)
        });
        match found {
            Ok(Some(header)) => Ok(header),
            Ok(None) => Err(ReadError::Missing { id: *id }),
            Err(error) if can_recover(&error) => {
                let mut out = Vec::new();
                let kind = self.recover(id, error, &mut out)?;
                Ok(ObjectHeader { kind, size: out.len() as u64 })
            }
            Err(error) => Err(error),
        }
    }

    /// The whole object into `out`, which is cleared first, and its kind.
    ///
    /// If the copy found is damaged, all others are tried; a damaged delta base is looked for elsewhere in that case,
    /// and only then. What was recovered is checked to have the right name.
    ///
    /// # Errors
    /// [`Missing`](ReadError::Missing) if no source has it, [`Corrupt`](ReadError::Corrupt) with the first damage met if
    /// no copy can be read, [`TooLarge`](ReadError::TooLarge), and what the system says.
    pub fn read(&self, id: &ObjectId, out: &mut Vec<u8>) -> Result<ObjectKind, ReadError> {
        scratch::with(|scratch| self.read_with(id, scratch, out))
    }

    /// As [`read`](Self::read), with the caller's buffers in place of the thread's.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn read_with(&self, id: &ObjectId, scratch: &mut Scratch, out: &mut Vec<u8>) -> Result<ObjectKind, ReadError> {
        let found = self.search(id, |state| {
            let Some(spot) = self.locate(state, id)? else { return Ok(None) };
            let result = match spot {
                Spot::Packed { pack, pos, at } => {
                    let result = self.check_crc_if_asked(pack, pos, at).and_then(|()| {
                        let kind = pack.read(at, scratch, out)?;
                        self.verify_if_asked(id, kind, out, pack.path(), at.get())?;
                        Ok(kind)
                    });
                    self.noting(pack, pos, id, result)
                }
                Spot::Loose { source } => {
                    let path = self.loose_path(state, source, id);
                    let Some(file) = loose::open(&path)? else { return Ok(None) };
                    let limit = self.options().max_object_size;
                    let result = loose::read(&path, file, limit, scratch, out).and_then(|kind| {
                        self.verify_if_asked(id, kind, out, &path, 0)?;
                        Ok(kind)
                    });
                    self.noting_loose(&path, id, result)
                }
            };
            result.map(Some)
        });
        match found {
            Ok(Some(kind)) => Ok(kind),
            Ok(None) => Err(ReadError::Missing { id: *id }),
            Err(error) if can_recover(&error) => self.recover(id, error, out),
            Err(error) => Err(error),
        }
    }

    /// The object's content piece by piece, for objects that should not be held whole. Small objects and deltas are read
    /// whole all the same.
    ///
    /// The size is checked at the end, and the name if [`Options::verify_on_read`] asks for that: the last `read` is an
    /// error if it is not what the header said.
    ///
    /// # Errors
    /// As for [`read`](Self::read); damage beyond the start of a large object shows while it is read.
    pub fn stream(&self, id: &ObjectId) -> Result<ObjectStream, ReadError> {
        let found = self.search(id, |state| {
            let Some(spot) = self.locate(state, id)? else { return Ok(None) };
            let opened = match spot {
                Spot::Packed { pack, at, .. } => ObjectStream::packed(pack, at, *id),
                Spot::Loose { source } => {
                    let path = self.loose_path(state, source, id);
                    let Some(file) = loose::open(&path)? else { return Ok(None) };
                    ObjectStream::loose(path, file, *id, self.options())
                }
            };
            Ok(Some(opened.unwrap_or(None)))
        })?;
        match found {
            None => Err(ReadError::Missing { id: *id }),
            Some(Some(stream)) => Ok(stream),
            // Not worth a stream, not possible as one, or damaged: a whole read does all that can be done.
            Some(None) => {
                let mut out = Vec::new();
                let kind = self.read(id, &mut out)?;
                Ok(ObjectStream::whole(kind, out))
            }
        }
    }

    /// What an abbreviated id stands for, in all sources.
    ///
    /// # Errors
    /// If a pack or a directory could not be looked at.
    pub fn prefix(&self, prefix: &Prefix) -> Result<PrefixMatch, ReadError> {
        if prefix.kind() != self.hash_kind() {
            return Ok(PrefixMatch::None);
        }
        let found = self.search_any(|state| {
            let mut ids = Vec::new();
            for slot in state.slots() {
                if let Some(pack) = self.open_slot(slot)? {
                    let idx = pack.idx();
                    ids.extend(idx.prefix_range(prefix).map(|pos| idx.id(IdxPos::new(pos))));
                }
            }
            for source in state.sources.iter() {
                loose::list_fanout(source.path(), prefix.first_byte(), self.hash_kind(), &mut ids)?;
            }
            ids.retain(|id| prefix.matches(id));
            ids.sort_unstable();
            ids.dedup();
            Ok((!ids.is_empty()).then_some(ids))
        })?;
        Ok(match found.as_deref() {
            None | Some([]) => PrefixMatch::None,
            Some(&[id]) => PrefixMatch::One(id),
            Some(_) => PrefixMatch::Many(found.unwrap_or_default()),
        })
    }

    /// The ids of all objects in all sources, each once, ascending: the packs' indices and the loose objects merged. Holds
    /// the ids of loose objects only.
    ///
    /// # Errors
    /// If a pack or a directory could not be looked at.
    pub fn ids(&self) -> Result<Ids, ReadError> {
        let packs = self.packs()?;
        let mut loose = Vec::new();
        for source in 0..self.sources().len() {
            loose.extend(self.loose_ids(source)?);
        }
        loose.sort_unstable();
        loose.dedup();
        Ok(Ids::new(packs, loose))
    }

    /// The ids of the loose objects of one source, ascending.
    ///
    /// # Errors
    /// If a directory could not be listed. A source that does not exist has none.
    pub fn loose_ids(&self, source: usize) -> Result<Vec<ObjectId>, ReadError> {
        let mut ids = Vec::new();
        if let Some(source) = self.sources().get(source) {
            for first in 0..=u8::MAX {
                loose::list_fanout(source.path(), first, self.hash_kind(), &mut ids)?;
            }
        }
        Ok(ids)
    }

    /// The path that the loose copy of an object has, or would have, in a source.
    ///
    /// # Panics
    /// If there is no such source.
    #[must_use]
    pub fn loose_path_of(&self, id: &ObjectId, source: usize) -> PathBuf {
        loose::path(self.sources()[source].path(), id)
    }

    /// Whether `accept` takes one of the packs that are known to hold the object in good health, in all sources. Loose
    /// objects are not looked at, nothing is listed anew, and what cannot be opened does not count.
    pub(crate) fn any_pack_with(&self, id: &ObjectId, mut accept: impl FnMut(&Pack) -> bool) -> bool {
        let state = self.state();
        (0..state.sources.len()).any(|source| {
            state.by_recent_use(source).any(|(number, slot)| match self.locate_in(slot, id) {
                Ok(Some((pack, pos, _))) if !self.0.damaged.holds(pack, pos) && accept(pack) => {
                    if let Some((_, recent)) = state.ranges.get(source) {
                        recent.used(number);
                    }
                    true
                }
                _ => false,
            })
        })
    }

    pub(crate) fn freshened(&self) -> &Freshened {
        &self.0.freshened
    }

    pub(crate) fn state(&self) -> Arc<State> {
        Arc::clone(&self.0.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lists anew and puts the result in place. The caller holds `reloading`.
    fn rescan(&self, old: &State) -> Result<Arc<State>, OpenError> {
        let new = Arc::new(packs::scan(&self.0.objects, &self.0.shared, &self.0.problems, Some(old))?);
        *self.0.state.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&new);
        Ok(new)
    }

    /// A state with other packs or sources than `searched`: what another thread has put there since, or what listing
    /// again finds.
    fn newer_than(&self, searched: &State) -> Result<Option<Arc<State>>, ReadError> {
        let _one = self.0.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.state();
        if current.generation != searched.generation {
            return Ok(Some(current));
        }
        if current.is_current() {
            return Ok(None);
        }
        // Listing a directory is not atomic: what was added and removed meanwhile may show in neither place.
        let mut listed = self.rescan(&current)?;
        for _ in 1..MAX_ROUNDS {
            if listed.generation != searched.generation || !listed.has_changed() {
                break;
            }
            listed = self.rescan(&listed)?;
        }
        Ok((listed.generation != searched.generation).then_some(listed))
    }

    pub(crate) fn search<T>(
        &self,
        id: &ObjectId,
        visit: impl FnMut(&State) -> Result<Option<T>, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        // An id of the other hash names nothing here; no index need be asked.
        if id.kind() == self.hash_kind() { self.search_any(visit) } else { Ok(None) }
    }

    /// Visits the current state, and after a miss those that replace it.
    pub(crate) fn search_any<T>(
        &self,
        mut visit: impl FnMut(&State) -> Result<Option<T>, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        let mut state = self.state();
        for _ in 0..MAX_ROUNDS {
            if let Some(found) = visit(&state)? {
                return Ok(Some(found));
            }
            match self.newer_than(&state)? {
                Some(newer) => state = newer,
                None => break,
            }
        }
        Ok(None)
    }

    pub(crate) fn open_slot<'s>(&self, slot: &'s packs::Slot) -> Result<Option<&'s Arc<Pack>>, ReadError> {
        slot.open(&self.0.shared, &self.0.problems)
    }

    /// The first healthy copy in look-up order; if there is none, one that is known to be damaged.
    fn locate<'s>(&self, state: &'s State, id: &ObjectId) -> Result<Option<Spot<'s>>, ReadError> {
        let mut damaged = None;
        let mut trouble = None;
        for source in 0..state.sources.len() {
            for (number, slot) in state.by_recent_use(source) {
                match self.locate_in(slot, id) {
                    Ok(None) => {}
                    Ok(Some((pack, pos, at))) => {
                        let spot = Spot::Packed { pack, pos, at };
                        if self.0.damaged.holds(pack, pos) {
                            damaged = damaged.or(Some(spot));
                        } else {
                            if let Some((_, recent)) = state.ranges.get(source) {
                                recent.used(number);
                            }
                            return Ok(Some(spot));
                        }
                    }
                    Err(error) => trouble = trouble.or(Some(error)),
                }
            }
            match loose::exists(&self.loose_path(state, source, id)) {
                Ok(true) => return Ok(Some(Spot::Loose { source })),
                Ok(false) => {}
                Err(error) => trouble = trouble.or(Some(error)),
            }
        }
        match (damaged, trouble) {
            (Some(spot), _) => Ok(Some(spot)),
            // It may well be where we could not look: not missing.
            (None, Some(error)) => Err(error),
            (None, None) => Ok(None),
        }
    }

    fn locate_in<'s>(&self, slot: &'s packs::Slot, id: &ObjectId) -> Result<Option<Entry<'s>>, ReadError> {
        let Some(pack) = self.open_slot(slot)? else { return Ok(None) };
        let Some(pos) = pack.idx().lookup(id) else { return Ok(None) };
        // The index may be open while the pack is gone already.
        let Some(pack) = slot.open_all(&self.0.shared, &self.0.problems)? else { return Ok(None) };
        match pack.offset(pos) {
            Ok(at) => Ok(Some((pack, pos, at))),
            // Damage of this object's slot in the index only: there may be another copy.
            Err(error) => {
                self.0.problems.note(pack.path(), ProblemKind::DamagedCopy { id: *id, reason: error.to_string() });
                Err(error)
            }
        }
    }

    fn loose_path(&self, state: &State, source: usize, id: &ObjectId) -> PathBuf {
        loose::path(state.sources.get(source).map_or(&self.0.objects, |source| source.path()), id)
    }

    /// Remembers damage in a packed copy, so that it is not tried first again.
    fn noting<T>(&self, pack: &Pack, pos: IdxPos, id: &ObjectId, result: Result<T, ReadError>) -> Result<T, ReadError> {
        if let Err(error @ ReadError::Corrupt(_)) = &result {
            self.0.damaged.note(pack, pos);
            self.0.problems.note(pack.path(), ProblemKind::DamagedCopy { id: *id, reason: error.to_string() });
        }
        result
    }

    fn noting_loose<T>(&self, path: &Path, id: &ObjectId, result: Result<T, ReadError>) -> Result<T, ReadError> {
        if let Err(error @ ReadError::Corrupt(_)) = &result {
            self.0.problems.note(path, ProblemKind::DamagedCopy { id: *id, reason: error.to_string() });
        }
        result
    }

    fn check_crc_if_asked(&self, pack: &Pack, pos: IdxPos, at: PackOffset) -> Result<(), ReadError> {
        if self.options().verify_on_read && !pack.crc_matches(pack.order()?.pack_pos(pos))? {
            return Err(ReadError::corrupt(pack.path(), at.get(), Damage::Crc));
        }
        Ok(())
    }

    fn verify_if_asked(
        &self,
        id: &ObjectId,
        kind: ObjectKind,
        content: &[u8],
        path: &Path,
        at: u64,
    ) -> Result<(), ReadError> {
        if self.options().verify_on_read { verify(id, kind, content, path, at) } else { Ok(()) }
    }

    /// Tries everything after `first`, the damage met in the copy that should have served.
    #[cold]
    fn recover(&self, id: &ObjectId, first: ReadError, out: &mut Vec<u8>) -> Result<ObjectKind, ReadError> {
        let mut state = self.state();
        for _ in 0..MAX_ROUNDS {
            if let Some(base) = self.other_copy(&state, id, &mut Recovery::default()) {
                out.clear();
                out.extend_from_slice(&base.bytes);
                return Ok(base.kind);
            }
            // A repack may have just made a good copy.
            match self.newer_than(&state)? {
                Some(newer) => state = newer,
                None => break,
            }
        }
        Err(first)
    }

    /// Any copy that reads well and has the right name.
    fn other_copy(&self, state: &State, id: &ObjectId, recovery: &mut Recovery) -> Option<Base> {
        if recovery.is_hopeless(id) {
            return None;
        }
        let mut scratch = Scratch::new();
        let mut out = Vec::new();
        let limit = self.options().max_object_size;
        let mut copies = Vec::new();
        for slot in state.slots() {
            let Ok(Some(pack)) = slot.open_all(&self.0.shared, &self.0.problems) else { continue };
            // All entries of that name: a pack may hold an object twice.
            for pos in pack.idx().prefix_range(&Prefix::from(*id)).map(IdxPos::new) {
                copies.extend(pack.offset(pos).ok().map(|at| (pack, pos, at)));
            }
        }
        // Complete copies first,
        for &(pack, pos, at) in &copies {
            if !self.0.damaged.holds(pack, pos) {
                let result = self.check_crc_if_asked(pack, pos, at).and_then(|()| {
                    let kind = pack.read(at, &mut scratch, &mut out)?;
                    verify(id, kind, &out, pack.path(), at.get())?;
                    Ok(kind)
                });
                if let Ok(kind) = self.noting(pack, pos, id, result) {
                    return Some(Base { kind, bytes: Arc::new(out) });
                }
            }
        }
        for source in 0..state.sources.len() {
            let path = self.loose_path(state, source, id);
            if let Ok(Some(file)) = loose::open(&path)
                && let Ok(kind) = loose::read(&path, file, limit, &mut scratch, &mut out)
                && verify(id, kind, &out, &path, 0).is_ok()
            {
                return Some(Base { kind, bytes: Arc::new(out) });
            }
        }
        // then those whose bases have to be gathered.
        recovery.visiting.push(*id);
        let mut found = None;
        for &(pack, pos, at) in &copies {
            if self.check_crc_if_asked(pack, pos, at).is_err() {
                continue;
            }
            let mut elsewhere = |base: &ObjectId| self.other_copy(state, base, recovery);
            if let Ok(kind) = chain::read(pack, at.get(), &mut scratch, &mut out, Some(&mut elsewhere))
                && verify(id, kind, &out, pack.path(), at.get()).is_ok()
            {
                found = Some(Base { kind, bytes: Arc::new(std::mem::take(&mut out)) });
                break;
            }
        }
        recovery.visiting.pop();
        if found.is_none() {
            recovery.hopeless.insert(*id);
        }
        found
    }
}

/// What one recovery keeps in mind, so that it ends soon.
#[derive(Default)]
struct Recovery {
    /// The objects that bases are being gathered for, outermost first: a base that needs one of them is no help.
    visiting: Vec<ObjectId>,
    /// Objects that were sought in vain.
    hopeless: HashSet<ObjectId>,
}

impl Recovery {
    fn is_hopeless(&self, id: &ObjectId) -> bool {
        self.visiting.contains(id)
            || self.hopeless.contains(id)
            || self.visiting.len() >= MAX_RECOVERY_DEPTH
            || self.hopeless.len() >= MAX_RECOVERY_FAILURES
    }
}

/// Whether another copy may help. What the system refuses may be refused for one file only.
fn can_recover(error: &ReadError) -> bool {
    matches!(error, ReadError::Corrupt(_) | ReadError::Io { .. })
}

fn into_open_error(error: ReadError) -> OpenError {
    match error {
        ReadError::Io { path, source } => OpenError::Io { path, source },
        ReadError::Open(error) => error,
        // Opening a pack gives no other errors that are not noted as problems.
        other => OpenError::Io { path: PathBuf::new(), source: std::io::Error::other(other) },
    }
}

/// Whether content has the name it is stored under.
fn verify(id: &ObjectId, kind: ObjectKind, content: &[u8], path: &Path, at: u64) -> Result<(), ReadError> {
    match object::object_id(id.kind(), kind, content) {
        Ok(found) if found == *id => Ok(()),
        Ok(_) => Err(ReadError::corrupt(path, at, Damage::WrongName { expected: *id })),
        Err(_) => Err(ReadError::corrupt(path, at, Damage::Collision)),
    }
}
