// An index as a sorted list that is edited the slow way, and a driver that makes the same changes to an `Index` and to the
// list and compares the two after each. `tests/it/model.rs` feeds it from proptest, the target `ops_index` from bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io::{self, Write};
use std::path::Path;

use hashfile::lock::{self, LockFile};
use hashfile::publish;
use object::{HashKind, ObjectId, ObjectKind, object_id};
use packstone_index::ext::Stages;
use packstone_index::file::{IndexFile, SaveOptions, save, shared_name};
use packstone_index::source::ByteSource;
use packstone_index::trees::{ObjectAccess, TreeError, WriteTreeOptions, verify_cache_tree, write_tree};
use packstone_index::{
    AddOptions, Added, Batch, Bump, EditError, Flags, Index, Mode, NewEntry, ReadOptions, Stage, Stat, Time, Version,
    WriteError, WriteOptions,
};

/// Names that are directories of each other, with others between a name and what is below it. Two of them are longer than
/// an entry's flags can say.
pub(crate) fn paths() -> Vec<Vec<u8>> {
    let short =
        ["a", "a-x", "a.b", "a/b", "a/b-c", "a/b.c", "a/b/c", "a/b/c/d", "a/b0", "a0", "a0/b", "ab", "b", "b/a"];
    let long = [4095, 5000].map(|len| [&b"a/"[..], &vec![b'x'; len - 2]].concat());
    short.map(|path| path.as_bytes().to_vec()).into_iter().chain(long).collect()
}

/// An entry, and what is known of it besides.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) path: Vec<u8>,
    pub(crate) stage: Stage,
    pub(crate) mode: Mode,
    pub(crate) id: ObjectId,
    pub(crate) stat: Stat,
    pub(crate) flags: Flags,
    pub(crate) monitored: bool,
    pub(crate) up_to_date: bool,
}

impl std::fmt::Debug for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.get(..20).unwrap_or(&self.path).escape_ascii();
        let (mode, stage, id) = (self.mode.0, self.stage as u8, self.id.as_bytes()[0]);
        let (size, Flags { assume_valid, skip_worktree, intent_to_add }) = (self.stat.size, self.flags);
        write!(f, "{path} {mode:o} stage {stage} id {id} size {size}")?;
        let marks = [assume_valid, skip_worktree, intent_to_add, self.monitored, self.up_to_date];
        write!(
            f,
            " {}",
            String::from_iter(marks.into_iter().zip("vwimu".chars()).map(|(yes, c)| if yes { c } else { '-' }))
        )
    }
}

impl Item {
    pub(crate) fn entry(&self) -> NewEntry<'_> {
        let (mut entry, stage) = (NewEntry::new(&self.path, self.mode, self.id), self.stage);
        (entry.stage, entry.stat, entry.flags) = (stage, self.stat, self.flags);
        entry
    }

    fn key(&self) -> (&[u8], Stage) {
        (&self.path, self.stage)
    }

    /// Unless it was looked at, git takes it for changed if its file may have been written after the index was.
    fn is_doubtful(&self, written: Time) -> bool {
        let since = written.secs != 0 && self.stat.mtime.secs >= written.secs;
        since && !self.up_to_date && self.mode != Mode(0o160_000)
    }
}

fn below(path: &[u8], dir: &[u8]) -> bool {
    path.strip_prefix(dir).is_some_and(|rest| rest.starts_with(b"/"))
}

fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    std::iter::once(0).chain(ends).map(|end| &path[..end])
}

/// What an index has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) items: Vec<Item>,
    pub(crate) undo: BTreeMap<Vec<u8>, Stages>,
    /// Directories whose tree is remembered.
    pub(crate) remembered: BTreeSet<Vec<u8>>,
    pub(crate) token: Option<Vec<u8>>,
}

impl Model {
    pub(crate) fn new() -> Self {
        Model { items: Vec::new(), undo: BTreeMap::new(), remembered: BTreeSet::new(), token: None }
    }

