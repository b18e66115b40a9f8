//! From a stream, or a file, to a pack with its index: the calls, and the order of the work.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hashfile::HashFile;
use hashfile::publish::{IfExists, TempFile};
use object::{Checksum, ObjectId};

use crate::budget::{Arena, Budget};
use crate::collect::{Collector, Sink};
use crate::emit::{self, Place};
use crate::error::ReceiveError;
use crate::forest::{Forest, Waiting};
use crate::look;
use crate::options::{Destination, Options, Received};
use crate::resolve::{Source, Work, resolve};
use crate::scan::{Batch, Scanner};
use crate::table::{Stored, Table};
use crate::thin;

/// Batches that wait for the collecting thread. Bounds memory: a batch has some three megabytes.
const QUEUE: usize = 3;

/// Bytes asked for at a time.
const READ: usize = 1 << 20;

/// What was received, or indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// The trailer of the pack as it is stored, which names it.
    pub checksum: ObjectId,
    /// The pack.
    pub pack: PathBuf,
    /// Its index.
    pub idx: PathBuf,
    /// Whether a `.keep` was written by this call.
    pub kept: bool,
    /// How much there was to do.
    pub counts: Counts,
    /// How long it took.
    pub timings: Timings,
}

/// How much there was to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Entries that came.
    pub objects: u32,
    /// Of these, deltas.
    pub deltas: u32,
    /// Bases that were appended.
    pub appended: u32,
    /// Bytes that came, trailer included.
    pub bytes: u64,
}

/// How long the parts took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Timings {
    /// Until the pack was read: much of it may be waiting for whoever sends.
    pub receive: Duration,
    /// Until all objects had names.
    pub resolve: Duration,
    /// Until everything was published.
    pub publish: Duration,
}

/// Takes a pack piece by piece, from a thread that has better things to do than to be read from.
///
/// ```
/// # use object as packstone_object;
/// use packstone_index_pack::{Destination, Options, Receiver};
/// use packstone_object::HashKind;
///
/// let dir = tempfile::tempdir()?;
/// let mut receiver = Receiver::new(Destination::Directory(dir.path().into()), Options::new(HashKind::Sha1))?;
/// receiver.feed(b"PACK\0\0\0\x02\0\0\0\0")?; // no entries
/// receiver.feed(b"\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e")?;
/// assert!(receiver.is_complete());
/// let outcome = receiver.finish()?;
/// assert_eq!(outcome.checksum.to_string(), "029d08823bd8a8eab510ad6ac75c823cfd3ed31e");
/// assert!(outcome.idx.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is published before `finish`"]
pub struct Receiver {
    scanner: Scanner,
    link: Link,
    options: Options,
    /// Nothing if the name follows from the checksum, in this directory; that of the index may be given.
    place: Result<Place, (PathBuf, Option<PathBuf>)>,
    begun: Instant,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").field("consumed", &self.consumed()).finish_non_exhaustive()
    }
}

/// Who collects.
enum Link {
    Here(Box<Collector>),
    Thread(Collecting),
    /// It ended with an error, which was told.
    Gone,
}

/// A thread that collects.
struct Collecting {
    to: Option<SyncSender<Batch>>,
    back: mpsc::Receiver<Batch>,
    handle: Option<JoinHandle<Result<Box<Collector>, ReceiveError>>>,
}

impl Collecting {
    fn send(&self, batch: Batch) -> Result<(), ReceiveError> {
        match &self.to {
            Some(to) => to.send(batch).map_err(|_| ReceiveError::Thread),
            None => Err(ReceiveError::Thread),
        }
    }

    /// Lets it finish.
    fn join(&mut self) -> Result<Box<Collector>, ReceiveError> {
        self.to = None;
        self.handle.take().and_then(|handle| handle.join().ok()).unwrap_or(Err(ReceiveError::Thread))
    }
}

impl Drop for Collecting {
    /// The temporary file is removed when this returns, not some time after.
    fn drop(&mut self) {
        drop(self.join());
    }
}

