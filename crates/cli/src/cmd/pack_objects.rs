//! `packstone pack-objects`: git-pack-objects.
//!
//! [`Typed`] is what the command line says, [`Settings`] what it means together with the configuration, [`Request`] what
//! is handed to the `pack-objects` crate once standard input has been read.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Read, Write as _};
use std::path::PathBuf;

use object::{ObjectId, ObjectKind};
use odb::{Observer, Store};
use pack_objects::{Exclude, SelectOptions, Selection, VerifyReuse, WriteOptions};
use revwalk::{Commits, Filter, Shallow};

use crate::env::Environment;
use crate::index_ids;
use crate::options::{self, Given, Spec, Table, Takes};
use crate::progress::Meter;
use crate::report::{self, Failure, chain, plain_io};
use crate::revs::{Revisions, Tips};
use crate::setup::Repository;

/// Deepest delta chain that the format's users are held to.
const MAX_DEPTH: i32 = 4095;

/// What the command line says. `None`: nothing, so the configuration counts.
#[derive(Debug, Default)]
struct Typed {
    progress: Progress,
    all_progress_implied: bool,
    stdout: bool,
    index_version: Option<(u32, u64)>,
    max_pack_size: u64,
    local: bool,
    incremental: bool,
    depth: Option<i32>,
    no_reuse_delta: bool,
    no_reuse_object: bool,
    delta_base_offset: bool,
    threads: Option<i32>,
    non_empty: bool,
    revs: bool,
    unpacked: bool,
    all: bool,
    reflog: bool,
    indexed_objects: bool,
    stdin_packs: bool,
    include_tag: bool,
    keep_unreachable: bool,
    pack_loose_unreachable: bool,
    unpack_unreachable: bool,
    cruft: bool,
    sparse: Option<bool>,
    thin: bool,
    path_walk: bool,
    shallow: bool,
    honor_pack_keep: bool,
    keep_packs: Vec<OsString>,
    compression: Option<i32>,
    keep_true_parents: bool,
    use_bitmap_index: Option<bool>,
    write_bitmap_index: bool,
    filter: Option<Filter>,
    missing: Missing,
    exclude_promisor_objects: bool,
    exclude_promisor_objects_best_effort: bool,
    delta_islands: bool,
    uri_protocols: bool,
    name_hash_version: Option<i32>,
}

/// How much progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    #[default]
    None,
    /// All but the writing of a stream.
    Usual,
    /// The writing, too.
    All,
}

/// What to do about an object that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Fail.
    #[default]
    Error,
    /// Leave it out.
    AllowAny,
    /// Leave it out if a promisor remote has it.
    AllowPromisor,
}

/// A plain `--name` / `--no-name` pair.
macro_rules! flag {
    ($long:literal, $field:ident, $help:literal) => {
        flag!($long, $field, $help, true)
    };
    ($long:literal, $field:ident, $help:literal, $negatable:literal) => {
        Spec {
            short: None,
            long: $long,
            takes: Takes::Nothing,
            negatable: $negatable,
            hidden: false,
            help: $help,
            set: |typed, _, given| {
                typed.$field = matches!(given, Given::On);
                Ok(())
            },
        }
    };
}

/// An option that is not a plain pair.
macro_rules! option {
    ($long:literal, $takes:expr, $negatable:literal, $help:literal, $set:expr) => {
        Spec { short: None, long: $long, takes: $takes, negatable: $negatable, hidden: false, help: $help, set: $set }
    };
}

