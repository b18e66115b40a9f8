//! The entries of a file, one by one.

use std::cmp::Ordering;

use object::HashKind;

use super::{Findings, shown};
use crate::entry::{
    EXTENDED, Entry, ID_AT, INTENT_TO_ADD, MODE_AT, NAME_MASK, SKIP_WORKTREE, Stage, be16, head_len, record_len,
};
use crate::ext::eoie;
use crate::header::{Header, Version};
use crate::path::{self, PathChecks};
use crate::path_v4;

/// What was found out about the entries of a file.
pub(super) struct Entries {
    /// Where each is.
    pub(super) places: Vec<Place>,
    /// Where they end; not known if one could not be told from the next.
    pub(super) end: Option<usize>,
    /// How many of the first have no path, as the replacements of a split index.
    pub(super) nameless: usize,
    /// Which of them stand for whole directories.
    directories: Vec<Directory>,
}

/// Where an entry is.
pub(super) struct Place {
    pub(super) at: usize,
    /// Its path can be read without the one in front.
    pub(super) whole: bool,
}

struct Directory {
    at: usize,
    path: String,
    as_sparse: bool,
}

/// What the extensions say about what entries may be like.
#[derive(Default)]
pub(super) struct Seen {
    /// Where the data of `link` begin, if the index builds on a shared one.
    pub(super) link: Option<usize>,
    /// Where the data of a cache tree begin that was read.
    pub(super) tree: Option<usize>,
    pub(super) sparse: bool,
}

/// An entry as it lies in the file.
struct Raw<'b> {
    at: usize,
    /// Where its path begins.
    path_at: usize,
    entry: Entry<'b>,
}

impl Entries {
    /// Steps from entry to entry, and looks at each.
    pub(super) fn walk(bytes: &[u8], kind: HashKind, header: Header, findings: &mut Findings) -> Entries {
        let end = bytes.len().saturating_sub(kind.len());
        let mut walk = Walk {
            bytes: bytes.get(..end).unwrap_or_default(),
            kind,
            version: header.version,
            count: header.count,
            at: Header::LEN,
            previous: (Vec::new(), Stage::Merged),
            left: (bytes.len() as u64).saturating_mul(64).saturating_add(1 << 20),
            found: Entries { places: Vec::new(), end: None, nameless: 0, directories: Vec::new() },
        };
        for _ in 0..header.count {
            let step = match header.version {
                Version::V4 => walk.step_v4(findings),
                _ => walk.step(findings),
            };
            if step.is_none() {
                // A hint is better than nothing.
                walk.found.end = eoie::locate(bytes, kind).filter(|&end| end > walk.at);
                return walk.found;
            }
        }
        walk.found.end = Some(walk.at);
        walk.found
    }

    /// What depends on the extensions.
    pub(super) fn judge(&self, seen: &Seen, findings: &mut Findings) {
        if seen.link.is_none() {
            for place in self.places.iter().take(self.nameless) {
                findings.error(place.at, "entry without a path");
            }
        }
        for dir in &self.directories {
            if !seen.sparse {
                findings.error(dir.at, format!("'{}' is a directory, in an index that is not sparse", dir.path));
            } else if !dir.as_sparse {
                let what = "is a sparse directory without '/', skip-worktree flag or with a stage";
                findings.error(dir.at, format!("'{}' {what}", dir.path));
            }
        }
    }
}

struct Walk<'b> {
    /// Up to the trailer.
    bytes: &'b [u8],
    kind: HashKind,
    version: Version,
    count: u32,
    at: usize,
    /// Path and stage of the entry in front.
    previous: (Vec<u8>, Stage),
    /// How many bytes version 4 paths may still expand to.
    left: u64,
    found: Entries,
}

impl<'b> Walk<'b> {
    /// The head of the next entry, and the bytes behind it. `None`: there is no room for one.
    fn head(&self, findings: &mut Findings) -> Option<(&'b [u8], &'b [u8])> {
        let (at, base) = (self.at, head_len(self.kind));
        let rest = self.bytes.get(at..).unwrap_or_default();
        let room = |need: usize, findings: &mut Findings| {
            let nth = self.found.places.len() + 1;
            let what = format!("entry {nth} of {} needs {need} bytes, {} are left", self.count, rest.len());
            findings.error(at, what);
        };
        let extended = match rest.get(base - 2..base) {
            Some(word) => be16(word, 0) & EXTENDED != 0,
            None => {
                room(base, findings);
                return None;
            }
        };
        let Some((head, behind)) = rest.split_at_checked(if extended { base + 2 } else { base }) else {
            room(base + 2, findings);
            return None;
        };
        if extended {
            let unknown = be16(head, base) & !(SKIP_WORKTREE | INTENT_TO_ADD);
            if unknown != 0 {
                findings.error(at + base, format!("unknown flags {unknown:#06x}"));
            }
            if self.version == Version::V2 {
                findings.error(at + base - 2, "second flag word in a version 2 file");
            }
        }
        Some((head, behind))
    }

