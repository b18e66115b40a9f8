//! What is known of each entry, in flat arrays: some forty bytes an entry, and no pointers.
//!
//! An entry is a `u32`, its rank in the pack. Behind the pack's own come those that stand for bases from the store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use object::{HashKind, ObjectId, ObjectKind};

/// No entry.
pub(crate) const NONE: u32 = u32::MAX;

/// An offset in the arena of deltas that was not kept.
pub(crate) const NOT_KEPT: u32 = u32::MAX;

/// What an entry stores, as a small number: git's type numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    Whole(ObjectKind),
    OfsDelta,
    RefDelta,
}

impl Stored {
    fn bits(self) -> u64 {
        match self {
            Stored::Whole(ObjectKind::Commit) => 1,
            Stored::Whole(ObjectKind::Tree) => 2,
            Stored::Whole(ObjectKind::Blob) => 3,
            Stored::Whole(ObjectKind::Tag) => 4,
            Stored::OfsDelta => 6,
            Stored::RefDelta => 7,
        }
    }

    fn from_bits(bits: u64) -> Stored {
        match bits {
            1 => Stored::Whole(ObjectKind::Commit),
            2 => Stored::Whole(ObjectKind::Tree),
            4 => Stored::Whole(ObjectKind::Tag),
            6 => Stored::OfsDelta,
            7 => Stored::RefDelta,
            _ => Stored::Whole(ObjectKind::Blob),
        }
    }
}

/// A new entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) at: u64,
    pub(crate) header_len: u8,
    pub(crate) stored: Stored,
    pub(crate) size: u64,
    pub(crate) crc: u32,
    pub(crate) parent: u32,
    pub(crate) kept: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) hash: HashKind,
    /// Offset in the lowest 48 bits, then eight of header length, then eight of kind.
    head: Vec<u64>,
    /// Bytes inflated, or `u32::MAX` and the number in `large`.
    size: Vec<u32>,
    large: HashMap<u32, u64>,
    crc: Vec<u32>,
    names: Vec<u8>,
    /// The entry that a delta is against, once known. Set at most once while threads work.
    parent: Vec<AtomicU32>,
    kept: Vec<u32>,
    /// Behind the last entry of the pack.
    pub(crate) end: u64,
}

/// Offsets are below this: 256 TiB.
pub(crate) const MAX_OFFSET: u64 = 1 << 48;

impl Table {
    pub(crate) fn new(hash: HashKind) -> Table {
        Table {
            hash,
            head: Vec::new(),
            size: Vec::new(),
            large: HashMap::new(),
            crc: Vec::new(),
            names: Vec::new(),
            parent: Vec::new(),
            kept: Vec::new(),
            end: 0,
        }
    }

    /// Bytes that an entry takes, here and in the forest.
    pub(crate) fn row_len(hash: HashKind) -> u64 {
        8 + 4 + 4 + 4 + 4 + 12 + hash.len() as u64
    }

    pub(crate) fn len(&self) -> u32 {
        self.head.len() as u32
    }

    /// Appends an entry, whose offset is below [`MAX_OFFSET`].
    pub(crate) fn push(&mut self, row: Row, name: Option<&ObjectId>) -> u32 {
        let entry = self.len();
        self.head.push(row.at | u64::from(row.header_len) << 48 | row.stored.bits() << 56);
        self.size.push(u32::try_from(row.size).unwrap_or(u32::MAX));
        if row.size >= u64::from(u32::MAX) {
            self.large.insert(entry, row.size);
        }
        self.crc.push(row.crc);
        match name {
            Some(name) => self.names.extend_from_slice(name.as_bytes()),
            None => self.names.resize(self.names.len() + self.hash.len(), 0),
        }
        self.parent.push(AtomicU32::new(row.parent));
        self.kept.push(row.kept);
        entry
    }

    #[inline]
    fn head(&self, entry: u32) -> u64 {
        self.head.get(entry as usize).copied().unwrap_or(0)
    }

    #[inline]
    pub(crate) fn offset(&self, entry: u32) -> u64 {
        self.head(entry) & (MAX_OFFSET - 1)
    }