impl Link {
    fn new(collector: Box<Collector>, threads: usize) -> Link {
        if threads < 2 {
            return Link::Here(collector);
        }
        let (to, inbox) = sync_channel::<Batch>(QUEUE);
        let (spent, back) = mpsc::channel();
        let (hand, take) = sync_channel::<Box<Collector>>(1);
        let work = move || {
            let mut collector = take.recv().map_err(|_| ReceiveError::Thread)?;
            loop {
                let mut batch = match inbox.try_recv() {
                    Ok(batch) => batch,
                    Err(TryRecvError::Disconnected) => break,
                    Err(TryRecvError::Empty) if collector.idle()? => continue,
                    Err(TryRecvError::Empty) => match inbox.recv() {
                        Ok(batch) => batch,
                        Err(_) => break,
                    },
                };
                collector.take(&mut batch)?;
                let _ = spent.send(batch); // the scanner may be gone already
            }
            collector.end()?;
            Ok(collector)
        };
        // The collector follows once there is a thread: if the system refuses one, the work is done here.
        match std::thread::Builder::new().name("collect".into()).spawn(work) {
            Ok(handle) => match hand.send(collector) {
                Ok(()) => Link::Thread(Collecting { to: Some(to), back, handle: Some(handle) }),
                Err(mpsc::SendError(collector)) => Link::Here(collector),
            },
            Err(_) => Link::Here(collector),
        }
    }

    /// The error that the collecting thread ended with.
    fn error(&mut self) -> ReceiveError {
        match std::mem::replace(self, Link::Gone) {
            Link::Thread(mut thread) => thread.join().err().unwrap_or(ReceiveError::Thread),
            _ => ReceiveError::Thread,
        }
    }

    fn into_collector(self) -> Result<Box<Collector>, ReceiveError> {
        match self {
            Link::Here(collector) => Ok(collector),
            Link::Thread(mut thread) => thread.join(),
            Link::Gone => Err(ReceiveError::Thread),
        }
    }
}

impl Receiver {
    /// Begins a pack. Starts a thread if the options allow two. The options' observer hears of the phases "Receiving
    /// objects" and "Resolving deltas".
    ///
    /// # Errors
    /// If the temporary file cannot be made, or the name of the pack is taken.
    pub fn new(to: Destination, options: Options) -> Result<Receiver, ReceiveError> {
        let (dir, place) = match to {
            Destination::Directory(dir) => (dir.clone(), Err((dir, None))),
            Destination::DirectoryBut { dir, idx } => (dir.clone(), Err((dir, Some(idx)))),
            Destination::Files { pack, idx } => {
                if pack.symlink_metadata().is_ok() {
                    return Err(hashfile::PublishError::Exists { path: pack }.into());
                }
                let idx = idx.unwrap_or_else(|| pack.with_extension("idx"));
                (emit::parent(&pack).to_owned(), Ok(Place { pack, idx, if_exists: IfExists::Refuse }))
            }
        };
        let temp = TempFile::create_in(&dir, "tmp_pack_", &options.publish)?;
        let path = temp.path().to_owned();
        let file = Box::new(HashFile::new(temp, options.hash));
        Ok(Receiver::start(Sink::Temp { file, path }, place, options))
    }

    fn start(sink: Sink, place: Result<Place, (PathBuf, Option<PathBuf>)>, options: Options) -> Receiver {
        let collector = Box::new(Collector::new(sink, &options));
        let phase = if place.is_ok() { "Indexing objects" } else { "Receiving objects" };
        Receiver {
            scanner: Scanner::new(&options, phase),
            link: Link::new(collector, options.threads),
            options,
            place,
            begun: Instant::now(),
        }
    }

