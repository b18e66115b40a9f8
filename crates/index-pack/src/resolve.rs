//! Deltas made into objects, and objects named, on all threads allowed.
//!
//! A thread takes a whole object with deltas below it and walks them depth first, with a stack of its own; children come
//! in the order of [`forest`](crate::forest), so that few bases are alive. When another thread has nothing to do, it is
//! given the largest part left of the lowest base on the stack; and where a chain does not branch, objects to name.
//! What comes out does not depend on who did it.
//!
//! When the [budget](crate::budget) is used up, every second base on the stack is let go, and made again when its turn
//! comes, from the nearest one below it.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use object::{NameHasher, ObjectId, ObjectKind, object_ids};
use pack_format::delta;
use pack_format::zlib::{Inflate, ZlibError};

use crate::budget::{Arena, Budget, Content};
use crate::check::Check;
use crate::error::ReceiveError;
use crate::forest::{Forest, Waiting};
use crate::options::Options;
use crate::platform;
use crate::scan::LARGE;
use crate::table::{NOT_KEPT, Names, Stored, Table};

/// Objects are named in batches of so many bytes at most, which the cache holds, or so many objects.
const BATCH_BYTES: usize = 256 << 10;
const BATCH: usize = 16;

/// An object of fewer bytes is not worth another thread's attention.
const WORTH: usize = 2048;

/// Buffers kept by a thread, and how large they may be.
const POOL: usize = 8;
const POOLED: usize = 1 << 20;

/// Bytes of the pack read at a time, if entries are smaller.
const WINDOW: u64 = 16 << 10;

/// Names held by a thread before it writes them down.
const RESULTS: usize = 4096;

/// A pack whose entries are known, and what is needed to read them.
pub(crate) struct Source<'a> {
    pub(crate) file: &'a File,
    pub(crate) path: &'a Path,
    pub(crate) table: &'a Table,
    pub(crate) arena: &'a Arena,
    /// Entries of the pack itself; those behind stand for objects of the store.
    pub(crate) count: u32,
}

/// What there is to do.
pub(crate) struct Work<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) forest: &'a Forest,
    pub(crate) waiting: &'a Waiting,
    /// Entries that are whole and have deltas below them, or that stand for objects of the store.
    pub(crate) roots: &'a [u32],
    /// Large objects that have their names, but were not looked at.
    pub(crate) unseen: &'a [u32],
    pub(crate) names: Names,
    pub(crate) budget: &'a Budget,
    pub(crate) options: &'a Options,
}

/// Does it; gives the names back. Returns when nothing is left that can be done.
pub(crate) fn resolve(work: Work<'_>) -> Result<Names, ReceiveError> {
    let threads = work.options.threads.max(1);
    let shared = Shared {
        queue: Mutex::new(Queue { jobs: Vec::new(), next: 0, next_unseen: 0, waiting: 0, done: false }),
        ready: Condvar::new(),
        hungry: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
        error: Mutex::new(None),
        names: Mutex::new(work.names),
        lane: Mutex::new(()),
        threads: AtomicUsize::new(1),
        source: work.source,
        forest: work.forest,
        waiting: work.waiting,
        roots: work.roots,
        unseen: work.unseen,
        budget: work.budget,
        options: work.options,
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            shared.threads.fetch_add(1, Ordering::Relaxed);
            let builder = std::thread::Builder::new().name("resolve".into());
            // If the system refuses a thread, the others do its work.
            if builder.spawn_scoped(scope, || Worker::new(&shared).run()).is_err() {
                let _queue = lock(&shared.queue);
                shared.threads.fetch_sub(1, Ordering::Relaxed);
                shared.ready.notify_all();
                break;
            }
        }
        Worker::new(&shared).run();
    });
    match shared.error.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(shared.names.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Shared<'a> {
    queue: Mutex<Queue<'a>>,
    ready: Condvar,
    /// Threads that wait and for which no job is in the queue.
    hungry: AtomicUsize,
    failed: AtomicBool,
    error: Mutex<Option<ReceiveError>>,
    names: Mutex<Names>,
    /// Held by the one thread that may have objects that are large for the budget.
    lane: Mutex<()>,
    threads: AtomicUsize,
    source: Source<'a>,
    forest: &'a Forest,
    waiting: &'a Waiting,
    roots: &'a [u32],
    unseen: &'a [u32],
    budget: &'a Budget,
    options: &'a Options,
}

