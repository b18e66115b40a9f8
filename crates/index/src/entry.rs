//! One entry: its layout, and how it lies in memory.
//!
//! | offset | bytes | meaning |
//! |---|---|---|
//! | 0 | 24 | ctime, mtime, device, inode ([`Stat`]) |
//! | 24 | 4 | mode |
//! | 28 | 12 | uid, gid, size |
//! | 40 | 20 or 32 | id |
//! | .. | 2 | flags: assume-valid 0x8000, extended 0x4000, stage 0x3000, length of the path 0x0fff (0xfff: that or more) |
//! | .. | 2 | only if extended: skip-worktree 0x4000, intent-to-add 0x2000, others zero |
//! | .. | .. | path, NUL; versions 2 and 3: padding to a multiple of 8 |
//!
//! Big endian (gitformat-index, "Index entry"). Version 4 puts a number in front of the path: `path_v4`.
//!
//! In memory an entry is one slice. Most lie where they were read, head and path side by side, so that reading a
//! million of them allocates nothing but the list; those that were edited or came from a version 4 file are in the arena.

use std::cmp::Ordering;
use std::ops::Range;

use bumpalo::Bump;
use object::{HashKind, ObjectId};

pub use object::tree::Mode;

use crate::stat::{Stat, Time};

/// Which side of a merge an entry is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Stage {
    /// No conflict: the entry itself.
    #[default]
    Merged = 0,
    /// The common ancestor's.
    Base = 1,
    /// Ours.
    Ours = 2,
    /// Theirs.
    Theirs = 3,
}

impl Stage {
    /// All four, in their order in the index.
    pub const ALL: [Stage; 4] = [Stage::Merged, Stage::Base, Stage::Ours, Stage::Theirs];

    /// The stage of the low two bits.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Stage::Merged,
            1 => Stage::Base,
            2 => Stage::Ours,
            _ => Stage::Theirs,
        }
    }
}

/// What an entry says besides stage and path. None is set by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags {
    /// The file is taken to be unchanged without a look (`update-index --assume-unchanged`).
    pub assume_valid: bool,
    /// The file need not be in the work tree (sparse checkout).
    pub skip_worktree: bool,
    /// The path will be added; it has no content yet (`add --intent-to-add`).
    pub intent_to_add: bool,
}

pub(crate) const ASSUME_VALID: u16 = 0x8000;
pub(crate) const EXTENDED: u16 = 0x4000;
pub(crate) const STAGE_SHIFT: u32 = 12;
pub(crate) const NAME_MASK: u16 = 0x0fff;
pub(crate) const SKIP_WORKTREE: u16 = 0x4000;
pub(crate) const INTENT_TO_ADD: u16 = 0x2000;

/// Where the mode is in a head.
pub(crate) const MODE_AT: usize = 24;
/// Where the id is in a head.
pub(crate) const ID_AT: usize = 40;

/// Bytes in front of the path, without the second flag word.
#[inline]
pub(crate) const fn head_len(kind: HashKind) -> usize {
    ID_AT + kind.len() + 2
}

#[inline]
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |two| u16::from_be_bytes(*two))
}

#[inline]
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |four| u32::from_be_bytes(*four))
}

/// An entry, borrowed from the arena or the bytes it was read from: a view of 40 bytes, to be copied freely.
///
/// ```compile_fail
/// use packstone_index::{Bump, Entry, Index};
/// fn leave<'a>(index: &Index<'a>) -> Entry<'a> { index.get(0).unwrap() }
/// let entry = {
///     let arena = Bump::new();
///     let index = Index::new(&arena, object::HashKind::Sha1);
///     leave(&index)
/// }; // the arena is gone, and so is the entry
/// entry.path();
/// ```
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    /// Everything in front of the path; its length was settled when it was made.
    head: &'a [u8],
    path: &'a [u8],
    kind: HashKind,
}

impl<'a> Entry<'a> {
    /// `head` must be as long as its flags say.
    #[inline]
    pub(crate) fn new(head: &'a [u8], path: &'a [u8], kind: HashKind) -> Self {
        Entry { head, path, kind }
    }

