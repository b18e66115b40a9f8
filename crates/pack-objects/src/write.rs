//! Writing a pack from what lies in other packs.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{Read, Write};

use hashfile::HashFile;
use object::{HashKind, NameHasher, ObjectId, ObjectKind};
use odb::{Observer, Pack, PackOrder};
use pack_format::entry::{EntryKind, Header, MAX_LEN, PackHeader};
use pack_format::zlib::{Deflate, Inflate};
use pack_format::{IdxPos, PackOffset, PackPos};
use revwalk::{Numbering, ObjectNr, ObjectSet};

use crate::error::PackError;
use crate::layout::{Layout, NewEntry, OutsideEntry};
use crate::options::{VerifyReuse, WriteOptions};
use crate::select::Selection;

/// Bytes of a source pack looked at as one slice. Mapped packs could be taken whole; this bounds
/// what is held where a pack is read instead.
const WINDOW: u64 = 4 << 20;

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// Objects in the pack.
    pub count: u32,
    /// Of these, deltas.
    pub deltas: u32,
    /// Objects whose deflated bytes were reused one by one.
    pub reused: u32,
    /// Of these, deltas.
    pub reused_deltas: u32,
    /// Objects that were reused in runs, with their whole pack, or from the pack whose bitmap
    /// answered.
    pub pack_reused: u32,
    /// How many packs those came from.
    pub packs_reused: u32,
    /// Bytes of the pack, trailer included.
    pub bytes: u64,
    /// The pack's trailer, which is also its name.
    pub checksum: ObjectId,
    /// Whether the pack is another one, copied whole.
    pub verbatim: bool,
}

/// Counts for [`Outcome`].
#[derive(Default)]
pub(crate) struct Tally {
    deltas: u32,
    reused: u32,
    reused_deltas: u32,
    pack_reused: u32,
    packs_reused: u32,
}

impl Tally {
    fn reuse(&mut self, with_pack: bool, delta: bool) {
        self.deltas += u32::from(delta);
        if with_pack {
            self.pack_reused += 1;
        } else {
            self.reused += 1;
            self.reused_deltas += u32::from(delta);
        }
    }
}

impl Outcome {
    /// The outcome of copying `pack` as a whole.
    pub(crate) fn of_whole(pack: &Pack, count: u32) -> Result<Self, PackError> {
        Ok(Self {
            count,
            // Counting them would mean looking at every entry.
            deltas: 0,
            reused: 0,
            reused_deltas: 0,
            pack_reused: count,
            packs_reused: 1,
            bytes: pack.len(),
            checksum: pack.checksum()?,
            verbatim: true,
        })
    }
}

/// What becomes of an entry.
enum Fate {
    /// Its bytes as they lie.
    Keep,
    /// Its deflated bytes behind another header.
    Rehead(Header),
    /// Its object, not as a delta.
    Whole,
}

/// Writes the objects of a selection, pack by pack.
pub(crate) struct Packer<'a> {
    numbering: &'a Numbering,
    objects: &'a ObjectSet,
    known: &'a ObjectSet,
    /// Whether the first pack is one whose bitmap answered.
    bitmapped: bool,
    options: &'a WriteOptions,
    observer: &'a dyn Observer,
    hash: HashKind,
    layout: Layout,
    tally: Tally,
    bytes: u64,
    inflate: Inflate,
    deflate: Deflate,
    header: Vec<u8>,
    content: Vec<u8>,
    deflated: Vec<u8>,
    /// The CRC-32s that the index gives for the entries of a window; none in its version 1.
    crcs: Vec<u32>,
    /// The same store, checking what it reads; opened when damage is met.
    checking: Option<odb::Store>,
    /// Entries whose chains of bases are known to end.
    ending: HashSet<u32>,
}

/// A stretch of a source pack, as far as it is held as one slice.
struct Window<'a> {
    from: u64,
    bytes: Cow<'a, [u8]>,
}

impl Window<'_> {
    /// What is held of the bytes from `at` to `end`.
    fn held(&self, at: PackOffset, end: PackOffset) -> &[u8] {
        let place = |offset: PackOffset| ((offset.get() - self.from) as usize).min(self.bytes.len());
        &self.bytes[place(at)..place(end)]
    }
}

type Out<'a, W> = HashFile<W, &'a [u8]>;

