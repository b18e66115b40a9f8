//! What the command line and the configuration mean together.

use std::ffi::OsString;
use std::path::PathBuf;

use pack_objects::{Exclude, VerifyReuse};
use revwalk::{Filter, Shallow};

use super::typed::{Missing, Progress, TABLE, Typed};
use crate::config::Entry;
use crate::number;
use crate::report::{self, Failure};
use crate::setup::Repository;

/// Deepest delta chain that the format's users are held to.
const MAX_DEPTH: i32 = 4095;

/// The first offset that an index must keep in its table of long ones, unless told otherwise.
const OFFSET_LIMIT: u64 = 0x7fff_ffff;

/// Where the pack goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// A stream on standard output.
    Stdout,
    /// `<base>-<hash>.pack` and its companions.
    Files(PathBuf),
}

/// What the words and the configuration mean together.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) output: Output,
    pub(super) progress: bool,
    /// Show the meter of the writing phase, too.
    pub(super) progress_writing: bool,
    pub(super) revs: bool,
    pub(super) all: bool,
    pub(super) reflog: bool,
    pub(super) indexed_objects: bool,
    pub(super) bitmaps: bool,
    /// Look for what the receiver has only along changed paths.
    pub(super) sparse: bool,
    /// Take everything the haves reach at their tips as known: for shallow receivers.
    pub(super) aggressive_edges: bool,
    pub(super) thin: bool,
    pub(super) include_tag: bool,
    pub(super) filter: Option<Filter>,
    pub(super) missing: Missing,
    /// Leave out what promisor packs hold and promise.
    pub(super) exclude_promisor: bool,
    pub(super) exclude: Exclude,
    pub(super) non_empty: bool,
    pub(super) delta_base_offset: bool,
    pub(super) reuse_delta: bool,
    pub(super) reuse_object: bool,
    pub(super) verify: VerifyReuse,
    pub(super) compression: i32,
    /// 0: as many as the machine has.
    pub(super) threads: usize,
    pub(super) big_file_threshold: u64,
    pub(super) index_version: u32,
    /// Offsets beyond this take 64 bits in the index.
    pub(super) index_offset_limit: u32,
    pub(super) write_rev: bool,
}

/// What the configuration says.
#[derive(Debug)]
pub(super) struct Configured {
    depth: Option<i32>,
    threads: i32,
    compression: i32,
    use_bitmaps: bool,
    use_sparse: bool,
    index_version: u32,
    write_rev: bool,
    pack_size_limit: u64,
    big_file_threshold: u64,
    verify: VerifyReuse,
}

impl Configured {
    /// Reads and checks every setting that matters here.
    pub(super) fn read(repository: &Repository) -> Result<Self, Failure> {
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
            None => VerifyReuse::Runs,
            Some(entry) if entry.value.as_deref().is_some_and(|value| value.eq_ignore_ascii_case(b"auto")) => {
                VerifyReuse::Runs
            }
            Some(entry) if entry.truth()? => VerifyReuse::All,
            Some(_) => VerifyReuse::Entries,
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
fn check_pack_reuse(entry: &Entry) -> Result<(), Failure> {
    let value = entry.value.as_deref();
    let word = |word: &str| value.is_some_and(|value| value.eq_ignore_ascii_case(word.as_bytes()));
    if number::bool_word(value).is_some() || word("single") || word("multi") {
        return Ok(());
    }
    Err(Failure::Fatal(format!(
        "invalid pack.allowPackReuse value: '{}'",
        String::from_utf8_lossy(value.unwrap_or_default())
    )))
}

/// Checks what was typed, in git's order, and settles what counts.
pub(super) fn settle(
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
            return Err(Failure::Fatal(format!("options '{first_name}' and '{second_name}' cannot be used together")));
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

    let (index_version, offset_limit) = typed.index_version.unwrap_or((configured.index_version, OFFSET_LIMIT));
    let later: [(bool, &str); 11] = [
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
        (!stdout && configured.pack_size_limit > 0, "pack.packSizeLimit"),
    ];
    if let Some((_, what)) = later.iter().find(|(asked, _)| *asked) {
        return Err(Failure::Usage(format!("error: {what} is not supported yet\n")));
    }

    // To a file, the default is the walk, whose order of objects is the better one to keep.
    let bitmaps = typed.use_bitmap_index.unwrap_or(stdout && configured.use_bitmaps) && revs && !shallow.is_shallow();
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
        exclude: Exclude {
            borrowed: typed.local,
            packed: typed.incremental || typed.unpacked,
            packed_commits: typed.unpacked,
            kept: typed.honor_pack_keep,
            packs: typed.keep_packs.iter().map(|name| name.to_string_lossy().into_owned()).collect(),
        },
        non_empty: typed.non_empty,
        delta_base_offset: typed.delta_base_offset,
        reuse_delta: !typed.no_reuse_delta && !typed.no_reuse_object,
        reuse_object: !typed.no_reuse_object,
        verify: configured.verify,
        compression,
        threads: usize::try_from(threads).unwrap_or(0),
        big_file_threshold: configured.big_file_threshold,
        // git writes version 1 for 0, too.
        index_version: index_version.max(1),
        // The option's parser keeps it within 31 bits.
        index_offset_limit: offset_limit.min(OFFSET_LIMIT) as u32,
        write_rev: configured.write_rev,
    })
}