struct Queue<'b> {
    jobs: Vec<Job<'b>>,
    next: usize,
    next_unseen: usize,
    waiting: usize,
    done: bool,
}

struct Job<'b> {
    entry: u32,
    kind: ObjectKind,
    depth: u32,
    what: What<'b>,
}

enum What<'b> {
    /// A whole object, to be inflated, or read from the store.
    Root,
    /// Some of the deltas against an object, as a [`Frame`] has them.
    Rest { base: Arc<Content<'b>>, next: u32, end: u32, list: Vec<u32> },
    /// An object without its name.
    Name(Arc<Content<'b>>),
    /// A large object, to be looked at.
    Look,
}

impl<'a> Shared<'a> {
    fn next(&self) -> Option<Job<'a>> {
        let mut queue = lock(&self.queue);
        loop {
            if self.failed.load(Ordering::Relaxed) || queue.done {
                queue.done = true;
                self.ready.notify_all();
                return None;
            }
            if let Some(job) = queue.jobs.pop() {
                return Some(job);
            }
            if let Some(&entry) = self.roots.get(queue.next) {
                queue.next += 1;
                return Some(self.whole(entry, What::Root));
            }
            if let Some(&entry) = self.unseen.get(queue.next_unseen) {
                queue.next_unseen += 1;
                return Some(self.whole(entry, What::Look));
            }
            queue.waiting += 1;
            if queue.waiting >= self.threads.load(Ordering::Relaxed) {
                queue.done = true;
                self.ready.notify_all();
                return None;
            }
            self.hungry.store(queue.waiting, Ordering::Relaxed);
            queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.waiting -= 1;
            self.hungry.store(queue.waiting.saturating_sub(queue.jobs.len()), Ordering::Relaxed);
        }
    }

    fn whole(&self, entry: u32, what: What<'a>) -> Job<'a> {
        let kind = match self.source.table.stored(entry) {
            Stored::Whole(kind) => kind,
            _ => ObjectKind::Blob, // no root is a delta
        };
        Job { entry, kind, depth: 0, what }
    }

    fn share(&self, job: Job<'a>) {
        let mut queue = lock(&self.queue);
        queue.jobs.push(job);
        self.hungry.store(queue.waiting.saturating_sub(queue.jobs.len()), Ordering::Relaxed);
        self.ready.notify_one();
    }

    #[inline]
    fn is_hungry(&self) -> bool {
        self.hungry.load(Ordering::Relaxed) > 0
    }

    /// Of several errors, the one that is first in the pack is told.
    fn fail(&self, error: ReceiveError) {
        let mut slot = lock(&self.error);
        if slot.as_ref().is_none_or(|old| error.at() < old.at()) {
            *slot = Some(error);
        }
        self.failed.store(true, Ordering::Relaxed);
    }
}

/// A base with deltas that were not made into objects yet.
struct Frame<'b> {
    entry: u32,
    depth: u32,
    kind: ObjectKind,
    /// Nothing once it was let go.
    content: Option<Arc<Content<'b>>>,
    /// In the forest's list, or, if it is not empty, in this one.
    next: u32,
    end: u32,
    list: Vec<u32>,
}

impl Frame<'_> {
    fn child(&self, at: u32, forest: &Forest) -> u32 {
        match self.list.is_empty() {
            true => forest.child(at),
            false => self.list.get(at as usize).copied().unwrap_or(crate::table::NONE),
        }
    }
}

