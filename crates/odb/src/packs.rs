//! Which packs there are: directories listed, packs opened when needed, the list replaced when it changes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use object::ObjectId;
use pack_format::{MidxPack, PackOffset, ParseError};

use crate::alternates;
use crate::error::{OpenError, Problem, ProblemKind, ReadError};
use crate::fanout::LooseCache;
use crate::midx::{self, Layers, LoadErrorKind};
use crate::pack::{Listed, OnDisk, Pack, Shared};
use crate::platform::{self, Identity, Stamp};
use crate::store::Source;

/// A pack that was listed, and, once something was looked up in it, opened; closed again when too many are open.
#[derive(Debug)]
pub(crate) struct Slot {
    listed: Listed,
    /// What the file system says of its files; asked for when first of interest, since that takes two calls.
    on_disk: OnceLock<OnDisk>,
    pack: ArcSwapOption<Pack>,
    /// Whether it is of no use. Only damage is remembered: what the system says may pass.
    broken: AtomicBool,
    /// When an object was last found in it, by the clock of `Handles`.
    used: AtomicU64,
    opening: Mutex<()>,
}

/// Which files of a pack to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// The `.idx`.
    Index,
    /// The `.pack`, so that its objects stay readable whatever happens to the file.
    Bytes,
    /// Both.
    All,
}

impl Slot {
    fn new(listed: Listed) -> Slot {
        Slot {
            listed,
            on_disk: OnceLock::new(),
            pack: ArcSwapOption::empty(),
            broken: AtomicBool::new(false),
            used: AtomicU64::new(0),
            opening: Mutex::new(()),
        }
    }

    /// Calls `with` on the pack with the files that it needs open; `None` if it is broken, or gone.
    pub(crate) fn with<T>(
        self: &Arc<Self>,
        need: Need,
        shared: &Arc<Shared>,
        problems: &Problems,
        with: impl FnOnce(&Arc<Pack>) -> T,
    ) -> Result<Option<T>, ReadError> {
        if self.broken.load(Ordering::Acquire) {
            return Ok(None);
        }
        let held = self.pack.load();
        let made;
        let pack = match &*held {
            Some(pack) => pack,
            None => match self.make(shared) {
                Ok(pack) => {
                    made = pack;
                    &made
                }
                Err(error) => return self.unusable(error, problems).map(|()| None),
            },
        };
        let opened = match need {
            Need::Index => pack.index().map(drop),
            Need::Bytes => pack.bytes().map(drop),
            // First what may be replaced under an index that is open.
            Need::All => pack.bytes().and_then(|_| pack.index()).map(drop),
        };
        match opened {
            Ok(()) => Ok(Some(with(pack))),
            Err(error) => self.unusable(error, problems).map(|()| None),
        }
    }

    /// As [`with`](Self::with), for those who keep the pack.
    pub(crate) fn open(
        self: &Arc<Self>,
        need: Need,
        shared: &Arc<Shared>,
        problems: &Problems,
    ) -> Result<Option<Arc<Pack>>, ReadError> {
        self.with(need, shared, problems, Arc::clone)
    }

