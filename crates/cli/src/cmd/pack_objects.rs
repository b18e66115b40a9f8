//! `packstone pack-objects`: git-pack-objects.
//!
//! [`Typed`] is what the command line says, [`Settings`](settings::Settings) what it means together with the
//! configuration, [`Request`] what is handed to the `pack-objects` crate once standard input has been read.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};

use object::ObjectId;
use odb::{Observer, Store};
use pack_objects::{SelectOptions, Selection, WriteOptions};
use revwalk::Commits;

use self::input::{Input, Request, read_input};
use self::settings::{Configured, Output, settle};
use self::typed::{Missing, Progress, TABLE, Typed};
use crate::env::Environment;
use crate::progress::Meter;
use crate::report::{self, Failure, chain};
use crate::revs::Tips;
use crate::setup::Repository;
use crate::stdio;

mod input;
mod settings;
mod typed;

/// What `--help` says in front of the list of options.
const ABOUT: &str = "\
Reads names of objects, or with --revs revisions, from standard input, and writes one pack of those objects:
with --stdout as a stream, else as <base-name>-<hash>.pack with its .idx and .rev beside it, and prints <hash>.

Without --revs a line is `<object id>[ <path>]`, or `-<object id>` for a commit whose trees and blobs the
receiver has. With --revs a line is a revision (`<id>`, a reference, `HEAD~3`, `^x`, `a..b`, `a...b`), `--not`,
`--all`, or `--shallow <id>`; an empty line ends the list.

Entries are taken over from existing packs as they lie wherever that is possible; all else is deflated whole
(no new deltas are made yet, so --window, --window-memory, --depth and --name-hash-version have no effect).
With --stdout, bitmaps answer what is reachable unless pack.useBitmaps or --no-use-bitmap-index forbids it.

Configuration: pack.threads, pack.compression, core.compression, pack.useBitmaps, pack.useSparse,
pack.indexVersion, pack.writeReverseIndex, pack.readReverseIndex, pack.packSizeLimit (refused for files),
core.deltaBaseCacheLimit, core.bigFileThreshold, core.commitGraph, core.fsync, core.fsyncMethod,
core.sharedRepository; and packstone.verifyReuse, which says how far reused bytes are held against the CRCs of
their index before a stream of them leaves: `true` also packs sent as a whole, `false` only entries taken one by
one, `auto` (the default) all but packs sent as a whole. Packs written to files are always checked.

Exit code: 0 done; 128 with `fatal: ...`; 129 for a wrong command line; 141 if the reader of our output left.
";

/// The help page.
pub(crate) fn page() -> String {
    TABLE.page(ABOUT)
}

/// Runs the command.
pub(crate) fn run(env: Environment, words: &[OsString]) -> Result<(), Failure> {
    let terminal = io::stderr().is_terminal();
    let mut typed = Typed { progress: if terminal { Progress::Usual } else { Progress::None }, ..Typed::default() };
    TABLE.help_if_asked(words)?;
    let repository = Repository::find(env)?;
    let configured = Configured::read(&repository)?;
    let operands = TABLE.parse(words, &mut typed)?;
    let shallow = repository.shallow(typed.keep_true_parents)?;
    let settings = settle(&typed, &configured, &operands, &repository, &shallow)?;
    let store = repository.open_store()?;
    let request = read_input(settings, shallow, &repository, &store)?;
    let checksum = pack(&repository, &store, &request)?;
    if let (Output::Files(_), Some(checksum)) = (&request.settings.output, checksum) {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{checksum}")
            .and_then(|()| stdout.flush())
            .map_err(|error| Failure::output("write error", error))?;
    }
    Ok(())
}

/// Packs these objects as the command with these words would; gives the pack's checksum.
pub(crate) fn pack_list(
    repository: &Repository,
    store: &Store,
    words: &[OsString],
    list: Vec<ObjectId>,
) -> Result<Option<ObjectId>, Failure> {
    let mut typed = Typed::default();
    let operands = TABLE.parse(words, &mut typed)?;
    let shallow = repository.shallow(false)?;
    let settings = settle(&typed, &Configured::read(repository)?, &operands, repository, &shallow)?;
    let list = list.into_iter().map(|id| (id, Vec::new())).collect();
    let input = Input::Objects { list, bases: Vec::new() };
    pack(repository, store, &Request { settings, input, shallow, tags: Vec::new() })
}

/// Packs these objects and what is reached from them as the command with these words would; gives the pack's checksum.
pub(crate) fn pack_reachable(
    repository: &Repository,
    store: &Store,
    words: &[OsString],
    wants: Vec<ObjectId>,
) -> Result<Option<ObjectId>, Failure> {
    let mut typed = Typed::default();
    let operands = TABLE.parse(words, &mut typed)?;
    let shallow = repository.shallow(false)?;
    let settings = settle(&typed, &Configured::read(repository)?, &operands, repository, &shallow)?;
    let input = Input::Revisions(Tips { wants, haves: Vec::new() });
    pack(repository, store, &Request { settings, input, shallow, tags: Vec::new() })
}

