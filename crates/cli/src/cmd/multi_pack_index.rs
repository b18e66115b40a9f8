//! `packstone multi-pack-index`: git-multi-pack-index, but for bitmaps.

use std::cell::Cell;
use std::ffi::OsString;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use object::{HashKind, ObjectId};
use odb::midx::{Base, Editor, Fault, MidxError, Note, Outcome, WriteOptions};
use odb::{Observer, Quiet};
use pack_format::midx::Version;

use self::complaint::Complaint;
use crate::env::{Environment, os_bytes};
use crate::index::cannot_lock;
use crate::options::{Given, Spec, Step, Table, Takes, flag, refused, size};
use crate::progress::Meter;
use crate::report::{self, Failure, chain, plain_io};
use crate::setup::Repository;

mod complaint;

/// What `--help` says in front of the list of options.
const ABOUT: &str = "\
The multi-pack-index is one index for many packs: a file `pack/multi-pack-index`, or a chain of layers in
`pack/multi-pack-index.d`, each for the packs that those below it do not cover.

write    covers all packs, or those whose names (of the .idx) are on standard input; with --incremental by one
         more layer, else by one file. If that is what is there already, nothing is written.
compact  makes one layer of those from <from> to <to>, given by their checksums. Always version 2.
verify   holds everything against its checksum, its order, and the packs' own indexes.
expire   deletes packs of which the multi-pack-index uses nothing, but for those with a .keep and cruft packs,
         after writing one without them. Not with a chain.
repack   puts the objects of small packs into one new pack: oldest first, each below <size>, until they reach it
         together; of all packs if <size> is 0. Not with a chain. No deltas are made anew, and
         repack.useDeltaIslands has no effect yet.

Bitmaps are not written yet: --bitmap is refused, and --refs-snapshot has no effect.

Configuration: midx.version, core.multiPackIndex, repack.packKeptObjects, repack.useDeltaBaseOffset, core.fsync,
core.fsyncMethod, core.sharedRepository; for repack also that of pack-objects.

Exit code: 0 done; 1 verify found something; 128 with `fatal: ...`; 129 for a wrong command line; 255 with `error: ...`.
";

#[derive(Debug, Default)]
struct Typed {
    object_dir: Option<PathBuf>,
    /// Typed, and not only due to a terminal.
    progress: Option<bool>,
    preferred: Option<Vec<u8>>,
    base: Option<Vec<u8>>,
    incremental: bool,
    no_chain: bool,
    stdin_packs: bool,
    refs_snapshot: Option<PathBuf>,
    batch_size: u64,
    refused: std::collections::BTreeSet<&'static str>,
}

const OBJECT_DIR: Spec<Typed> = Spec {
    short: None,
    long: "object-dir",
    takes: Takes::Value("directory"),
    negatable: true,
    hidden: false,
    help: "the object directory whose packs are meant",
    set: |typed, _, given| {
        typed.object_dir = match given {
            Given::Value(dir) => Some(dir.into()),
            _ => None,
        };
        Ok(())
    },
};

const PROGRESS: Spec<Typed> = Spec {
    short: None,
    long: "progress",
    takes: Takes::Nothing,
    negatable: true,
    hidden: false,
    help: "show progress, or do not",
    set: |typed, _, given| {
        typed.progress = Some(matches!(given, Given::On));
        Ok(())
    },
};

const BITMAP: Spec<Typed> = refused!(None, "bitmap", Takes::Nothing, true, "write a bitmap");

const INCREMENTAL: Spec<Typed> = flag!(None, "incremental", incremental, "write one more layer");

const WRITE_CHAIN: Spec<Typed> = Spec {
    short: None,
    long: "write-chain-file",
    takes: Takes::Nothing,
    negatable: true,
    hidden: false,
    help: "let the chain name the new layer",
    set: |typed, _, given| {
        typed.no_chain = matches!(given, Given::Off);
        Ok(())
    },
};

const BASE: Spec<Typed> = Spec {
    short: None,
    long: "base",
    takes: Takes::Value("checksum"),
    negatable: true,
    hidden: false,
    help: "the layer that the new one is put on, or `none`",
    set: |typed, _, given| {
        typed.base = match given {
            Given::Value(base) => Some(os_bytes(base).into_owned()),
            _ => None,
        };
        Ok(())
    },
};

