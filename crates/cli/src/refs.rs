//! References: looking one up as git does, listing them, and the logs of where they were.
//!
//! Reading the files is `gix-ref`'s; which names are tried, and what a work tree sees, is settled here.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use gix_ref::Target;
use gix_ref::bstr::ByteSlice;
use object::{HashKind, ObjectId};

use crate::config::glob;
use crate::env::os_bytes;
use crate::report::{self, Failure, plain_io};
use crate::setup::{RefFormat, Repository};

/// Longest chain of symbolic references followed, as in git.
const MAX_SYMREF_DEPTH: usize = 5;

/// Where a short name may live, in the order git looks (gitrevisions, `<refname>`).
const RULES: &[(&str, &str)] = &[
    ("", ""),
    ("refs/", ""),
    ("refs/tags/", ""),
    ("refs/heads/", ""),
    ("refs/remotes/", ""),
    ("refs/remotes/", "/HEAD"),
];

/// One reference that names an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ref {
    /// The full name.
    pub(crate) name: Vec<u8>,
    /// The object it names.
    pub(crate) id: ObjectId,
    /// What that object is behind its tags, where `packed-refs` says so.
    pub(crate) peeled: Option<ObjectId>,
}

/// The references of a repository, as one work tree sees them.
pub(crate) struct Refs {
    store: gix_ref::file::Store,
    hash: HashKind,
    git_dir: PathBuf,
    common_dir: PathBuf,
}

impl Refs {
    /// Opens them.
    pub(crate) fn open(repository: &Repository) -> Result<Refs, Failure> {
        if repository.refs == RefFormat::Reftable {
            return Err(Failure::fatal(
                "references stored as reftable are not supported yet; name objects by their full ids",
            ));
        }
        let hash = match repository.hash {
            HashKind::Sha1 => gix_hash::Kind::Sha1,
            HashKind::Sha256 => gix_hash::Kind::Sha256,
        };
        let (git_dir, common_dir) = (repository.git_dir.clone(), repository.common_dir.clone());
        let store = if git_dir == common_dir {
            gix_ref::file::Store::at(git_dir.clone(), hash)
        } else {
            gix_ref::file::Store::for_linked_worktree(git_dir.clone(), common_dir.clone(), hash)
        };
        Ok(Refs { store, hash: repository.hash, git_dir, common_dir })
    }

    /// The reference of exactly this full name, symbolic ones followed. Broken ones count as absent.
    pub(crate) fn find(&self, name: &[u8]) -> Result<Option<Ref>, Failure> {
        let mut at = name.to_vec();
        for _ in 0..=MAX_SYMREF_DEPTH {
            let Some(reference) = self.find_one(&at)? else {
                return Ok(self.root_file(&at).map(|id| Ref { name: name.to_vec(), id, peeled: None }));
            };
            match &reference.target {
                Target::Object(id) => {
                    let peeled = reference.peeled.and_then(|id| self.id(&id));
                    return Ok(self.id(id).map(|id| Ref { name: name.to_vec(), id, peeled }));
                }
                Target::Symbolic(next) => at = next.as_bstr().to_vec(),
            }
        }
        Ok(None)
    }

    fn find_one(&self, name: &[u8]) -> Result<Option<gix_ref::Reference>, Failure> {
        let Ok(partial) = <&gix_ref::PartialNameRef>::try_from(name.as_bstr()) else { return Ok(None) };
        match self.store.try_find(partial) {
            // The library tries other places as well: only the one asked for counts.
            Ok(found) => Ok(found.filter(|found| found.name.as_bstr() == name)),
            // A directory, a file that is no reference: nothing by that name. git says the same.
            Err(_) => Ok(None),
        }
    }

    /// The first id of a file such as `FETCH_HEAD`, which is a reference with more text behind it.
    fn root_file(&self, name: &[u8]) -> Option<ObjectId> {
        if !is_root_name(name) || name.contains(&b'/') {
            return None;
        }
        let text = fs::read(self.git_dir.join(crate::env::bytes_to_path(name))).ok()?;
        let id = ObjectId::from_hex_prefix(&text, self.hash)?;
        text.get(self.hash.hex_len()).is_none_or(u8::is_ascii_whitespace).then_some(id)
    }

