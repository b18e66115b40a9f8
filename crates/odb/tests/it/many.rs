//! Very many packs: what is opened, and what stays open.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use object::ObjectId;
use packstone_odb::{ByteSource, Options, Store};
use testkit::pack::{Entry, Op, PackBuilder, delta};
use testkit::{Hash, TestRepo};

use crate::support::{SOURCES, hex, id, options};

/// A repository of `count` packs of two objects each, a blob and another that is a delta of it, and their ids.
fn many_packs(hash: Hash, count: usize) -> (TestRepo, Vec<[ObjectId; 2]>) {
    let repo = TestRepo::bare(hash);
    let mut names = Vec::new();
    for number in 0..count {
        let base = format!("{number:08} is the number of this blob");
        let made = [&base.as_bytes()[..20], b"another"].concat();
        let ops = [Op::Copy(0, 20), Op::Insert(b"another")];
        let delta = delta(base.len() as u64, made.len() as u64, &ops);
        let pack =
            PackBuilder::new(hash).entry(Entry::full("blob", base.as_bytes())).entry(Entry::ofs_to(0, &delta)).build();
        let ids = [pack.id("blob", base.as_bytes()), pack.id("blob", &made)];
        pack.write(&repo.objects_dir(), &pack.idx(&ids));
        names.push(ids.map(|name| id(&name)));
    }
    (repo, names)
}

fn check(store: &Store, number: usize, ids: &[ObjectId; 2]) {
    let mut out = Vec::new();
    store.read(&ids[0], &mut out).unwrap();
    assert_eq!(out, format!("{number:08} is the number of this blob").as_bytes());
    store.read(&ids[1], &mut out).unwrap();
    assert_eq!(out, format!("{number:08} is the numbanother").as_bytes());
}

/// Files below `objects` that this process has open or mapped.
fn open_files(objects: &Path) -> usize {
    let below = |path: &Path| path.starts_with(objects);
    let handles = fs::read_dir("/proc/self/fd").unwrap();
    let handles = handles.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok()).filter(|path| below(path)).count();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    handles + maps.lines().filter(|line| line.find('/').is_some_and(|at| below(Path::new(&line[at..])))).count()
}

#[test]
fn the_cap_on_open_files_is_kept() {
    for source in SOURCES {
        for midx in [false, true] {
            let (repo, names) = many_packs(Hash::Sha1, 400);
            let objects = repo.objects_dir();
            if midx {
                repo.git(["multi-pack-index", "write"]);
            }
            let store =
                Store::open(&objects, options(Hash::Sha1).byte_source(source).max_open_files(Some(30))).unwrap();
            let held = store.find(&names[399][0]).unwrap();
            let mut most = 0;
            for step in 0..800 {
                let number = step * 7 % names.len();
                check(&store, number, &names[number]);
                if step % 100 == 0 {
                    assert!(!store.contains(&id(&[0x77; 20])).unwrap());
                    most = most.max(open_files(&objects));
                }
            }
            assert_eq!(store.ids().unwrap().count(), 800);
            most = most.max(open_files(&objects));
            // One pack has two files or three, and is opened with the last that fits.
            assert!(most <= 30 + 6, "{most} files of packs are open with {source:?}");
            assert!(source == ByteSource::Heap || most > 10, "{most}");
            drop(held);
            assert_eq!(store.problems(), []);
        }
    }
}

#[test]
fn packs_that_are_held_stay_open() {
    let (repo, names) = many_packs(Hash::Sha1, 100);
    let options = options(Hash::Sha1).byte_source(ByteSource::Pread).max_open_files(Some(5));
    let store = Store::open(&repo.objects_dir(), options).unwrap();
    let packs = store.packs().unwrap();
    assert_eq!(packs.len(), 100);
    let orders: u32 = packs.iter().map(|pack| pack.order().unwrap().count()).sum();
    assert_eq!(orders, 200);
    for (number, ids) in names.iter().enumerate() {
        check(&store, number, ids);
    }
    // What is gone from the directory is still there for who holds it.
    fs::remove_dir_all(repo.objects_dir().join("pack")).unwrap();
    assert!(packs.iter().all(|pack| pack.entry_bytes(pack_format::PackPos::new(1)).is_ok()));
}

/// Runs one of the tests below as a process of its own, with `objects` in its environment.
fn child(test: &str, objects: &Path, ids: &[ObjectId], wrap: &[&str]) -> std::process::Output {
    let own = std::env::current_exe().unwrap();
    let line: Vec<&str> = wrap.iter().copied().chain([own.to_str().unwrap(), "--exact", test, "--ignored"]).collect();
    let ids: Vec<String> = ids.iter().map(ObjectId::to_string).collect();
    Command::new(line[0])
        .args(&line[1..])
        .env("ODB_TEST_OBJECTS", objects)
        .env("ODB_TEST_IDS", ids.join(" "))
        .output()
        .unwrap()
}