    #[cold]
    fn make(self: &Arc<Self>, shared: &Arc<Shared>) -> Result<Arc<Pack>, ReadError> {
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pack) = self.pack.load_full() {
            return Ok(pack);
        }
        let pack = Arc::new(Pack::new(self.listed.clone(), self.on_disk()?.clone(), Arc::clone(shared))?);
        self.touch(shared);
        self.pack.store(Some(Arc::clone(&pack)));
        shared.handles.register(self);
        Ok(pack)
    }

    /// The state of its files when it was listed, or else when first of interest.
    pub(crate) fn on_disk(&self) -> Result<&OnDisk, ReadError> {
        if let Some(on_disk) = self.on_disk.get() {
            return Ok(on_disk);
        }
        let found = OnDisk::of(&self.listed.path).map_err(|error| ReadError::io(&self.listed.path, error))?;
        Ok(self.on_disk.get_or_init(|| found))
    }

    /// Notes that an object was found in it.
    #[inline]
    pub(crate) fn touch(&self, shared: &Shared) {
        let now = shared.handles.now();
        // Nothing is written as a rule, so that threads share the line.
        if self.used.load(Ordering::Relaxed) != now {
            self.used.store(now, Ordering::Relaxed);
        }
    }

    pub(crate) fn last_used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.pack.load().is_some()
    }

    pub(crate) fn holds_handle(&self) -> bool {
        self.pack.load().as_ref().is_some_and(|pack| pack.holds_handle())
    }

    /// Closes its files, unless somebody else has the pack. Whether it did.
    pub(crate) fn close(&self) -> bool {
        // Ours, and the slot's; who looks it up in this moment keeps it alive for as long as that takes.
        let idle = self.pack.load_full().filter(|pack| Arc::strong_count(pack) == 2 && pack.holds_files());
        idle.is_some() && self.pack.swap(None).is_some()
    }

    /// The pack, if it is open.
    pub(crate) fn opened(&self) -> Option<Arc<Pack>> {
        self.pack.load_full()
    }

    /// Sorts out why it cannot be used: for now (an error), because it went away (nothing), or for good (a problem).
    fn unusable(&self, error: ReadError, problems: &Problems) -> Result<(), ReadError> {
        match error {
            ReadError::Io { source, .. } if platform::is_gone(&source) => Ok(()),
            ReadError::Io { source, path } if source.kind() == io::ErrorKind::InvalidInput => {
                self.broken.store(true, Ordering::Release);
                problems.note(&path, ProblemKind::BrokenPack(source.to_string()));
                Ok(())
            }
            ReadError::Corrupt(corrupt) => {
                self.broken.store(true, Ordering::Release);
                problems
                    .note(&corrupt.path, ProblemKind::BrokenPack(format!("{} at byte {}", corrupt.damage, corrupt.at)));
                Ok(())
            }
            error => Err(error),
        }
    }
}

/// The packs of all sources at one moment. Replaced as a whole, never changed, so that readers need no lock.
#[derive(Debug)]
pub(crate) struct State {
    /// Goes up whenever sources or packs are others than before.
    pub(crate) generation: u64,
    pub(crate) sources: Arc<[Source]>,
    /// By source; within one those that no multi-pack-index covers by mtime, newest first, then the others by name.
    pub(crate) slots: Vec<Arc<Slot>>,
    /// For each source.
    pub(crate) parts: Vec<Part>,
    /// All that open, as long as somebody who asked for them has them.
    pub(crate) packs: Mutex<Weak<[Arc<Pack>]>>,
    directories: Vec<Seen>,
}

/// What a state knows of one source.
#[derive(Debug)]
pub(crate) struct Part {
    /// Its slots.
    pub(crate) slots: Range<usize>,
    /// Those of its slots whose objects the multi-pack-index does not list.
    pub(crate) uncovered: Range<usize>,
    pub(crate) recent: Recent,
    pub(crate) midx: Option<Arc<Covered>>,
    pub(crate) loose: Arc<LooseCache>,
}

impl Part {
    /// Where the multi-pack-index lists an object: the layer's rank, and what it says. Younger layers first.
    pub(crate) fn listings(
        &self,
        id: &ObjectId,
    ) -> impl Iterator<Item = (usize, Result<(MidxPack, PackOffset), ParseError>)> {
        let layers = self.midx.as_ref().map(|midx| midx.layers.layers()).unwrap_or_default();
        layers.iter().enumerate().rev().filter_map(|(number, layer)| {
            let midx = layer.midx();
            Some((number, midx.location(midx.lookup(id)?)))
        })
    }
}

/// A multi-pack-index, and where the packs it names are.
#[derive(Debug)]
pub(crate) struct Covered {
    pub(crate) layers: Layers,
    /// By layer and number in it: the slot, counted from the source's first; `None` if there is no such pack.
    pub(crate) slots: Vec<Vec<Option<u32>>>,
    /// Whether all packs that it names are there.
    pub(crate) complete: bool,
    /// The file or files that it was read from.
    stamps: Vec<Option<Stamp>>,
}

/// The slots of a source in which objects were found last: tried first. Racing threads may lose or double an entry; it
/// is only a hint.
#[derive(Debug, Default)]
pub(crate) struct Recent([AtomicU32; 4]);

