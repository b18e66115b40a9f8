//! A pack to loose objects, as it comes.
//!
//! One pass over the stream: an object that is whole is named and stored at once, by whichever thread is free; a large blob
//! goes from the stream to its file in pieces. Deltas are put aside until the pack's trailer has proved right; then each is made
//! from its base, which is in the pack, before or behind it, or in the store (a thin pack). What is put aside, and too
//! many bases at a time, go to a temporary file when memory is used up.
//!
//! An object that is there already is not written again, only made young, in the cheapest way the store has.

use std::io::Read;
use std::sync::atomic::{AtomicU8, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hashfile::publish::{self, Fsync};
use object::{ObjectId, ObjectKind};
use odb::{Observer, Store, WriteOptions};
use pack_format::entry::{EntryKind, PackHeader};
use pack_format::zlib::ZlibError;

pub use self::error::{UnpackError, Wrong};
use self::forest::{Base, Entry, Forest};
use self::queue::Queue;
use self::resolve::{Common, Hand, Stage, Task};
use self::spool::Spool;
use self::stream::Stream;
use crate::options::{Inspect, Received};

mod error;
mod forest;
mod queue;
mod resolve;
mod spool;
mod stream;

/// How a pack is unpacked. All fields have setters of the same name.
#[derive(Clone)]
#[non_exhaustive]
pub struct UnpackOptions {
    /// How objects are written. Blobs of more than [`big_file_threshold`](WriteOptions::big_file_threshold) bytes are never
    /// held, and become loose objects like all others.
    pub write: WriteOptions,
    /// Whether the pack is only read and held against its format and its checksum; deltas are not applied, and nothing is written.
    /// Default: `false`.
    pub dry_run: bool,
    /// Whether to go on after an error, and unpack what can be. Default: `false`.
    pub recover: bool,
    /// How many threads work, the caller's among them. What is written does not depend on it. Default: 1.
    pub threads: usize,
    /// Bytes of the pack and of objects that are held at a time. What a single delta needs, its base and its result, is held
    /// whatever this says. Default: 128 MiB.
    pub memory: usize,
    /// The pack may have this many bytes. Default: any number.
    pub max_input_size: Option<u64>,
    /// An object, and a delta, may have this many bytes. Default: any number.
    pub max_object_size: Option<u64>,
    /// The pack may have this many entries. Default: any number.
    pub max_objects: Option<u32>,
    /// A chain of deltas may have this many. Default: any number.
    pub max_depth: Option<u32>,
    /// Sees every object, and the pack, before the first object is written, but for large blobs. Costs the making of all
    /// objects once more. Default: nobody does.
    pub inspect: Option<Arc<dyn Inspect>>,
    /// The pack's head, if it was taken off the stream. Default: it was not.
    pub header: Option<PackHeader>,
}

impl Default for UnpackOptions {
    fn default() -> Self {
        UnpackOptions {
            write: WriteOptions::default(),
            dry_run: false,
            recover: false,
            threads: 1,
            memory: 128 << 20,
            max_input_size: None,
            max_object_size: None,
            max_objects: None,
            max_depth: None,
            inspect: None,
            header: None,
        }
    }
}

impl std::fmt::Debug for UnpackOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnpackOptions")
            .field("write", &self.write)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

macro_rules! setters {
    ($($field:ident: $type:ty),* $(,)?) => {$(
        #[doc = concat!("Sets [`", stringify!($field), "`](Self#structfield.", stringify!($field), ").")]
        #[must_use]
        pub fn $field(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
    )*};
}

impl UnpackOptions {
    setters! {
        write: WriteOptions,
        dry_run: bool,
        recover: bool,
        threads: usize,
        memory: usize,
        max_input_size: Option<u64>,
        max_object_size: Option<u64>,
        max_objects: Option<u32>,
        max_depth: Option<u32>,
        inspect: Option<Arc<dyn Inspect>>,
        header: Option<PackHeader>,
    }
}

/// A pack that was unpacked.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unpacked {
    /// Its trailer. Nothing if it was not reached, which only [`recover`](UnpackOptions::recover) lets pass.
    pub checksum: Option<ObjectId>,
    /// Entries that its head announces.
    pub count: u32,
    /// Entries that were unpacked.
    pub unpacked: u32,
    /// What went wrong, in the order of the pack; empty unless told to [recover](UnpackOptions::recover).
    pub failures: Vec<UnpackError>,
    /// What was read behind the trailer, which belongs to whoever reads on.
    pub rest: Vec<u8>,
    /// Time it took to read the pack.
    pub reading: Duration,
    /// Time it took to make the rest from that.
    pub resolving: Duration,
}

/// Unpacks the pack that `input` begins with into loose objects of `store`'s own directory.
///
/// Whole objects are stored while the pack is read, deltas when all of it is there and its checksum right. Nothing is read
/// beyond the trailer but what the last `read` gave along.
///
/// The observer sees one phase, `Unpacking objects`, with a step for each entry.
///
/// # Errors
/// The first one by offset of those that were met; with [`recover`](UnpackOptions::recover) only what ends it all: a head that
/// makes no sense, or the wish of the observer or of who inspects. Objects that were stored before stay.
pub fn unpack(
    input: impl Read,
    store: &Store,
    options: &UnpackOptions,
    observer: &dyn Observer,
) -> Result<Unpacked, UnpackError> {
    let start = Instant::now();
    let hash = store.hash_kind();
    let mut stream = Stream::new(input, hash, options.max_input_size);
    let head = stream.head(options.header)?;
    if let Some(limit) = options.max_objects.filter(|&limit| head.count > limit) {
        let (value, limit) = (u64::from(head.count), u64::from(limit));
        return Err(UnpackError::Limit { at: 8, what: "number of objects", value, limit });
    }
    observer.phase("Unpacking objects", Some(u64::from(head.count)));
    let common = Common {
        hash,
        queue: Queue::new(),
        observer,
        inspect: options.inspect.as_deref(),
        stage: AtomicU8::new(Stage::First as u8),
        again: OnceLock::new(),
        seen: Mutex::default(),
        recover: options.recover,
        max_depth: options.max_depth,
        max_object_size: options.max_object_size.unwrap_or(u64::MAX),
        memory: options.memory / 4,
        alive: Arc::new(AtomicUsize::new(0)),
        names: Mutex::default(),
        failures: Mutex::default(),
    };
    let forest = OnceLock::new();
    let hand = || {
        let write = options.write.clone().big_file_threshold(u64::MAX); // all of them are to be loose
        Hand::new(&common, store.writer(write))
    };
    let mut unpacked = Unpacked {
        checksum: None,
        count: head.count,
        unpacked: 0,
        failures: Vec::new(),
        rest: Vec::new(),
        reading: Duration::ZERO,
        resolving: Duration::ZERO,
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.max(1) {
            scope.spawn(|| {
                let mut hand = hand();
                common.queue.work(|task| hand.run(task, forest.get()));
                hand.finish();
            });
        }
        let mut hand = hand();
        let mut scan = Scan::new(store, options);
        let read = scan.all(&mut stream, head.count, &mut hand, options);
        match read.and_then(|()| stream.trailer()) {
            Ok(checksum) => unpacked.checksum = Some(checksum),
            Err(error) => common.fail(error),
        }
        unpacked.rest = stream.rest();
        unpacked.reading = start.elapsed();
        if options.dry_run {
            unpacked.unpacked = scan.entries.len() as u32;
        } else {
            common.queue.drain(|task| hand.run(task, None));
            let names = std::mem::take(&mut *common.names.lock().unwrap_or_else(PoisonError::into_inner));
            let whole = names.len() + scan.stored.len();
            let mut seen: Vec<ObjectId> = names.iter().chain(&scan.stored).map(|&(id, _)| id).collect();
            let made = forest.get_or_init(|| scan.finish(names));
            grow(made, &common, &mut hand);
            if let Some(inspect) = common.inspect
                && !common.queue.is_stopped()
            {
                seen.append(&mut common.seen.lock().unwrap_or_else(PoisonError::into_inner));
                seen.sort_unstable();
                let judged = judge(&seen, inspect, made, &common, &mut hand);
                if let Err(error) = judged {
                    common.fail(error);
                }
            }
            unpacked.unpacked = (whole + made.count_made()) as u32;
        }
        common.queue.close();
        hand.finish();
    });
    unpacked.resolving = start.elapsed() - unpacked.reading;
    let mut failures = common.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort_by_key(UnpackError::offset);
    // What failed before it was approved failed after it as well.
    failures.dedup_by(|a, b| a.offset().is_some() && a.offset() == b.offset());
    let ends_all = |error: &UnpackError| !options.recover || error.ends_all();
    match failures.iter().position(ends_all) {
        Some(at) => Err(failures.swap_remove(at)),
        None => Ok(Unpacked { failures, ..unpacked }),
    }
}

