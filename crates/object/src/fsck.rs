//! Whether an object's content keeps to its format: what git's fsck says about one object, looked at alone.
//!
//! [`check`] gives what is wrong, by the names of git-fsck ("FSCK MESSAGES"). What git calls an error, a warning or mere
//! information is not told apart here: a sound object has none of it. Blobs are always sound. Names by which some
//! file systems would reach `.git` in disguise are for whoever knows those file systems; here `.git` is told in any case.

use std::cmp::Ordering;
use std::collections::HashSet;

use crate::tree::{Entries, Entry};
use crate::{HashKind, ObjectId, ObjectKind, ParseErrorKind};

/// Names in trees may have this many bytes.
pub const MAX_NAME: usize = 4096;

/// Something wrong with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{id}: {text}")]
#[non_exhaustive]
pub struct Finding {
    /// git's name for it.
    pub id: &'static str,
    /// What it is, in a few words.
    pub text: &'static str,
}

impl Finding {
    /// A name by which `.git` is reached.
    pub const HAS_DOTGIT: Finding = wrong("hasDotgit", "contains '.git'");
    /// A symbolic link that is reached as `.gitmodules`.
    pub const GITMODULES_SYMLINK: Finding = wrong("gitmodulesSymlink", ".gitmodules is a symbolic link");
}

/// What is wrong with the content: of a commit or a tag the first thing, of a tree all sorts, once each.
///
/// Linear in the content; for trees, holds a reference for each entry.
pub fn check(kind: ObjectKind, content: &[u8], hash: HashKind) -> Vec<Finding> {
    let checked = match kind {
        ObjectKind::Blob => Ok(()),
        ObjectKind::Tree => return tree(content, hash),
        ObjectKind::Commit => commit(content, hash),
        ObjectKind::Tag => tag(content, hash),
    };
    checked.err().into_iter().collect()
}

type Checked = Result<(), Finding>;

const fn wrong(id: &'static str, text: &'static str) -> Finding {
    Finding { id, text }
}

fn tree(content: &[u8], hash: HashKind) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut note = |id, text| {
        let finding = wrong(id, text);
        if !found.contains(&finding) {
            found.push(finding);
        }
    };
    let mut names = HashSet::new();
    let mut before: Option<Entry<'_>> = None;
    let mut last = 0; // where the entry that is read begins
    for entry in Entries::new(content, hash) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                // As git says it, which looks at the end of the rest first.
                let rest = content.get(last..).unwrap_or_default();
                let ends = rest.iter().rev().nth(hash.len()) == Some(&0);
                let text = match error.kind {
                    _ if rest.len() < hash.len() + 3 || !ends => "too-short tree object",
                    ParseErrorKind::BadMode => "malformed mode in tree entry",
                    ParseErrorKind::EmptyName => "empty filename in tree entry",
                    _ => "too-short tree object",
                };
                note("badTree", text);
                break;
            }
        };
        if entry.id.is_null() {
            note("nullSha1", "contains entries pointing to null sha1");
        }
        if entry.name.contains(&b'/') {
            note("fullPathname", "contains full pathnames");
        }
        match entry.name {
            b"." => note("hasDot", "contains '.'"),
            b".." => note("hasDotdot", "contains '..'"),
            name if name.eq_ignore_ascii_case(b".git") => note("hasDotgit", "contains '.git'"),
            _ => {}
        }
        if entry.mode.is_symlink() {
            for (name, id, text) in [
                (&b".gitmodules"[..], "gitmodulesSymlink", ".gitmodules is a symbolic link"),
                (b".gitattributes", "gitattributesSymlink", ".gitattributes is a symlink"),
                (b".gitignore", "gitignoreSymlink", ".gitignore is a symlink"),
                (b".mailmap", "mailmapSymlink", ".mailmap is a symlink"),
            ] {
                if entry.name.eq_ignore_ascii_case(name) {
                    note(id, text);
                }
            }
        }
        if content.get(entry.at) == Some(&b'0') {
            note("zeroPaddedFilemode", "contains zero-padded file modes");
        }
        if !matches!(entry.mode.0, 0o100_644 | 0o100_755 | 0o120_000 | 0o040_000 | 0o160_000) {
            note("badFilemode", "contains bad file modes");
        }
        if !names.insert(entry.name) {
            note("duplicateEntries", "contains duplicate file entries");
        }
        if before.is_some_and(|before| order(&before, &entry) == Ordering::Greater) {
            note("treeNotSorted", "not properly sorted");
        }
        if entry.name.len() > MAX_NAME {
            note("largePathname", "contains excessively large pathname");
        }
        last = entry.end;
        before = Some(entry);
    }
    found
}