    fn changed(&mut self, path: &[u8]) {
        for dir in parents(path) {
            self.remembered.remove(dir);
        }
        self.remembered.retain(|dir| dir != path && !below(dir, path));
    }

    fn at(&self, path: &[u8], stage: Stage) -> Option<usize> {
        self.items.iter().position(|item| item.key() == (path, stage))
    }

    /// Removes what is to go; conflicts are recorded.
    fn resolve(&mut self, goes: impl Fn(&Item) -> bool) -> usize {
        let (gone, stays): (Vec<_>, Vec<_>) = std::mem::take(&mut self.items).into_iter().partition(goes);
        self.items = stays;
        for item in &gone {
            if let Some(at) = (item.stage as usize).checked_sub(1) {
                self.undo.entry(item.path.clone()).or_default()[at] = Some((item.mode, item.id));
            }
            self.changed(&item.path);
        }
        gone.len()
    }

    pub(crate) fn add(&mut self, new: &Item, options: &AddOptions) -> Result<Added, EditError> {
        let path = &new.path[..];
        let same = self.at(path, new.stage);
        let known = self.items.iter().any(|item| item.path == path);
        if !known && !options.add {
            return Err(EditError::NotThere { path: path.into() });
        }
        let clash = |item: &Item| item.stage == new.stage && (below(&item.path, path) || below(path, &item.path));
        if let Some(other) = self.items.iter().find(|item| clash(item))
            && !options.replace
        {
            return Err(EditError::FileDirectory { path: path.into(), other: other.path.clone() });
        }
        self.resolve(clash);
        if new.stage == Stage::Merged {
            self.resolve(|item| item.path == path && item.stage != Stage::Merged);
        }
        if same.is_some_and(|at| self.items.get(at).is_some_and(|item| item.entry() == new.entry())) {
            return Ok(Added::Unchanged(same.unwrap_or_default()));
        }
        self.changed(path);
        let new = Item { monitored: false, up_to_date: false, ..new.clone() };
        match self.at(path, new.stage) {
            Some(at) => {
                self.items[at] = new;
                Ok(Added::Replaced(at))
            }
            None => {
                let at = self.items.iter().filter(|item| item.key() < new.key()).count();
                self.items.insert(at, new);
                Ok(Added::Inserted(at))
            }
        }
    }

    fn remove_stage(&mut self, path: &[u8], stage: Stage) -> bool {
        let Some(at) = self.at(path, stage) else { return false };
        self.items.remove(at);
        self.changed(path);
        true
    }

    fn directories(&self) -> BTreeSet<&[u8]> {
        std::iter::once(&b""[..]).chain(self.items.iter().flat_map(|item| parents(&item.path))).collect()
    }

    /// What a file keeps of it.
    fn stored(&mut self, written: Time, null_ids: bool) {
        for item in &mut self.items {
            if item.is_doubtful(written) {
                item.stat.size = 0;
            }
            item.up_to_date = false;
            item.monitored &= self.token.is_some();
        }
        if null_ids {
            self.remembered.clear();
        }
    }
}

/// One change to an index, from eight bytes: any eight are one.
#[derive(Debug, Clone)]
enum Op {
    Add(Item, AddOptions),
    Remove(Vec<u8>),
    RemoveStage(Vec<u8>, Stage),
    RemoveDir(Vec<u8>),
    SetStat(usize, Stat),
    SetFlags(usize, Flags),
    SetMode(usize, Mode),
    SetId(usize, ObjectId),
    /// The next so many operations as one, those of them that a batch can hold.
    Batch(usize, AddOptions),
    /// As many, all that they add as the whole content.
    ReplaceEntries(usize),
    SetMonitored(usize, bool),
    SetUpToDate(usize, bool),
    SetToken(Option<Vec<u8>>),
    ForgetUndo(Vec<u8>),
    WriteTree,
    /// Written, with a disk that is full after some bytes first, and read.
    Rewrite {
        version: Version,
        table: Option<u32>,
        end: bool,
        skip_hash: bool,
        full_after: u64,
        nulls: bool,
    },
    Save {
        version: Version,
        split: Option<bool>,
        percent: u32,
        whole: bool,
        reload: bool,
    },
}