const WRITE_USAGE: &[&str] = &[
    "packstone multi-pack-index [<options>] write [--preferred-pack=<pack>]",
    "  [--[no-]bitmap] [--[no-]incremental] [--[no-]stdin-packs]",
    "  [--refs-snapshot=<path>] [--[no-]write-chain-file]",
    "  [--base=<checksum>]",
];
const COMPACT_USAGE: &[&str] = &[
    "packstone multi-pack-index [<options>] compact [--[no-]incremental]",
    "  [--[no-]bitmap] [--base=<checksum>] [--[no-]write-chain-file]",
    "  <from> <to>",
];
const VERIFY_USAGE: &str = "packstone multi-pack-index [<options>] verify";
const EXPIRE_USAGE: &str = "packstone multi-pack-index [<options>] expire";
const REPACK_USAGE: &str = "packstone multi-pack-index [<options>] repack [--batch-size=<size>]";

const COMMON: Table<Typed> = Table {
    usage: &[
        "packstone multi-pack-index [<options>] write [--preferred-pack=<pack>]",
        "  [--[no-]bitmap] [--[no-]incremental] [--[no-]stdin-packs]",
        "  [--refs-snapshot=<path>] [--[no-]write-chain-file]",
        "  [--base=<checksum>]",
        "packstone multi-pack-index [<options>] compact [--[no-]incremental]",
        "  [--[no-]bitmap] [--base=<checksum>] [--[no-]write-chain-file]",
        "  <from> <to>",
        VERIFY_USAGE,
        EXPIRE_USAGE,
        REPACK_USAGE,
    ],
    options: &[OBJECT_DIR, PROGRESS],
};

const WRITE: Table<Typed> = Table {
    usage: WRITE_USAGE,
    options: &[
        OBJECT_DIR,
        PROGRESS,
        Spec {
            short: None,
            long: "preferred-pack",
            takes: Takes::Value("preferred-pack"),
            negatable: true,
            hidden: false,
            help: "the pack whose copies of objects are listed",
            set: |typed, _, given| {
                typed.preferred = match given {
                    Given::Value(pack) => Some(os_bytes(pack).into_owned()),
                    _ => None,
                };
                Ok(())
            },
        },
        BITMAP,
        BASE,
        INCREMENTAL,
        WRITE_CHAIN,
        flag!(None, "stdin-packs", stdin_packs, "cover only the packs whose .idx is named on standard input"),
        Spec {
            short: None,
            long: "refs-snapshot",
            takes: Takes::Value("file"),
            negatable: true,
            hidden: false,
            help: "references to choose commits for the bitmap by",
            set: |typed, _, given| {
                typed.refs_snapshot = match given {
                    Given::Value(path) => Some(path.into()),
                    _ => None,
                };
                Ok(())
            },
        },
    ],
};

const COMPACT: Table<Typed> =
    Table { usage: COMPACT_USAGE, options: &[OBJECT_DIR, PROGRESS, BASE, BITMAP, INCREMENTAL, WRITE_CHAIN] };

const VERIFY: Table<Typed> = Table { usage: &[VERIFY_USAGE], options: &[OBJECT_DIR, PROGRESS] };

const EXPIRE: Table<Typed> = Table { usage: &[EXPIRE_USAGE], options: &[OBJECT_DIR, PROGRESS] };

const REPACK: Table<Typed> = Table {
    usage: &[REPACK_USAGE],
    options: &[
        OBJECT_DIR,
        PROGRESS,
        Spec {
            short: None,
            long: "batch-size",
            takes: Takes::Value("n"),
            negatable: true,
            hidden: false,
            help: "put packs below this size together until they reach it",
            set: |typed, name, given| {
                typed.batch_size = size(name, given)?;
                Ok(())
            },
        },
    ],
};

/// The help page: what all commands take, and what each of them does.
pub(crate) fn page() -> String {
    let mut page = COMMON.page(ABOUT);
    for (name, table) in [("write", &WRITE), ("compact", &COMPACT), ("repack", &REPACK)] {
        page.push_str(&format!("Options of {name}:\n\n{}", table.list()));
    }
    page
}

