//! Many objects, in blocks: looked up together, read in the order in which they lie, handed over in the order asked for.
//!
//! In the order of their offsets neighbours share delta bases and pages, which random access finds gone again. With more
//! than one thread, each takes a stretch of every block, and the next block is read while the last is handed over.

use std::collections::HashSet;
use std::iter::FusedIterator;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::{thread, vec};

use object::{ObjectId, ObjectKind};
use pack_format::{IdxPos, PackOffset, PackPos};

use crate::error::ReadError;
use crate::pack::Pack;
use crate::packs::Need;
use crate::scratch::Scratch;
use crate::store::{Look, ObjectHeader, Spot, Store};

/// How many objects are looked up and read ahead, and by whom. `Many::default()`, then the setters named after the fields.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Many {
    /// Threads that read; with one or none the caller's own does. Default: 1.
    pub threads: usize,
    /// Objects that are looked up together. Default: 256.
    pub block: usize,
    /// Bytes of content read ahead at most, but for single objects; what does not fit is read when it is its turn. Default:
    /// 64 MiB.
    pub memory: usize,
    /// Whether the ids come in an order that is good to read in already, as [`Store::ids_in_pack_order`] gives them.
    /// Default: false.
    pub in_order: bool,
}

impl Default for Many {
    fn default() -> Self {
        Many { threads: 1, block: 256, memory: 64 << 20, in_order: false }
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

impl Many {
    setters! { threads: usize, block: usize, memory: usize, in_order: bool }
}

impl Store {
    /// Kind and size of many objects, each given to `each` in the order of `ids`, until that breaks.
    ///
    /// The errors of single objects are those of [`header`](Self::header).
    pub fn headers<B>(
        &self,
        ids: impl IntoIterator<Item = ObjectId>,
        options: &Many,
        mut each: impl FnMut(&ObjectId, Result<ObjectHeader, ReadError>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let work = |job: &Job, _: &mut Scratch, _: &mut Vec<u8>| match &job.packed {
            Some((pack, at)) => pack.header(*at).or_else(|_| self.header(&job.id)),
            None => self.header(&job.id),
        };
        self.in_blocks(ids.into_iter(), options, &work, &mut |id, header, _| each(id, header))
    }

    /// The content of many objects, each given to `each` in the order of `ids`, until that breaks.
    ///
    /// The errors of single objects are those of [`read`](Self::read). Objects of which `stream` holds for kind and size
    /// are not read: `each` is given `None` in place of their content, and can use [`stream`](Self::stream).
    pub fn read_many<B>(
        &self,
        ids: impl IntoIterator<Item = ObjectId>,
        options: &Many,
        stream: impl Fn(&ObjectHeader) -> bool + Sync,
        mut each: impl FnMut(&ObjectId, Result<(ObjectKind, Option<&[u8]>), ReadError>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let ahead = AtomicUsize::new(0);
        // What a thread finds no room for, or cannot read, is left to the end, where all is done that can be.
        let work = |job: &Job, scratch: &mut Scratch, out: &mut Vec<u8>| -> Option<(ObjectKind, bool)> {
            let (pack, at) = job.packed.as_ref().filter(|_| !self.options().verify_on_read)?;
            if ahead.load(Ordering::Relaxed) > options.memory {
                return None;
            }
            let large = |size: u64| size > options.memory as u64 / 4;
            let (entry, _) = pack.entry(*at).ok()?;
            if let Some(kind) = entry.kind.object_kind() {
                if stream(&ObjectHeader { kind, size: entry.size }) {
                    return Some((kind, true));
                }
                if large(entry.size) {
                    return None;
                }
            }
            // Deltas do not say at once what they make; git makes none that are too large to be held.
            let kind = pack.read(*at, scratch, out).ok()?;
            let size = out.len() as u64;
            let streamed = stream(&ObjectHeader { kind, size });
            if streamed || large(size) {
                out.clear();
                return streamed.then_some((kind, true));
            }
            ahead.fetch_add(out.len(), Ordering::Relaxed);
            Some((kind, false))
        };
        let mut whole = Vec::new();
        self.in_blocks(ids.into_iter(), options, &work, &mut |id, read, bytes: &[u8]| match read {
            Some((kind, true)) => each(id, Ok((kind, None))),
            Some((kind, false)) => {
                ahead.fetch_sub(bytes.len(), Ordering::Relaxed);
                each(id, Ok((kind, Some(bytes))))
            }
            None => match self.header(id) {
                Ok(header) if stream(&header) => each(id, Ok((header.kind, None))),
                Ok(_) => {
                    let read = self.read(id, &mut whole);
                    each(id, read.map(|kind| (kind, Some(&whole[..]))))
                }
                Err(error) => each(id, Err(error)),
            },
        })
    }

    /// The ids of all objects, each once, as they are best read: pack by pack in the order of offsets, then loose ones, source by
    /// source. Holds the packs open, and where there is more than one place to look in, the ids met.
    ///
    /// # Errors
    /// If a pack or a directory could not be looked at.
    pub fn ids_in_pack_order(&self) -> Result<PackOrderIds, ReadError> {
        let packs = self.packs()?;
        let mut loose = Vec::new();
        for source in 0..self.sources().len() {
            loose.extend(self.loose_ids(source)?);
        }
        let once = packs.len() > 1 || !loose.is_empty();
        Ok(PackOrderIds { packs, pack: 0, next: 0, loose: loose.into_iter(), seen: once.then(HashSet::new) })
    }

    fn in_blocks<R: Send, B>(
        &self,
        mut ids: impl Iterator<Item = ObjectId>,
        options: &Many,
        work: &(impl Fn(&Job, &mut Scratch, &mut Vec<u8>) -> R + Sync),
        each: Each<'_, R, B>,
    ) -> ControlFlow<B> {
        let block = options.block.max(1);
        let threads = options.threads.clamp(1, block);
        let mut next = || {
            let ids: Vec<ObjectId> = ids.by_ref().take(block).collect();
            (!ids.is_empty()).then(|| self.jobs(ids, options.in_order))
        };
        if threads == 1 {
            let (mut scratch, mut spare) = (Scratch::new(), Vec::new());
            while let Some(jobs) = next() {
                let done = Part { jobs, spare }.work(&mut scratch, work);
                spare = emit(done, each)?;
            }
            return ControlFlow::Continue(());
        }
        thread::scope(|scope| {
            let hands: Vec<_> = (0..threads)
                .map(|_| {
                    let (to, jobs) = mpsc::channel::<Part>();
                    let (results, from) = mpsc::channel();
                    scope.spawn(move || {
                        let mut scratch = Scratch::new();
                        // Ends when the other side is dropped.
                        while let Ok(part) = jobs.recv() {
                            if results.send(part.work(&mut scratch, work)).is_err() {
                                break;
                            }
                        }
                    });
                    (to, from)
                })
                .collect();
            let mut spare = Vec::new();
            let mut under_way = 0;
            loop {
                while under_way < 2
                    && let Some(mut jobs) = next()
                {
                    // From the end, so that each split moves its own part only.
                    for (number, (to, _)) in hands.iter().enumerate().rev() {
                        let part = jobs.split_off(jobs.len() * number / (number + 1));
                        let spare = spare.split_off(spare.len() * number / (number + 1));
                        let _ = to.send(Part { jobs: part, spare }); // noticed when its result is missing
                    }
                    under_way += 1;
                }
                if under_way == 0 {
                    return ControlFlow::Continue(());
                }
                under_way -= 1;
                let done = hands.iter().filter_map(|(_, from)| from.recv().ok()).flatten();
                spare.extend(emit(done.collect(), each)?);
            }
        })
    }

    /// Looks the objects up, and puts them into the order in which to read them.
    fn jobs(&self, ids: Vec<ObjectId>, in_order: bool) -> Vec<Job> {
        let state = self.state();
        let look = Look::default();
        let mut jobs: Vec<Job> = (0..)
            .zip(ids)
            .map(|(rank, id)| {
                let spot = if id.kind() == self.hash_kind() {
                    self.locate(&state, &id, Need::Bytes, &look).ok().flatten()
                } else {
                    None
                };
                let packed = match spot {
                    Some(Spot::Packed { pack, at }) => Some((pack, at)),
                    _ => None,
                };
                Job { rank, id, packed }
            })
            .collect();
        if !in_order {
            jobs.sort_by_key(|job| job.packed.as_ref().map(|(pack, at)| (pack.serial(), *at)));
        }
        jobs
    }
}

/// An object to read.
struct Job {
    /// In its block.
    rank: u32,
    id: ObjectId,
    packed: Option<(Arc<Pack>, PackOffset)>,
}

struct Part {
    jobs: Vec<Job>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
}

/// Takes what became of an object, and its bytes.
type Each<'e, R, B> = &'e mut dyn FnMut(&ObjectId, R, &[u8]) -> ControlFlow<B>;

/// Rank, id, what became of it, bytes.
type Outcome<R> = (u32, ObjectId, R, Vec<u8>);

impl Part {
    fn work<R>(
        mut self,
        scratch: &mut Scratch,
        work: &impl Fn(&Job, &mut Scratch, &mut Vec<u8>) -> R,
    ) -> Vec<Outcome<R>> {
        let outcomes = self.jobs.into_iter().map(|job| {
            let mut out = self.spare.pop().unwrap_or_default();
            out.clear();
            let result = work(&job, scratch, &mut out);
            (job.rank, job.id, result, out)
        });
        outcomes.collect()
    }
}

/// A buffer that grew larger than this is not used again.
const KEPT: usize = 1 << 20;

/// Hands the results of a block over in the order of their ranks. The buffers, for the next.
fn emit<R, B>(mut all: Vec<Outcome<R>>, each: Each<'_, R, B>) -> ControlFlow<B, Vec<Vec<u8>>> {
    all.sort_by_key(|(rank, ..)| *rank);
    let mut spare = Vec::with_capacity(all.len());
    for (_, id, result, bytes) in all {
        each(&id, result, &bytes)?;
        if bytes.capacity() > 0 && bytes.capacity() <= KEPT {
            spare.push(bytes);
        }
    }
    ControlFlow::Continue(spare)
}

/// The ids of all objects in the order of packs: made by [`Store::ids_in_pack_order`].
#[derive(Debug)]
pub struct PackOrderIds {
    packs: Arc<[Arc<Pack>]>,
    pack: usize,
    next: u32,
    loose: vec::IntoIter<ObjectId>,
    seen: Option<HashSet<ObjectId>>,
}

impl Iterator for PackOrderIds {
    type Item = ObjectId;

    fn next(&mut self) -> Option<ObjectId> {
        loop {
            let id = match self.packs.get(self.pack) {
                Some(pack) if self.next < pack.count() => {
                    let rank = self.next;
                    self.next += 1;
                    // A pack whose index has bad offsets has no order; its objects are listed all the same.
                    let pos = pack.order().map_or(IdxPos::new(rank), |order| order.idx_pos(PackPos::new(rank)));
                    pack.idx().id(pos)
                }
                Some(_) => {
                    (self.pack, self.next) = (self.pack + 1, 0);
                    continue;
                }
                None => self.loose.next()?,
            };
            if self.seen.as_mut().is_none_or(|seen| seen.insert(id)) {
                return Some(id);
            }
        }
    }
}

impl FusedIterator for PackOrderIds {}