/// Asks who has seen all objects, whose names these are, what to make of them; and stores them.
fn judge(
    seen: &Vec<ObjectId>,
    inspect: &dyn Inspect,
    forest: &Forest,
    common: &Common<'_>,
    hand: &mut Hand<'_, '_>,
) -> Result<(), UnpackError> {
    let order: Vec<u32> = (0..seen.len() as u32).collect();
    let received = Received { table: seen, order: &order };
    let mut again = inspect.again(&received).map_err(UnpackError::Refused)?;
    again.sort_unstable();
    if !again.is_empty() {
        for (at, object) in forest.stored_among(&again) {
            let shown = inspect.object_again(object);
            shown.map_err(|source| UnpackError::RefusedObject { at, source })?;
        }
        let _ = common.again.set(again);
        common.begin(Stage::Again);
        forest.start_over();
        grow(forest, common, hand);
    }
    if common.queue.is_stopped() {
        return Ok(()); // why is known
    }
    inspect.finish(&received).map_err(UnpackError::Refused)?;
    common.begin(Stage::Approved);
    forest.start_over();
    grow(forest, common, hand);
    Ok(())
}

/// Makes all that is made from others.
fn grow(forest: &Forest, common: &Common<'_>, hand: &mut Hand<'_, '_>) {
    // A batch shows its objects when it ends only, and large ones may be bases.
    if forest.has_stored() {
        hand.flush();
    }
    let all = common.stage() != Stage::First;
    for at in (0..forest.entries().len() as u32).rev().filter(|&at| forest.is_root(at, all)) {
        common.queue.push(Task::Root(at), 0);
    }
    common.queue.drain(|task| hand.run(task, Some(forest)));
    for id in forest.wanted() {
        common.queue.push(Task::Thin(id), 0);
    }
    common.queue.drain(|task| hand.run(task, Some(forest)));
    if common.queue.is_stopped() {
        return;
    }
    for id in forest.wanted() {
        for entry in forest.waiting(&id) {
            common.fail(UnpackError::at(entry.at, Wrong::MissingBase { id }));
        }
    }
}

