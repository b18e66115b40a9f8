//! The objects that an index names, for `--indexed-objects`: entries, cached trees, and resolved conflicts.
//!
//! Only ids are looked at; names and stat data are skipped. Layout after gitformat-index, "The Git index file has the
//! following format" and "Extensions"; integers are big endian.

use std::path::Path;

use object::{HashKind, ObjectId};

/// Bytes of stat data in front of an entry's id.
const STAT_LEN: usize = 40;

/// What an index names.
#[derive(Debug, Default)]
pub(crate) struct IndexIds {
    /// Objects, in file order, perhaps repeated.
    pub(crate) ids: Vec<ObjectId>,
    /// The shared index that a split index builds on: its checksum, which is part of its file name.
    pub(crate) shared: Option<ObjectId>,
}

/// Reads the bytes of an index. `Err` of the byte offset where they stop making sense.
pub(crate) fn read(bytes: &[u8], hash: HashKind) -> Result<IndexIds, usize> {
    let mut cursor = Cursor { bytes, at: 0, hash };
    let end = bytes.len().checked_sub(hash.len()).ok_or(0usize)?;
    if cursor.take(4)? != b"DIRC" {
        return Err(0);
    }
    let version = cursor.u32()?;
    if !(2..=4).contains(&version) {
        return Err(4);
    }
    let count = cursor.u32()?;
    let mut out = IndexIds::default();
    for _ in 0..count {
        let start = cursor.at;
        let stat = cursor.take(STAT_LEN)?;
        // The mode is the seventh of the ten words in front of the id. Submodule commits are not ours to keep.
        let mode = u32::from_be_bytes([stat[24], stat[25], stat[26], stat[27]]);
        let id = cursor.id()?;
        if mode & 0o170000 != 0o160000 && !id.is_null() {
            out.ids.push(id);
        }
        let flags = u16::from_be_bytes(cursor.take(2)?.try_into().map_err(|_| start)?);
        if flags & 0x4000 != 0 {
            cursor.take(2)?;
        }
        if version == 4 {
            // How much of the previous name to drop: continuation bits, low group last.
            while cursor.take(1)?[0] & 0x80 != 0 {}
            cursor.until(0)?;
        } else {
            cursor.until(0)?;
            // One to eight NULs behind the name, so that entries are a multiple of eight long; one was just read.
            let used = cursor.at - start;
            cursor.take(used.next_multiple_of(8) - used)?;
        }
    }
    while cursor.at < end {
        let signature = cursor.take(4)?;
        let length = usize::try_from(cursor.u32()?).map_err(|_| cursor.at)?;
        let start = cursor.at;
        let body = cursor.take(length)?;
        let mut inner = Cursor { bytes: body, at: 0, hash };
        match signature {
            b"TREE" => inner.cached_trees(&mut out.ids),
            b"REUC" => inner.resolved(&mut out.ids),
            b"link" => inner.id().map(|id| out.shared = Some(id).filter(|id| !id.is_null())),
            _ => Ok(()),
        }
        .map_err(|at| start + at)?;
    }
    Ok(out)
}

