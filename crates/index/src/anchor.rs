//! Where an entry of version 2 or 3 begins, found from any place among the entries, for certain; and where the last ends.
//!
//! Records have no mark at their start, but they give themselves away: the true ones follow each other without a gap. So
//! every place where a record that covers the spot could begin is taken for one, and followed: to where its length says the
//! next begins, to the one behind, and so on. Whoever arrives at something that is no record, or at a path that does not
//! come behind the one before, was wrong. The true ones are never dropped, and those who meet go on as one: when a single
//! one is left, it is true, whatever the bytes are, as long as the entries as a whole are sound.

use object::HashKind;

use crate::entry::{EXTENDED, INTENT_TO_ADD, NAME_MASK, SKIP_WORKTREE, STAGE_SHIFT, Stage};
use crate::entry::{be16, head_len, path_len, record_len, whole_head_len};
use crate::ext;
use crate::header::Header;
use crate::store::{AHEAD, touch};

/// So many records are followed at most. What is sound needs a few hundred.
const PATIENCE: usize = 1 << 14;

/// Path and stage: what entries are ordered by.
type Key<'a> = (&'a [u8], Stage);

/// One who may be right.
struct Candidate<'a> {
    at: usize,
    /// What the record here has to come behind.
    before: Option<Key<'a>>,
}

/// Longest path behind which a NUL is looked for.
const LONGEST_PATH: usize = 1 << 14;

/// What may be at a place.
enum Look<'a> {
    /// A record that a reader would accept: where it ends, and its key.
    Record(usize, Key<'a>),
    Nothing,
    /// Too long to say.
    Unknown,
}

impl<'a> Look<'a> {
    fn at(at: usize, bytes: &'a [u8], kind: HashKind) -> Self {
        Self::try_at(at, bytes, kind).unwrap_or(Look::Nothing)
    }

    #[inline]
    fn try_at(at: usize, bytes: &'a [u8], kind: HashKind) -> Option<Self> {
        let rest = bytes.get(at..)?;
        let base = head_len(kind);
        let word = be16(rest.get(..base)?, base - 2);
        if word & EXTENDED != 0 && be16(rest, base) & !(SKIP_WORKTREE | INTENT_TO_ADD) != 0 {
            return None;
        }
        let head = whole_head_len(rest, kind);
        let near = rest.get(..head + LONGEST_PATH).unwrap_or(rest);
        let Some(len) = path_len(near, head, kind) else {
            return (near.len() < rest.len()).then_some(Look::Unknown);
        };
        let (path, nul) = rest.get(head..)?.split_at_checked(len)?;
        let end = at + record_len(head, len);
        let sound = len > 0 && nul.first() == Some(&0) && end <= bytes.len();
        sound.then_some(Look::Record(end, (path, Stage::from_bits((word >> STAGE_SHIFT) as u8))))
    }
}

/// What following leads to.
#[derive(Debug, PartialEq, Eq)]
enum Followed {
    /// A record begins here.
    Record(usize),
    /// The last record ends where the bytes do.
    End,
    /// These are no records.
    Nobody,
    Unsure,
}

/// The beginning of a record near `near`. `bytes` ends where the entries do, and `known` is where some record in front
/// begins. `None`: it cannot be told.
///
/// O(1): looks at some 8 KiB.
pub(crate) fn find(bytes: &[u8], known: usize, near: usize, kind: HashKind) -> Option<usize> {
    match follow(bytes, known, near, kind) {
        Followed::Record(at) => Some(at),
        _ => None,
    }
}

fn follow(bytes: &[u8], known: usize, near: usize, kind: HashKind) -> Followed {
    // The longest record whose flags say its length. A longer one holds no NUL but at its ends.
    let longest = record_len(head_len(kind) + 2, usize::from(NAME_MASK) - 1);
    let near = near.min(bytes.len()) / 8 * 8 + Header::LEN % 8;
    let from = near.saturating_sub(longest);
    if from <= known {
        return if known < bytes.len() { Followed::Record(known) } else { Followed::End };
    }
    let middle = bytes.get(from + head_len(kind) + 2..near);
    if middle.and_then(|middle| memchr::memchr(0, middle)).is_none() {
        return Followed::Unsure;
    }
    let mut candidates: Vec<Candidate<'_>> = (from..=near)
        .step_by(8)
        .filter(|&at| !matches!(Look::at(at, bytes, kind), Look::Nothing))
        .map(|at| Candidate { at, before: None })
        .collect();
    // The last in the list is the first in the file.
    candidates.reverse();
    for _ in 0..PATIENCE {
        let Some(Candidate { at, before }) = candidates.pop() else { return Followed::Nobody };
        if at == bytes.len() {
            return Followed::End; // the others were in front, or have met
        }
        if candidates.is_empty() {
            return Followed::Record(at);
        }
        let (next, key) = match Look::at(at, bytes, kind) {
            Look::Record(next, key) if before.is_none_or(|before| before < key) => (next, key),
            Look::Unknown => return Followed::Unsure,
            _ => continue,
        };
        let place = candidates.partition_point(|other| other.at > next);
        match candidates.get_mut(place).filter(|other| other.at == next) {
            // Both are followed as one: what is asked of it must not be more than of either.
            Some(other) => other.before = other.before.map(|before| before.min(key)),
            None => candidates.insert(place, Candidate { at: next, before: Some(key) }),
        }
    }
    Followed::Unsure
}

