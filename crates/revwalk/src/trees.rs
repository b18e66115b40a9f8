//! Decoding trees through their deltas.
//!
//! Most trees of a pack are small deltas against a tree that a walk has met already. A decoded
//! tree therefore keeps where its entries begin, and a tree made from it takes over the entries
//! that a copy instruction covers whole, by arithmetic on those positions: only entries touched by
//! an insert instruction, or cut by the edge of a copy, are looked at byte by byte.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use memchr::memchr;
use object::{HashKind, ObjectId, ObjectKind};
use pack_format::PackPos;
use pack_format::delta;
use pack_format::entry::EntryKind;
use pack_format::zlib::Inflate;

use crate::error::WalkError;
use crate::numbering::{Numbering, Place};
use crate::set::ObjectNr;

/// What an entry of a tree points to, as far as walks care.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Child {
    Tree,
    Blob,
    /// A commit of another repository: never walked.
    Gitlink,
}

/// One entry of a tree as it lies in the tree's bytes.
#[derive(Clone, Copy)]
pub(crate) struct RawEntry<'a> {
    pub(crate) child: Child,
    pub(crate) name: &'a [u8],
    pub(crate) id: &'a [u8],
}

/// Told about each entry that may be new.
pub(crate) type Mark<'a> = dyn FnMut(RawEntry<'_>) -> Result<(), WalkError> + 'a;

/// A tree's bytes, and where its entries begin.
#[derive(Default)]
pub(crate) struct Decoded {
    bytes: Vec<u8>,
    /// Start of each entry, then the end of the last.
    bounds: Vec<u32>,
    /// The epoch (one for each call of [`ObjectWalk::mark`](crate::ObjectWalk::mark)) in which all entries were marked; 0: never.
    marked_in: AtomicU32,
}

impl Decoded {
    pub(crate) fn is_marked(&self, epoch: u32) -> bool {
        self.marked_in.load(Ordering::Relaxed) == epoch
    }

    pub(crate) fn set_marked(&self, epoch: u32) {
        self.marked_in.store(epoch, Ordering::Relaxed);
    }

    /// The entries in order.
    pub(crate) fn entries(&self, hash: HashKind) -> impl Iterator<Item = RawEntry<'_>> {
        // Decoding established that an entry fills the space between each two bounds.
        self.bounds.windows(2).filter_map(move |w| match entry_at(&self.bytes, w[0] as usize, hash.len()) {
            Step::Entry(entry, _) => Some(entry),
            Step::Incomplete | Step::Bad => None,
        })
    }

    fn heap_size(&self) -> usize {
        self.bytes.capacity() + 4 * self.bounds.capacity() + size_of::<Self>()
    }
}

enum Step<'a> {
    Entry(RawEntry<'a>, usize),
    Incomplete,
    Bad,
}

/// Reads the entry that starts at `at`. `<octal mode> SP <name> NUL <id>` (git's tree object).
#[inline]
fn entry_at(bytes: &[u8], at: usize, hash_len: usize) -> Step<'_> {
    let rest = &bytes[at..];
    // The usual modes first: directories have five digits, all else six.
    let (child, name_at) = match rest {
        [b'4', b'0', b'0', b'0', b'0', b' ', ..] => (Child::Tree, 6),
        [b'1', b'0' | b'2', _, _, _, _, b' ', ..] => (Child::Blob, 7),
        [b'1', b'6', b'0', b'0', b'0', b'0', b' ', ..] => (Child::Gitlink, 7),
        _ => {
            let Some(space) = memchr(b' ', &rest[..rest.len().min(MAX_MODE_LEN + 1)]) else {
                return if rest.len() > MAX_MODE_LEN { Step::Bad } else { Step::Incomplete };
            };
            let mut mode = 0u32;
            for &digit in &rest[..space] {
                if !(b'0'..=b'7').contains(&digit) {
                    return Step::Bad;
                }
                mode = mode << 3 | u32::from(digit - b'0');
            }
            if space == 0 {
                return Step::Bad;
            }
            let child = match mode & 0o170_000 {
                0o040_000 => Child::Tree,
                0o160_000 => Child::Gitlink,
                _ => Child::Blob,
            };
            (child, space + 1)
        }
    };
    let Some(name_len) = memchr(0, &rest[name_at..]) else { return Step::Incomplete };
    let id_at = name_at + name_len + 1;
    let end = id_at + hash_len;
    let Some(id) = rest.get(id_at..end) else { return Step::Incomplete };
    if name_len == 0 {
        return Step::Bad;
    }
    Step::Entry(RawEntry { child, name: &rest[name_at..name_at + name_len], id }, at + end)
}

