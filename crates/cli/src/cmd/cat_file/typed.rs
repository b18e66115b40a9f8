//! What the command line says.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

use object::ObjectKind;
use revwalk::Filter;

use super::format::Format;
use crate::env::os_bytes;
use crate::options::{Given, Name, Spec, Table, Takes, flag, refused};
use crate::report::Failure;

/// The one thing that is to be done, where no object list is worked off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Exists,
    Pretty,
    Kind,
    Size,
    AllObjects,
    Textconv,
    Filters,
}

impl Mode {
    /// As typed.
    fn option(self) -> &'static str {
        match self {
            Mode::Exists => "-e",
            Mode::Pretty => "-p",
            Mode::Kind => "-t",
            Mode::Size => "-s",
            Mode::AllObjects => "--batch-all-objects",
            Mode::Textconv => "--textconv",
            Mode::Filters => "--filters",
        }
    }
}

/// Which batch option was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchKind {
    Contents,
    Info,
    Commands,
}

/// What the command line says.
#[derive(Debug, Default)]
pub(super) struct Typed {
    mode: Option<Mode>,
    batch: Option<(BatchKind, Option<OsString>)>,
    buffer: Option<bool>,
    follow_symlinks: bool,
    unordered: bool,
    nul_in: bool,
    nul: bool,
    path: Option<OsString>,
    filter: Option<Filter>,
    allow_unknown_type: bool,
    /// Options given that are not supported.
    refused: BTreeSet<&'static str>,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Asked {
    /// To answer about one object.
    One { mode: Mode, name: OsString },
    /// To show one object as a kind that it leads to.
    AsKind { kind: OsString, name: OsString },
    /// To answer about many.
    Batch(Batch),
}

/// How many objects are answered about.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) kind: BatchKind,
    pub(super) format: Format,
    pub(super) filter: Leave,
    pub(super) all_objects: bool,
    pub(super) unordered: bool,
    pub(super) follow_symlinks: bool,
    pub(super) buffer: bool,
    pub(super) delim_in: u8,
    pub(super) delim_out: u8,
}

/// What a filter leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leave {
    Nothing,
    Blobs,
    /// Blobs of this size or more.
    LargeBlobs(u64),
    /// All but those.
    OtherThan(ObjectKind),
}

impl Leave {
    fn new(filter: &Option<Filter>) -> Result<Leave, Failure> {
        let name = match filter {
            None => return Ok(Leave::Nothing),
            Some(Filter::BlobNone) => return Ok(Leave::Blobs),
            Some(Filter::BlobLimit(size)) => return Ok(Leave::LargeBlobs(*size)),
            Some(Filter::ObjectType(kind)) => return Ok(Leave::OtherThan(*kind)),
            Some(Filter::TreeDepth(_)) => "tree",
            Some(Filter::SparseOid(_)) => "sparse:oid",
            Some(Filter::Combine(_)) => "combine",
            Some(_) => "?",
        };
        Err(Failure::Usage(format!("usage: objects filter not supported: '{name}'\n")))
    }
}

impl Typed {
    /// Refuses what does not go together, or at all.
    pub(super) fn settle(self, operands: Vec<OsString>) -> Result<Asked, Failure> {
        let filter = Leave::new(&self.filter)?;
        if self.batch.is_none() && filter != Leave::Nothing {
            return Err(Failure::Usage("usage: objects filter only supported in batch mode\n".to_owned()));
        }
        let converts = matches!(self.mode, Some(Mode::Textconv | Mode::Filters));
        if self.path.is_some() && !converts {
            return Err(wrong("'--path=<path|tree-ish>' needs '--filters' or '--textconv'"));
        }
        let asked = match &self.batch {
            Some(_) => self.batch(&operands, filter)?,
            None => self.no_batch(operands)?,
        };
        let refused = self.mode.filter(|_| converts).map(|mode| mode.option().trim_start_matches('-'));
        if let Some(name) = refused.or(self.refused.first().copied()) {
            return Err(Failure::Usage(format!("error: option `{name}' is not supported yet\n")));
        }
        Ok(asked)
    }