impl<'a> Packer<'a> {
    /// Writes `selection`. Entries of the pack whose bitmap answered count as reused with their pack.
    pub(crate) fn new(selection: &'a Selection, options: &'a WriteOptions, observer: &'a dyn Observer) -> Self {
        Self {
            numbering: &selection.numbering,
            objects: &selection.objects,
            known: &selection.known,
            bitmapped: selection.bitmap.is_some(),
            options,
            observer,
            hash: selection.numbering.store().hash_kind(),
            layout: Layout::default(),
            tally: Tally::default(),
            bytes: 0,
            inflate: Inflate::new(),
            deflate: Deflate::new(options.compression),
            header: Vec::new(),
            content: Vec::new(),
            deflated: Vec::new(),
            crcs: Vec::new(),
            checking: None,
            ending: HashSet::new(),
        }
    }

    /// Writes everything but the trailer.
    pub(crate) fn write<W: Write>(&mut self, count: u32, out: &mut Out<'a, W>) -> Result<(), PackError> {
        self.observer.phase("Writing objects", Some(u64::from(count)));
        out.write_all(&PackHeader::new(count).to_bytes()).map_err(PackError::output)?;
        for index in 0..self.numbering.pack_count() {
            self.layout.packs.push(Default::default());
            self.pack(index, out)?;
        }
        self.outside(out)?;
        self.bytes = out.total();
        Ok(())
    }

    /// What was written, once the trailer is.
    pub(crate) fn outcome(&self, checksum: ObjectId) -> Outcome {
        let tally = &self.tally;
        Outcome {
            count: self.layout.count,
            deltas: tally.deltas,
            reused: tally.reused,
            reused_deltas: tally.reused_deltas,
            pack_reused: tally.pack_reused,
            packs_reused: tally.packs_reused,
            bytes: self.bytes + self.hash.len() as u64,
            checksum,
            verbatim: false,
        }
    }

    /// The rows of the new pack's index, in order of their ids.
    pub(crate) fn entries(&self) -> Result<Vec<NewEntry>, PackError> {
        let mut rows = Vec::with_capacity(self.layout.count as usize);
        for (index, layout) in self.layout.packs.iter().enumerate() {
            let pack = self.numbering.pack(index);
            if layout.is_empty() {
                continue;
            }
            let order = pack.order()?;
            // Rank of each entry in the output, by position: so that the walk below can go by id.
            let mut ranks = vec![u32::MAX; pack.count() as usize];
            for (pos, rank) in layout.entries() {
                ranks[pos.get() as usize] = rank;
            }
            for at in (0..pack.count()).map(IdxPos::new) {
                let pos = order.pack_pos(at);
                let rank = ranks[pos.get() as usize];
                let Some(output) = layout.output_of(pos, order.offset(pos)).filter(|_| rank != u32::MAX) else {
                    continue;
                };
                let crc = match layout.own_crc(pos).or_else(|| pack.idx().crc32(at)) {
                    Some(crc) => crc,
                    None => crc32fast::hash(&pack.entry_bytes(pos)?),
                };
                rows.push(NewEntry { id: pack.idx().id(at), crc, output, rank });
            }
        }
        let ids = self.numbering.outside_ids();
        for entry in &self.layout.outside {
            let id = ids[(entry.nr - self.numbering.packed_len()) as usize];
            rows.push(NewEntry { id, crc: entry.crc, output: entry.output, rank: entry.rank });
        }
        // Each pack's rows are sorted already, which a merging sort makes use of.
        rows.sort_by_key(|row| row.id);
        Ok(rows)
    }

    fn pack<W: Write>(&mut self, index: usize, out: &mut Out<'a, W>) -> Result<(), PackError> {
        let numbering = self.numbering;
        let range = numbering.pack_range(index);
        if self.objects.next_at_or_after(ObjectNr::new(range.start)).is_none_or(|nr| nr.get() >= range.end) {
            return Ok(());
        }
        let pack: &'a Pack = numbering.pack(index);
        let order = pack.order()?;
        let before = self.tally.pack_reused;
        let mut done = 0;
        for (start, end) in self.objects.ranges(range.start, range.end) {
            let (mut pos, end) = (start - range.start, end - range.start);
            while pos < end {
                let from = order.offset(PackPos::new(pos)).get();
                let mut stop = pos + 1;
                while stop < end && order.end(PackPos::new(stop)).get() - from <= WINDOW {
                    stop += 1;
                }
                self.window(index, pack, order, pos..stop, end - pos > 1, out)?;
                self.observer.inc(u64::from(stop - pos));
                if self.observer.cancelled() {
                    return Err(PackError::Cancelled);
                }
                pos = stop;
                // Bases of what follows lie near, and the hashing thread may lag behind a little.
                let near = from.saturating_sub(2 * WINDOW);
                if near >= done + 4 * WINDOW {
                    pack.forget(done..near);
                    done = near;
                }
            }
        }
        self.tally.packs_reused += u32::from(self.tally.pack_reused > before);
        Ok(())
    }