    fn id(&self, id: &gix_hash::ObjectId) -> Option<ObjectId> {
        ObjectId::from_bytes(id.as_bytes()).ok().filter(|id| id.kind() == self.hash)
    }

    /// The reference a short name means. A name with several meanings is the first of them.
    pub(crate) fn find_short(&self, name: &[u8]) -> Result<Option<Ref>, Failure> {
        for (before, after) in RULES {
            let full = [before.as_bytes(), name, after.as_bytes()].concat();
            // At the top of the git directory only names that look like references do count, not `config`.
            if before.is_empty() && !full.starts_with(b"refs/") && !is_root_name(&full) {
                continue;
            }
            if let Some(found) = self.find(&full)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Every reference below `prefix` (`refs/` for all), in name order; broken ones are named in a warning.
    pub(crate) fn list(&self, prefix: &str) -> Result<Vec<Ref>, Failure> {
        let failed = |error: &dyn std::fmt::Display| Failure::Fatal(format!("cannot read references: {error}"));
        let platform = self.store.iter().map_err(|error| failed(&error))?;
        // Names that cannot be a directory of references are looked for among all.
        let iter = match prefix.as_bytes().as_bstr().try_into() {
            Ok(prefix) => platform.prefixed(prefix),
            Err(_) => platform.all(),
        };
        let iter = iter.map_err(|error| failed(&error))?;
        let mut out = Vec::new();
        for reference in iter {
            let mut reference = match reference {
                Ok(reference) => reference,
                Err(error) => {
                    report::warning(format_args!("ignoring broken ref: {error}"));
                    continue;
                }
            };
            let name = reference.name.as_bstr().to_vec();
            if !name.starts_with(prefix.as_bytes()) {
                continue;
            }
            let found = match &reference.target {
                Target::Object(id) => {
                    let peeled = reference.peeled.take().and_then(|id| self.id(&id));
                    self.id(id).map(|id| Ref { name: name.clone(), id, peeled })
                }
                // One that points to nothing yet is normal (a remote's HEAD whose branch is gone).
                Target::Symbolic(_) => match self.find(&name)? {
                    Some(found) => Some(found),
                    None => continue,
                },
            };
            match found {
                Some(found) => out.push(found),
                None => report::warning(format_args!("ignoring broken ref {}", String::from_utf8_lossy(&name))),
            }
        }
        Ok(out)
    }

    /// The references that match a glob as `--glob` takes it: below `refs/`, `/*` implied when it has no wildcard.
    pub(crate) fn matching(&self, base: &str, pattern: &[u8]) -> Result<Vec<Ref>, Failure> {
        let mut full = base.as_bytes().to_vec();
        if base.is_empty() && !pattern.starts_with(b"refs/") {
            full.extend_from_slice(b"refs/");
        }
        full.extend_from_slice(pattern);
        if !pattern.iter().any(|byte| matches!(byte, b'?' | b'*' | b'[')) {
            if !full.ends_with(b"/") {
                full.push(b'/');
            }
            full.push(b'*');
        }
        // In these patterns `*` crosses slashes.
        let all = self.list("refs/")?;
        let crossing: Vec<u8> =
            full.iter().flat_map(|&byte| if byte == b'*' { vec![b'*', b'*'] } else { vec![byte] }).collect();
        Ok(all
            .into_iter()
            .filter(|found| glob(&crossing, &found.name, false) || glob(&full, &found.name, false))
            .collect())
    }

    /// `HEAD` of this work tree.
    pub(crate) fn head(&self) -> Result<Option<Ref>, Failure> {
        self.find(b"HEAD")
    }

    /// `HEAD` of every other work tree: what they have checked out is in use, too.
    pub(crate) fn other_heads(&self) -> Result<Vec<Ref>, Failure> {
        let mut out = Vec::new();
        for dir in self.git_dirs() {
            if dir == self.git_dir {
                continue;
            }
            let Ok(text) = fs::read(dir.join("HEAD")) else { continue };
            let name = format!("{}/HEAD", dir.display()).into_bytes();
            let found = match text.strip_prefix(b"ref:") {
                Some(target) => self.find(target.trim_ascii())?,
                None => {
                    ObjectId::from_hex_prefix(&text, self.hash).map(|id| Ref { name: name.clone(), id, peeled: None })
                }
            };
            out.extend(found.map(|found| Ref { name, ..found }));
        }
        Ok(out)
    }

    /// The git directories of all work trees: the main one's, then the linked ones' in name order.
    pub(crate) fn git_dirs(&self) -> Vec<PathBuf> {
        let mut out = vec![self.common_dir.clone()];
        if let Ok(entries) = fs::read_dir(self.common_dir.join("worktrees")) {
            let mut linked: Vec<PathBuf> =
                entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
            linked.sort();
            out.extend(linked);
        }
        if !out.contains(&self.git_dir) {
            out.push(self.git_dir.clone());
        }
        out
    }

    /// Every object that a reference log of any work tree names, each once, in id order.
    pub(crate) fn logged_ids(&self) -> Result<BTreeSet<ObjectId>, Failure> {
        let mut out = BTreeSet::new();
        for dir in self.git_dirs() {
            self.logs_below(&dir.join("logs"), &mut out)?;
        }
        Ok(out)
    }

    fn logs_below(&self, dir: &Path, out: &mut BTreeSet<ObjectId>) -> Result<(), Failure> {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(());
            }
            Err(error) => return Err(Failure::Fatal(format!("cannot read {}: {}", dir.display(), plain_io(&error)))),
        };
        for entry in entries {
            let entry = entry
                .map_err(|error| Failure::Fatal(format!("cannot read {}: {}", dir.display(), plain_io(&error))))?;
            let path = entry.path();
            if path.is_dir() {
                self.logs_below(&path, out)?;
            } else if !os_bytes(path.as_os_str()).ends_with(b".lock") {
                for (old, new) in self.log_lines(&path)? {
                    out.extend([old, new].into_iter().filter(|id| !id.is_null()));
                }
            }
        }
        Ok(())
    }