const TABLE: Table<Typed> = Table {
    usage: &[
        "packstone pack-objects [-q | --progress | --all-progress] [--all-progress-implied]",
        "                       [--no-reuse-delta] [--delta-base-offset] [--non-empty]",
        "                       [--local] [--incremental] [--window=<n>] [--depth=<n>]",
        "                       [--revs [--unpacked | --all]] [--keep-pack=<pack-name>]",
        "                       [--stdout [--filter=<filter-spec>] | <base-name>]",
        "                       [--shallow] [--keep-true-parents] [--[no-]sparse]",
        "                       [--name-hash-version=<n>] < <object-list>",
    ],
    options: &[
        Spec {
            short: Some('q'),
            long: "quiet",
            takes: Takes::Nothing,
            negatable: true,
            hidden: false,
            help: "do not show progress meter",
            set: |typed, _, given| {
                typed.progress = match given {
                    Given::Off => typed.progress.max(Progress::Usual),
                    _ => Progress::None,
                };
                Ok(())
            },
        },
        option!("progress", Takes::Nothing, true, "show progress meter", |typed, _, given| {
            typed.progress = if matches!(given, Given::Off) { Progress::None } else { Progress::Usual };
            Ok(())
        }),
        option!(
            "all-progress",
            Takes::Nothing,
            true,
            "show progress meter during object writing phase",
            |typed, _, given| {
                typed.progress = if matches!(given, Given::Off) { Progress::None } else { Progress::All };
                Ok(())
            }
        ),
        flag!(
            "all-progress-implied",
            all_progress_implied,
            "similar to --all-progress when progress meter is shown"
        ),
        option!(
            "index-version",
            Takes::Value("<version>[,<offset>]"),
            false,
            "write the pack index file in the specified idx format version",
            |typed, _, given| {
                typed.index_version = Some(index_version(given)?);
                Ok(())
            }
        ),
        option!("max-pack-size", Takes::Value("n"), true, "maximum size of each output pack file", |typed, name, given| {
            typed.max_pack_size = options::size(name, given)?;
            Ok(())
        }),
        flag!("local", local, "ignore borrowed objects from alternate object store"),
        flag!("incremental", incremental, "ignore packed objects"),
        option!("window", Takes::Value("n"), true, "limit pack window by objects (no effect yet)", |_, name, given| {
            options::int(name, given).map(|_| ())
        }),
        option!(
            "window-memory",
            Takes::Value("n"),
            true,
            "limit pack window by memory in addition to object limit (no effect yet)",
            |_, name, given| {
                options::size(name, given).map(|_| ())
            }
        ),
        option!(
            "depth",
            Takes::Value("n"),
            true,
            "maximum length of delta chain allowed in the resulting pack (no effect yet)",
            |typed, name, given| {
                typed.depth = Some(options::int(name, given)?);
                Ok(())
            }
        ),
        option!("reuse-delta", Takes::Nothing, true, "reuse existing deltas", |typed, _, given| {
            typed.no_reuse_delta = matches!(given, Given::Off);
            Ok(())
        }),
        option!("reuse-object", Takes::Nothing, true, "reuse existing objects", |typed, _, given| {
            typed.no_reuse_object = matches!(given, Given::Off);
            Ok(())
        }),
        flag!("delta-base-offset", delta_base_offset, "use OFS_DELTA objects"),
        option!("threads", Takes::Value("n"), true, "use threads where that helps", |typed, name, given| {
            typed.threads = Some(options::int(name, given)?);
            Ok(())
        }),
        flag!("non-empty", non_empty, "do not create an empty pack output"),
        flag!("revs", revs, "read revision arguments from standard input"),
        flag!("unpacked", unpacked, "limit the objects to those that are not yet packed", false),
        flag!("all", all, "include objects reachable from any reference", false),
        flag!("reflog", reflog, "include objects referred by reflog entries", false),
        flag!("indexed-objects", indexed_objects, "include objects referred to by the index", false),
        option!("stdin-packs", Takes::Optional("mode"), true, "read packs from stdin (not supported yet)", |typed, _, given| {
            typed.stdin_packs = !matches!(given, Given::Off);
            match given {
                Given::Value(mode) if !mode.is_empty() && mode != "follow" => {
                    Err(invalid_value("stdin-packs", mode))
                }
                _ => Ok(()),
            }
        }),
        flag!("stdout", stdout, "output pack to stdout"),
        flag!("include-tag", include_tag, "include tag objects that refer to objects to be packed"),
        flag!("keep-unreachable", keep_unreachable, "keep unreachable objects (not supported yet)"),
        flag!("pack-loose-unreachable", pack_loose_unreachable, "pack loose unreachable objects (not supported yet)"),
        option!(
            "unpack-unreachable",
            Takes::Optional("time"),
            true,
            "unpack unreachable objects newer than <time> (not supported yet)",
            |typed, _, given| {
                typed.unpack_unreachable = !matches!(given, Given::Off);
                Ok(())
            }
        ),
        flag!("cruft", cruft, "create a cruft pack (not supported yet)"),
        option!(
            "cruft-expiration",
            Takes::Optional("time"),
            true,
            "expire cruft objects older than <time> (not supported yet)",
            |typed, _, given| {
                typed.cruft = !matches!(given, Given::Off);
                Ok(())
            }
        ),
        option!("sparse", Takes::Nothing, true, "use the sparse reachability algorithm", |typed, _, given| {
            typed.sparse = Some(matches!(given, Given::On));
            Ok(())
        }),
        flag!("thin", thin, "create thin packs"),
        flag!("path-walk", path_walk, "walk objects by their paths (not supported yet)"),
        flag!("shallow", shallow, "create packs suitable for shallow fetches"),
        flag!("honor-pack-keep", honor_pack_keep, "ignore packs that have companion .keep file"),
        option!("keep-pack", Takes::Value("name"), true, "ignore this pack", |typed, _, given| {
            match given {
                Given::Value(name) => typed.keep_packs.push(name.to_owned()),
                _ => typed.keep_packs.clear(),
            }
            Ok(())
        }),
        option!("compression", Takes::Value("n"), true, "pack compression level", |typed, name, given| {
            typed.compression = Some(options::int(name, given)?);
            Ok(())
        }),
        flag!("keep-true-parents", keep_true_parents, "do not hide commits by grafts"),
        option!(
            "use-bitmap-index",
            Takes::Nothing,
            true,
            "use a bitmap index if available to speed up counting objects",
            |typed, _, given| {
                typed.use_bitmap_index = Some(matches!(given, Given::On));
                Ok(())
            }
        ),
        flag!(
            "write-bitmap-index",
            write_bitmap_index,
            "write a bitmap index together with the pack index (not supported yet)"
        ),
        Spec {
            short: None,
            long: "write-bitmap-index-quiet",
            takes: Takes::Nothing,
            negatable: true,
            hidden: true,
            help: "write a bitmap index if possible",
            set: |typed, _, given| {
                typed.write_bitmap_index = matches!(given, Given::On);
                Ok(())
            },
        },
        option!("filter", Takes::Value("args"), true, "object filtering", |typed, _, given| {
            let Given::Value(spec) = given else {
                typed.filter = None;
                return Ok(());
            };
            let filter = parse_filter(spec)?;
            typed.filter = Some(match typed.filter.take() {
                Some(before) => before.and(filter),
                None => filter,
            });
            Ok(())
        }),
        option!("missing", Takes::Value("action"), false, "handling for missing objects", |typed, _, given| {
            let Given::Value(action) = given else { return Ok(()) };
            typed.missing = match action.to_str() {
                Some("error") => Missing::Error,
                Some("allow-any") => Missing::AllowAny,
                Some("allow-promisor") => Missing::AllowPromisor,
                _ => return Err(invalid_value("--missing", action)),
            };
            Ok(())
        }),
        flag!("exclude-promisor-objects", exclude_promisor_objects, "do not pack objects in promisor packfiles"),
        flag!(
            "exclude-promisor-objects-best-effort",
            exclude_promisor_objects_best_effort,
            "implies --missing=allow-any"
        ),
        flag!("delta-islands", delta_islands, "respect islands during delta compression (not supported yet)"),
        option!(
            "uri-protocol",
            Takes::Value("protocol"),
            true,
            "exclude any configured uploadpack.blobpackfileuri with this protocol (not supported yet)",
            |typed, _, given| {
                typed.uri_protocols = !matches!(given, Given::Off);
                Ok(())
            }
        ),
        option!(
            "name-hash-version",
            Takes::Value("n"),
            true,
            "use the specified name-hash function to group similar objects (no effect yet)",
            |typed, name, given| {
                typed.name_hash_version = Some(options::int(name, given)?);
                Ok(())
            }
        ),
    ],
};

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
    let help = TABLE.help();
    let (usage, list) = help.split_once("\n\n").unwrap_or((help.as_str(), ""));
    format!("{usage}\n\n{ABOUT}\nOptions:\n\n{list}")
}

