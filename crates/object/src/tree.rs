//! Trees: a list of `mode SP name NUL id`.
//!
//! | part | width | meaning |
//! |---|---|---|
//! | mode | 1 or more | octal digits, leading zeros allowed by readers |
//! | space | 1 | `0x20` |
//! | name | 1 or more | any bytes but NUL (a valid name has no `/` either; that is for fsck to say) |
//! | NUL | 1 | |
//! | id | 20 or 32 | raw bytes |

use crate::{HashKind, ObjectId, ObjectKind, ParseError, ParseErrorKind};

/// What a tree says an entry is: the sixteen bits of a file mode that git keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mode(pub u32);

impl Mode {
    const TYPE: u32 = 0o170_000;

    /// A directory: the id names a tree.
    #[inline]
    pub const fn is_tree(self) -> bool {
        self.0 & Self::TYPE == 0o040_000
    }

    /// A symbolic link: the id names a blob that holds the target.
    #[inline]
    pub const fn is_symlink(self) -> bool {
        self.0 & Self::TYPE == 0o120_000
    }

    /// A regular file, executable or not: the id names a blob.
    #[inline]
    pub const fn is_blob(self) -> bool {
        self.0 & Self::TYPE == 0o100_000
    }

    /// A submodule: the id names a commit of another repository. As in git, also every mode that is none of the others.
    #[inline]
    pub const fn is_gitlink(self) -> bool {
        !self.is_tree() && !self.is_symlink() && !self.is_blob()
    }

    /// The kind of object in this repository that the entry names; `None` for a submodule.
    #[inline]
    pub const fn object_kind(self) -> Option<ObjectKind> {
        match self.0 & Self::TYPE {
            0o040_000 => Some(ObjectKind::Tree),
            0o100_000 | 0o120_000 => Some(ObjectKind::Blob),
            _ => None,
        }
    }
}

/// One entry, borrowed from the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What it is.
    pub mode: Mode,
    /// Its name in this directory.
    pub name: &'a [u8],
    /// What it names.
    pub id: ObjectId,
    /// Byte offset in the tree where the entry begins, at the mode's first digit.
    pub at: usize,
    /// Byte offset just behind the id, where the next entry begins.
    pub end: usize,
}

/// The entries of a tree, in their order. Fused: nothing follows an error.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
    hash: HashKind,
}

impl<'a> Entries<'a> {
    /// Reads the content of a tree.
    #[inline]
    pub fn new(bytes: &'a [u8], hash: HashKind) -> Self {
        Self { bytes, at: 0, hash }
    }

    /// Goes on at `at`, which must be where an entry begins: some entry's `at` or `end`.
    #[inline]
    pub fn from_offset(bytes: &'a [u8], hash: HashKind, at: usize) -> Self {
        Self { bytes, at: at.min(bytes.len()), hash }
    }

    /// Byte offset of the next entry.
    #[inline]
    pub fn offset(&self) -> usize {
        self.at
    }

    #[cold]
    fn fail(&mut self, offset: usize, kind: ParseErrorKind) -> ParseError {
        let at = self.at + offset;
        self.at = self.bytes.len();
        ParseError::new(at, kind)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, ParseError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let mut mode = 0u32;
        let mut space = 0;
        loop {
            match rest.get(space) {
                // Sixteen bits are kept, as git does.
                Some(&digit @ b'0'..=b'7') => mode = (mode << 3 | u32::from(digit - b'0')) & 0xffff,
                Some(b' ') if space > 0 => break,
                Some(_) => return Some(Err(self.fail(space, ParseErrorKind::BadMode))),
                None => {
                    return Some(Err(self.fail(space, ParseErrorKind::Truncated { what: "tree entry" })));
                }
            }
            space += 1;
        }
        let name_at = space + 1;
        let after_mode = rest.get(name_at..).unwrap_or_default();
        let Some(len) = find_nul(after_mode) else {
            return Some(Err(self.fail(name_at, ParseErrorKind::Truncated { what: "name of tree entry" })));
        };
        if len == 0 {
            return Some(Err(self.fail(name_at, ParseErrorKind::EmptyName)));
        }
        let (name, id) = (after_mode.get(..len)?, after_mode.get(len + 1..).unwrap_or_default());
        let Some(id) = ObjectId::from_prefix(id, self.hash) else {
            return Some(Err(self.fail(name_at + len + 1, ParseErrorKind::Truncated { what: "id of tree entry" })));
        };
        let at = self.at;
        self.at = at + name_at + len + 1 + self.hash.len();
        Some(Ok(Entry { mode: Mode(mode), name, id, at, end: self.at }))
    }
}

impl std::iter::FusedIterator for Entries<'_> {}

/// Index of the first NUL. Eight bytes at a time: in a sound tree twenty or more follow each name, so the wide reads
/// nearly never run out, and names are too short for a general search to pay for its call.
#[inline]
fn find_nul(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*chunk);
        // The lowest marked byte is a true zero; only higher ones can be false marks.
        let zeros = word.wrapping_sub(LOW) & !word & HIGH;
        if zeros != 0 {
            return Some(at + (zeros.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    let tail = bytes.get(at..).unwrap_or_default();
    tail.iter().position(|&b| b == 0).map(|found| at + found)
}