impl Op {
    fn new(bytes: &[u8; 8], kind: HashKind, paths: &[Vec<u8>]) -> Op {
        let [op, path, stage, mode, id, stat, flags, more] = *bytes;
        let (at, yes) = (usize::from(path), more & 1 != 0);
        let path = paths[at % paths.len()].clone();
        let stage = Stage::from_bits((stage % 8).saturating_sub(4));
        let mode = Mode([0o100_644, 0o100_755, 0o120_000, 0o160_000][usize::from(mode % 4)]);
        let id = match id {
            255 => kind.null(),
            id => ObjectId::from_prefix(&[id % 4 + 1; 32], kind).expect("long enough"),
        };
        let stat = match stat % 4 {
            0 => Stat::default(),
            3 => Stat { mtime: Time { secs: u32::MAX, nanos: 0 }, size: 7, ..Stat::default() }, // after any index is written
            n => Stat {
                mtime: Time { secs: n.into(), nanos: 3 },
                ino: u32::from(n) << 24,
                size: n.into(),
                ..Stat::default()
            },
        };
        let bit = |n: u8| flags & 0x80 != 0 && flags & n != 0;
        let flags = Flags { assume_valid: bit(1), skip_worktree: bit(2), intent_to_add: bit(4) };
        let options = AddOptions::default().add(more & 0x60 != 0).replace(more & 0x18 != 0);
        let version = if flags.assume_valid || yes { Version::V4 } else { Version::V2 };
        match op % 32 {
            0..=8 => {
                let item = Item { path, stage, mode, id, stat, flags, monitored: false, up_to_date: false };
                Op::Add(item, options)
            }
            9..=10 => Op::Remove(path),
            11 => Op::RemoveStage(path, stage),
            12 => Op::RemoveDir(path),
            13 => Op::SetStat(at, stat),
            14 => Op::SetFlags(at, flags),
            15 => Op::SetMode(at, mode),
            16 => Op::SetId(at, id),
            17..=19 => Op::Batch(1 + at % 12, options),
            20 => Op::ReplaceEntries(at % 12),
            21..=22 => Op::SetMonitored(at, more % 4 != 0),
            23 => Op::SetUpToDate(at, yes),
            24 => Op::SetToken((more % 4 != 0).then(|| vec![b't', op])),
            25 => Op::ForgetUndo(path),
            26..=27 => Op::WriteTree,
            28..=29 => Op::Rewrite {
                version,
                table: (more & 2 != 0).then_some(u32::from(more >> 4)),
                end: more & 4 != 0,
                skip_hash: more & 8 != 0,
                full_after: at as u64 * 9,
                nulls: flags != Flags::default() || more & 16 != 0,
            },
            _ => Op::Save {
                version,
                split: (more & 6 != 0).then_some(more & 6 != 2),
                percent: [0, 20, 100][at % 3],
                whole: more & 0x38 == 0x38,
                reload: more & 0x40 != 0,
            },
        }
    }
}

/// Where the next index comes from.
enum Source {
    New,
    /// An index, and the shared one it builds on.
    Memory(Vec<u8>, Option<Vec<u8>>),
    Disk(IndexFile),
}

/// Takes so many bytes, then the disk is full.
struct Full(Vec<u8>, u64);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let most = usize::try_from(self.1).unwrap_or(usize::MAX).min(bytes.len());
        if most == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.1 -= most as u64;
        self.0.extend_from_slice(&bytes[..most]);
        Ok(most)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Hashes trees and keeps none.
struct Nowhere(HashKind);

impl ObjectAccess for Nowhere {
    type Error = Infallible;

    fn read_tree(&mut self, _: &ObjectId, _: &mut Vec<u8>) -> Result<(), Infallible> {
        Ok(())
    }

