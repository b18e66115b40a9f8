//! Which packs there are: directories listed, packs opened when needed, the list replaced when it changes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use crate::alternates;
use crate::error::{OpenError, Problem, ProblemKind, ReadError};
use crate::pack::{Listed, Pack, Shared};
use crate::platform::{self, Identity, Stamp};
use crate::store::Source;

/// A pack that was listed, and, once something was looked up in it, opened.
#[derive(Debug)]
pub(crate) struct Slot {
    listed: Listed,
    pack: OnceLock<Arc<Pack>>,
    /// Why it is not used, once that is known. Only damage is remembered: what the system says may pass.
    broken: OnceLock<()>,
    opening: Mutex<()>,
}

impl Slot {
    fn new(listed: Listed) -> Slot {
        Slot { listed, pack: OnceLock::new(), broken: OnceLock::new(), opening: Mutex::new(()) }
    }

    /// The pack with its index open; `None` if it is broken, or gone.
    pub(crate) fn open(&self, shared: &Arc<Shared>, problems: &Problems) -> Result<Option<&Arc<Pack>>, ReadError> {
        if self.broken.get().is_some() {
            return Ok(None);
        }
        if let Some(pack) = self.pack.get() {
            return Ok(Some(pack));
        }
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if self.pack.get().is_none() {
            match Pack::open(self.listed.clone(), Arc::clone(shared)) {
                Ok(pack) => {
                    let _ = self.pack.set(Arc::new(pack)); // nobody else sets it while we hold the lock
                }
                Err(error) => return self.unusable(error, problems).map(|()| None),
            }
        }
        Ok(self.pack.get())
    }

    /// As [`open`](Self::open), with the `.pack` open too, so that its objects stay readable whatever happens to the file.
    pub(crate) fn open_all(&self, shared: &Arc<Shared>, problems: &Problems) -> Result<Option<&Arc<Pack>>, ReadError> {
        let Some(pack) = self.open(shared, problems)? else { return Ok(None) };
        match pack.bytes() {
            Ok(_) => Ok(Some(pack)),
            Err(error) => self.unusable(error, problems).map(|()| None),
        }
    }

    /// The pack if its index was opened already.
    pub(crate) fn opened(&self) -> Option<&Arc<Pack>> {
        self.pack.get()
    }

