//! Files with right checksums and wrong contents: which error each gives.

use std::sync::Arc;

use object::{HashKind, ObjectId};
use odb::Pack;
use pack_format::IdxPos;
use packstone_pack_bitmap::{AnswerError, BitmapFile, ParseError, ParseErrorKind, Request, Scratch, answer};
use revwalk::{Commits, Numbering, Shallow};
use testkit::{Hash, TestRepo};

use crate::parts::{HASHES, PSEUDO, Parts, TABLE, bits, made_of};
use crate::world::store;

/// A repository of some commits, its pack, and its bitmap file in parts, every commit with a bitmap of its own.
struct Made {
    repo: TestRepo,
    pack: Arc<Pack>,
    parts: Parts,
}

impl Made {
    fn new(hash: Hash) -> Made {
        let repo = TestRepo::linear(hash, 6);
        repo.repack_with_bitmap();
        let pack = store(&repo).packs().unwrap()[0].clone();
        let mut parts = Parts::of_repo(&repo);
        let file = BitmapFile::parse(parts.bytes(), pack.hash_kind(), pack.count(), &pack.checksum().unwrap()).unwrap();
        let mut scratch = Scratch::new();
        for e in &mut parts.entries {
            let commit = IdxPos::new(e.pos);
            let bit = pack.order().unwrap().pack_pos(commit);
            let words = file.reach(commit, bit, &mut scratch).unwrap().unwrap();
            let ones = (0..pack.count()).filter(|b| words[*b as usize / 64] >> (b % 64) & 1 == 1);
            e.bitmap = made_of(ones, pack.count());
            e.xor = 0;
        }
        Made { repo, pack, parts }
    }

    fn parse(&self, parts: &Parts) -> Result<BitmapFile<Vec<u8>>, ParseError> {
        BitmapFile::parse(parts.bytes(), self.pack.hash_kind(), self.pack.count(), &self.pack.checksum().unwrap())
    }

    fn refused(&self, change: impl FnOnce(&mut Parts)) -> ParseErrorKind {
        let mut parts = self.parts.clone();
        change(&mut parts);
        self.parse(&parts).expect_err("must not parse").kind
    }

    /// The error that asking for a commit gives, the file being structurally right.
    fn asked(&self, want: &str, change: impl FnOnce(&mut Parts)) -> ParseErrorKind {
        let mut parts = self.parts.clone();
        change(&mut parts);
        let file = self.parse(&parts).expect("parses");
        let store = store(&self.repo);
        let numbering = Numbering::new(&store, Some(&self.pack)).unwrap();
        let commits = Commits::new(&store, None, Shallow::none());
        let want = [self.repo.rev_parse(want).parse().unwrap()];
        match answer(&numbering, &file, &commits, &Request::new(&want)).unwrap_err() {
            AnswerError::Bitmap(error) => error.kind,
            other => panic!("{other:?}"),
        }
    }

    /// Bit of an object, and number of the entry of a commit.
    fn bit(&self, name: &str) -> u32 {
        let id: ObjectId = self.repo.rev_parse(name).parse().unwrap();
        self.pack.order().unwrap().pack_pos(self.pack.idx().lookup(&id).unwrap()).get()
    }

    fn entry(&self, name: &str) -> usize {
        let id: ObjectId = self.repo.rev_parse(name).parse().unwrap();
        let pos = self.pack.idx().lookup(&id).unwrap().get();
        self.parts.entries.iter().position(|e| e.pos == pos).unwrap()
    }
}

fn without(bitmap: &[u8], bit: u32) -> Vec<u8> {
    let (ones, len) = bits(bitmap);
    made_of(ones.into_iter().filter(|b| *b != bit), len)
}

#[test]
fn types_that_overlap_or_leave_objects_out() {
    for hash in Hash::ALL {
        let made = Made::new(hash);
        let objects = made.pack.count();
        let types = |typed| ParseErrorKind::Types { typed, objects };
        let n = u64::from(objects);
        let tree = made.bit("main^{tree}");
        assert_eq!(made.refused(|p| p.types[1] = without(&p.types[1], tree)), types(n - 1));
        assert_eq!(made.refused(|p| p.types[3] = made_of([tree], objects)), types(n + 1));
        // One twice and one not at all: the sum is right.
        let kind = made.refused(|p| {
            p.types[1] = without(&p.types[1], tree);
            p.types[3] = made_of([made.bit("main")], objects);
        });
        assert_eq!(kind, types(n));
        // A commit called a blob.
        let commit = made.bit("main");
        let kind = made.asked("main", |p| {
            p.types[0] = without(&p.types[0], commit);
            let (mut ones, len) = bits(&p.types[2]);
            ones.push(commit);
            ones.sort();
            p.types[2] = made_of(ones, len);
        });
        assert!(matches!(kind, ParseErrorKind::Kind { .. }), "{kind}");
    }
}

