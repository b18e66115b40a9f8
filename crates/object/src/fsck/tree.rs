//! Trees: one pass, eight bytes at a time.
//!
//! An unsound tree has each finding once, but for symbolic links, which are told one by one as they are met. What git
//! says of modes and order is said when the entry behind could be read, so of the last one before a broken entry it is
//! not.

use super::disguise::{self, Reached};
use super::{Detail, MessageId, Report, Sink, Special};
use crate::HashKind;
use crate::tree::Mode;

/// Whether there was nothing to be said at all, ignored or not.
pub(super) fn check<S: Sink>(content: &[u8], hash: HashKind, report: &mut Report<'_, S>) -> bool {
    match hash {
        HashKind::Sha1 => entries::<S, 20>(content, report),
        HashKind::Sha256 => entries::<S, 32>(content, report),
    }
}

/// A set of findings, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found(u32);

impl Found {
    const NONE: Found = Found(0);
    const NULL: Found = Found(1);
    const SLASH: Found = Found(1 << 1);
    const DOT: Found = Found(1 << 2);
    const DOT_DOT: Found = Found(1 << 3);
    const DOT_GIT: Found = Found(1 << 4);
    const PADDED: Found = Found(1 << 5);
    const MODE: Found = Found(1 << 6);
    const TWICE: Found = Found(1 << 7);
    const UNSORTED: Found = Found(1 << 8);
    const LARGE: Found = Found(1 << 9);

    /// In the order in which git tells them.
    const ALL: [(Found, MessageId); 10] = [
        (Found::NULL, MessageId::NullSha1),
        (Found::SLASH, MessageId::FullPathname),
        (Found::DOT, MessageId::HasDot),
        (Found::DOT_DOT, MessageId::HasDotdot),
        (Found::DOT_GIT, MessageId::HasDotgit),
        (Found::PADDED, MessageId::ZeroPaddedFilemode),
        (Found::MODE, MessageId::BadFilemode),
        (Found::TWICE, MessageId::DuplicateEntries),
        (Found::UNSORTED, MessageId::TreeNotSorted),
        (Found::LARGE, MessageId::LargePathname),
    ];

    #[inline]
    fn add(&mut self, other: Found) {
        self.0 |= other.0;
    }
}

fn entries<S: Sink, const N: usize>(content: &[u8], report: &mut Report<'_, S>) -> bool {
    let (max_name, strict) = (report.severities.max_name(), report.severities.is_strict());
    let mut found = Found::NONE;
    let mut plain = true;
    // What is said of an entry once the next could be read.
    let mut late = Found::NONE;
    let mut order = Order::new(content);
    let mut at = 0;
    // Behind the last name a NUL stands, and an id: then no search for a NUL runs off the end, and no id does.
    let ends = content.len().checked_sub(N + 1).is_some_and(|nul| content.get(nul) == Some(&0));
    while at < content.len() {
        let rest = content.get(at..).unwrap_or_default();
        let head = match rest.len() < N + 3 || !ends {
            true => Err("too-short tree object"),
            false => head(rest),
        };
        let (mode, name_at) = match head {
            Ok(head) => head,
            Err(why) => {
                let _ = report.say(MessageId::BadTree, Detail::Parse(why));
                late = Found::NONE;
                plain = false;
                break;
            }
        };
        found.add(late);
        late = Found::NONE;
        let Scanned { len, slash, odd } = scan(rest.get(name_at..).unwrap_or_default());
        let Some(id) = rest.get(name_at + len + 1..).and_then(|rest| rest.first_chunk::<N>()) else { break };
        report.sink.entry(mode, id);
        if slash {
            found.add(Found::SLASH);
        }
        let (first, second) = match rest.get(name_at..) {
            Some([first, second, ..]) => (*first, *second),
            _ => (0, 0),
        };
        if odd || disguise::may_be(first, second) {
            let name = rest.get(name_at..name_at + len).unwrap_or_default();
            found.add(odd_name(name, mode, id, &mut plain, report));
        }
        if len as i64 > max_name {
            found.add(Found::LARGE);
        }
        if rest.first() == Some(&b'0') {
            found.add(Found::PADDED);
        }
        if id.first_chunk() == Some(&[0; 8]) && *id == [0; N] {
            found.add(Found::NULL);
        }
        match mode.0 {
            0o100_644 | 0o100_755 | 0o040_000 | 0o120_000 | 0o160_000 => {}
            0o100_664 if !strict => {}
            _ => late.add(Found::MODE),
        }
        late.add(order.next(Name { at: at + name_at, len, is_tree: mode.is_tree() }));
        at += name_at + len + 1 + N;
    }
    found.add(late);
    if found != Found::NONE {
        for (one, id) in Found::ALL {
            if found.0 & one.0 != 0 {
                // What else is wrong with a tree is told in any case.
                let _ = report.say(id, Detail::None);
            }
        }
    }
    plain && found == Found::NONE
}

