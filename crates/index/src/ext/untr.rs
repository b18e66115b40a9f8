//! `UNTR`: the untracked files that the last `git status` found, and what tells whether they still are all.
//!
//! | bytes | meaning |
//! |---|---|
//! | varint, that many | strings, each with NUL, that say where the cache may be used |
//! | 36 | stat data of `info/exclude` |
//! | 36 | stat data of the file that `core.excludesFile` names |
//! | 4 | flags the search was made with, big endian |
//! | 20 or 32, twice | ids of those two files; null if there is none |
//! | up to NUL | name of the exclude file in each directory |
//! | varint | number of directories; if zero, the data end here |
//! | .. | the directories, depth first, each: varint number of untracked names, varint number of subdirectories, its name with NUL, the untracked names with NUL |
//! | 3 times .. | bitmaps over the directories: list is valid; found by a mere check for emptiness; exclude file is there |
//! | 36 each | stat data of those whose list is valid |
//! | 20 or 32 each | ids of the exclude files that are there |
//! | 1 | NUL |
//!
//! (gitformat-index, "Untracked cache".) Stat data is in the order of [`Stat`]; the varint is that of offsets in packs.

use ewah::EwahBuf;
use object::{HashKind, ObjectId};

use super::Cursor;
use crate::error::{ExtError, ExtErrorKind};
use crate::path_v4;
use crate::stat::Stat;

/// The untracked cache of an index. Names, stat data and ids stay where they were read.
#[derive(Debug, Clone)]
pub struct Untracked<'a> {
    data: &'a [u8],
    kind: HashKind,
    ident: &'a [u8],
    info_exclude: (Stat, ObjectId),
    excludes_file: (Stat, ObjectId),
    dir_flags: u32,
    exclude_per_dir: &'a [u8],
    /// Depth first; the root is the first, unless there is none.
    dirs: Vec<Record<'a>>,
    /// Every directory's subdirectories side by side, sorted.
    children: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Record<'a> {
    name: &'a [u8],
    /// Untracked names, each with its NUL.
    names: &'a [u8],
    name_count: u32,
    first_child: u32,
    child_len: u32,
    /// Offset of the stat data; 0 if the list of names is not valid.
    stat_at: u32,
    /// Offset of the exclude file's id; 0 if there is none.
    id_at: u32,
    check_only: bool,
}

/// One directory, as [`Untracked::directories`] gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Directory<'a> {
    /// How many directories are above it.
    pub depth: usize,
    /// Name in its parent; the root's is empty.
    pub name: &'a [u8],
    /// The directory's stat data when its untracked names were listed; `None` if they have to be listed anew.
    pub valid: Option<Stat>,
    /// Id of its exclude file; `None` if there is none.
    pub exclude: Option<ObjectId>,
    /// It was only looked at until something untracked was found.
    pub check_only: bool,
    /// Number of untracked names.
    pub untracked_len: usize,
    names: &'a [u8],
}

impl<'a> Directory<'a> {
    /// The untracked names: files, and directories with `/` behind them.
    pub fn untracked(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.names.split_inclusive(|&byte| byte == 0).map(|name| name.strip_suffix(b"\0").unwrap_or(name))
    }
}

/// A directory whose subdirectories are being read.
struct Open<'a> {
    next: u32,
    end: u32,
    previous: &'a [u8],
}

/// Bytes of the shortest directory: two numbers and a NUL.
const MIN_DIR: u64 = 3;

impl<'a> Untracked<'a> {
    /// Of [`dir_flags`](Self::dir_flags): an untracked directory is shown as one name, so that what changes in it changes
    /// what its parents show.
    pub const SHOW_OTHER_DIRECTORIES: u32 = 0x2;

    /// Reads the data. Allocates in proportion to them.
    pub fn parse(data: &'a [u8], kind: HashKind) -> Result<Self, ExtError> {
        if u32::try_from(data.len()).is_err() {
            return Err(ExtError::new(0, ExtErrorKind::Impossible { what: "extension of more than 4 GiB" }));
        }
        let mut at = Cursor::new(data);
        let ident_len = at.varint("length of the environment")?;
        let ident = at.take(usize::try_from(ident_len).unwrap_or(usize::MAX), "environment")?;
        let stats = [stat(&mut at)?, stat(&mut at)?];
        let dir_flags = at.be32("flags")?;
        let [info_exclude, excludes_file] = stats.map(|stat| Ok((stat, id(&mut at, kind)?)));
        let mut cache = Untracked {
            data,
            kind,
            ident,
            info_exclude: info_exclude?,
            excludes_file: excludes_file?,
            dir_flags,
            exclude_per_dir: at.until(0, "name of the exclude file")?,
            dirs: Vec::new(),
            children: Vec::new(),
        };
        let count_at = at.at();
        let count = at.varint("number of directories")?;
        if count != 0 {
            cache.parse_dirs(&mut at)?;
            if cache.dirs.len() as u64 != count {
                let what = "other number of directories";
                return Err(ExtError::new(count_at, ExtErrorKind::Impossible { what }));
            }
            cache.parse_marks(&mut at)?;
        }
        at.end("end of the untracked cache")?;
        Ok(cache)
    }