/// So many extension headers are followed at most.
const MAX_HEADERS: usize = 1 << 12;

/// Where the last of `count` records ends, and the extensions begin; `bytes` ends where the trailer begins. `None`: it cannot
/// be told.
///
/// O(n), but looks only at what lies behind the place where the shortest records would end: every place there from which
/// extensions lead exactly to the trailer may be it. Of those only one is right, and records lead there.
pub(crate) fn end(bytes: &[u8], count: u32, kind: HashKind) -> Option<usize> {
    let shortest = record_len(head_len(kind), 1);
    let least = usize::try_from(count).ok()?.checked_mul(shortest)?.checked_add(Header::LEN)?;
    let mut patience = MAX_HEADERS;
    let mut ends = Vec::new();
    let longest = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    for (row, chunk) in bytes.get(least..)?.chunks(ROW).enumerate() {
        let at = least + row * ROW;
        if row % (AHEAD / ROW) == 0 {
            touch(bytes, at + AHEAD, AHEAD);
        }
        if may_hold_header(chunk, longest) {
            for at in (at..at + chunk.len()).step_by(8) {
                if leads_to_end(bytes, at, &mut patience)? {
                    ends.push(at);
                }
            }
        }
    }
    if bytes.len() % 8 == Header::LEN % 8 {
        ends.push(bytes.len());
    }
    let mut right = None;
    for end in ends {
        if is_led_to(bytes.get(..end)?, kind)? && right.replace(end).is_some() {
            return None;
        }
    }
    right
}

/// Bytes that are looked at in one go.
const ROW: usize = 512;

/// Whether a header with a signature of letters and a length of about `longest` at most may begin at a multiple of eight, or
/// the rest of these bytes is too short to tell.
fn may_hold_header(row: &[u8], longest: u32) -> bool {
    // In every letter bit 6 is set and bit 7 is not.
    const BITS: u64 = 0xc0c0_c0c0 << 32;
    const LETTERS: u64 = 0x4040_4040 << 32;
    let unused = !(u32::MAX.checked_shr(longest.leading_zeros()).unwrap_or(0));
    // Turned around once, so that no word has to be.
    let (bits, letters) = ((BITS | u64::from(unused)).swap_bytes(), LETTERS.swap_bytes());
    let (words, rest) = row.as_chunks::<8>();
    let hit = |word: &[u8; 8]| u64::from_le_bytes(*word) & bits == letters;
    !rest.is_empty() || words.iter().fold(false, |any, word| any | hit(word))
}

/// Whether extensions follow each other from `at` to the end. `None`: patience is over.
fn leads_to_end(bytes: &[u8], mut at: usize, patience: &mut usize) -> Option<bool> {
    let mut headers = 0;
    while at < bytes.len() {
        let Some(&[a, b, c, d, e, f, g, h]) = bytes.get(at..).and_then(|rest| rest.first_chunk()) else {
            return Some(false);
        };
        let len = u32::from_be_bytes([e, f, g, h]) as usize;
        if ![a, b, c, d].iter().all(u8::is_ascii_alphabetic) || len > bytes.len() - at - ext::HEADER_LEN {
            return Some(false);
        }
        headers += 1;
        // The end of a path and the padding behind it look like one header.
        if headers > 1 {
            *patience = patience.checked_sub(1)?;
        }
        at += ext::HEADER_LEN + len;
    }
    Some(true)
}