fn invalid_value(name: &str, value: &OsStr) -> Failure {
    Failure::Fatal(format!("invalid value for '{name}': '{}'", value.to_string_lossy()))
}

/// `<version>[,<offset>]`; the offset is the first that does not go into the table of 31-bit offsets.
fn index_version(given: Given<'_>) -> Result<(u32, u64), Failure> {
    let Given::Value(value) = given else { return Ok((2, 0)) };
    let text = value.to_string_lossy();
    let bad = || Failure::Fatal(format!("bad index version '{text}'"));
    let (version, offset) = match text.split_once(',') {
        Some((version, offset)) => (version, Some(offset)),
        None => (&text[..], None),
    };
    let version: u32 = version.parse().map_err(|_| bad())?;
    if version > 2 {
        return Err(Failure::Fatal(format!("unsupported index version {text}")));
    }
    let offset = match offset {
        None => 0x7fff_ffff,
        Some(offset) => crate::number::unsigned(offset.as_bytes(), 0x7fff_ffff).map_err(|_| bad())?,
    };
    Ok((version, offset))
}

fn parse_filter(spec: &OsStr) -> Result<Filter, Failure> {
    let text = spec.to_str().ok_or_else(|| {
        Failure::Fatal(format!("invalid filter-spec '{}'", spec.to_string_lossy()))
    })?;
    Filter::parse(text).map_err(|error| Failure::Fatal(error.to_string()))
}