    fn write_tree(&mut self, bytes: &[u8]) -> Result<ObjectId, Infallible> {
        Ok(object_id(self.0, ObjectKind::Tree, bytes).expect("no collision"))
    }

    fn contains(&mut self, _: &ObjectId, _: ObjectKind) -> Result<bool, Infallible> {
        Ok(true)
    }
}

/// Operations, for messages.
pub(crate) struct Script(pub(crate) HashKind, pub(crate) Vec<[u8; 8]>);

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let paths = paths();
        self.1.iter().try_for_each(|bytes| writeln!(f, "{:?}", Op::new(bytes, self.0, &paths)))
    }
}

/// Makes the changes to an index and to a model of it. Panics as soon as they differ.
pub(crate) fn run(Script(kind, bytes): &Script) {
    let (kind, paths) = (*kind, paths());
    let ops: Vec<Op> = bytes.iter().map(|bytes| Op::new(bytes, kind, &paths)).collect();
    let dir = tempfile::tempdir().expect("a folder");
    let mut driver = Driver { kind, model: Model::new(), paths, rest: &ops, dir: dir.path() };
    let mut source = Source::New;
    loop {
        let arena = Bump::new();
        let options = ReadOptions::new(kind).verify_checksum(true);
        let mut index = match &source {
            Source::New => Index::new(&arena, kind),
            Source::Memory(bytes, shared) => {
                Index::read(&arena, bytes, &options.shared(shared.as_deref())).expect("our own bytes")
            }
            Source::Disk(file) => file.read(&arena, &options).expect("our own file"),
        };
        assert!(!index.is_changed());
        driver.compare(&index);
        match driver.play(&mut index) {
            Some(next) => source = next,
            None => break,
        }
    }
}

struct Driver<'d> {
    kind: HashKind,
    model: Model,
    paths: Vec<Vec<u8>>,
    rest: &'d [Op],
    dir: &'d Path,
}