/// What was read of the pack.
struct Scan {
    entries: Vec<Entry>,
    spool: Spool,
    /// Bases that are named, and by which entries.
    by_name: Vec<(ObjectId, u32)>,
    /// Large blobs, which were stored right away.
    stored: Vec<(ObjectId, u32)>,
    /// Larger blobs are not held.
    big: u64,
    /// Bytes of objects that may wait for a thread.
    waiting: usize,
    delta: Vec<u8>,
}

/// Whether what is bad is one entry, whose end is known.
fn is_passable(error: &UnpackError) -> bool {
    let UnpackError::Corrupt { what, .. } = error else { return false };
    matches!(what, Wrong::NoEntry { .. } | Wrong::Zlib(ZlibError::TooShort { .. }))
}

impl Scan {
    fn new(store: &Store, options: &UnpackOptions) -> Scan {
        let aside = publish::Options::default().fs(Arc::clone(&options.write.loose.fs)).fsync(Fsync::None);
        Scan {
            entries: Vec::new(),
            spool: Spool::new(options.memory / 2, store.objects_dir().to_owned(), aside),
            by_name: Vec::new(),
            stored: Vec::new(),
            big: options.write.big_file_threshold.min(options.memory as u64 / 8),
            waiting: if options.threads > 1 { options.memory / 8 } else { 0 },
            delta: Vec::new(),
        }
    }