    /// Takes the next bytes of the stream, as many as belong to the pack, and says how many that were: fewer than given
    /// only at its end.
    ///
    /// # Errors
    /// If the pack is unsound. What was written is removed when the receiver is dropped.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<usize, ReceiveError> {
        let given = bytes.len();
        while !bytes.is_empty() && !self.is_complete() {
            let (now, later) = bytes.split_at(bytes.len().min(self.scanner.room()));
            self.scanner.input().extend_from_slice(now);
            bytes = later;
            self.scan()?;
        }
        let unused = match self.is_complete() {
            true => self.scanner.rest().len(),
            false => 0,
        };
        if self.is_complete() {
            let input = self.scanner.input();
            input.truncate(input.len() - unused);
        }
        Ok(given - bytes.len() - unused)
    }

    /// Reads until the pack is complete, and no further than the call to `read` that brings its last byte. Returns what
    /// that call brought beyond.
    ///
    /// # Errors
    /// As for [`feed`](Self::feed); if `from` fails, or ends early.
    pub fn read_from(&mut self, from: &mut dyn Read) -> Result<Vec<u8>, ReceiveError> {
        // Not into the block itself, whose room would have to be cleared each time, however little comes.
        let mut buffer = vec![0; READ];
        while !self.is_complete() {
            let room = self.scanner.room().min(READ);
            match from.read(buffer.get_mut(..room).unwrap_or_default()) {
                Ok(0) => return Err(self.scanner.ended()),
                Ok(read) => {
                    self.scanner.input().extend_from_slice(buffer.get(..read).unwrap_or_default());
                    self.scan()?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ReceiveError::Input(error)),
            }
        }
        Ok(self.scanner.rest().to_vec())
    }

    /// Whether the last byte of the pack has come.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.scanner.trailer().is_some()
    }

    /// Bytes of the pack that were looked at.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.scanner.consumed()
    }

    fn scan(&mut self) -> Result<(), ReceiveError> {
        let link = &mut self.link;
        let mut failed = false;
        let result = match link {
            Link::Here(collector) => {
                let spent = RefCell::new(Batch::default());
                self.scanner.scan(&mut || spent.take(), &mut |mut batch| {
                    collector.take(&mut batch)?;
                    spent.replace(batch);
                    Ok(())
                })
            }
            Link::Thread(thread) => {
                self.scanner.scan(&mut || thread.back.try_recv().unwrap_or_default(), &mut |batch| {
                    thread.send(batch).inspect_err(|_| failed = true)
                })
            }
            Link::Gone => Err(ReceiveError::Thread),
        };
        if failed {
            return Err(self.link.error());
        }
        result
    }

    /// Resolves, completes, and publishes.
    ///
    /// # Errors
    /// If the pack is unsound or cannot be published; nothing has its name then, but marks (`.keep`, `.promisor`) and
    /// the pack itself may when the index could not get its own.
    pub fn finish(self) -> Result<Outcome, ReceiveError> {
        let Some(trailer) = self.scanner.trailer() else { return Err(self.scanner.ended()) };
        let (bytes, objects) = (self.scanner.consumed(), self.scanner.count());
        let mut collector = *self.link.into_collector()?;
        drop(self.scanner);
        collector.table.end = bytes - self.options.hash.len() as u64;
        let mut timings = Timings { receive: self.begun.elapsed(), ..Timings::default() };
        let begun = Instant::now();
        let Collector { sink, mut table, refs, arena, unseen, .. } = collector;
        let Sink::Temp { file, .. } = sink else { return Err(ReceiveError::Thread) };
        let (mut temp, checksum) = file.finish_without_trailer().map_err(|error| {
            ReceiveError::Input(error.into()) // told with its path by the caller of the system
        })?;
        if checksum != trailer {
            return Err(ReceiveError::Checksum { expected: checksum, found: trailer });
        }
        let path = temp.path().to_owned();
        let mut resolved = Resolved { count: objects, table: &mut table, deltas: 0, bases: Vec::new() };
        resolved.run(temp.file(), &path, refs, &arena, &unseen, &self.options)?;
        let (deltas, bases) = (resolved.deltas, resolved.bases);
        timings.resolve = begun.elapsed();
        let begun = Instant::now();

        // A base that turned out to be in the pack as well is not stored twice.
        let mut order = emit::order(&table, 0..objects);
        let mut appended = Vec::new();
        if let Some(store) = self.options.store.as_ref().filter(|_| !bases.is_empty()) {
            let known = Received { table: &table, order: &order };
            appended = bases.into_iter().filter(|&base| !known.contains(&table.id(base))).collect();
            thin::append(&mut temp, &mut table, &appended, store, &self.options)?;
            order = emit::order(&table, (0..objects).chain(appended.iter().copied()));
        }
        let checksum = match appended.len() {
            0 => checksum,
            more => {
                let total = objects.checked_add(more as u32).ok_or(ReceiveError::TooMany)?;
                thin::count_anew(&mut temp, total, bytes - self.options.hash.len() as u64, &checksum)?
            }
        };
        io::Write::write_all(&mut temp, checksum.as_bytes()).map_err(ReceiveError::file(&path))?;
        look::again(temp.file(), &path, &mut table, &order, &arena, objects, &self.options)?;
        drop(arena);
        inspect_all(&table, &order, &self.options)?;
        let place = self.place.unwrap_or_else(|(dir, idx)| {
            let pack = dir.join(format!("pack-{checksum}.pack"));
            Place { idx: idx.unwrap_or_else(|| pack.with_extension("idx")), pack, if_exists: IfExists::Compare }
        });
        let kept = emit::publish(&place, Some(temp), &table, &order, &checksum, &self.options)?;
        timings.publish = begun.elapsed();
        let counts = Counts { objects, deltas, appended: appended.len() as u32, bytes };
        Ok(Outcome { checksum, pack: place.pack, idx: place.idx, kept, counts, timings })
    }
}

