//! Which paths may be in an index: none that would leave the work tree or reach into its `.git`.
//!
//! | refused | when |
//! |---|---|
//! | no path; an empty component, so also a `/` in front, at the end (but for a sparse directory) or doubled | always |
//! | a NUL | always |
//! | component `.` or `..` | always |
//! | component `.git` in any case | always |
//! | component `.gitmodules` in any case, of a symbolic link | always |
//! | what NTFS takes for `.git` (for a symbolic link also `.gitmodules`), behind a `/` or a `\` | [`PathChecks::ntfs`] |
//! | what HFS+ takes for `.git` (for a symbolic link also `.gitmodules`) | [`PathChecks::hfs`] |
//!
//! These are git's rules (git-config, `core.protectNTFS` and `core.protectHFS`), tested against git. They concern what
//! *enters* an index, by an edit or from a tree. An index file may hold anything, so whoever creates files checks again.

use crate::entry::Mode;

/// Which file systems' ways to say `.git` are refused. Files may travel to those systems, so this does not depend on where
/// the program runs, except for HFS+, where git's defaults differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PathChecks {
    /// `core.protectNTFS`. Default: true.
    pub ntfs: bool,
    /// `core.protectHFS`. Default: true on macOS only.
    pub hfs: bool,
}

impl Default for PathChecks {
    fn default() -> Self {
        PathChecks { ntfs: true, hfs: cfg!(target_os = "macos") }
    }
}

impl PathChecks {
    /// Sets [`ntfs`](PathChecks::ntfs).
    pub fn ntfs(mut self, yes: bool) -> Self {
        self.ntfs = yes;
        self
    }

    /// Sets [`hfs`](PathChecks::hfs).
    pub fn hfs(mut self, yes: bool) -> Self {
        self.hfs = yes;
        self
    }
}

/// A path that may not be in an index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {at} of the path")]
#[non_exhaustive]
pub struct PathError {
    /// Byte offset in the path: where the component begins, or the byte is, that is at fault.
    pub at: usize,
    /// What is wrong there.
    pub kind: PathErrorKind,
}

/// What is wrong with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathErrorKind {
    /// No path, two `/` together, or one at the end.
    #[error("empty component")]
    Empty,
    /// A `/` in front.
    #[error("absolute path")]
    Absolute,
    /// A NUL, which no index can hold.
    #[error("NUL")]
    Nul,
    /// A `/` in the name of a tree's entry.
    #[error("'/' in a name")]
    Slash,
    /// A `\` where that separates directories (Windows only).
    #[error("backslash")]
    Backslash,
    /// `.` or `..`.
    #[error("component '.' or '..'")]
    Dot,
    /// `.git`, or what a file system takes for it.
    #[error("component '.git' or another name for it")]
    DotGit,
    /// A symbolic link named `.gitmodules`, or what a file system takes for that.
    #[error("symbolic link '.gitmodules' or another name for it")]
    GitModules,
}

impl PathErrorKind {
    fn at(self, at: usize) -> PathError {
        PathError { at, kind: self }
    }
}

/// Whether a path of this mode may be in an index. One pass over it.
///
/// Directories (mode `040000`) may end in one `/`, which is how sparse directories are written.
///
/// ```
/// use packstone_index::{Mode, path};
///
/// assert!(path::check(b"src/main.rs", Mode(0o100644), Default::default()).is_ok());
/// assert!(path::check(b"src/.Git/config", Mode(0o100644), Default::default()).is_err());
/// ```
pub fn check(path: &[u8], mode: Mode, checks: PathChecks) -> Result<(), PathError> {
    if let Some(at) = memchr::memchr(0, path) {
        return Err(PathErrorKind::Nul.at(at));
    }
    let whole = path;
    let path = match path.strip_suffix(b"/") {
        Some(directory) if mode.is_tree() => directory,
        _ => path,
    };
    // Then only a name's first letter can lead to any of what is refused.
    let plain = !checks.hfs && !mode.is_symlink() && memchr::memchr(b'\\', path).is_none();
    let mut at = 0;
    for name in path.split(|&b| b == b'/') {
        if name.is_empty() {
            let absolute = at == 0 && !whole.is_empty();
            return Err(if absolute { PathErrorKind::Absolute } else { PathErrorKind::Empty }.at(at));
        }
        if !plain || matches!(name.first(), Some(b'.' | b'g' | b'G')) {
            let checked = check_component(name, path.get(at..).unwrap_or(name), mode, checks);
            checked.map_err(|error| PathError { at: at + error.at, ..error })?;
        }
        at += name.len() + 1;
    }
    Ok(())
}

/// Whether a tree may have an entry of this name: what [`check`] says of a path that is only this one component.
pub fn check_name(name: &[u8], mode: Mode, checks: PathChecks) -> Result<(), PathError> {
    match memchr::memchr2(0, b'/', name) {
        Some(at) if name.get(at) == Some(&0) => Err(PathErrorKind::Nul.at(at)),
        Some(at) => Err(PathErrorKind::Slash.at(at)),
        None if name.is_empty() => Err(PathErrorKind::Empty.at(0)),
        None => check_component(name, name, mode, checks),
    }
}

