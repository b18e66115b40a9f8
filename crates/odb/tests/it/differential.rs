//! What git says about every object, in every layout: kind, size, bytes on disk, delta base, shortest abbreviation.

use object::{ObjectId, Prefix};
use packstone_odb::{Location, PrefixMatch, Store};
use testkit::{Hash, TestRepo};

use crate::support::{hex, id, objects_by_git, store};

const FORMAT: &str = "--batch-check=%(objectname) %(objecttype) %(objectsize) %(objectsize:disk) %(deltabase)";

/// Compares all that git tells of all objects with what the store says. How many of them are deltas.
pub(crate) fn assert_as_git(repo: &TestRepo, store: &Store) -> usize {
    let lines = repo.git_str(["cat-file", "--batch-all-objects", FORMAT]);
    let mut ids = Vec::new();
    let mut deltas = 0;
    for line in lines.lines() {
        let name = hex(line.split(' ').next().unwrap());
        let header = store.header(&name).unwrap();
        let info = store.entry(&name).unwrap();
        let base = info.delta_base.unwrap_or(id(&vec![0; name.as_bytes().len()]));
        let ours = format!("{name} {} {} {} {base}", header.kind.name(), header.size, info.disk_size);
        assert_eq!(ours, line);
        deltas += usize::from(info.delta_base.is_some());
        ids.push(name);
    }
    assert_eq!(store.ids().unwrap().collect::<Vec<_>>(), ids);
    for (rank, name) in ids.iter().enumerate() {
        for least in [0, 4, 7] {
            let near = [rank.checked_sub(1).map(|rank| ids[rank]), ids.get(rank + 1).copied()];
            let common = near.iter().flatten().map(|other| common_digits(name, other)).max().unwrap_or(0);
            let digits = store.abbreviate(name, least).unwrap();
            assert_eq!(digits, least.max(4).max(common + 1), "{name}");
            let prefix = Prefix::from_hex(&name.to_hex().as_bytes()[..digits], store.hash_kind()).unwrap();
            assert_eq!(store.prefix(&prefix).unwrap(), PrefixMatch::One(*name));
        }
    }
    deltas
}

fn common_digits(one: &ObjectId, two: &ObjectId) -> usize {
    let (one, two) = (one.to_hex(), two.to_hex());
    one.as_bytes().iter().zip(two.as_bytes()).take_while(|(a, b)| a == b).count()
}

/// Makes all objects loose.
fn unpack(repo: &TestRepo) {
    for pack in repo.packs() {
        let aside = repo.scratch().join("pack");
        let bytes = std::fs::read(&pack).unwrap();
        std::fs::rename(&pack, &aside).unwrap();
        repo.git_with(["unpack-objects", "-q"], &bytes);
        std::fs::remove_file(pack.with_extension("idx")).unwrap();
    }
    assert_eq!(repo.packs().len(), 0);
}

#[test]
fn loose_and_packed() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        unpack(&repo);
        assert_eq!(assert_as_git(&repo, &store(&repo)), 0);
        repo.git(["repack", "-adfq", "--depth=20"]);
        assert!(assert_as_git(&repo, &store(&repo)) > 3);
        repo.git(["-c", "repack.useDeltaBaseOffset=false", "repack", "-adfq"]);
        assert!(assert_as_git(&repo, &store(&repo)) > 3);
    }
}

#[test]
fn abbreviations_of_objects_that_are_close_and_that_are_not_there() {
    let repo = TestRepo::bare(Hash::Sha1);
    for text in ["abcd000000000000000000000000000000000001", "abcdf00000000000000000000000000000000001"] {
        testkit::pack::write_loose(&repo.objects_dir(), &testkit::pack::unhex(text), b"blob 0\0");
    }
    let store = store(&repo);
    let digits = |text, least| store.abbreviate(&hex(text), least).unwrap();
    assert_eq!(digits("abcd000000000000000000000000000000000001", 0), 5);
    assert_eq!(digits("abcd000000000000000000000000000000000001", 9), 9);
    assert_eq!(digits("abcd000000000000000000000000000000000001", 99), 40);
    assert_eq!(digits("abcd000000000000000000000000000000000002", 4), 40);
    assert_eq!(digits("abcdf0000000000000000000000000000000f001", 4), 37);
    assert_eq!(digits("abc0000000000000000000000000000000000000", 4), 4);
    assert_eq!(store.abbreviate(&id(&[0xab; 32]), 4).unwrap(), 4);
}

#[test]
fn every_copy_is_listed() {
    for hash in Hash::ALL {
        let repo = TestRepo::linear(hash, 3);
        let loose = objects_by_git(&repo).len();
        repo.git(["repack", "-q"]); // loose files stay
        repo.git(["repack", "-afq", "--depth=0"]);
        std::fs::rename(repo.git_dir().join("objects"), repo.git_dir().join("base")).unwrap();
        std::fs::create_dir_all(repo.objects_dir().join("info")).unwrap();
        std::fs::write(repo.objects_dir().join("info/alternates"), "../base\n").unwrap();
        let store = store(&repo);
        let packs = store.packs().unwrap().len();
        let mut seen = 0;
        for (name, (_, content)) in objects_by_git(&repo) {
            let copies = store.copies(&name).unwrap();
            assert_eq!(copies.len(), packs + 1);
            assert!(matches!(copies.last(), Some(Location::Loose { source: 1 })));
            for copy in copies {
                let info = store.entry_at(&name, copy).unwrap().unwrap();
                assert!(info.disk_size > 0 && info.disk_size < content.len() as u64 + 40);
            }
            seen += 1;
        }
        assert_eq!(seen, loose);
        assert_eq!(store.copies(&id(&vec![1; hash.len()])).unwrap().len(), 0);
        assert!(store.entry(&id(&vec![1; hash.len()])).unwrap_err().is_missing());
    }
}
