//! Trees one after the other, of which each is mostly the one before: what two versions of a folder share is looked at
//! once.
//!
//! A tree that was found sound is remembered with the places of its entries. Of the next one only those entries are
//! checked that are not there in the same bytes, and how they stand to their neighbours. Whatever is not plainly sound
//! in that way is checked from its beginning, so that what is told of a tree never depends on the trees before it.

use std::ops::Range;

use super::tree::{self, Name, Pair, Scanned, bytes, head, scan};
use super::{Report, Severities, Sink, disguise};
use crate::HashKind;

/// Larger trees are not remembered.
const MOST: usize = 1 << 20;

/// Checks trees like [`check`](super::check), and remembers the last one that was sound: no more than a mebibyte, and
/// four bytes for each of its entries.
///
/// Findings are told as by `check`. Entries and special blobs that the tree before had too may be left out, and others
/// may be told twice, so all trees have to go to the same sink.
#[derive(Debug, Clone)]
pub struct TreeCheck {
    hash: HashKind,
    severities: Severities,
    content: Vec<u8>,
    /// Where each entry of it begins, and where the last one ends.
    starts: Vec<u32>,
    /// For the next.
    spare: Next,
}

/// How a tree differs from the one before.
#[derive(Debug, Clone, Default)]
struct Next {
    /// Whether entries came or went, so that others lie elsewhere.
    moved: bool,
    /// If so, where each begins.
    starts: Vec<u32>,
    /// If not, which bytes differ.
    changed: Vec<Range<usize>>,
}

impl TreeCheck {
    /// Remembers nothing yet.
    pub fn new(hash: HashKind, severities: Severities) -> Self {
        TreeCheck { hash, severities, content: Vec::new(), starts: vec![0], spare: Next::default() }
    }

    /// Tells what is wrong with the tree; `true` if none of it is an error.
    ///
    /// Linear in both trees; what they share takes the time of a comparison.
    pub fn check(&mut self, content: &[u8], sink: &mut impl Sink) -> bool {
        let mut next = std::mem::take(&mut self.spare);
        next.moved = false;
        next.starts.clear();
        next.changed.clear();
        let alike = content.len() <= MOST
            && !self.content.is_empty()
            && match self.hash {
                HashKind::Sha1 => self.alike::<20>(content, sink, &mut next).is_some(),
                HashKind::Sha256 => self.alike::<32>(content, sink, &mut next).is_some(),
            };
        if alike {
            if next.moved {
                self.remember(content, &mut next);
            } else {
                for range in next.changed.drain(..) {
                    if let (Some(old), Some(new)) = (self.content.get_mut(range.clone()), content.get(range)) {
                        old.copy_from_slice(new);
                    }
                }
            }
            self.spare = next;
            return true;
        }
        let mut report = Report::new(&self.severities, sink);
        // Nothing at all may be wrong with what is remembered, not even what is ignored.
        let plain = tree::check(content, self.hash, &mut report);
        let sound = report.sound;
        if plain && content.len() <= MOST {
            next.starts.clear();
            starts(content, self.hash, &mut next.starts);
            self.remember(content, &mut next);
        }
        self.spare = next;
        sound
    }

    fn remember(&mut self, content: &[u8], next: &mut Next) {
        self.content.clear();
        self.content.extend_from_slice(content);
        std::mem::swap(&mut self.starts, &mut next.starts);
    }

