//! What the command line says.

use std::collections::BTreeSet;

use super::format::Format;
use crate::abbreviate::{Length, MIN_DIGITS};
use crate::env::os_bytes;
use crate::options::{Given, Spec, Table, Takes, flag, refused};
use crate::report::Failure;

/// What the command line says.
#[derive(Debug, Default)]
pub(super) struct Typed {
    pub(super) nul: bool,
    pub(super) tags: bool,
    pub(super) valid: bool,
    pub(super) fsmonitor: bool,
    pub(super) cached: bool,
    pub(super) stage: bool,
    pub(super) unmerged: bool,
    pub(super) resolve_undo: bool,
    pub(super) full_name: bool,
    pub(super) error_unmatch: bool,
    pub(super) abbrev: Option<Length>,
    pub(super) debug: bool,
    pub(super) deduplicate: bool,
    pub(super) sparse: bool,
    format: Option<Vec<u8>>,
    /// Options given that are not supported.
    refused: BTreeSet<&'static str>,
}

impl Typed {
    /// Whether it lists entries, and not only resolved conflicts.
    pub(super) fn lists_entries(&self) -> bool {
        self.cached || self.shows_stage() || !self.resolve_undo
    }

    pub(super) fn shows_stage(&self) -> bool {
        self.stage || self.unmerged
    }

    pub(super) fn shows_tag(&self) -> bool {
        self.tags || self.valid || self.fsmonitor
    }

    /// Refuses what does not go together, or at all.
    pub(super) fn settle(&self) -> Result<Option<Format>, Failure> {
        let with_format = [self.stage, self.resolve_undo, self.deduplicate, self.tags];
        let refused = |name| self.refused.contains(name);
        if self.format.is_some()
            && (with_format.contains(&true) || refused("others") || refused("killed") || refused("eol"))
        {
            let options = "-s, -o, -k, -t, --resolve-undo, --deduplicate, --eol";
            return Err(Failure::Usage(format!("fatal: --format cannot be used with {options}\n\n{}", TABLE.help())));
        }
        if let Some(name) = self.refused.first() {
            return Err(Failure::Usage(format!("error: option `{name}' is not supported yet\n")));
        }
        self.format.as_deref().map(Format::parse).transpose()
    }
}

/// An option about paths that are not listed anyway.
macro_rules! ignored {
    ($short:expr, $long:literal, $takes:expr, $negatable:literal, $help:literal) => {
        Spec {
            short: $short,
            long: $long,
            takes: $takes,
            negatable: $negatable,
            hidden: false,
            help: $help,
            set: |_: &mut Typed, _, _| Ok(()),
        }
    };
}

/// Every option, in the order of git's help.
pub(super) const TABLE: Table<Typed> = Table {
    usage: &["packstone ls-files [<options>] [<file>...]"],
    options: &[
        flag!(Some('z'), "", nul, "end lines with NUL, and quote nothing"),
        flag!(Some('t'), "", tags, "begin lines with the state as a letter"),
        flag!(Some('v'), "", valid, "as -t, lower case for files assumed to be unchanged"),
        flag!(Some('f'), "", fsmonitor, "as -t, lower case for files that the monitor has not seen change"),
        flag!(Some('c'), "cached", cached, "list what is in the index (default)"),
        refused!(Some('d'), "deleted", Takes::Nothing, true, "list deleted files"),
        refused!(Some('m'), "modified", Takes::Nothing, true, "list modified files"),
        refused!(Some('o'), "others", Takes::Nothing, true, "list untracked files"),
        refused!(Some('i'), "ignored", Takes::Nothing, true, "list ignored files"),
        flag!(Some('s'), "stage", stage, "show mode, object and stage"),
        refused!(Some('k'), "killed", Takes::Nothing, true, "list files in the way"),
        refused!(None, "directory", Takes::Nothing, true, "list untracked directories by their names only"),
        refused!(None, "eol", Takes::Nothing, true, "show line ends"),
        Spec {
            short: None,
            long: "empty-directory",
            takes: Takes::Nothing,
            negatable: true,
            hidden: false,
            help: "list empty directories, too",
            set: |typed, _, given| {
                match given {
                    Given::Off => typed.refused.insert("no-empty-directory"),
                    _ => typed.refused.remove("no-empty-directory"),
                };
                Ok(())
            },
        },
        flag!(Some('u'), "unmerged", unmerged, "list only unmerged files, with -s"),
        flag!(None, "resolve-undo", resolve_undo, "list conflicts that were resolved"),
        ignored!(Some('x'), "exclude", Takes::Value("pattern"), false, "what untracked files to leave out"),
        refused!(Some('X'), "exclude-from", Takes::Value("file"), false, "read such patterns from a file"),
        ignored!(None, "exclude-per-directory", Takes::Value("file"), true, "read such patterns in each directory"),
        ignored!(None, "exclude-standard", Takes::Nothing, false, "leave out what is usually ignored"),
        Spec {
            short: None,
            long: "full-name",
            takes: Takes::Nothing,
            negatable: false,
            hidden: false,
            help: "show paths from the root of the work tree",
            set: |typed, _, _| {
                typed.full_name = true;
                Ok(())
            },
        },
        refused!(None, "recurse-submodules", Takes::Nothing, true, "list files of submodules"),
        flag!(None, "error-unmatch", error_unmatch, "fail if a <file> is not in the index"),
        refused!(None, "with-tree", Takes::Value("tree-ish"), true, "list also what this tree has"),
        Spec {
            short: None,
            long: "abbrev",
            takes: Takes::Optional("n"),
            negatable: true,
            hidden: false,
            help: "show object names in so few digits",
            set: |typed, name, given| {
                typed.abbrev = match given {
                    Given::Off => None,
                    Given::On => Some(Length::Auto),
                    Given::Value(text) => {
                        let text = os_bytes(text);
                        let number = std::str::from_utf8(&text).ok().and_then(|text| text.trim_start().parse().ok());
                        let number: i32 = number.ok_or_else(|| name.error("expects a numerical value"))?;
                        let digits = usize::try_from(number).unwrap_or(0).max(MIN_DIGITS);
                        Some(Length::Digits(digits)).filter(|_| number != 0)
                    }
                };
                Ok(())
            },
        },
        flag!(None, "debug", debug, "show all that an entry says"),
        flag!(None, "deduplicate", deduplicate, "list unmerged files once"),
        flag!(None, "sparse", sparse, "list directories outside of a sparse checkout as such"),
        Spec {
            short: None,
            long: "format",
            takes: Takes::Value("format"),
            negatable: false,
            hidden: false,
            help: "show entries so",
            set: |typed, _, given| {
                if let Given::Value(text) = given {
                    typed.format = Some(os_bytes(text).into_owned());
                }
                Ok(())
            },
        },
    ],
};