/// `rest` is the path from this component on: NTFS ends the name of `.gitmodules` only where the path ends.
fn check_component(name: &[u8], rest: &[u8], mode: Mode, checks: PathChecks) -> Result<(), PathError> {
    let link = mode.is_symlink();
    if let [b'.', tail @ ..] = name {
        if matches!(tail, [] | [b'.']) {
            return Err(PathErrorKind::Dot.at(0));
        }
        if tail.eq_ignore_ascii_case(b"git") {
            return Err(PathErrorKind::DotGit.at(0));
        }
        if link && tail.eq_ignore_ascii_case(b"gitmodules") {
            return Err(PathErrorKind::GitModules.at(0));
        }
    }
    if checks.hfs {
        if hfs_is(name, b".git") {
            return Err(PathErrorKind::DotGit.at(0));
        }
        if link && hfs_is(name, b".gitmodules") {
            return Err(PathErrorKind::GitModules.at(0));
        }
    }
    if checks.ntfs {
        // Behind each backslash begins what NTFS takes for another component.
        let mut at = 0;
        loop {
            if ntfs_is_git(name.get(at..).unwrap_or_default()) {
                return Err(PathErrorKind::DotGit.at(at));
            }
            if link && ntfs_is_gitmodules(rest.get(at..).unwrap_or_default()) {
                return Err(PathErrorKind::GitModules.at(at));
            }
            match memchr::memchr(b'\\', name.get(at..).unwrap_or_default()) {
                Some(found) if cfg!(windows) => return Err(PathErrorKind::Backslash.at(at + found)),
                Some(found) => at += found + 1,
                None => break,
            }
        }
    }
    Ok(())
}

/// What is left of `name` behind this prefix, in any case.
fn strip_prefix_any_case<'n>(name: &'n [u8], prefix: &[u8]) -> Option<&'n [u8]> {
    let (head, tail) = name.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(tail)
}

/// NTFS drops spaces and periods at the end of a name, and a `:` begins the name of a stream of the same file.
fn ntfs_name_ends(tail: &[u8], separators: &[u8]) -> bool {
    match tail.iter().find(|&&b| b != b'.' && b != b' ') {
        None => true,
        Some(b) => *b == b':' || separators.contains(b),
    }
}

/// `.git`, or its short name `git~1`: the first directory made in a work tree that needs one.
fn ntfs_is_git(name: &[u8]) -> bool {
    // Nearly all names begin with another letter.
    matches!(name.first(), Some(b'.' | b'g' | b'G'))
        && [&b".git"[..], b"git~1"]
            .iter()
            .any(|known| strip_prefix_any_case(name, known).is_some_and(|tail| ntfs_name_ends(tail, br"\")))
}

/// `.gitmodules`; its short names `gitmod~1` to `gitmod~4`; or those taken when these are in use, of eight characters: a
/// beginning of `gi7eba`, which is a hash of the name, `~`, and a number without leading zero.
fn ntfs_is_gitmodules(rest: &[u8]) -> bool {
    if strip_prefix_any_case(rest, b".gitmodules").is_some_and(|tail| ntfs_name_ends(tail, b"")) {
        return true;
    }
    let Some((short, tail)) = rest.split_first_chunk::<8>() else { return false };
    if !ntfs_name_ends(tail, b"") {
        return false;
    }
    let Some(tilde) = memchr::memchr(b'~', short) else { return false };
    let (base, number) = short.split_at(tilde);
    match number {
        [_, b'1'..=b'4'] if base.eq_ignore_ascii_case(b"gitmod") => true,
        [_, b'1'..=b'9', digits @ ..] => {
            digits.iter().all(u8::is_ascii_digit) && strip_prefix_any_case(b"gi7eba", base).is_some()
        }
        _ => false,
    }
}

/// Whether HFS+ takes `name` for `known`: it knows no case, and passes over some characters.
fn hfs_is(name: &[u8], known: &[u8]) -> bool {
    // Only the first few characters matter; a name that is not UTF-8 ends at its first bad byte, as it does for git.
    let mut chars = name
        .utf8_chunks()
        .flat_map(|chunk| chunk.valid().chars().map(Some).chain((!chunk.invalid().is_empty()).then_some(None)))
        .filter(|c| !c.is_some_and(hfs_ignores))
        .map(|c| c.filter(|&c| c != '\u{fffe}' && c != '\u{ffff}'));
    known.iter().all(|&b| chars.next().flatten().is_some_and(|c| c.eq_ignore_ascii_case(&char::from(b))))
        && chars.next().flatten().is_none()
}

/// Joiners, marks of direction and other characters without a look of their own.
fn hfs_ignores(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}
