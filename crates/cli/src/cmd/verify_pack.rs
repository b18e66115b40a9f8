//! `packstone verify-pack`: git-verify-pack.

use std::ffi::{OsStr, OsString};

use crate::cmd::index_pack::{Surroundings, show};
use crate::cmd::receive;
use crate::env::{Environment, bytes_to_path, os_bytes};
use crate::options::{Spec, Table, Takes, flag};
use crate::report::{self, Failure};
use crate::stdio;

/// What `--help` says in front of the list of options.
const ABOUT: &str = "\
Holds packs and their indexes against each other: every object is made and named, every byte accounted for. A pack may
be named with .pack, with .idx, or with neither.

With -v the objects are listed in the order of the pack: id, type, size, size in the pack, offset, and for deltas the length
of the chain and the base; then how many objects have chains of each length, which -s shows alone.

Configuration: pack.threads, packstone.memory (320 MiB if not set), core.bigFileThreshold.

Exit code: 0 all are sound; 1 one is not; 129 for a wrong command line.
";

#[derive(Debug, Default)]
struct Typed {
    verbose: bool,
    stat_only: bool,
    object_format: Option<OsString>,
}

const TABLE: Table<Typed> = Table {
    usage: &["packstone verify-pack [-v | --verbose] [-s | --stat-only] [--] <pack>.idx..."],
    options: &[
        flag!(Some('v'), "verbose", verbose, "verbose"),
        flag!(Some('s'), "stat-only", stat_only, "show statistics only"),
        Spec {
            short: None,
            long: "object-format",
            takes: Takes::Value("hash"),
            negatable: true,
            hidden: false,
            help: "specify the hash algorithm to use",
            set: |typed, _, given| {
                typed.object_format = receive::value(given);
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
    let place = Surroundings::find(env)?;
    let mut typed = Typed::default();
    let packs = TABLE.parse(words, &mut typed)?;
    if packs.is_empty() {
        return Err(TABLE.wrong(""));
    }
    let mut bad = false;
    for pack in packs {
        let name = name_of(&pack);
        let list = typed.verbose && !typed.stat_only;
        let verified = verify(&place, &typed, &name);
        let told = typed.verbose || typed.stat_only;
        let verdict = match verified {
            Ok(verified) => {
                if told {
                    show(&verified, list)?;
                }
                list.then_some("ok")
            }
            Err(text) => {
                report::say(&format!("fatal: {text}\n"));
                bad = true;
                told.then_some("bad")
            }
        };
        if let Some(verdict) = verdict {
            use std::io::Write as _;
            let line = [&os_bytes(&name)[..], b": ", verdict.as_bytes(), b"\n"].concat();
            stdio::stdout()?.write_all(&line).map_err(stdio::failed)?;
        }
    }
    if bad { Err(Failure::Exit(1)) } else { Ok(()) }
}

/// The pack's name, however it was named.
fn name_of(typed: &OsStr) -> OsString {
    let bytes = os_bytes(typed);
    let stem = bytes.strip_suffix(b".idx").or_else(|| bytes.strip_suffix(b".pack")).unwrap_or(&bytes);
    bytes_to_path(&[stem, b".pack"].concat()).into_os_string()
}

fn verify(place: &Surroundings, typed: &Typed, name: &OsStr) -> Result<index_pack::Verified, String> {
    let words = |failure: Failure| match failure {
        Failure::Fatal(text) => text,
        other => format!("{other:?}"),
    };
    let options = place.options(typed.object_format.as_deref(), None, None).map_err(words)?;
    let pack = place.file(name);
    index_pack::verify(&pack, None, options).map_err(|error| receive::words_of(&error, name.as_ref()))
}