/// Hands the request to the library, and says how it went. Gives the checksum of the pack, if there is one.
fn pack(repository: &Repository, store: &Store, request: &Request) -> Result<Option<ObjectId>, Failure> {
    let settings = &request.settings;
    let threads = match settings.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let mut exclude = settings.exclude.clone();
    if settings.exclude_promisor {
        let packs = store.packs().map_err(|error| Failure::Fatal(chain(&error)))?;
        let promised = packs.iter().filter(|pack| pack.is_promisor()).filter_map(|pack| pack.path().file_name());
        exclude.packs.extend(promised.map(|name| name.to_string_lossy().into_owned()));
    }
    let promised = repository.promisor.is_some();
    let missing = match settings.missing {
        Missing::AllowAny => revwalk::Missing::Allow,
        Missing::AllowPromisor if promised => revwalk::Missing::Allow,
        _ if settings.exclude_promisor => revwalk::Missing::Allow,
        _ => revwalk::Missing::Error,
    };
    let select = SelectOptions::default()
        .bitmaps(settings.bitmaps)
        .sparse(settings.sparse)
        .thin(settings.thin)
        .aggressive_edges(settings.aggressive_edges)
        .missing(missing)
        .exclude(exclude)
        .threads(threads);

    let meter = settings.progress.then(|| {
        let hidden: &[&str] = if settings.progress_writing { &[] } else { &["Writing objects"] };
        Meter::new(hidden)
    });
    let quiet = odb::Quiet;
    let observer: &dyn Observer = match &meter {
        Some(meter) => meter,
        None => &quiet,
    };
    let selection = match &request.input {
        Input::Objects { list, bases } => {
            let mut ids: Vec<ObjectId> = list.iter().map(|(id, _)| *id).collect();
            add_tags(store, &request.tags, &mut ids)?;
            Selection::of_list(store, &ids, bases, &select, observer)
        }
        Input::Revisions(tips) => {
            let commits = Commits::new(store, repository.commit_graph(store)?, request.shallow.clone());
            let commits = commits.read_ahead(threads);
            let asked = pack_objects::Request {
                wants: &tips.wants,
                haves: &tips.haves,
                filter: settings.filter.as_ref(),
                tags: &request.tags,
            };
            Selection::of_request(store, &commits, asked, &select, observer)
        }
    };
    let selection = selection.map_err(|error| Failure::Fatal(chain(&error)))?;
    let count = selection.objects.count();
    if let Some(meter) = &meter {
        meter.raise(count);
        meter.finish();
        meter.phase("Counting objects", Some(count));
        meter.inc(count);
        meter.finish();
    }
    repository.warn_of_problems(store);
    for warning in &selection.warnings {
        report::warning(warning);
    }
    if settings.non_empty && count == 0 {
        return Ok(None);
    }

    let write = WriteOptions::default()
        .delta_base_offset(settings.delta_base_offset)
        .thin(settings.thin)
        .reuse_delta(settings.reuse_delta)
        .reuse_object(settings.reuse_object)
        .compression(settings.compression)
        .threads(threads)
        .verify_reuse(settings.verify)
        .big_file_threshold(settings.big_file_threshold)
        .publish(repository.publish_options()?)
        .write_rev(settings.write_rev)
        .index_version(settings.index_version)
        .index_offset_limit(settings.index_offset_limit);
    let outcome = match &settings.output {
        Output::Stdout => {
            let stdout = stdio::stdout()?;
            pack_objects::write_stream(&selection, &write, stdout, observer)
        }
        Output::Files(base) => pack_objects::write_to_disk(&selection, &write, base, observer),
    };
    let outcome = outcome
        .map_err(|error| if error.is_broken_pipe() { Failure::ClosedPipe } else { Failure::Fatal(chain(&error)) })?;
    if let Some(meter) = &meter {
        meter.finish();
        report::say(&format!(
            "Total {} (delta {}), reused {} (delta {}), pack-reused {} (from {})\n",
            outcome.count,
            outcome.deltas,
            outcome.reused,
            outcome.reused_deltas,
            outcome.pack_reused,
            outcome.packs_reused
        ));
    }
    Ok(Some(outcome.checksum))
}

/// Adds the tags, and the tags they tag, of what a list names (`--include-tag`).
fn add_tags(store: &Store, tags: &[(ObjectId, ObjectId)], ids: &mut Vec<ObjectId>) -> Result<(), Failure> {
    if tags.is_empty() {
        return Ok(());
    }
    let named: HashSet<ObjectId> = ids.iter().copied().collect();
    for (tag, _) in tags.iter().filter(|(_, peeled)| named.contains(peeled)) {
        ids.extend(revwalk::peel(store, tag).map_err(|error| Failure::Fatal(chain(&error)))?.tags);
    }
    Ok(())
}