/// Octal digits of a mode: git's are 5 or 6, and 10 fit 32 bits with room to spare.
const MAX_MODE_LEN: usize = 10;

/// How much more than its compressed form an inflated object can be: deflate's limit is 1032:1.
const MAX_INFLATE_RATIO: u64 = 1032;

/// Reads trees by number, keeping decoded ones within a budget since their deltas tend to be next.
pub(crate) struct TreeReader {
    cache: HashMap<u32, Arc<Decoded>>,
    /// Keys of `cache` in order of arrival, which is the order of eviction: a walk in pack order
    /// meets the deltas of a tree soon after it.
    arrivals: VecDeque<u32>,
    cached_bytes: usize,
    budget: usize,
    max_tree_bytes: u64,
    spare: Vec<Decoded>,
    inflate: Inflate,
    scratch: Vec<u8>,
    chain: Vec<(u32, PackPos)>,
    pub(crate) decoded: u64,
    pub(crate) entries_read: u64,
    pub(crate) entries_carried: u64,
}

impl TreeReader {
    pub(crate) fn new(budget: usize, max_tree_bytes: u64) -> Self {
        Self {
            cache: HashMap::new(),
            arrivals: VecDeque::new(),
            cached_bytes: 0,
            budget,
            max_tree_bytes: max_tree_bytes.min(u64::from(u32::MAX)),
            spare: Vec::new(),
            inflate: Inflate::new(),
            scratch: Vec::new(),
            chain: Vec::new(),
            decoded: 0,
            entries_read: 0,
            entries_carried: 0,
        }
    }

    /// The tree numbered `nr`. Calls `mark` for its entries in this `epoch`, except for those that
    /// it shares with a base tree whose entries were marked already (or that `known` vouches for).
    pub(crate) fn read_and_mark(
        &mut self,
        numbering: &Numbering,
        nr: ObjectNr,
        epoch: u32,
        known: &dyn Fn(ObjectNr) -> bool,
        mark: &mut Mark<'_>,
    ) -> Result<(), WalkError> {
        let hash = numbering.store().hash_kind();
        if let Some(tree) = self.cache.get(&nr.get()).cloned() {
            if !tree.is_marked(epoch) {
                for entry in tree.entries(hash) {
                    mark(entry)?;
                }
                tree.set_marked(epoch);
            }
            return Ok(());
        }
        self.load(numbering, nr, epoch, known, Some(mark)).map(drop)
    }

    /// The tree numbered `nr`, decoded.
    pub(crate) fn read(&mut self, numbering: &Numbering, nr: ObjectNr) -> Result<Arc<Decoded>, WalkError> {
        match self.cache.get(&nr.get()) {
            Some(tree) => Ok(Arc::clone(tree)),
            None => self.load(numbering, nr, 0, &|_| false, None),
        }
    }

    fn load(
        &mut self,
        numbering: &Numbering,
        nr: ObjectNr,
        epoch: u32,
        known: &dyn Fn(ObjectNr) -> bool,
        mut mark: Option<&mut Mark<'_>>,
    ) -> Result<Arc<Decoded>, WalkError> {
        if let Place::Packed { pack, pos } = numbering.place(nr) {
            match self.load_packed(numbering, pack, pos, epoch, known, &mut mark) {
                Ok(tree) => return Ok(tree),
                Err(Fault::Caller(error)) => return Err(error),
                // Marking twice is harmless, so start over with whatever copy the store can give.
                Err(Fault::Damaged) => {}
            }
        }
        self.load_through_store(numbering, nr, epoch, &mut mark)
    }

