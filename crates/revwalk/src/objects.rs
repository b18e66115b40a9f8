//! Marking all that is reachable from trees.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use object::{ObjectId, ObjectKind};
use odb::Observer;

use crate::error::WalkError;
use crate::numbering::{Numbering, Place};
use crate::set::{ObjectNr, ObjectSet};
use crate::trees::{Child, RawEntry, TreeReader, id_of};

/// Which blobs a walk takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum BlobRule {
    /// All of them.
    #[default]
    All,
    /// None; they are not even looked up.
    None,
    /// Those smaller than this many bytes.
    Below(u64),
}

/// What to do about an object that a tree names but the store lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Missing {
    /// Fail with [`WalkError::Missing`].
    #[default]
    Error,
    /// Go on without it.
    Allow,
}

/// Options of an [`ObjectWalk`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WalkOptions {
    /// Which blobs to take. Default: all.
    pub blobs: BlobRule,
    /// Take only trees and blobs less than this many levels below a root tree, which is at level
    /// 0. Default: no limit.
    pub tree_depth: Option<u64>,
    /// What to do about missing objects. Default: fail.
    pub missing: Missing,
    /// Bytes of decoded trees to keep at hand, all threads together. Default: 16 MiB.
    pub cache_bytes: usize,
    /// Threads that may work at once; they are started where there is enough to do. Default: 1.
    pub threads: usize,
    /// The largest tree to read, in bytes; at most 4 GiB - 1, which is the default.
    pub max_tree_bytes: u64,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self {
            blobs: BlobRule::All,
            tree_depth: None,
            missing: Missing::Error,
            cache_bytes: 16 << 20,
            threads: 1,
            max_tree_bytes: u64::from(u32::MAX),
        }
    }
}

impl WalkOptions {
    /// Sets [`blobs`](Self::blobs).
    #[must_use]
    pub fn blobs(mut self, blobs: BlobRule) -> Self {
        self.blobs = blobs;
        self
    }

    /// Sets [`tree_depth`](Self::tree_depth).
    #[must_use]
    pub fn tree_depth(mut self, depth: Option<u64>) -> Self {
        self.tree_depth = depth;
        self
    }

    /// Sets [`missing`](Self::missing).
    #[must_use]
    pub fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    /// Sets [`cache_bytes`](Self::cache_bytes).
    #[must_use]
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// Sets [`threads`](Self::threads).
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }
}

/// Objects at which a walk stops.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Boundary<'a> {
    /// The objects: neither taken nor entered.
    pub set: &'a ObjectSet,
    /// Whether all that is reachable from a member is a member too. Then entries that a tree
    /// shares with a member need no look-up.
    pub closed: bool,
    /// Objects that the store lacks, and that would be members: not missed.
    pub absent: Option<&'a HashSet<ObjectId>>,
}

impl<'a> Boundary<'a> {
    /// At the members of a set that is closed under reachability.
    pub fn closed(set: &'a ObjectSet) -> Self {
        Self { set, closed: true, absent: None }
    }

    /// At the members of any set.
    pub fn open(set: &'a ObjectSet) -> Self {
        Self { set, closed: false, absent: None }
    }

    /// Sets [`absent`](Self::absent).
    #[must_use]
    pub fn absent(mut self, absent: &'a HashSet<ObjectId>) -> Self {
        self.absent = Some(absent);
        self
    }
}

/// Marks everything reachable from trees in an [`ObjectSet`].
///
/// The walk goes level by level, and through each level in pack order, so that a tree's delta base is
/// at hand when its turn comes; entries that it shares with a base already visited cost nothing (see the
/// figures in the crate's README). Nothing recurses; memory is the set, two more of the trees to do,
/// and [`WalkOptions::cache_bytes`]. The result does not depend on [`WalkOptions::threads`].
///
/// A walk can be used for several sets one after another: decoded trees stay at hand.
pub struct ObjectWalk<'n> {
    numbering: &'n Numbering,
    options: WalkOptions,
    /// One for each thread, the first for this one.
    workers: Vec<Worker>,
    epoch: u32,
}

/// What walks have cost so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkStats {
    /// Trees decoded, delta bases included.
    pub trees: u64,
    /// Entries read from bytes.
    pub entries_read: u64,
    /// Entries taken over from a delta base without reading them.
    pub entries_carried: u64,
}