/// Where the pack goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// A stream on standard output.
    Stdout,
    /// `<base>-<hash>.pack` and its companions.
    Files(PathBuf),
}

/// `packstone.verifyReuse`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// As the library thinks best.
    Auto,
    /// Yes, whatever it costs.
    Always,
    /// No: trust the packs, as git does.
    Never,
}

/// Objects that are left out because of where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exclusions {
    /// Those in object directories of others.
    pub(crate) borrowed: bool,
    /// Those in any pack (`--incremental`, `--unpacked`).
    pub(crate) packed: bool,
    /// Commits in any pack, with what only they reach (`--unpacked`).
    pub(crate) packed_commits: bool,
    /// Those in local packs with a `.keep` file.
    pub(crate) kept: bool,
    /// Those in local packs of these file names.
    pub(crate) packs: Vec<OsString>,
}

/// What the words and the configuration mean together.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) output: Output,
    pub(crate) progress: bool,
    /// Show the meter of the writing phase, too.
    pub(crate) progress_writing: bool,
    pub(crate) revs: bool,
    pub(crate) all: bool,
    pub(crate) reflog: bool,
    pub(crate) indexed_objects: bool,
    pub(crate) bitmaps: bool,
    /// Look for what the receiver has only along changed paths.
    pub(crate) sparse: bool,
    /// Take everything the haves reach at their tips as known: for shallow receivers.
    pub(crate) aggressive_edges: bool,
    pub(crate) thin: bool,
    pub(crate) include_tag: bool,
    pub(crate) filter: Option<Filter>,
    pub(crate) missing: Missing,
    /// Leave out what promisor packs hold and promise.
    pub(crate) exclude_promisor: bool,
    pub(crate) exclusions: Exclusions,
    pub(crate) non_empty: bool,
    pub(crate) delta_base_offset: bool,
    pub(crate) reuse_delta: bool,
    pub(crate) reuse_object: bool,
    pub(crate) verify: Verify,
    pub(crate) compression: i32,
    /// 0: as many as the machine has.
    pub(crate) threads: usize,
    pub(crate) big_file_threshold: u64,
    pub(crate) index_version: u32,
    pub(crate) write_rev: bool,
}

/// The objects to pack.
#[derive(Debug)]
pub(crate) enum Input {
    /// Each of these, with the path it was found at; and commits whose objects the receiver has.
    Objects { list: Vec<(ObjectId, Vec<u8>)>, bases: Vec<ObjectId> },
    /// What is reached from wants and not from haves.
    Revisions(Tips),
}

/// Everything the `pack-objects` crate needs to know.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) settings: Settings,
    pub(crate) input: Input,
    pub(crate) shallow: Shallow,
    /// For `--include-tag`: each tag below `refs/tags/`, and what it is a tag of in the end.
    pub(crate) tags: Vec<(ObjectId, ObjectId)>,
}

/// Runs the command.
pub(crate) fn run(env: Environment, words: &[OsString]) -> Result<(), Failure> {
    let terminal = io::stderr().is_terminal();
    let mut typed =
        Typed { progress: if terminal { Progress::Usual } else { Progress::None }, ..Typed::default() };
    if words.len() == 1 && words[0] == "-h" {
        return Err(Failure::Help(TABLE.help()));
    }
    let repository = Repository::find(env)?;
    let configured = Configured::read(&repository)?;
    let operands = TABLE.parse(words, &mut typed)?;
    let shallow = repository.shallow(typed.keep_true_parents)?;
    let settings = settle(&typed, &configured, &operands, &repository, &shallow)?;
    let store = repository.open_store()?;
    let request = read_input(settings, shallow, &repository, &store)?;
    pack(&repository, &store, &request)
}

/// What the configuration says.
#[derive(Debug)]
struct Configured {
    depth: Option<i32>,
    threads: i32,
    compression: i32,
    use_bitmaps: bool,
    use_sparse: bool,
    index_version: u32,
    write_rev: bool,
    pack_size_limit: u64,
    big_file_threshold: u64,
    verify: Verify,
}