/// The mode, and where the name begins; or what git says of the entry. A NUL stands somewhere behind.
#[inline]
pub(super) fn head(rest: &[u8]) -> Result<(Mode, usize), &'static str> {
    // What nearly all are.
    let word = load(rest, 0);
    let (mode, name_at) = match word & 0x00ff_ffff_ffff_ffff {
        REGULAR => (Mode(0o100_644), 7),
        EXECUTABLE => (Mode(0o100_755), 7),
        _ if word & 0x0000_ffff_ffff_ffff == FOLDER => (Mode(0o040_000), 6),
        _ => any_mode(rest).ok_or("malformed mode in tree entry")?,
    };
    match rest.get(name_at) {
        Some(0) | None => Err("empty filename in tree entry"),
        Some(_) => Ok((mode, name_at)),
    }
}

const REGULAR: u64 = u64::from_le_bytes(*b"100644 \0");
const EXECUTABLE: u64 = u64::from_le_bytes(*b"100755 \0");
const FOLDER: u64 = u64::from_le_bytes(*b"40000 \0\0");

/// Octal digits, one at least, and a space. Sixteen bits are kept, as git does.
#[cold]
fn any_mode(rest: &[u8]) -> Option<(Mode, usize)> {
    let mut mode = 0;
    for (at, &byte) in rest.iter().enumerate() {
        match byte {
            b'0'..=b'7' => mode = (mode << 3 | u32::from(byte - b'0')) & 0xffff,
            b' ' if at > 0 => return Some((Mode(mode), at + 1)),
            _ => return None,
        }
    }
    None
}

/// Eight bytes, little endian; zeros where there are none.
#[inline]
fn load(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => 0,
    }
}

/// A name, as far as one look at its bytes goes.
pub(super) struct Scanned {
    pub(super) len: usize,
    /// Whether there is a `/` in it.
    pub(super) slash: bool,
    /// Whether there is a `\` or a `~` in it.
    pub(super) odd: bool,
}

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Marks the bytes that are zero. The lowest mark is true; only higher ones can be false.
#[inline]
fn zeros(word: u64) -> u64 {
    word.wrapping_sub(LOW) & !word & HIGH
}

/// The name that ends at the first NUL. Twenty bytes or more follow it, so that whole words can be read.
#[inline]
pub(super) fn scan(bytes: &[u8]) -> Scanned {
    let (mut slash, mut odd) = (0, 0);
    let mut len = 0;
    for chunk in bytes.as_chunks::<8>().0 {
        let word = u64::from_le_bytes(*chunk);
        let ends = zeros(word);
        // The marks below the name's end, all of them where it has none.
        let below = (ends & ends.wrapping_neg()).wrapping_sub(1);
        slash |= zeros(word ^ (LOW * b'/' as u64)) & below;
        odd |= (zeros(word ^ (LOW * b'\\' as u64)) | zeros(word ^ (LOW * b'~' as u64))) & below;
        if ends != 0 {
            len += (ends.trailing_zeros() / 8) as usize;
            return Scanned { len, slash: slash != 0, odd: odd != 0 };
        }
        len += 8;
    }
    // Not reached where an id follows.
    let tail = bytes.get(len..).unwrap_or_default();
    len += memchr::memchr(0, tail).unwrap_or(tail.len());
    let name = bytes.get(..len).unwrap_or_default();
    Scanned { len, slash: memchr::memchr(b'/', name).is_some(), odd: memchr::memchr2(b'\\', b'~', name).is_some() }
}