/// Whether records follow each other up to the end of these bytes. `None`: it cannot be told.
fn is_led_to(bytes: &[u8], kind: HashKind) -> Option<bool> {
    const LAST: usize = 16 << 10;
    let mut at = match follow(bytes, Header::LEN, bytes.len().saturating_sub(LAST), kind) {
        Followed::Record(at) => at,
        Followed::End => return Some(true),
        Followed::Nobody => return Some(false),
        Followed::Unsure => return None,
    };
    while at < bytes.len() {
        match Look::at(at, bytes, kind) {
            Look::Record(next, _) => at = next,
            Look::Nothing => return Some(false),
            Look::Unknown => return None,
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of version 2 with these paths, where each begins, and where the last ends.
    fn records(paths: impl IntoIterator<Item = Vec<u8>>, kind: HashKind) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut starts) = (vec![0; Header::LEN], Vec::new());
        for (n, path) in paths.into_iter().enumerate() {
            let at = bytes.len();
            starts.push(at);
            // Stat data and ids of all kinds.
            bytes.extend((0..head_len(kind) - 2).map(|i| ((n * 31 + i) * (n + 7) / 8) as u8));
            bytes.extend((path.len().min(0xfff) as u16).to_be_bytes());
            bytes.extend(&path);
            bytes.resize(at + record_len(head_len(kind), path.len()), 0);
        }
        starts.push(bytes.len());
        (bytes, starts)
    }

    #[test]
    fn what_is_found_is_a_beginning() {
        for kind in HashKind::ALL {
            let path = |n: usize| format!("dir{:04}/{n:05}{}", n / 9, "x".repeat(n % 41)).into_bytes();
            let (bytes, starts) = records((0..4000).map(path), kind);
            let mut found = 0;
            for near in (0..bytes.len() + 20).step_by(997) {
                if let Some(at) = find(&bytes, Header::LEN, near, kind) {
                    assert!(starts.contains(&at));
                    assert!(near < 5000 || at.abs_diff(near) < 2 * LONGEST_PATH, "{at} for {near}");
                    found += 1;
                }
            }
            // At the very end there is nothing to tell by.
            assert!(found > bytes.len() / 997 - 8, "{found}");
        }
    }

    /// Paths with a second chain of records in them, which runs beside the true one, in order like it.
    #[test]
    fn a_false_chain_is_not_believed() {
        for kind in HashKind::ALL {
            let lure = |n: usize| [&b"aaaaaa\x01\x09"[..], format!("{n:0257}").as_bytes()].concat();
            let (mut bytes, starts) = records((0..PATIENCE + 2000).map(lure), kind);
            for &at in starts.split_last().map_or(&[][..], |(_, starts)| starts) {
                bytes[at..at + 40].fill(0);
            }
            let step = starts[1] - starts[0];
            let mut at = starts[0] + 8;
            for _ in 0..1000 {
                let Look::Record(next, _) = Look::at(at, &bytes, kind) else { panic!("no lure at {at}") };
                assert_eq!(next, at + step);
                at = next;
            }
            assert_eq!(find(&bytes, Header::LEN, 500_000, kind), None);
            // Without the lure in one of them, the false chain ends there.
            bytes[starts[4000] + head_len(kind) + 6] = b'x';
            let near = starts[3000];
            let at = find(&bytes, Header::LEN, near, kind).expect("found");
            assert!(starts[4000..4020].contains(&at));
        }
    }

    #[test]
    fn the_end_is_found_from_behind() {
        for kind in HashKind::ALL {
            let path = |n: usize| format!("d{:04}/{n:05}Makefile{}", n / 9, "x".repeat(n % 17)).into_bytes();
            for count in [1, 2, 3, 50, 400, 3000] {
                let (records, _) = records((0..count).map(path), kind);
                let length = records.len();
                let ext =
                    |signature: &[u8], data: &[u8]| [signature, &(data.len() as u32).to_be_bytes(), data].concat();
                let tree = ext(b"TREE", b"\x00-1 0\n");
                // An extension that holds others is one.
                let nested =
                    ext(b"ZZZZ", &[&[0, 0, 0, 0][..], &ext(b"TREE", &[7; 100]), &ext(b"REUC", &[0; 16])].concat());
                let large =
                    ext(b"UNTR", &(0..200_000u32).flat_map(|n| n.wrapping_mul(n).to_be_bytes()).collect::<Vec<_>>());
                for tail in [&[][..], &tree, &nested, &large, &[&tree[..], &large, &nested].concat()] {
                    let mut bytes = records.clone();
                    bytes.extend(tail);
                    let found = end(&bytes, count as u32, kind);
                    assert_eq!(found, Some(length), "{count} {}", tail.len());
                    // Some stray bytes, or none where some should be: it cannot be told, and is not.
                    bytes.push(0);
                    assert!(end(&bytes, count as u32, kind).is_none_or(|found| found == length));
                    bytes.truncate(bytes.len() - 2);
                    assert!(end(&bytes, count as u32, kind).is_none_or(|found| found == length));
                }
                // Records in an extension, with an extension behind them: two ends are possible.
                let mut lure = records[Header::LEN..].to_vec();
                lure.extend(ext(b"REUC", b""));
                let mut bytes = records.clone();
                bytes.extend(ext(b"LURE", &lure));
                let expected = if count < 100 { Some(length) } else { None };
                assert_eq!(end(&bytes, count as u32, kind), expected, "{count}");
            }
        }
    }

    #[test]
    fn long_paths_are_left_alone() {
        for kind in HashKind::ALL {
            let path = |n: usize| [format!("{n:06}").as_bytes(), &vec![b'x'; n % 5 * 10_000]].concat();
            let (bytes, starts) = records((0..300).map(path), kind);
            let found = |near| find(&bytes, Header::LEN, near, kind);
            assert!((0..bytes.len()).step_by(1009).filter_map(found).all(|at| starts.contains(&at)));
        }
    }
}
