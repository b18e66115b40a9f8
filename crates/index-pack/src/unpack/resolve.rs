//! The hands that make objects and store them: each thread has one.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use object::{HashKind, ObjectId, ObjectKind, object_id};
use odb::{Observer, Writer};
use pack_format::delta::{self, DeltaErrorKind};
use pack_format::zlib::Inflate;

use super::error::{UnpackError, Wrong};
use super::forest::{Base, Entry, Forest, List};
use super::queue::Queue;
use super::spool::Place;
use super::stream::Stream;
use crate::options::{Inspect, Object};

/// What happens to objects that are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    /// They are shown to who inspects, or stored if nobody does.
    First,
    /// Some are shown again.
    Again,
    /// They were shown, and are stored.
    Approved,
}

/// Something to do.
pub(crate) enum Task {
    /// A whole object that was just read.
    Whole { entry: u32, at: u64, kind: ObjectKind, content: Vec<u8> },
    /// What is made from a whole object that was read before.
    Root(u32),
    /// What is made from an object at hand.
    Group(Group),
    /// What is made from an object that the pack does not have.
    Thin(ObjectId),
}

/// Entries to be made from one base.
pub(crate) struct Group {
    pub(crate) base: Source,
    pub(crate) list: List,
    /// Deltas between the base and something whole.
    pub(crate) depth: u32,
}

/// Where a base's content is.
#[derive(Clone)]
pub(crate) enum Source {
    Held(Arc<Held>),
    /// It was put aside, since too much was held.
    Aside(ObjectKind, Place),
}

/// Content that is counted as long as it is held.
pub(crate) struct Held {
    kind: ObjectKind,
    content: Vec<u8>,
    alive: Arc<AtomicUsize>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.alive.fetch_sub(self.content.len(), Ordering::Relaxed);
    }
}

/// What all hands have in common.
pub(crate) struct Common<'a> {
    pub(crate) hash: HashKind,
    pub(crate) queue: Queue<Task>,
    pub(crate) observer: &'a dyn Observer,
    /// Sees all objects before the first one is stored.
    pub(crate) inspect: Option<&'a dyn Inspect>,
    /// A [`Stage`].
    pub(crate) stage: AtomicU8,
    /// What is to be shown again, ascending.
    pub(crate) again: OnceLock<Vec<ObjectId>>,
    /// The names of what was seen, but for whole objects.
    pub(crate) seen: Mutex<Vec<ObjectId>>,
    pub(crate) recover: bool,
    pub(crate) max_depth: Option<u32>,
    pub(crate) max_object_size: u64,
    /// Bytes of bases that may be held.
    pub(crate) memory: usize,
    pub(crate) alive: Arc<AtomicUsize>,
    /// The names of whole objects, and their entries.
    pub(crate) names: Mutex<Vec<(ObjectId, u32)>>,
    pub(crate) failures: Mutex<Vec<UnpackError>>,
}

impl Common<'_> {
    /// Notes what went wrong. Unless told to recover, that is the end.
    pub(crate) fn fail(&self, error: UnpackError) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(error);
        if !self.recover {
            self.queue.stop();
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) {
            0 => Stage::First,
            1 => Stage::Again,
            _ => Stage::Approved,
        }
    }

    pub(crate) fn begin(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    fn hold(&self, kind: ObjectKind, content: Vec<u8>) -> Arc<Held> {
        self.alive.fetch_add(content.len(), Ordering::Relaxed);
        Arc::new(Held { kind, content, alive: Arc::clone(&self.alive) })
    }
}

/// What one thread works with.
pub(crate) struct Hand<'a, 'c> {
    pub(crate) common: &'c Common<'a>,
    writer: Writer,
    inflate: Inflate,
    stored: Vec<u8>,
    content: Vec<u8>,
}

impl<'a, 'c> Hand<'a, 'c> {
    pub(crate) fn new(common: &'c Common<'a>, writer: Writer) -> Self {
        Hand { common, writer, inflate: Inflate::new(), stored: Vec::new(), content: Vec::new() }
    }

    pub(crate) fn run(&mut self, task: Task, forest: Option<&Forest>) {
        if self.common.queue.is_stopped() {
            return;
        }
        if self.common.observer.cancelled() {
            return self.common.fail(UnpackError::Cancelled);
        }
        let done = match (task, forest) {
            (Task::Whole { entry, at, kind, content }, _) => self.object(at, None, kind, &content).map(|id| {
                self.common.names.lock().unwrap_or_else(PoisonError::into_inner).push((id, entry));
            }),
            (Task::Root(entry), Some(forest)) => self.root(forest, entry),
            (Task::Thin(id), Some(forest)) => self.thin(forest, id),
            (Task::Group(group), Some(forest)) => {
                self.grow(forest, group);
                Ok(())
            }
            // These come when all is read.
            (Task::Root(_) | Task::Group(_) | Task::Thin(_), None) => Ok(()),
        };
        if let Err(error) = done {
            self.common.fail(error);
        }
    }