/// A name that may be no ordinary one.
#[cold]
fn odd_name<S: Sink, const N: usize>(
    name: &[u8],
    mode: Mode,
    id: &[u8; N],
    plain: &mut bool,
    report: &mut Report<'_, S>,
) -> Found {
    let mut found = Found::NONE;
    match name {
        b"." => found.add(Found::DOT),
        b".." => found.add(Found::DOT_DOT),
        _ => {}
    }
    let Reached { git, modules, modules_behind, attributes, ignore, mailmap } = disguise::reached(name);
    if git {
        found.add(Found::DOT_GIT);
    }
    let link = mode.is_symlink();
    let mut reached = |yes: bool, special, message| match special {
        _ if !yes => {}
        _ if link => {
            *plain = false;
            let _ = report.say(message, Detail::None);
        }
        Some(special) => report.sink.special(special, id),
        None => {}
    };
    reached(modules, Some(Special::Modules), MessageId::GitmodulesSymlink);
    reached(attributes, Some(Special::Attributes), MessageId::GitattributesSymlink);
    reached(ignore, None, MessageId::GitignoreSymlink);
    reached(mailmap, None, MessageId::MailmapSymlink);
    for _ in 0..modules_behind {
        reached(true, Some(Special::Modules), MessageId::GitmodulesSymlink);
    }
    found
}

/// Where a name stands, and whether it sorts as if a `/` followed it.
#[derive(Clone, Copy)]
pub(super) struct Name {
    pub(super) at: usize,
    pub(super) len: usize,
    pub(super) is_tree: bool,
}

/// How a name stands to the one before it.
pub(super) struct Pair {
    /// Both are the same.
    pub(super) twice: bool,
    pub(super) sorted: bool,
    /// A file's name is the beginning of this one, which goes on with a byte below `/`.
    pub(super) goes_on: bool,
    /// This is a directory, and the beginning of the name before it, which goes on with a byte below `/`.
    pub(super) comes_back: bool,
}

impl Pair {
    #[inline]
    pub(super) fn of(content: &[u8], before: Name, name: Name) -> Pair {
        // How many bytes agree; beyond the shorter name's NUL that means nothing, but by then they have come apart.
        let mut same = 0;
        loop {
            let differ = load(content, before.at + same) ^ load(content, name.at + same);
            if differ != 0 {
                same += (differ.trailing_zeros() / 8) as usize;
                break;
            }
            same += 8;
            if same > name.len {
                break;
            }
        }
        if same >= before.len && same >= name.len {
            return Pair { twice: true, sorted: false, goes_on: false, comes_back: false };
        }
        let sorts_as = |of: Name| match same < of.len {
            true => content.get(of.at + same).copied().unwrap_or(0),
            false if of.is_tree => b'/',
            false => 0,
        };
        let (first, second) = (sorts_as(before), sorts_as(name));
        Pair {
            twice: false,
            sorted: first < second,
            goes_on: first == 0 && second < b'/',
            comes_back: second == b'/' && same >= name.len && first < b'/',
        }
    }
}

pub(super) fn bytes(content: &[u8], name: Name) -> &[u8] {
    content.get(name.at..name.at + name.len).unwrap_or_default()
}

/// Whether names are in order, and none is there twice.
///
/// Two entries of one name need not be neighbours: `a`, `a.c` and the directory `a/` are in order. Between a file and a
/// directory of its name only names can stand that begin with it and go on with a byte below `/`. So the files that the
/// name behind them went on in that way are kept, each the beginning of the next, until a name comes that does not go
/// on.
struct Order<'c> {
    content: &'c [u8],
    before: Option<Name>,
    open: Vec<Name>,
}

impl<'c> Order<'c> {
    fn new(content: &'c [u8]) -> Self {
        Order { content, before: None, open: Vec::new() }
    }

    fn bytes(&self, name: Name) -> &'c [u8] {
        bytes(self.content, name)
    }

    #[inline]
    fn next(&mut self, name: Name) -> Found {
        let Some(before) = self.before.replace(name) else { return Found::NONE };
        let pair = Pair::of(self.content, before, name);
        if pair.twice {
            return Found::TWICE;
        }
        if pair.goes_on {
            self.keep(before);
        } else if pair.comes_back && self.is_open(name) {
            return Found::TWICE;
        }
        if pair.sorted { Found::NONE } else { Found::UNSORTED }
    }

    /// A file whose name the next one goes on. Those that do not begin it are let go.
    fn keep(&mut self, file: Name) {
        let name = self.bytes(file);
        while self.open.pop_if(|kept| !name.starts_with(bytes(self.content, *kept))).is_some() {}
        self.open.push(file);
    }

    /// Whether a file of this directory's name is kept. Those that neither it nor names behind it can go on are let go.
    fn is_open(&mut self, directory: Name) -> bool {
        let name = self.bytes(directory);
        while let Some(file) = self.open.pop() {
            let kept = self.bytes(file);
            match name.strip_prefix(kept) {
                Some([]) => return true,
                Some([byte, ..]) if *byte < b'/' => {
                    self.open.push(file);
                    return false;
                }
                _ => {}
            }
        }
        false
    }
}