    /// Writes the entries at `positions`, all of which are wanted. `run`: they are part of a run.
    fn window<W: Write>(
        &mut self,
        index: usize,
        pack: &'a Pack,
        order: &'a PackOrder,
        positions: std::ops::Range<u32>,
        run: bool,
        out: &mut Out<'a, W>,
    ) -> Result<(), PackError> {
        let from = order.offset(PackPos::new(positions.start)).get();
        let to = order.end(PackPos::new(positions.end - 1)).get();
        // A single entry larger than a window is looked at piece by piece.
        let held = (to - from).min(WINDOW.max(MAX_LEN as u64));
        let window = Window { from, bytes: pack.slice(PackOffset::new(from), held)? };
        let checked = match self.options.verify_reuse {
            VerifyReuse::Entries => !run,
            VerifyReuse::Runs | VerifyReuse::All => true,
        };
        // Fetched together, since one by one each would wait for the memory that the index lies in.
        self.crcs.clear();
        if checked && pack.idx().version() > 1 {
            let crc_of = |pos| pack.idx().crc32(order.idx_pos(PackPos::new(pos)));
            self.crcs.extend(positions.clone().filter_map(crc_of));
        }
        // Bytes of the window that are decided and not written: all kept as they lie.
        let mut pending = from..from;
        for (rank_in_window, pos) in positions.enumerate() {
            let pos = PackPos::new(pos);
            let (at, end) = (order.offset(pos), order.end(pos));
            let entry = window.held(at, end);
            let output = out.total() + (pending.end - pending.start);
            let sound = !checked || self.is_sound(pack, (at, end), entry, self.crcs.get(rank_in_window).copied())?;
            let fate = match Header::parse(entry, self.hash) {
                Ok((header, header_len)) if sound => {
                    Some((self.fate(index, pack, order, pos, &header, output)?, header, header_len))
                }
                _ => None,
            };
            let rank = self.layout.count;
            match fate {
                Some((Fate::Keep, header, _)) => {
                    pending.end = end.get();
                    self.layout.packs[index].kept(pos, at, output, rank);
                    self.tally.reuse(run || self.bitmapped && index == 0, header.kind.is_delta());
                }
                Some((Fate::Rehead(header), _, header_len)) => {
                    self.copy(pack, pending, &window, out)?;
                    out.crc32_begin();
                    self.header.clear();
                    header.encode(&mut self.header);
                    out.write_all(&self.header).map_err(PackError::output)?;
                    self.copy(pack, at.get() + header_len as u64..end.get(), &window, out)?;
                    let crc = out.crc32_end();
                    pending = end.get()..end.get();
                    self.layout.packs[index].rewritten(pos, at, output, rank, crc);
                    self.tally.reuse(self.bitmapped && index == 0, true);
                }
                Some((Fate::Whole, ..)) | None => {
                    self.copy(pack, pending, &window, out)?;
                    let id = pack.idx().id(order.idx_pos(pos));
                    // A damaged entry may inflate to a wrong object: only its name tells.
                    let crc = self.whole(&id, fate.is_none(), out)?;
                    pending = end.get()..end.get();
                    self.layout.packs[index].rewritten(pos, at, output, rank, crc);
                }
            }
            self.layout.count += 1;
        }
        self.copy(pack, pending, &window, out)
    }

