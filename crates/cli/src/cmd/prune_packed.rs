//! `packstone prune-packed`: git-prune-packed.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufWriter, IsTerminal, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use object::ObjectId;
use odb::{Observer, Pack};

use crate::env::Environment;
use crate::options::{Table, flag};
use crate::progress::Meter;
use crate::report::{self, Failure, chain, plain_io};
use crate::setup::Repository;
use crate::stdio;

/// What `--help` says in front of the list of options.
const ABOUT: &str = "\
Deletes loose objects of this repository that a pack has as well, its own or an alternate's, and the directories that
become empty by that. A pack that cannot be opened, or whose index gives the object no place in it, does not count.

Progress is shown on a terminal when it takes more than two seconds.

Exit code: 0 done; 128 with `fatal: ...`; 129 for a wrong command line.
";

/// After this time progress is shown.
const DELAY: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct Typed {
    dry_run: bool,
    quiet: bool,
}

const TABLE: Table<Typed> = Table {
    usage: &["packstone prune-packed [-n | --dry-run] [-q | --quiet]"],
    options: &[flag!(Some('n'), "dry-run", dry_run, "dry run"), flag!(Some('q'), "quiet", quiet, "be quiet")],
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
    if !TABLE.parse(words, &mut typed)?.is_empty() {
        return Err(Failure::Usage(format!("fatal: too many arguments\n\n{}", TABLE.help())));
    }
    let store = repo.open_store()?;
    let packs = store.packs().map_err(|error| Failure::Fatal(chain(&error)))?;
    repo.warn_of_problems(&store);
    let mut out = BufWriter::with_capacity(stdio::BLOCK, stdio::stdout()?);
    let progress = Progress::new(!typed.quiet && io::stderr().is_terminal());
    let ids = store.loose_ids(0).map_err(|error| Failure::Fatal(chain(&error)))?;
    let mut ids = &ids[..];
    for first in 0..=u8::MAX {
        let (dir, rest) = ids.split_at(ids.partition_point(|id| id.first_byte() <= first));
        ids = rest;
        for id in dir.iter().filter(|id| is_packed(&packs, id)) {
            let path = store.loose_path_of(id, 0);
            if typed.dry_run {
                writeln!(out, "rm -f {}", repo.env.shown(&path).display()).map_err(stdio::failed)?;
            } else if let Err(error) = fs::remove_file(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                report::warning(format!("unable to unlink '{}': {}", path.display(), plain_io(&error)));
            }
        }
        if !typed.dry_run {
            // Only empty ones can be removed, and others need not be.
            let _ = fs::remove_dir(store.objects_dir().join(format!("{first:02x}")));
        }
        progress.at(u64::from(first) + 1);
    }
    progress.meter.finish();
    out.flush().map_err(stdio::failed)
}

/// Whether a pack that can be read has a place for the object.
fn is_packed(packs: &[Arc<Pack>], id: &ObjectId) -> bool {
    packs.iter().any(|pack| pack.idx().lookup(id).is_some_and(|pos| pack.offset(pos).is_ok()))
}

/// A meter that appears late.
struct Progress {
    meter: Meter,
    wanted: bool,
    started: Instant,
    shown: std::cell::Cell<bool>,
}

impl Progress {
    fn new(wanted: bool) -> Progress {
        Progress { meter: Meter::new(&[]), wanted, started: Instant::now(), shown: std::cell::Cell::new(false) }
    }

    fn at(&self, value: u64) {
        if self.wanted && !self.shown.get() && self.started.elapsed() >= DELAY {
            self.shown.set(true);
            self.meter.phase("Removing duplicate objects", Some(256));
            self.meter.inc(value);
        } else if self.shown.get() {
            self.meter.inc(1);
        }
    }
}