    /// Goes over what is not in the remembered tree; `None` if that is not plainly sound. Fills `next`.
    fn alike<const N: usize>(&self, content: &[u8], sink: &mut impl Sink, next: &mut Next) -> Option<()> {
        let old = self.content.as_slice();
        let last = self.starts.len() - 1; // the end is always there
        let ends = content.len().checked_sub(N + 1).is_some_and(|nul| content.get(nul) == Some(&0));
        let (mut i, mut at) = (0, 0);
        // The entry before, if it is not one that the old tree had.
        let mut new: Option<Name> = None;
        // Where the entry before begins.
        let mut before_at = None;
        loop {
            let from = *self.starts.get(i)? as usize;
            let same = common(old.get(from..)?, content.get(at..)?);
            let shared = self.starts.get(i..)?.partition_point(|&start| start as usize - from <= same) - 1;
            if shared > 0 {
                if let Some(before) = new.take() {
                    plain(content, before, entry::<N>(content, at)?)?;
                }
                let run = self.starts.get(i..i + shared)?;
                if next.moved {
                    next.starts.extend(run.iter().map(|&start| (start as usize - from + at) as u32));
                }
                before_at = run.last().map(|&start| start as usize - from + at);
                i += shared;
                at += *self.starts.get(i)? as usize - from;
            }
            if at == content.len() {
                if i != last && !next.moved {
                    next.moved = true;
                    next.starts.extend(self.starts.get(..i)?);
                }
                if next.moved {
                    next.starts.push(at as u32);
                }
                return Some(());
            }
            // One that the old tree does not have.
            let rest = content.get(at..)?;
            if rest.len() < N + 3 || !ends {
                return None;
            }
            let (mode, name_at) = head(rest).ok()?;
            let Scanned { len, slash, odd } = scan(rest.get(name_at..)?);
            let id = rest.get(name_at + len + 1..)?.first_chunk::<N>()?;
            let (first, second) = match rest.get(name_at..)? {
                [first, second, ..] => (*first, *second),
                _ => return None,
            };
            let usual = matches!(mode.0, 0o100_644 | 0o100_755 | 0o040_000 | 0o120_000 | 0o160_000);
            if slash
                || odd
                || disguise::may_be(first, second)
                || len as i64 > self.severities.max_name()
                || rest.first() == Some(&b'0')
                || !usual
                || *id == [0; N]
            {
                return None;
            }
            let name = Name { at: at + name_at, len, is_tree: mode.is_tree() };
            let before = match (new, before_at) {
                (Some(new), _) => Some(new),
                (None, Some(start)) => Some(entry::<N>(content, start)?),
                (None, None) => None,
            };
            if let Some(before) = before {
                plain(content, before, name)?;
            }
            sink.entry(mode, id);
            let (number, start) = (i, at);
            at += name_at + len + 1 + N;
            (new, before_at) = (Some(name), Some(start));
            // Where the old tree goes on: behind what sorts before this one, and behind one of its name.
            while i < last {
                let theirs = entry::<N>(old, *self.starts.get(i)? as usize)?;
                let (mine, theirs) = (key(content, name), key(old, theirs));
                match theirs.cmp(mine) {
                    std::cmp::Ordering::Less => i += 1,
                    std::cmp::Ordering::Equal => {
                        i += 1;
                        break;
                    }
                    std::cmp::Ordering::Greater => break,
                }
            }
            let stays = i == number + 1 && self.starts.get(i).is_some_and(|&start| start as usize == at);
            if !stays && !next.moved {
                next.moved = true;
                next.starts.extend(self.starts.get(..number)?);
            }
            match next.moved {
                true => next.starts.push(start as u32),
                false => next.changed.push(start..at),
            }
        }
    }
}

/// How an entry sorts.
fn key(content: &[u8], name: Name) -> impl Iterator<Item = &u8> {
    bytes(content, name).iter().chain(name.is_tree.then_some(&b'/'))
}

/// The name of the entry that begins here, where one does.
fn entry<const N: usize>(content: &[u8], at: usize) -> Option<Name> {
    let rest = content.get(at..)?;
    let (mode, name_at) = head(rest).ok()?;
    let len = scan(rest.get(name_at..)?).len;
    Some(Name { at: at + name_at, len, is_tree: mode.is_tree() })
}

/// Whether the names are in order, and no third one can have anything to do with it.
fn plain(content: &[u8], before: Name, name: Name) -> Option<()> {
    let pair = Pair::of(content, before, name);
    (pair.sorted && !pair.twice && !pair.goes_on && !pair.comes_back).then_some(())
}

/// Where each entry of a sound tree begins, and where the last one ends.
fn starts(content: &[u8], hash: HashKind, starts: &mut Vec<u32>) {
    let mut at = 0;
    while let Some(rest) = content.get(at..).filter(|rest| !rest.is_empty()) {
        starts.push(at as u32);
        at += scan(rest).len + 1 + hash.len();
    }
    starts.push(at as u32);
}

/// How many bytes both begin with.
fn common(a: &[u8], b: &[u8]) -> usize {
    let (left, right) = (a.as_chunks::<32>().0, b.as_chunks::<32>().0);
    let chunks = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    let from = chunks * 32;
    let tails = a.get(from..).unwrap_or_default().iter().zip(b.get(from..).unwrap_or_default());
    from + tails.take_while(|(a, b)| a == b).count()
}