    fn batch(&self, operands: &[OsString], filter: Leave) -> Result<Asked, Failure> {
        let mode = self.mode.filter(|mode| !matches!(mode, Mode::Textconv | Mode::Filters | Mode::AllObjects));
        if let Some(mode) = mode {
            return Err(wrong(&format!("'{}' is incompatible with batch mode", mode.option())));
        }
        if !operands.is_empty() {
            return Err(wrong("batch modes take no arguments"));
        }
        let (kind, format) = self.batch.as_ref().map_or((BatchKind::Info, &None), |(kind, format)| (*kind, format));
        let all_objects = self.mode == Some(Mode::AllObjects);
        let delim_out = if self.nul { 0 } else { b'\n' };
        Ok(Asked::Batch(Batch {
            kind,
            format: format
                .as_deref()
                .map_or_else(|| Ok(Format::default()), |format| Format::parse(&os_bytes(format)))?,
            filter,
            all_objects,
            unordered: self.unordered,
            follow_symlinks: self.follow_symlinks,
            buffer: self.buffer.unwrap_or(all_objects),
            delim_in: if self.nul_in { 0 } else { delim_out },
            delim_out,
        }))
    }

    fn no_batch(&self, operands: Vec<OsString>) -> Result<Asked, Failure> {
        let needs = [
            (self.follow_symlinks, "--follow-symlinks"),
            (self.buffer.is_some(), "--buffer"),
            (self.mode == Some(Mode::AllObjects), "--batch-all-objects"),
            (self.nul_in, "-z"),
            (self.nul, "-Z"),
        ];
        if let Some((_, option)) = needs.iter().find(|(given, _)| *given) {
            return Err(wrong(&format!("'{option}' requires a batch mode")));
        }
        let count = operands.len();
        let mut operands = operands.into_iter();
        match (self.mode, operands.next(), operands.next()) {
            (Some(mode @ (Mode::Textconv | Mode::Filters)), None, _) => {
                Err(wrong(&format!("<rev> required with '{}'", mode.option())))
            }
            (Some(mode), None, _) => Err(wrong(&format!("<object> required with '{}'", mode.option()))),
            (Some(mode), Some(name), None) => Ok(Asked::One { mode, name }),
            (Some(_), ..) => Err(wrong("too many arguments")),
            (None, None, _) => Err(Failure::Usage(TABLE.help())),
            (None, Some(kind), Some(name)) if count == 2 => Ok(Asked::AsKind { kind, name }),
            _ => Err(wrong(&format!("only two arguments allowed in <type> <object> mode, not {count}"))),
        }
    }
}

fn wrong(what: &str) -> Failure {
    Failure::Usage(format!("fatal: {what}\n\n{}", TABLE.help()))
}

fn set_mode(typed: &mut Typed, mode: Mode) -> Result<(), Failure> {
    match typed.mode.replace(mode).filter(|before| *before != mode) {
        None => Ok(()),
        Some(before) => {
            let (now, before) = (mode.option(), before.option());
            Err(Failure::Usage(format!("error: options '{now}' and '{before}' cannot be used together\n")))
        }
    }
}

fn set_batch(typed: &mut Typed, kind: BatchKind, given: Given<'_>) -> Result<(), Failure> {
    if typed.batch.is_some() {
        return Err(Failure::Usage("error: only one batch option may be specified\n".to_owned()));
    }
    typed.batch = Some((kind, value(given)));
    Ok(())
}

fn value(given: Given<'_>) -> Option<OsString> {
    match given {
        Given::Value(value) => Some(value.to_owned()),
        _ => None,
    }
}

fn set_filter(typed: &mut Typed, name: &Name<'_>, given: Given<'_>) -> Result<(), Failure> {
    let Given::Value(spec) = given else {
        typed.filter = None;
        return Ok(());
    };
    let spec = spec.to_str().ok_or_else(|| name.error("expects text"))?;
    let filter = Filter::parse(spec).map_err(Failure::fatal)?;
    typed.filter = Some(match typed.filter.take() {
        Some(before) => before.and(filter),
        None => filter,
    });
    Ok(())
}