/// Fewer trees than this for each thread are not worth starting threads.
const TREES_PER_THREAD: u64 = 512;

/// Parts that a level is cut into for each thread: enough to even out, and few enough that the
/// delta bases lost at each cut do not matter.
const PARTS_PER_THREAD: u64 = 8;

impl<'n> ObjectWalk<'n> {
    /// A walk over the objects of `numbering`.
    pub fn new(numbering: &'n Numbering, options: WalkOptions) -> Self {
        let workers = vec![Worker::new(&options)];
        Self { numbering, options, workers, epoch: 0 }
    }

    /// What was read so far.
    pub fn stats(&self) -> WalkStats {
        let mut stats = WalkStats::default();
        for worker in &self.workers {
            stats.trees += worker.reader.decoded;
            stats.entries_read += worker.reader.entries_read;
            stats.entries_carried += worker.reader.entries_carried;
        }
        stats
    }

    pub(crate) fn reader(&mut self) -> (&'n Numbering, &mut TreeReader) {
        (self.numbering, &mut self.workers[0].reader)
    }

    /// Adds `roots`, which must be trees, and all that is reachable from them to `seen`.
    ///
    /// What is in `seen` beforehand is taken as visited with all that it reaches, and what is in
    /// `stop` is neither added nor entered.
    ///
    /// # Errors
    /// When an object is missing (unless allowed), damaged in all its copies, or not of the kind
    /// that the tree says, or when `observer` asks to stop. `seen` then holds a part.
    pub fn mark(
        &mut self,
        roots: impl IntoIterator<Item = ObjectId>,
        seen: &mut ObjectSet,
        stop: Option<Boundary<'_>>,
        observer: &dyn Observer,
    ) -> Result<(), WalkError> {
        if self.options.tree_depth == Some(0) {
            return Ok(());
        }
        let nothing = ObjectSet::new();
        let stop = stop.unwrap_or(Boundary::closed(&nothing));
        self.epoch = self.epoch.wrapping_add(1).max(1);
        let shared = Shared {
            numbering: self.numbering,
            options: &self.options,
            stop,
            observer,
            epoch: self.epoch,
            seen: SharedSet::new(std::mem::take(seen), self.numbering.packed_len()),
        };
        for worker in &mut self.workers {
            worker.found = ObjectSet::new();
            worker.recent.forget();
        }
        let result = shared.roots(roots).and_then(|roots| levels(&shared, &mut self.workers, roots));
        *seen = shared.seen.into_set();
        result
    }
}

/// Visits `todo`, then what that found, and so on.
fn levels(shared: &Shared<'_>, workers: &mut Vec<Worker>, mut todo: ObjectSet) -> Result<(), WalkError> {
    let mut level = 0u64;
    loop {
        let count = todo.count();
        // The entries of trees at the last level that counts lie too deep.
        if count == 0 || shared.options.tree_depth.is_some_and(|depth| level + 1 >= depth) {
            return Ok(());
        }
        let threads = (count / TREES_PER_THREAD).clamp(1, shared.options.threads.max(1) as u64);
        while (workers.len() as u64) < threads {
            workers.push(Worker::new(shared.options));
        }
        let mut next = ObjectSet::with_capacity(shared.numbering.packed_len());
        if threads == 1 {
            workers[0].visit(shared, &todo, 0..u32::MAX)?;
        } else {
            let parts = parts(&todo, count / (threads * PARTS_PER_THREAD));
            let (todo, turn) = (&todo, AtomicUsize::new(0));
            std::thread::scope(|scope| {
                let work = |worker: &mut Worker| -> Result<(), WalkError> {
                    while let Some(part) = parts.get(turn.fetch_add(1, Ordering::Relaxed)) {
                        worker.visit(shared, todo, part.clone())?;
                    }
                    Ok(())
                };
                let (first, others) = workers.split_at_mut(1);
                let others: Vec<_> = others
                    .iter_mut()
                    .take(threads as usize - 1)
                    .map(|worker| scope.spawn(move || work(worker)))
                    .collect();
                let mut result = work(&mut first[0]);
                for other in others {
                    // A panic is a bug in this crate: passed on, not turned into an answer.
                    let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    result = result.and(other);
                }
                result
            })?;
        }
        for worker in workers.iter_mut() {
            next.union_with(&worker.found);
            worker.found = ObjectSet::new();
        }
        todo = next;
        level += 1;
    }
}

