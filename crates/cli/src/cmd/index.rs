//! `packstone index`: what an index file is made of, and whether it is sound.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use index::IndexView;
use index::file::shared_name;
use index::source::{ByteSource, Bytes};
use index::verify::verify;
use object::HashKind;

use crate::env::Environment;
use crate::options::{Given, Name, Spec, Table, Takes};
use crate::report::{Failure, plain_io};
use crate::setup::Repository;

mod json;
mod stat;

const PAGE: &str = "\
usage: packstone index stat [<file>] [--json] [--object-format=<hash>]
   or: packstone index verify [<file>] [--object-format=<hash>]

Looks at an index file: <file>, or the repository's. Its hash function is that of the repository around us; outside of
one --object-format says it (sha1 if not).

stat shows its version, how many entries there are of each kind, how many bytes each part takes and how long it takes
to read, and what is in the extensions. --json prints the same for programs.

verify looks for everything that is wrong: checksum, entries, their order and paths, extensions, whether the offset
table is where entries are, whether the cached trees are those of the entries. A finding is a line,

    byte <offset>: error|warning: <what>

in the order of the file. The shared index of a split one is looked at as well, and its findings have its name in front.

Exit code: 0 done, nothing found; 1 something was found; 128 with `fatal: ...`; 129 for a wrong command line.
";

#[derive(Debug, Default)]
struct Typed {
    json: bool,
    hash: Option<HashKind>,
}

const OBJECT_FORMAT: Spec<Typed> = Spec {
    short: None,
    long: "object-format",
    takes: Takes::Value("hash"),
    negatable: true,
    hidden: false,
    help: "hash function of the ids: sha1 or sha256",
    set: |typed, _: &Name<'_>, given| {
        typed.hash = match given {
            Given::Value(name) => Some(
                name.to_str()
                    .and_then(HashKind::from_name)
                    .ok_or_else(|| Failure::Fatal(format!("unknown hash algorithm '{}'", name.to_string_lossy())))?,
            ),
            _ => None,
        };
        Ok(())
    },
};

const STAT: Table<Typed> = Table {
    usage: &["packstone index stat [<file>] [--json] [--object-format=<hash>]"],
    options: &[
        Spec {
            short: None,
            long: "json",
            takes: Takes::Nothing,
            negatable: true,
            hidden: false,
            help: "print an object of JSON",
            set: |typed, _, given| {
                typed.json = matches!(given, Given::On);
                Ok(())
            },
        },
        OBJECT_FORMAT,
    ],
};

const VERIFY: Table<Typed> =
    Table { usage: &["packstone index verify [<file>] [--object-format=<hash>]"], options: &[OBJECT_FORMAT] };

/// The help page.
pub(crate) fn page() -> String {
    PAGE.to_owned()
}

/// Runs the command.
pub(crate) fn run(env: Environment, words: &[OsString]) -> Result<(), Failure> {
    let wrong = |what: String| Failure::Usage(format!("error: {what}\n{PAGE}"));
    let Some((verb, words)) = words.split_first() else { return Err(wrong("need a subcommand".into())) };
    let mut typed = Typed::default();
    match verb.to_str() {
        Some("-h") => Err(Failure::Help(PAGE.to_owned())),
        Some("stat") => {
            let operands = STAT.parse(words, &mut typed)?;
            let file = Place::find(env, &typed, &operands, &STAT)?;
            stat::run(&file, typed.json)
        }
        Some("verify") => {
            let operands = VERIFY.parse(words, &mut typed)?;
            verify_file(&Place::find(env, &typed, &operands, &VERIFY)?)
        }
        _ => Err(wrong(format!("unknown subcommand: `{}'", verb.to_string_lossy()))),
    }
}

/// An index file to look at.
struct Place {
    path: PathBuf,
    /// As it is to be named.
    shown: PathBuf,
    hash: HashKind,
    /// Where its shared index may be.
    dirs: Vec<PathBuf>,
}

impl Place {
    fn find(env: Environment, typed: &Typed, operands: &[OsString], table: &Table<Typed>) -> Result<Place, Failure> {
        let given = match operands {
            [] => None,
            [file] => Some(file.as_os_str()),
            _ => return Err(table.wrong("too many arguments")),
        };
        let start = env.clone();
        let repo = match (Repository::find(env), given) {
            (Ok(repo), _) => Some(repo),
            // A file says all that is needed.
            (Err(_), Some(_)) => None,
            (Err(failure), None) => return Err(failure),
        };
        let path = match (given, &repo) {
            (Some(file), _) => start.resolve(Path::new(file)),
            (None, Some(repo)) => repo.env.path("GIT_INDEX_FILE").unwrap_or_else(|| repo.git_dir.join("index")),
            (None, None) => return Err(table.wrong("")), // there was a failure
        };
        let beside = path.parent().map(Path::to_path_buf);
        Ok(Place {
            shown: given.map_or_else(|| start.shown(&path), PathBuf::from),
            hash: typed.hash.or(repo.as_ref().map(|repo| repo.hash)).unwrap_or(HashKind::Sha1),
            dirs: beside.into_iter().chain(repo.map(|repo| repo.git_dir)).collect(),
            path,
        })
    }

    fn open(&self) -> Result<Bytes, Failure> {
        open(&self.path)
            .map_err(|error| Failure::Fatal(format!("cannot open '{}': {}", self.shown.display(), plain_io(&error))))
    }

    /// The shared index that a split one builds on, if it is one and that is there: its name and its bytes.
    fn shared(&self, bytes: &[u8]) -> Option<(String, Bytes)> {
        let base = IndexView::parse(bytes, self.hash).ok()?.split_base().ok()??;
        let name = shared_name(&base);
        let shared = self.dirs.iter().find_map(|dir| open(&dir.join(&name)).ok())?;
        Some((name, shared))
    }
}

fn open(path: &Path) -> io::Result<Bytes> {
    Bytes::open(path, ByteSource::Auto).map(|(bytes, _)| bytes)
}

/// Prints what is wrong with a file.
fn verify_file(place: &Place) -> Result<(), Failure> {
    let bytes = place.open()?;
    let bytes = bytes.as_ref();
    let shared = place.shared(bytes);
    let mut text = String::new();
    if let Some((name, shared)) = &shared {
        for finding in verify(shared.as_ref(), place.hash, None) {
            text.push_str(&format!("{name}: byte {}: {}: {}\n", finding.at, finding.severity, finding.what));
        }
    }
    for finding in verify(bytes, place.hash, shared.as_ref().map(|(_, shared)| shared.as_ref())) {
        text.push_str(&format!("byte {}: {}: {}\n", finding.at, finding.severity, finding.what));
    }
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::output("write error", error))?;
    if text.is_empty() { Ok(()) } else { Err(Failure::Exit(1)) }
}

/// A name that need not be text.
fn lossy(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}