impl Recent {
    /// Number 0 is none.
    fn get(&self) -> [u32; 4] {
        self.0.each_ref().map(|slot| slot.load(Ordering::Relaxed))
    }

    /// Moves a slot to the front.
    #[inline]
    pub(crate) fn used(&self, slot: usize) {
        let Some(number) = u32::try_from(slot).ok().and_then(|slot| slot.checked_add(1)) else { return };
        let mut moving = number;
        for place in &self.0 {
            let held = place.load(Ordering::Relaxed);
            if held == moving {
                return; // at the front already, the common case, nothing is written
            }
            place.store(moving, Ordering::Relaxed);
            moving = held;
            if held == number {
                return;
            }
        }
    }
}

impl State {
    /// The slots of a source that no multi-pack-index covers, in the order in which to try them.
    pub(crate) fn by_recent_use(&self, source: usize) -> impl Iterator<Item = (usize, &Arc<Slot>)> {
        let (range, recent) = match self.parts.get(source) {
            Some(part) => (part.uncovered.clone(), part.recent.get()),
            None => (0..0, [0; 4]),
        };
        let doubled = move |at: usize| recent.iter().take(at).any(|&earlier| Some(&earlier) == recent.get(at));
        let hinted = (0..recent.len()).filter(move |&at| !doubled(at));
        let inside = range.clone();
        let first = hinted.filter_map(move |at| {
            let slot = (*recent.get(at)? as usize).checked_sub(1)?;
            inside.contains(&slot).then_some(slot)
        });
        let rest = range.filter(move |&slot| !recent.contains(&(slot as u32).wrapping_add(1)));
        first.chain(rest).filter_map(|slot| Some((slot, self.slots.get(slot)?)))
    }

    /// The slots of a source that its multi-pack-index covers.
    pub(crate) fn covered(&self, source: usize) -> &[Arc<Slot>] {
        self.parts.get(source).and_then(|part| self.slots.get(part.uncovered.end..part.slots.end)).unwrap_or_default()
    }

    /// The slots of packs whose own indices have to be asked to see all objects of a source: all but those that a complete
    /// multi-pack-index covers.
    pub(crate) fn unlisted(&self, source: usize) -> &[Arc<Slot>] {
        let Some(part) = self.parts.get(source) else { return &[] };
        let complete = part.midx.as_ref().is_some_and(|midx| midx.complete);
        self.slots.get(if complete { part.uncovered.clone() } else { part.slots.clone() }).unwrap_or_default()
    }

    /// The multi-pack-index of a source, if it lists all objects of the packs it covers.
    pub(crate) fn complete_midx(&self, source: usize) -> Option<&Covered> {
        self.parts.get(source)?.midx.as_deref().filter(|midx| midx.complete)
    }

    /// The slot of a pack that a source's multi-pack-index names.
    pub(crate) fn named_slot(&self, source: usize, layer: usize, pack: usize) -> Option<&Arc<Slot>> {
        let part = self.parts.get(source)?;
        let number = (*part.midx.as_ref()?.slots.get(layer)?.get(pack)?)?;
        self.slots.get(part.slots.clone())?.get(number as usize)
    }

    /// All slots, in order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Arc<Slot>> {
        self.slots.iter()
    }

    /// Whether something that the list was made from has visibly changed since.
    pub(crate) fn has_changed(&self) -> bool {
        self.directories.iter().any(Seen::has_changed)
    }

    /// Whether nothing that the list was made from has changed since, for certain.
    pub(crate) fn is_current(&self) -> bool {
        self.directories.iter().all(Seen::is_current)
    }
}

/// A directory or file that the list was made from.
#[derive(Debug)]
struct Seen {
    path: PathBuf,
    stamp: Option<Stamp>,
    /// Whether it was unchanged for so long that a change right after would show in its time.
    settled: bool,
}

/// Coarser than any clock that file systems keep (FAT has two seconds).
const TICK: Duration = Duration::from_secs(3);

