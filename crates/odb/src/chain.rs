//! Delta chains of one pack: down to what is stored whole, and up again.
//!
//! Without recursion, in two phases: first the headers are followed from the entry to its base, the base's base and so
//! on, until an object is stored whole or lies in the cache; then the deltas are applied in the opposite order. Offsets
//! go down with every offset delta; only reference deltas can lead back, so only they are watched for cycles.

use std::sync::Arc;

use object::{ObjectId, ObjectKind};
use pack_format::delta;
use pack_format::entry::EntryKind;
use pack_format::zlib::{Inflate, ZlibError, max_inflated_len};
use pack_format::{PackOffset, PackPos};

use crate::cache::Base;
use crate::error::{Damage, ReadError};
use crate::inflating::{PreadReader, StepError, inflate_growing};
use crate::order::PackOrder;
use crate::pack::{Kinds, Pack};
use crate::scratch::{self, Scratch};
use crate::source::PackBytes;
use crate::store::ObjectHeader;

/// A delta on the way from an object to its base.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hop {
    /// Where the entry begins.
    at: u64,
    /// Where its deflated delta begins.
    data: u64,
    /// The delta's inflated size, in bytes.
    size: u64,
}

/// Where a damaged base may come from instead: another copy of the object, if there is one.
pub(crate) type Elsewhere<'a> = &'a mut dyn FnMut(&ObjectId) -> Option<Base>;

/// What is allocated on the word of a header whose claim is plausible; beyond it memory grows with what is really there.
pub(crate) const TRUSTED: u64 = 8 << 20;

/// Reads the object at `at` into `out`. With `elsewhere`, a base that is damaged here is asked for there.
pub(crate) fn read(
    pack: &Pack,
    at: u64,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
    mut elsewhere: Option<Elsewhere<'_>>,
) -> Result<ObjectKind, ReadError> {
    let limit = pack.options().max_object_size;
    scratch.hops.clear();
    let mut walk = Walk::new(at);
    let mut base = loop {
        if let Some(base) = pack.cache().get(pack.key(walk.at)) {
            break base;
        }
        match down(pack, &mut walk, scratch, out, limit) {
            Ok(Step::Delta) => {}
            Ok(Step::Whole(kind)) => {
                if scratch.hops.is_empty() {
                    return Ok(kind);
                }
                // What was inflated last becomes the base; `out` will be filled anew.
                let base = Base { kind, bytes: Arc::new(std::mem::take(out)) };
                pack.cache().insert(pack.key(walk.at), base.clone());
                break base;
            }
            Err(error) => break instead(pack, walk.at, at, error, &mut scratch.hops, &mut elsewhere)?,
        }
    };
    out.clear();
    while let Some(hop) = scratch.hops.pop() {
        let last = scratch.hops.is_empty();
        match up(pack, hop, &base, scratch, out, limit) {
            Ok(()) if last => {}
            Ok(()) => {
                base = Base { kind: base.kind, bytes: Arc::new(std::mem::take(out)) };
                pack.cache().insert(pack.key(hop.at), base.clone());
            }
            Err(error) => {
                base = instead(pack, hop.at, at, error, &mut scratch.hops, &mut elsewhere)?;
                continue;
            }
        }
        if last {
            return Ok(base.kind);
        }
    }
    // No delta to apply: the object itself was in the cache.
    check_limit(base.bytes.len() as u64, limit)?;
    out.extend_from_slice(&base.bytes);
    Ok(base.kind)
}

/// The kind and size of the object at `at`.
pub(crate) fn header(pack: &Pack, at: u64) -> Result<ObjectHeader, ReadError> {
    if let Some(base) = pack.cache().get(pack.key(at)) {
        return Ok(ObjectHeader { kind: base.kind, size: base.bytes.len() as u64 });
    }
    let (header, len) = pack.entry(PackOffset::new(at))?;
    let data = at + len as u64;
    plausible(pack, at, data, header.size)?;
    if let Some(kind) = header.kind.object_kind() {
        return Ok(ObjectHeader { kind, size: header.size });
    }
    let size = delta_size(pack, at, data, header.size)?;
    let kind = match pack.kinds() {
        Some(kinds) => remembered_kind(pack, kinds, at, header.kind)?,
        None => {
            let mut walk = Walk::new(at);
            let mut entry = header.kind;
            loop {
                if let Some(kind) = entry.object_kind() {
                    break kind;
                }
                walk.go_to_base(pack, &entry)?;
                entry = plausible_entry(pack, walk.at)?;
            }
        }
    };
    Ok(ObjectHeader { kind, size })
}