    /// The path, from the root of the work tree, `/` between components; of any length, without NUL. A sparse directory's
    /// ends in `/`.
    ///
    /// Paths are as the file has them. Whoever creates files by them must check them first
    /// ([`path::check`](crate::path::check)): an index may come from a stranger.
    #[inline]
    pub fn path(&self) -> &'a [u8] {
        self.path
    }

    /// What the entry names: a blob, a submodule's commit, or a sparse directory's tree.
    #[inline]
    pub fn id(&self) -> ObjectId {
        ObjectId::from_prefix(self.id_bytes(), self.kind).unwrap_or(self.kind.null())
    }

    /// The raw bytes of the id, 20 or 32.
    #[inline]
    pub fn id_bytes(&self) -> &'a [u8] {
        self.head.get(ID_AT..ID_AT + self.kind.len()).unwrap_or_default()
    }

    /// What it is: `100644`, `100755`, `120000`, `160000`, or `040000` for a sparse directory.
    #[inline]
    pub fn mode(&self) -> Mode {
        Mode(be32(self.head, MODE_AT))
    }

    /// Which side of a merge it is of.
    #[inline]
    pub fn stage(&self) -> Stage {
        Stage::from_bits((self.flag_word() >> STAGE_SHIFT) as u8)
    }

    /// What `lstat` said when it was last looked at.
    pub fn stat(&self) -> Stat {
        let word = |at| be32(self.head, at);
        Stat {
            ctime: Time { secs: word(0), nanos: word(4) },
            mtime: self.mtime(),
            dev: word(16),
            ino: word(20),
            uid: word(28),
            gid: word(32),
            size: word(36),
        }
    }

    #[inline]
    pub(crate) fn mtime(&self) -> Time {
        Time { secs: be32(self.head, 8), nanos: be32(self.head, 12) }
    }

    /// Its flags.
    pub fn flags(&self) -> Flags {
        let (word, extended) = (self.flag_word(), self.extended_word());
        Flags {
            assume_valid: word & ASSUME_VALID != 0,
            skip_worktree: extended & SKIP_WORKTREE != 0,
            intent_to_add: extended & INTENT_TO_ADD != 0,
        }
    }

    #[inline]
    pub(crate) fn flag_word(&self) -> u16 {
        be16(self.head, ID_AT + self.kind.len())
    }

    #[inline]
    pub(crate) fn extended_word(&self) -> u16 {
        if self.flag_word() & EXTENDED != 0 { be16(self.head, head_len(self.kind)) } else { 0 }
    }

    /// Everything in front of the path.
    #[inline]
    pub(crate) fn head(&self) -> &'a [u8] {
        self.head
    }

    /// Whether it stands for a whole directory outside of a sparse checkout.
    #[inline]
    pub fn is_sparse_dir(&self) -> bool {
        self.mode().is_tree()
    }

    /// Whether it names a submodule's commit.
    #[inline]
    pub fn is_gitlink(&self) -> bool {
        self.mode().is_gitlink()
    }

    /// Position in the index's order: path as bytes, then stage.
    #[inline]
    pub(crate) fn cmp_key(&self, path: &[u8], stage: Stage) -> Ordering {
        self.path.cmp(path).then_with(|| self.stage().cmp(&stage))
    }
}

impl std::fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.escape_ascii();
        write!(f, "{:06o} {} {} {path} {:?}", self.mode().0, self.id(), self.stage() as u8, self.flags())
    }
}

impl PartialEq for Entry<'_> {
    /// Whether they say the same, wherever they lie.
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.path == other.path
            && self.stage() == other.stage()
            && self.flags() == other.flags()
            && self.head.get(..head_len(self.kind) - 2) == other.head.get(..head_len(self.kind) - 2)
    }
}

impl Eq for Entry<'_> {}

/// An entry to be put into an index, which copies it into its arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewEntry<'p> {
    /// Its path.
    pub path: &'p [u8],
    /// What it names.
    pub id: ObjectId,
    /// What it is.
    pub mode: Mode,
    /// Which side of a merge it is of.
    pub stage: Stage,
    /// What `lstat` said; all zero if the file was not looked at.
    pub stat: Stat,
    /// Its flags.
    pub flags: Flags,
}

impl<'p> NewEntry<'p> {
    /// A stage-0 entry without stat data and flags.
    pub fn new(path: &'p [u8], mode: Mode, id: ObjectId) -> Self {
        NewEntry { path, id, mode, stage: Stage::Merged, stat: Stat::default(), flags: Flags::default() }
    }
}

impl<'a> From<Entry<'a>> for NewEntry<'a> {
    fn from(entry: Entry<'a>) -> Self {
        NewEntry {
            path: entry.path(),
            id: entry.id(),
            mode: entry.mode(),
            stage: entry.stage(),
            stat: entry.stat(),
            flags: entry.flags(),
        }
    }
}

/// An entry as the index holds it: one slice whose last byte tells which form it has.
///
/// | last byte | slice |
/// |---|---|
/// | [`INLINE`] | head, path, NUL: a version 2 or 3 entry where it was read, or one in the arena |
/// | [`OWN`], [`SHARED`] | path, offset of the head in that file (8 bytes, little endian), the byte: version 4 |
///
/// 16 bytes. The head of a version 4 entry stays where it is, since copying a million of them costs more than reading them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'a>(&'a [u8]);

const INLINE: u8 = 0;
/// The head is in the file itself.
pub(crate) const OWN: u8 = 1;
/// The head is in the shared index of a split one.
pub(crate) const SHARED: u8 = 2;

/// Bytes behind the path of an entry whose head lies elsewhere.
pub(crate) const OUTLINE_TAIL: usize = 9;

/// The bytes that slots may point into: the file, and its shared index.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Files<'a> {
    pub(crate) own: &'a [u8],
    pub(crate) shared: &'a [u8],
}

impl<'a> Slot<'a> {
    /// A record as it lies in a version 2 or 3 file, up to and with the NUL behind the path.
    #[inline]
    pub(crate) fn from_record(record: &'a [u8]) -> Self {
        Slot(record)
    }

