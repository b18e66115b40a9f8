//! Everything that is wrong with an index file, each thing with its place in it.
//!
//! Reading stops at the first error, and passes over what is wrong with caches and hints. [`verify`] looks at all of it and
//! goes on where it can: entries one by one, every extension, the hints (`EOIE`, `IEOT`) and the cache tree against the
//! entries. What it finds nothing wrong with can be read; whether the objects are there it does not know.

mod entries;
mod extensions;

use std::fmt;

use hashfile::VerifyError;
use object::HashKind;

use self::entries::Entries;
use crate::Bump;
use crate::error::{ReadError, ReadErrorKind};
use crate::header::Header;
use crate::index::Index;
use crate::read::ReadOptions;
use crate::trees;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Odd, but it means what it seems to mean.
    Warning,
    /// The index, or a part of it, cannot be used, or whoever believes it is misled.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// Something that is wrong with an index file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Byte offset in the file.
    pub at: u64,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong there: one line, without a full stop.
    pub what: String,
}

/// Where findings are put.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn error(&mut self, at: usize, what: impl Into<String>) {
        self.0.push(Finding { at: at as u64, severity: Severity::Error, what: what.into() });
    }

    fn warning(&mut self, at: usize, what: impl Into<String>) {
        self.0.push(Finding { at: at as u64, severity: Severity::Warning, what: what.into() });
    }
}

/// Looks at all of an index file and returns what is wrong with it, in the order of its bytes; nothing if it is sound.
///
/// `shared` are the bytes of the shared index that a split index builds on. What is wrong inside of that one is one finding
/// here; it can be verified by itself.
///
/// Time and memory are linear in the length of the file, and in that of version 4 paths up to 64 times that length.
///
/// ```
/// use object::HashKind;
/// use packstone_index::verify::verify;
///
/// let findings = verify(b"DIRC\0\0\0\x02\0\0\0\x01", HashKind::Sha1, None);
/// assert_eq!((findings[0].at, findings[0].what.as_str()), (12, "index file needs 32 bytes, 12 are left"));
/// ```
pub fn verify(bytes: &[u8], kind: HashKind, shared: Option<&[u8]>) -> Vec<Finding> {
    let mut findings = Findings::default();
    match Header::parse(bytes, kind) {
        Ok(header) => body(bytes, kind, header, shared, &mut findings),
        Err(error) => findings.error(place(&error), error.kind.to_string()),
    }
    let Findings(mut found) = findings;
    found.sort_by_key(|finding| finding.at);
    found
}

fn body(bytes: &[u8], kind: HashKind, header: Header, shared: Option<&[u8]>, findings: &mut Findings) {
    if let Err(VerifyError::Mismatch { at, found, computed }) = hashfile::verify(bytes, kind) {
        let error = ReadErrorKind::Checksum { found, computed };
        findings.error(usize::try_from(at).unwrap_or(usize::MAX), error.to_string());
    }
    let entries = Entries::walk(bytes, kind, header, findings);

    // As a reader sees it; whoever looks at what the entries mean together needs them in order.
    let arena = Bump::new();
    let options = ReadOptions::new(kind).shared(shared);
    let index = Index::read(&arena, bytes, &options);
    let count = match &index {
        Ok(index) => Some(index.len()),
        // Not a split one, so that the entries are those of the file.
        Err(_) if shared.is_none() => usize::try_from(header.count).ok(),
        Err(_) => None,
    };
    let seen = extensions::look(bytes, kind, &entries, count, findings);
    entries.judge(&seen, findings);
    match index {
        Ok(index) => {
            let position = |at: usize| match seen.link {
                // Where in the two files it is, is not known.
                Some(link) => link,
                None => entries.places.get(at).map_or(Header::LEN, |place| place.at),
            };
            file_directory_conflicts(&index, position, findings);
            if let Some(tree) = seen.tree {
                cache_tree(&index, tree, findings);
            }
        }
        Err(error) => {
            let at = place(&error);
            // Most errors were found before, and in better words.
            if !findings.0.iter().any(|finding| finding.severity == Severity::Error && finding.at == at as u64) {
                findings.error(at, error.kind.to_string());
            }
        }
    }
}

fn place(error: &ReadError) -> usize {
    usize::try_from(error.at).unwrap_or(usize::MAX)
}

/// Files that lie where a directory is. Every directory is looked for once, among entries that are in order.
fn file_directory_conflicts(index: &Index<'_>, position: impl Fn(usize) -> usize, findings: &mut Findings) {
    let mut previous: &[u8] = b"";
    for entry in index.iter() {
        let path = entry.path();
        let common = previous.iter().zip(path).take_while(|(a, b)| a == b).count();
        previous = path;
        let deeper = path.get(common..).unwrap_or_default();
        for slash in memchr::memchr_iter(b'/', deeper) {
            let Some(dir) = path.get(..common + slash).filter(|dir| dir.len() + 1 < path.len()) else { continue };
            let inside = index.iter_range(index.prefix(&[dir, b"/"].concat()));
            let beside = |stage| inside.clone().any(|entry| entry.stage() == stage);
            if let Some(file) = index.range(dir).find(|&at| index.get(at).is_some_and(|file| beside(file.stage()))) {
                findings.error(position(file), format!("'{}' is both a file and a directory", shown(dir)));
            }
        }
    }
}

/// Nodes of the cache tree that are not what the entries make. `at`: where the extension's data begin.
fn cache_tree(index: &Index<'_>, at: usize, findings: &mut Findings) {
    match trees::verify_cache_tree(index) {
        Ok(found) => {
            for finding in found {
                let offset = usize::try_from(finding.at).unwrap_or(usize::MAX);
                let what = format!("cache tree of '{}': {}", shown(&finding.dir), finding.kind);
                findings.error(at.saturating_add(offset), what);
            }
        }
        Err(collision) => findings.error(at, format!("cache tree: {collision}")),
    }
}

/// A path in one line of ASCII.
fn shown(path: &[u8]) -> impl fmt::Display {
    path.escape_ascii()
}
