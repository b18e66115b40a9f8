//! What objects name, and what there is: one flat list, sorted now and then.
//!
//! A record is an id and a byte: which kinds the id was named as, and of which kind it is if it was received. So one
//! byte beside the id holds all that is known of an object, be it named by a million trees.

use object::{HashKind, ObjectId, ObjectKind};

/// Records that are sorted at one time at least.
const LEAST: usize = 1 << 16;

/// Ids seen last, by their first bits: what a tree names its neighbour in history named, too.
const RECENT: usize = 1 << 12;

/// An id, and what is known of it: in the low four bits the kinds it was named as, in the high ones the kind it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Record<const N: usize> {
    id: [u8; N],
    known: u8,
}

/// As what an object is named.
const fn named(kind: ObjectKind) -> u8 {
    1 << (kind as u8 - 1)
}

/// What an object is.
const fn is(kind: ObjectKind) -> u8 {
    named(kind) << 4
}

/// The kind of the lowest bit.
fn lowest(bits: u8) -> Option<ObjectKind> {
    ObjectKind::ALL.into_iter().find(|kind| bits & named(*kind) != 0)
}

/// Records of one thread, or of all. N + 1 bytes each; while they are sorted half of them may stand for others.
struct Records<const N: usize> {
    list: Vec<Record<N>>,
    /// How many there may be before they are sorted again.
    room: usize,
    recent: Box<[Record<N>]>,
}

impl<const N: usize> Records<N> {
    fn new() -> Self {
        Records { list: Vec::new(), room: LEAST, recent: vec![Record { id: [0; N], known: 0 }; RECENT].into() }
    }

    #[inline]
    fn add(&mut self, id: &[u8; N], known: u8) {
        let at = usize::from(u16::from_be_bytes(id.first_chunk().copied().unwrap_or_default()));
        if let Some(recent) = self.recent.get_mut(at % RECENT) {
            if recent.known & known != 0 && recent.id == *id {
                return;
            }
            *recent = Record { id: *id, known };
        }
        self.list.push(Record { id: *id, known });
        if self.list.len() >= self.room {
            self.sort();
            self.room = LEAST.max(2 * self.list.len());
        }
    }

    /// Each id once, ascending.
    #[cold]
    fn sort(&mut self) {
        self.list.sort_unstable();
        self.list.dedup_by(|again, first| {
            let same = again.id == first.id;
            if same {
                first.known |= again.known;
            }
            same
        });
    }
}

/// Links and objects of one hash.
pub(crate) struct Links(Either);

enum Either {
    Sha1(Records<20>),
    Sha256(Records<32>),
}

impl Links {
    pub(crate) fn new(hash: HashKind) -> Links {
        Links(match hash {
            HashKind::Sha1 => Either::Sha1(Records::new()),
            HashKind::Sha256 => Either::Sha256(Records::new()),
        })
    }

    /// Something names an object of this raw id as one of this kind.
    #[inline]
    pub(crate) fn link(&mut self, id: &[u8], kind: ObjectKind) {
        self.add(id, named(kind));
    }

    /// An object was received.
    pub(crate) fn object(&mut self, id: &[u8], kind: ObjectKind) {
        self.add(id, is(kind));
    }

    #[inline]
    fn add(&mut self, id: &[u8], known: u8) {
        match &mut self.0 {
            Either::Sha1(records) => id.first_chunk().into_iter().for_each(|id| records.add(id, known)),
            Either::Sha256(records) => id.first_chunk().into_iter().for_each(|id| records.add(id, known)),
        }
    }

    /// How many records there are: ids, and some of them again.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Either::Sha1(records) => records.list.len(),
            Either::Sha256(records) => records.list.len(),
        }
    }

    /// Takes another's, which are of the same hash.
    pub(crate) fn append(&mut self, other: Links) {
        match (&mut self.0, other.0) {
            (Either::Sha1(mine), Either::Sha1(mut theirs)) => mine.list.append(&mut theirs.list),
            (Either::Sha256(mine), Either::Sha256(mut theirs)) => mine.list.append(&mut theirs.list),
            _ => {}
        }
    }

    pub(crate) fn sort(&mut self) {
        match &mut self.0 {
            Either::Sha1(records) => records.sort(),
            Either::Sha256(records) => records.sort(),
        }
    }

    /// What is known of each, in the order of [`sort`](Self::sort).
    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = (ObjectId, Known)> + '_> {
        let known = |id: &[u8], known| Some((ObjectId::from_bytes(id).ok()?, Known(known)));
        match &self.0 {
            Either::Sha1(records) => Box::new(records.list.iter().filter_map(move |one| known(&one.id, one.known))),
            Either::Sha256(records) => Box::new(records.list.iter().filter_map(move |one| known(&one.id, one.known))),
        }
    }

    /// What is known of one, after [`sort`](Self::sort).
    pub(crate) fn get(&self, id: &ObjectId) -> Known {
        fn find<const N: usize>(list: &[Record<N>], id: &[u8]) -> u8 {
            let found = list.binary_search_by(|one| one.id.as_slice().cmp(id)).ok();
            found.and_then(|at| list.get(at)).map_or(0, |one| one.known)
        }
        Known(match &self.0 {
            Either::Sha1(records) => find(&records.list, id.as_bytes()),
            Either::Sha256(records) => find(&records.list, id.as_bytes()),
        })
    }
}

/// What is known of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known(u8);

impl Known {
    /// What it is, if it was received.
    pub(crate) fn kind(self) -> Option<ObjectKind> {
        lowest(self.0 >> 4)
    }

    /// Whether anything names it.
    pub(crate) fn is_named(self) -> bool {
        self.0 & 15 != 0
    }

    /// What else it was named as.
    pub(crate) fn named_other_than(self, kind: ObjectKind) -> Option<ObjectKind> {
        lowest(self.0 & 15 & !named(kind))
    }

    /// What it was named as, first by the kinds' numbers.
    pub(crate) fn named_as(self) -> Option<ObjectKind> {
        lowest(self.0 & 15)
    }
}