/// The order of entries: by name, where a directory's ends in a `/`.
fn order(a: &Entry<'_>, b: &Entry<'_>) -> Ordering {
    fn key<'e>(entry: &Entry<'e>) -> impl Iterator<Item = &'e u8> {
        entry.name.iter().chain(entry.mode.is_tree().then_some(&b'/'))
    }
    key(a).cmp(key(b))
}

fn commit(content: &[u8], hash: HashKind) -> Checked {
    let mut lines = Lines::new(content)?;
    let tree = lines.after(b"tree ").ok_or(wrong("missingTree", "invalid format - expected 'tree' line"))?;
    is_id(tree, hash).ok_or(wrong("badTreeSha1", "invalid 'tree' line format - bad sha1"))?;
    while let Some(parent) = lines.after(b"parent ") {
        is_id(parent, hash).ok_or(wrong("badParentSha1", "invalid 'parent' line format - bad sha1"))?;
    }
    let mut authors = 0;
    while let Some(author) = lines.after(b"author ") {
        signature(author)?;
        authors += 1;
    }
    match authors {
        0 => return Err(wrong("missingAuthor", "invalid format - expected 'author' line")),
        1 => {}
        _ => return Err(wrong("multipleAuthors", "invalid format - multiple 'author' lines")),
    }
    let committer = lines.after(b"committer ");
    signature(committer.ok_or(wrong("missingCommitter", "invalid format - expected 'committer' line"))?)?;
    if content.contains(&0) {
        return Err(wrong("nulInCommit", "NUL byte in the commit object body"));
    }
    Ok(())
}

fn tag(content: &[u8], hash: HashKind) -> Checked {
    let mut lines = Lines::new(content)?;
    let object = lines.after(b"object ").ok_or(wrong("missingObject", "invalid format - expected 'object' line"))?;
    is_id(object, hash).ok_or(wrong("badObjectSha1", "invalid 'object' line format - bad sha1"))?;
    let kind = lines.after(b"type ").ok_or(wrong("missingTypeEntry", "invalid format - expected 'type' line"))?;
    ObjectKind::from_name(kind).ok_or(wrong("badType", "invalid 'type' value"))?;
    let name = lines.after(b"tag ").ok_or(wrong("missingTagEntry", "invalid format - expected 'tag' line"))?;
    if !is_ref_name(name) {
        return Err(wrong("badTagName", "invalid 'tag' name"));
    }
    let tagger = lines.after(b"tagger ");
    signature(tagger.ok_or(wrong("missingTaggerEntry", "invalid format - expected 'tagger' line"))?)
    // More headers may follow, which git ignores unless it is told otherwise.
}

