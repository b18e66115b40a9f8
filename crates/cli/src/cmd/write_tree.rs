//! `packstone write-tree`: git-write-tree.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{self, Write as _};

use index::trees::{TreeError, WriteTreeOptions, write_tree};
use index::{Bump, Index, Stage};

use crate::env::{Environment, os_bytes};
use crate::index::{IndexPlace, cannot_lock};
use crate::objects::{Objects, ObjectsError};
use crate::options::{Given, Spec, Table, Takes};
use crate::present::see_present_files;
use crate::report::{self, Failure, chain};
use crate::setup::Repository;

/// What `--help` says in front of the list of options.
const ABOUT: &str = "\
Makes the trees of what is in the index, and prints the id of the root's, or of the prefix's. The index remembers them,
so that next time only what changed is made anew.

In a partial clone objects that are not there count as promised: nothing is fetched.

Configuration: core.protectNTFS, core.protectHFS, core.compression, core.looseCompression, core.fsync and all that says
how an index is written (see update-index).

Exit code: 0 done; 128 with `fatal: ...`; 129 for a wrong command line.
";

/// How many conflicts are named.
const NAMED: usize = 10;

#[derive(Debug, Default)]
struct Typed {
    missing_ok: bool,
    prefix: Option<OsString>,
    ignore_cache_tree: bool,
}

const TABLE: Table<Typed> = Table {
    usage: &["packstone write-tree [--missing-ok] [--prefix=<prefix>/]"],
    options: &[
        Spec {
            short: None,
            long: "missing-ok",
            takes: Takes::Nothing,
            negatable: true,
            hidden: false,
            help: "do not look whether the objects are there",
            set: |typed, _, given| {
                typed.missing_ok = matches!(given, Given::On);
                Ok(())
            },
        },
        Spec {
            short: None,
            long: "prefix",
            takes: Takes::Value("<prefix>/"),
            negatable: true,
            hidden: false,
            help: "print the tree of this directory",
            set: |typed, _, given| {
                typed.prefix = match given {
                    Given::Value(prefix) => Some(prefix.to_owned()),
                    _ => None,
                };
                Ok(())
            },
        },
        Spec {
            short: None,
            long: "ignore-cache-tree",
            takes: Takes::Nothing,
            negatable: true,
            hidden: true,
            help: "make all trees anew",
            set: |typed, _, given| {
                typed.ignore_cache_tree = matches!(given, Given::On);
                Ok(())
            },
        },
    ],
};

/// The help page.
pub(crate) fn page() -> String {
    TABLE.page(ABOUT)
}

/// Runs the command.
pub(crate) fn run(env: Environment, words: &[OsString]) -> Result<(), Failure> {
    TABLE.help_if_asked(words)?;
    let repo = Repository::find(env)?;
    let mut typed = Typed::default();
    TABLE.parse(words, &mut typed)?;
    let place = IndexPlace::find(&repo)?;
    let lock = place.lock().map_err(|error| cannot_lock(&error))?;
    let (arena, opened) = (Bump::new(), place.open()?);
    let mut index = opened.read(&arena)?;
    see_present_files(&repo, &place, &mut index)?;
    let known = !typed.ignore_cache_tree && index.cache_tree().is_some_and(|tree| tree.is_fully_valid());
    let prefix = typed.prefix.as_deref().map(os_bytes);
    let options = WriteTreeOptions::default()
        .missing_ok(typed.missing_ok || repo.promisor.is_some())
        .prefix(prefix.as_deref())
        .ignore_cache_tree(typed.ignore_cache_tree)
        .checks(repo.path_checks()?);
    let mut objects = Objects::open(&repo)?;
    let tree = write_tree(&mut index, &mut objects, &options)
        .map_err(|error| failed(&error, &index, typed.prefix.as_deref()))?;
    objects.finish().map_err(|error| Failure::Fatal(chain(&error)))?;
    if !known {
        if opened.is_new() {
            place.set_new_version(&mut index);
        }
        // If this cannot be written, the next one to ask has to do the same work again, and that is all.
        let _ = place.save(&mut index, lock);
    }
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", tree.id).and_then(|()| stdout.flush()).map_err(|error| Failure::output("write error", error))
}

/// Says why there are no trees.
fn failed(error: &TreeError<ObjectsError>, index: &Index<'_>, prefix: Option<&OsStr>) -> Failure {
    let mut said = String::new();
    match error {
        TreeError::Prefix { .. } => {
            let prefix = prefix.unwrap_or_default().to_string_lossy();
            return Failure::Fatal(format!("git-write-tree: prefix {prefix} not found"));
        }
        TreeError::Unmerged { .. } => {
            let unmerged = index.iter().filter(|entry| entry.stage() != Stage::Merged);
            let lines = unmerged.map(|entry| {
                let path = String::from_utf8_lossy(entry.path());
                format!("{path}: unmerged ({})", entry.id())
            });
            some(lines, &mut said);
        }
        TreeError::FileDirectory { .. } => {
            let lines = index.iter().filter(|entry| !entry.is_sparse_dir()).filter_map(|file| {
                let inside = index.prefix(&[file.path(), b"/"].concat());
                let inside = index.get(inside.start).filter(|_| !inside.is_empty())?;
                let (file, inside) = (String::from_utf8_lossy(file.path()), String::from_utf8_lossy(inside.path()));
                Some(format!("You have both {file} and {inside}"))
            });
            some(lines, &mut said);
        }
        TreeError::NullId { path } => {
            let entry = index.find(path, Stage::Merged).ok().and_then(|at| index.get(at));
            let (mode, id) = entry.map_or((0, index.kind().null()), |entry| (entry.mode().0, entry.id()));
            let path = String::from_utf8_lossy(path);
            let _ = writeln!(said, "error: invalid object {mode:06o} {id} for '{path}'");
        }
        other => {
            let _ = writeln!(said, "error: {}", chain(other));
        }
    }
    report::say(&said);
    Failure::fatal("git-write-tree: error building trees")
}

/// The first few of many lines.
fn some(lines: impl Iterator<Item = String>, out: &mut String) {
    for (nth, line) in lines.take(NAMED + 1).enumerate() {
        let _ = writeln!(out, "{}", if nth < NAMED { &line } else { "..." });
    }
}
