//! `packstone unpack-objects`: git-unpack-objects.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};

use index_pack::unpack::{self, UnpackError, UnpackOptions, Wrong};
use odb::{Observer, Quiet};
use pack_format::ParseErrorKind;

use crate::cmd::receive::{self, Checks, PACK_HEADER_HELP};
use crate::env::Environment;
use crate::options::{Spec, Table, Takes, flag};
use crate::progress::{Counted, Meter};
use crate::report::{self, Failure, chain};
use crate::setup::Repository;
use crate::stdio;

/// What `--help` says in front of the list of options.
const ABOUT: &str = "\
Reads a pack from standard input, and writes its objects into the repository as loose ones. What the repository has
already is not written again, but counts as new for what removes old objects. Deltas may have bases that the repository
has and the pack has not.

With -n the pack is only read: no delta is applied. With -r what is bad is reported and passed over. With --strict objects
are held against their format and what they refer to must be there, before the first one is written.

What is held at a time is bounded by --memory or packstone.memory, 128 MiB if neither is given.

Configuration: pack.threads, packstone.memory, core.bigFileThreshold, core.compression, core.looseCompression,
core.createObject, core.deltaBaseCacheLimit, core.fsync, core.fsyncMethod, core.fsyncObjectFiles, core.sharedRepository.

Exit code: 0 done; 1 something was passed over with -r; 128 with `fatal: ...`; 129 for a wrong command line.
";

#[derive(Debug, Default)]
struct Typed {
    dry_run: bool,
    quiet: bool,
    recover: bool,
    /// With its list of severities.
    strict: Option<Vec<u8>>,
    max_input_size: u64,
    pack_header: Option<OsString>,
    memory: Option<u64>,
    threads: Option<i32>,
}

const TABLE: Table<Typed> = Table {
    usage: &["packstone unpack-objects [-n] [-q] [-r] [--strict[=<msg-id>=<severity>...]]"],
    options: &[
        flag!(Some('n'), "", dry_run, "only check the pack"),
        flag!(Some('q'), "", quiet, "show no progress"),
        flag!(Some('r'), "", recover, "pass over what is bad"),
        Spec {
            short: None,
            long: "strict",
            takes: Takes::Optional("msg-id>=<severity"),
            negatable: false,
            hidden: false,
            help: "write nothing unless all objects are sound and complete",
            set: |typed, _, given| {
                typed.strict = Some(receive::list(given));
                Ok(())
            },
        },
        Spec {
            short: None,
            long: "max-input-size",
            takes: Takes::Value("size"),
            negatable: false,
            hidden: false,
            help: "refuse a pack that is larger (0: any size)",
            set: |typed, _, given| {
                typed.max_input_size = receive::lenient_size(given);
                Ok(())
            },
        },
        Spec {
            short: None,
            long: "pack_header",
            takes: Takes::Value("<version>,<objects>"),
            negatable: false,
            hidden: false,
            help: PACK_HEADER_HELP,
            set: |typed, _, given| {
                typed.pack_header = receive::value(given);
                Ok(())
            },
        },
        Spec {
            short: None,
            long: "threads",
            takes: Takes::Value("n"),
            negatable: false,
            hidden: false,
            help: "use so many threads (0: as many as there are processors)",
            set: |typed, name, given| {
                typed.threads = Some(crate::options::int(name, given)?);
                Ok(())
            },
        },
        Spec {
            short: None,
            long: "memory",
            takes: Takes::Value("size"),
            negatable: false,
            hidden: false,
            help: "hold no more of the pack and its objects at a time",
            set: |typed, name, given| {
                typed.memory = Some(crate::options::size(name, given)?);
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
    let here = env.clone();
    let repo = Repository::find(env)?;
    let mut typed = Typed::default();
    if !TABLE.parse(words, &mut typed)?.is_empty() {
        return Err(TABLE.wrong(""));
    }
    let mut options = UnpackOptions::default()
        .write(repo.write_options()?)
        .dry_run(typed.dry_run)
        .recover(typed.recover)
        .threads(receive::threads(&repo.config, typed.threads)?)
        .max_input_size(Some(typed.max_input_size).filter(|&limit| limit > 0));
    if let Some(memory) = receive::memory(&repo.config, typed.memory)? {
        options = options.memory(memory);
    }
    if let Some(header) = &typed.pack_header {
        options = options.header(Some(receive::header(header)?));
    }
    let store = repo.open_store()?;
    if let Some(list) = &typed.strict {
        let checks = Checks { severities: std::slice::from_ref(list), content: true, links: true };
        options = options.inspect(Some(checks.ready(&here, repo.hash, Some((&repo, &store)))?));
    }
    let meter = Meter::new(&[]);
    let observer: &dyn Observer = if typed.quiet || !io::stderr().is_terminal() { &Quiet } else { &meter };
    let input = Counted { input: stdio::stdin()?, meter: &meter };
    let done = unpack::unpack(input, &store, &options, observer);
    meter.finish();
    let done = done.map_err(|error| {
        if let UnpackError::Corrupt { what: Wrong::MissingBase { .. }, .. } = &error {
            say(&error);
        }
        Failure::Fatal(words_of(&error))
    })?;
    // The one that ended the stream comes last, since nothing behind it was read.
    let end = if done.checksum.is_none() { done.failures.iter().rposition(ends_stream) } else { None };
    for (at, error) in done.failures.iter().enumerate() {
        if Some(at) != end {
            say(error);
        }
    }
    if let Some(error) = end.and_then(|end| done.failures.get(end)) {
        return Err(Failure::Fatal(words_of(error)));
    }
    let mut stdout = stdio::stdout()?;
    stdout.write_all(&done.rest).map_err(stdio::failed)?;
    match done.failures.is_empty() {
        true => Ok(()),
        false => Err(Failure::Exit(1)),
    }
}

fn say(error: &UnpackError) {
    report::say(&format!("error: {}\n", chain(error)));
}

/// Whether the trailer was not reached, or was wrong, for this reason.
fn ends_stream(error: &UnpackError) -> bool {
    !matches!(error, UnpackError::Base { .. } | UnpackError::Write { .. } | UnpackError::Finish(_))
}

/// What git says where it says something that others look for.
fn words_of(error: &UnpackError) -> String {
    match error {
        UnpackError::Refused(why) | UnpackError::RefusedObject { source: why, .. } => chain(&**why),
        UnpackError::InputTooLarge { .. } => "pack exceeds maximum allowed size".to_owned(),
        UnpackError::Corrupt { what, .. } => match what {
            Wrong::Truncated => "early EOF".to_owned(),
            Wrong::Format(ParseErrorKind::Signature { .. }) => "bad pack file".to_owned(),
            Wrong::Format(ParseErrorKind::Unsupported { found, .. }) => format!("unknown pack file version {found}"),
            Wrong::MissingBase { .. } => "unresolved deltas left after unpacking".to_owned(),
            Wrong::Trailer { stored, computed } => {
                format!("final sha1 did not match: {stored} in the pack, {computed} of the pack")
            }
            Wrong::Delta(_) => format!("failed to apply delta {error}"),
            _ => chain(error),
        },
        _ => chain(error),
    }
}