/// An option that says what is to be done.
macro_rules! mode {
    ($short:expr, $long:literal, $mode:expr, $help:literal) => {
        Spec {
            short: $short,
            long: $long,
            takes: Takes::Nothing,
            negatable: false,
            hidden: false,
            help: $help,
            set: |typed, _, _| set_mode(typed, $mode),
        }
    };
}

/// An option that makes objects be read from standard input.
macro_rules! batch {
    ($long:literal, $kind:expr, $help:literal) => {
        Spec {
            short: None,
            long: $long,
            takes: Takes::Optional("format"),
            negatable: false,
            hidden: false,
            help: $help,
            set: |typed, _, given| set_batch(typed, $kind, given),
        }
    };
}

/// Every option, in the order of git's help.
pub(super) const TABLE: Table<Typed> = Table {
    usage: &[
        "packstone cat-file <type> <object>",
        "packstone cat-file (-e | -p | -t | -s) <object>",
        "packstone cat-file (--batch | --batch-check | --batch-command) [--batch-all-objects]",
        "                   [--buffer] [--follow-symlinks] [--unordered] [--filter=<filter-spec>] [-Z]",
    ],
    options: &[
        mode!(Some('e'), "", Mode::Exists, "check if <object> exists"),
        mode!(Some('p'), "", Mode::Pretty, "pretty-print <object> content"),
        mode!(Some('t'), "", Mode::Kind, "show object type (one of 'blob', 'tree', 'commit', 'tag')"),
        mode!(Some('s'), "", Mode::Size, "show object size"),
        Spec { hidden: true, ..flag!(None, "allow-unknown-type", allow_unknown_type, "historical option -- no-op") },
        refused!(None, "use-mailmap", Takes::Nothing, true, "use mail map file"),
        refused!(None, "mailmap", Takes::Nothing, true, "the same"),
        batch!("batch", BatchKind::Contents, "show full <object> or <rev> contents"),
        batch!("batch-check", BatchKind::Info, "like --batch, but don't emit <contents>"),
        Spec { hidden: true, ..flag!(Some('z'), "", nul_in, "stdin is NUL-terminated") },
        flag!(Some('Z'), "", nul, "stdin and stdout is NUL-terminated"),
        batch!("batch-command", BatchKind::Commands, "read commands from stdin"),
        mode!(
            None,
            "batch-all-objects",
            Mode::AllObjects,
            "with --batch[-check]: ignores stdin, batches all known objects"
        ),
        Spec {
            short: None,
            long: "buffer",
            takes: Takes::Nothing,
            negatable: true,
            hidden: false,
            help: "buffer --batch output",
            set: |typed, _, given| {
                typed.buffer = Some(matches!(given, Given::On));
                Ok(())
            },
        },
        flag!(None, "follow-symlinks", follow_symlinks, "follow in-tree symlinks"),
        flag!(None, "unordered", unordered, "do not order objects before emitting them"),
        mode!(None, "textconv", Mode::Textconv, "run textconv on object's content (not supported yet)"),
        mode!(None, "filters", Mode::Filters, "run filters on object's content (not supported yet)"),
        Spec {
            short: None,
            long: "path",
            takes: Takes::Value("blob|tree"),
            negatable: true,
            hidden: false,
            help: "use a <path> for (--textconv | --filters); Not with 'batch'",
            set: |typed, _, given| {
                typed.path = value(given);
                Ok(())
            },
        },
        Spec {
            short: None,
            long: "filter",
            takes: Takes::Value("args"),
            negatable: true,
            hidden: false,
            help: "object filtering",
            set: set_filter,
        },
    ],
};

/// The name of a kind, or why it is none.
pub(super) fn kind_of(name: &OsStr) -> Result<ObjectKind, Failure> {
    ObjectKind::from_name(&os_bytes(name))
        .ok_or_else(|| Failure::Fatal(format!("invalid object type \"{}\"", name.to_string_lossy())))
}