    /// Reads through the store, which knows how to work around damage.
    fn load_through_store(
        &mut self,
        numbering: &Numbering,
        nr: ObjectNr,
        epoch: u32,
        mark: &mut Option<&mut Mark<'_>>,
    ) -> Result<Arc<Decoded>, WalkError> {
        let id = numbering.id_of(nr)?;
        let mut tree = self.spare.pop().unwrap_or_default();
        tree.bytes.clear();
        tree.bounds.clear();
        tree.set_marked(0);
        match numbering.store().read(&id, &mut tree.bytes)? {
            ObjectKind::Tree => {}
            kind => return Err(WalkError::NotATree { id, kind }),
        }
        if tree.bytes.len() as u64 > self.max_tree_bytes {
            return Err(WalkError::TreeTooLarge { id, limit: self.max_tree_bytes });
        }
        let hash_len = numbering.store().hash_kind().len();
        let mut parser = Parser::new(hash_len);
        let at = parser.advance(&tree.bytes, &mut tree.bounds, mark)?;
        let at = at.map_or_else(|Malformed { at }| Some(at), |at| (at != tree.bytes.len()).then_some(at));
        if let Some(at) = at {
            return Err(WalkError::BadTree { id, at: at as u64 });
        }
        self.entries_read += parser.read;
        Ok(self.keep(nr.get(), tree, mark.is_some().then_some(epoch)))
    }

    fn load_packed(
        &mut self,
        numbering: &Numbering,
        pack_index: usize,
        pos: PackPos,
        epoch: u32,
        known: &dyn Fn(ObjectNr) -> bool,
        mark: &mut Option<&mut Mark<'_>>,
    ) -> Result<Arc<Decoded>, Fault> {
        let pack = numbering.pack(pack_index);
        let first = numbering.pack_base(pack_index);
        let order = pack.order().map_err(|_| Fault::Damaged)?;
        let hash = numbering.store().hash_kind();
        let mut chain = std::mem::take(&mut self.chain);
        chain.clear();
        // Down to a base that is at hand or stands for itself.
        let mut at = pos;
        let mut base: Option<(u32, Arc<Decoded>)> = None;
        let found = loop {
            let nr = first + at.get();
            if let Some(tree) = self.cache.get(&nr) {
                base = Some((nr, Arc::clone(tree)));
                break Ok(());
            }
            chain.push((nr, at));
            // A chain longer than the pack has entries is a cycle.
            if chain.len() as u64 > u64::from(pack.count()) {
                break Err(Fault::Damaged);
            }
            let offset = order.offset(at);
            let Ok((header, _)) = pack.entry(offset) else { break Err(Fault::Damaged) };
            let next = match header.kind {
                EntryKind::Tree => break Ok(()),
                EntryKind::OfsDelta { distance } => {
                    offset.get().checked_sub(distance).and_then(|o| order.pos_at(pack_format::PackOffset::new(o)))
                }
                EntryKind::RefDelta { base } => pack.idx().lookup(&base).map(|p| order.pack_pos(p)),
                EntryKind::Commit | EntryKind::Blob | EntryKind::Tag => break Err(Fault::Damaged),
            };
            match next {
                Some(next) => at = next,
                None => break Err(Fault::Damaged),
            }
        };
        let mut result = found.map(|()| None);
        while let (Ok(_), Some((nr, pos))) = (&result, chain.pop()) {
            let target = chain.is_empty();
            let mut silent = None;
            let mark = if target { &mut *mark } else { &mut silent };
            result = self
                .decode(pack, order, hash, pos, base.as_ref(), epoch, known, mark)
                .map(|tree| Some(self.keep(nr, tree, mark.is_some().then_some(epoch))));
            if let Ok(Some(tree)) = &result {
                base = Some((nr, Arc::clone(tree)));
            }
        }
        self.chain = chain;
        // An empty chain: the tree itself was at hand.
        result.and_then(|tree| tree.or(base.map(|(_, tree)| tree)).ok_or(Fault::Damaged))
    }

