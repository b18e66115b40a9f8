//! What `index-pack`, `unpack-objects` and `verify-pack` have in common: how their options and settings are read.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use index_pack::{ReceiveError, Strict, StrictOptions};
use object::fsck::{Detail, Finding, Severities, SkipList};
use object::{HashKind, ObjectId};
use odb::Store;
use pack_format::ParseErrorKind;
use pack_format::entry::PackHeader;

use crate::config::Config;
use crate::env::{Environment, bytes_to_path, os_bytes};
use crate::number::{self, NumberError};
use crate::options::Given;
use crate::report::{self, Failure, chain, plain_io};
use crate::setup::Repository;

/// What `--pack_header` is for.
pub(crate) const PACK_HEADER_HELP: &str = "the pack's head was taken off its front, and said this";

/// The value of an option that may have none.
pub(crate) fn list(given: Given<'_>) -> Vec<u8> {
    value(given).map_or_else(Vec::new, |value| os_bytes(&value).into_owned())
}

/// The value of an option.
pub(crate) fn value(given: Given<'_>) -> Option<OsString> {
    match given {
        Given::Value(value) => Some(value.to_owned()),
        _ => None,
    }
}

/// A size as git reads it in front of a stream: the digits in front, and nothing else. No digits: 0.
pub(crate) fn lenient_size(given: Given<'_>) -> u64 {
    let text = list(given);
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}

/// A pack's head as `<version>,<objects>`.
pub(crate) fn header(text: &OsStr) -> Result<PackHeader, Failure> {
    let bytes = os_bytes(text);
    let bad = || Failure::Fatal(format!("bad --pack_header: {}", text.to_string_lossy()));
    let mut numbers = bytes.splitn(2, |&byte| byte == b',').map(|number| {
        let digits = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
        std::str::from_utf8(number).ok().filter(|_| digits)?.parse().ok()
    });
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(version), Some(count)) => {
            let mut header = PackHeader::new(count);
            header.version = version;
            Ok(header)
        }
        _ => Err(bad()),
    }
}

/// How many threads work: as typed, else `pack.threads`, else as many as there are processors.
pub(crate) fn threads(config: &Config, typed: Option<i32>) -> Result<usize, Failure> {
    let configured = config.int("pack.threads")?.unwrap_or(0);
    let threads = typed.unwrap_or(configured);
    if threads < 0 || configured < 0 {
        return Err(Failure::Fatal(format!("invalid number of threads specified ({})", threads.min(configured))));
    }
    Ok(match usize::try_from(threads) {
        Ok(threads) if threads > 0 => threads,
        _ => std::thread::available_parallelism().map_or(1, usize::from),
    })
}

/// How much may be held: as typed, else `packstone.memory`, else the default of whoever holds it.
pub(crate) fn memory(config: &Config, typed: Option<u64>) -> Result<Option<usize>, Failure> {
    let configured = match config.last("packstone.memory") {
        None => None,
        Some(entry) => Some(entry.number(|text| match number::unsigned(text, u64::MAX) {
            Ok(0) => Err(NumberError::OutOfRange),
            other => other,
        })?),
    };
    Ok(typed.filter(|&typed| typed > 0).or(configured).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)))
}

/// The bytes of a pack's head, as they came.
pub(crate) fn header_bytes(text: &OsStr) -> Result<[u8; PackHeader::LEN], Failure> {
    let header = header(text)?;
    let mut bytes = header.to_bytes();
    if let Some(version) = bytes.get_mut(4..8) {
        version.copy_from_slice(&header.version.to_be_bytes());
    }
    Ok(bytes)
}