    /// Stores the blob that is next in the stream, in pieces, and gives its name.
    pub(crate) fn stream<R: Read>(
        &mut self,
        stream: &mut Stream<R>,
        at: u64,
        kind: ObjectKind,
        size: u64,
    ) -> Result<ObjectId, UnpackError> {
        stream.begin(at, size);
        let mut content = Content { stream, failed: None };
        let written = self.writer.write_stream(kind, Some(size), &mut content);
        self.common.observer.inc(1);
        if let Some(failed) = content.failed {
            return Err(failed);
        }
        let id = written.map_err(|source| refused(at, source))?;
        if let Some(inspect) = self.common.inspect {
            // A blob leads nowhere, so it may be there before others are judged.
            let shown = inspect.object(Object { id, kind, size, content: None });
            shown.map_err(|source| UnpackError::RefusedObject { at, source })?;
        }
        Ok(id)
    }

    /// Gives objects that wait for that their names.
    pub(crate) fn flush(&mut self) {
        if let Err(source) = self.writer.flush() {
            self.common.fail(UnpackError::Finish(source));
        }
    }

    /// The same, at the end.
    pub(crate) fn finish(mut self) {
        if !self.common.queue.is_stopped() {
            self.flush();
        }
    }

    /// Stores an object, or shows it to whoever wants to see it before, and gives its name.
    fn object(
        &mut self,
        at: u64,
        id: Option<ObjectId>,
        kind: ObjectKind,
        content: &[u8],
    ) -> Result<ObjectId, UnpackError> {
        let common = self.common;
        let stage = common.stage();
        let done = match (common.inspect.filter(|_| stage != Stage::Approved), id) {
            (Some(inspect), id) => {
                let id = id.map_or_else(|| object_id(common.hash, kind, content), Ok);
                let id = id.map_err(|found| UnpackError::at(at, Wrong::Collision(found)))?;
                let object = Object { id, kind, size: content.len() as u64, content: Some(content) };
                if stage == Stage::First {
                    inspect.object(object)
                } else if common.again.get().is_some_and(|again| again.binary_search(&id).is_ok()) {
                    inspect.object_again(object)
                } else {
                    Ok(())
                }
                .map_err(|source| UnpackError::RefusedObject { at, source })?;
                Ok(id)
            }
            (None, Some(id)) => self.writer.write_as(id, kind, content).map(|()| id),
            (None, None) => self.writer.write(kind, content),
        };
        if stage == Stage::First {
            common.observer.inc(1);
        }
        done.map_err(|source| refused(at, source))
    }

    /// The same for an object that was a delta.
    fn delta(&mut self, at: u64, id: Option<ObjectId>, kind: ObjectKind, content: &[u8]) {
        match self.object(at, id, kind, content) {
            Ok(id) if self.common.inspect.is_some() && self.common.stage() == Stage::First => {
                self.common.seen.lock().unwrap_or_else(PoisonError::into_inner).push(id);
            }
            Ok(_) => {}
            Err(error) => self.common.fail(error),
        }
    }

    /// Reads a whole object once more, and makes what is made from it.
    fn root(&mut self, forest: &Forest, at: u32) -> Result<(), UnpackError> {
        let Some(&Entry { at: offset, place, size, base }) = forest.entries().get(at as usize) else { return Ok(()) };
        let mut content = Vec::new();
        let kind = match base {
            Base::None(kind) => {
                forest.spool.get(place, &mut self.stored)?;
                let inflated = self.inflate.inflate_into(&self.stored, size, &mut content);
                inflated.map_err(|error| UnpackError::at(offset, Wrong::Zlib(error)))?;
                if self.common.stage() != Stage::First {
                    self.object(offset, None, kind, &content)?;
                }
                kind
            }
            Base::Stored(_) => match forest.stored_name(at) {
                Some(id) => {
                    let read = self.writer.store().read(&id, &mut content);
                    read.map_err(|source| UnpackError::Base { at: offset, id, source })?
                }
                None => return Ok(()),
            },
            Base::Entry(_) | Base::Named | Base::Bad => return Ok(()),
        };
        let base = Source::Held(self.common.hold(kind, content));
        self.grow(forest, Group { base, list: forest.children(at), depth: 0 });
        Ok(())
    }

