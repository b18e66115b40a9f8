//! What git says about every object, in every layout: kind, size, bytes on disk, delta base, shortest abbreviation.

use std::fs;
use std::path::Path;

use object::{HashKind, ObjectId, Prefix};
use pack_format::midx::Version;
use pack_format::{MidxPack, MidxPos};
use packstone_odb::midx::Layers;
use packstone_odb::{ByteSource, Location, PrefixMatch, Store};
use testkit::{Hash, TestRepo};

use crate::support::{assert_reads_as_git, hex, id, objects_by_git, store};

const FORMAT: &str = "--batch-check=%(objectname) %(objecttype) %(objectsize) %(objectsize:disk) %(deltabase)";

/// Compares all that git tells of all objects with what the store says. How many of them are deltas.
pub(crate) fn assert_as_git(repo: &TestRepo, store: &Store) -> usize {
    assert_as_listed(&repo.git_str(["cat-file", "--batch-all-objects", FORMAT]), store)
}

fn assert_as_listed(lines: &str, store: &Store) -> usize {
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
        let bytes = fs::read(&pack).unwrap();
        fs::rename(&pack, &aside).unwrap();
        repo.git_with(["unpack-objects", "-q"], &bytes);
        fs::remove_file(pack.with_extension("idx")).unwrap();
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

/// Commits that end up in `packs` packs, with deltas inside them.
pub(crate) fn in_packs(hash: Hash, packs: usize) -> TestRepo {
    let repo = TestRepo::init(hash);
    let mut text = String::new();
    for number in 0..packs {
        for step in 0..4 {
            text.push_str(&format!("line {number} {step} {}\n", "of some length ".repeat(step + 4)));
            repo.commit_files(&[("file", text.as_bytes()), (&format!("dir/{number}"), b"one")], "more");
        }
        repo.git(["repack", "-dfq", "--depth=10"]);
    }
    assert_eq!(repo.packs().len(), packs);
    repo
}

/// Rewrites a version 1 multi-pack-index as version 2, the packs in an order that is not that of their names.
pub(crate) fn as_version_2(objects: &Path, kind: HashKind) {
    let layers = Layers::load(objects, kind, ByteSource::Heap, &mut |error| panic!("{error}")).unwrap();
    let midx = layers.layers()[0].midx();
    let last = midx.pack_count() - 1;
    let mut names: Vec<Vec<u8>> = midx.pack_names().map(<[u8]>::to_vec).collect();
    names.reverse();
    let entries = (0..midx.count()).map(MidxPos::new).map(|pos| {
        let (pack, at) = midx.location(pos).unwrap();
        (midx.id(pos), MidxPack::new(last - pack.get()), at)
    });
    let options = pack_format::midx::Options::default().version(Version::V2);
    let (bytes, _) = pack_format::midx::write(Vec::new(), kind, &names, entries, &options).unwrap();
    let path = objects.join("pack/multi-pack-index");
    fs::remove_file(&path).unwrap();
    fs::write(&path, bytes).unwrap();
}

#[test]
fn multi_pack_indexes() {
    for hash in Hash::ALL {
        let repo = in_packs(hash, 4);
        repo.git(["multi-pack-index", "write"]);
        let one = store(&repo);
        assert_eq!(one.midx(0).unwrap().layers()[0].midx().version(), Version::V1);
        assert!(assert_as_git(&repo, &one) > 10);
        assert_reads_as_git(&repo, &one);
        as_version_2(&repo.objects_dir(), one.hash_kind());
        let two = store(&repo);
        assert_eq!(two.midx(0).unwrap().layers()[0].midx().version(), Version::V2);
        assert_eq!(two.midx(0).unwrap().layers()[0].midx().pack_count(), 4);
        fs::rename(repo.objects_dir().join("pack/multi-pack-index"), repo.scratch().join("two")).unwrap();
        assert!(assert_as_git(&repo, &two) > 10);
        assert_reads_as_git(&repo, &two);
        assert_eq!((one.problems(), two.problems()), (vec![], vec![]));
    }
}

#[test]
fn a_chain_of_multi_pack_indexes_packs_beside_it_and_loose_objects() {
    for hash in Hash::ALL {
        let repo = TestRepo::init(hash);
        for number in 0..5u8 {
            let growing = testkit::repo::growing(usize::from(number) * 10 + 10);
            repo.commit_files(&[("file", &growing), ("other", &[number; 50])], "c");
            if number < 4 {
                repo.git(["repack", "-dq"]);
            }
            if number < 3 {
                repo.git(["multi-pack-index", "write", "--incremental"]);
            }
        }
        let store = store(&repo);
        let layers = store.midx(0).unwrap();
        assert!(layers.is_chain());
        assert_eq!((layers.layers().len(), store.packs().unwrap().len()), (3, 4));
        assert_as_git(&repo, &store);
        assert_reads_as_git(&repo, &store);
    }
}

#[test]
fn alternates_three_deep_each_with_another_layout() {
    for hash in Hash::ALL {
        let repo = in_packs(hash, 3);
        let aside = |name: &str| {
            let to = repo.git_dir().join(name);
            fs::rename(repo.objects_dir(), &to).unwrap();
            fs::create_dir_all(repo.objects_dir().join("info")).unwrap();
            fs::create_dir_all(repo.objects_dir().join("pack")).unwrap();
            fs::write(repo.objects_dir().join("info/alternates"), format!("../{name}\n")).unwrap();
        };
        repo.git(["multi-pack-index", "write"]);
        aside("deepest");
        repo.commit("loose, in the middle");
        aside("middle");
        repo.commit("packed, near");
        repo.git(["repack", "-dlq"]);
        aside("near");
        repo.commit("loose, here");
        let store = store(&repo);
        assert_eq!(store.sources().len(), 4);
        assert!(store.midx(3).is_some() && store.midx(0).is_none());
        assert!(assert_as_git(&repo, &store) > 6);
        assert_reads_as_git(&repo, &store);
    }
}

#[test]
fn cruft_packs_and_their_times() {
    for hash in Hash::ALL {
        let repo = TestRepo::linear(hash, 4);
        for number in 0..5 {
            repo.hash_object("blob", format!("nobody refers to this {number}").as_bytes());
        }
        repo.git(["repack", "-dq", "--cruft", "-a"]);
        for with_midx in [false, true] {
            if with_midx {
                repo.git(["multi-pack-index", "write"]);
            }
            let store = store(&repo);
            assert_as_git(&repo, &store);
            assert_reads_as_git(&repo, &store);
            let packs = store.packs().unwrap();
            assert_eq!((packs.len(), packs.iter().filter(|pack| pack.is_cruft()).count()), (2, 1));
            for pack in packs.iter() {
                let Some(mtimes) = pack.mtimes().unwrap() else {
                    assert!(!pack.is_cruft());
                    continue;
                };
                assert_eq!((mtimes.count(), pack.count()), (5, 5));
                let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
                assert!(mtimes.mtimes().all(|mtime| now - u64::from(mtime) < 1000));
            }
        }
        // The file of another pack is damage, and is not tried as anything else.
        let cruft = repo.packs().into_iter().find(|pack| pack.with_extension("mtimes").exists()).unwrap();
        fs::write(cruft.with_extension("mtimes"), b"MTME").unwrap();
        let packs = store(&repo).packs().unwrap();
        assert!(packs.iter().find(|pack| pack.is_cruft()).unwrap().mtimes().unwrap_err().is_corrupt());
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
        fs::rename(repo.git_dir().join("objects"), repo.git_dir().join("base")).unwrap();
        fs::create_dir_all(repo.objects_dir().join("info")).unwrap();
        fs::write(repo.objects_dir().join("info/alternates"), "../base\n").unwrap();
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

/// `PACKSTONE_REAL_REPOSITORY=copy.git cargo test -p packstone-odb --release -- --ignored a_real_repository`. The copy is
/// given multi-pack-indexes; all of its objects are read and their names verified.
#[test]
#[ignore = "takes a copy of a real repository"]
fn a_real_repository() {
    let Some(path) = std::env::var_os("PACKSTONE_REAL_REPOSITORY") else { return };
    let path = Path::new(&path);
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git").arg("-C").arg(path).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let objects = path.join("objects");
    let check = |layout: &str, midx: Option<Version>| {
        let options = crate::support::options(Hash::Sha1).verify_on_read(true);
        let store = Store::open(&objects, options).unwrap();
        assert_eq!(store.midx(0).map(|layers| layers.layers()[0].midx().version()), midx);
        // Git before 2.54 dies of version 2.
        let lines = git(&["-c", "core.multiPackIndex=false", "cat-file", "--batch-all-objects", FORMAT]);
        let deltas = assert_as_listed(&lines, &store);
        let mut bytes = 0;
        let mut out = Vec::new();
        for id in store.ids_in_pack_order().unwrap() {
            store.read(&id, &mut out).unwrap();
            bytes += out.len();
        }
        assert_eq!(store.problems(), []);
        println!("{layout}: {} objects, {deltas} deltas, {bytes} bytes", lines.lines().count());
    };
    check("as it is", None);
    git(&["multi-pack-index", "write"]);
    check("multi-pack-index 1", Some(Version::V1));
    as_version_2(&objects, HashKind::Sha1);
    let kept = path.join("version-2");
    check("multi-pack-index 2", Some(Version::V2));
    fs::rename(objects.join("pack/multi-pack-index"), kept).unwrap();
    git(&["multi-pack-index", "write", "--incremental"]);
    check("chain", Some(Version::V1));
}