/// What is wrong with a pack: git's words where others look for them, and where it is.
pub(crate) fn words_of(error: &ReceiveError, pack: &Path) -> String {
    let idx = || pack.with_extension("idx");
    let bad = |at: u64, what: &str| format!("pack has bad object at offset {at}: {what}");
    match error {
        ReceiveError::Truncated { .. } => format!("early EOF: {error}"),
        ReceiveError::Header(source) => match source.kind {
            ParseErrorKind::Signature { .. } => "pack signature mismatch".to_owned(),
            ParseErrorKind::Unsupported { found, .. } => format!("pack version {found} unsupported"),
            _ => chain(error),
        },
        ReceiveError::Entry { at, source } => match &source.kind {
            ParseErrorKind::EntryType(kind) => bad(*at, &format!("unknown object type {kind}")),
            ParseErrorKind::BaseOutOfPack { .. } => bad(*at, "delta base offset is out of bound"),
            _ => bad(*at, &source.to_string()),
        },
        ReceiveError::Zlib { at, source } => bad(*at, &format!("inflate failed: {source}")),
        ReceiveError::Delta { at, source } => bad(*at, &format!("failed to apply delta: {source}")),
        ReceiveError::Checksum { .. } => format!("pack is corrupted (SHA1 mismatch): {error}"),
        ReceiveError::Junk { .. } => format!("pack has junk at the end: {error}"),
        ReceiveError::Unresolved { count, .. } => {
            let deltas = if *count == 1 { "delta" } else { "deltas" };
            format!("pack has {count} unresolved {deltas}: {error}")
        }
        ReceiveError::NoBase { .. } => format!("pack has 1 unresolved delta: {error}"),
        ReceiveError::Clash { id, .. } => format!("SHA1 COLLISION FOUND WITH {id} !"),
        ReceiveError::Duplicate { id } => format!("The same object {id} appears twice in the pack"),
        ReceiveError::Limit { what: "input of bytes", limit, .. } => {
            format!("pack exceeds maximum allowed size ({limit} bytes)")
        }
        ReceiveError::File { path, source } if source.kind() == std::io::ErrorKind::NotFound => {
            if path.extension().is_some_and(|extension| extension == "idx") {
                let file = if path.with_extension("pack").exists() { "pack idx file for" } else { "pack file" };
                return format!("Cannot open existing {file} '{}'", idx().display());
            }
            format!("could not open '{}' for reading: {}", pack.display(), plain_io(source))
        }
        ReceiveError::Index { source, .. } => {
            format!("Cannot open existing pack idx file for '{}': {source}", idx().display())
        }
        ReceiveError::Refused(why) => chain(&**why),
        _ => chain(error),
    }
}

/// What objects are held against.
pub(crate) struct Checks<'t> {
    /// Lists of severities, in their order.
    pub(crate) severities: &'t [Vec<u8>],
    /// Content, too, and not only links.
    pub(crate) content: bool,
    /// Everything that is named must be there.
    pub(crate) links: bool,
}

impl Checks<'_> {
    /// Ready to see objects. Files that the lists name are relative to where the user stands.
    pub(crate) fn ready(
        &self,
        here: &Environment,
        hash: HashKind,
        repo: Option<(&Repository, &Store)>,
    ) -> Result<Arc<Strict>, Failure> {
        let mut severities = Severities::strict();
        let mut skip = SkipList::default();
        for list in self.severities {
            for file in severities.apply(list).map_err(Failure::fatal)? {
                let path = here.resolve(&bytes_to_path(file));
                let shown = String::from_utf8_lossy(file);
                let text = std::fs::read(&path)
                    .map_err(|error| Failure::Fatal(format!("could not open '{shown}': {}", plain_io(&error))))?;
                skip.parse(&text, hash).map_err(|error| Failure::Fatal(format!("{}: {shown}", chain(&error))))?;
            }
        }
        let mut options =
            StrictOptions::new(hash).fsck(self.content.then_some(severities)).skip(skip).links(self.links).report(
                Some(Arc::new(|id: &ObjectId, finding: &Finding<'_>| {
                    if let Detail::Parse(why) = finding.detail {
                        report::say(&format!("error: {why}\n"));
                    }
                    let level = if finding.severity.is_error() { "error" } else { "warning" };
                    report::say(&format!("{level}: object {id}: {finding}\n"));
                })),
            );
        if let Some((repo, store)) = repo {
            let shallow = repo.shallow(false)?;
            options = options.store(Some(store.clone())).shallow(shallow.ids().copied().collect());
        }
        Ok(Arc::new(Strict::new(options)))
    }
}