impl Configured {
    fn read(repository: &Repository) -> Result<Self, Failure> {
        let config = &repository.config;
        // Checked, though without effect until deltas are searched for.
        config.int("pack.window")?;
        config.size("pack.windowmemory")?;
        config.int("pack.deltacachesize")?;
        config.int("pack.deltacachelimit")?;
        let threads = config.int("pack.threads")?.unwrap_or(0);
        if threads < 0 {
            return Err(Failure::Fatal(format!("invalid number of threads specified ({threads})")));
        }
        let index_version = config.int("pack.indexversion")?.unwrap_or(2);
        if !(0..=2).contains(&index_version) {
            return Err(Failure::Fatal(format!("bad pack.indexVersion={}", index_version as u32)));
        }
        let level = |key: &str, what: &str| match config.int(key)? {
            Some(level) if !(-1..=9).contains(&level) => {
                Err(Failure::Fatal(format!("bad {what} compression level {level}")))
            }
            other => Ok(other),
        };
        let core = level("core.compression", "zlib")?;
        config.int("core.loosecompression")?;
        for entry in config.all("pack.allowpackreuse") {
            check_pack_reuse(entry)?;
        }
        let verify = match config.last("packstone.verifyreuse") {
            None => Verify::Auto,
            Some(entry) if entry.value.as_deref().is_some_and(|value| value.eq_ignore_ascii_case(b"auto")) => {
                Verify::Auto
            }
            Some(entry) if entry.truth()? => Verify::Always,
            Some(_) => Verify::Never,
        };
        Ok(Configured {
            depth: config.int("pack.depth")?,
            threads,
            compression: level("pack.compression", "pack")?.or(core).unwrap_or(-1),
            use_bitmaps: config.truth("pack.usebitmaps")?.unwrap_or(true),
            use_sparse: config.truth("pack.usesparse")?.unwrap_or(true),
            index_version: index_version.unsigned_abs(),
            write_rev: config.truth("pack.writereverseindex")?.unwrap_or(true),
            pack_size_limit: config.size("pack.packsizelimit")?.unwrap_or(0),
            big_file_threshold: config.size("core.bigfilethreshold")?.unwrap_or(512 << 20),
            verify,
        })
    }
}

/// `pack.allowPackReuse` takes a truth value, `single` or `multi`. It is checked only: what is reused has no need to be
/// one way or the other here.
fn check_pack_reuse(entry: &crate::config::Entry) -> Result<(), Failure> {
    let value = entry.value.as_deref();
    let word = |word: &str| value.is_some_and(|value| value.eq_ignore_ascii_case(word.as_bytes()));
    if crate::number::bool_word(value).is_some() || word("single") || word("multi") {
        return Ok(());
    }
    Err(Failure::Fatal(format!(
        "invalid pack.allowPackReuse value: '{}'",
        String::from_utf8_lossy(value.unwrap_or_default())
    )))
}