/// Cuts the numbers into ranges with about `size` members of `set` each.
fn parts(set: &ObjectSet, size: u64) -> Vec<std::ops::Range<u32>> {
    let (mut parts, mut start, mut held) = (Vec::new(), 0, 0);
    for (at, word) in set.words().iter().enumerate() {
        held += u64::from(word.count_ones());
        let end = (at as u32 + 1).saturating_mul(u64::BITS);
        if held >= size {
            parts.push(start..end);
            (start, held) = (end, 0);
        }
    }
    parts.push(start..u32::MAX);
    parts
}

/// What all threads of a walk look at.
struct Shared<'a> {
    numbering: &'a Numbering,
    options: &'a WalkOptions,
    stop: Boundary<'a>,
    observer: &'a dyn Observer,
    epoch: u32,
    seen: SharedSet,
}

impl Shared<'_> {
    fn roots(&self, roots: impl IntoIterator<Item = ObjectId>) -> Result<ObjectSet, WalkError> {
        let mut todo = ObjectSet::with_capacity(self.numbering.packed_len());
        for root in roots {
            if let Some(nr) = self.number_of(&root, Child::Tree)?
                && !self.stop.set.contains(nr)
                && self.seen.insert(nr)
            {
                todo.insert(nr);
            }
        }
        Ok(todo)
    }

    #[inline]
    fn number_of(&self, id: &ObjectId, child: Child) -> Result<Option<ObjectNr>, WalkError> {
        match self.numbering.number_of(id)? {
            None if self.options.missing == Missing::Allow => Ok(None),
            None if self.stop.absent.is_some_and(|absent| absent.contains(id)) => Ok(None),
            None if child == Child::Tree => Err(WalkError::MissingTree { id: *id }),
            None => Err(WalkError::Missing { id: *id }),
            found => Ok(found),
        }
    }
}

/// A set that several threads add to: bits for what is in packs, a lock for the rest.
struct SharedSet {
    packed: Vec<AtomicU64>,
    outside: Mutex<ObjectSet>,
}

impl SharedSet {
    fn new(mut set: ObjectSet, packed_len: u32) -> Self {
        // The word in which packed and other numbers meet is among the bits.
        let words = packed_len.div_ceil(u64::BITS) as usize;
        let all = std::mem::take(set.words_mut(packed_len));
        let mut outside = ObjectSet::new();
        for (at, &word) in all.iter().enumerate().skip(words) {
            outside.words_mut((at as u32 + 1) * u64::BITS)[at] = word;
        }
        let packed = all.into_iter().take(words).map(AtomicU64::new).collect();
        Self { packed, outside: Mutex::new(outside) }
    }

    /// Adds `nr`; `true` for the one who was first.
    #[inline]
    fn insert(&self, nr: ObjectNr) -> bool {
        let bit = 1u64 << (nr.get() % u64::BITS);
        match self.packed.get((nr.get() / u64::BITS) as usize) {
            // Most are there already, and a look is cheaper than an exchange.
            Some(word) => word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0,
            None => self.outside.lock().unwrap_or_else(PoisonError::into_inner).insert(nr),
        }
    }

    fn contains(&self, nr: ObjectNr) -> bool {
        match self.packed.get((nr.get() / u64::BITS) as usize) {
            Some(word) => word.load(Ordering::Relaxed) >> (nr.get() % u64::BITS) & 1 == 1,
            None => self.outside.lock().unwrap_or_else(PoisonError::into_inner).contains(nr),
        }
    }

    fn into_set(self) -> ObjectSet {
        let mut set = ObjectSet::from_words(self.packed.into_iter().map(AtomicU64::into_inner).collect());
        set.union_with(&self.outside.into_inner().unwrap_or_else(PoisonError::into_inner));
        set
    }
}

/// One thread's part of a walk.
struct Worker {
    reader: TreeReader,
    recent: Recent,
    /// Trees for the next level.
    found: ObjectSet,
}

impl Worker {
    fn new(options: &WalkOptions) -> Self {
        let cache = options.cache_bytes / options.threads.max(1);
        Self { reader: TreeReader::new(cache, options.max_tree_bytes), recent: Recent::new(), found: ObjectSet::new() }
    }