struct Worker<'s, 'a> {
    shared: &'s Shared<'a>,
    frames: Vec<Frame<'a>>,
    /// Objects without names.
    pending: Vec<(u32, ObjectKind, Arc<Content<'a>>)>,
    pending_bytes: usize,
    ids: Vec<ObjectId>,
    results: Vec<(u32, ObjectId)>,
    check: Check,
    lane: Option<MutexGuard<'s, ()>>,
    reader: Reader,
    pool: Vec<Vec<u8>>,
}

/// Buffers to read entries with.
struct Reader {
    inflate: Inflate,
    /// Bytes of the pack, and where they begin.
    raw: Vec<u8>,
    raw_at: u64,
    delta: Vec<u8>,
}

impl Reader {
    /// Sees to it that the deflated bytes of an entry are at hand; where in `raw`.
    fn load_raw(&mut self, source: &Source<'_>, entry: u32) -> Result<Range<usize>, ReceiveError> {
        let at = source.table.offset(entry);
        let from = at + source.table.header_len(entry);
        let end = source.table.end_of(entry, source.count);
        let len = end.saturating_sub(from);
        let behind = from.checked_sub(self.raw_at).filter(|behind| behind + len <= self.raw.len() as u64);
        let from_raw = match behind {
            Some(behind) => behind as usize,
            None => {
                // Entries that are needed together often lie together.
                let most = source.table.end.saturating_sub(from);
                let ask = len.max(WINDOW).min(most) as usize;
                self.raw.resize(ask, 0);
                self.raw_at = from;
                let read = platform::read_at(source.file, &mut self.raw, from);
                self.raw.truncate(*read.as_ref().unwrap_or(&0));
                read.map_err(ReceiveError::file(source.path))?;
                if (self.raw.len() as u64) < len {
                    return Err(ReceiveError::Changed { path: source.path.into() });
                }
                0
            }
        };
        Ok(from_raw..from_raw + len as usize)
    }

    fn inflate_into(&mut self, source: &Source<'_>, entry: u32, out: &mut Vec<u8>) -> Result<(), ReceiveError> {
        let range = self.load_raw(source, entry)?;
        let raw = self.raw.get(range).unwrap_or_default();
        match self.inflate.inflate_into(raw, source.table.size(entry), out) {
            Ok(len) if len == raw.len() => Ok(()),
            Ok(_) => Err(ReceiveError::Changed { path: source.path.into() }),
            Err(source_error) => Err(ReceiveError::Zlib { at: source.table.offset(entry), source: source_error }),
        }
    }

    /// Sees to it that [`delta`](Self::delta) has what it gives.
    fn load(&mut self, source: &Source<'_>, entry: u32) -> Result<(), ReceiveError> {
        if source.table.kept(entry) != NOT_KEPT {
            return Ok(());
        }
        let mut delta = std::mem::take(&mut self.delta);
        delta.clear();
        let done = self.inflate_into(source, entry, &mut delta);
        self.delta = delta;
        done
    }

    /// The delta of an entry, as it was kept, or [loaded](Self::load) last.
    fn delta<'r>(&'r self, source: &Source<'r>, entry: u32) -> &'r [u8] {
        match source.table.kept(entry) {
            NOT_KEPT => &self.delta,
            place => source.arena.get(place, source.table.size(entry)).unwrap_or_default(),
        }
    }