    /// A path in the arena with [`OUTLINE_TAIL`] bytes behind it.
    #[inline]
    pub(crate) fn from_outline(outline: &'a [u8]) -> Self {
        Slot(outline)
    }

    /// Copies an entry into the arena. `extended` is kept out of the head where it is zero.
    pub(crate) fn store(arena: &'a Bump, entry: &NewEntry<'_>) -> Self {
        let mut record = Vec::with_capacity(ID_AT + 32 + 4 + entry.path.len() + 1);
        let stat = entry.stat.to_bytes();
        record.extend_from_slice(&stat[..24]);
        record.extend_from_slice(&entry.mode.0.to_be_bytes());
        record.extend_from_slice(&stat[24..]);
        record.extend_from_slice(entry.id.as_bytes());
        let mut word = (entry.stage as u16) << STAGE_SHIFT;
        word |= u16::try_from(entry.path.len()).unwrap_or(NAME_MASK).min(NAME_MASK);
        word |= if entry.flags.assume_valid { ASSUME_VALID } else { 0 };
        let mut extended = if entry.flags.skip_worktree { SKIP_WORKTREE } else { 0 };
        extended |= if entry.flags.intent_to_add { INTENT_TO_ADD } else { 0 };
        word |= if extended != 0 { EXTENDED } else { 0 };
        record.extend_from_slice(&word.to_be_bytes());
        if extended != 0 {
            record.extend_from_slice(&extended.to_be_bytes());
        }
        record.extend_from_slice(entry.path);
        record.push(INLINE);
        Slot(arena.alloc_slice_copy(&record))
    }

    /// The file this entry lies in, and its bytes there with the padding, if they are exactly what a writer of version 2 or
    /// 3 would write.
    #[inline]
    pub(crate) fn verbatim(self, files: Files<'a>, kind: HashKind) -> Option<(&'a [u8], Range<usize>)> {
        let inside = |file: &'a [u8]| {
            // Addresses are compared, never followed: the range is taken from the file's own slice.
            let start = self.0.as_ptr().addr().checked_sub(file.as_ptr().addr())?;
            (start < file.len()).then_some((file, start))
        };
        let (file, start) = inside(files.own).or_else(|| inside(files.shared))?;
        let end = start.checked_add((self.0.len() + 7) & !7)?;
        let (record, padding) = file.get(start..end)?.split_at_checked(self.0.len())?;
        let base = head_len(kind);
        let plain = be16(record, base - 2) & EXTENDED == 0 || be16(record, base) != 0;
        let zero = padding.iter().all(|&byte| byte == 0);
        (record.last() == Some(&INLINE) && plain && zero).then_some((file, start..end))
    }

    /// Whether both are the very same bytes in memory.
    #[inline]
    pub(crate) fn is(&self, other: &Slot<'_>) -> bool {
        std::ptr::eq(self.0, other.0)
    }

    #[inline]
    pub(crate) fn entry(self, files: Files<'a>, kind: HashKind) -> Entry<'a> {
        let Some((&form, rest)) = self.0.split_last() else { return Entry::new(&[], &[], kind) };
        let base = head_len(kind);
        if form == INLINE {
            let extended = be16(rest, base - 2) & EXTENDED != 0;
            let (head, path) = rest.split_at_checked(base + if extended { 2 } else { 0 }).unwrap_or_default();
            return Entry::new(head, path, kind);
        }
        let Some((path, offset)) = rest.split_last_chunk::<8>() else { return Entry::new(&[], &[], kind) };
        let file = if form == OWN { files.own } else { files.shared };
        let at = usize::try_from(u64::from_le_bytes(*offset)).unwrap_or(usize::MAX);
        let bytes = file.get(at..).unwrap_or_default();
        let extended = be16(bytes, base - 2) & EXTENDED != 0;
        Entry::new(bytes.get(..base + if extended { 2 } else { 0 }).unwrap_or_default(), path, kind)
    }

    /// Only the path: all that a search needs.
    #[inline]
    pub(crate) fn path(self, kind: HashKind) -> &'a [u8] {
        self.entry(Files::default(), kind).path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_what_was_given() {
        let arena = Bump::new();
        for kind in HashKind::ALL {
            for path in [&b"a"[..], &[b'x'; 4094], &[b'x'; 4095], &[b'x'; 5000]] {
                for bits in 0..32u8 {
                    let new = NewEntry {
                        path,
                        id: kind.empty_blob(),
                        mode: Mode(0o100_755),
                        stage: Stage::from_bits(bits >> 3),
                        stat: Stat { size: 7, gid: 9, ..Stat::default() },
                        flags: Flags {
                            assume_valid: bits & 1 != 0,
                            skip_worktree: bits & 2 != 0,
                            intent_to_add: bits & 4 != 0,
                        },
                    };
                    let entry = Slot::store(&arena, &new).entry(Files::default(), kind);
                    assert_eq!(NewEntry::from(entry), new);
                }
            }
        }
    }
}