#[test]
fn sets_that_are_not_closed() {
    for hash in Hash::ALL {
        let made = Made::new(hash);
        let entry = made.entry("main");
        for (lack, what) in [("main", "own bit"), ("main^{tree}", "tree"), ("main~1", "parent")] {
            let bit = made.bit(lack);
            let kind = made.asked("main", |p| {
                p.entries[entry].bitmap = without(&p.entries[entry].bitmap, bit);
            });
            let pos = made.parts.entries[entry].pos;
            assert_eq!(kind, ParseErrorKind::NotClosed { pos, what });
        }
    }
}

/// In a repository this small, all links are followed: no object can be left out unseen.
#[test]
fn sets_that_lack_any_one_object() {
    for hash in Hash::ALL {
        let made = Made::new(hash);
        let entry = made.entry("main");
        let pos = made.parts.entries[entry].pos;
        let reached = made.repo.rev_list_objects(&["main"]);
        assert!(reached.len() > 20);
        for lack in reached {
            let bit = made.bit(&lack);
            let kind = made.asked("main", |p| {
                p.entries[entry].bitmap = without(&p.entries[entry].bitmap, bit);
            });
            assert!(matches!(kind, ParseErrorKind::NotClosed { pos: at, .. } if at == pos), "{lack}: {kind}");
        }
    }
}

#[test]
fn entries_of_no_commit_or_twice() {
    let made = Made::new(Hash::Sha1);
    let pos = made.parts.entries[0].pos;
    let twice = made.refused(|p| p.entries.push(p.entries[0].clone()));
    assert_eq!(twice, ParseErrorKind::Order { pos });
    let kind = made.refused(|p| p.entries[2].pos = 1 << 20);
    let limit = made.pack.count().into();
    assert_eq!(kind, ParseErrorKind::OutOfRange { what: "commit", found: 1 << 20, limit });
    let kind = made.refused(|p| p.count = Some(p.entries.len() as u32 - 1));
    assert!(matches!(kind, ParseErrorKind::Stray { .. }), "{kind}");
    let kind = made.refused(|p| p.count = Some(p.entries.len() as u32 + 1));
    assert!(matches!(kind, ParseErrorKind::Truncated { .. }), "{kind}");
    // XORed with itself, with one after it, with one too far away.
    for (nr, xor) in [(0, 1), (2, 3), (2, 161), (5, 255)] {
        let kind = made.refused(|p| p.entries[nr].xor = xor);
        assert_eq!(kind, ParseErrorKind::XorOffset { distance: xor.into() });
    }
}

#[test]
fn lookup_tables_that_lie() {
    for hash in Hash::ALL {
        let mut made = Made::new(hash);
        made.parts.flags |= TABLE;
        made.parts.table = made.parts.rows();
        let file = made.parse(&made.parts).unwrap();
        assert!(file.has_lookup_table());
        assert!(file.commits().map(IdxPos::get).eq(made.parts.table.iter().map(|r| r.0)));
        file.verify_all(made.pack.order().unwrap(), &mut Scratch::new()).unwrap();

        let kind = made.refused(|p| p.table.swap(0, 1));
        assert!(matches!(kind, ParseErrorKind::Order { .. }), "{kind}");
        let kind = made.refused(|p| p.table[1].0 = p.table[0].0);
        assert!(matches!(kind, ParseErrorKind::Order { .. }), "{kind}");
        let kind = made.refused(|p| p.table.last_mut().unwrap().0 = u32::MAX);
        assert!(matches!(kind, ParseErrorKind::OutOfRange { .. }), "{kind}");

        // What shows when a row is used. Not the first or last entry of the file: those are looked at by `parse`.
        let row = |name: &str| {
            let pos = made.parts.entries[made.entry(name)].pos;
            made.parts.table.iter().position(|r| r.0 == pos).unwrap()
        };
        let order: Vec<u32> = made.parts.entries.iter().map(|e| e.pos).collect();
        let name = ["main~1", "main~2", "main~3"].into_iter().find(|n| {
            let at = made.entry(n);
            at > 0 && at + 1 < order.len()
        });
        let name = name.unwrap();
        let r = row(name);
        for offset in [0, 1, 1 << 40, u64::MAX, u64::MAX - 3] {
            // Seen by `parse`, since it is now the least or the greatest.
            let kind = made.refused(|p| p.table[r].1 = offset);
            assert!(matches!(kind, ParseErrorKind::OutOfRange { .. } | ParseErrorKind::Stray { .. }), "{kind}");
        }
        let kind = made.asked(name, |p| p.table[r].1 += 1);
        assert_eq!(kind, ParseErrorKind::Disagree { what: "the commit" });
        let xored = ParseErrorKind::Disagree { what: "what the bitmap is XORed with" };
        assert_eq!(made.asked(name, |p| p.table[r].2 = 0), xored);
        let at = made.entry(name);
        assert_eq!(made.asked(name, |p| p.entries[at].xor = 1), xored);
        // A base that is the entry itself: a circle, if it were followed.
        let circle = ParseErrorKind::XorOffset { distance: 0 };
        let to = |base: u32| {
            made.asked(name, |p| {
                p.entries[at].xor = 1;
                p.table[r].2 = base;
            })
        };
        assert_eq!(to(r as u32), circle);
        let later = made.parts.table.iter().enumerate().max_by_key(|(_, r)| r.1).unwrap().0;
        assert_eq!(to(later as u32), circle);
        let kind = to(made.parts.table.len() as u32);
        assert!(matches!(kind, ParseErrorKind::OutOfRange { .. }), "{kind}");
    }
}