/// Duplicates refused if so wished, and the inspector's last word.
fn inspect_all(table: &Table, order: &[u32], options: &Options) -> Result<(), ReceiveError> {
    if options.refuse_duplicates {
        let pairs = order.iter().zip(order.iter().skip(1));
        if let Some((twice, _)) = pairs.into_iter().find(|(a, b)| table.id_bytes(**a) == table.id_bytes(**b)) {
            return Err(ReceiveError::Duplicate { id: table.id(*twice) });
        }
    }
    match &options.inspect {
        Some(inspect) => inspect.finish(&Received { table, order }).map_err(ReceiveError::Refused),
        None => Ok(()),
    }
}

/// The deltas of a pack, being made into objects.
pub(crate) struct Resolved<'t> {
    pub(crate) count: u32,
    pub(crate) table: &'t mut Table,
    pub(crate) deltas: u32,
    /// Entries of the table that stand for bases from the store.
    pub(crate) bases: Vec<u32>,
}

impl Resolved<'_> {
    pub(crate) fn run(
        &mut self,
        file: &File,
        path: &Path,
        refs: Vec<(ObjectId, u32)>,
        arena: &Arena,
        unseen: &[u32],
        options: &Options,
    ) -> Result<(), ReceiveError> {
        let count = self.count;
        let whole = |table: &Table, entry| matches!(table.stored(entry), Stored::Whole(_));
        self.deltas = (0..count).filter(|&entry| !whole(self.table, entry)).count() as u32;
        options.observer.phase("Resolving deltas", Some(u64::from(self.deltas)));
        // Some were resolved while the pack came.
        let early = (0..count).filter(|&entry| self.table.is_named(entry) && !whole(self.table, entry)).count();
        options.observer.inc(early as u64);
        let waiting = Waiting::new(refs);
        if waiting.any() {
            for entry in (0..count).filter(|&entry| self.table.is_named(entry)) {
                waiting.claim(&self.table.id(entry), entry, self.table);
            }
        }
        let forest = Forest::new(self.table, waiting.ever());
        let roots: Vec<u32> = (0..count)
            .filter(|&entry| whole(self.table, entry) && (forest.has_children(entry) || !forest.is_named(entry)))
            .collect();
        let budget = Budget::new(options.memory, u64::from(count) * Table::row_len(options.hash));
        budget.take(arena.len());
        self.step(file, path, arena, &forest, &waiting, &roots, unseen, &budget, options)?;
        if waiting.any()
            && let Some(store) = options.store.as_ref().filter(|_| options.fix_thin)
        {
            self.bases = thin::look_up(self.table, &waiting.missing(), store)?;
            let bases = self.bases.clone();
            self.step(file, path, arena, &forest, &waiting, &bases, &[], &budget, options)?;
        }
        let unresolved = (0..count).filter(|&entry| !self.table.is_named(entry)).count() as u32;
        match waiting.missing().first() {
            Some(&(base, entry)) => {
                let at = self.table.offset(entry);
                Err(ReceiveError::Unresolved { count: unresolved, at, base })
            }
            None if unresolved > 0 => Err(ReceiveError::Thread),
            None => Ok(()),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "each is one thing that two calls share")]
    fn step(
        &mut self,
        file: &File,
        path: &Path,
        arena: &Arena,
        forest: &Forest,
        waiting: &Waiting,
        roots: &[u32],
        unseen: &[u32],
        budget: &Budget,
        options: &Options,
    ) -> Result<(), ReceiveError> {
        let names = self.table.take_names();
        let source = Source { file, path, table: self.table, arena, count: self.count };
        let names = resolve(Work { source, forest, waiting, roots, unseen, names, budget, options })?;
        self.table.give_names(names);
        Ok(())
    }
}

