//! A pack in a file, read along its index: entries are where that says, so that none has to be inflated to find the next.

use std::fs::File;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use object::{Checksum, ObjectId};
use pack_format::PackOffset;
use pack_format::entry::{EntryKind, Header, MAX_LEN, PackHeader};
use pack_format::idx::Idx;

use crate::budget::Arena;
use crate::emit;
use crate::error::ReceiveError;
use crate::look;
use crate::options::Options;
use crate::platform;
use crate::receive::{Counts, Resolved, ScannedFile, Timings};
use crate::table::{MAX_OFFSET, NONE, NOT_KEPT, Row, Stored, Table};

/// Bytes read at a time.
const BLOCK: usize = 1 << 20;

/// Blocks that wait to be hashed.
const QUEUE: usize = 4;

/// Reads and resolves the pack. An index that does not fit is an error, but not a very telling one.
pub(crate) fn scan<D: AsRef<[u8]>>(pack: &Path, idx: &Idx<D>, options: &Options) -> Result<ScannedFile, ReceiveError> {
    let begun = Instant::now();
    let failed = || ReceiveError::file(pack);
    let file = File::open(pack).map_err(failed())?;
    let len = file.metadata().map_err(failed())?.len();
    let hash = options.hash;
    let misfit = |at: u64| ReceiveError::Truncated { at };
    let end = len.checked_sub(hash.len() as u64).filter(|&end| end < MAX_OFFSET).ok_or(misfit(len))?;
    let mut offsets = Vec::with_capacity(idx.count() as usize);
    for offset in idx.offsets() {
        offsets.push(offset.map_err(|_| misfit(0))?.get());
    }
    offsets.sort_unstable();
    if offsets.first().is_some_and(|&first| first != PackHeader::LEN as u64) || offsets.last() >= Some(&end) {
        return Err(misfit(end));
    }
    options.observer.phase("Indexing objects", Some(offsets.len() as u64));
    let mut read = Reading { file: &file, pack, end, block: Vec::new(), from: 0 };
    let mut table = Table::new(hash);
    let mut refs = Vec::new();
    let checksum = std::thread::scope(|scope| {
        let (to, inbox) = sync_channel::<Vec<u8>>(QUEUE);
        let hashing = move || {
            let mut checksum = Checksum::new(hash);
            inbox.into_iter().for_each(|block| checksum.update(&block));
            checksum.finish()
        };
        let hasher = match options.threads {
            0 | 1 => None,
            _ => std::thread::Builder::new().name("checksum".into()).spawn_scoped(scope, hashing).ok(),
        };
        let mut here = Checksum::new(hash);
        let threaded = hasher.is_some();
        let mut pass = |block: Vec<u8>| match threaded {
            true => to.send(block).map_err(|_| ReceiveError::Thread),
            false => {
                here.update(&block);
                Ok(())
            }
        };
        entries(&mut read, &offsets, &mut table, &mut refs, options, &mut pass)?;
        drop(to);
        match hasher {
            Some(thread) => thread.join().map_err(|_| ReceiveError::Thread),
            None => Ok(here.finish()),
        }
    })?;
    let mut trailer = vec![0; hash.len()];
    platform::read_at(&file, &mut trailer, end).map_err(failed())?;
    let found = ObjectId::from_prefix(&trailer, hash).unwrap_or(hash.null());
    if found != checksum {
        return Err(ReceiveError::Checksum { expected: checksum, found });
    }
    table.end = end;
    let mut timings = Timings { receive: begun.elapsed(), ..Timings::default() };
    let begun = Instant::now();
    let objects = table.len();
    let mut resolved = Resolved { count: objects, table: &mut table, deltas: 0, bases: Vec::new() };
    resolved.run(&file, pack, refs, &Arena::default(), &[], options)?;
    let deltas = resolved.deltas;
    timings.resolve = begun.elapsed();
    let order = emit::order(&table, 0..objects);
    look::again(&file, pack, &mut table, &order, &Arena::default(), objects, options)?;
    let counts = Counts { objects, deltas, appended: 0, bytes: len };
    Ok(ScannedFile { table, order, checksum, counts, timings, options: options.clone() })
}

/// The file, block by block.
struct Reading<'f> {
    file: &'f File,
    pack: &'f Path,
    /// Where the trailer begins.
    end: u64,
    block: Vec<u8>,
    /// Offset of the block.
    from: u64,
}