    /// Makes what is made from a base, and what is made from that.
    fn grow(&mut self, forest: &Forest, mut group: Group) {
        let common = self.common;
        loop {
            let Some(at) = forest.take(&mut group.list) else { return };
            if common.queue.is_stopped() {
                return;
            }
            if !group.list.is_empty() && common.queue.is_hungry() {
                let list = group.list.split();
                self.park(forest, Group { base: group.base.clone(), list, ..group });
            }
            let made = self.make(forest, at, &mut group);
            let (kind, id) = match made {
                Ok(made) => made,
                Err(error) => {
                    common.fail(error);
                    continue;
                }
            };
            forest.made(at);
            let offset = forest.entries()[at as usize].at;
            let children = forest.children(at);
            let named = id.map_or(List::default(), |id| forest.named(&id));
            if children.is_empty() && named.is_empty() {
                let content = std::mem::take(&mut self.content);
                self.delta(offset, id, kind, &content);
                self.content = content;
                continue;
            }
            // Down this branch; what is left of the group waits, and without it the base goes now.
            let depth = group.depth + 1;
            let held = common.hold(kind, std::mem::take(&mut self.content));
            let base = Source::Held(Arc::clone(&held));
            let below = [children, named].into_iter().filter(|list| !list.is_empty());
            let mut below = below.map(|list| Group { base: base.clone(), list, depth });
            let next = below.next();
            let last = below.next();
            if let Some(next) = next {
                let rest = std::mem::replace(&mut group, next);
                if !rest.list.is_empty() {
                    self.park(forest, rest);
                }
            }
            if let Some(last) = last {
                self.park(forest, last);
            }
            // Somebody without work can go on below while the object is stored here.
            let passed_on = common.queue.is_hungry();
            if passed_on {
                let list = std::mem::take(&mut group.list);
                self.park(forest, Group { base: group.base.clone(), list, ..group });
            }
            drop(base);
            self.delta(offset, id, kind, &held.content);
            if passed_on {
                return;
            }
        }
    }

    /// Applies the delta, to `self.content`. Its name is made only if somebody waits for names.
    fn make(
        &mut self,
        forest: &Forest,
        at: u32,
        group: &mut Group,
    ) -> Result<(ObjectKind, Option<ObjectId>), UnpackError> {
        let entry = &forest.entries()[at as usize];
        let limits = self.common;
        if let Some(limit) = limits.max_depth.filter(|&limit| group.depth >= limit) {
            let (value, limit) = (u64::from(group.depth) + 1, u64::from(limit));
            return Err(UnpackError::Limit { at: entry.at, what: "delta depth", value, limit });
        }
        let base = match &group.base {
            Source::Held(held) => Arc::clone(held),
            Source::Aside(kind, place) => {
                let mut content = Vec::new();
                forest.spool.get(*place, &mut content)?;
                let held = limits.hold(*kind, content);
                group.base = Source::Held(Arc::clone(&held));
                held
            }
        };
        forest.spool.get(entry.place, &mut self.stored)?;
        let applied = delta::apply(&base.content, &self.stored, &mut self.content, limits.max_object_size);
        applied.map_err(|error| match error.kind {
            DeltaErrorKind::Limit { size: value, limit } => {
                UnpackError::Limit { at: entry.at, what: "object size", value, limit }
            }
            _ => UnpackError::at(entry.at, Wrong::Delta(error)),
        })?;
        let id = match forest.has_named() {
            true => Some(
                object_id(limits.hash, base.kind, &self.content)
                    .map_err(|found| UnpackError::at(entry.at, Wrong::Collision(found)))?,
            ),
            false => None,
        };
        Ok((base.kind, id))
    }

    /// Leaves work to whoever comes first. If too much is held, the base is put aside meanwhile.
    fn park(&mut self, forest: &Forest, mut group: Group) {
        let common = self.common;
        if common.alive.load(Ordering::Relaxed) > common.memory
            && let Source::Held(held) = &group.base
        {
            match forest.spool.put(&held.content) {
                Ok(place) => group.base = Source::Aside(held.kind, place),
                Err(error) => return common.fail(error),
            }
        }
        common.queue.push(Task::Group(group), 0);
    }

    /// Makes what waits for an object that the store may have.
    fn thin(&mut self, forest: &Forest, id: ObjectId) -> Result<(), UnpackError> {
        let mut content = Vec::new();
        let kind = match self.writer.store().read(&id, &mut content) {
            Ok(kind) => kind,
            Err(error) if error.is_missing() => return Ok(()),
            Err(source) => {
                let at = forest.waiting(&id).next().map_or(0, |entry| entry.at);
                return Err(UnpackError::Base { at, id, source });
            }
        };
        let base = Source::Held(self.common.hold(kind, content));
        // Empty if it was made from the pack meanwhile.
        self.grow(forest, Group { base, list: forest.named(&id), depth: 0 });
        Ok(())
    }
}

fn refused(at: u64, source: odb::WriteError) -> UnpackError {
    match source {
        odb::WriteError::Collision(found) => UnpackError::at(at, Wrong::Collision(found)),
        source => UnpackError::Write { at, source },
    }
}

/// The content of the entry that is next in the stream.
struct Content<'s, R> {
    stream: &'s mut Stream<R>,
    failed: Option<UnpackError>,
}

impl<R: Read> Read for Content<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.stream.pull(out, &mut |_| Ok(())).map_err(|error| {
            self.failed = Some(error);
            io::Error::other("the pack is bad")
        })
    }
}