    fn parse_dirs(&mut self, at: &mut Cursor<'a>) -> Result<(), ExtError> {
        self.dirs.reserve(at.rest().len() / 64);
        let mut open: Vec<Open<'a>> = Vec::new();
        let mut pending = 0u64;
        loop {
            let start = at.at();
            let name_count = at.varint("number of untracked names")?;
            let subdirs = at.varint("number of subdirectories")?;
            let name = at.until(0, "name of a directory")?;
            let names = names(at, name_count)?;
            if let Some(parent) = open.last_mut() {
                if name <= parent.previous {
                    return Err(ExtError::new(start, ExtErrorKind::Impossible { what: "directories out of order" }));
                }
                parent.previous = name;
                if let Some(slot) = self.children.get_mut(parent.next as usize) {
                    *slot = self.dirs.len() as u32;
                }
                parent.next += 1;
                pending -= 1;
            }
            pending = pending.saturating_add(subdirs);
            if pending.saturating_mul(MIN_DIR) > at.rest().len() as u64 {
                return Err(ExtError::new(self.data.len(), ExtErrorKind::Truncated { what: "list of directories" }));
            }
            let (first_child, child_len) = (self.children.len() as u32, subdirs as u32);
            self.children.resize(self.children.len() + child_len as usize, 0);
            // Every name took a byte, so that their number fits as well.
            let name_count = name_count as u32;
            let (stat_at, id_at, check_only) = (0, 0, false);
            self.dirs.push(Record { name, names, name_count, first_child, child_len, stat_at, id_at, check_only });
            open.push(Open { next: first_child, end: first_child + child_len, previous: &[] });
            while open.pop_if(|top| top.next == top.end).is_some() {}
            if open.is_empty() {
                return Ok(());
            }
        }
    }

    fn parse_marks(&mut self, at: &mut Cursor<'a>) -> Result<(), ExtError> {
        let valid = at.bitmap(self.dirs.len())?;
        let check_only = at.bitmap(self.dirs.len())?;
        let has_id = at.bitmap(self.dirs.len())?;
        for bit in check_only.ones() {
            if let Some(dir) = self.dirs.get_mut(bit as usize) {
                dir.check_only = true;
            }
        }
        for bit in valid.ones() {
            let stat_at = at.at() as u32;
            at.take(Stat::LEN, "stat data of a directory")?;
            if let Some(dir) = self.dirs.get_mut(bit as usize) {
                dir.stat_at = stat_at;
            }
        }
        for bit in has_id.ones() {
            let id_at = at.at() as u32;
            let id = id(at, self.kind)?;
            if let Some(dir) = self.dirs.get_mut(bit as usize).filter(|_| !id.is_null()) {
                dir.id_at = id_at;
            }
        }
        for dir in self.dirs.iter_mut().filter(|dir| dir.stat_at == 0) {
            dir.clear();
        }
        match at.take(1, "closing NUL")? {
            [0] => Ok(()),
            _ => Err(ExtError::new(at.at() - 1, ExtErrorKind::Malformed { what: "closing NUL" })),
        }
    }

