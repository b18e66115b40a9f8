//! A disk that fails, stops, or loses power: for programs whose every change to files goes through one place.
//!
//! A [`Disk`] is told of each change before it is made ([`step`](Disk::step), [`write`](Disk::write)). It can let one fail,
//! let all fail from one on (as if the process had been killed there: what was done stays), or shorten writes. It also
//! remembers the changes with their data, and [`crashes`](Disk::crashes) rebuilds what a power cut could leave.
//!
//! # What a power cut leaves
//! The model is what POSIX promises, and no more, but for renames, which are taken to be atomic, as they are on every
//! file system with a journal:
//!
//! - A file's content is that of its last sync, or any of: all that was written since, as many zeros, half of it. So is
//!   its length.
//! - A name (created, renamed, removed) is certain once its directory was synced after it; for a rename that is the
//!   directory of the new name. Before, each may have happened or not, one by one, in any order. To sync a file says
//!   nothing about its name.
//! - A directory is a name in the directory above. If that is lost, so is all below, synced or not.
//! - A sync of the file system makes all certain.
//!
//! # How many states are looked at
//! One cut after every change. In each, of `n` uncertain names all 2^n choices if `n` is at most [`ALL_SUBSETS`]; else none,
//! all, every beginning of the sequence, each alone, all but each, and [`RANDOM_SUBSETS`] more. Each with the four contents
//! above, all uncertain files alike. Temporary files (they, or a directory above, are called `tmp_*`, which promises nothing to anybody) are
//! there with zeros whenever they may be. States that differ in nothing else are looked at once for each number of
//! promises.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::io::Rng;

/// Up to so many uncertain names, all choices are tried.
pub const ALL_SUBSETS: usize = 5;

/// So many more choices are tried when there are more names.
pub const RANDOM_SUBSETS: usize = 8;

/// A change. Paths are as the program gave them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// A file was created.
    Create(PathBuf),
    /// Bytes were written to a file at an offset.
    Write(PathBuf, u64, Vec<u8>),
    /// A file was cut or extended.
    SetLen(PathBuf, u64),
    /// A file's content was synced.
    Sync(PathBuf),
    /// The names in a directory were synced.
    SyncDir(PathBuf),
    /// Everything was synced.
    SyncAll,
    /// A file got another name, over what had it.
    Rename(PathBuf, PathBuf),
    /// A file lost its name.
    Remove(PathBuf),
    /// A directory was made.
    MakeDir(PathBuf),
    /// A directory was removed.
    RemoveDir(PathBuf),
    /// Something that no power cut takes back or brings: permissions, times, a close.
    Other(&'static str, PathBuf),
    /// The program was told that something is there for good.
    Promise(String),
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// The change of this number (from 0) fails, once.
    Fail(usize, io::ErrorKind),
    /// The change of this number and all after it fail and are not made.
    Stop(usize),
    /// Writes take this many bytes at most.
    Short(usize),
}

/// See the [module](self).
#[derive(Debug)]
pub struct Disk {
    root: PathBuf,
    /// Files below `root` as they were, and directories.
    base: BTreeMap<PathBuf, Option<Vec<u8>>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    ops: Vec<Op>,
    fault: Fault,
    count: usize,
    hit: bool,
}