/// Checks what was typed, in git's order, and settles what counts.
fn settle(
    typed: &Typed,
    configured: &Configured,
    operands: &[OsString],
    repository: &Repository,
    shallow: &Shallow,
) -> Result<Settings, Failure> {
    let output = match (operands, typed.stdout) {
        ([], true) => Output::Stdout,
        ([base], false) => Output::Files(repository.env.resolve(base.as_ref())),
        _ => return Err(TABLE.wrong("")),
    };
    let stdout = output == Output::Stdout;
    let depth = typed.depth.or(configured.depth).unwrap_or(50);
    if depth > MAX_DEPTH {
        report::warning(format_args!("delta chain depth {depth} is too deep, forcing {MAX_DEPTH}"));
    }
    let together = |first: bool, first_name: &str, second: bool, second_name: &str| {
        if first && second {
            return Err(Failure::Fatal(format!(
                "options '{first_name}' and '{second_name}' cannot be used together"
            )));
        }
        Ok(())
    };
    together(
        typed.exclude_promisor_objects,
        "--exclude-promisor-objects",
        typed.exclude_promisor_objects_best_effort,
        "--exclude-promisor-objects-best-effort",
    )?;
    // Each of these asks for a walk, whether or not --revs was said.
    let revs = typed.revs
        || typed.thin
        || typed.all
        || typed.reflog
        || typed.indexed_objects
        || (typed.unpacked && !typed.stdin_packs)
        || (typed.exclude_promisor_objects && !typed.stdin_packs)
        || typed.exclude_promisor_objects_best_effort
        || typed.unpack_unreachable
        || typed.keep_unreachable
        || typed.pack_loose_unreachable;
    let compression = typed.compression.unwrap_or(configured.compression);
    if !(-1..=9).contains(&compression) {
        return Err(Failure::Fatal(format!("bad pack compression level {compression}")));
    }
    if stdout && typed.max_pack_size > 0 {
        return Err(Failure::fatal("--max-pack-size cannot be used to build a pack for transfer"));
    }
    if !stdout && typed.thin {
        return Err(Failure::fatal("--thin cannot be used to build an indexable pack"));
    }
    together(typed.keep_unreachable, "--keep-unreachable", typed.unpack_unreachable, "--unpack-unreachable")?;
    together(typed.stdin_packs, "--stdin-packs", typed.filter.is_some(), "--filter")?;
    if typed.stdin_packs && revs {
        return Err(Failure::fatal("cannot use internal rev list with --stdin-packs"));
    }
    if typed.cruft && revs {
        return Err(Failure::fatal("cannot use internal rev list with --cruft"));
    }
    together(typed.stdin_packs, "--stdin-packs", typed.cruft, "--cruft")?;
    let name_hash_version = typed.name_hash_version.unwrap_or(1);
    if !(1..=2).contains(&name_hash_version) && name_hash_version >= 0 {
        return Err(Failure::Fatal(format!("invalid --name-hash-version option: {name_hash_version}")));
    }

    let (index_version, offset_limit) = typed.index_version.unwrap_or((configured.index_version, 0x7fff_ffff));
    let later: [(bool, &str); 13] = [
        (typed.stdin_packs, "option `stdin-packs'"),
        (typed.cruft, "option `cruft'"),
        (typed.keep_unreachable, "option `keep-unreachable'"),
        (typed.pack_loose_unreachable, "option `pack-loose-unreachable'"),
        (typed.unpack_unreachable, "option `unpack-unreachable'"),
        // Streams, and packs of less than everything, get no bitmap: git ignores the wish there.
        (typed.write_bitmap_index && !stdout && typed.all, "option `write-bitmap-index'"),
        (typed.max_pack_size > 0, "option `max-pack-size'"),
        (typed.delta_islands, "option `delta-islands'"),
        (typed.uri_protocols, "option `uri-protocol'"),
        (typed.path_walk, "option `path-walk'"),
        (index_version != 2, "an index of a version other than 2"),
        (offset_limit != 0x7fff_ffff, "a limit of 31-bit offsets in an index"),
        (!stdout && configured.pack_size_limit > 0 , "pack.packSizeLimit"),
    ];
    if let Some((_, what)) = later.iter().find(|(asked, _)| *asked) {
        return Err(Failure::Usage(format!("error: {what} is not supported yet\n")));
    }

    // To a file, the default is the walk, whose order of objects is the better one to keep.
    let bitmaps = typed.use_bitmap_index.unwrap_or(stdout && configured.use_bitmaps)
        && revs
        && !shallow.is_shallow();
    let threads = typed.threads.unwrap_or(configured.threads);
    let progress = typed.progress != Progress::None;
    let all_progress = typed.progress == Progress::All || (progress && typed.all_progress_implied);
    Ok(Settings {
        progress,
        progress_writing: all_progress || (progress && !stdout),
        output,
        revs,
        all: typed.all,
        reflog: typed.reflog,
        indexed_objects: typed.indexed_objects,
        bitmaps,
        sparse: typed.sparse.unwrap_or(configured.use_sparse),
        aggressive_edges: typed.thin && typed.shallow,
        thin: typed.thin,
        include_tag: typed.include_tag,
        filter: typed.filter.clone(),
        missing: if typed.exclude_promisor_objects_best_effort { Missing::AllowAny } else { typed.missing },
        exclude_promisor: typed.exclude_promisor_objects || typed.exclude_promisor_objects_best_effort,
        exclusions: Exclusions {
            borrowed: typed.local,
            packed: typed.incremental || typed.unpacked,
            packed_commits: typed.unpacked,
            kept: typed.honor_pack_keep,
            packs: typed.keep_packs.clone(),
        },
        non_empty: typed.non_empty,
        delta_base_offset: typed.delta_base_offset,
        reuse_delta: !typed.no_reuse_delta && !typed.no_reuse_object,
        reuse_object: !typed.no_reuse_object,
        verify: configured.verify,
        compression,
        threads: usize::try_from(threads).unwrap_or(0),
        big_file_threshold: configured.big_file_threshold,
        index_version,
        write_rev: configured.write_rev,
    })
}