    #[expect(clippy::too_many_arguments, reason = "one step of a loop, split off for reading")]
    fn decode(
        &mut self,
        pack: &odb::Pack,
        order: &odb::PackOrder,
        hash: HashKind,
        pos: PackPos,
        base: Option<&(u32, Arc<Decoded>)>,
        epoch: u32,
        known: &dyn Fn(ObjectNr) -> bool,
        mark: &mut Option<&mut Mark<'_>>,
    ) -> Result<Decoded, Fault> {
        let raw = pack.entry_bytes(pos).map_err(|_| Fault::Damaged)?;
        let (header, header_len) = pack.entry(order.offset(pos)).map_err(|_| Fault::Damaged)?;
        let deflated = raw.get(header_len..).ok_or(Fault::Damaged)?;
        if header.size > (deflated.len() as u64).saturating_mul(MAX_INFLATE_RATIO) || header.size > self.max_tree_bytes
        {
            return Err(Fault::Damaged);
        }
        let size = header.size as usize;
        self.decoded += 1;
        let mut tree = self.spare.pop().unwrap_or_default();
        tree.bytes.clear();
        tree.bounds.clear();
        tree.set_marked(0);
        let mut parser = Parser::new(hash.len());
        match base {
            None => {
                tree.bytes.resize(size, 0);
                self.inflate.inflate_exact(deflated, &mut tree.bytes).map_err(|_| Fault::Damaged)?;
                parser.advance(&tree.bytes, &mut tree.bounds, mark)?.map_err(|_| Fault::Damaged)?;
            }
            Some((base_nr, base)) => {
                if self.scratch.len() < size {
                    self.scratch.resize(size, 0);
                }
                let delta = &mut self.scratch[..size];
                self.inflate.inflate_exact(deflated, delta).map_err(|_| Fault::Damaged)?;
                let carry = mark.is_none() || base.is_marked(epoch) || known(ObjectNr::new(*base_nr));
                apply(base, delta, self.max_tree_bytes, carry, &mut parser, &mut tree, mark)?;
            }
        }
        // The last bound closes the last entry; a tree without entries has the one bound 0.
        if parser.at != tree.bytes.len() {
            return Err(Fault::Damaged);
        }
        if tree.bounds.is_empty() {
            tree.bounds.push(0);
        }
        self.entries_read += parser.read;
        self.entries_carried += parser.carried;
        Ok(tree)
    }

    fn keep(&mut self, nr: u32, tree: Decoded, marked_in: Option<u32>) -> Arc<Decoded> {
        tree.set_marked(marked_in.unwrap_or(0));
        self.cached_bytes += tree.heap_size();
        let tree = Arc::new(tree);
        if let Some(old) = self.cache.insert(nr, Arc::clone(&tree)) {
            self.cached_bytes -= old.heap_size();
        } else {
            self.arrivals.push_back(nr);
        }
        while self.cached_bytes > self.budget && self.arrivals.len() > 1 {
            let Some(oldest) = self.arrivals.pop_front() else { break };
            let Some(old) = self.cache.remove(&oldest) else { continue };
            self.cached_bytes -= old.heap_size();
            if self.spare.len() < 8
                && let Ok(old) = Arc::try_unwrap(old)
            {
                self.spare.push(old);
            }
        }
        tree
    }
}

/// Why a packed copy could not be used.
enum Fault {
    /// The copy is damaged; another may do.
    Damaged,
    /// Not the copy's fault.
    Caller(WalkError),
}

impl From<WalkError> for Fault {
    fn from(error: WalkError) -> Self {
        Self::Caller(error)
    }
}