    /// Content of a large object, piece by piece.
    fn stream(
        &mut self,
        source: &Source<'_>,
        entry: u32,
        to: &mut dyn FnMut(&[u8]) -> Result<(), ReceiveError>,
    ) -> Result<(), ReceiveError> {
        let at = source.table.offset(entry);
        let zlib = |source| ReceiveError::Zlib { at, source };
        let mut from = at + source.table.header_len(entry);
        let end = source.table.end_of(entry, source.count);
        let mut output = vec![0; 64 << 10];
        let mut left = source.table.size(entry);
        self.inflate.reset();
        loop {
            let len = (end - from).min(128 << 10) as usize;
            self.raw.resize(len, 0);
            self.raw_at = from;
            let read = platform::read_at(source.file, &mut self.raw, from).map_err(ReceiveError::file(source.path))?;
            self.raw.truncate(read);
            let mut input = self.raw.as_slice();
            from += read as u64;
            loop {
                let step = self.inflate.step(input, &mut output).map_err(zlib)?;
                input = input.get(step.consumed..).unwrap_or_default();
                left = left.checked_sub(step.produced as u64).ok_or(zlib(ZlibError::TooLong { expected: 0 }))?;
                to(output.get(..step.produced).unwrap_or_default())?;
                match step.done {
                    true if left == 0 => return Ok(()),
                    true => return Err(ReceiveError::Changed { path: source.path.into() }),
                    false if step.consumed == 0 && step.produced == 0 => break,
                    false => {}
                }
            }
            if read == 0 {
                return Err(ReceiveError::Changed { path: source.path.into() });
            }
        }
    }
}

impl<'s, 'a> Worker<'s, 'a> {
    fn new(shared: &'s Shared<'a>) -> Self {
        Worker {
            shared,
            frames: Vec::new(),
            pending: Vec::new(),
            pending_bytes: 0,
            ids: Vec::new(),
            results: Vec::new(),
            check: Check::new(shared.options),
            lane: None,
            reader: Reader { inflate: Inflate::new(), raw: Vec::new(), raw_at: 0, delta: Vec::new() },
            pool: Vec::new(),
        }
    }

    fn run(mut self) {
        while let Some(job) = self.shared.next() {
            let done = self.job(job);
            self.lane = None;
            if let Err(error) = done {
                self.shared.fail(error);
                self.frames.clear();
                self.pending.clear();
            }
        }
        let done = self.name_pending();
        if let Err(error) = done {
            self.shared.fail(error);
        }
        self.write_down();
    }

    fn job(&mut self, job: Job<'a>) -> Result<(), ReceiveError> {
        let (entry, kind, depth) = (job.entry, job.kind, job.depth);
        match job.what {
            What::Root => {
                if self.is_only_streamed(entry, kind) {
                    return self.stream_name(entry, kind);
                }
                let content = self.whole(entry)?;
                self.made(entry, kind, depth, content)?;
            }
            What::Rest { base, next, end, list } => {
                self.frames.push(Frame { entry, depth, kind, content: Some(base), next, end, list });
            }
            What::Name(content) => {
                self.pend(entry, kind, content);
                return self.name_pending();
            }
            What::Look => return self.look(entry, kind),
        }
        self.walk()?;
        // Whoever waits for the last names should not wait for this thread's next job.
        if self.shared.is_hungry() { self.name_pending() } else { Ok(()) }
    }

    fn walk(&mut self) -> Result<(), ReceiveError> {
        let shared = self.shared;
        while let Some(top) = self.frames.last_mut() {
            if shared.failed.load(Ordering::Relaxed) {
                self.frames.clear();
                break;
            }
            if top.next == top.end {
                if let Some(content) = self.frames.pop().and_then(|frame| frame.content) {
                    self.recycle(content);
                }
                continue;
            }
            let child = top.child(top.next, shared.forest);
            let (kind, depth) = (top.kind, top.depth + 1);
            top.next += 1;
            if top.content.is_none() {
                self.make_again()?;
            }
            let base = match self.frames.last_mut() {
                // The last child takes its base's place.
                Some(top) if top.next == top.end => self.frames.pop().and_then(|frame| frame.content),
                Some(top) => top.content.clone(),
                None => None,
            };
            let Some(base) = base else { return Err(ReceiveError::Thread) };
            self.child(child, kind, depth, base)?;
            if shared.is_hungry() {
                self.share();
            }
        }
        Ok(())
    }

    /// Gives a part of the work away.
    fn share(&mut self) {
        let shared = self.shared;
        if shared.failed.load(Ordering::Relaxed) {
            return;
        }
        for frame in &mut self.frames {
            if frame.next == frame.end {
                continue;
            }
            if let Some(base) = &frame.content {
                // The half with more below it. One at a time would do for bases with few children, not for a million.
                let take = (frame.end - frame.next).div_ceil(2);
                frame.end -= take;
                let (next, end, list) = match frame.list.is_empty() {
                    true => (frame.end, frame.end + take, Vec::new()),
                    false => (0, take, frame.list.split_off(frame.end as usize)),
                };
                let what = What::Rest { base: Arc::clone(base), next, end, list };
                shared.share(Job { entry: frame.entry, kind: frame.kind, depth: frame.depth, what });
                return;
            }
        }
    }