    /// Sorts out why it cannot be used: for now (an error), because it went away (nothing), or for good (a problem).
    fn unusable(&self, error: ReadError, problems: &Problems) -> Result<(), ReadError> {
        match error {
            ReadError::Io { source, .. } if platform::is_gone(&source) => Ok(()),
            ReadError::Io { source, path } if source.kind() == io::ErrorKind::InvalidInput => {
                let _ = self.broken.set(());
                problems.note(&path, ProblemKind::BrokenPack(source.to_string()));
                Ok(())
            }
            ReadError::Corrupt(corrupt) => {
                let _ = self.broken.set(());
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
    /// By source; within one by mtime, newest first, then by name.
    pub(crate) slots: Vec<Arc<Slot>>,
    /// For each source: where its slots begin and end, and which were of use last.
    pub(crate) ranges: Vec<(std::ops::Range<usize>, Recent)>,
    /// All that open, made when asked for.
    pub(crate) packs: OnceLock<Arc<[Arc<Pack>]>>,
    directories: Vec<Seen>,
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
    /// The slots of a source in the order in which to try them.
    pub(crate) fn by_recent_use(&self, source: usize) -> impl Iterator<Item = (usize, &Slot)> {
        let (range, recent) = match self.ranges.get(source) {
            Some((range, recent)) => (range.clone(), recent.get()),
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
        first.chain(rest).filter_map(|slot| Some((slot, &**self.slots.get(slot)?)))
    }

    /// All slots, in order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().map(|slot| &**slot)
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
    let mut ranges = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        let dir = source.path().join("pack");
        directories.push(Seen::now(dir.clone()));
        let mut listed = list_packs(&dir, number, problems)?;
        listed.sort_by(|a, b| b.mtime.cmp(&a.mtime).then_with(|| a.path.cmp(&b.path)));
        let start = slots.len();
        slots.extend(listed.into_iter().map(|listed| match known.get(&*listed.path) {
            Some(slot) if slot.listed == listed => Arc::clone(slot),
            Some(slot) => Arc::new(renewed(slot, listed, shared)),
            None => Arc::new(Slot::new(listed)),
        }));
        ranges.push((start..slots.len(), Recent::default()));
    }
    let same = old.is_some_and(|old| {
        old.sources.len() == sources.len()
            && old.slots.len() == slots.len()
            && old.slots.iter().zip(&slots).all(|(old, new)| Arc::ptr_eq(old, new))
    });
    let generation = old.map_or(0, |old| old.generation + u64::from(!same));
    let packs = match old {
        Some(old) if same => old.packs.clone(),
        _ => OnceLock::new(),
    };
    Ok(State { generation, sources: sources.into(), slots, ranges, packs, directories })
}

/// A slot for a pack whose directory entry has changed. Often only its time has (somebody freshened it): then the open
/// files serve on. Whether they are the same is asked of the inode and of the checksums, not of the name.
fn renewed(slot: &Slot, listed: Listed, shared: &Arc<Shared>) -> Slot {
    let new = Slot::new(listed);
    if let Some(pack) = slot.pack.get()
        && slot.broken.get().is_none()
        && let Some(pack) = pack.listed_anew(&new.listed, shared)
    {
        let _ = new.pack.set(Arc::new(pack)); // just made, so empty
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
    let own = read_alternates(objects, problems, directories);
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
        let nested = read_alternates(&path, problems, directories);
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
fn read_alternates(objects: &Path, problems: &Problems, directories: &mut Vec<Seen>) -> Vec<PathBuf> {
    let path = objects.join("info").join("alternates");
    directories.push(Seen::now(path.clone()));
    match fs::read(&path) {
        Ok(bytes) => alternates::parse_file(&bytes).iter().map(|path| objects.join(path)).collect(),
        Err(error) if platform::is_gone(&error) => Vec::new(),
        Err(error) => {
            problems.note(&path, ProblemKind::Unreadable(error.to_string()));
            Vec::new()
        }
    }
}

/// The packs of one directory: each `.idx` with a `.pack` beside it that is a regular file. All else is ignored.
fn list_packs(dir: &Path, source: usize, problems: &Problems) -> Result<Vec<Listed>, OpenError> {
    let io_error = |source| OpenError::Io { path: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
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
                let idx = path.with_extension("idx");
                let (meta, idx_meta) = match fs::metadata(&path).and_then(|meta| Ok((meta, fs::metadata(&idx)?))) {
                    Ok(both) => both,
                    // Gone since the directory was listed.
                    Err(error) if platform::is_gone(&error) => continue,
                    Err(source) => return Err(OpenError::Io { path, source }),
                };
                if !meta.is_file() || !idx_meta.is_file() {
                    problems.note(&path, ProblemKind::BrokenPack("not a regular file".into()));
                    continue;
                }
                packs.push(Listed {
                    source,
                    kept: has("keep"),
                    promisor: has("promisor"),
                    cruft: has("mtimes"),
                    mtime: meta.modified().unwrap_or(SystemTime::UNIX_EPOCH),
                    len: meta.len(),
                    stamps: [Stamp::of(&meta), Stamp::of(&idx_meta)],
                    path,
                });
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
                    let meta = fs::metadata(".").unwrap();
                    Arc::new(Slot::new(Listed {
                        path: PathBuf::from(number.to_string()),
                        source: 0,
                        kept: false,
                        promisor: false,
                        cruft: false,
                        mtime: SystemTime::UNIX_EPOCH,
                        len: 0,
                        stamps: [Stamp::of(&meta), Stamp::of(&meta)],
                    }))
                })
                .collect(),
            ranges: vec![(0..3, Recent::default()), (3..8, Recent::default())],
            packs: OnceLock::new(),
            directories: Vec::new(),
        };
        let order = |source| state.by_recent_use(source).map(|(slot, _)| slot).collect::<Vec<_>>();
        assert_eq!(order(0), [0, 1, 2]);
        assert_eq!(order(2), []);
        let recent = &state.ranges[1].1;
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
