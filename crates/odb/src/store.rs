//! The store: sources in order, packs before loose objects, other copies where one is damaged.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};
use object::{HashKind, ObjectId, ObjectKind, Prefix};
use pack_format::{IdxPos, MidxPos, PackOffset};

use crate::cache::BaseCache;
use crate::error::{OpenError, Problem, ProblemKind, ReadError};
use crate::freshen::Freshened;
use crate::handles::Handles;
use crate::ids::Ids;
use crate::loose;
use crate::midx::Layers;
use crate::options::Options;
use crate::pack::{Pack, Shared};
use crate::packs::{self, Need, Problems, Slot, State};
use crate::recover::{Damaged, can_recover};
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

/// What [`Store::read_or_stream`] gives.
#[derive(Debug)]
pub enum Content {
    /// All of the object is in the buffer; this is its kind.
    Whole(ObjectKind),
    /// It is to be read piece by piece.
    Stream(ObjectStream),
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
pub struct Store(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    objects: PathBuf,
    pub(crate) shared: Arc<Shared>,
    state: ArcSwap<State>,
    /// Held while directories are listed, so that threads which miss together list them once.
    reloading: Mutex<()>,
    pub(crate) problems: Problems,
    pub(crate) damaged: Damaged,
    freshened: Freshened,
}

/// A copy of an object, found but not read.
pub(crate) enum Spot {
    Packed { pack: Arc<Pack>, at: PackOffset },
    Loose { source: usize },
}

/// How far a look-up goes to learn whether an object is loose.
#[derive(Debug, Default)]
pub(crate) struct Look {
    files: Files,
    /// Whether a listing of a fan-out directory was believed that says no.
    believed: Cell<bool>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Files {
    /// Listings are believed where there are some.
    #[default]
    Listed,
    /// Listings are made, and believed.
    ListedNow,
    /// The files themselves are asked after.
    Asked,
}

/// So many times a state is replaced and searched again before a look-up gives up; others must change the store at least
/// as often meanwhile.
pub(crate) const MAX_ROUNDS: usize = 5;

/// A loose file of so many bytes may hold an object that is not to be held whole.
const LONG_LOOSE: u64 = 32 << 10;

impl Store {
    /// Opens the object directory `objects_dir` (`.git/objects`): lists it and its alternates, opens no pack.
    ///
    /// # Errors
    /// If the directory is not there or cannot be listed. What is wrong with alternates or single packs is no error, but
    /// noted in [`problems`](Self::problems).
    pub fn open(objects_dir: &Path, options: Options) -> Result<Store, OpenError> {
        let cache = BaseCache::new(options.delta_base_cache);
        let handles = Handles::new(options.file_cap());
        let shared = Arc::new(Shared { options, cache, handles });
        let problems = Problems::default();
        let state = packs::scan(objects_dir, &shared, &problems, None)?;
        Ok(Store(Arc::new(Inner {
            objects: objects_dir.to_owned(),
            shared,
            state: ArcSwap::from_pointee(state),
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
    /// Opens all their indices, and maps them where packs are mapped; they stay open for as long as the list is held,
    /// whatever [`Options::max_open_files`] says. Broken packs are left out and noted in [`problems`](Self::problems).
    ///
    /// # Errors
    /// If the system refuses to open one that may be fine.
    pub fn packs(&self) -> Result<Arc<[Arc<Pack>]>, OpenError> {
        let state = self.state();
        let known = state.packs.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(packs) = known {
            return Ok(packs);
        }
        // A mapping costs next to nothing and holds no file handle, so the packs listed stay readable for good.
        let need = if self.options().byte_source == crate::ByteSource::Mmap { Need::All } else { Need::Index };
        let mut packs = Vec::new();
        for part in &state.parts {
            let start = packs.len();
            for slot in state.slots.get(part.slots.clone()).unwrap_or_default() {
                packs.extend(slot.open(need, &self.0.shared, &self.0.problems).map_err(into_open_error)?);
            }
            if let Some(packs) = packs.get_mut(start..) {
                packs.sort_by(|a, b| b.mtime().cmp(&a.mtime()).then_with(|| a.path().cmp(b.path())));
            }
        }
        let packs: Arc<[Arc<Pack>]> = packs.into();
        *state.packs.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&packs);
        Ok(packs)
    }

    /// The multi-pack-index of a source that look-ups use, as it was when the directory was last listed.
    #[must_use]
    pub fn midx(&self, source: usize) -> Option<Layers> {
        Some(self.state().parts.get(source)?.midx.as_ref()?.layers.clone())
    }

    /// A pack that the multi-pack-index of a source names, by its layer's rank and its number in the layer. `None` if it
    /// is not there or broken.
    ///
    /// # Errors
    /// If the system refuses to open it.
    pub fn midx_pack(
        &self,
        source: usize,
        layer: usize,
        pack: pack_format::MidxPack,
    ) -> Result<Option<Arc<Pack>>, ReadError> {
        match self.state().named_slot(source, layer, pack.get() as usize) {
            Some(slot) => slot.open(Need::All, &self.0.shared, &self.0.problems),
            None => Ok(None),
        }
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
        self.search(id, |state, look| {
            Ok(match self.locate(state, id, Need::All, look)? {
                None => None,
                Some(Spot::Loose { source }) => Some(Location::Loose { source }),
                Some(Spot::Packed { pack, at }) => {
                    // Several entries only where a pack holds an object twice.
                    let mut entries = pack.idx().prefix_range(&Prefix::from(*id)).map(IdxPos::new);
                    let pos = entries.clone().find(|&pos| pack.offset(pos).is_ok_and(|found| found == at));
                    pos.or(entries.next()).map(|pos| Location::Packed { pack, pos, at })
                }
            })
        })
    }

    /// Whether any source has the object. Its health is not looked at.
    ///
    /// # Errors
    /// As for [`find`](Self::find).
    pub fn contains(&self, id: &ObjectId) -> Result<bool, ReadError> {
        Ok(self.search(id, |state, look| Ok(self.locate(state, id, Need::Bytes, look)?.map(drop)))?.is_some())
    }

    /// As [`contains`](Self::contains), for many objects most of which are expected to be missing: nothing is listed anew
    /// after a miss, and each fan-out directory is listed once instead of being asked after each file. What other
    /// processes have written since may be overlooked, until [`reload`](Self::reload) or a look-up that finds changes.
    ///
    /// # Errors
    /// As for [`find`](Self::find).
    pub fn contains_quick(&self, id: &ObjectId) -> Result<bool, ReadError> {
        let look = Look { files: Files::ListedNow, ..Look::default() };
        Ok(id.kind() == self.hash_kind() && self.locate(&self.state(), id, Need::Bytes, &look)?.is_some())
    }

    /// Kind and size, without inflating more than a header: a loose object's, or those along a delta chain.
    ///
    /// # Errors
    /// As for [`read`](Self::read). Damage that only whole reads meet is not found.
    pub fn header(&self, id: &ObjectId) -> Result<ObjectHeader, ReadError> {
        let found = self.search(id, |state, look| {
            let Some(spot) = self.locate(state, id, Need::Bytes, look)? else { return Ok(None) };
            let result = match spot {
                Spot::Packed { pack, at } => self.noting(&pack, at, id, pack.header(at)),
                Spot::Loose { source } => {
                    let path = self.loose_path(state, source, id);
                    // Gone since it was located: searched for again after a reload.
                    let Some(file) = self.open_loose(&path)? else { return Ok(None) };
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
        match self.read_as(id, scratch, out, false)? {
            Content::Whole(kind) => Ok(kind),
            Content::Stream(stream) => Ok(stream.header().kind), // not made unless asked for
        }
    }

    /// As [`read_with`](Self::read_with), but an object that [`stream`](Self::stream) would give piece by piece is not read;
    /// for callers who meet many objects, few of them large. One look-up.
    ///
    /// # Errors
    /// As for [`read`](Self::read) and [`stream`](Self::stream).
    pub fn read_or_stream(
        &self,
        id: &ObjectId,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<Content, ReadError> {
        self.read_as(id, scratch, out, true)
    }

    fn read_as(
        &self,
        id: &ObjectId,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
        may_stream: bool,
    ) -> Result<Content, ReadError> {
        let found = self.search(id, |state, look| {
            let Some(spot) = self.locate(state, id, Need::Bytes, look)? else { return Ok(None) };
            let result = match spot {
                Spot::Packed { pack, at } => {
                    if may_stream && let Ok(Some(stream)) = ObjectStream::packed(&pack, at, *id) {
                        return Ok(Some(Content::Stream(stream)));
                    }
                    let result = self.check_crc_if_asked(&pack, at).and_then(|()| {
                        let kind = pack.read(at, scratch, out)?;
                        self.verify_if_asked(id, kind, out, pack.path(), at.get())?;
                        Ok(kind)
                    });
                    self.noting(&pack, at, id, result)
                }
                Spot::Loose { source } => {
                    let path = self.loose_path(state, source, id);
                    let Some(mut file) = self.open_loose(&path)? else { return Ok(None) };
                    // A file that is short holds nothing that is long, or little enough of it to be held.
                    if may_stream && file.1 >= LONG_LOOSE {
                        if let Ok(Some(stream)) = ObjectStream::loose(path.clone(), file, *id, self.options()) {
                            return Ok(Some(Content::Stream(stream)));
                        }
                        let Some(again) = self.open_loose(&path)? else { return Ok(None) };
                        file = again;
                    }
                    let limit = self.options().max_object_size;
                    let result = loose::read(&path, file, limit, scratch, out).and_then(|kind| {
                        self.verify_if_asked(id, kind, out, &path, 0)?;
                        Ok(kind)
                    });
                    self.noting_loose(&path, id, result)
                }
            };
            result.map(|kind| Some(Content::Whole(kind)))
        });
        match found {
            Ok(Some(content)) => Ok(content),
            Ok(None) => Err(ReadError::Missing { id: *id }),
            Err(error) if can_recover(&error) => self.recover(id, error, out).map(Content::Whole),
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
        let found = self.search(id, |state, look| {
            let Some(spot) = self.locate(state, id, Need::Bytes, look)? else { return Ok(None) };
            let opened = match spot {
                Spot::Packed { pack, at } => ObjectStream::packed(&pack, at, *id),
                Spot::Loose { source } => {
                    let path = self.loose_path(state, source, id);
                    let Some(file) = self.open_loose(&path)? else { return Ok(None) };
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
        let found = self.search_any(|state, _| {
            let mut ids = Vec::new();
            for (number, source) in state.sources.iter().enumerate() {
                for layer in state.complete_midx(number).iter().flat_map(|midx| midx.layers.layers()) {
                    let midx = layer.midx();
                    ids.extend(midx.prefix_range(prefix).map(|pos| midx.id(MidxPos::new(pos))));
                }
                for slot in state.unlisted(number) {
                    self.with_index(slot, |pack| {
                        let idx = pack.idx();
                        ids.extend(idx.prefix_range(prefix).map(|pos| idx.id(IdxPos::new(pos))));
                    })?;
                }
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

    /// The ids of all objects in all sources, each once, ascending: multi-pack-indexes, indices of packs and loose objects
    /// merged. Holds the ids of loose objects only; and of packs, where there are more than half of
    /// [`Options::max_open_files`] to merge.
    ///
    /// # Errors
    /// If a pack or a directory could not be looked at.
    pub fn ids(&self) -> Result<Ids, ReadError> {
        let mut state = self.state();
        for _ in 1..MAX_ROUNDS {
            let ids = self.ids_of(&state)?;
            // What moved while it was listed may have been seen in neither place.
            match self.newer_than(&state)? {
                Some(newer) => state = Guard::from_inner(newer),
                None => return Ok(ids),
            }
        }
        self.ids_of(&state)
    }

    fn ids_of(&self, state: &State) -> Result<Ids, ReadError> {
        let mut ids = Ids::default();
        let mut gathered = Vec::new();
        for (number, source) in state.sources.iter().enumerate() {
            for layer in state.complete_midx(number).iter().flat_map(|midx| midx.layers.layers()) {
                ids.merge_midx(Arc::clone(layer));
            }
            let slots = state.unlisted(number);
            let few = slots.len() <= self.options().file_cap() / 2;
            for slot in slots {
                self.with_index(slot, |pack| {
                    if few {
                        ids.merge_pack(Arc::clone(pack));
                    } else {
                        gathered.extend(pack.idx().ids());
                    }
                })?;
            }
            for first in 0..=u8::MAX {
                loose::list_fanout(source.path(), first, self.hash_kind(), &mut gathered)?;
            }
        }
        gathered.sort_unstable();
        gathered.dedup();
        ids.merge_sorted(gathered);
        Ok(ids)
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
            let found = self.packed_copies(&state, source, id, Need::Bytes, &mut |pack, at| {
                (!self.0.damaged.holds(pack, at) && accept(pack)).then_some(())
            });
            matches!(found, Ok(Some(())))
        })
    }

    pub(crate) fn freshened(&self) -> &Freshened {
        &self.0.freshened
    }

    pub(crate) fn state(&self) -> Guard<Arc<State>> {
        self.0.state.load()
    }

    /// Lists anew and puts the result in place. The caller holds `reloading`.
    fn rescan(&self, old: &State) -> Result<Arc<State>, OpenError> {
        let new = Arc::new(packs::scan(&self.0.objects, &self.0.shared, &self.0.problems, Some(old))?);
        self.0.state.store(Arc::clone(&new));
        Ok(new)
    }

    /// A state with other packs or sources than `searched`: what another thread has put there since, or what listing
    /// again finds.
    pub(crate) fn newer_than(&self, searched: &State) -> Result<Option<Arc<State>>, ReadError> {
        let _one = self.0.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.0.state.load_full();
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
        visit: impl FnMut(&State, &Look) -> Result<Option<T>, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        // An id of the other hash names nothing here; no index need be asked.
        if id.kind() == self.hash_kind() { self.search_any(visit) } else { Ok(None) }
    }

    /// Visits the current state, and after a miss those that replace it.
    pub(crate) fn search_any<T>(
        &self,
        mut visit: impl FnMut(&State, &Look) -> Result<Option<T>, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        let mut state = self.state();
        let mut look = Look::default();
        for _ in 0..MAX_ROUNDS {
            if let Some(found) = visit(&state, &look)? {
                return Ok(Some(found));
            }
            // Before an object is missing, no listing of loose objects is good enough.
            if look.believed.take() {
                look.files = Files::Asked;
                if let Some(found) = visit(&state, &look)? {
                    return Ok(Some(found));
                }
            }
            match self.newer_than(&state)? {
                Some(newer) => state = Guard::from_inner(newer),
                None => break,
            }
        }
        Ok(None)
    }

    /// Calls `with` on the pack of a slot with its index open; `None` if it is broken or gone.
    pub(crate) fn with_index<T>(
        &self,
        slot: &Arc<Slot>,
        with: impl FnOnce(&Arc<Pack>) -> T,
    ) -> Result<Option<T>, ReadError> {
        slot.with(Need::Index, &self.0.shared, &self.0.problems, with)
    }

    /// The first healthy copy in look-up order; if there is none, one that is known to be damaged. Packs have the files open
    /// that `need` says, and their bytes in any case.
    pub(crate) fn locate(
        &self,
        state: &State,
        id: &ObjectId,
        need: Need,
        look: &Look,
    ) -> Result<Option<Spot>, ReadError> {
        let mut damaged = None;
        let mut trouble = None;
        for source in 0..state.sources.len() {
            let found = self.packed_copies(state, source, id, need, &mut |pack, at| {
                let spot = Spot::Packed { pack: Arc::clone(pack), at };
                if self.0.damaged.holds(pack, at) {
                    damaged.get_or_insert(spot);
                    None
                } else {
                    Some(spot)
                }
            });
            match found {
                Ok(Some(spot)) => return Ok(Some(spot)),
                Ok(None) => {}
                Err(error) => trouble = trouble.or(Some(error)),
            }
            match self.is_loose(state, source, id, look) {
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

    fn is_loose(&self, state: &State, source: usize, id: &ObjectId, look: &Look) -> Result<bool, ReadError> {
        let (Some(dir), Some(part)) = (state.sources.get(source), state.parts.get(source)) else { return Ok(false) };
        let list = look.files == Files::ListedNow;
        if look.files != Files::Asked && part.loose.has(dir.path(), id, self.hash_kind(), list) == Some(false) {
            look.believed.set(true);
            return Ok(false);
        }
        let there = loose::exists(&loose::path(dir.path(), id))?;
        if !there {
            part.loose.missed(id);
        }
        Ok(there)
    }

    /// The copies in the packs of one source, each given to `take` until that makes something of one: what the
    /// multi-pack-index lists, then what the indices of other packs do. Packs that the multi-pack-index covers are asked
    /// themselves only if it names a copy that is of no use.
    ///
    /// The error is the first met, if no copy was taken.
    fn packed_copies<T>(
        &self,
        state: &State,
        source: usize,
        id: &ObjectId,
        need: Need,
        take: &mut dyn FnMut(&Arc<Pack>, PackOffset) -> Option<T>,
    ) -> Result<Option<T>, ReadError> {
        let Some(part) = state.parts.get(source) else { return Ok(None) };
        let mut trouble = None;
        let mut in_vain = false;
        for (layer, found) in part.listings(id) {
            in_vain = true;
            let slot = match found {
                Ok((pack, at)) => state.named_slot(source, layer, pack.get() as usize).map(|slot| (slot, at)),
                Err(error) => {
                    let reason = error.to_string();
                    let path =
                        part.midx.as_ref().and_then(|midx| midx.layers.layers().get(layer)).map(|layer| layer.path());
                    let kind = ProblemKind::DamagedCopy { id: *id, reason };
                    self.0.problems.note(path.unwrap_or(&self.0.objects), kind);
                    None
                }
            };
            let Some((slot, at)) = slot else { continue };
            let taken = slot.with(need, &self.0.shared, &self.0.problems, |pack| match pack.in_entries(at) {
                Ok(at) => take(pack, at),
                Err(error) => {
                    let kind = ProblemKind::DamagedCopy { id: *id, reason: error.to_string() };
                    self.0.problems.note(pack.path(), kind);
                    None
                }
            });
            match taken.map(Option::flatten) {
                Ok(Some(taken)) => {
                    slot.touch(&self.0.shared);
                    return Ok(Some(taken));
                }
                Ok(None) => {}
                Err(error) => trouble = trouble.or(Some(error)),
            }
        }
        let covered = if in_vain { state.covered(source) } else { &[] };
        let others = state.by_recent_use(source).map(|(number, slot)| (Some(number), slot));
        for (number, slot) in others.chain(covered.iter().map(|slot| (None, slot))) {
            match self.take_from(slot, id, take) {
                Ok(Some(taken)) => {
                    if let Some(number) = number {
                        part.recent.used(number);
                    }
                    slot.touch(&self.0.shared);
                    return Ok(Some(taken));
                }
                Ok(None) => {}
                Err(error) => trouble = trouble.or(Some(error)),
            }
        }
        trouble.map_or(Ok(None), Err)
    }

    /// Gives the copy that a pack's own index lists to `take`.
    fn take_from<T>(
        &self,
        slot: &Arc<Slot>,
        id: &ObjectId,
        take: &mut dyn FnMut(&Arc<Pack>, PackOffset) -> Option<T>,
    ) -> Result<Option<T>, ReadError> {
        let found = self.with_index(slot, |pack| pack.idx().lookup(id))?.flatten();
        let Some(pos) = found else { return Ok(None) };
        // The index may be open while the pack is gone already.
        let taken = slot.with(Need::All, &self.0.shared, &self.0.problems, |pack| match pack.offset(pos) {
            Ok(at) => Ok(take(pack, at)),
            // Damage of this object's slot in the index only: there may be another copy.
            Err(error) => {
                self.0.problems.note(pack.path(), ProblemKind::DamagedCopy { id: *id, reason: error.to_string() });
                Err(error)
            }
        })?;
        taken.unwrap_or(Ok(None))
    }

    pub(crate) fn open_loose(&self, path: &Path) -> Result<Option<(std::fs::File, u64)>, ReadError> {
        loose::open(path, &self.0.shared.handles)
    }

    /// Notes that the object was just written as a loose file of the own directory, or is to be asked after anew.
    pub(crate) fn wrote_loose(&self, id: &ObjectId) {
        if let Some(part) = self.state().parts.first() {
            part.loose.forget(id);
        }
    }

    pub(crate) fn loose_path(&self, state: &State, source: usize, id: &ObjectId) -> PathBuf {
        loose::path(state.sources.get(source).map_or(&self.0.objects, |source| source.path()), id)
    }
}

fn into_open_error(error: ReadError) -> OpenError {
    match error {
        ReadError::Io { path, source } => OpenError::Io { path, source },
        ReadError::Open(error) => error,
        // Opening a pack gives no other errors that are not noted as problems.
        other => OpenError::Io { path: PathBuf::new(), source: std::io::Error::other(other) },
    }
}