    /// Versions 2 and 3.
    fn step(&mut self, findings: &mut Findings) -> Option<()> {
        let (head, rest) = self.head(findings)?;
        let path_at = self.at + head.len();
        let stated = usize::from(be16(head, head_len(self.kind) - 2) & NAME_MASK);
        let Some(nul) = memchr::memchr(0, rest) else {
            findings.error(path_at, "path is not terminated");
            return None;
        };
        let len = match rest.get(stated) {
            _ if nul >= usize::from(NAME_MASK) && stated == usize::from(NAME_MASK) => nul,
            Some(0) if stated != usize::from(NAME_MASK) => stated, // a NUL in front of it is part of the path
            _ => {
                findings.error(path_at, format!("path has {nul} bytes, the flags say {stated}"));
                nul
            }
        };
        let size = record_len(head.len(), len);
        let Some(padding) = rest.get(len..size - head.len()) else {
            findings.error(self.at, format!("padding of entry {} is cut off", self.found.places.len() + 1));
            return None;
        };
        if let Some(odd) = padding.iter().position(|&byte| byte != 0) {
            findings.warning(path_at + len + odd, "padding is not zero");
        }
        let path = rest.get(..len).unwrap_or_default();
        self.entry(&Raw { at: self.at, path_at, entry: Entry::new(head, path, self.kind) }, true, findings);
        self.at += size;
        Some(())
    }

    fn step_v4(&mut self, findings: &mut Findings) -> Option<()> {
        let (head, field) = self.head(findings)?;
        let path_at = self.at + head.len();
        let Some((strip, number)) = path_v4::decode(field) else {
            findings.error(path_at, "number of bytes to remove does not end");
            return None;
        };
        let suffix = field.get(number..).unwrap_or_default();
        let Some(len) = path_v4::suffix_len(suffix) else {
            findings.error(path_at, "path is not terminated");
            return None;
        };
        let before = self.previous.0.len();
        let keep = match usize::try_from(strip).ok().and_then(|strip| before.checked_sub(strip)) {
            Some(keep) => keep,
            None => {
                // The first has nothing to remove from, and whoever reads it does not try.
                if !self.found.places.is_empty() {
                    findings.error(path_at, format!("removes {strip} bytes from a path of {before}"));
                }
                0
            }
        };
        let whole = keep + len;
        let Some(left) = self.left.checked_sub(whole as u64) else {
            findings.error(path_at, "paths expand beyond any use");
            return None;
        };
        self.left = left;
        let stated = usize::from(be16(head, head_len(self.kind) - 2) & NAME_MASK);
        if stated != whole.min(usize::from(NAME_MASK)) {
            findings.error(path_at, format!("path has {whole} bytes, the flags say {stated}"));
        }
        let mut path = self.previous.0.get(..keep).unwrap_or_default().to_vec();
        path.extend_from_slice(suffix.get(..len).unwrap_or_default());
        self.entry(&Raw { at: self.at, path_at, entry: Entry::new(head, &path, self.kind) }, keep == 0, findings);
        self.at = path_at + number + len + 1;
        Some(())
    }

    /// Looks at an entry that was told from its neighbours.
    fn entry(&mut self, raw: &Raw<'_>, whole: bool, findings: &mut Findings) {
        let Raw { at, path_at, entry } = raw;
        let (path, stage) = (entry.path(), entry.stage());
        let first = self.found.nameless == self.found.places.len();
        self.found.places.push(Place { at: *at, whole });
        if entry.id().is_null() {
            findings.warning(at + ID_AT, format!("'{}' names no object", shown(path)));
        }
        let mode = entry.mode();
        if !matches!(mode.0, 0o100_644 | 0o100_755 | 0o120_000 | 0o160_000 | 0o040_000) {
            findings.error(at + MODE_AT, format!("'{}' has mode {:o}", shown(path), mode.0));
        }
        if path.is_empty() {
            match first {
                true => self.found.nameless += 1,
                false => findings.error(*at, "entry without a path"),
            }
            self.previous.0.clear();
            return;
        }
        let (before, stage_before) = (&self.previous.0, self.previous.1);
        let there = match before.as_slice().cmp(path) {
            // Without one in front, any is in order.
            Ordering::Less => None,
            Ordering::Equal if stage_before == stage => Some("is there twice"),
            Ordering::Equal if stage_before == Stage::Merged => Some("is there with and without a stage"),
            Ordering::Equal if stage_before < stage => None,
            _ => Some("is out of order"),
        };
        if let Some(there) = there {
            findings.error(*at, format!("'{}' (stage {}) {there}", shown(path), stage as u8));
        }
        if let Err(error) = path::check(path, mode, PathChecks::default()) {
            // In a version 4 file the byte may be that of an entry further up.
            let offset = if self.version == Version::V4 { 0 } else { error.at };
            findings.error(path_at + offset, format!("path '{}': {}", shown(path), error.kind));
        }
        if mode.is_tree() {
            let as_sparse = path.ends_with(b"/") && stage == Stage::Merged && entry.flags().skip_worktree;
            self.found.directories.push(Directory { at: *at, path: shown(path).to_string(), as_sparse });
        }
        self.previous.0.clear();
        self.previous.0.extend_from_slice(path);
        self.previous.1 = stage;
    }
}