/// Reads standard input, and with `--all` and its like the references, into a request.
fn read_input(
    mut settings: Settings,
    mut shallow: Shallow,
    repository: &Repository,
    store: &Store,
) -> Result<Request, Failure> {
    let mut input = Vec::new();
    io::stdin()
        .lock()
        .read_to_end(&mut input)
        .map_err(|error| Failure::Fatal(format!("cannot read standard input: {}", plain_io(&error))))?;
    let read = if settings.revs {
        read_revisions(&input, &mut settings, &mut shallow, repository, store)?
    } else {
        read_objects(&input, repository)?
    };
    let tags = if settings.include_tag {
        let revisions = Revisions::new(repository, store, &shallow);
        let mut tags = Vec::new();
        for tag in revisions.refs()?.list("refs/tags/")? {
            let peeled = match tag.peeled {
                Some(peeled) => Some(peeled),
                None => match store.header(&tag.id) {
                    Ok(header) if header.kind == ObjectKind::Tag => revisions.peel(tag.id, None)?,
                    _ => None,
                },
            };
            tags.extend(peeled.map(|peeled| (tag.id, peeled)));
        }
        tags
    } else {
        Vec::new()
    };
    Ok(Request { settings, input: read, shallow, tags })
}

/// Lines `<id>[ <path>]` and `-<id>`.
fn read_objects(input: &[u8], repository: &Repository) -> Result<Input, Failure> {
    let hash = repository.hash;
    let garbage = |what: &str, line: &[u8]| {
        Failure::Fatal(format!("expected {what}, got garbage:\n {}", String::from_utf8_lossy(line)))
    };
    let (mut list, mut bases) = (Vec::new(), Vec::new());
    for line in lines(input) {
        if let Some(id) = line.strip_prefix(b"-") {
            bases.push(ObjectId::from_hex_prefix(id, hash).ok_or_else(|| garbage("edge object ID", line))?);
            continue;
        }
        let id = ObjectId::from_hex_prefix(line, hash).ok_or_else(|| garbage("object ID", line))?;
        let path = line.get(hash.hex_len() + 1..).unwrap_or_default().to_vec();
        list.push((id, path));
    }
    Ok(Input::Objects { list, bases })
}

/// Revisions, after what the options add (`--all`, `--reflog`, `--indexed-objects`).
fn read_revisions(
    input: &[u8],
    settings: &mut Settings,
    shallow: &mut Shallow,
    repository: &Repository,
    store: &Store,
) -> Result<Input, Failure> {
    let lines: Vec<&[u8]> = lines(input).take_while(|line| !line.is_empty()).collect();
    // History is cut before it is looked at, wherever the lines that say so stand.
    for line in &lines {
        if let Some(id) = line.strip_prefix(b"--shallow ") {
            let id = ObjectId::from_hex_prefix(id, repository.hash).ok_or_else(|| {
                Failure::Fatal(format!("not an object name '{}'", String::from_utf8_lossy(id)))
            })?;
            shallow.cut(id);
            settings.bitmaps = false;
        }
    }
    let revisions = Revisions::new(repository, store, shallow);
    let mut tips = Tips::default();
    if settings.all {
        add_all(&revisions, store, false, &mut tips)?;
    }
    if settings.reflog {
        for id in revisions.refs()?.logged_ids()? {
            // Logs outlive what they name.
            if store.contains(&id).map_err(|error| Failure::Fatal(chain(&error)))? {
                tips.push(id, false);
            }
        }
    }
    if settings.indexed_objects {
        add_indexed(&revisions, repository, &mut tips)?;
    }
    let mut not = false;
    for line in lines {
        match line {
            b"--not" => not = !not,
            [b'-', ..] => add_option(line, &revisions, store, not, &mut tips)?,
            _ => revisions.add(line, not, &mut tips)?,
        }
    }
    Ok(Input::Revisions(tips))
}

/// A line that begins with a dash. git takes only `--not` and `--shallow`; sets of references are welcome here, too.
fn add_option(
    line: &[u8],
    revisions: &Revisions<'_>,
    store: &Store,
    not: bool,
    tips: &mut Tips,
) -> Result<(), Failure> {
    if line.starts_with(b"--shallow ") {
        return Ok(());
    }
    if line == b"--all" {
        return add_all(revisions, store, not, tips);
    }
    let (name, pattern) = match line.iter().position(|&byte| byte == b'=') {
        Some(at) => (&line[..at], Some(&line[at + 1..])),
        None => (line, None),
    };
    let base = match name {
        b"--branches" => "refs/heads/",
        b"--tags" => "refs/tags/",
        b"--remotes" => "refs/remotes/",
        b"--glob" if pattern.is_some() => "",
        _ => return Err(Failure::Fatal(format!("not a rev '{}'", String::from_utf8_lossy(line)))),
    };
    let found = match pattern {
        Some(pattern) => revisions.refs()?.matching(base, pattern)?,
        None => revisions.refs()?.list(base)?,
    };
    for reference in found {
        add_reference(store, &reference, not, tips)?;
    }
    Ok(())
}