impl Disk {
    /// What is below `root` now is on the disk for good; changes elsewhere are made, and not remembered.
    pub fn new(root: &Path) -> Disk {
        let mut base = BTreeMap::new();
        let mut left = vec![root.to_path_buf()];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(&dir).expect("list a directory") {
                let path = entry.expect("an entry").path();
                let content = match path.is_dir() {
                    true => None,
                    false => Some(fs::read(&path).expect("read a file")),
                };
                if content.is_none() {
                    left.push(path.clone());
                }
                base.insert(path, content);
            }
        }
        Disk { root: root.into(), base, state: Mutex::default() }
    }

    /// From now on this goes wrong. Changes are counted from 0 again.
    pub fn set_fault(&self, fault: Fault) {
        let mut state = self.lock();
        (state.fault, state.count, state.hit) = (fault, 0, false);
    }

    /// How many changes there were since [`set_fault`](Self::set_fault).
    pub fn count(&self) -> usize {
        self.lock().count
    }

    /// Whether something went wrong as asked for.
    pub fn was_hit(&self) -> bool {
        self.lock().hit
    }

    /// What was done so far.
    pub fn ops(&self) -> Vec<Op> {
        self.lock().ops.clone()
    }

    /// Remembers that the program relies on something from here on.
    pub fn promise(&self, what: impl Into<String>) {
        self.lock().ops.push(Op::Promise(what.into()));
    }

    /// Makes a change by `run`, unless something is to go wrong.
    pub fn step<T>(&self, op: Op, run: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.before()?;
        let done = run()?;
        self.remember(op);
        Ok(done)
    }

    /// Writes by `run`, which is given what it may take and says what it took.
    pub fn write(
        &self,
        path: &Path,
        at: u64,
        bytes: &[u8],
        run: impl FnOnce(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.before()?;
        let most = match self.lock().fault {
            Fault::Short(most) => bytes.len().min(most),
            _ => bytes.len(),
        };
        let taken = run(&bytes[..most])?;
        self.remember(Op::Write(path.into(), at, bytes[..taken].to_vec()));
        Ok(taken)
    }

    fn before(&self) -> io::Result<()> {
        let mut state = self.lock();
        let number = state.count;
        state.count += 1;
        let failure = match state.fault {
            Fault::Fail(at, kind) if at == number => Some(kind),
            Fault::Stop(at) if number >= at => Some(io::ErrorKind::Other),
            _ => None,
        };
        state.hit |= failure.is_some() || matches!(state.fault, Fault::Short(_));
        failure.map_or(Ok(()), |kind| Err(io::Error::new(kind, "the disk was told to fail here")))
    }

    fn remember(&self, op: Op) {
        self.lock().ops.push(op);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rebuilds in `dir`, which must not exist, one after the other the states that a power cut could leave of `root`,
    /// and calls `check` with each: the promises made before the cut, and a description of the state. How many there were.
    pub fn crashes(&self, dir: &Path, mut check: impl FnMut(&[String], &str)) -> usize {
        let ops = self.ops();
        let mut seen = HashSet::new();
        for cut in 0..=ops.len() {
            let world = World::of(self, &ops[..cut]);
            for (names, which) in world.choices() {
                for content in Content::ALL {
                    let files = world.files(&names, content);
                    let mut named = files.clone();
                    named.retain(|path, _| !is_temporary(path));
                    if !seen.insert((named, world.promises.len())) {
                        continue;
                    }
                    let _ = fs::remove_dir_all(dir);
                    fs::create_dir_all(dir).expect("make the directory of a state");
                    for (path, bytes) in &files {
                        let to = dir.join(path.strip_prefix(&self.root).expect("a path below the root"));
                        match bytes {
                            None => fs::create_dir_all(&to).expect("make a directory"),
                            Some(bytes) => fs::write(&to, bytes).expect("write a file"),
                        }
                    }
                    let last = cut.checked_sub(1).map(|last| format!("{:?}", Brief(&ops[last])));
                    let last = last.unwrap_or_else(|| "nothing".into());
                    check(&world.promises, &format!("cut after {cut} changes ({last}), {which}, {content:?}"));
                }
            }
        }
        let _ = fs::remove_dir_all(dir);
        seen.len()
    }
}

/// An operation without its data.
struct Brief<'a>(&'a Op);

impl std::fmt::Debug for Brief<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Op::Write(path, at, bytes) => write!(f, "Write({path:?}, {at}, {} bytes)", bytes.len()),
            op => op.fmt(f),
        }
    }
}

/// What became of bytes that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Lost,
    Kept,
    Zero,
    Half,
}

impl Content {
    const ALL: [Content; 4] = [Content::Lost, Content::Kept, Content::Zero, Content::Half];
}

#[derive(Debug, Clone, Default)]
struct File {
    /// As of the last sync.
    synced: Vec<u8>,
    now: Vec<u8>,
}

impl File {
    fn after(&self, content: Content) -> Vec<u8> {
        let common = self.synced.iter().zip(&self.now).take_while(|(a, b)| a == b).count();
        match content {
            Content::Lost => self.synced.clone(),
            Content::Kept => self.now.clone(),
            Content::Zero => {
                let mut bytes = self.now[..common].to_vec();
                bytes.resize(self.now.len(), 0);
                bytes
            }
            Content::Half => self.now[..common + (self.now.len() - common) / 2].to_vec(),
        }
    }
}

fn is_temporary(path: &Path) -> bool {
    path.iter().any(|name| name.to_string_lossy().starts_with("tmp_"))
}

/// A change of names.
#[derive(Debug, Clone)]
struct Naming {
    kind: NamingKind,
    certain: bool,
}