fn child_environment() -> Option<(std::path::PathBuf, Vec<ObjectId>)> {
    let ids = std::env::var("ODB_TEST_IDS").ok()?;
    Some((std::env::var_os("ODB_TEST_OBJECTS")?.into(), ids.split_whitespace().map(hex).collect()))
}

#[test]
#[ignore = "run by opening_packs_covered_by_a_midx, under strace"]
fn child_opens_and_looks_up() {
    let Some((objects, ids)) = child_environment() else { return };
    let store = Store::open(&objects, options(Hash::Sha1)).unwrap();
    fs::metadata(objects.join("store-is-open")).unwrap_err();
    for id in ids {
        assert!(store.contains(&id).unwrap());
        assert!(store.header(&id).unwrap().size > 0);
        store.read(&id, &mut Vec::new()).unwrap();
    }
}

#[test]
fn opening_packs_covered_by_a_midx() {
    if Command::new("strace").arg("-V").output().is_err() {
        return; // not everywhere; CI has it
    }
    let (repo, names) = many_packs(Hash::Sha1, 1000);
    repo.git(["multi-pack-index", "write"]);
    let calls = |ids: &[ObjectId]| {
        let log = repo.scratch().join("log");
        let strace = ["strace", "-f", "-e", "trace=openat,open,stat,newfstatat,statx", "-o", log.to_str().unwrap()];
        let output = child("many::child_opens_and_looks_up", &repo.objects_dir(), ids, &strace);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
        let log = fs::read_to_string(log).unwrap();
        let objects = repo.objects_dir();
        let lines = log.lines().filter(|line| line.contains(objects.to_str().unwrap())).map(str::to_owned);
        lines.collect::<Vec<String>>()
    };
    let opened = |lines: &[String], extension: &str| {
        let opens = lines.iter().filter(|line| line.contains("open") && !line.contains("store-is-open"));
        opens.filter(|line| line.contains(&format!("{extension}\""))).count()
    };
    let lines = calls(&[]);
    assert_eq!((opened(&lines, ".idx"), opened(&lines, ".pack")), (0, 0), "{lines:#?}");
    assert_eq!(opened(&lines, "multi-pack-index"), 1);
    assert!(lines.len() < 20, "no call for each pack either: {lines:#?}");
    let lines = calls(&[names[500][0]]);
    assert_eq!((opened(&lines, ".idx"), opened(&lines, ".pack")), (0, 1), "{lines:#?}");
    assert!(lines.len() < 25, "{lines:#?}");
    let lines = calls(&names[..10].iter().map(|ids| ids[0]).collect::<Vec<_>>());
    assert_eq!((opened(&lines, ".idx"), opened(&lines, ".pack")), (0, 10));
    // That a delta's base begins an entry, only the pack's index tells.
    let lines = calls(&[names[500][1]]);
    assert_eq!((opened(&lines, ".idx"), opened(&lines, ".pack")), (1, 1));
}

#[test]
#[ignore = "run by a_system_that_is_out_of_handles, under a limit"]
fn child_reads_with_few_handles() {
    let Some((objects, _)) = child_environment() else { return };
    // No cap of our own to speak of: the system's is met.
    let options = Options::default().byte_source(ByteSource::Pread).max_open_files(Some(usize::MAX));
    let store = Store::open(&objects, options).unwrap();
    let ids: BTreeSet<ObjectId> = store.ids().unwrap().collect();
    assert_eq!(ids.len(), 601);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for id in &ids {
                    store.read(id, &mut Vec::new()).unwrap();
                    store.header(id).unwrap();
                }
            });
        }
    });
    // With nothing left to close, the error is the system's and says so; when that has passed, so has the error.
    let held: Vec<_> = std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect();
    let fresh = ids.iter().rev();
    for id in fresh.clone() {
        match store.read(id, &mut Vec::new()) {
            Ok(_) => {}
            Err(packstone_odb::ReadError::Io { source, .. }) => assert_eq!(source.raw_os_error(), Some(24)),
            Err(error) => panic!("{error}"),
        }
    }
    drop(held);
    fresh.for_each(|id| assert!(store.read(id, &mut Vec::new()).is_ok()));
    assert_eq!(store.problems(), []);
}

#[test]
fn a_system_that_is_out_of_handles() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let (repo, _) = many_packs(Hash::Sha1, 300);
    repo.hash_object("blob", b"a loose object");
    let wrap = ["sh", "-c", "ulimit -n 40 && exec \"$@\"", "sh"];
    let output = child("many::child_reads_with_few_handles", &repo.objects_dir(), &[], &wrap);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text} {}", String::from_utf8_lossy(&output.stderr));
}
