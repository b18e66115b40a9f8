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

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory to write: name, untracked names, number of subdirectories, valid, check-only, has an exclude file.
    type Sample<'s> = (&'s str, &'s [&'s str], u64, bool, bool, bool);

    const SAMPLE: &[Sample<'_>] = &[
        ("", &["new", "x/"], 3, true, false, true),
        ("a", &["one", "two"], 1, true, false, false),
        ("sub", &["f"], 0, true, true, false),
        ("b", &[], 0, false, false, true),
        ("c", &["last"], 0, true, false, false),
    ];

    fn number(n: u8) -> [u8; 36] {
        std::array::from_fn(|at| n.wrapping_mul(37).wrapping_add(at as u8))
    }

    fn data(kind: HashKind, flags: u32, dirs: &[Sample<'_>]) -> Vec<u8> {
        let id = |n: u8| vec![n | 1; kind.len()];
        let mut out = vec![13];
        out.extend(b"Linux at /w\0\0");
        out.extend([number(1), number(2)].concat());
        out.extend(flags.to_be_bytes());
        out.extend([id(9), kind.null().as_bytes().to_vec()].concat());
        out.extend(b".gitignore\0");
        path_v4::encode(dirs.len() as u64, &mut out);
        if dirs.is_empty() {
            return out;
        }
        for &(name, names, subdirs, ..) in dirs {
            path_v4::encode(names.len() as u64, &mut out);
            path_v4::encode(subdirs, &mut out);
            for name in [name].iter().chain(names) {
                out.extend(name.as_bytes());
                out.push(0);
            }
        }
        let bits = |mark: fn(&Sample<'_>) -> bool| {
            let mut bytes = Vec::new();
            let marked = (0u32..).zip(dirs).filter(|(_, dir)| mark(dir));
            bitmap(marked.map(|(bit, _)| bit)).append_to(&mut bytes);
            bytes
        };
        out.extend([bits(|dir| dir.3), bits(|dir| dir.4), bits(|dir| dir.5)].concat());
        let numbered = || (10u8..=u8::MAX).cycle().zip(dirs);
        out.extend(numbered().filter(|(_, dir)| dir.3).flat_map(|(n, _)| number(n)));
        out.extend(numbered().filter(|(_, dir)| dir.5).flat_map(|(n, _)| id(n)));
        out.push(0);
        out
    }

    #[test]
    fn there_and_back() {
        for kind in HashKind::ALL {
            let bytes = data(kind, 6, SAMPLE);
            let cache = Untracked::parse(&bytes, kind).unwrap();
            let mut out = Vec::new();
            cache.append_to(&mut out);
            assert_eq!(out, bytes);
            assert_eq!((cache.ident(), cache.dir_flags()), (&b"Linux at /w\0\0"[..], 6));
            assert_eq!(cache.exclude_per_dir(), b".gitignore");
            assert_eq!((cache.directory_count(), cache.untracked_count()), (5, 6));
            assert_eq!(cache.excludes_file(), (Stat::from_bytes(&number(2)), kind.null()));
            for (dir, (n, sample)) in cache.directories().zip((10..).zip(SAMPLE)) {
                let names: Vec<_> = dir.untracked().collect();
                assert_eq!((dir.name, names.len()), (sample.0.as_bytes(), dir.untracked_len));
                assert_eq!(names, sample.1.iter().map(|name| name.as_bytes()).collect::<Vec<_>>());
                assert_eq!(dir.valid, sample.3.then(|| Stat::from_bytes(&number(n))));
                assert_eq!(dir.exclude.map(|id| id.first_byte()), sample.5.then_some(n | 1));
                assert_eq!(dir.check_only, sample.4);
            }
            assert_eq!(cache.directories().map(|dir| dir.depth).collect::<Vec<_>>(), [0, 1, 2, 1, 1]);
        }
    }

    #[test]
    fn i13_change_time_comes_first() {
        let bytes = data(HashKind::Sha1, 0, SAMPLE);
        let cache = Untracked::parse(&bytes, HashKind::Sha1).unwrap();
        let (stat, _) = cache.info_exclude();
        assert_eq!(stat.ctime.secs.to_be_bytes(), number(1)[..4]);
        assert_eq!(stat.mtime.nanos.to_be_bytes(), number(1)[12..16]);
        assert_eq!(stat.size.to_be_bytes(), number(1)[32..]);
    }

    #[test]
    fn without_directories() {
        for kind in HashKind::ALL {
            let bytes = data(kind, 0, &[]);
            let mut cache = Untracked::parse(&bytes, kind).unwrap();
            cache.invalidate(b"a/b");
            let mut out = Vec::new();
            cache.append_to(&mut out);
            assert_eq!(out, bytes);
        }
    }

    /// The samples that are valid after this path was added or removed, by number.
    fn valid_after(flags: u32, path: &[u8]) -> Vec<usize> {
        let kind = HashKind::Sha256;
        let bytes = data(kind, flags, SAMPLE);
        let mut cache = Untracked::parse(&bytes, kind).unwrap();
        cache.invalidate(path);
        let mut out = Vec::new();
        cache.append_to(&mut out);
        let again = Untracked::parse(&out, kind).unwrap();
        assert!(again.directories().eq(cache.directories()));
        for (dir, sample) in cache.directories().zip(SAMPLE) {
            assert_eq!(dir.exclude.is_some(), sample.5, "exclude files stay");
            assert!(dir.valid.is_some() || (dir.untracked_len == 0 && !dir.check_only));
        }
        cache.directories().enumerate().filter(|(_, dir)| dir.valid.is_some()).map(|(at, _)| at).collect()
    }

    #[test]
    fn i7_the_directory_of_what_came_or_went_is_invalid() {
        assert_eq!(valid_after(0, b"file"), [1, 2, 4]);
        assert_eq!(valid_after(0, b"a/file"), [0, 2, 4]);
        assert_eq!(valid_after(0, b"a/sub/file"), [0, 1, 4]);
        assert_eq!(valid_after(0, b"a/new/file"), [0, 1, 2, 4]);
        assert_eq!(valid_after(0, b"a/"), [0, 2, 4]);
        let shown = Untracked::SHOW_OTHER_DIRECTORIES;
        assert_eq!(valid_after(shown, b"file"), [1, 2, 4]);
        assert_eq!(valid_after(shown, b"a/file"), [2, 4]);
        assert_eq!(valid_after(shown, b"a/sub/file"), [4]);
        assert_eq!(valid_after(shown, b"a/new/file"), [2, 4]);
    }

    #[test]
    fn i13_what_cannot_be_is_refused() {
        for kind in HashKind::ALL {
            for bytes in [&[0][..], &[0x80; 20], &[], &[0xff; 500], &[0; 500]] {
                assert!(Untracked::parse(bytes, kind).is_err());
            }
            let good = data(kind, 0, SAMPLE);
            let count_at = 14 + 72 + 4 + 2 * kind.len() + 11;
            assert_eq!(good[count_at], 5);
            for count in [4, 6] {
                let mut bytes = good.clone();
                bytes[count_at] = count;
                assert_eq!(Untracked::parse(&bytes, kind).unwrap_err().at, count_at as u64);
            }
            let refused = |change: &dyn Fn(&mut Vec<Sample<'_>>), why: &str| {
                let mut dirs = SAMPLE.to_vec();
                change(&mut dirs);
                assert!(Untracked::parse(&data(kind, 0, &dirs), kind).is_err(), "{why}");
            };
            refused(&|dirs| dirs[0].2 = 2, "one subdirectory too many");
            refused(&|dirs| dirs[0].2 = 4, "one subdirectory too few");
            refused(&|dirs| dirs[0].2 = 1 << 40, "more subdirectories than bytes");
            refused(&|dirs| dirs[0].2 = u64::MAX, "the most subdirectories");
            refused(&|dirs| dirs[4].0 = "b", "a name twice");
            refused(&|dirs| dirs[4].0 = "a", "out of order");
            refused(&|dirs| dirs[1].0 = "", "no name");
            let mut bytes = good.clone();
            bytes.push(0);
            assert!(Untracked::parse(&bytes, kind).is_err(), "a stray byte");
            *bytes.last_mut().unwrap() = 1;
            bytes.remove(bytes.len() - 2);
            assert!(Untracked::parse(&bytes, kind).is_err(), "no NUL at the end");

            // Six valid directories of five: bit 5 of the literal word behind the bitmap's head and marker.
            let names = good.windows(5).position(|bytes| bytes == b"last\0").unwrap() + 5;
            let mut bytes = good.clone();
            bytes[names + 8 + 8 + 7] |= 1 << 5;
            bytes[names + 3] = 6;
            let error = Untracked::parse(&bytes, kind).unwrap_err();
            assert!(matches!(error.kind, ExtErrorKind::Bitmap(_)), "{error}");
        }
    }

    #[test]
    fn more_names_than_bytes() {
        let mut bytes = data(HashKind::Sha1, 0, &[("", &["x"], 0, true, false, false)]);
        let count_at = 14 + 72 + 4 + 40 + 11 + 1;
        bytes.splice(count_at..=count_at, [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
        let what = "untracked names";
        assert_eq!(Untracked::parse(&bytes, HashKind::Sha1).unwrap_err().kind, ExtErrorKind::Truncated { what });
    }

    #[test]
    fn damage() {
        for kind in HashKind::ALL {
            let bytes = data(kind, 2, SAMPLE);
            for len in 0..bytes.len() {
                assert!(Untracked::parse(&bytes[..len], kind).is_err(), "{len}");
            }
            for bytes in crate::ext::tests::damaged(&bytes) {
                let Ok(mut cache) = Untracked::parse(&bytes, kind) else { continue };
                cache.invalidate(b"a/sub/f");
                let mut out = Vec::new();
                cache.append_to(&mut out);
                assert!(Untracked::parse(&out, kind).unwrap().directories().eq(cache.directories()));
            }
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = 200_000;
        let mut dirs = vec![("", &[][..], 1, false, false, false)];
        dirs.extend(vec![("d", &[][..], 1, false, false, false); deep]);
        dirs.push(("d", &["f"], 0, true, false, false));
        let bytes = data(HashKind::Sha1, 0, &dirs);
        let mut cache = Untracked::parse(&bytes, HashKind::Sha1).unwrap();
        assert_eq!(cache.directories().last().map(|dir| dir.depth), Some(deep + 1));
        cache.invalidate(&b"d/".repeat(deep + 1));
        assert_eq!(cache.untracked_count(), 0);
    }
}