#[test]
fn sections_that_do_not_fit() {
    let made = Made::new(Hash::Sha256);
    // Claimed and not there.
    for flag in [TABLE, PSEUDO, TABLE | PSEUDO] {
        let mut parts = made.parts.clone();
        parts.flags |= flag;
        let mut bytes = parts.bytes();
        if flag & TABLE != 0 {
            // Take the table out again that `bytes` made.
            let len = parts.entries.len() * 16;
            let end = bytes.len() - 32 - parts.names.len();
            bytes.drain(end - len..end);
        }
        let pack = made.pack.checksum().unwrap();
        let got = BitmapFile::parse(bytes, HashKind::Sha256, made.pack.count(), &pack);
        assert!(got.is_err(), "{flag:#x}");
    }
    // Pseudo-merges: only the size counts, which includes the 24 bytes of the trailer.
    let section = |size: u64, len: usize| {
        let mut s = vec![0; len - 8];
        s.extend(size.to_be_bytes());
        s
    };
    for (size, len, fine) in [
        (24, 24, true),
        (100, 100, true),
        (0, 24, false),
        (23, 24, false),
        (25, 24, false),
        (1 << 40, 24, false),
        (u64::MAX, 24, false),
        (24, 100, false),
    ] {
        let mut parts = made.parts.clone();
        parts.flags |= PSEUDO;
        parts.pseudo = section(size, len);
        assert_eq!(made.parse(&parts).is_ok(), fine, "{size} in {len}");
        parts.flags |= TABLE;
        assert_eq!(made.parse(&parts).is_ok(), fine, "{size} in {len}, with a table");
    }
    // A cache of names for fewer objects.
    let kind = made.refused(|p| {
        assert!(p.flags & HASHES != 0);
        p.names.truncate(4);
    });
    assert!(!kind.to_string().is_empty());
    // The hash of another kind of repository: the header is longer or shorter.
    let pack = made.pack.checksum().unwrap();
    let sha1 = ObjectId::from_bytes(&pack.as_bytes()[..20]).unwrap();
    assert!(BitmapFile::parse(made.parts.bytes(), HashKind::Sha1, made.pack.count(), &sha1).is_err());
    // Another number of objects than the pack has.
    for count in [0, 1, made.pack.count() - 1, made.pack.count() + 1, made.pack.count() + 64] {
        assert!(BitmapFile::parse(made.parts.bytes(), HashKind::Sha256, count, &pack).is_err(), "{count}");
    }
}

#[test]
fn checksums_are_compared() {
    let made = Made::new(Hash::Sha1);
    made.parse(&made.parts).unwrap().verify_checksum().unwrap();
    let mut bytes = made.parts.bytes();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let pack = made.pack.checksum().unwrap();
    let file = BitmapFile::parse(bytes, HashKind::Sha1, made.pack.count(), &pack).unwrap();
    let error = file.verify_checksum().unwrap_err();
    assert_eq!(error.at as usize, last + 1 - 20);
    assert!(matches!(error.kind, ParseErrorKind::Checksum { .. }));
}

#[test]
fn a_pack_of_nothing() {
    let empty = made_of([], 0);
    let parts = Parts {
        hash: Hash::Sha1,
        flags: 1,
        count: None,
        pack: vec![7; 20],
        types: vec![empty; 4],
        entries: vec![],
        pseudo: vec![],
        table: vec![],
        names: vec![],
    };
    let pack = ObjectId::from_bytes(&[7; 20]).unwrap();
    let file = BitmapFile::parse(parts.bytes(), HashKind::Sha1, 0, &pack).unwrap();
    assert_eq!((file.object_count(), file.entry_count()), (0, 0));
    assert!(!file.has_commit(IdxPos::new(0)));
}