    /// Makes the object of a delta, and goes down to those against it.
    fn child(&mut self, entry: u32, kind: ObjectKind, depth: u32, base: Arc<Content<'a>>) -> Result<(), ReceiveError> {
        let shared = self.shared;
        if let Some(limit) = shared.options.max_depth
            && depth > limit
        {
            let (found, limit) = (u64::from(depth), u64::from(limit));
            return Err(ReceiveError::Limit { what: "depth", found, limit, at: shared.source.table.offset(entry) });
        }
        let content = self.apply(entry, &base)?;
        self.recycle(base);
        self.made(entry, kind, depth, content)
    }

    /// Sees to the name of an object, and goes down to the deltas against it.
    fn made(
        &mut self,
        entry: u32,
        kind: ObjectKind,
        depth: u32,
        content: Arc<Content<'a>>,
    ) -> Result<(), ReceiveError> {
        let shared = self.shared;
        if shared.forest.is_named(entry) || entry >= shared.source.count {
            return self.descend(entry, kind, depth, content, Vec::new());
        }
        self.pend(entry, kind, Arc::clone(&content));
        let mut found = Vec::new();
        if shared.waiting.any() {
            // Deltas that name this object cannot be found before it has its name.
            self.name_pending_and(&mut |id, entry| {
                found.extend(shared.waiting.claim(id, entry, shared.source.table).iter().map(|&(_, e)| (entry, e)));
            })?;
            found.retain(|&(parent, _)| parent == entry);
        } else if self.pending.len() >= BATCH || self.pending_bytes >= BATCH_BYTES {
            self.give_names_away();
            self.name_pending()?;
        }
        let extra = found.into_iter().map(|(_, e)| e).collect();
        self.descend(entry, kind, depth, content, extra)
    }

    /// Puts an object on the stack, if there is anything against it.
    fn descend(
        &mut self,
        entry: u32,
        kind: ObjectKind,
        depth: u32,
        content: Arc<Content<'a>>,
        extra: Vec<u32>,
    ) -> Result<(), ReceiveError> {
        let shared = self.shared;
        let mut list = extra;
        if entry >= shared.source.count {
            let id = shared.id(entry);
            list.extend(shared.waiting.claim(&id, entry, shared.source.table).iter().map(|&(_, e)| e));
        }
        let (from, to) = shared.forest.range(entry);
        let (next, end) = match list.is_empty() {
            true => (from, to),
            false => {
                list.extend((from..to).map(|at| shared.forest.child(at)));
                list.sort_unstable_by_key(|&child| (shared.forest.weight(child), child));
                (0, list.len() as u32)
            }
        };
        if next == end {
            self.recycle(content);
        } else {
            self.frames.push(Frame { entry, depth, kind, content: Some(content), next, end, list });
        }
        Ok(())
    }

    /// A whole object, of the pack or of the store.
    fn whole(&mut self, entry: u32) -> Result<Arc<Content<'a>>, ReceiveError> {
        let source = &self.shared.source;
        let mut out = self.pool.pop().unwrap_or_default();
        out.clear();
        if entry < source.count {
            self.make_room(source.table.size(entry));
            self.reader.inflate_into(source, entry, &mut out)?;
        } else if let Some(store) = &self.shared.options.store {
            store.read(&self.shared.id(entry), &mut out)?;
        }
        Ok(Content::new(out, self.shared.budget))
    }

