//! What the command line says.

use std::collections::BTreeSet;
use std::ffi::OsString;

use crate::options::{Given, Spec, Table, Takes, flag, refused};
use crate::report::Failure;

/// What the command line says.
#[derive(Debug, Default)]
pub(super) struct Typed {
    pub(super) index_output: Option<OsString>,
    pub(super) empty: bool,
    pub(super) merge: bool,
    pub(super) reset: bool,
    pub(super) prefix: Option<OsString>,
    pub(super) update: bool,
    pub(super) index_only: bool,
    pub(super) dry_run: bool,
    pub(super) full: bool,
    pub(super) quiet: bool,
    verbose: bool,
    /// Options given that are not supported.
    refused: BTreeSet<&'static str>,
}

impl Typed {
    /// The first option that is not supported.
    pub(super) fn refusal(&self) -> Option<Failure> {
        let name = self.refused.first()?;
        Some(Failure::Usage(format!("error: option `{name}' is not supported yet\n")))
    }

    /// Whether what is read is brought together with what is in the index.
    pub(super) fn merges(&self) -> bool {
        self.merge || self.reset || self.prefix.is_some()
    }
}

/// Every option, in the order of git's help.
pub(super) const TABLE: Table<Typed> = Table {
    usage: &[
        "packstone read-tree [(-m | --reset | --prefix=<prefix>) [-i]]",
        "                    [--index-output=<file>] [--no-sparse-checkout]",
        "                    (--empty | <tree-ish>)",
    ],
    options: &[
        Spec {
            short: None,
            long: "index-output",
            takes: Takes::Value("file"),
            negatable: false,
            hidden: false,
            help: "write the index to <file>, and leave the index as it is",
            set: |typed, _, given| {
                if let Given::Value(file) = given {
                    typed.index_output = Some(file.to_owned());
                }
                Ok(())
            },
        },
        flag!(None, "empty", empty, "only empty the index"),
        flag!(Some('v'), "verbose", verbose, "show progress, of which there is none"),
        flag!(Some('m'), "", merge, "keep what is known about files that stay the same"),
        refused!(None, "trivial", Takes::Nothing, true, "merge three trees if no file has to be merged"),
        refused!(None, "aggressive", Takes::Nothing, true, "merge three trees where files were added or removed"),
        flag!(None, "reset", reset, "as -m, and unmerged files are dropped"),
        Spec {
            short: None,
            long: "prefix",
            takes: Takes::Value("<subdirectory>/"),
            negatable: false,
            hidden: false,
            help: "read the tree into this directory, beside what is in the index",
            set: |typed, _, given| {
                if let Given::Value(prefix) = given {
                    typed.prefix = Some(prefix.to_owned());
                }
                Ok(())
            },
        },
        flag!(Some('u'), "", update, "update the work tree (not supported yet)"),
        refused!(None, "exclude-per-directory", Takes::Value("gitignore"), false, "let ignored files be overwritten"),
        flag!(Some('i'), "", index_only, "do not look at the work tree"),
        flag!(Some('n'), "dry-run", dry_run, "write nothing"),
        flag!(None, "no-sparse-checkout", full, "do not keep directories outside of a sparse checkout as such"),
        refused!(None, "debug-unpack", Takes::Nothing, true, "show what is merged"),
        refused!(None, "recurse-submodules", Takes::Optional("checkout"), true, "update submodules, too"),
        flag!(Some('q'), "quiet", quiet, "say nothing about files in the way"),
    ],
};
