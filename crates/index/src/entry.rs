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
//! Where entries lie in memory: `store`.

use std::cmp::Ordering;

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
/// Where the size is in a head.
pub(crate) const SIZE_AT: usize = 36;
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

/// Bytes in front of the path of this record or version 4 entry, with the second flag word if it has one.
#[inline]
pub(crate) fn whole_head_len(record: &[u8], kind: HashKind) -> usize {
    let base = head_len(kind);
    if be16(record, base - 2) & EXTENDED != 0 { base + 2 } else { base }
}

/// The length of a record's path, which begins at `head`. `None`: the flags do not say it, and there is no NUL.
#[inline]
pub(crate) fn path_len(record: &[u8], head: usize, kind: HashKind) -> Option<usize> {
    match be16(record, head_len(kind) - 2) & NAME_MASK {
        NAME_MASK => memchr::memchr(0, record.get(head..)?),
        len => Some(usize::from(len)),
    }
}

/// Bytes of a record: head, path, at least one NUL, a multiple of eight together.
#[inline]
pub(crate) const fn record_len(head: usize, path: usize) -> usize {
    (head + path + 8) & !7
}

/// An entry, borrowed from the arena or the bytes it was read from: a view of 40 bytes, to be copied freely.
///
/// ```
/// use packstone_index::{AddOptions, Bump, Index, Mode, NewEntry};
/// # use object::HashKind;
/// let arena = Bump::new();
/// let entry = {
///     let mut index = Index::new(&arena, HashKind::Sha1);
///     index.add(&NewEntry::new(b"a", Mode(0o100644), HashKind::Sha1.empty_blob()), &AddOptions::default())?;
///     index.get(0).unwrap()
/// }; // the index is gone; the entry is in the arena
/// assert_eq!(entry.path(), b"a");
/// # Ok::<(), packstone_index::EditError>(())
/// ```
///
/// With the arena inside of the braces it does not compile:
///
/// ```compile_fail,E0597
/// use packstone_index::{AddOptions, Bump, Index, Mode, NewEntry};
/// # use object::HashKind;
/// let entry = {
///     let arena = Bump::new();
///     let mut index = Index::new(&arena, HashKind::Sha1);
///     index.add(&NewEntry::new(b"a", Mode(0o100644), HashKind::Sha1.empty_blob()), &AddOptions::default())?;
///     index.get(0).unwrap()
/// }; // the arena is gone, and so would be what the entry points to
/// assert_eq!(entry.path(), b"a");
/// # Ok::<(), packstone_index::EditError>(())
/// ```
///
/// Nor can an entry get into another index: [`Index::add`](crate::Index::add) copies what it is given into its own arena.
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