/// Runs the command.
pub(crate) fn run(env: Environment, words: &[OsString]) -> Result<(), Failure> {
    COMMON.help_if_asked(words)?;
    let mut typed = Typed::default();
    let mut rest = words.iter();
    let command = loop {
        match COMMON.step(&mut rest, &mut typed)? {
            Step::Option => {}
            Step::Operand(word) => break word,
            Step::End | Step::Done => return Err(COMMON.wrong("need a subcommand")),
        }
    };
    let (table, work): (&Table<Typed>, Work) = match &os_bytes(command)[..] {
        b"write" => (&WRITE, write),
        b"compact" => (&COMPACT, compact),
        b"verify" => (&VERIFY, verify),
        b"expire" => (&EXPIRE, expire),
        b"repack" => (&REPACK, repack),
        other => return Err(COMMON.wrong(&format!("unknown subcommand: `{}'", String::from_utf8_lossy(other)))),
    };
    let words = rest.as_slice();
    table.help_if_asked(words)?;
    let repo = Repository::find(env)?;
    let operands = table.parse(words, &mut typed)?;
    if operands.len() != if command == "compact" { 2 } else { 0 } {
        return Err(table.wrong(""));
    }
    if typed.no_chain && !typed.incremental {
        return Err(table.wrong("cannot use --no-write-chain-file without --incremental"));
    }
    if command == "write" && typed.base.is_some() && !typed.no_chain {
        return Err(table.wrong("cannot use --base without --no-write-chain-file"));
    }
    if let Some(option) = typed.refused.first() {
        return Err(Failure::Usage(format!("error: option `{option}' is not supported yet\n")));
    }
    let objects = match &typed.object_dir {
        None => repo.objects_dir.clone(),
        Some(dir) => repo
            .env
            .resolve(dir)
            .canonicalize()
            .map_err(|error| Failure::Fatal(format!("Invalid path '{}': {}", dir.display(), plain_io(&error))))?,
    };
    let terminal = io::stderr().is_terminal();
    // Short work deserves no meter that was not asked for.
    let quick: &[&str] = &[
        "Adding packfiles to multi-pack-index",
        "Looking for referenced packfiles",
        "Counting referenced objects",
        "Finding and deleting unreferenced packfiles",
    ];
    let meter = match typed.progress {
        Some(true) => Some(Meter::new(&[])),
        None if terminal => Some(Meter::new(quick)),
        _ => None,
    };
    let mut call = Call { repo: &repo, typed: &typed, objects: &objects, meter: meter.as_ref() };
    let result = work(&mut call, &operands);
    if let Some(meter) = &meter {
        meter.finish();
    }
    result
}

/// What a subcommand does with its operands.
type Work = fn(&mut Call<'_>, &[OsString]) -> Result<(), Failure>;

/// A command that was understood.
struct Call<'a> {
    repo: &'a Repository,
    typed: &'a Typed,
    objects: &'a Path,
    meter: Option<&'a Meter>,
}

impl<'a> Call<'a> {
    fn editor(&self) -> Result<Editor<'a>, Failure> {
        let observer: &'a dyn Observer = match self.meter {
            Some(meter) => meter,
            None => &Quiet,
        };
        let hash = self.repo.hash;
        Ok(Editor::new(self.objects, hash)
            .publish(self.repo.publish_options()?)
            .observer(observer)
            .on_note(move |note| say(&note, hash)))
    }

    fn options(&self) -> Result<WriteOptions, Failure> {
        let version = match self.repo.config.int("midx.version")? {
            None => None,
            Some(number) => {
                let known = u8::try_from(number).ok().and_then(Version::from_number);
                Some(known.ok_or_else(|| Failure::Fatal(format!("unknown MIDX version: {number}")))?)
            }
        };
        Ok(WriteOptions::default()
            .version(version)
            .preferred(self.typed.preferred.clone())
            .incremental(self.typed.incremental)
            .write_chain(!self.typed.no_chain))
    }

    /// The layer that `--base` names.
    fn base(&self, text: Option<&[u8]>) -> Result<Option<Base>, Failure> {
        match text {
            None => Ok(None),
            Some(b"none") => Ok(Some(Base::Nothing)),
            Some(text) => match ObjectId::from_hex(text).ok().filter(|id| id.kind() == self.repo.hash) {
                Some(id) => Ok(Some(Base::Layer(id))),
                None => Err(error(&format!("could not find base MIDX '{}'", String::from_utf8_lossy(text)))),
            },
        }
    }

    /// Whether the multi-pack-index that is there may be used (`core.multiPackIndex`).
    fn uses_existing(&self) -> Result<bool, Failure> {
        Ok(self.repo.config.truth("core.multipackindex")?.unwrap_or(true))
    }

    fn done(&self, outcome: Result<Outcome, MidxError>) -> Result<(), Failure> {
        let outcome = outcome.map_err(|error| failed(&error, self.repo.hash))?;
        if let (true, Outcome::Written { checksum, .. }) = (self.typed.no_chain, outcome) {
            let mut stdout = io::stdout().lock();
            writeln!(stdout, "{checksum}")
                .and_then(|()| stdout.flush())
                .map_err(|error| Failure::output("write error", error))?;
        }
        Ok(())
    }
}

fn write(call: &mut Call<'_>, _: &[OsString]) -> Result<(), Failure> {
    // An empty word names no layer. Git, which looks at the base only together with --stdin-packs, passes over it.
    let base = call.typed.base.as_deref().filter(|base| call.typed.stdin_packs || !base.is_empty());
    let mut options = call.options()?.base(call.base(base)?);
    if call.typed.stdin_packs {
        let lines = io::stdin().lock().split(b'\n').map(|line| {
            line.map(|mut line| {
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                line
            })
        });
        let names = lines.collect::<Result<Vec<_>, _>>();
        let names =
            names.map_err(|error| Failure::Fatal(format!("cannot read standard input: {}", plain_io(&error))))?;
        options = options.packs(Some(names));
    }
    let outcome = call.editor()?.write(&options);
    call.done(outcome)
}