/// The kind at the end of the chain that begins with the delta `entry` at `at`, or where on the way it is known; the ones
/// passed are then known, too.
fn remembered_kind(pack: &Pack, kinds: Kinds<'_>, at: u64, mut entry: EntryKind) -> Result<ObjectKind, ReadError> {
    let mut passed = [PackPos::new(0); 64];
    let mut count = 0;
    let mut walk = Walk::new(at);
    let mut rank = kinds.order().pos_at(PackOffset::new(at)).ok_or_else(|| pack.corrupt(at, Damage::Offset))?;
    let mut known = kinds.get(rank);
    let kind = loop {
        if let Some(kind) = known.or(entry.object_kind()) {
            break kind;
        }
        if let Some(place) = passed.get_mut(count) {
            *place = rank;
            count += 1;
        }
        rank = walk.go_to_base_in(pack, kinds.order(), &entry)?;
        known = kinds.get(rank);
        if known.is_none() {
            entry = plausible_entry(pack, walk.at)?;
        }
    };
    passed.iter().take(count).for_each(|&rank| kinds.set(rank, kind));
    Ok(kind)
}

/// What the entry at `at` is, if its size is not beyond what the rest of the pack could hold.
fn plausible_entry(pack: &Pack, at: u64) -> Result<EntryKind, ReadError> {
    let (header, len) = pack.entry(PackOffset::new(at))?;
    plausible(pack, at, at + len as u64, header.size)?;
    Ok(header.kind)
}

/// Where on the chain we are, and a trap for cycles.
pub(crate) struct Walk {
    pub(crate) at: u64,
    /// An offset met before; moved up at distances that double (Brent), so that any cycle is noticed within three times
    /// its length.
    trap: u64,
    steps: u64,
    next_trap: u64,
}

impl Walk {
    pub(crate) fn new(at: u64) -> Walk {
        Walk { at, trap: at, steps: 0, next_trap: 1 }
    }

    pub(crate) fn go_to_base(&mut self, pack: &Pack, kind: &EntryKind) -> Result<(), ReadError> {
        // Only called for deltas, which have a base.
        match pack.base_of(PackOffset::new(self.at), kind)? {
            Some(base) => self.go(pack, base),
            None => Err(pack.corrupt(self.at, Damage::Cycle)),
        }
    }

    /// As [`go_to_base`](Self::go_to_base), and tells the base's rank.
    fn go_to_base_in(&mut self, pack: &Pack, order: &PackOrder, kind: &EntryKind) -> Result<PackPos, ReadError> {
        match pack.base_in(order, PackOffset::new(self.at), kind)? {
            Some((base, rank)) => self.go(pack, base).map(|()| rank),
            None => Err(pack.corrupt(self.at, Damage::Cycle)),
        }
    }

    fn go(&mut self, pack: &Pack, base: PackOffset) -> Result<(), ReadError> {
        let here = self.at;
        if base.get() == self.trap {
            return Err(pack.corrupt(here, Damage::Cycle));
        }
        self.at = base.get();
        self.steps += 1;
        if self.steps == self.next_trap {
            self.trap = self.at;
            self.next_trap *= 2;
        }
        Ok(())
    }
}

enum Step {
    /// A delta was put on the stack, and the walk is at its base.
    Delta,
    /// An object stored whole is in `out`.
    Whole(ObjectKind),
}

fn down(
    pack: &Pack,
    walk: &mut Walk,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
    limit: Option<u64>,
) -> Result<Step, ReadError> {
    let at = walk.at;
    let (header, len) = pack.entry(PackOffset::new(at))?;
    let data = at + len as u64; // inside the pack
    match header.kind.object_kind() {
        Some(kind) => {
            check_limit(header.size, limit)?;
            let size = plausible(pack, at, data, header.size)?;
            inflate(pack, at, data, size, &mut scratch.inflate, &mut scratch.input, out)?;
            Ok(Step::Whole(kind))
        }
        None => {
            walk.go_to_base(pack, &header.kind)?;
            scratch.hops.push(Hop { at, data, size: header.size });
            Ok(Step::Delta)
        }
    }
}

fn up(
    pack: &Pack,
    hop: Hop,
    base: &Base,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
    limit: Option<u64>,
) -> Result<(), ReadError> {
    check_limit(hop.size, limit)?;
    inflate_delta(pack, hop.at, hop.data, hop.size, scratch)?;
    let delta = &scratch.delta;
    delta::apply(&base.bytes, delta, out, limit.unwrap_or(u64::MAX)).map_err(|error| match error.kind {
        delta::DeltaErrorKind::Limit { size, limit } => ReadError::TooLarge { size, limit },
        _ => pack.corrupt(hop.at, error),
    })
}

/// Inflates the delta of the entry at `at` into the scratch.
pub(crate) fn inflate_delta(
    pack: &Pack,
    at: u64,
    data: u64,
    size: u64,
    scratch: &mut Scratch,
) -> Result<(), ReadError> {
    let size = plausible(pack, at, data, size)?;
    inflate(pack, at, data, size, &mut scratch.inflate, &mut scratch.input, &mut scratch.delta)
}

