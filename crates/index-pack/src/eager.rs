//! Deltas resolved while the stream still comes, by the thread that would else wait for it.
//!
//! Whole objects are taken in the order of the pack, some way behind the scanner, when most of what is against them has
//! come, as packs are laid out. What comes later is left for the second phase, which makes a base again for it; so this
//! is a head start that may cost a little, and never decides what the result is.

use std::sync::Arc;

use object::{ObjectId, ObjectKind, object_ids};
use pack_format::delta;

use crate::budget::Arena;
use crate::check::Check;
use crate::error::ReceiveError;
use crate::scan::LARGE;
use crate::table::{NONE, NOT_KEPT, Stored, Table};

/// How far behind the scanner, in bytes of the pack.
const BEHIND: u64 = 4 << 20;

/// Bytes of content made before the caller looks for other work.
const TURN: usize = 1 << 20;

/// Bytes of bases held at most.
const HELD: usize = 16 << 20;

/// Objects, and their bytes, named at a time.
const BATCH: usize = 16;
const BATCH_BYTES: usize = 256 << 10;

/// Inflates a whole object of the table, if it can be read yet.
pub(crate) type InflateWhole<'f> = dyn FnMut(&Table, u32, &mut Vec<u8>) -> Result<bool, ReceiveError> + 'f;

struct Frame {
    kind: ObjectKind,
    depth: u32,
    content: Arc<Vec<u8>>,
    /// The next delta against it.
    next: u32,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Eager {
    /// The delta against each entry that came last, and the one before it.
    first: Vec<u32>,
    next: Vec<u32>,
    cursor: u32,
    frames: Vec<Frame>,
    held: usize,
    pending: Vec<(u32, ObjectKind, Arc<Vec<u8>>)>,
    pending_bytes: usize,
    ids: Vec<ObjectId>,
    pool: Vec<Vec<u8>>,
    max_depth: u32,
    max_size: u64,
}

impl Eager {
    pub(crate) fn new(max_depth: Option<u32>, max_size: u64) -> Eager {
        Eager { max_depth: max_depth.unwrap_or(u32::MAX), max_size: max_size.min(LARGE), ..Eager::default() }
    }

    /// Takes note of an entry.
    pub(crate) fn push(&mut self, entry: u32, parent: u32) {
        self.first.push(NONE);
        let before = match self.first.get_mut(parent as usize) {
            Some(slot) => std::mem::replace(slot, entry),
            None => NONE,
        };
        self.next.push(before);
    }

    fn first_of(&self, entry: u32) -> u32 {
        self.first.get(entry as usize).copied().unwrap_or(NONE)
    }

    /// Does some work; whether there was any. `inflate` makes a whole object.
    pub(crate) fn turn(
        &mut self,
        table: &mut Table,
        arena: &Arena,
        check: &mut Check,
        inflate: &mut InflateWhole<'_>,
    ) -> Result<bool, ReceiveError> {
        let mut made = 0;
        while made < TURN {
            let Some(top) = self.frames.last_mut() else {
                let Some((entry, kind)) = self.next_root(table) else { break };
                let mut content = self.pool.pop().unwrap_or_default();
                content.clear();
                if inflate(table, entry, &mut content)? {
                    made += content.len();
                    self.down(entry, kind, 0, Arc::new(content));
                }
                continue;
            };
            let child = top.next;
            let (kind, depth) = (top.kind, top.depth + 1);
            top.next = self.next.get(child as usize).copied().unwrap_or(NONE);
            let base = match top.next {
                NONE => self.up(),
                _ => Some(Arc::clone(&top.content)),
            };
            let (Some(base), place) = (base, table.kept(child)) else { continue };
            let kept = if place == NOT_KEPT { None } else { arena.get(place, table.size(child)) };
            let small = |delta: &&[u8]| {
                // What is wrong, or large, is for the second phase.
                delta::Header::parse(delta).is_ok_and(|(header, _)| header.result_size <= self.max_size)
            };
            if let Some(delta) = kept.filter(small).filter(|_| depth <= self.max_depth) {
                let mut out = self.pool.pop().unwrap_or_default();
                delta::apply(&base, delta, &mut out, self.max_size)
                    .map_err(|source| ReceiveError::Delta { at: table.offset(child), source })?;
                made += out.len();
                let content = Arc::new(out);
                self.pending_bytes += content.len();
                self.pending.push((child, kind, Arc::clone(&content)));
                if self.pending.len() >= BATCH || self.pending_bytes >= BATCH_BYTES {
                    self.name(table, check)?;
                }
                self.down(child, kind, depth, content);
            }
            self.recycle(base);
        }
        if made == 0 {
            self.name(table, check)?;
        }
        Ok(made > 0)
    }

    fn next_root(&mut self, table: &Table) -> Option<(u32, ObjectKind)> {
        let last = table.len().checked_sub(1)?;
        while self.cursor < last && table.offset(self.cursor) + BEHIND <= table.offset(last) {
            let entry = self.cursor;
            self.cursor += 1;
            if let Stored::Whole(kind) = table.stored(entry)
                && self.first_of(entry) != NONE
                && table.size(entry) <= LARGE
            {
                return Some((entry, kind));
            }
        }
        None
    }

    fn down(&mut self, entry: u32, kind: ObjectKind, depth: u32, content: Arc<Vec<u8>>) {
        let next = self.first_of(entry);
        if next == NONE || self.held + content.len() > HELD {
            return self.recycle(content);
        }
        self.held += content.len();
        self.frames.push(Frame { kind, depth, content, next });
    }

    fn up(&mut self) -> Option<Arc<Vec<u8>>> {
        let content = self.frames.pop()?.content;
        self.held -= content.len();
        Some(content)
    }

    fn recycle(&mut self, content: Arc<Vec<u8>>) {
        if self.pool.len() < BATCH
            && let Some(buffer) = Arc::into_inner(content)
        {
            self.pool.push(buffer);
        }
    }

    /// Names what waits for it. To be called before the table is used otherwise.
    pub(crate) fn name(&mut self, table: &mut Table, check: &mut Check) -> Result<(), ReceiveError> {
        self.ids.clear();
        let items = self.pending.iter().map(|(_, kind, content)| (*kind, content.as_slice()));
        if let Err(source) = object_ids(table.hash, items, &mut self.ids) {
            let at = self.pending.get(self.ids.len()).map_or(0, |(entry, ..)| table.offset(*entry));
            return Err(ReceiveError::Collision { at, source });
        }
        for ((entry, kind, content), id) in self.pending.iter().zip(&self.ids) {
            check.object(table.offset(*entry), id, *kind, content)?;
            table.set_name(*entry, id);
        }
        self.pending_bytes = 0;
        let mut pending = std::mem::take(&mut self.pending);
        for (_, _, content) in pending.drain(..) {
            self.recycle(content);
        }
        self.pending = pending;
        Ok(())
    }
}