impl Driver<'_> {
    /// Plays until the index has to be read anew.
    fn play(&mut self, index: &mut Index<'_>) -> Option<Source> {
        while let Some((op, rest)) = self.rest.split_first() {
            self.rest = rest;
            let before = self.model.clone();
            let next = self.step(index, op);
            if next.is_some() {
                return next;
            }
            self.compare(index);
            let noted = |model: &Model| {
                let mut model = model.clone();
                model.items.iter_mut().for_each(|item| {
                    item.up_to_date = false;
                    item.monitored &= model.token.is_some();
                });
                model
            };
            let saved = matches!(op, Op::Save { .. });
            assert!(index.is_changed() || saved || noted(&before) == noted(&self.model), "{op:?} is a change");
        }
        None
    }

    fn step(&mut self, index: &mut Index<'_>, op: &Op) -> Option<Source> {
        let model = &mut self.model;
        match op {
            Op::Add(item, options) => {
                let mut after = model.clone();
                let expected = after.add(item, options);
                assert_eq!(index.add(&item.entry(), options), expected, "{op:?}");
                if expected.is_ok() {
                    *model = after;
                }
            }
            Op::Remove(path) => assert_eq!(index.remove(path), model.resolve(|item| item.path == *path)),
            Op::RemoveStage(path, stage) => {
                assert_eq!(index.remove_stage(path, *stage), model.remove_stage(path, *stage));
            }
            Op::RemoveDir(dir) => assert_eq!(index.remove_dir(dir), model.resolve(|item| below(&item.path, dir))),
            Op::SetStat(at, stat) => {
                let at = at % (model.items.len() + 1);
                index.set_stat(at, *stat);
                model.items.get_mut(at)?.stat = *stat;
            }
            Op::SetFlags(at, flags) => {
                let at = at % (model.items.len() + 1);
                index.set_flags(at, *flags);
                let item = model.items.get_mut(at)?;
                let in_tree = item.flags.intent_to_add != flags.intent_to_add;
                item.flags = *flags;
                let path = item.path.clone();
                if in_tree {
                    model.changed(&path);
                }
            }
            Op::SetMode(at, mode) => {
                let at = at % (model.items.len() + 1);
                index.set_mode(at, *mode);
                self.set(at, |item| item.mode = *mode);
            }
            Op::SetId(at, id) => {
                let at = at % (model.items.len() + 1);
                index.set_id(at, *id);
                self.set(at, |item| item.id = *id);
            }
            Op::Batch(count, options) => self.batch(index, *count, options),
            Op::ReplaceEntries(count) => {
                let (ops, rest) = self.rest.split_at((*count).min(self.rest.len()));
                self.rest = rest;
                let mut new = Model::new();
                for op in ops {
                    let Op::Add(item, _) = op else { continue };
                    new.add(item, &AddOptions::default().replace(true)).expect("all may be replaced");
                }
                for item in &mut new.items {
                    if let Some(old) = model.items.iter().find(|old| old.entry() == item.entry()) {
                        *item = old.clone();
                    }
                }
                index.replace_entries(new.items.iter().map(Item::entry)).expect("sorted entries");
                (model.items, model.remembered) = (new.items, BTreeSet::new());
            }
            Op::SetMonitored(at, yes) => {
                let at = at % (model.items.len() + 1);
                index.set_fsmonitor_valid(at, *yes);
                model.items.get_mut(at)?.monitored = *yes;
            }
            Op::SetUpToDate(at, yes) => {
                let at = at % (model.items.len() + 1);
                index.set_up_to_date(at, *yes);
                model.items.get_mut(at)?.up_to_date = *yes;
            }
            Op::SetToken(token) => {
                index.set_fsmonitor(token.as_deref());
                model.token.clone_from(token);
                model.items.iter_mut().for_each(|item| item.monitored &= token.is_some());
            }
            Op::ForgetUndo(path) => {
                assert_eq!(index.resolve_undo_mut().remove(path), model.undo.remove(path));
            }
            Op::WriteTree => self.write_tree(index),
            Op::Rewrite { .. } => return self.rewrite(index, op),
            Op::Save { .. } => return self.save(index, op),
        }
        None
    }

    fn set(&mut self, at: usize, set: impl FnOnce(&mut Item)) {
        let Some(item) = self.model.items.get_mut(at) else { return };
        let old = item.clone();
        set(item);
        if *item != old {
            (item.monitored, item.up_to_date) = (false, false);
            self.model.changed(&old.path);
        }
    }

    fn batch(&mut self, index: &mut Index<'_>, count: usize, options: &AddOptions) {
        let (ops, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        let mut batch = Batch::new();
        for op in ops {
            match op {
                Op::Add(item, _) => batch.put(item.entry()),
                Op::RemoveStage(path, stage) => batch.remove_stage(path, *stage),
                Op::Remove(path) => batch.remove(path),
                _ => {}
            }
        }
        let one_by_one = |options: &AddOptions| {
            let mut after = self.model.clone();
            for op in ops {
                match op {
                    Op::Add(item, _) => drop(after.add(item, options)?),
                    Op::RemoveStage(path, stage) => drop(after.remove_stage(path, *stage)),
                    Op::Remove(path) => drop(after.resolve(|item| item.path == *path)),
                    _ => {}
                }
            }
            Ok::<_, EditError>(after)
        };
        match (index.apply(&batch, options), one_by_one(options)) {
            (Ok(_), Ok(after)) => self.model = after,
            (Err(_), Err(_)) => {}
            // What the batch itself takes away is not in its way.
            (Ok(_), Err(_)) => self.model = one_by_one(&options.replace(true).add(true)).expect("all is allowed"),
            (Err(error), Ok(_)) => panic!("{error} at once, not one by one"),
        }
        // Of what is driven out and changed in other ways, too, only the outcome counts: an entry that goes and comes back is
        // one that stayed, with what is known about it.
        let touched = ops.iter().filter_map(|op| match op {
            Op::Add(item, _) => Some((&item.path, true)),
            Op::Remove(path) | Op::RemoveStage(path, _) => Some((path, false)),
            _ => None,
        });
        for (path, _) in touched.clone() {
            if touched.clone().any(|(other, put)| put && (below(other, path) || below(path, other))) {
                match index.resolve_undo().get(path) {
                    Some(stages) => drop(self.model.undo.insert(path.clone(), *stages)),
                    None => drop(self.model.undo.remove(path)),
                }
            }
        }
        for (at, item) in self.model.items.iter_mut().enumerate().take(index.len()) {
            item.monitored |= index.fsmonitor_valid(at);
            item.up_to_date |= index.is_up_to_date(at);
        }
        let still = self.model.directories().into_iter().filter(|dir| remembered(index, dir)).map(Into::into);
        let still: Vec<Vec<u8>> = still.collect();
        self.model.remembered.extend(still);
    }

    fn write_tree(&mut self, index: &mut Index<'_>) {
        let model = &mut self.model;
        let options = WriteTreeOptions::default().missing_ok(true);
        let refused = |item: &Item| item.stage != Stage::Merged || item.id.is_null();
        match write_tree(index, &mut Nowhere(self.kind), &options) {
            Ok(_) => {
                assert!(!model.items.iter().any(refused));
                model.remembered = model.directories().into_iter().map(Into::into).collect();
                let left_out: Vec<_> = model.items.iter().filter(|item| item.flags.intent_to_add).cloned().collect();
                for item in left_out {
                    for dir in parents(&item.path) {
                        model.remembered.remove(dir);
                    }
                }
            }
            Err(TreeError::Objects(never)) => match never {},
            Err(_) => assert!(model.items.iter().any(refused)),
        }
    }

    fn rewrite(&mut self, index: &mut Index<'_>, op: &Op) -> Option<Source> {
        let Op::Rewrite { version, table, end, skip_hash, full_after, nulls } = op else { return None };
        let options = WriteOptions::default()
            .offset_table(*table)
            .end_of_entries(*end)
            .skip_hash(*skip_hash)
            .allow_null_ids(*nulls)
            .threads(1 + usize::from(*end));
        index.set_version(*version);
        let model = &mut self.model;
        let shared = index.shared_base();
        if shared.is_some() {
            // Done before the first byte, since it decides what has to be written.
            model
                .items
                .iter_mut()
                .filter(|item| item.is_doubtful(index.timestamp()))
                .for_each(|item| item.stat.size = 0);
        }
        let null_ids = model.items.iter().any(|item| item.id.is_null());
        let partly = index.write_to(Full(Vec::new(), *full_after), &options);
        self.compare(index);
        let bytes = match index.write_to(Vec::new(), &options) {
            Err(WriteError::NullId { .. }) if null_ids && !nulls => return None,
            other => other.expect("room for all"),
        };
        assert!(!null_ids || *nulls, "a null id was written");
        let (bytes, written) = bytes;
        assert_eq!(written.len, bytes.len() as u64);
        assert_eq!(partly.is_ok(), *full_after >= written.len);
        if shared.is_none() {
            let extended = |item: &Item| item.flags.skip_worktree || item.flags.intent_to_add;
            let lowest = if self.model.items.iter().any(extended) { Version::V3 } else { Version::V2 };
            assert_eq!(written.version, if *version == Version::V4 { Version::V4 } else { lowest });
        }
        let trailer = &bytes[bytes.len() - self.kind.len()..];
        assert_eq!(trailer, written.checksum.as_bytes());
        assert_eq!(written.checksum.is_null(), *skip_hash);
        let shared = shared.map(|base| std::fs::read(self.dir.join(shared_name(&base))).expect("a shared index"));
        self.model.stored(index.timestamp(), null_ids);
        Some(Source::Memory(bytes, shared))
    }

    fn save(&mut self, index: &mut Index<'_>, op: &Op) -> Option<Source> {
        let Op::Save { version, split, percent, whole, reload } = op else { return None };
        index.set_version(*version);
        match split {
            Some(true) => index.set_split(),
            Some(false) => index.unset_split(),
            None => {}
        }
        let path = self.dir.join("index");
        let lock = LockFile::acquire(&path, &lock::Options::default().fsync(publish::Fsync::None)).expect("a lock");
        let mut options = SaveOptions::default().max_percent_change(*percent).as_whole(*whole);
        options = options.publish(publish::Options::default().fsync(publish::Fsync::None));
        let null_ids = self.model.items.iter().any(|item| item.id.is_null());
        let (timestamp, is_split) = (index.timestamp(), index.is_split() && !whole);
        match save(index, lock, &options) {
            Ok(_) => assert!(!null_ids),
            Err(WriteError::NullId { .. }) => {
                assert!(null_ids);
                // Which of them were looked at before the one without an id is not said.
                let doubtful = |item: &Item| item.is_doubtful(timestamp);
                for (at, item) in self.model.items.iter_mut().enumerate().filter(|(_, item)| doubtful(item)) {
                    item.stat.size = index.get(at).expect("as many").stat().size;
                }
                return None;
            }
            Err(error) => panic!("{error}"),
        }
        assert!(!index.is_changed() && index.timestamp().secs != 0);
        if is_split {
            let base = index.shared_base().expect("it builds on a shared index");
            assert!(!base.is_null() && self.dir.join(shared_name(&base)).exists());
        }
        if *reload {
            self.model.stored(timestamp, false);
            return Some(Source::Disk(IndexFile::open(&path, ByteSource::Heap).expect("readable").expect("there")));
        }
        let in_memory = |item: &Item, at: usize| index.get(at).is_some_and(|entry| entry.stat().size != item.stat.size);
        for (at, item) in self.model.items.iter_mut().enumerate() {
            if item.is_doubtful(timestamp) && in_memory(item, at) {
                item.stat.size = 0;
            }
        }
        None
    }

    fn compare(&self, index: &Index<'_>) {
        let items = &self.model.items;
        for (entry, item) in index.iter().zip(items) {
            assert!(NewEntry::from(entry) == item.entry(), "{entry:?} {:?} for {item:?}", entry.stat());
        }
        assert_eq!((index.len(), index.get(items.len())), (items.len(), None));
        for (at, item) in items.iter().enumerate() {
            assert_eq!(index.fsmonitor_valid(at), item.monitored, "{at} {item:?}");
            assert_eq!(index.is_up_to_date(at), item.up_to_date, "{at} {item:?}");
        }
        assert!(index.resolve_undo().iter().eq(self.model.undo.iter().map(|(path, stages)| (&path[..], stages))));
        assert_eq!(index.fsmonitor_token(), self.model.token.as_deref());
        assert_eq!(index.is_unmerged(), items.iter().any(|item| item.stage != Stage::Merged));
        for path in &self.paths {
            for stage in Stage::ALL {
                let found = items.binary_search_by(|item| item.key().cmp(&(path, stage)));
                assert_eq!(index.find(path, stage), found);
            }
            let positions = |test: &dyn Fn(&Item) -> bool| {
                items.iter().enumerate().filter(|(_, item)| test(item)).map(|(at, _)| at).collect::<Vec<_>>()
            };
            assert_eq!(index.range(path).collect::<Vec<_>>(), positions(&|item| item.path == *path));
            for prefix in [path.clone(), [path, &b"/"[..]].concat()] {
                let expected = positions(&|item| item.path.starts_with(&prefix));
                assert_eq!(index.prefix(&prefix).collect::<Vec<_>>(), expected);
            }
        }
        assert_eq!(verify_cache_tree(index).expect("no collision"), []);
        for dir in self.model.directories() {
            assert_eq!(remembered(index, dir), self.model.remembered.contains(dir), "tree of '{}'", dir.escape_ascii());
        }
    }
}

fn remembered(index: &Index<'_>, dir: &[u8]) -> bool {
    index.cache_tree().and_then(|tree| tree.valid(tree.find(dir)?)).is_some()
}