    /// Marks the entries of the trees in `todo` that lie within `part`.
    fn visit(&mut self, shared: &Shared<'_>, todo: &ObjectSet, part: std::ops::Range<u32>) -> Result<(), WalkError> {
        let known = |nr: ObjectNr| shared.stop.closed && shared.stop.set.contains(nr);
        let Worker { reader, recent, found } = self;
        let mut from = part.start;
        while let Some(nr) = todo.next_at_or_after(ObjectNr::new(from)).filter(|nr| nr.get() < part.end) {
            from = nr.get() + 1;
            reader.read_and_mark(shared.numbering, nr, shared.epoch, &known, &mut |entry| {
                mark_entry(shared, recent, found, entry)
            })?;
            if shared.observer.cancelled() {
                return Err(WalkError::Cancelled);
            }
        }
        Ok(())
    }
}

#[inline]
fn mark_entry(
    shared: &Shared<'_>,
    recent: &mut Recent,
    found: &mut ObjectSet,
    entry: RawEntry<'_>,
) -> Result<(), WalkError> {
    let blobs = shared.options.blobs;
    if entry.child == Child::Gitlink || entry.child == Child::Blob && blobs == BlobRule::None || recent.met(entry.id) {
        return Ok(());
    }
    let id = id_of(entry.id)?;
    let Some(nr) = shared.number_of(&id, entry.child)? else { return Ok(()) };
    if shared.stop.set.contains(nr) {
        return Ok(());
    }
    match (entry.child, blobs) {
        (Child::Tree, _) => {
            if shared.seen.insert(nr) {
                found.insert(nr);
            }
        }
        (_, BlobRule::Below(limit)) => {
            if !shared.seen.contains(nr) && size_of_blob(shared.numbering, nr)? < limit {
                shared.seen.insert(nr);
            }
        }
        _ => {
            shared.seen.insert(nr);
        }
    }
    Ok(())
}

/// Ids met a short while ago, each in the one place where it can be.
///
/// The first tree of each delta chain is read entry by entry, and most of its entries are those of the
/// chain before; this spares them the look-up.
struct Recent {
    slots: Vec<[u8; Self::ID_LEN]>,
}

impl Recent {
    /// The longest id there is.
    const ID_LEN: usize = 32;
    /// Half a megabyte: at home in a second-level cache, and more entries than most trees have.
    const SLOTS: usize = 1 << 14;

    fn new() -> Self {
        let mut recent = Self { slots: vec![[0; Self::ID_LEN]; Self::SLOTS] };
        recent.forget();
        recent
    }

    /// Remembers nothing any more.
    fn forget(&mut self) {
        // Ids of a different slot, so that none is found before it was met.
        for (slot, id) in self.slots.iter_mut().enumerate() {
            id[..2].copy_from_slice(&((slot ^ 1) as u16).to_le_bytes());
        }
    }

    /// Whether `id` is remembered. It is from now on.
    #[inline]
    fn met(&mut self, id: &[u8]) -> bool {
        // Lengths known to the compiler make each comparison a few instructions.
        match id.len() {
            20 => self.met_of::<20>(id),
            32 => self.met_of::<32>(id),
            _ => false,
        }
    }

    #[inline]
    fn met_of<const LEN: usize>(&mut self, id: &[u8]) -> bool {
        let Some(id) = id.first_chunk::<LEN>() else { return false };
        let slot = &mut self.slots[usize::from(u16::from_le_bytes([id[0], id[1]])) % Self::SLOTS];
        let Some(known) = slot.first_chunk_mut::<LEN>() else { return false };
        let met = known == id;
        *known = *id;
        met
    }
}

/// The size of a blob in bytes, without reading it.
pub(crate) fn size_of_blob(numbering: &Numbering, nr: ObjectNr) -> Result<u64, WalkError> {
    if let Place::Packed { pack, pos } = numbering.place(nr) {
        let pack = numbering.pack(pack);
        if let Ok(header) = pack.order().and_then(|order| pack.header(order.offset(pos))) {
            return Ok(header.size);
        }
    }
    let id = numbering.id_of(nr)?;
    let header = numbering.store().header(&id)?;
    match header.kind {
        ObjectKind::Blob => Ok(header.size),
        kind => Err(WalkError::NotABlob { id, kind }),
    }
}
