//! What the command line says so far: options count for the paths behind them.

use crate::options::{self, Given, Name, Spec, Table, Takes};
use crate::report::Failure;

/// Everything that options set.
#[derive(Debug, Default)]
pub(super) struct Typed {
    pub(super) add: bool,
    pub(super) replace: bool,
    pub(super) remove: bool,
    pub(super) force_remove: bool,
    pub(super) info_only: bool,
    pub(super) verbose: bool,
    pub(super) nul: bool,
    pub(super) quiet: bool,
    pub(super) unmerged: bool,
    pub(super) ignore_missing: bool,
    pub(super) ignore_submodules: bool,
    pub(super) ignore_skip_worktree_entries: bool,
    /// What to mark paths as, instead of looking at their files.
    pub(super) assume_unchanged: Option<bool>,
    pub(super) skip_worktree: Option<bool>,
    /// The mark can only be taken away.
    pub(super) no_fsmonitor_valid: bool,
    /// Set or take away the executable bit.
    pub(super) chmod: Option<bool>,
    /// Below zero: show it.
    pub(super) index_version: i32,
    pub(super) split_index: Option<bool>,
    pub(super) no_untracked_cache: bool,
    pub(super) no_fsmonitor: bool,
    pub(super) force_write: bool,
    /// What the last word asks to be done at once.
    pub(super) actions: Vec<Action>,
}

/// What is done where it stands on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Refresh,
    ReallyRefresh,
    CacheInfo,
    Stdin,
    IndexInfo,
    Unresolve,
    Again,
    ClearResolveUndo,
}

/// An option without value.
macro_rules! option {
    ($short:expr, $long:literal, $negatable:literal, $help:literal, $set:expr) => {
        Spec {
            short: $short,
            long: $long,
            takes: Takes::Nothing,
            negatable: $negatable,
            hidden: false,
            help: $help,
            set: $set,
        }
    };
}

/// A `--name` that stores `true` and a `--no-name` that stores `false`.
macro_rules! flag {
    ($long:literal, $field:ident, $help:literal) => {
        option!(None, $long, true, $help, |typed, _, given| {
            typed.$field = matches!(given, Given::On);
            Ok(())
        })
    };
}

/// As [`flag!`], for what is left as it is if neither is given.
macro_rules! choice {
    ($long:literal, $field:ident, $help:literal) => {
        option!(None, $long, true, $help, |typed, _, given| {
            typed.$field = Some(matches!(given, Given::On));
            Ok(())
        })
    };
}

/// An option that does something at once.
macro_rules! action {
    ($short:expr, $long:literal, $action:ident, $help:literal) => {
        option!($short, $long, false, $help, |typed, _, _| {
            typed.actions.push(Action::$action);
            Ok(())
        })
    };
}

/// Every option, in the order of git's help.
pub(super) const TABLE: Table<Typed> = Table {
    usage: &["packstone update-index [<options>] [--] [<file>...]"],
    options: &[
        option!(Some('q'), "", false, "continue refresh even when the index needs an update", |typed, _, _| {
            typed.quiet = true;
            Ok(())
        }),
        flag!("ignore-submodules", ignore_submodules, "refresh: ignore submodules"),
        flag!("add", add, "do not ignore new files"),
        flag!("replace", replace, "let files replace directories and vice-versa"),
        flag!("remove", remove, "notice files missing from the work tree"),
        flag!("unmerged", unmerged, "refresh even if the index has unmerged entries"),
        action!(None, "refresh", Refresh, "refresh stat information"),
        action!(None, "really-refresh", ReallyRefresh, "like --refresh, but ignore assume-unchanged"),
        action!(None, "cacheinfo", CacheInfo, "add the entry <mode>,<object>,<path>, or <mode> <object> <path>"),
        Spec {
            short: None,
            long: "chmod",
            takes: Takes::Value("(+|-)x"),
            negatable: false,
            hidden: false,
            help: "override the executable bit of the listed files",
            set: |typed, _, given| {
                typed.chmod = Some(match given {
                    Given::Value(value) if value == "+x" => true,
                    Given::Value(value) if value == "-x" => false,
                    _ => return Err(Failure::Usage("error: option 'chmod' expects \"+x\" or \"-x\"\n".into())),
                });
                Ok(())
            },
        },
        choice!("assume-unchanged", assume_unchanged, "mark files as not changing, or as changing again"),
        choice!("skip-worktree", skip_worktree, "mark files as not needed in the work tree, or as needed again"),
        flag!("ignore-skip-worktree-entries", ignore_skip_worktree_entries, "do not touch skip-worktree entries"),
        flag!("info-only", info_only, "add to the index only, not to the object store"),
        flag!("force-remove", force_remove, "remove named paths even if present in the work tree"),
        option!(Some('z'), "", false, "with --stdin and --index-info: lines end with NUL", |typed, _, _| {
            typed.nul = true;
            Ok(())
        }),
        action!(None, "stdin", Stdin, "read paths to be updated from standard input"),
        action!(None, "index-info", IndexInfo, "add entries from standard input to the index"),
        action!(None, "unresolve", Unresolve, "bring back the conflicts of the listed paths"),
        action!(Some('g'), "again", Again, "only update entries that differ from HEAD"),
        flag!("ignore-missing", ignore_missing, "ignore files missing from the work tree"),
        flag!("verbose", verbose, "report actions to standard output"),
        action!(None, "clear-resolve-undo", ClearResolveUndo, "forget saved conflicts"),
        Spec {
            short: None,
            long: "index-version",
            takes: Takes::Value("n"),
            negatable: true,
            hidden: false,
            help: "write the index in this format",
            set: |typed, name, given| {
                typed.index_version = options::int(name, given)?;
                Ok(())
            },
        },
        option!(None, "show-index-version", true, "report the format of the index on disk", |typed, _, given| {
            typed.index_version = if matches!(given, Given::On) { -1 } else { 0 };
            Ok(())
        }),
        choice!("split-index", split_index, "enable or disable a split index"),
        option!(
            None,
            "untracked-cache",
            true,
            "disable the untracked cache (enabling it: not supported)",
            no_untracked
        ),
        option!(None, "test-untracked-cache", true, "not supported", no_untracked),
        option!(None, "force-untracked-cache", true, "not supported", no_untracked),
        flag!("force-write-index", force_write, "write the index even if it did not change"),
        option!(
            None,
            "fsmonitor",
            true,
            "disable the file system monitor (enabling it: not supported)",
            |typed, name, given| {
                typed.no_fsmonitor = only_off(name, given)?;
                Ok(())
            }
        ),
        option!(
            None,
            "fsmonitor-valid",
            true,
            "clear the monitor's mark of files (setting it: not supported)",
            |typed, name, given| {
                typed.no_fsmonitor_valid = only_off(name, given)?;
                Ok(())
            }
        ),
    ],
};

fn no_untracked(typed: &mut Typed, name: &Name<'_>, given: Given<'_>) -> Result<(), Failure> {
    typed.no_untracked_cache = only_off(name, given)?;
    Ok(())
}

/// For caches of the work tree that we keep true or drop, but never begin.
fn only_off(name: &Name<'_>, given: Given<'_>) -> Result<bool, Failure> {
    match given {
        Given::Off => Ok(true),
        _ => Err(name.error("is not supported")),
    }
}
