//! What the command line says.

use std::ffi::{OsStr, OsString};

use revwalk::Filter;

use crate::options::{self, Given, Spec, Table, Takes};
use crate::report::Failure;

/// What the command line says. `None`: nothing, so the configuration counts.
#[derive(Debug, Default)]
pub(super) struct Typed {
    pub(super) progress: Progress,
    pub(super) all_progress_implied: bool,
    pub(super) stdout: bool,
    pub(super) index_version: Option<(u32, u64)>,
    pub(super) max_pack_size: u64,
    pub(super) local: bool,
    pub(super) incremental: bool,
    pub(super) depth: Option<i32>,
    pub(super) no_reuse_delta: bool,
    pub(super) no_reuse_object: bool,
    pub(super) delta_base_offset: bool,
    pub(super) threads: Option<i32>,
    pub(super) non_empty: bool,
    pub(super) revs: bool,
    pub(super) unpacked: bool,
    pub(super) all: bool,
    pub(super) reflog: bool,
    pub(super) indexed_objects: bool,
    pub(super) stdin_packs: bool,
    pub(super) include_tag: bool,
    pub(super) keep_unreachable: bool,
    pub(super) pack_loose_unreachable: bool,
    pub(super) unpack_unreachable: bool,
    pub(super) cruft: bool,
    pub(super) sparse: Option<bool>,
    pub(super) thin: bool,
    pub(super) path_walk: bool,
    pub(super) shallow: bool,
    pub(super) honor_pack_keep: bool,
    pub(super) keep_packs: Vec<OsString>,
    pub(super) compression: Option<i32>,
    pub(super) keep_true_parents: bool,
    pub(super) use_bitmap_index: Option<bool>,
    pub(super) write_bitmap_index: bool,
    pub(super) filter: Option<Filter>,
    pub(super) missing: Missing,
    pub(super) exclude_promisor_objects: bool,
    pub(super) exclude_promisor_objects_best_effort: bool,
    pub(super) delta_islands: bool,
    pub(super) uri_protocols: bool,
    pub(super) name_hash_version: Option<i32>,
}

/// How much progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Progress {
    #[default]
    None,
    /// All but the writing of a stream.
    Usual,
    /// The writing, too.
    All,
}

/// What to do about an object that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Missing {
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

/// Every option, in the order of git's help.
pub(super) const TABLE: Table<Typed> = Table {
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
        flag!("all-progress-implied", all_progress_implied, "similar to --all-progress when progress meter is shown"),
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
        option!(
            "max-pack-size",
            Takes::Value("n"),
            true,
            "maximum size of each output pack file",
            |typed, name, given| {
                typed.max_pack_size = options::size(name, given)?;
                Ok(())
            }
        ),
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
            |_, name, given| { options::size(name, given).map(|_| ()) }
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
        option!(
            "stdin-packs",
            Takes::Optional("mode"),
            true,
            "read packs from stdin (not supported yet)",
            |typed, _, given| {
                typed.stdin_packs = !matches!(given, Given::Off);
                match given {
                    Given::Value(mode) if !mode.is_empty() && mode != "follow" => {
                        Err(invalid_value("stdin-packs", mode))
                    }
                    _ => Ok(()),
                }
            }
        ),
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
    let text =
        spec.to_str().ok_or_else(|| Failure::Fatal(format!("invalid filter-spec '{}'", spec.to_string_lossy())))?;
    Filter::parse(text).map_err(|error| Failure::Fatal(error.to_string()))
}