/// The header's lines, one after the other.
struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    /// The header ends at an empty line, or with the content if that ends a line, and holds no NUL.
    fn new(content: &'a [u8]) -> Result<Lines<'a>, Finding> {
        let end = content.windows(2).position(|pair| pair == b"\n\n").map_or(content.len(), |at| at + 1);
        let header = content.get(..end).unwrap_or_default();
        if header.contains(&0) {
            return Err(wrong("nulInHeader", "unterminated header: NUL in it"));
        }
        match header.last() {
            Some(b'\n') => Ok(Lines(header)),
            _ => Err(wrong("unterminatedHeader", "unterminated header")),
        }
    }

    /// What stands behind `start` on the next line, if it begins so. The line is used up then.
    fn after(&mut self, start: &[u8]) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == b'\n')?;
        let value = self.0.get(..end)?.strip_prefix(start)?;
        self.0 = self.0.get(end + 1..)?;
        Some(value)
    }
}

fn is_id(text: &[u8], hash: HashKind) -> Option<()> {
    ObjectId::from_hex(text).ok().filter(|id| id.kind() == hash).map(drop)
}

/// `NAME <EMAIL> SECONDS ZONE`: a space before the `<`, and a name that may be empty all the same.
fn signature(line: &[u8]) -> Checked {
    let at = line.iter().position(|byte| matches!(byte, b'<' | b'>'));
    let (name, rest) = match at.and_then(|at| line.split_at_checked(at)) {
        None => return Err(wrong("missingEmail", "invalid author/committer line - missing email")),
        Some(([], [b'<', ..])) => {
            let text = "invalid author/committer line - missing space before email";
            return Err(wrong("missingNameBeforeEmail", text));
        }
        Some((_, [b'>', ..])) => return Err(wrong("badName", "invalid author/committer line - bad name")),
        Some((name, rest)) => (name, rest.get(1..).unwrap_or_default()),
    };
    if name.last() != Some(&b' ') {
        let text = "invalid author/committer line - missing space before email";
        return Err(wrong("missingSpaceBeforeEmail", text));
    }
    let end = rest.iter().position(|byte| matches!(byte, b'<' | b'>'));
    let date = match end.and_then(|end| rest.get(end..)) {
        Some([b'>', date @ ..]) => date,
        _ => return Err(wrong("badEmail", "invalid author/committer line - bad email")),
    };
    let Some(date) = date.strip_prefix(b" ") else {
        return Err(wrong("missingSpaceBeforeDate", "invalid author/committer line - missing space before date"));
    };
    let blank = date.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let date = date.get(blank..).unwrap_or_default();
    let digits = date.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, zone) = date.split_at_checked(digits).unwrap_or_default();
    match (number, zone) {
        ([], _) => return Err(wrong("badDate", "invalid author/committer line - bad date")),
        ([b'0'], [b' ', ..]) => {}
        ([b'0', ..], _) => {
            return Err(wrong("zeroPaddedDate", "invalid author/committer line - zero-padded date"));
        }
        _ => {}
    }
    let seconds = number.iter().try_fold(0i64, |sum, digit| sum.checked_mul(10)?.checked_add((digit - b'0').into()));
    if seconds.is_none() {
        let text = "invalid author/committer line - date causes integer overflow";
        return Err(wrong("badDateOverflow", text));
    }
    match zone {
        [b' ', b'+' | b'-', zone @ ..] if zone.len() == 4 && zone.iter().all(u8::is_ascii_digit) => Ok(()),
        [b' ', ..] => Err(wrong("badTimezone", "invalid author/committer line - bad time zone")),
        _ => Err(wrong("badDate", "invalid author/committer line - bad date")),
    }
}

/// Whether `refs/tags/NAME` may be a reference (git-check-ref-format).
fn is_ref_name(name: &[u8]) -> bool {
    let forbidden = |byte: &u8| matches!(byte, 0..=b' ' | 0x7f | b'~' | b'^' | b':' | b'?' | b'*' | b'[' | b'\\');
    let pair = |pair: &[u8]| name.windows(2).any(|found| found == pair);
    !(name.iter().any(forbidden) || pair(b"..") || pair(b"@{") || name.ends_with(b"."))
        && name
            .split(|&byte| byte == b'/')
            .all(|part| !part.is_empty() && !part.starts_with(b".") && !part.ends_with(b".lock"))
}