    #[inline]
    pub(crate) fn header_len(&self, entry: u32) -> u64 {
        self.head(entry) >> 48 & 0xff
    }

    #[inline]
    pub(crate) fn stored(&self, entry: u32) -> Stored {
        Stored::from_bits(self.head(entry) >> 56)
    }

    /// The end of an entry of the pack, as long as nothing was appended.
    pub(crate) fn end_of(&self, entry: u32, count: u32) -> u64 {
        if entry + 1 < count { self.offset(entry + 1) } else { self.end }
    }

    pub(crate) fn size(&self, entry: u32) -> u64 {
        match self.size.get(entry as usize) {
            Some(&u32::MAX) => self.large.get(&entry).copied().unwrap_or(u64::from(u32::MAX)),
            Some(&size) => u64::from(size),
            None => 0,
        }
    }

    pub(crate) fn crc(&self, entry: u32) -> u32 {
        self.crc.get(entry as usize).copied().unwrap_or(0)
    }

    pub(crate) fn kept(&self, entry: u32) -> u32 {
        self.kept.get(entry as usize).copied().unwrap_or(NOT_KEPT)
    }

    #[inline]
    pub(crate) fn parent(&self, entry: u32) -> u32 {
        // Whoever reads it got the entry through a lock from whoever set it.
        self.parent.get(entry as usize).map_or(NONE, |parent| parent.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn set_parent(&self, entry: u32, parent: u32) {
        if let Some(slot) = self.parent.get(entry as usize) {
            slot.store(parent, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn id_bytes(&self, entry: u32) -> &[u8] {
        let len = self.hash.len();
        self.names.get(entry as usize * len..(entry as usize + 1) * len).unwrap_or_default()
    }

    pub(crate) fn id(&self, entry: u32) -> ObjectId {
        ObjectId::from_prefix(self.id_bytes(entry), self.hash).unwrap_or(self.hash.null())
    }

    pub(crate) fn set_name(&mut self, entry: u32, id: &ObjectId) {
        let len = self.hash.len();
        if let Some(slot) = self.names.get_mut(entry as usize * len..(entry as usize + 1) * len) {
            slot.copy_from_slice(id.as_bytes());
        }
    }

    /// Whether the entry has its name. No object is called all zeros, or SHA-1 would be no more.
    pub(crate) fn is_named(&self, entry: u32) -> bool {
        self.id_bytes(entry).iter().any(|&byte| byte != 0)
    }

    /// All names, to be changed while others read the rest.
    pub(crate) fn take_names(&mut self) -> Names {
        Names { len: self.hash.len(), bytes: std::mem::take(&mut self.names) }
    }

    pub(crate) fn give_names(&mut self, names: Names) {
        self.names = names.bytes;
    }

    /// The entry that begins at `at`, among those there are. Logarithmic.
    pub(crate) fn find(&self, at: u64) -> Option<u32> {
        let found = self.head.binary_search_by(|head| (head & (MAX_OFFSET - 1)).cmp(&at));
        found.ok().map(|entry| entry as u32)
    }

    /// Gives entries that were not part of the pack their place in it.
    pub(crate) fn place(&mut self, entry: u32, at: u64, header_len: u8, crc: u32) {
        let bits = self.stored(entry).bits();
        if let Some(head) = self.head.get_mut(entry as usize) {
            *head = at | u64::from(header_len) << 48 | bits << 56;
        }
        if let Some(slot) = self.crc.get_mut(entry as usize) {
            *slot = crc;
        }
    }
}

/// The names of all entries while threads work.
#[derive(Debug)]
pub(crate) struct Names {
    len: usize,
    bytes: Vec<u8>,
}

impl Names {
    pub(crate) fn get(&self, entry: u32, hash: HashKind) -> ObjectId {
        let bytes = self.bytes.get(entry as usize * self.len..).unwrap_or_default();
        ObjectId::from_prefix(bytes, hash).unwrap_or(hash.null())
    }

    pub(crate) fn set(&mut self, entry: u32, id: &ObjectId) {
        let at = entry as usize * self.len;
        if let Some(slot) = self.bytes.get_mut(at..at + self.len) {
            slot.copy_from_slice(id.as_bytes());
        }
    }
}
