//! What the command line of `index-pack` says.

use std::ffi::OsString;

use crate::cmd::receive::{self, PACK_HEADER_HELP};
use crate::options::{Given, Spec, Table, Takes, flag};

/// The command line, nothing decided yet.
#[derive(Debug, Default)]
pub(crate) struct Typed {
    pub(crate) verbose: bool,
    /// `-o`, and how often.
    pub(crate) index: Option<OsString>,
    pub(crate) index_given: u32,
    pub(crate) stdin: bool,
    pub(crate) fix_thin: bool,
    /// Content of the `.keep`.
    pub(crate) keep: Option<Vec<u8>>,
    /// Content of the `.promisor`.
    pub(crate) promisor: Option<Vec<u8>>,
    /// Severities of `--strict` and `--fsck-objects`, in their order.
    pub(crate) severities: Vec<Vec<u8>>,
    pub(crate) strict: bool,
    pub(crate) fsck_objects: bool,
    pub(crate) connected: bool,
    pub(crate) verify: bool,
    pub(crate) stat: bool,
    pub(crate) stat_only: bool,
    pub(crate) threads: Option<i32>,
    pub(crate) index_version: Option<OsString>,
    pub(crate) max_input_size: u64,
    pub(crate) object_format: Option<OsString>,
    pub(crate) rev_index: Option<bool>,
    pub(crate) title: Option<OsString>,
    pub(crate) show_resolving: bool,
    pub(crate) report_end: bool,
    pub(crate) pack_header: Option<OsString>,
    pub(crate) memory: Option<u64>,
}

/// An option whose value is stored as it is.
macro_rules! text {
    ($long:literal, $takes:expr, $field:ident, $help:expr) => {
        Spec {
            short: None,
            long: $long,
            takes: $takes,
            negatable: false,
            hidden: false,
            help: $help,
            set: |typed, _, given| {
                typed.$field = receive::value(given);
                Ok(())
            },
        }
    };
}

/// A switch that git's users cannot negate.
macro_rules! switch {
    ($short:expr, $long:literal, $field:ident, $help:literal) => {
        Spec { negatable: false, ..flag!($short, $long, $field, $help) }
    };
}

/// A message for a file, which ends in a line feed unless it is empty.
fn message(given: Given<'_>) -> Vec<u8> {
    let mut text = receive::list(given);
    if !text.is_empty() {
        text.push(b'\n');
    }
    text
}

pub(crate) const TABLE: Table<Typed> = Table {
    usage: &[
        "packstone index-pack [-v] [-o <index-file>] [--keep[=<msg>]] [--[no-]rev-index]",
        "                     [--verify | --verify-stat | --verify-stat-only]",
        "                     [--strict[=<msg-id>=<severity>...]] [--fsck-objects[=<msg-id>=<severity>...]]",
        "                     (<pack-file> | --stdin [--fix-thin] [<pack-file>])",
    ],
    options: &[
        flag!(Some('v'), "", verbose, "show progress"),
        Spec {
            short: Some('o'),
            long: "",
            takes: Takes::Value("index-file"),
            negatable: false,
            hidden: false,
            help: "write the index there",
            set: |typed, _, given| {
                typed.index = receive::value(given);
                typed.index_given += 1;
                Ok(())
            },
        },
        switch!(None, "stdin", stdin, "read the pack from standard input, and keep it"),
        switch!(None, "fix-thin", fix_thin, "append bases that the repository has and the pack has not"),
        Spec {
            short: None,
            long: "keep",
            takes: Takes::Optional("msg"),
            negatable: false,
            hidden: false,
            help: "write a .keep with this message",
            set: |typed, _, given| {
                typed.keep = Some(message(given));
                Ok(())
            },
        },
        Spec {
            short: None,
            long: "promisor",
            takes: Takes::Optional("msg"),
            negatable: false,
            hidden: false,
            help: "write a .promisor with this message",
            set: |typed, _, given| {
                typed.promisor = Some(message(given));
                Ok(())
            },
        },
        Spec {
            short: None,
            long: "strict",
            takes: Takes::Optional("msg-id>=<severity"),
            negatable: false,
            hidden: false,
            help: "refuse objects that are not sound, and links to nothing",
            set: |typed, _, given| {
                typed.strict = true;
                typed.severities.push(receive::list(given));
                Ok(())
            },
        },
        Spec {
            short: None,
            long: "fsck-objects",
            takes: Takes::Optional("msg-id>=<severity"),
            negatable: false,
            hidden: false,
            help: "refuse objects that are not sound",
            set: |typed, _, given| {
                typed.fsck_objects = true;
                typed.severities.push(receive::list(given));
                Ok(())
            },
        },
        switch!(
            None,
            "check-self-contained-and-connected",
            connected,
            "refuse links to nothing; exit 1 if some lead out of the pack"
        ),
        switch!(None, "verify", verify, "hold a pack and its index against each other; write nothing"),
        switch!(None, "verify-stat", stat, "the same, and list the objects and the lengths of delta chains"),
        switch!(None, "verify-stat-only", stat_only, "the same, and show the lengths of delta chains"),
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
        text!(
            "index-version",
            Takes::Value("<version>[,<offset>]"),
            index_version,
            "write the index in this version; with offsets from <offset> on in its large table"
        ),
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
        text!("object-format", Takes::Value("hash-algorithm"), object_format, "specify the hash algorithm to use"),
        Spec {
            short: None,
            long: "rev-index",
            takes: Takes::Nothing,
            negatable: true,
            hidden: false,
            help: "write a .rev, or do not",
            set: |typed, _, given| {
                typed.rev_index = Some(matches!(given, Given::On));
                Ok(())
            },
        },
        text!("progress-title", Takes::Value("title"), title, "what progress is called while the pack is read"),
        switch!(None, "show-resolving-progress", show_resolving, "show progress of deltas"),
        switch!(None, "report-end-of-input", report_end, "write a NUL to standard error when the pack is read"),
        text!("pack_header", Takes::Value("<version>,<objects>"), pack_header, PACK_HEADER_HELP),
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