/// A base from elsewhere after `error` at `at`: the object that should be there, or else one of those that are made from it,
/// whose deltas are then not needed (`hops` loses them). Not the object asked for: finding that is the caller's work.
#[cold]
fn instead(
    pack: &Pack,
    mut at: u64,
    asked: u64,
    error: ReadError,
    hops: &mut Vec<Hop>,
    elsewhere: &mut Option<Elsewhere<'_>>,
) -> Result<Base, ReadError> {
    let Some(elsewhere) = elsewhere else { return Err(error) };
    if !error.is_corrupt() {
        return Err(error);
    }
    let order = pack.order()?;
    loop {
        if at != asked
            && let Some(pos) = order.pos_at(PackOffset::new(at))
            && let Some(base) = elsewhere(&pack.idx().id(order.idx_pos(pos)))
        {
            return Ok(base);
        }
        match hops.pop() {
            Some(hop) => at = hop.at,
            None => return Err(error),
        }
    }
}

pub(crate) fn check_limit(size: u64, limit: Option<u64>) -> Result<(), ReadError> {
    match limit {
        Some(limit) if size > limit => Err(ReadError::TooLarge { size, limit }),
        _ => Ok(()),
    }
}

/// The declared size as a number that memory can have, if the bytes left in the pack could produce it.
pub(crate) fn plausible(pack: &Pack, at: u64, data: u64, size: u64) -> Result<usize, ReadError> {
    let stored = pack.entries_end()?.saturating_sub(data);
    let most = usize::try_from(stored).map_or(u64::MAX, max_inflated_len);
    match usize::try_from(size) {
        Ok(fits) if size <= most => Ok(fits),
        _ => Err(pack.corrupt(at, Damage::ImplausibleSize { size, stored })),
    }
}

/// Inflates the stream that begins at `data` into `out`, which gets exactly `size` bytes.
fn inflate(
    pack: &Pack,
    at: u64,
    data: u64,
    size: usize,
    inflate: &mut Inflate,
    input: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<(), ReadError> {
    let end = pack.entries_end()?;
    let error = |error: StepError| error.at(pack, at);
    match pack.bytes()? {
        PackBytes::Whole(bytes) => {
            // Both are at most the length of a slice.
            let mut deflated = bytes.as_ref().get(data as usize..end as usize).unwrap_or_default();
            if size as u64 <= TRUSTED {
                // Only what is new gets zeroed; all of it is overwritten.
                out.resize(size, 0);
                inflate.inflate_exact(deflated, out).map_err(|error| pack.corrupt(at, error))?;
                return Ok(());
            }
            inflate_growing(&mut deflated, size, inflate, out).map_err(error)
        }
        PackBytes::Pread { file, .. } => {
            inflate_growing(&mut PreadReader::new(file, data, end, input), size, inflate, out).map_err(error)
        }
    }
}

/// The size of what a delta makes, from its first bytes.
fn delta_size(pack: &Pack, at: u64, data: u64, size: u64) -> Result<u64, ReadError> {
    // Four bytes tell a size up to 256 MiB, and there are two of them. Each byte less is a symbol less to decode.
    let mut head = [0; delta::Header::MAX_LEN];
    let few = first_bytes(pack, at, data, size, head.get_mut(..8).unwrap_or_default())?;
    if let Ok((header, _)) = delta::Header::parse(head.get(..few).unwrap_or_default()) {
        return Ok(header.result_size);
    }
    let produced = first_bytes(pack, at, data, size, &mut head)?;
    let head = head.get(..produced).unwrap_or_default();
    let (header, _) = delta::Header::parse(head).map_err(|error| pack.corrupt(at, error))?;
    Ok(header.result_size)
}

/// Fills `out` with the first bytes of what is stored at `data`, which are `size`; tells how many that makes.
fn first_bytes(pack: &Pack, at: u64, data: u64, size: u64, out: &mut [u8]) -> Result<usize, ReadError> {
    let want = size.min(out.len() as u64) as usize;
    let out = out.get_mut(..want).unwrap_or_default();
    let left = pack.entries_end()?.saturating_sub(data);
    scratch::with(|scratch| {
        // The first block's code tables take some 300 bytes at most. Only a stream made to annoy needs more than this
        // for twenty bytes; it gets all there is.
        let mut have = left.min(1024);
        loop {
            let deflated = pack.slice(PackOffset::new(data), have)?;
            match scratch.inflate.inflate_first(&deflated, out) {
                Ok(produced) => break Ok(produced),
                Err(ZlibError::Truncated) if have < left => have = left,
                Err(error) => break Err(pack.corrupt(at, error)),
            }
        }
    })
}
