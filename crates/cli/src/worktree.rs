//! The files of a work tree beside their entries in the index, and paths as users type them.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use index::Entry;
use index::path::PathChecks;
use index::refresh::{self, CheckStat, Checkout, FileState, MatchOptions, WorkTree};
use object::{HashKind, ObjectId, ObjectKind, object_id};

use crate::attributes::{Conversions, Needs};
use crate::env::{Environment, os_bytes};
use crate::objects::name_of_file;
use crate::refs::Refs;
use crate::report::{Failure, chain, plain_io};
use crate::setup::Repository;

/// Variables that say where this repository's parts are, which a submodule's are not.
const OWN_VARIABLES: &[&str] = &[
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_INDEX_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
    "GIT_NAMESPACE",
];

/// A work tree in the file system, and how its files are looked at.
#[derive(Debug)]
pub(crate) struct Tree {
    files: Checkout<'static>,
    hash: HashKind,
    /// What makes a difference.
    pub(crate) matching: MatchOptions,
    conversions: Conversions,
    /// For submodules.
    env: Environment,
}

impl Tree {
    /// The repository's work tree; `None` if it has none.
    pub(crate) fn of(repo: &Repository) -> Result<Option<Tree>, Failure> {
        let Some(root) = &repo.work_tree else { return Ok(None) };
        let mut env = repo.env.clone();
        for name in OWN_VARIABLES {
            env.unset(name);
        }
        Ok(Some(Tree {
            files: Checkout::new(root),
            hash: repo.hash,
            matching: match_options(repo)?,
            conversions: Conversions::new(repo, root.clone())?,
            env,
        }))
    }

    /// Where a path of the index is in the file system.
    pub(crate) fn file(&self, path: &[u8]) -> io::Result<PathBuf> {
        self.files.file(path)
    }

    /// What has to be done to the content of a file before it is stored.
    pub(crate) fn needs(&self, path: &[u8]) -> Needs {
        self.conversions.needs(path)
    }

    /// Whether a file is not what its entry says though its stat data are: for [`index::WriteOptions::is_modified`].
    pub(crate) fn is_secretly_modified(&self, entry: &Entry<'_>) -> bool {
        refresh::is_secretly_modified(entry, self, &self.matching)
    }

    /// The commit that the repository in a directory has checked out.
    pub(crate) fn head_of(&self, dir: &Path) -> Result<Option<ObjectId>, Failure> {
        let mut env = self.env.clone();
        env.set("GIT_DIR", dir.join(".git"));
        // Whatever keeps it from being a repository: there is none for us.
        let Ok(repo) = Repository::find(env) else { return Ok(None) };
        Ok(Refs::open(&repo)?.head()?.map(|head| head.id))
    }
}

impl WorkTree for Tree {
    fn lstat(&self, path: &[u8]) -> io::Result<Option<FileState>> {
        self.files.lstat(path)
    }

    fn same_content(&self, entry: Entry<'_>, state: &FileState) -> io::Result<bool> {
        if !state.mode.is_blob() {
            return self.files.same_content(entry, state);
        }
        let mut file = File::open(self.file(entry.path())?)?;
        let needs = self.needs(entry.path());
        let id = if needs.is_nothing() {
            let size = file.metadata()?.len();
            name_of_file(&mut file, size, self.hash).map_err(io::Error::other)?
        } else {
            let mut content = Vec::new();
            file.read_to_end(&mut content)?;
            if let Some(what) = needs.of(&content) {
                return Err(io::Error::new(io::ErrorKind::Unsupported, unsupported(&what)));
            }
            object_id(self.hash, ObjectKind::Blob, &content).map_err(io::Error::other)?
        };
        Ok(id == entry.id())
    }

    fn gitlink_head(&self, path: &[u8]) -> io::Result<Option<ObjectId>> {
        self.head_of(&self.file(path)?).map_err(|failure| match failure {
            Failure::Fatal(text) => io::Error::new(io::ErrorKind::Unsupported, text),
            _ => io::ErrorKind::Other.into(),
        })
    }
}

/// Why a file is not looked at.
pub(crate) fn unsupported(what: &str) -> String {
    format!("it has to be converted first ({what}), which is not supported yet")
}

fn match_options(repo: &Repository) -> Result<MatchOptions, Failure> {
    let truth = |key| Ok::<_, Failure>(repo.config.truth(key)?.unwrap_or(true));
    let check_stat = match repo.config.text("core.checkstat")? {
        Some(text) if text.eq_ignore_ascii_case(b"minimal") => CheckStat::Minimal,
        _ => CheckStat::Default,
    };
    Ok(MatchOptions::default()
        .trust_ctime(truth("core.trustctime")?)
        .check_stat(check_stat)
        .trust_file_mode(truth("core.filemode")?)
        .has_symlinks(truth("core.symlinks")?))
}

impl Repository {
    /// What paths must not enter the index (`core.protectNTFS`, `core.protectHFS`).
    pub(crate) fn path_checks(&self) -> Result<PathChecks, Failure> {
        let mut checks = PathChecks::default();
        if let Some(yes) = self.config.truth("core.protectntfs")? {
            checks = checks.ntfs(yes);
        }
        if let Some(yes) = self.config.truth("core.protecthfs")? {
            checks = checks.hfs(yes);
        }
        Ok(checks)
    }

    /// A path as the user typed it, from the root of the work tree: `.` and `..` resolved by text alone, without a `/` in
    /// front, with the one at its end if there is one.
    pub(crate) fn path_in_tree(&self, typed: &[u8]) -> Result<Vec<u8>, Failure> {
        let outside = || {
            let root = self.work_tree.as_deref().unwrap_or(&self.git_dir);
            let text = String::from_utf8_lossy(typed).into_owned();
            Failure::Fatal(format!("'{text}' is outside repository at '{}'", root.display()))
        };
        let path = crate::env::bytes_to_path(typed);
        let whole = if path.is_absolute() {
            self.below_root(&path).ok_or_else(outside)?
        } else {
            [&self.prefix[..], typed].concat()
        };
        let mut out: Vec<&[u8]> = Vec::new();
        for part in whole.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    out.pop().ok_or_else(outside)?;
                }
                part => out.push(part),
            }
        }
        let mut joined = out.join(&b'/');
        let last = whole.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if !joined.is_empty() && matches!(last, b"" | b"." | b"..") {
            joined.push(b'/');
        }
        Ok(joined)
    }

    /// An absolute path, from the root of the work tree, which may be named by way of symbolic links.
    fn below_root(&self, path: &Path) -> Option<Vec<u8>> {
        let root = self.work_tree.as_deref()?;
        let path = crate::env::normal(path);
        let rest = path.ancestors().find_map(|above| {
            let same = above == root || above.canonicalize().is_ok_and(|real| real == root);
            path.strip_prefix(above).ok().filter(|_| same)
        })?;
        let parts = rest.components().filter_map(|part| match part {
            Component::Normal(name) => Some(os_bytes(name).into_owned()),
            _ => None,
        });
        Some(parts.collect::<Vec<_>>().join(&b'/'))
    }
}

/// What the system said, for messages.
pub(crate) fn io_words(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(_) => plain_io(error),
        None => chain(error),
    }
}