    fn apply(&mut self, entry: u32, base: &Content<'a>) -> Result<Arc<Content<'a>>, ReceiveError> {
        let shared = self.shared;
        let at = shared.source.table.offset(entry);
        let limit = shared
            .options
            .max_object_size
            .map_or(shared.options.max_delta_result, |limit| limit.min(shared.options.max_delta_result));
        // The claim is not trusted with more than letting go of what can be made again.
        self.reader.load(&shared.source, entry)?;
        let header = delta::Header::parse(self.reader.delta(&shared.source, entry));
        let claimed = header.map_or(0, |(header, _)| header.result_size);
        if claimed > limit {
            return Err(ReceiveError::Limit { what: "size in bytes", found: claimed, limit, at });
        }
        let plausible = claimed.min(base.bytes().len() as u64 * 2 + (64 << 20));
        if shared.options.threads > 1 && self.lane.is_none() && plausible > shared.budget.limit() / 8 {
            self.name_pending()?;
            self.let_go();
            self.lane = Some(lock(&shared.lane));
        }
        self.make_room(plausible);
        let mut out = self.pool.pop().unwrap_or_default();
        let delta = self.reader.delta(&shared.source, entry);
        match delta::apply(base.bytes(), delta, &mut out, limit) {
            Ok(()) => Ok(Content::new(out, shared.budget)),
            Err(source) => Err(ReceiveError::Delta { at, source }),
        }
    }

    /// Lets go of bases if the budget has no room for so many bytes.
    fn make_room(&mut self, bytes: u64) {
        if self.shared.budget.is_over(bytes) {
            self.let_go();
        }
    }

    fn let_go(&mut self) {
        self.pool.clear();
        let mut keep = false;
        for frame in &mut self.frames {
            // What others hold as well, as whoever makes an object now holds its base, would not be freed.
            if frame.content.as_ref().is_some_and(|content| Arc::strong_count(content) == 1) {
                if !keep {
                    frame.content = None;
                }
                keep = !keep;
            }
        }
    }

    /// Makes the content of the frame on top again: from the nearest base below it that is there, or from the whole
    /// object that its chain begins with.
    fn make_again(&mut self) -> Result<(), ReceiveError> {
        let table = self.shared.source.table;
        let Some(top) = self.frames.last() else { return Ok(()) };
        let from = self.frames.iter().rposition(|frame| frame.content.is_some());
        let stop = from.and_then(|at| self.frames.get(at)).map(|frame| frame.entry);
        let mut path = vec![];
        let mut entry = top.entry;
        while Some(entry) != stop && !matches!(table.stored(entry), Stored::Whole(_)) {
            path.push(entry);
            entry = table.parent(entry);
        }
        let mut content = match from.and_then(|at| self.frames.get(at)?.content.clone()) {
            Some(content) => content,
            None => self.whole(entry)?,
        };
        let mut frame = from.map_or(0, |at| at + 1);
        while let Some(entry) = path.pop() {
            let next = self.apply(entry, &content)?;
            self.recycle(std::mem::replace(&mut content, next));
            if self.frames.get(frame).is_some_and(|frame| frame.entry == entry) {
                // What fits is kept: the frames below are next.
                if !self.shared.budget.is_over(0)
                    && let Some(frame) = self.frames.get_mut(frame)
                {
                    frame.content = Some(Arc::clone(&content));
                }
                frame += 1;
            }
        }
        if let Some(top) = self.frames.last_mut() {
            top.content = Some(content);
        }
        Ok(())
    }

    fn recycle(&mut self, content: Arc<Content<'a>>) {
        if let Some(buffer) = Content::recycle(content)
            && buffer.capacity() <= POOLED
            && self.pool.len() < POOL
        {
            self.pool.push(buffer);
        }
    }

    fn pend(&mut self, entry: u32, kind: ObjectKind, content: Arc<Content<'a>>) {
        self.pending_bytes += content.bytes().len();
        self.pending.push((entry, kind, content));
    }

    /// Where nothing else can be shared, hashing can.
    fn give_names_away(&mut self) {
        let shared = self.shared;
        if self.frames.iter().any(|frame| frame.next != frame.end) {
            return;
        }
        let mut at = 0;
        while shared.is_hungry() && at < self.pending.len() {
            if self.pending.get(at).is_some_and(|(_, _, content)| content.bytes().len() >= WORTH) {
                let (entry, kind, content) = self.pending.swap_remove(at);
                self.pending_bytes -= content.bytes().len();
                shared.share(Job { entry, kind, depth: 0, what: What::Name(content) });
            } else {
                at += 1;
            }
        }
    }

    fn name_pending(&mut self) -> Result<(), ReceiveError> {
        self.name_pending_and(&mut |_, _| ())
    }

    fn name_pending_and(&mut self, found: &mut dyn FnMut(&ObjectId, u32)) -> Result<(), ReceiveError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let shared = self.shared;
        if shared.options.observer.cancelled() {
            return Err(ReceiveError::Cancelled);
        }
        if shared.failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.ids.clear();
        let items = self.pending.iter().map(|(_, kind, content)| (*kind, content.bytes()));
        let named = object_ids(shared.options.hash, items, &mut self.ids);
        let at = |entry| shared.source.table.offset(entry);
        if let Err(source) = named {
            let entry = self.pending.get(self.ids.len()).map_or(0, |(entry, ..)| *entry);
            return Err(ReceiveError::Collision { at: at(entry), source });
        }
        for ((entry, kind, content), id) in self.pending.iter().zip(&self.ids) {
            self.check.object(at(*entry), id, *kind, content.bytes())?;
            self.results.push((*entry, *id));
            found(id, *entry);
        }
        shared.options.observer.inc(self.pending.len() as u64);
        self.pending_bytes = 0;
        let mut pending = std::mem::take(&mut self.pending);
        for (_, _, content) in pending.drain(..) {
            self.recycle(content);
        }
        self.pending = pending;
        if self.results.len() >= RESULTS {
            self.write_down();
        }
        Ok(())
    }