    /// The (old, new) pairs of a log file, oldest first. Lines that are none are skipped, as git does.
    fn log_lines(&self, path: &Path) -> Result<Vec<(ObjectId, ObjectId)>, Failure> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(Failure::Fatal(format!("cannot read {}: {}", path.display(), plain_io(&error)))),
        };
        let hex = self.hash.hex_len();
        let pair = |line: &[u8]| {
            let old = ObjectId::from_hex_prefix(line.get(..hex)?, self.hash)?;
            let rest = line.get(hex..)?.strip_prefix(b" ")?;
            let new = ObjectId::from_hex_prefix(rest.get(..hex)?, self.hash)?;
            rest.get(hex..)?.starts_with(b" ").then_some((old, new))
        };
        Ok(text.split(|&byte| byte == b'\n').filter_map(pair).collect())
    }

    /// Where `full_name` was `back` changes ago. `Err` of the number of entries if the log is too short.
    pub(crate) fn log_entry(&self, full_name: &[u8], back: usize) -> Result<Result<ObjectId, usize>, Failure> {
        let relative = crate::env::bytes_to_path(full_name);
        let mut lines = self.log_lines(&self.git_dir.join("logs").join(&relative))?;
        if lines.is_empty() {
            lines = self.log_lines(&self.common_dir.join("logs").join(&relative))?;
        }
        let count = lines.len();
        Ok(match count.checked_sub(back + 1).and_then(|at| lines.get(at)) {
            Some(&(_, new)) => Ok(new),
            // One step further back than the log goes, its oldest line still knows.
            None if back == count && count > 0 => {
                lines.first().map(|&(old, _)| old).filter(|old| !old.is_null()).ok_or(count)
            }
            None => Err(count),
        })
    }
}

/// Names that may stand directly in the git directory: `HEAD`, `FETCH_HEAD`, ...
fn is_root_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'_' | b'-'))
        || name.starts_with(b"main-worktree/")
        || name.starts_with(b"worktrees/")
}
