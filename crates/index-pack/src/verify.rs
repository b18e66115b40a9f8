//! A pack that is there, held against its index: every object made and named, every byte accounted for.

use std::io;
use std::path::Path;

use hashfile::Compare;
use hashfile::publish::IfExists;
use object::{ObjectId, ObjectKind};
use odb::{ByteSource, Bytes};
use pack_format::PackOffset;
use pack_format::idx::Idx;

use crate::along;
use crate::emit::{self, Place};
use crate::error::ReceiveError;
use crate::options::{IndexVersion, Options};
use crate::receive::{Counts, ScannedFile, Timings, scan_file};
use crate::table::{NONE, Stored, Table};

/// An object of a pack that was found sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackedObject {
    /// Its name.
    pub id: ObjectId,
    /// Its kind.
    pub kind: ObjectKind,
    /// Bytes of its entry inflated: of the object, or of the delta.
    pub size: u64,
    /// Bytes of its entry in the pack.
    pub packed: u64,
    /// Where its entry begins.
    pub at: PackOffset,
    /// Deltas between it and a whole object.
    pub depth: u32,
    /// The object that it is a delta against.
    pub base: Option<ObjectId>,
}

/// A pack that was found sound.
#[derive(Debug)]
pub struct Verified {
    table: Table,
    depths: Vec<u32>,
    /// Its trailer.
    checksum: ObjectId,
    counts: Counts,
    timings: Timings,
}

impl Verified {
    /// Its trailer.
    #[must_use]
    pub fn checksum(&self) -> ObjectId {
        self.checksum
    }

    /// How much there was to do.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How long it took.
    #[must_use]
    pub fn timings(&self) -> Timings {
        self.timings
    }

    /// All objects, in the order of the pack.
    pub fn objects(&self) -> impl ExactSizeIterator<Item = PackedObject> + '_ {
        let count = self.counts.objects;
        (0..count).map(move |entry| {
            let at = self.table.offset(entry);
            let parent = self.table.parent(entry);
            PackedObject {
                id: self.table.id(entry),
                kind: self.kind(entry),
                size: self.table.size(entry),
                packed: self.table.end_of(entry, count) - at,
                at: PackOffset::new(at),
                depth: self.depths.get(entry as usize).copied().unwrap_or(0),
                base: (parent != NONE).then(|| self.table.id(parent)),
            }
        })
    }

    /// How many objects have each depth; those of depth 0 are whole.
    #[must_use]
    pub fn histogram(&self) -> Vec<u32> {
        let mut histogram = Vec::new();
        for &depth in &self.depths {
            let depth = depth as usize;
            if histogram.len() <= depth {
                histogram.resize(depth + 1, 0);
            }
            if let Some(slot) = histogram.get_mut(depth) {
                *slot += 1;
            }
        }
        histogram
    }

    fn kind(&self, entry: u32) -> ObjectKind {
        let mut entry = entry;
        loop {
            match self.table.stored(entry) {
                Stored::Whole(kind) => return kind,
                _ => entry = self.table.parent(entry),
            }
        }
    }
}

/// How deep each entry lies. Every delta has its base. Linear: each chain is climbed as far as what is known.
fn depths(table: &Table) -> Vec<u32> {
    let mut depths = vec![NONE; table.len() as usize];
    let mut path = Vec::new();
    for entry in 0..table.len() {
        let mut at = entry;
        let mut depth = loop {
            match depths.get(at as usize) {
                Some(&NONE) => match table.parent(at) {
                    NONE => break NONE, // a whole object; one more is 0
                    parent => {
                        path.push(at);
                        at = parent;
                    }
                },
                Some(&known) => break known,
                None => break NONE,
            }
        };
        if depth == NONE {
            depth = 0;
            if let Some(slot) = depths.get_mut(at as usize) {
                *slot = 0;
            }
        }
        while let Some(entry) = path.pop() {
            depth += 1;
            if let Some(slot) = depths.get_mut(entry as usize) {
                *slot = depth;
            }
        }
    }
    depths
}

/// Verifies a pack and its index.
///
/// Every object is made and named, and an index of them must be the one that is there, byte for byte, in whichever version
/// and with whichever table of large offsets that was written.
///
/// # Errors
/// If the pack is unsound, or the index is another.
pub fn verify(pack: &Path, idx: Option<&Path>, options: Options) -> Result<Verified, ReceiveError> {
    let idx = idx.map_or_else(|| pack.with_extension("idx"), Path::to_owned);
    let theirs = Bytes::open(&idx, ByteSource::Mmap).map_err(ReceiveError::file(&idx))?;
    let parsed = Idx::parse(theirs.as_ref(), options.hash)
        .map_err(|source| ReceiveError::Index { path: idx.clone(), source })?;
    let options = Options { store: None, ..as_written(&parsed, options) };
    // The index says where entries begin, which is better than to find out. Where that leads to no good end, the pack is
    // looked at without it, since what is wrong with it is not for the index to say.
    let scanned = match along::scan(pack, &parsed, &options) {
        Ok(scanned) => scanned,
        Err(error @ (ReceiveError::Cancelled | ReceiveError::Refused(_))) => return Err(error),
        Err(_) => {
            let place = Place { pack: pack.into(), idx: idx.clone(), if_exists: IfExists::Refuse };
            scan_file(pack, &place, options)?
        }
    };
    compare(&idx, theirs.as_ref(), &scanned)?;
    let ScannedFile { table, checksum, counts, timings, .. } = scanned;
    Ok(Verified { depths: depths(&table), table, checksum, counts, timings })
}

/// The options with which an index was written.
fn as_written<D: AsRef<[u8]>>(idx: &Idx<D>, options: Options) -> Options {
    if idx.version() == 1 {
        return options.index_version(IndexVersion::V1);
    }
    // Every offset beyond the limit has a slot in the table before the trailer: the limit is below the least of them.
    let bytes = idx.as_bytes();
    let end = bytes.len().saturating_sub(2 * options.hash.len());
    let from = end.saturating_sub(idx.large_count() as usize * 8);
    let (slots, _) = bytes.get(from..end).unwrap_or_default().as_chunks::<8>();
    let least = slots.iter().map(|slot| u64::from_be_bytes(*slot)).min();
    let limit = least.map_or(u32::MAX, |least| u32::try_from(least.saturating_sub(1)).unwrap_or(u32::MAX));
    options.index_version(IndexVersion::V2).offset_limit(limit)
}

fn compare(path: &Path, theirs: &[u8], scanned: &ScannedFile) -> Result<(), ReceiveError> {
    let differs = |source| ReceiveError::IndexDiffers { path: path.into(), source };
    let sink = Compare::new(theirs);
    let sink = emit::write_idx(sink, &scanned.table, &scanned.order, &scanned.checksum, &scanned.options);
    match sink {
        Ok(sink) => sink.finish().map(drop).map_err(differs),
        Err(pack_format::WriteError::Io(source)) => Err(differs(source)),
        Err(error) => Err(differs(io::Error::other(error))),
    }
}