/// The entry at `at` is not one.
struct Malformed {
    at: usize,
}

/// Where the next entry of a growing tree begins.
struct Parser {
    hash_len: usize,
    at: usize,
    read: u64,
    carried: u64,
}

impl Parser {
    fn new(hash_len: usize) -> Self {
        Self { hash_len, at: 0, read: 0, carried: 0 }
    }

    /// Reads one entry if it is complete; `Break` when it is not there yet.
    #[inline]
    fn step(
        &mut self,
        bytes: &[u8],
        bounds: &mut Vec<u32>,
        mark: &mut Option<&mut Mark<'_>>,
    ) -> Result<Result<ControlFlow<()>, Malformed>, WalkError> {
        match entry_at(bytes, self.at, self.hash_len) {
            Step::Entry(entry, end) => {
                if let Some(mark) = mark {
                    mark(entry)?;
                }
                self.push(bounds, end);
                self.read += 1;
                Ok(Ok(ControlFlow::Continue(())))
            }
            Step::Incomplete => Ok(Ok(ControlFlow::Break(()))),
            Step::Bad => Ok(Err(Malformed { at: self.at })),
        }
    }

    /// Reads all complete entries; answers where the first incomplete one begins.
    fn advance(
        &mut self,
        bytes: &[u8],
        bounds: &mut Vec<u32>,
        mark: &mut Option<&mut Mark<'_>>,
    ) -> Result<Result<usize, Malformed>, WalkError> {
        loop {
            match self.step(bytes, bounds, mark)? {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return Ok(Ok(self.at)),
                Err(malformed) => return Ok(Err(malformed)),
            }
        }
    }

    #[inline]
    fn push(&mut self, bounds: &mut Vec<u32>, end: usize) {
        if bounds.is_empty() {
            bounds.push(0);
        }
        // Trees are limited to 32 bits of length.
        bounds.push(end as u32);
        self.at = end;
    }
}

/// Applies `delta` to `base`, finding the result's entries on the way. With `carry`, entries that
/// are copied whole are taken as marked already.
fn apply(
    base: &Decoded,
    delta: &[u8],
    max_bytes: u64,
    carry: bool,
    parser: &mut Parser,
    tree: &mut Decoded,
    mark: &mut Option<&mut Mark<'_>>,
) -> Result<(), Fault> {
    let (sizes, program) = delta::Instructions::parse(delta).map_err(|_| Fault::Damaged)?;
    if sizes.base_size != base.bytes.len() as u64 || sizes.result_size > max_bytes {
        return Err(Fault::Damaged);
    }
    // One allocation for the usual delta, which changes little; a claim beyond what that takes grows with the bytes.
    tree.bytes.reserve((sizes.result_size as usize).min(base.bytes.len() + delta.len()));
    tree.bounds.reserve(base.bounds.len() + 16);
    for instruction in program {
        match instruction.map_err(|_| Fault::Damaged)? {
            delta::Instruction::Insert(bytes) => {
                tree.bytes.extend_from_slice(bytes);
                if tree.bytes.len() as u64 > sizes.result_size {
                    return Err(Fault::Damaged);
                }
                parser.advance(&tree.bytes, &mut tree.bounds, mark)?.map_err(|_| Fault::Damaged)?;
            }
            delta::Instruction::Copy { offset, len } => {
                let (from, to) = (offset as usize, offset.saturating_add(len) as usize);
                let Some(bytes) = base.bytes.get(from..to) else { return Err(Fault::Damaged) };
                let placed = tree.bytes.len();
                tree.bytes.extend_from_slice(bytes);
                if tree.bytes.len() as u64 > sizes.result_size {
                    return Err(Fault::Damaged);
                }
                copied(base, from, to, placed, carry, parser, tree, mark)?;
            }
        }
    }
    if tree.bytes.len() as u64 != sizes.result_size {
        return Err(Fault::Damaged);
    }
    Ok(())
}