    /// Whether the entry has the CRC-32 that the index gives. Version 1 of the index has none:
    /// then the entry must inflate to its size.
    fn is_sound(
        &mut self,
        pack: &Pack,
        (at, end): (PackOffset, PackOffset),
        held: &[u8],
        expected: Option<u32>,
    ) -> Result<bool, PackError> {
        let whole = held.len() as u64 == end.get() - at.get();
        match expected {
            Some(expected) if whole => Ok(crc32fast::hash(held) == expected),
            Some(expected) => {
                let mut crc = crc32fast::Hasher::new();
                let mut next = at.get();
                while next < end.get() {
                    let piece = pack.slice(PackOffset::new(next), (end.get() - next).min(WINDOW))?;
                    crc.update(&piece);
                    next += piece.len() as u64;
                }
                Ok(crc.finalize() == expected)
            }
            None => {
                let Ok((header, header_len)) = Header::parse(held, self.hash) else { return Ok(false) };
                let entry = if whole { Cow::Borrowed(held) } else { pack.slice(at, end.get() - at.get())? };
                let Some(deflated) = entry.get(header_len..) else { return Ok(false) };
                self.content.clear();
                Ok(self.inflate.inflate_into(deflated, header.size, &mut self.content).is_ok())
            }
        }
    }

    /// Decides about the entry at `pos`, which is to be put to `output`.
    fn fate(
        &mut self,
        index: usize,
        pack: &Pack,
        order: &PackOrder,
        pos: PackPos,
        header: &Header,
        output: u64,
    ) -> Result<Fate, PackError> {
        if !self.options.reuse_object {
            return Ok(Fate::Whole);
        }
        let at = order.offset(pos);
        let base_pos = match &header.kind {
            EntryKind::OfsDelta { distance } => {
                let Some(base_at) = at.get().checked_sub(*distance) else { return Ok(Fate::Whole) };
                // The usual case: the base is in the stretch that this entry carries on, and so at
                // its old distance.
                if self.options.delta_base_offset
                    && self.options.reuse_delta
                    && *distance > 0
                    && self.layout.packs[index].carries_on(pos, at, output).is_some_and(|start| base_at >= start)
                {
                    return Ok(Fate::Keep);
                }
                order.pos_at(PackOffset::new(base_at))
            }
            EntryKind::RefDelta { base } => pack.idx().lookup(base).map(|p| order.pack_pos(p)),
            EntryKind::Commit | EntryKind::Tree | EntryKind::Blob | EntryKind::Tag => return Ok(Fate::Keep),
        };
        // A stored delta without its base in the same pack is damage.
        let Some(base_pos) = base_pos.filter(|_| self.options.reuse_delta) else { return Ok(Fate::Whole) };
        let base_id = pack.idx().id(order.idx_pos(base_pos));
        let base_nr = ObjectNr::new(self.numbering.pack_base(index) + base_pos.get());
        let canonical =
            if self.objects.contains(base_nr) { Some(base_nr) } else { self.numbering.packed_number_of(&base_id)? };
        if let Some(nr) = canonical.filter(|nr| self.objects.contains(*nr)) {
            let offset_in = |pack: usize, pos| self.numbering.pack(pack).order().ok().map(|order| order.offset(pos));
            let written = self.layout.output_of(self.numbering.place(nr), offset_in);
            return Ok(match (written, &header.kind) {
                (Some(base_output), kind) if self.options.delta_base_offset => {
                    let distance = output - base_output;
                    match kind {
                        EntryKind::OfsDelta { distance: old } if *old == distance => Fate::Keep,
                        _ => Fate::Rehead(Header { kind: EntryKind::OfsDelta { distance }, size: header.size }),
                    }
                }
                (None, _) if !self.chain_ends(index, pack, order, pos) => Fate::Whole,
                (_, EntryKind::RefDelta { .. }) => Fate::Keep,
                _ => Fate::Rehead(Header { kind: EntryKind::RefDelta { base: base_id }, size: header.size }),
            });
        }
        // Not sent: the receiver may have it.
        let theirs = self.known.contains(base_nr) || canonical.is_some_and(|nr| self.known.contains(nr));
        Ok(match (self.options.thin && theirs, &header.kind) {
            (true, EntryKind::RefDelta { .. }) => Fate::Keep,
            (true, _) => Fate::Rehead(Header { kind: EntryKind::RefDelta { base: base_id }, size: header.size }),
            (false, _) => Fate::Whole,
        })
    }