    /// Appends the data: of a cache that git wrote, read and not changed, the same bytes.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        path_v4::encode(self.ident.len() as u64, out);
        out.extend_from_slice(self.ident);
        out.extend_from_slice(&self.info_exclude.0.to_bytes());
        out.extend_from_slice(&self.excludes_file.0.to_bytes());
        out.extend_from_slice(&self.dir_flags.to_be_bytes());
        out.extend_from_slice(self.info_exclude.1.as_bytes());
        out.extend_from_slice(self.excludes_file.1.as_bytes());
        out.extend_from_slice(self.exclude_per_dir);
        out.push(0);
        path_v4::encode(self.dirs.len() as u64, out);
        if self.dirs.is_empty() {
            return;
        }
        for dir in &self.dirs {
            path_v4::encode(dir.name_count.into(), out);
            path_v4::encode(dir.child_len.into(), out);
            out.extend_from_slice(dir.name);
            out.push(0);
            out.extend_from_slice(dir.names);
        }
        let numbered = || (0u32..).zip(&self.dirs);
        bitmap(numbered().filter(|(_, dir)| dir.stat_at != 0).map(|(bit, _)| bit)).append_to(out);
        bitmap(numbered().filter(|(_, dir)| dir.check_only).map(|(bit, _)| bit)).append_to(out);
        bitmap(numbered().filter(|(_, dir)| dir.id_at != 0).map(|(bit, _)| bit)).append_to(out);
        for dir in self.dirs.iter().filter(|dir| dir.stat_at != 0) {
            out.extend_from_slice(
                self.data.get(dir.stat_at as usize..).unwrap_or_default().get(..Stat::LEN).unwrap_or_default(),
            );
        }
        for dir in self.dirs.iter().filter(|dir| dir.id_at != 0) {
            out.extend_from_slice(
                self.data.get(dir.id_at as usize..).unwrap_or_default().get(..self.kind.len()).unwrap_or_default(),
            );
        }
        out.push(0);
    }

    /// The entry of this path was added or removed: what its directory holds untracked has to be listed anew; and that of all
    /// directories above, if an untracked directory shows as one name there. O(depth · log siblings).
    pub fn invalidate(&mut self, path: &[u8]) {
        let upwards = self.dir_flags & Self::SHOW_OTHER_DIRECTORIES != 0;
        let (mut at, mut rest) = (0, path);
        while let Some(dir) = self.dirs.get_mut(at) {
            let slash = memchr::memchr(b'/', rest);
            if upwards || slash.is_none() {
                dir.clear();
            }
            let Some(slash) = slash else { return };
            let (name, below) = rest.split_at_checked(slash).unwrap_or_default();
            let first = dir.first_child as usize;
            let slots = self.children.get(first..first + dir.child_len as usize).unwrap_or_default();
            let found =
                slots.binary_search_by(|&slot| self.dirs.get(slot as usize).map_or(&[][..], |dir| dir.name).cmp(name));
            let Some(&slot) = found.ok().and_then(|found| slots.get(found)) else { return };
            (at, rest) = (slot as usize, below.get(1..).unwrap_or_default());
        }
    }

    /// Where the cache may be used: strings, each with its NUL.
    pub fn ident(&self) -> &'a [u8] {
        self.ident
    }

    /// Flags that the search was made with.
    pub fn dir_flags(&self) -> u32 {
        self.dir_flags
    }

    /// Name of the exclude file in each directory, as a rule `.gitignore`.
    pub fn exclude_per_dir(&self) -> &'a [u8] {
        self.exclude_per_dir
    }

    /// Stat data and id of `info/exclude`; null if there is none.
    pub fn info_exclude(&self) -> (Stat, ObjectId) {
        self.info_exclude
    }

    /// Stat data and id of the file that `core.excludesFile` names; null if there is none.
    pub fn excludes_file(&self) -> (Stat, ObjectId) {
        self.excludes_file
    }

    /// Number of directories; zero if nothing was listed yet.
    pub fn directory_count(&self) -> usize {
        self.dirs.len()
    }

    /// Number of untracked names in all directories. O(directories).
    pub fn untracked_count(&self) -> u64 {
        self.dirs.iter().map(|dir| u64::from(dir.name_count)).sum()
    }

    /// All directories, each in front of those below it.
    pub fn directories(&self) -> impl Iterator<Item = Directory<'a>> {
        // For every directory above: how many below it are still to come.
        let mut above: Vec<u32> = Vec::new();
        self.dirs.iter().map(move |dir| {
            while above.pop_if(|left| *left == 0).is_some() {}
            let depth = above.len();
            if let Some(left) = above.last_mut() {
                *left -= 1;
            }
            above.push(dir.child_len);
            let bytes = |at: u32| self.data.get(at as usize..).filter(|_| at != 0);
            Directory {
                depth,
                name: dir.name,
                valid: bytes(dir.stat_at).and_then(|bytes| bytes.first_chunk()).map(Stat::from_bytes),
                exclude: bytes(dir.id_at).and_then(|bytes| ObjectId::from_prefix(bytes, self.kind)),
                check_only: dir.check_only,
                untracked_len: dir.name_count as usize,
                names: dir.names,
            }
        })
    }
}

impl Record<'_> {
    fn clear(&mut self) {
        (self.names, self.name_count, self.stat_at, self.check_only) = (&[], 0, 0, false);
    }
}

fn stat(at: &mut Cursor<'_>) -> Result<Stat, ExtError> {
    let bytes = at.take(Stat::LEN, "stat data")?;
    Ok(bytes.first_chunk().map_or_else(Stat::default, Stat::from_bytes))
}

fn id(at: &mut Cursor<'_>, kind: HashKind) -> Result<ObjectId, ExtError> {
    let bytes = at.take(kind.len(), "id of an exclude file")?;
    Ok(ObjectId::from_prefix(bytes, kind).unwrap_or(kind.null()))
}

/// As many strings with NUL as are claimed.
fn names<'a>(at: &mut Cursor<'a>, count: u64) -> Result<&'a [u8], ExtError> {
    let Some(last) = count.checked_sub(1) else { return Ok(&[]) };
    let len = match usize::try_from(last).ok().and_then(|last| memchr::memchr_iter(0, at.rest()).nth(last)) {
        Some(nul) => nul + 1,
        None => usize::MAX,
    };
    at.take(len, "untracked names")
}

fn bitmap(ones: impl Iterator<Item = u32>) -> EwahBuf {
    let mut bitmap = EwahBuf::builder();
    for bit in ones {
        let set = bitmap.set(bit);
        debug_assert!(set.is_ok(), "directory numbers ascend");
    }
    bitmap.finish()
}