/// Finds the entries in `tree.bytes[placed..]`, which were copied from `base.bytes[from..to]`.
#[expect(clippy::too_many_arguments, reason = "one step of a loop, split off for reading")]
fn copied(
    base: &Decoded,
    from: usize,
    to: usize,
    placed: usize,
    carry: bool,
    parser: &mut Parser,
    tree: &mut Decoded,
    mark: &mut Option<&mut Mark<'_>>,
) -> Result<(), Fault> {
    if !carry {
        return parser.advance(&tree.bytes, &mut tree.bounds, mark)?.map(drop).map_err(|_| Fault::Damaged);
    }
    // First bound of the base at or after the place that the next entry was copied from; the
    // search moves on from there, since entries are met in order.
    let mut index = None;
    loop {
        if parser.at >= placed {
            let place = (parser.at - placed + from) as u32;
            let start = index.map_or_else(
                || base.bounds.partition_point(|&b| b < place),
                |index: usize| index + base.bounds[index..].partition_point(|&b| b < place),
            );
            index = Some(start);
            if base.bounds.get(start) == Some(&place) {
                // In step with the base: all that lies whole within the copy is taken over.
                let whole = base.bounds[start..].partition_point(|&b| b as usize <= to);
                let taken = &base.bounds[start + 1..start + whole];
                if let Some(&last) = taken.last() {
                    if tree.bounds.is_empty() {
                        tree.bounds.push(0);
                    }
                    let shift = (placed as u32).wrapping_sub(from as u32);
                    tree.bounds.extend(taken.iter().map(|b| b.wrapping_add(shift)));
                    parser.at = last as usize - from + placed;
                    parser.carried += taken.len() as u64;
                }
                // What is left is the beginning of an entry that the copy cuts.
                return Ok(());
            }
        }
        match parser.step(&tree.bytes, &mut tree.bounds, mark)?.map_err(|_| Fault::Damaged)? {
            ControlFlow::Continue(()) => {}
            ControlFlow::Break(()) => return Ok(()),
        }
    }
}