fn compact(call: &mut Call<'_>, operands: &[OsString]) -> Result<(), Failure> {
    let mut ends = Vec::new();
    for text in operands {
        let text = os_bytes(text);
        let id = ObjectId::from_hex(&text).ok().filter(|id| id.kind() == call.repo.hash);
        let missing = || Failure::Fatal(format!("could not find MIDX: {}", String::from_utf8_lossy(&text)));
        ends.push(id.filter(|_| call.uses_existing().unwrap_or(true)).ok_or_else(missing)?);
    }
    let [from, to] = &ends[..] else { return Err(COMPACT.wrong("")) };
    let options = call.options()?.base(call.base(call.typed.base.as_deref())?);
    let outcome = call.editor()?.compact(from, to, &options);
    call.done(outcome)
}

fn verify(call: &mut Call<'_>, _: &[OsString]) -> Result<(), Failure> {
    let fatal = Cell::new(false);
    let mut fault = |fault: Fault| {
        report::say(&format!("{fault}\n"));
        // Where git would not go on.
        fatal.set(fatal.get() || matches!(fault, Fault::Location { .. }));
    };
    match call.editor()?.verify(&mut fault) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Failure::Exit(if fatal.get() { 128 } else { 1 })),
        Err(MidxError::Load(error)) => {
            let complaint = Complaint::about(&error, call.repo.hash);
            complaint.errors.iter().for_each(|text| report::say(&format!("error: {text}\n")));
            match complaint.fatal {
                Some(text) => Err(Failure::Fatal(text)),
                None => {
                    report::say("error: multi-pack-index file exists, but failed to parse\n");
                    Err(Failure::Exit(1))
                }
            }
        }
        Err(error) => Err(failed(&error, call.repo.hash)),
    }
}

fn expire(call: &mut Call<'_>, _: &[OsString]) -> Result<(), Failure> {
    if !call.uses_existing()? {
        return Ok(());
    }
    let options = call.options()?;
    call.editor()?.expire(&options).map(|_| ()).map_err(|error| failed(&error, call.repo.hash))
}

fn repack(call: &mut Call<'_>, _: &[OsString]) -> Result<(), Failure> {
    if !call.uses_existing()? {
        return Ok(());
    }
    let config = &call.repo.config;
    let kept = config.truth("repack.packkeptobjects")?.unwrap_or(false);
    let plan = call.editor()?.repack_plan(call.typed.batch_size, kept);
    let Some(plan) = plan.map_err(|error| failed(&error, call.repo.hash))? else { return Ok(()) };
    let mut words: Vec<OsString> = Vec::new();
    if config.truth("repack.usedeltabaseoffset")?.unwrap_or(true) {
        words.push("--delta-base-offset".into());
    }
    words.push(if call.meter.is_some() { "--progress" } else { "-q" }.into());
    words.push(call.objects.join("pack/pack").into());
    let store = call.repo.open_store_with(vec![call.objects.to_owned()])?;
    super::pack_objects::pack_list(call.repo, &store, &words, plan.objects)?;
    let outcome = call.editor()?.write(&call.options()?);
    call.done(outcome)
}

/// A note as git would give it.
fn say(note: &Note, hash: HashKind) {
    match note {
        Note::Load(error) => {
            let complaint = Complaint::about(error, hash);
            complaint.errors.iter().for_each(|text| report::say(&format!("error: {text}\n")));
            complaint.fatal.iter().chain(&complaint.warnings).for_each(report::warning);
        }
        note => report::warning(note),
    }
}

/// `error: <text>`, exit 255: what git's function for this command ends in when it does not die.
fn error(text: &str) -> Failure {
    report::say(&format!("error: {text}\n"));
    Failure::Exit(255)
}

fn failed(error: &MidxError, hash: HashKind) -> Failure {
    match error {
        MidxError::NoPacks => self::error("no pack files to index."),
        MidxError::PackGone { number, .. } => self::error(&format!("could not load pack {number}")),
        MidxError::EmptyPreferred { .. } | MidxError::NoBase { .. } => self::error(&error.to_string()),
        MidxError::Lock(error) => cannot_lock(error),
        MidxError::Load(error) => {
            let complaint = Complaint::about(error, hash);
            Failure::Fatal(complaint.fatal.or(complaint.errors.into_iter().next()).unwrap_or_else(|| chain(error)))
        }
        error => Failure::Fatal(chain(error)),
    }
}