/// Receives a pack from a stream: [`Receiver::read_from`], [`Receiver::finish`]. What the stream has behind the pack stays
/// there, or is lost if the same read brought it.
///
/// # Errors
/// As for both.
pub fn receive(from: &mut dyn Read, to: Destination, options: Options) -> Result<Outcome, ReceiveError> {
    let mut receiver = Receiver::new(to, options)?;
    receiver.read_from(from)?;
    receiver.finish()
}

/// Makes the index of a pack that is in a file, which must end with the pack. The pack is left as it is.
///
/// `idx` is where the index goes; `None` for the pack's name with `.idx` for `.pack`.
///
/// # Errors
/// If the pack is unsound, a thin one among them, or the index cannot be published.
pub fn index_file(pack: &Path, idx: Option<&Path>, options: Options) -> Result<Outcome, ReceiveError> {
    let idx = idx.map_or_else(|| pack.with_extension("idx"), Path::to_owned);
    let place = Place { pack: pack.into(), idx, if_exists: IfExists::Refuse };
    let mut scanned = scan_file(pack, &place, options)?;
    let begun = Instant::now();
    inspect_all(&scanned.table, &scanned.order, &scanned.options)?;
    let kept = emit::publish(&place, None, &scanned.table, &scanned.order, &scanned.checksum, &scanned.options)?;
    scanned.timings.publish = begun.elapsed();
    Ok(Outcome {
        checksum: scanned.checksum,
        pack: place.pack,
        idx: place.idx,
        kept,
        counts: scanned.counts,
        timings: scanned.timings,
    })
}

/// A pack in a file, scanned and resolved.
pub(crate) struct ScannedFile {
    pub(crate) table: Table,
    pub(crate) order: Vec<u32>,
    pub(crate) checksum: ObjectId,
    pub(crate) counts: Counts,
    pub(crate) timings: Timings,
    pub(crate) options: Options,
}

pub(crate) fn scan_file(pack: &Path, place: &Place, options: Options) -> Result<ScannedFile, ReceiveError> {
    let failed = || ReceiveError::file(pack);
    let mut file = File::open(pack).map_err(failed())?;
    let sink = Sink::Hash(Checksum::new(options.hash));
    let options = Options { fix_thin: false, ..options };
    let mut receiver = Receiver::start(sink, Ok(place.clone()), options);
    let rest = receiver.read_from(&mut file)?;
    let at = receiver.consumed();
    let len = file.metadata().map_err(failed())?.len();
    if !rest.is_empty() || len > at {
        return Err(ReceiveError::Junk { at, extra: (rest.len() as u64).max(len.saturating_sub(at)) });
    }
    let Receiver { scanner, link, options, begun, .. } = receiver;
    let Some(trailer) = scanner.trailer() else { return Err(scanner.ended()) };
    let (bytes, objects) = (scanner.consumed(), scanner.count());
    let Collector { sink, mut table, refs, arena, unseen, .. } = *link.into_collector()?;
    drop(scanner);
    table.end = bytes - options.hash.len() as u64;
    let mut timings = Timings { receive: begun.elapsed(), ..Timings::default() };
    let begun = Instant::now();
    let Sink::Hash(checksum) = sink else { return Err(ReceiveError::Thread) };
    let checksum = checksum.finish();
    if checksum != trailer {
        return Err(ReceiveError::Checksum { expected: checksum, found: trailer });
    }
    let mut resolved = Resolved { count: objects, table: &mut table, deltas: 0, bases: Vec::new() };
    resolved.run(&file, pack, refs, &arena, &unseen, &options)?;
    let deltas = resolved.deltas;
    timings.resolve = begun.elapsed();
    let order = emit::order(&table, 0..objects);
    look::again(&file, pack, &mut table, &order, &arena, objects, &options)?;
    let counts = Counts { objects, deltas, appended: 0, bytes };
    Ok(ScannedFile { table, order, checksum, counts, timings, options })
}