impl Seen {
    /// To be called before the content is read, so that a change in between is seen later.
    fn now(path: PathBuf) -> Seen {
        match fs::metadata(&path) {
            Ok(meta) => {
                let settled = meta
                    .modified()
                    .ok()
                    .and_then(|modified| SystemTime::now().duration_since(modified).ok())
                    .is_some_and(|age| age > TICK);
                Seen { path, stamp: Some(Stamp::of(&meta)), settled }
            }
            Err(error) => Seen { path, stamp: None, settled: platform::is_gone(&error) },
        }
    }

    fn has_changed(&self) -> bool {
        fs::metadata(&self.path).ok().map(|meta| Stamp::of(&meta)) != self.stamp
    }

    fn is_current(&self) -> bool {
        self.settled && !self.has_changed()
    }
}

/// What is noted for whoever asks, each once.
#[derive(Debug, Default)]
pub(crate) struct Problems(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    list: Vec<Problem>,
    known: HashSet<(PathBuf, String)>,
}

/// So many are kept: a store with more is beyond help by list.
const MAX_PROBLEMS: usize = 1000;

impl Problems {
    pub(crate) fn note(&self, path: &Path, kind: ProblemKind) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.list.len() < MAX_PROBLEMS && noted.known.insert((path.to_owned(), kind.to_string())) {
            noted.list.push(Problem { path: path.to_owned(), kind });
        }
    }

    pub(crate) fn list(&self) -> Vec<Problem> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).list.clone()
    }
}

/// Lists sources and packs, taking over from `old` what is still the same.
pub(crate) fn scan(
    objects: &Path,
    shared: &Arc<Shared>,
    problems: &Problems,
    old: Option<&State>,
) -> Result<State, OpenError> {
    let mut directories = Vec::new();
    let sources = list_sources(objects, shared, problems, old, &mut directories)?;
    let known: HashMap<&Path, &Arc<Slot>> =
        old.into_iter().flat_map(|old| &old.slots).map(|slot| (&*slot.listed.path, slot)).collect();
    let mut slots = Vec::new();
    let mut parts = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        let dir = source.path().join("pack");
        directories.push(Seen::now(dir.clone()));
        let before = old.and_then(|old| old.parts.get(number)?.midx.as_deref());
        let midx = load_midx(source.path(), shared, problems, before, &mut directories);
        let start = slots.len();
        let covers = |listed: &Listed| midx.as_ref().is_some_and(|(layers, _)| layers.covers_pack(listed.name()));
        let (covered, mut uncovered): (Vec<_>, Vec<_>) =
            list_packs(&dir, number, shared, problems)?.into_iter().partition(covers);
        // Newest first. That takes asking after each; what a multi-pack-index covers is left alone until it is needed.
        let mut dated = Vec::with_capacity(uncovered.len());
        for listed in uncovered.drain(..) {
            match OnDisk::of(&listed.path) {
                Ok(on_disk) => dated.push((listed, on_disk)),
                Err(error) if platform::is_gone(&error) => {} // since the directory was listed
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    problems.note(&listed.path, ProblemKind::BrokenPack(error.to_string()));
                }
                Err(source) => return Err(OpenError::Io { path: listed.path, source }),
            }
        }
        dated.sort_by(|a, b| b.1.mtime.cmp(&a.1.mtime).then_with(|| a.0.path.cmp(&b.0.path)));
        let middle = start + dated.len();
        let dated = dated.into_iter().map(|(listed, on_disk)| (listed, Some(on_disk)));
        for (listed, on_disk) in dated.chain(covered.into_iter().map(|listed| (listed, None))) {
            slots.push(match known.get(&*listed.path) {
                Some(slot) => taken_over(slot, listed, on_disk, shared),
                None => Arc::new(Slot::dated(listed, on_disk)),
            });
        }
        let own = slots.get(start..).unwrap_or_default();
        let midx = midx.map(|(layers, stamps)| Arc::new(Covered::new(layers, stamps, own, problems)));
        let (uncovered, slots) = (start..middle, start..slots.len());
        parts.push(Part { slots, uncovered, recent: Recent::default(), midx, loose: Arc::default() });
    }
    let same = old.is_some_and(|old| {
        old.sources.len() == sources.len()
            && old.slots.len() == slots.len()
            && old.slots.iter().zip(&slots).all(|(old, new)| Arc::ptr_eq(old, new))
            && old.parts.iter().zip(&parts).all(|(old, new)| match (&old.midx, &new.midx) {
                (None, None) => true,
                (Some(old), Some(new)) => old.same_files(new),
                _ => false,
            })
    });
    let generation = old.map_or(0, |old| old.generation + u64::from(!same));
    let mut packs = Weak::<[Arc<Pack>; 0]>::new() as Weak<[Arc<Pack>]>;
    if let Some(old) = old.filter(|_| same) {
        packs = old.packs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (new, old) in parts.iter_mut().zip(&old.parts) {
            new.loose = Arc::clone(&old.loose);
        }
    }
    Ok(State { generation, sources: sources.into(), slots, parts, packs: Mutex::new(packs), directories })
}