impl Reading<'_> {
    /// The next block, if there is one; the one before is passed on.
    fn next(&mut self, pass: &mut dyn FnMut(Vec<u8>) -> Result<(), ReceiveError>) -> Result<bool, ReceiveError> {
        let before = std::mem::take(&mut self.block);
        self.from += before.len() as u64;
        if !before.is_empty() {
            pass(before)?;
        }
        let len = (self.end - self.from).min(BLOCK as u64) as usize;
        self.block = vec![0; len];
        let read = platform::read_at(self.file, &mut self.block, self.from).map_err(ReceiveError::file(self.pack))?;
        match read == len {
            true => Ok(len > 0),
            false => Err(ReceiveError::Truncated { at: self.from + read as u64 }),
        }
    }

    /// Up to `MAX_LEN` bytes at `at`, which lies in the block; they may go on in the next.
    fn head<'b>(&'b self, at: u64, beyond: &'b mut [u8; MAX_LEN]) -> Result<&'b [u8], ReceiveError> {
        let here = self.block.get((at - self.from) as usize..).unwrap_or_default();
        if here.len() >= MAX_LEN {
            return Ok(here);
        }
        let len = (self.end - at).min(MAX_LEN as u64) as usize;
        let bytes = beyond.get_mut(..len).unwrap_or_default();
        platform::read_at(self.file, bytes, at).map_err(ReceiveError::file(self.pack))?;
        Ok(bytes)
    }
}

fn entries(
    read: &mut Reading<'_>,
    offsets: &[u64],
    table: &mut Table,
    refs: &mut Vec<(ObjectId, u32)>,
    options: &Options,
    pass: &mut dyn FnMut(Vec<u8>) -> Result<(), ReceiveError>,
) -> Result<(), ReceiveError> {
    read.next(pass)?;
    let count = PackHeader::from_bytes(&read.block).map_err(ReceiveError::Header)?.count;
    if count as usize != offsets.len() {
        return Err(ReceiveError::Truncated { at: read.end });
    }
    let ends = offsets.iter().skip(1).copied().chain([read.end]);
    for (&at, end) in offsets.iter().zip(ends) {
        while at >= read.from + read.block.len() as u64 {
            if !read.next(pass)? {
                return Err(ReceiveError::Truncated { at });
            }
        }
        if options.observer.cancelled() {
            return Err(ReceiveError::Cancelled);
        }
        let mut beyond = [0; MAX_LEN];
        let (header, header_len) = Header::parse(read.head(at, &mut beyond)?, options.hash)
            .map_err(|source| ReceiveError::Entry { at, source })?;
        if at + header_len as u64 > end {
            return Err(ReceiveError::Truncated { at });
        }
        if let Some(limit) = options.max_object_size.filter(|&limit| header.size > limit) {
            return Err(ReceiveError::Limit { what: "size in bytes", found: header.size, limit, at });
        }
        let parent = match header.base_offset(PackOffset::new(at)) {
            Some(Ok(base)) => table.find(base.get()).ok_or(ReceiveError::NoBase { at, base: base.get() })?,
            Some(Err(source)) => return Err(ReceiveError::Entry { at, source }),
            None => NONE,
        };
        let stored = match (header.kind, header.kind.object_kind()) {
            (_, Some(kind)) => Stored::Whole(kind),
            (EntryKind::RefDelta { .. }, _) => Stored::RefDelta,
            _ => Stored::OfsDelta,
        };
        let mut crc = crc32fast::Hasher::new();
        let mut from = at;
        loop {
            let here = (from - read.from) as usize;
            let to = (end - read.from).min(read.block.len() as u64) as usize;
            crc.update(read.block.get(here..to).unwrap_or_default());
            from = read.from + to as u64;
            if from == end {
                break;
            }
            read.next(pass)?;
        }
        let row = Row {
            at,
            header_len: header_len as u8,
            stored,
            size: header.size,
            crc: crc.finalize(),
            parent,
            kept: NOT_KEPT,
        };
        let entry = table.push(row, None);
        if let EntryKind::RefDelta { base } = header.kind {
            refs.push((base, entry));
        }
    }
    while read.next(pass)? {}
    options.observer.inc(offsets.len() as u64);
    Ok(())
}