#[derive(Debug, Clone)]
enum NamingKind {
    Add(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Remove(PathBuf),
    MakeDir(PathBuf),
}

impl NamingKind {
    /// The directory whose sync makes it certain.
    fn dir(&self) -> Option<&Path> {
        match self {
            NamingKind::Add(path, _)
            | NamingKind::Rename(_, path, _)
            | NamingKind::Remove(path)
            | NamingKind::MakeDir(path) => path.parent(),
        }
    }
}

/// Which changes of names a power cut lets stand.
type Choice = Vec<bool>;

/// The files of a state by path; `None`: a directory.
type Files = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// What was done before a cut.
struct World {
    root: PathBuf,
    files: Vec<File>,
    /// The names before it all.
    base: BTreeMap<PathBuf, Option<usize>>,
    namings: Vec<Naming>,
    promises: Vec<String>,
}

impl World {
    fn of(disk: &Disk, ops: &[Op]) -> World {
        let mut world = World {
            root: disk.root.clone(),
            files: Vec::new(),
            base: BTreeMap::new(),
            namings: Vec::new(),
            promises: Vec::new(),
        };
        // Where files are as long as nothing is lost.
        let mut names: HashMap<PathBuf, usize> = HashMap::new();
        for (path, content) in &disk.base {
            let file = content.as_ref().map(|bytes| {
                world.files.push(File { synced: bytes.clone(), now: bytes.clone() });
                world.files.len() - 1
            });
            world.base.insert(path.clone(), file);
            names.extend(file.map(|file| (path.clone(), file)));
        }
        let inside = |path: &Path| path.starts_with(&disk.root);
        for op in ops {
            match op {
                Op::Promise(what) => world.promises.push(what.clone()),
                Op::SyncAll => {
                    world.files.iter_mut().for_each(|file| file.synced = file.now.clone());
                    world.namings.iter_mut().for_each(|naming| naming.certain = true);
                }
                Op::SyncDir(dir) => {
                    for naming in &mut world.namings {
                        naming.certain |= naming.kind.dir() == Some(dir);
                    }
                }
                Op::Create(path) if inside(path) => {
                    world.files.push(File::default());
                    let file = world.files.len() - 1;
                    names.insert(path.clone(), file);
                    world.name(NamingKind::Add(path.clone(), file));
                }
                Op::Write(path, at, bytes) => {
                    let Some(file) = names.get(path).and_then(|&file| world.files.get_mut(file)) else { continue };
                    let (at, end) = (*at as usize, *at as usize + bytes.len());
                    file.now.resize(file.now.len().max(end), 0);
                    file.now[at..end].copy_from_slice(bytes);
                }
                Op::SetLen(path, len) => {
                    let Some(file) = names.get(path).and_then(|&file| world.files.get_mut(file)) else { continue };
                    file.now.resize(*len as usize, 0);
                }
                Op::Sync(path) => {
                    let Some(file) = names.get(path).and_then(|&file| world.files.get_mut(file)) else { continue };
                    file.synced = file.now.clone();
                }
                Op::Rename(from, to) => {
                    let Some(file) = names.remove(from) else { continue };
                    names.insert(to.clone(), file);
                    world.name(NamingKind::Rename(from.clone(), to.clone(), file));
                }
                Op::Remove(path) => {
                    if names.remove(path).is_some() {
                        world.name(NamingKind::Remove(path.clone()));
                    }
                }
                Op::MakeDir(path) if inside(path) => world.name(NamingKind::MakeDir(path.clone())),
                Op::RemoveDir(path) if inside(path) => world.name(NamingKind::Remove(path.clone())),
                Op::Create(_) | Op::MakeDir(_) | Op::RemoveDir(_) | Op::Other(..) => {}
            }
        }
        world
    }

    fn name(&mut self, kind: NamingKind) {
        self.namings.push(Naming { kind, certain: false });
    }

    /// What of the names may stand.
    fn choices(&self) -> Vec<(Choice, String)> {
        let matters = |naming: &Naming| match &naming.kind {
            NamingKind::Add(path, _) | NamingKind::Remove(path) => !is_temporary(path),
            NamingKind::Rename(..) | NamingKind::MakeDir(_) => true,
        };
        let open = |naming: &Naming| !naming.certain && matters(naming);
        let open: Vec<usize> = (0..self.namings.len()).filter(|&at| open(&self.namings[at])).collect();
        let n = open.len();
        let mut sets: BTreeSet<Vec<usize>> = BTreeSet::new();
        if n <= ALL_SUBSETS {
            sets.extend((0..1usize << n).map(|bits| (0..n).filter(|at| bits >> at & 1 == 1).collect()));
        } else {
            sets.extend((0..=n).map(|end| (0..end).collect()));
            sets.extend((0..n).map(|one| vec![one]));
            sets.extend((0..n).map(|but| (0..n).filter(|&at| at != but).collect()));
            let mut rng = Rng::new(n as u64);
            for _ in 0..RANDOM_SUBSETS {
                sets.insert((0..n).filter(|_| rng.below(2) == 0).collect());
            }
        }
        sets.into_iter()
            .map(|set| {
                let created = |kind: &NamingKind| matches!(kind, NamingKind::Add(path, _) if is_temporary(path));
                let stands = |naming: &Naming| naming.certain || created(&naming.kind);
                let mut choice: Choice = self.namings.iter().map(stands).collect();
                for &at in &set {
                    choice[open[at]] = true;
                }
                (choice, format!("uncertain names {set:?} of {n}"))
            })
            .collect()
    }