    /// Whether the chain of bases below the entry ends, as every chain of a sound pack does. Only
    /// asked when a base is written after what is made from it, which completed thin packs cause.
    fn chain_ends(&mut self, index: usize, pack: &Pack, order: &PackOrder, pos: PackPos) -> bool {
        let first = self.numbering.pack_base(index);
        let mut seen = HashSet::new();
        let mut next = Some(pos);
        while let Some(pos) = next {
            if self.ending.contains(&(first + pos.get())) {
                break;
            }
            if !seen.insert(first + pos.get()) {
                return false;
            }
            let at = order.offset(pos);
            next = match pack.entry(at).map(|(header, _)| header.kind) {
                Ok(EntryKind::OfsDelta { distance }) => {
                    match at.get().checked_sub(distance).and_then(|b| order.pos_at(PackOffset::new(b))) {
                        None => return false,
                        base => base,
                    }
                }
                Ok(EntryKind::RefDelta { base }) => match pack.idx().lookup(&base) {
                    None => return false,
                    Some(base) => Some(order.pack_pos(base)),
                },
                Ok(_) => None,
                Err(_) => return false,
            };
        }
        self.ending.extend(seen);
        true
    }

    /// Copies `range` of the pack, of which `window` holds a part.
    fn copy<W: Write>(
        &self,
        pack: &'a Pack,
        range: std::ops::Range<u64>,
        window: &Window<'a>,
        out: &mut Out<'a, W>,
    ) -> Result<(), PackError> {
        if range.is_empty() {
            return Ok(());
        }
        let held = (range.start - window.from) as usize..(range.end - window.from) as usize;
        match &window.bytes {
            Cow::Borrowed(bytes) if held.end <= bytes.len() => {
                let bytes: &'a [u8] = bytes;
                out.write_shared(&bytes[held]).map_err(PackError::output)
            }
            Cow::Owned(bytes) if held.end <= bytes.len() => out.write_all(&bytes[held]).map_err(PackError::output),
            _ => {
                let mut next = range.start;
                while next < range.end {
                    let piece = pack.slice(PackOffset::new(next), (range.end - next).min(WINDOW))?;
                    next += piece.len() as u64;
                    match piece {
                        Cow::Borrowed(piece) => out.write_shared(piece),
                        Cow::Owned(piece) => out.write_all(&piece),
                    }
                    .map_err(PackError::output)?;
                }
                Ok(())
            }
        }
    }

    /// Writes the object called `id` whole, and answers the entry's CRC-32. With `verify`, its
    /// content must have that name.
    fn whole<W: Write>(&mut self, id: &ObjectId, verify: bool, out: &mut Out<'a, W>) -> Result<u32, PackError> {
        let store = self.numbering.store();
        let failed = |source| PackError::Object { id: *id, source };
        let header = store.header(id);
        if let Ok(header) = &header
            && header.size >= self.options.big_file_threshold
            && !verify
        {
            return self.stream(id, header.kind, header.size, out);
        }
        self.content.clear();
        let kind = if verify {
            // Damage is rare enough for a store of its own, which checks every copy it reads.
            let checking = match self.checking.take() {
                Some(checking) => checking,
                None => odb::Store::open(store.objects_dir(), store.options().clone().verify_on_read(true))?,
            };
            let kind = checking.read(id, &mut self.content).map_err(failed)?;
            self.checking = Some(checking);
            kind
        } else {
            store.read(id, &mut self.content).map_err(failed)?
        };
        self.deflated.clear();
        self.deflate.deflate(&self.content, &mut self.deflated);
        out.crc32_begin();
        self.header.clear();
        Header { kind: kind.into(), size: self.content.len() as u64 }.encode(&mut self.header);
        out.write_all(&self.header).map_err(PackError::output)?;
        out.write_all(&self.deflated).map_err(PackError::output)?;
        Ok(out.crc32_end())
    }

    /// As [`whole`](Self::whole), without holding the object.
    fn stream<W: Write>(
        &mut self,
        id: &ObjectId,
        kind: ObjectKind,
        size: u64,
        out: &mut Out<'a, W>,
    ) -> Result<u32, PackError> {
        let unstable = || PackError::Unstable { id: *id };
        let mut content = self.numbering.store().stream(id).map_err(|source| PackError::Object { id: *id, source })?;
        let mut name = NameHasher::new(self.hash, kind, size);
        out.crc32_begin();
        self.header.clear();
        Header { kind: kind.into(), size }.encode(&mut self.header);
        out.write_all(&self.header).map_err(PackError::output)?;
        self.content.resize(hashfile::DEFAULT_IO_BUFFER_SIZE, 0);
        self.deflated.resize(hashfile::DEFAULT_IO_BUFFER_SIZE, 0);
        self.deflate.reset();
        let mut left = size;
        loop {
            let n = content.read(&mut self.content).map_err(|_| unstable())?;
            name.update(&self.content[..n]);
            left = left.checked_sub(n as u64).ok_or_else(unstable)?;
            let mut rest = &self.content[..n];
            let done = loop {
                let step = self.deflate.step(rest, &mut self.deflated, n == 0);
                out.write_all(&self.deflated[..step.produced]).map_err(PackError::output)?;
                rest = &rest[step.consumed..];
                if step.done || n > 0 && rest.is_empty() {
                    break step.done;
                }
            };
            if done {
                break;
            }
            if self.observer.cancelled() {
                return Err(PackError::Cancelled);
            }
        }
        // Too late to take the bytes back, but the pack gets no trailer.
        if left != 0 || name.finish().ok() != Some(*id) {
            return Err(unstable());
        }
        Ok(out.crc32_end())
    }