/// All objects that the index of a work tree names, its shared index included; none if there is no index.
pub(crate) fn of_git_dir(git_dir: &Path, index: &Path, hash: HashKind) -> Result<Vec<ObjectId>, String> {
    let load = |path: &Path| match std::fs::read(path) {
        Ok(bytes) => read(&bytes, hash).map_err(|at| format!("index file corrupt: {} at offset {at}", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(IndexIds::default()),
        Err(error) => Err(format!("{}: index file open failed: {}", path.display(), crate::report::plain_io(&error))),
    };
    let mut found = load(index)?;
    if let Some(shared) = found.shared {
        found.ids.extend(load(&git_dir.join(format!("sharedindex.{shared}")))?.ids);
    }
    Ok(found.ids)
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    hash: HashKind,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], usize> {
        let end = self.at.checked_add(len).ok_or(self.at)?;
        let part = self.bytes.get(self.at..end).ok_or(self.at)?;
        self.at = end;
        Ok(part)
    }

    fn u32(&mut self) -> Result<u32, usize> {
        let at = self.at;
        Ok(u32::from_be_bytes(self.take(4)?.try_into().map_err(|_| at)?))
    }

    fn id(&mut self) -> Result<ObjectId, usize> {
        let at = self.at;
        ObjectId::from_bytes(self.take(self.hash.len())?).map_err(|_| at)
    }

    /// The bytes up to `stop`, which is passed over.
    fn until(&mut self, stop: u8) -> Result<&'a [u8], usize> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let len = rest.iter().position(|&byte| byte == stop).ok_or(self.at)?;
        let part = self.take(len)?;
        self.at += 1;
        Ok(part)
    }

    /// `name NUL count SP subtrees LF [id]`, in depth-first order; a count below zero has no id.
    fn cached_trees(&mut self, out: &mut Vec<ObjectId>) -> Result<(), usize> {
        while self.at < self.bytes.len() {
            self.until(0)?;
            let count = self.until(b' ')?;
            self.until(b'\n')?;
            if !count.starts_with(b"-") {
                out.push(self.id()?);
            }
        }
        Ok(())
    }

    /// `name NUL`, three octal modes with NUL, then an id for each mode that is not 0.
    fn resolved(&mut self, out: &mut Vec<ObjectId>) -> Result<(), usize> {
        while self.at < self.bytes.len() {
            self.until(0)?;
            let mut present = 0;
            for _ in 0..3 {
                if self.until(0)?.iter().any(|&digit| digit != b'0') {
                    present += 1;
                }
            }
            for _ in 0..present {
                out.push(self.id()?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use testkit::repo::{Hash, TestRepo};

    fn kind(hash: Hash) -> HashKind {
        HashKind::from_name(hash.name()).unwrap()
    }

    /// A repository whose index has files, a cached tree, a resolved conflict and a submodule.
    fn conflicted(hash: Hash) -> TestRepo {
        let repo = TestRepo::init(hash);
        repo.commit_files(&[("file", b"base\n"), ("deep/down/other", b"other\n")], "base");
        repo.git(["branch", "topic"]);
        repo.commit_files(&[("file", b"ours\n")], "ours");
        repo.checkout("topic");
        repo.commit_files(&[("file", b"theirs\n")], "theirs");
        let _ = repo.try_git(["merge", "main"], b"");
        repo.write("file", b"both\n");
        repo.git(["add", "file"]);
        repo.git(["update-index", "--add", "--cacheinfo", &format!("160000,{},module", "1".repeat(hash.hex_len()))]);
        repo
    }

    fn want(repo: &TestRepo) -> BTreeSet<String> {
        let listed = repo.git_str(["ls-files", "--stage"]);
        let resolved = repo.git_str(["ls-files", "--resolve-undo"]);
        let entries = listed.lines().chain(resolved.lines()).filter(|line| !line.starts_with("160000"));
        entries.map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect()
    }

    fn blobs(repo: &TestRepo, ids: &[ObjectId]) -> BTreeSet<String> {
        ids.iter().map(ObjectId::to_string).filter(|id| repo.kind(id) == "blob").collect()
    }

    #[test]
    fn every_version() {
        for hash in Hash::ALL {
            let repo = conflicted(hash);
            let want = want(&repo);
            assert_eq!(want.len(), 5);
            for version in ["2", "3", "4"] {
                repo.git(["update-index", "--force-write-index", "--index-version", version]);
                if version == "3" {
                    repo.git(["update-index", "--skip-worktree", "deep/down/other"]);
                }
                let index = repo.git_dir().join("index");
                let ids = of_git_dir(repo.git_dir(), &index, kind(hash)).unwrap();
                assert_eq!(blobs(&repo, &ids), want, "version {version}");
                // The tree of `deep` is unchanged, and cached until a flag of a file in it changes.
                let deep = repo.rev_parse("HEAD:deep");
                assert_eq!(ids.iter().any(|id| id.to_string() == deep), version == "2", "version {version}");
            }
        }
    }

    #[test]
    fn split() {
        let repo = conflicted(Hash::Sha1);
        let want = want(&repo);
        repo.git(["update-index", "--split-index"]);
        repo.write("new", b"new\n");
        repo.git(["add", "new"]);
        let ids = of_git_dir(repo.git_dir(), &repo.git_dir().join("index"), HashKind::Sha1).unwrap();
        let got = blobs(&repo, &ids);
        assert!(want.is_subset(&got));
        assert!(got.contains(&repo.rev_parse(":new")));
        assert_eq!(of_git_dir(repo.git_dir(), &repo.git_dir().join("none"), HashKind::Sha1), Ok(Vec::new()));
    }

    /// Whatever the bytes, an answer or the place of the damage.
    #[test]
    fn damaged() {
        let repo = conflicted(Hash::Sha1);
        let good = std::fs::read(repo.git_dir().join("index")).unwrap();
        for end in 0..good.len() {
            let _ = read(&good[..end], HashKind::Sha1);
            let _ = read(&good[..end], HashKind::Sha256);
        }
        for at in 0..good.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = good.clone();
                bytes[at] ^= flip;
                if let Err(found) = read(&bytes, HashKind::Sha1) {
                    assert!(found <= bytes.len());
                }
            }
        }
        assert!(read(b"", HashKind::Sha1).is_err());
        assert!(read(&good[..good.len() - 25], HashKind::Sha1).is_err() || good.len() < 100);
    }
}