fn add_reference(store: &Store, reference: &crate::refs::Ref, not: bool, tips: &mut Tips) -> Result<(), Failure> {
    if !store.contains(&reference.id).map_err(|error| Failure::Fatal(chain(&error)))? {
        return Err(Failure::Fatal(format!("bad object {}", String::from_utf8_lossy(&reference.name))));
    }
    tips.push(reference.id, not);
    Ok(())
}

/// Every reference and what every work tree has checked out.
fn add_all(revisions: &Revisions<'_>, store: &Store, not: bool, tips: &mut Tips) -> Result<(), Failure> {
    let refs = revisions.refs()?;
    for reference in refs.list("refs/")?.into_iter().chain(refs.head()?).chain(refs.other_heads()?) {
        add_reference(store, &reference, not, tips)?;
    }
    Ok(())
}

/// What the indexes of all work trees name.
fn add_indexed(revisions: &Revisions<'_>, repository: &Repository, tips: &mut Tips) -> Result<(), Failure> {
    for dir in revisions.refs()?.git_dirs() {
        let index = match repository.env.path("GIT_INDEX_FILE").filter(|_| dir == repository.git_dir) {
            Some(path) => path,
            None => dir.join("index"),
        };
        for id in index_ids::of_git_dir(&dir, &index, repository.hash).map_err(Failure::Fatal)? {
            tips.push(id, false);
        }
    }
    Ok(())
}

/// Hands the request to the library, and says how it went.
fn pack(repository: &Repository, store: &Store, request: &Request) -> Result<(), Failure> {
    let settings = &request.settings;
    let threads = match settings.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let mut exclude = Exclude::default();
    exclude.packed = settings.exclusions.packed;
    exclude.packed_commits = settings.exclusions.packed_commits;
    exclude.borrowed = settings.exclusions.borrowed;
    exclude.kept = settings.exclusions.kept;
    exclude.packs = settings.exclusions.packs.iter().map(|name| name.to_string_lossy().into_owned()).collect();
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
            let ids: Vec<ObjectId> = list.iter().map(|(id, _)| *id).collect();
            Selection::of_list(store, &ids, bases, &select, observer)
        }
        Input::Revisions(tips) => {
            let commits = Commits::new(store, repository.commit_graph(store)?, request.shallow.clone());
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
        return Ok(());
    }

    let write = WriteOptions::default()
        .delta_base_offset(settings.delta_base_offset)
        .thin(settings.thin)
        .reuse_delta(settings.reuse_delta)
        .reuse_object(settings.reuse_object)
        .compression(settings.compression)
        .threads(threads)
        .verify_reuse(match settings.verify {
            Verify::Auto => VerifyReuse::Runs,
            Verify::Always => VerifyReuse::All,
            Verify::Never => VerifyReuse::Entries,
        })
        .big_file_threshold(settings.big_file_threshold)
        .publish(repository.publish_options()?)
        .write_rev(settings.write_rev)
        .index_version(settings.index_version);
    let outcome = match &settings.output {
        Output::Stdout => {
            let stdout = stdout_file().map_err(|error| Failure::output("cannot open standard output", error))?;
            pack_objects::write_stream(&selection, &write, stdout, observer)
        }
        Output::Files(base) => pack_objects::write_to_disk(&selection, &write, base, observer),
    };
    let outcome = outcome.map_err(|error| {
        if error.is_broken_pipe() { Failure::ClosedPipe } else { Failure::Fatal(chain(&error)) }
    })?;
    if let Output::Files(_) = settings.output {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{}", outcome.checksum)
            .and_then(|()| stdout.flush())
            .map_err(|error| Failure::output("write error", error))?;
    }
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
    Ok(())
}

/// Standard output as a file of its own, past the buffer of the standard library, so that the kernel can copy into it.
fn stdout_file() -> io::Result<std::fs::File> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd as _;
        io::stdout().as_fd().try_clone_to_owned().map(std::fs::File::from)
    }
    #[cfg(windows)]
    {
        use std::os::windows::io::AsHandle as _;
        io::stdout().as_handle().try_clone_to_owned().map(std::fs::File::from)
    }
}

/// Lines without their line feeds; no line behind the last line feed.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let some = (!bytes.is_empty()).then(|| body.split(|&byte| byte == b'\n'));
    some.into_iter().flatten()
}