    /// Writes the objects outside packs: by kind, and by id, since the order in which they were met may
    /// depend on threads.
    fn outside<W: Write>(&mut self, out: &mut Out<'a, W>) -> Result<(), PackError> {
        let first = self.numbering.packed_len();
        let store = self.numbering.store();
        let mut wanted = Vec::new();
        for (rank, id) in self.numbering.outside_ids().into_iter().enumerate() {
            let nr = first + rank as u32;
            if self.objects.contains(ObjectNr::new(nr)) {
                let kind = store.header(&id).map_err(|source| PackError::Object { id, source })?.kind;
                wanted.push((kind_rank(kind), nr, id));
            }
        }
        wanted.sort_unstable_by_key(|&(kind, _, id)| (kind, id));
        for (_, nr, id) in wanted {
            let output = out.total();
            let crc = self.whole(&id, false, out)?;
            let rank = self.layout.count;
            self.layout.outside.push(OutsideEntry { nr, output, rank, crc });
            self.layout.count += 1;
            self.observer.inc(1);
            if self.observer.cancelled() {
                return Err(PackError::Cancelled);
            }
        }
        Ok(())
    }
}

fn kind_rank(kind: ObjectKind) -> u8 {
    match kind {
        ObjectKind::Commit => 0,
        ObjectKind::Tag => 1,
        ObjectKind::Tree => 2,
        ObjectKind::Blob => 3,
    }
}

/// The pack that is exactly the selection, if there is one that can stand as it is. With `check`,
/// one with a damaged entry cannot.
pub(crate) fn verbatim<'a>(
    selection: &'a Selection,
    options: &WriteOptions,
    count: u64,
    check: bool,
    observer: &dyn Observer,
) -> Result<Option<&'a Pack>, PackError> {
    let numbering = &selection.numbering;
    if !options.reuse_object || !options.reuse_delta || count == 0 {
        return Ok(None);
    }
    for index in 0..numbering.pack_count() {
        let pack = numbering.pack(index);
        let range = numbering.pack_range(index);
        if u64::from(pack.count()) != count || selection.objects.count_range(range.start, range.end) != count {
            continue;
        }
        // Version 3 is read by some and written by none.
        let header = PackHeader::from_bytes(&pack.slice(PackOffset::new(0), PackHeader::LEN as u64)?);
        let current = header.is_ok_and(|header| header.version == 2);
        if !current || !(options.delta_base_offset || has_no_offset_deltas(pack)?) {
            return Ok(None);
        }
        return Ok((!check || is_intact(pack, observer)?).then_some(&**pack));
    }
    Ok(None)
}

fn has_no_offset_deltas(pack: &Pack) -> Result<bool, PackError> {
    let order = pack.order()?;
    for pos in 0..pack.count() {
        if matches!(pack.entry(order.offset(PackPos::new(pos)))?.0.kind, EntryKind::OfsDelta { .. }) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether every entry of `pack` has the CRC-32 that its index gives.
fn is_intact(pack: &Pack, observer: &dyn Observer) -> Result<bool, PackError> {
    let order = pack.order()?;
    let mut done = 0;
    for pos in (0..pack.count()).map(PackPos::new) {
        if !pack.crc_matches(pos)? {
            return Ok(false);
        }
        let end = order.end(pos).get();
        if end - done >= WINDOW {
            pack.forget(done..end);
            done = end;
            if observer.cancelled() {
                return Err(PackError::Cancelled);
            }
        }
    }
    Ok(true)
}