    /// Reads entries until one is bad.
    fn all<R: Read>(
        &mut self,
        stream: &mut Stream<R>,
        count: u32,
        hand: &mut Hand<'_, '_>,
        options: &UnpackOptions,
    ) -> Result<(), UnpackError> {
        let common = hand.common;
        for nth in 0..count {
            if common.observer.cancelled() {
                return Err(UnpackError::Cancelled);
            }
            if common.queue.is_stopped() {
                return Ok(()); // why is known
            }
            let at = stream.at();
            let header = stream.entry()?;
            let size = header.size;
            if size > common.max_object_size {
                let limit = common.max_object_size;
                return Err(UnpackError::Limit { at, what: "object size", value: size, limit });
            }
            let base = match header.kind.object_kind() {
                Some(ObjectKind::Blob) if size > self.big => Ok(Base::Stored(ObjectKind::Blob)),
                Some(kind) => Ok(Base::None(kind)),
                None => match stream.base_of(&header, at)? {
                    Some(base) => match self.entries.binary_search_by_key(&base, |entry| entry.at) {
                        Ok(entry) => Ok(Base::Entry(entry as u32)),
                        Err(_) => Err(UnpackError::at(at, Wrong::NoEntry { base })),
                    },
                    None => Ok(Base::Named),
                },
            };
            let from = self.spool.len();
            let read = match base {
                Ok(base) if !options.dry_run => self.content(stream, hand, nth, at, size, base).map(|()| base),
                base => stream.inflate_pieces(at, size, |_| Ok(()), |_| Ok(())).and(base),
            };
            let base = match read {
                Ok(base) => base,
                // The next entry begins where this one's stream ended, so all is not lost.
                Err(error) if options.recover && is_passable(&error) => {
                    common.fail(error);
                    Base::Bad
                }
                Err(error) => return Err(error),
            };
            if options.dry_run {
                common.observer.inc(1);
            }
            if base == Base::Named
                && let EntryKind::RefDelta { base } = header.kind
            {
                self.by_name.push((base, nth));
            }
            self.entries.push(Entry { at, place: self.spool.since(from), size, base });
        }
        Ok(())
    }

    /// Reads what an entry holds, and stores it if it is whole; if not, puts it aside.
    fn content<R: Read>(
        &mut self,
        stream: &mut Stream<R>,
        hand: &mut Hand<'_, '_>,
        nth: u32,
        at: u64,
        size: u64,
        base: Base,
    ) -> Result<(), UnpackError> {
        match base {
            Base::Stored(kind) => {
                let id = hand.stream(stream, at, kind, size)?;
                self.stored.push((id, nth));
            }
            Base::None(kind) => {
                let mut content = Vec::new();
                stream.inflate(at, size, &mut content, |part| self.spool.append(part))?;
                let (bytes, queue) = (content.len(), &hand.common.queue);
                queue.push(Task::Whole { entry: nth, at, kind, content }, bytes);
                queue.relieve(self.waiting, |task| hand.run(task, None));
            }
            Base::Entry(_) | Base::Named if size <= self.big => {
                let mut delta = std::mem::take(&mut self.delta);
                stream.inflate(at, size, &mut delta, |_| Ok(()))?;
                self.spool.append(&delta)?;
                self.delta = delta;
            }
            _ => stream.inflate_pieces(at, size, |_| Ok(()), |part| self.spool.append(part))?,
        }
        Ok(())
    }

    /// All that was read; what is whole has these names.
    fn finish(&mut self, mut names: Vec<(ObjectId, u32)>) -> Forest {
        names.extend_from_slice(&self.stored);
        let spool = std::mem::replace(&mut self.spool, Spool::none());
        Forest::new(std::mem::take(&mut self.entries), spool, std::mem::take(&mut self.by_name), names)
    }
}
