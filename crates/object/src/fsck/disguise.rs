//! Names by which some file system reaches `.git` and the files in a tree that git obeys.
//!
//! | file system | what it does |
//! |---|---|
//! | all | `.git` in any case is told, since some know no case |
//! | NTFS | drops dots and spaces at the end; `:` begins a stream's name; has short names of eight characters; `\` is `/` |
//! | HFS+ | passes over some characters without a look of their own |
//!
//! The short name of a long one is its first six letters, `~`, and a number from 1 to 4; then, for files that are not
//! the first of their kind, a hash of the name instead of the letters. Facts from git-config, `core.protectNTFS` and
//! `core.protectHFS`, tested against git.

/// Which names a name may stand for. A set: short names are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Reached {
    /// `.git`, also behind a `\`.
    pub(super) git: bool,
    /// `.gitmodules`, as the whole of the name.
    pub(super) modules: bool,
    /// `.gitmodules` behind so many of the name's `\`.
    pub(super) modules_behind: usize,
    pub(super) attributes: bool,
    pub(super) ignore: bool,
    pub(super) mailmap: bool,
}

/// A name that git obeys, and what NTFS makes of it where names have eight characters.
struct Known {
    name: &'static [u8],
    /// The letters in front of `~1` to `~4`.
    short: &'static [u8; 6],
    /// The hash; a beginning of it stands in front of larger numbers.
    hashed: &'static [u8; 6],
}

const MODULES: Known = Known { name: b".gitmodules", short: b"gitmod", hashed: b"gi7eba" };
const ATTRIBUTES: Known = Known { name: b".gitattributes", short: b"gitatt", hashed: b"gi7d29" };
const IGNORE: Known = Known { name: b".gitignore", short: b"gitign", hashed: b"gi250a" };
const MAILMAP: Known = Known { name: b".mailmap", short: b"mailma", hashed: b"maba30" };

/// Whether a name that holds neither `\` nor `~` can be any of them, by its first two bytes.
#[inline]
pub(super) fn may_be(first: u8, second: u8) -> bool {
    match first {
        b'.' => matches!(second, 0 | b'.' | b'g' | b'G' | b'm' | b'M' | 0xe2 | 0xef),
        // Where the characters that HFS+ passes over begin.
        _ => matches!(first, 0xe2 | 0xef),
    }
}

/// What the name may stand for.
pub(super) fn reached(name: &[u8]) -> Reached {
    let any = |known: &Known| hfs_is(name, known.name) || ntfs_is(name, known);
    let mut reached = Reached {
        git: hfs_is(name, b".git") || ntfs_is_git(name),
        modules: any(&MODULES),
        modules_behind: 0,
        attributes: any(&ATTRIBUTES),
        ignore: any(&IGNORE),
        mailmap: any(&MAILMAP),
    };
    for at in memchr::memchr_iter(b'\\', name) {
        let behind = name.get(at + 1..).unwrap_or_default();
        reached.git |= ntfs_is_git(behind);
        reached.modules_behind += usize::from(ntfs_is(behind, &MODULES));
    }
    reached
}

/// NTFS drops spaces and dots at the end of a name; a `:` begins the name of a stream of the same file.
fn ntfs_ends(tail: &[u8], separators: &[u8]) -> bool {
    match tail.iter().find(|&&byte| byte != b'.' && byte != b' ') {
        None => true,
        Some(byte) => *byte == b':' || separators.contains(byte),
    }
}

/// What is left of `name` behind this beginning, in any case.
fn strip_any_case<'n>(name: &'n [u8], start: &[u8]) -> Option<&'n [u8]> {
    let (head, tail) = name.split_at_checked(start.len())?;
    head.eq_ignore_ascii_case(start).then_some(tail)
}

/// `.git`, or the short name of the first directory made in a work tree that needs one.
fn ntfs_is_git(name: &[u8]) -> bool {
    [&b".git"[..], b"git~1"].iter().any(|known| strip_any_case(name, known).is_some_and(|tail| ntfs_ends(tail, br"\/")))
}

fn ntfs_is(name: &[u8], known: &Known) -> bool {
    if strip_any_case(name, known.name).is_some_and(|tail| ntfs_ends(tail, b"")) {
        return true;
    }
    let Some((short, tail)) = name.split_first_chunk::<8>() else { return false };
    let Some(tilde) = memchr::memchr(b'~', short).filter(|_| ntfs_ends(tail, b"")) else { return false };
    let (base, number) = short.split_at(tilde);
    match number {
        [_, b'1'..=b'4'] if base.eq_ignore_ascii_case(known.short) => true,
        [_, b'1'..=b'9', digits @ ..] => {
            digits.iter().all(u8::is_ascii_digit) && strip_any_case(known.hashed, base).is_some()
        }
        _ => false,
    }
}

/// Whether HFS+ takes `name`, up to a `/`, for `known`. Only as many characters as `known` has are looked at, and those
/// passed over.
fn hfs_is(name: &[u8], known: &[u8]) -> bool {
    // A name that is not UTF-8 ends at its first bad byte, as it does for git, which also ends it at two odd
    // characters.
    let mut chars = name
        .utf8_chunks()
        .flat_map(|chunk| chunk.valid().chars().map(Some).chain((!chunk.invalid().is_empty()).then_some(None)))
        .filter(|c| !c.is_some_and(hfs_passes_over))
        .map(|c| c.filter(|&c| c != '\u{fffe}' && c != '\u{ffff}'));
    known.iter().all(|&byte| chars.next().flatten().is_some_and(|c| c.eq_ignore_ascii_case(&char::from(byte))))
        && matches!(chars.next().flatten(), None | Some('/'))
}

/// Joiners, marks of direction and other characters without a look of their own.
fn hfs_passes_over(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}