    fn write_down(&mut self) {
        let mut names = lock(&self.shared.names);
        for (entry, id) in self.results.drain(..) {
            names.set(entry, &id);
        }
    }

    /// Whether a whole object without a name has only to be named.
    fn is_only_streamed(&self, entry: u32, kind: ObjectKind) -> bool {
        let shared = self.shared;
        let size = shared.source.table.size(entry);
        let unseen = !self.check.wants_content() || self.check.is_big(kind, size);
        entry < shared.source.count
            && size > LARGE
            && unseen
            && !shared.waiting.any()
            && !shared.forest.is_named(entry)
            && !shared.forest.has_children(entry)
    }

    fn stream_name(&mut self, entry: u32, kind: ObjectKind) -> Result<(), ReceiveError> {
        let source = &self.shared.source;
        let (at, size) = (source.table.offset(entry), source.table.size(entry));
        let mut hasher = NameHasher::new(self.shared.options.hash, kind, size);
        self.reader.stream(source, entry, &mut |piece| {
            hasher.update(piece);
            Ok(())
        })?;
        let id = hasher.finish().map_err(|source| ReceiveError::Collision { at, source })?;
        self.results.push((entry, id));
        self.shared.options.observer.inc(1);
        if !self.check.wants_content() {
            return Ok(());
        }
        let (reader, check) = (&mut self.reader, &self.check);
        check.big(at, &id, kind, size, |to| reader.stream(source, entry, to))
    }

    /// A large object that was named as it came, but not looked at.
    fn look(&mut self, entry: u32, kind: ObjectKind) -> Result<(), ReceiveError> {
        let source = &self.shared.source;
        let (at, size) = (source.table.offset(entry), source.table.size(entry));
        let (reader, check) = (&mut self.reader, &mut self.check);
        if check.is_big(kind, size) {
            let id = &self.shared.id(entry);
            return check.big(at, id, kind, size, |to| reader.stream(source, entry, to));
        }
        let content = self.whole(entry)?;
        let id = self.shared.id(entry);
        self.check.object(at, &id, kind, content.bytes())?;
        self.recycle(content);
        Ok(())
    }
}

impl Shared<'_> {
    /// The name of an entry that has it.
    fn id(&self, entry: u32) -> ObjectId {
        lock(&self.names).get(entry, self.options.hash)
    }
}