impl Slot {
    fn dated(listed: Listed, on_disk: Option<OnDisk>) -> Slot {
        Slot { on_disk: on_disk.map(OnceLock::from).unwrap_or_default(), ..Slot::new(listed) }
    }
}

impl Covered {
    /// `slots` are those of the source.
    fn new(layers: Layers, stamps: Vec<Option<Stamp>>, slots: &[Arc<Slot>], problems: &Problems) -> Covered {
        let by_name: HashMap<&[u8], u32> = slots.iter().map(|slot| slot.listed.name()).zip(0..).collect();
        let mut complete = true;
        let places = layers.layers().iter().map(|layer| {
            let mut missing = None;
            let slots = layer.midx().pack_names().map(|name| {
                let slot = by_name.get(name.strip_suffix(b".idx").unwrap_or(name)).copied();
                if slot.is_none() {
                    missing = missing.or(Some(name));
                }
                slot
            });
            let slots = slots.collect();
            if let Some(name) = missing {
                complete = false;
                problems.note(layer.path(), ProblemKind::MidxPackMissing(String::from_utf8_lossy(name).into_owned()));
            }
            slots
        });
        let slots = places.collect();
        Covered { layers, slots, complete, stamps }
    }

    fn same_files(&self, other: &Covered) -> bool {
        let (ours, theirs) = (self.layers.layers(), other.layers.layers());
        ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

/// The multi-pack-index of a source; the one that `old` has if its files have not changed since.
fn load_midx(
    objects: &Path,
    shared: &Shared,
    problems: &Problems,
    old: Option<&Covered>,
    directories: &mut Vec<Seen>,
) -> Option<(Layers, Vec<Option<Stamp>>)> {
    if !shared.options.use_midx {
        return None;
    }
    let chain = midx::chain_path(objects);
    // What replaces the chain's file shows in its directory; if there is none yet, in the one above.
    let dir = chain.parent().map(|dir| Seen::now(dir.to_owned()));
    directories.extend(dir.filter(|dir| dir.stamp.is_some()));
    let mut stamps: Vec<_> = [midx::root_path(objects), chain]
        .iter()
        .map(|path| fs::metadata(path).ok().map(|meta| Stamp::of(&meta)))
        .collect();
    if stamps.iter().all(Option::is_none) {
        return None;
    }
    if let Some(old) = old.filter(|old| old.stamps == stamps) {
        return Some((old.layers.clone(), stamps));
    }
    let mut wrong = Vec::new();
    let loaded = shared.handles.retrying(|| {
        wrong.clear();
        let (hash, source) = (shared.options.hash, shared.options.byte_source);
        let layers = Layers::load(objects, hash, source, &mut |error| wrong.push(error));
        for error in &wrong {
            if let LoadErrorKind::Io(error) = &error.kind
                && platform::is_exhausted(error)
            {
                return Err(io::Error::from(error.kind()));
            }
        }
        Ok(layers)
    });
    for error in wrong {
        let reason = match &error.kind {
            LoadErrorKind::Io(error) => error.to_string(),
            LoadErrorKind::Format(error) => format!("{error} at byte {}", error.at),
            LoadErrorKind::TooMany => "too many packs or objects for its chain".to_owned(),
        };
        if matches!(error.kind, LoadErrorKind::Io(_)) {
            stamps.clear(); // it may pass: not to be taken for the same next time
        }
        problems.note(&error.path, ProblemKind::BrokenMidx(reason));
    }
    Some((loaded.ok().flatten()?, stamps))
}

/// The slot of a pack that was listed before. Often only its time has changed (somebody freshened it): then the open
/// files serve on. Whether they are the same is asked of the inode and of the checksums, not of the name.
fn taken_over(slot: &Arc<Slot>, listed: Listed, on_disk: Option<OnDisk>, shared: &Arc<Shared>) -> Arc<Slot> {
    // What was never looked at cannot have changed.
    let Some(before) = slot.on_disk.get() else {
        if slot.listed != listed {
            return Arc::new(Slot::dated(listed, on_disk));
        }
        if let Some(on_disk) = on_disk {
            let _ = slot.on_disk.set(on_disk); // if set meanwhile, then to the same
        }
        return Arc::clone(slot);
    };
    let on_disk = on_disk.or_else(|| OnDisk::of(&listed.path).ok());
    if slot.listed == listed && on_disk.as_ref().is_none_or(|on_disk| on_disk == before) {
        return Arc::clone(slot);
    }
    let new = Arc::new(Slot::dated(listed, on_disk));
    if !slot.broken.load(Ordering::Acquire)
        && let Some(pack) = slot.opened()
        && let Some(on_disk) = new.on_disk.get()
        && let Some(pack) = pack.listed_anew(&new.listed, on_disk, shared)
    {
        new.touch(shared);
        new.pack.store(Some(Arc::new(pack)));
        shared.handles.register(&new);
    }
    new
}

/// Listing the sources: the own directory, those of the options, those of `info/alternates`, each followed by its own alternates.
fn list_sources(
    objects: &Path,
    shared: &Arc<Shared>,
    problems: &Problems,
    old: Option<&State>,
    directories: &mut Vec<Seen>,
) -> Result<Vec<Source>, OpenError> {
    let meta = fs::metadata(objects).map_err(|source| OpenError::Io { path: objects.to_owned(), source })?;
    if !meta.is_dir() {
        return Err(OpenError::NotADirectory { path: objects.to_owned() });
    }
    // Known sources keep their numbers, also when an alternate is no longer named: packs refer to them, and objects
    // that were there must stay readable.
    let mut sources: Vec<Source> = old.map(|old| old.sources.to_vec()).unwrap_or_default();
    let mut present: HashSet<Identity> = HashSet::new();
    for source in &sources {
        present.extend(fs::metadata(source.path()).ok().and_then(|meta| platform::identity(source.path(), &meta).ok()));
    }
    if sources.is_empty() {
        present.extend(platform::identity(objects, &meta).ok());
        sources.push(Source::new(objects.to_owned()));
    }
    // Depth first: the next to look at is the last. What was seen is not entered again, however it is spelt: cycles
    // end, diamonds count once, and the own directory is no alternate of itself.
    let mut visited: HashSet<Identity> = HashSet::new();
    visited.extend(platform::identity(objects, &meta).ok());
    let mut pending: Vec<(PathBuf, u32)> = Vec::new();
    let own = read_alternates(objects, shared, problems, directories);
    pending.extend(shared.options.alternates.iter().cloned().chain(own).map(|path| (path, 0)));
    pending.reverse();
    let max_depth = shared.options.max_alternates_depth;
    while let Some((path, depth)) = pending.pop() {
        let identity = match fs::metadata(&path).and_then(|meta| {
            if meta.is_dir() { platform::identity(&path, &meta) } else { Err(io::ErrorKind::NotADirectory.into()) }
        }) {
            Ok(identity) => identity,
            Err(error) if platform::is_gone(&error) => {
                problems.note(&path, ProblemKind::AlternateMissing);
                continue;
            }
            Err(error) => {
                problems.note(&path, ProblemKind::Unreadable(error.to_string()));
                continue;
            }
        };
        if !visited.insert(identity.clone()) {
            continue;
        }
        let nested = read_alternates(&path, shared, problems, directories);
        if depth < max_depth {
            pending.extend(nested.into_iter().rev().map(|path| (path, depth + 1)));
        } else if !nested.is_empty() {
            problems.note(&path, ProblemKind::AlternatesTooDeep);
        }
        if present.insert(identity) {
            sources.push(Source::new(path));
        }
    }
    Ok(sources)
}

/// The object directories named in `info/alternates`, made absolute if `objects` is.
fn read_alternates(objects: &Path, shared: &Shared, problems: &Problems, directories: &mut Vec<Seen>) -> Vec<PathBuf> {
    let path = objects.join("info").join("alternates");
    directories.push(Seen::now(path.clone()));
    match shared.handles.retrying(|| fs::read(&path)) {
        Ok(bytes) => alternates::parse_file(&bytes).iter().map(|path| objects.join(path)).collect(),
        Err(error) if platform::is_gone(&error) => Vec::new(),
        Err(error) => {
            problems.note(&path, ProblemKind::Unreadable(error.to_string()));
            Vec::new()
        }
    }
}

/// The packs of one directory: each `.idx` with a `.pack` beside it. All else is ignored. In the order of their names.
fn list_packs(dir: &Path, source: usize, shared: &Shared, problems: &Problems) -> Result<Vec<Listed>, OpenError> {
    let io_error = |source| OpenError::Io { path: dir.to_owned(), source };
    let entries = match shared.handles.retrying(|| fs::read_dir(dir)) {
        Ok(entries) => entries,
        Err(error) if platform::is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(io_error(error)),
    };
    let mut names: BTreeSet<OsString> = BTreeSet::new();
    for entry in entries {
        let name = entry.map_err(io_error)?.file_name();
        let bytes = name.as_encoded_bytes();
        if [&b".pack"[..], b".idx", b".keep", b".promisor", b".mtimes"].iter().any(|end| bytes.ends_with(end)) {
            names.insert(name);
        }
    }
    let mut packs = Vec::new();
    for name in &names {
        let has = |extension: &str| names.contains(Path::new(name).with_extension(extension).as_os_str());
        let path = dir.join(name);
        match Path::new(name).extension().map(OsStr::as_encoded_bytes) {
            Some(b"idx") if !has("pack") => problems.note(&path, ProblemKind::IndexWithoutPack),
            Some(b"pack") if !has("idx") => problems.note(&path, ProblemKind::PackWithoutIndex),
            Some(b"pack") => {
                let (kept, promisor, cruft) = (has("keep"), has("promisor"), has("mtimes"));
                packs.push(Listed { source, kept, promisor, cruft, path });
            }
            _ => {}
        }
    }
    Ok(packs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recent_slots_come_first_and_each_slot_once() {
        let state = State {
            generation: 0,
            sources: Arc::new([]),
            slots: (0..8)
                .map(|number| {
                    let path = PathBuf::from(number.to_string());
                    let (kept, promisor, cruft) = (false, false, false);
                    Arc::new(Slot::new(Listed { path, source: 0, kept, promisor, cruft }))
                })
                .collect(),
            parts: [0..3, 3..8]
                .map(|range| Part {
                    slots: range.clone(),
                    uncovered: range,
                    recent: Recent::default(),
                    midx: None,
                    loose: Arc::default(),
                })
                .into(),
            packs: Mutex::new(Weak::<[Arc<Pack>; 0]>::new()),
            directories: Vec::new(),
        };
        let order = |source| state.by_recent_use(source).map(|(slot, _)| slot).collect::<Vec<_>>();
        assert_eq!(order(0), [0, 1, 2]);
        assert_eq!(order(2), []);
        let recent = &state.parts[1].recent;
        for (used, want) in [
            (6, [6, 3, 4, 5, 7]),
            (6, [6, 3, 4, 5, 7]),
            (4, [4, 6, 3, 5, 7]),
            (7, [7, 4, 6, 3, 5]),
            (4, [4, 7, 6, 3, 5]),
            (6, [6, 4, 7, 3, 5]),
            (3, [3, 6, 4, 7, 5]),
            (5, [5, 3, 6, 4, 7]),
        ] {
            recent.used(used);
            assert_eq!(order(1), want, "after {used}");
        }
        recent.0[1].store(6, Ordering::Relaxed); // doubled, as a race might leave it
        assert_eq!(order(1), [5, 6, 4, 3, 7]);
        assert_eq!(order(0), [0, 1, 2]);
    }
}