/// The id in a tree's entry.
#[inline]
pub(crate) fn id_of(bytes: &[u8]) -> Result<ObjectId, WalkError> {
    ObjectId::from_bytes(bytes).map_err(|_| WalkError::UnknownNumber { nr: u32::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use testkit::pack::Op;

    /// Name and id of each entry; the name's length decides the mode, so that all kinds occur.
    type Entries = Vec<(Vec<u8>, [u8; 20])>;

    fn bytes_of(entries: &Entries) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, id) in entries {
            let mode = ["40000", "100644", "160000", "120000", "100664"][name.len() % 5];
            bytes.extend(mode.as_bytes());
            bytes.push(b' ');
            bytes.extend(name);
            bytes.push(0);
            bytes.extend(id);
        }
        bytes
    }

    fn parsed(bytes: &[u8]) -> Decoded {
        let mut tree = Decoded { bytes: bytes.to_vec(), bounds: vec![], marked_in: AtomicU32::new(0) };
        let mut parser = Parser::new(20);
        let end = parser.advance(&tree.bytes, &mut tree.bounds, &mut None).expect("nothing to mark");
        assert!(matches!(end, Ok(end) if end == bytes.len()));
        if tree.bounds.is_empty() {
            tree.bounds.push(0);
        }
        tree
    }

    /// A delta from `base` to `target` that copies whatever it finds, entry or not, at least `least` bytes long.
    fn delta_of(base: &[u8], target: &[u8], least: usize) -> Vec<u8> {
        let (mut ops, mut literal, mut at) = (Vec::new(), 0, 0);
        while at < target.len() {
            let best = (0..base.len())
                .map(|from| (base[from..].iter().zip(&target[at..]).take_while(|(a, b)| a == b).count(), from))
                .max()
                .unwrap_or_default();
            if best.0 >= least {
                ops.extend((literal < at).then(|| Op::Insert(&target[literal..at])));
                ops.push(Op::Copy(best.1 as u32, best.0 as u32));
                at += best.0;
                literal = at;
            } else {
                at += 1;
                if at - literal == 127 {
                    ops.push(Op::Insert(&target[literal..at]));
                    literal = at;
                }
            }
        }
        ops.extend((literal < at).then(|| Op::Insert(&target[literal..at])));
        testkit::pack::delta(base.len() as u64, target.len() as u64, &ops)
    }

    fn entries() -> impl Strategy<Value = Entries> {
        // Few letters and few ids, so that parts of entries recur in other entries.
        let id = prop_oneof![Just([7; 20]), Just(*b"100644 a\0\x01\x02\x0340000 b\0"), any::<[u8; 20]>()];
        proptest::collection::vec((proptest::collection::vec(b'a'..b'c', 1..6), id), 0..12)
    }

    proptest! {
        /// Through a delta, the same entries are found as by reading, and whatever is not marked is an entry of the base.
        #[test]
        fn entries_through_a_delta_are_those_of_the_bytes(
            base in entries(), mut target in entries(), keep in any::<u16>(), least in 3usize..30, carry in any::<bool>(),
        ) {
            for (at, entry) in base.iter().enumerate() {
                if keep >> (at % 16) & 1 == 1 {
                    target.insert((at * 7) % (target.len() + 1), entry.clone());
                }
            }
            let (base, target) = (parsed(&bytes_of(&base)), parsed(&bytes_of(&target)));
            let program = delta_of(&base.bytes, &target.bytes, least);
            prop_assume!(program.len() >= delta::MIN_LEN); // shorter ones are refused, as by git
            let mut found = Decoded::default();
            let mut parser = Parser::new(20);
            let mut marked = BTreeSet::new();
            let mut mark = |entry: RawEntry<'_>| {
                marked.insert((entry.name.to_vec(), entry.id.to_vec()));
                Ok(())
            };
            let mut mark: Option<&mut Mark<'_>> = Some(&mut mark);
            let applied = apply(&base, &program, 1 << 20, carry, &mut parser, &mut found, &mut mark);
            prop_assert!(applied.is_ok());
            prop_assert_eq!(&found.bytes, &target.bytes);
            if found.bounds.is_empty() {
                found.bounds.push(0);
            }
            prop_assert_eq!(&found.bounds, &target.bounds);
            prop_assert_eq!(parser.at, target.bytes.len());
            prop_assert_eq!(parser.read + parser.carried, target.bounds.len() as u64 - 1);
            let of = |tree: &Decoded| tree.entries(HashKind::Sha1).map(|e| (e.name.to_vec(), e.id.to_vec())).collect::<BTreeSet<_>>();
            let (all, before) = (of(&target), of(&base));
            prop_assert!(all.iter().all(|entry| marked.contains(entry) || carry && before.contains(entry)));
        }

        /// Whatever the bytes and the program: an answer, and never an entry that is not there.
        #[test]
        fn no_delta_breaks_the_parser(base in entries(), mut program in proptest::collection::vec(any::<u8>(), 0..80)) {
            let base = parsed(&bytes_of(&base));
            let size = base.bytes.len() as u64;
            let mut delta = testkit::pack::delta(size, size / 2, &[]);
            delta.append(&mut program);
            let (mut found, mut parser) = (Decoded::default(), Parser::new(20));
            let _ = apply(&base, &delta, 1 << 20, true, &mut parser, &mut found, &mut None);
            prop_assert!(found.bounds.windows(2).all(|w| w[0] < w[1]));
            prop_assert!(parser.at <= found.bytes.len());
        }

        #[test]
        fn no_bytes_break_the_parser(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut parser = Parser::new(20);
            let mut bounds = Vec::new();
            let _ = parser.advance(&bytes, &mut bounds, &mut None).expect("nothing to mark");
            prop_assert!(parser.at <= bytes.len());
        }
    }
}