    /// The files there are if these names stand.
    fn files(&self, choice: &Choice, content: Content) -> Files {
        let mut names = self.base.clone();
        for (naming, _) in self.namings.iter().zip(choice).filter(|(_, stands)| **stands) {
            match &naming.kind {
                NamingKind::Add(path, file) => {
                    names.insert(path.clone(), Some(*file));
                }
                NamingKind::Rename(from, to, file) => {
                    if names.get(from) == Some(&Some(*file)) {
                        names.remove(from);
                    }
                    names.insert(to.clone(), Some(*file));
                }
                NamingKind::Remove(path) => {
                    names.remove(path);
                }
                NamingKind::MakeDir(path) => {
                    names.insert(path.clone(), None);
                }
            }
        }
        // Sorted, so that a directory comes before what is in it.
        let mut there: Files = BTreeMap::new();
        for (path, file) in &names {
            let above = path.parent().filter(|above| *above != self.root);
            if above.is_some_and(|above| there.get(above) != Some(&None)) {
                continue; // its directory is lost
            }
            let content = if is_temporary(path) { Content::Zero } else { content };
            there.insert(path.clone(), file.map(|file| self.files[file].after(content)));
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many promises were made, and the files by name.
    type Seen = (usize, Vec<(String, Vec<u8>)>);

    /// The states of a file `a` that is written, synced or not, and renamed to `b`.
    fn states(synced: bool, dir_synced: bool) -> BTreeSet<Seen> {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("old"), b"old").unwrap();
        let disk = Disk::new(&root);
        let (a, b) = (root.join("a"), root.join("b"));
        let nothing = || Ok(());
        disk.step(Op::Create(a.clone()), nothing).unwrap();
        disk.write(&a, 0, b"12", |bytes| Ok(bytes.len())).unwrap();
        if synced {
            disk.step(Op::Sync(a.clone()), nothing).unwrap();
        }
        disk.step(Op::Rename(a, b), nothing).unwrap();
        if dir_synced {
            disk.step(Op::SyncDir(root), nothing).unwrap();
        }
        disk.promise("b");
        let dir = temp.path().join("state");
        let mut states = BTreeSet::new();
        disk.crashes(&dir, |promises, _| {
            let mut files: Vec<_> = fs::read_dir(&dir)
                .unwrap()
                .map(|entry| entry.unwrap())
                .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
                .filter(|(name, _)| name != "old")
                .collect();
            files.sort();
            states.insert((promises.len(), files));
        });
        states
    }

    #[test]
    fn a_power_cut_leaves_what_was_synced() {
        let b = |bytes: &[u8]| vec![("b".to_owned(), bytes.to_vec())];
        let promised = |states: BTreeSet<Seen>| -> BTreeSet<Vec<_>> {
            states.into_iter().filter(|(promises, _)| *promises == 1).map(|(_, files)| files).collect()
        };
        assert_eq!(promised(states(true, true)), BTreeSet::from([b(b"12")]));
        let all = promised(states(false, true));
        assert_eq!(all, BTreeSet::from([b(b""), b(b"12"), b(b"\0\0"), b(b"1")]));
        let all = promised(states(true, false));
        assert!(all.contains(&vec![]) && all.contains(&b(b"12")) && all.contains(&vec![("a".into(), b"12".to_vec())]));
    }

    #[test]
    fn faults() {
        let temp = tempfile::tempdir().unwrap();
        let disk = Disk::new(temp.path());
        let try_it = |fault| {
            disk.set_fault(fault);
            let steps = || (0..4).map(|_| disk.step(Op::Other("x", "y".into()), || Ok(())).is_ok()).collect::<Vec<_>>();
            steps()
        };
        assert_eq!(try_it(Fault::None), [true; 4]);
        assert_eq!(try_it(Fault::Fail(1, io::ErrorKind::StorageFull)), [true, false, true, true]);
        assert_eq!(try_it(Fault::Stop(1)), [true, false, false, false]);
        assert!(disk.was_hit() && disk.count() == 4);
        disk.set_fault(Fault::Short(3));
        assert_eq!(disk.write(Path::new("f"), 0, b"12345", |bytes| Ok(bytes.len())).unwrap(), 3);
    }
}
