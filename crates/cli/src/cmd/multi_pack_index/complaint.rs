//! What is wrong with a file of a multi-pack-index, in the words that git's users know.

use std::fs;

use object::HashKind;
use odb::midx::{LoadError, LoadErrorKind};
use pack_format::ParseErrorKind;
use pack_format::chunk::{Toc, TocErrorKind};
use pack_format::midx::{self, FANOUT, IDS, OFFSETS, PACK_NAMES};

use crate::report::chain;

/// What git says of such a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Complaint {
    /// `error: ` lines.
    pub(super) errors: Vec<String>,
    /// What it dies of.
    pub(super) fatal: Option<String>,
    /// `warning: ` lines.
    pub(super) warnings: Vec<String>,
}

impl Complaint {
    /// About a file that was not used. Details that the error does not have are read from the file again.
    pub(super) fn about(error: &LoadError, hash: HashKind) -> Complaint {
        let path = error.path.display();
        let mut said = Complaint::default();
        if error.path.file_name().is_some_and(|name| name == "multi-pack-index-chain") {
            said.warnings.push(match &error.kind {
                LoadErrorKind::Format(error)
                    if error.at == 0 && matches!(error.kind, ParseErrorKind::Truncated { .. }) =>
                {
                    "multi-pack-index chain file too small".to_owned()
                }
                LoadErrorKind::Format(format) => {
                    let bytes = fs::read(&error.path).unwrap_or_default();
                    let line = bytes.get(format.at as usize..).unwrap_or_default().split(|&byte| byte == b'\n').next();
                    let line = String::from_utf8_lossy(line.unwrap_or_default()).into_owned();
                    format!("invalid multi-pack-index chain: line '{line}' not a hash")
                }
                _ => chain(error),
            });
            return said;
        }
        if error.path.extension().is_some() {
            said.warnings.push("unable to find all multi-pack-index files".to_owned());
        }
        let format = match &error.kind {
            LoadErrorKind::Format(format) => format,
            LoadErrorKind::Io(_) if error.is_gone() => return said,
            _ => {
                said.errors.push(chain(error));
                return said;
            }
        };
        let bytes = fs::read(&error.path).unwrap_or_default();
        let u32_at =
            |at: usize| bytes.get(at..at + 4).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_be_bytes(*b));
        let u64_at = |at: usize| u64::from(u32_at(at)) << 32 | u64::from(u32_at(at + 4));
        let at = format.at as usize;
        let toc = || {
            let count = bytes.get(6).copied().unwrap_or(0);
            Toc::parse(&bytes, 12, count, hash.len(), 4).unwrap_or_default()
        };
        let starts = |chunk| toc().range(chunk).is_some_and(|range| range.start == at);
        let missing = |what: &str| Some(format!("multi-pack-index required {what} chunk missing or corrupted"));
        match &format.kind {
            ParseErrorKind::Truncated { what: "multi-pack-index", .. } => {
                said.errors.push(format!("multi-pack-index file {path} is too small"));
            }
            ParseErrorKind::Signature { .. } => {
                let found = u32_at(0);
                let wanted = u32::from_be_bytes(*b"MIDX");
                said.fatal =
                    Some(format!("multi-pack-index signature 0x{found:08x} does not match signature 0x{wanted:08x}"));
            }
            ParseErrorKind::Unsupported { found, .. } if at == 4 => {
                said.fatal = Some(format!("multi-pack-index version {found} not recognized"));
            }
            ParseErrorKind::Unsupported { .. } | ParseErrorKind::WrongHash { .. } => {
                let (found, wanted) = (bytes.get(5).copied().unwrap_or(0), hash.file_id());
                said.errors.push(format!("multi-pack-index hash version {found} does not match version {wanted}"));
            }
            ParseErrorKind::Chunks(TocErrorKind::ClosedEarly) => {
                said.errors.push("terminating chunk id appears earlier than expected".to_owned());
            }
            ParseErrorKind::Chunks(TocErrorKind::NotClosed { .. }) => {
                said.errors.push(format!("final chunk has non-zero id {:x}", u32_at(at)));
            }
            ParseErrorKind::Chunks(TocErrorKind::Duplicate { .. }) => {
                said.errors.push(format!("duplicate chunk ID {:x} found", u32_at(at)));
            }
            ParseErrorKind::Chunks(TocErrorKind::Unaligned { align, .. }) => {
                said.errors.push(format!("chunk id {:x} not {align}-byte aligned", u32_at(at)));
            }
            ParseErrorKind::Chunks(TocErrorKind::Offset { .. }) => {
                // The chunk that ends there is the one with a bad size.
                let row = if at > 12 { at - 12 } else { at };
                said.errors.push(format!("improper chunk offset(s) {:x} and {:x}", u64_at(row + 4), u64_at(row + 16)));
            }
            ParseErrorKind::NoChunk { chunk } => {
                let names = [
                    (PACK_NAMES, "pack-name"),
                    (FANOUT, "OID fanout"),
                    (IDS, "OID lookup"),
                    (OFFSETS, "object offsets"),
                ];
                let name = names.iter().find(|(id, _)| id == chunk).map_or("", |(_, name)| name);
                said.fatal = missing(name);
            }
            ParseErrorKind::WrongSize { .. } if starts(FANOUT) => {
                said.errors.push("multi-pack-index OID fanout is of the wrong size".to_owned());
                said.fatal = missing("OID fanout");
            }
            ParseErrorKind::WrongSize { .. } if starts(IDS) => {
                said.errors.push("multi-pack-index OID lookup chunk is the wrong size".to_owned());
                said.fatal = missing("OID lookup");
            }
            ParseErrorKind::WrongSize { .. } if starts(OFFSETS) => {
                said.errors.push("multi-pack-index object offset chunk is the wrong size".to_owned());
                said.fatal = missing("object offsets");
            }
            ParseErrorKind::Fanout => {
                let slot = at.saturating_sub(toc().range(FANOUT).map_or(0, |range| range.start)) / 4;
                let (low, high) = (u32_at(at.saturating_sub(4)), u32_at(at));
                let before = slot.saturating_sub(1);
                said.errors
                    .push(format!("oid fanout out of order: fanout[{before}] = {low:x} > {high:x} = fanout[{slot}]"));
                said.fatal = missing("OID fanout");
            }
            ParseErrorKind::Truncated { .. } => {
                said.fatal = Some("multi-pack-index pack-name chunk is too short".to_owned());
            }
            ParseErrorKind::NameOrder => {
                let name = |at: usize| {
                    let rest = bytes.get(at..).unwrap_or_default();
                    String::from_utf8_lossy(rest.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
                };
                let before = bytes.get(..at.saturating_sub(1)).unwrap_or_default();
                let start = before.iter().rposition(|&byte| byte == 0).map_or(0, |nul| nul + 1);
                let start = start.max(toc().range(midx::PACK_NAMES).map_or(0, |range| range.start));
                said.fatal =
                    Some(format!("multi-pack-index pack names out of order: '{}' before '{}'", name(start), name(at)));
            }
            _ => said.errors.push(chain(error)),
        }
        said
    }
}
