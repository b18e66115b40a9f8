//! Object directories borrowed from: syntax, depth, cycles, identity.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use packstone_odb::{ProblemKind, Store, alternates};
use testkit::pack::{object_id, write_loose};
use testkit::{Hash, TestRepo};

use crate::support::{assert_reads_as_git, id, options, store};

/// An object directory with one blob, whose content is its name.
fn objects_with(dir: &Path, name: &str) -> PathBuf {
    let objects = dir.join(name);
    fs::create_dir_all(objects.join("info")).unwrap();
    let content = name.as_bytes();
    let header = format!("blob {}\0", content.len());
    write_loose(&objects, &object_id(Hash::Sha1, "blob", content), &[header.as_bytes(), content].concat());
    objects
}

fn name_in(objects: &Path, content: impl AsRef<[u8]>) {
    fs::create_dir_all(objects.join("info")).unwrap();
    fs::write(objects.join("info/alternates"), content).unwrap();
}

fn has(store: &Store, name: &str) -> bool {
    store.contains(&id(&object_id(Hash::Sha1, "blob", name.as_bytes()))).unwrap()
}

fn open(objects: &Path) -> Store {
    Store::open(objects, options(Hash::Sha1)).unwrap()
}

#[test]
fn packs_and_loose_objects_of_alternates() {
    for hash in Hash::ALL {
        let base = TestRepo::rich(hash);
        base.git(["repack", "-dq"]);
        let borrower = TestRepo::init(hash);
        name_in(&borrower.objects_dir(), format!("{}\n", base.objects_dir().display()));
        borrower.commit_files(&[("own", b"own")], "own");
        let store = store(&borrower);
        assert_eq!(store.sources().len(), 2);
        assert_reads_as_git(&borrower, &store);
        assert!(store.packs().unwrap().iter().all(|pack| !pack.is_local() && pack.source() == 1));
        assert!(!store.loose_ids(0).unwrap().is_empty());
        assert_eq!(store.loose_ids(2).unwrap(), []);
    }
}

#[test]
fn o5_alternates_file_syntax() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let objects = objects_with(dir, "own/objects");
    let absolute = objects_with(dir, "absolute");
    objects_with(dir, "own/relative");
    objects_with(dir, "with\"quote\nand line");
    objects_with(dir, "cr\r");
    objects_with(dir, "\"unterminated");
    let (a, d) = (absolute.display(), dir.display());
    for (file, found, missing) in [
        (format!("{a}\n"), vec!["absolute"], 0),
        (format!("{a}"), vec!["absolute"], 0),
        (format!("{a}///\n"), vec!["absolute"], 0),
        (format!("# comment\n\n{a}\n"), vec!["absolute"], 0),
        (format!("#{a}\n"), vec![], 0),
        (format!("{a}\r\n{d}/own/relative\n"), vec!["own/relative"], 1),
        (format!("{a} \n../relative\n"), vec!["own/relative"], 1),
        (format!("{d}/cr\r\n"), vec!["cr\r"], 0),
        ("../relative\n".to_owned(), vec!["own/relative"], 0),
        (format!("\"{d}/with\\\"quote\\nand\\040line\"\n{a}"), vec!["with\"quote\nand line", "absolute"], 0),
        ("../../\"unterminated\n".to_owned(), vec!["\"unterminated"], 0),
        (format!("\"{a}\n../relative"), vec!["own/relative"], 1),
        (format!("/does/not/exist\n{a}\n"), vec!["absolute"], 1),
    ] {
        name_in(&objects, &file);
        let store = open(&objects);
        assert_eq!(store.sources().len(), 1 + found.len(), "{file:?}");
        for name in &found {
            assert!(has(&store, name), "{name:?} by {file:?}");
        }
        let problems = store.problems();
        assert_eq!(problems.len(), missing, "{file:?}: {problems:?}");
        assert!(problems.iter().all(|problem| problem.kind == ProblemKind::AlternateMissing));
        assert!(has(&store, "own/objects"));
    }
}

#[test]
fn o5_alternates_from_the_environment_come_first() {
    let temp = tempfile::tempdir().unwrap();
    let own = objects_with(temp.path(), "own");
    let quoted = objects_with(temp.path(), "q\"u:o");
    let plain = objects_with(temp.path(), "plain");
    let filed = objects_with(temp.path(), "filed");
    name_in(&own, format!("{}\n", filed.display()));
    let list = format!("\"{}/q\\\"u:o\":{}", temp.path().display(), plain.display());
    let options = options(Hash::Sha1).alternates(alternates::parse_list(list.as_bytes()));
    let store = Store::open(&own, options).unwrap();
    let sources: Vec<PathBuf> = store.sources().iter().map(|source| source.path().to_owned()).collect();
    assert_eq!(sources, [own, quoted, plain, filed]);
    for name in ["own", "q\"u:o", "plain", "filed"] {
        assert!(has(&store, name));
    }
}

#[test]
fn o7_the_own_directory_is_no_alternate() {
    let repo = TestRepo::linear(Hash::Sha1, 2);
    repo.repack();
    let objects = repo.objects_dir();
    let link = repo.git_dir().join("alt-objects");
    symlink("objects", &link).unwrap();
    name_in(&objects, format!("{}\n{}\n.\n../objects/\n", link.display(), objects.display()));
    let environment = vec![link, objects.join("pack/.."), objects.clone()];
    for opened_as in [objects.clone(), repo.git_dir().join("alt-objects"), objects.join("../objects")] {
        let store = Store::open(&opened_as, options(Hash::Sha1).alternates(environment.clone())).unwrap();
        assert_eq!(store.sources().len(), 1);
        let packs = store.packs().unwrap();
        assert_eq!(packs.len(), 1);
        assert!(packs[0].is_local());
    }
}

#[test]
fn cycles_and_diamonds() {
    let temp = tempfile::tempdir().unwrap();
    let names = ["a", "b", "c", "d"];
    let [a, b, c, d] = names.map(|name| objects_with(temp.path(), name));
    name_in(&a, "../b\n../c\n../b\n");
    name_in(&b, "../d\n");
    name_in(&c, "../d/\n../a\n");
    name_in(&d, "../d\n../a\n../b\n");
    let store = open(&a);
    let sources: Vec<PathBuf> = store.sources().iter().map(|source| fs::canonicalize(source.path()).unwrap()).collect();
    let want = [a, b, d, c].map(|path| fs::canonicalize(path).unwrap());
    assert_eq!(sources, want, "depth first, as git");
    assert!(names.iter().all(|name| has(&store, name)));
}

#[test]
fn depth_is_limited_as_git_limits_it() {
    // a0 borrows from a1 (depth 0), that from a2 (depth 1), ...: a6 has depth 5, the last that is used.
    let temp = tempfile::tempdir().unwrap();
    for number in 0..10 {
        let objects = objects_with(temp.path(), &format!("a{number}"));
        name_in(&objects, format!("../a{}\n", number + 1));
    }
    let store = open(&temp.path().join("a0"));
    assert_eq!(store.sources().len(), 7);
    assert!(has(&store, "a6") && !has(&store, "a7"));
    let problems = store.problems();
    assert_eq!(problems.iter().map(|problem| &problem.kind).collect::<Vec<_>>(), [&ProblemKind::AlternatesTooDeep]);
    let none = Store::open(&temp.path().join("a0"), options(Hash::Sha1).max_alternates_depth(0)).unwrap();
    assert!(has(&none, "a1") && !has(&none, "a2"));

    // The oracle for the number: git sees the same blobs.
    let repo = TestRepo::bare(Hash::Sha1);
    name_in(&repo.objects_dir(), format!("{}\n", temp.path().join("a1").display()));
    let by_git = |name: &str| {
        let id = testkit::pack::hex(&object_id(Hash::Sha1, "blob", name.as_bytes()));
        repo.try_git(["cat-file", "-e", &id], b"").status.success()
    };
    assert!(by_git("a6") && !by_git("a7"));
}

#[test]
fn an_alternate_that_is_a_file_or_no_utf8() {
    let temp = tempfile::tempdir().unwrap();
    let own = objects_with(temp.path(), "own");
    let odd = temp.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&odd).unwrap();
    fs::write(temp.path().join("file"), "").unwrap();
    name_in(&own, b"../file\n../caf\xe9\n");
    let store = open(&own);
    assert_eq!(store.sources().len(), 2);
    assert_eq!(store.sources()[1].path(), own.join(Path::new(std::ffi::OsStr::from_bytes(b"../caf\xe9"))));
    assert_eq!(store.problems().len(), 1);
}

#[test]
fn a_reload_adds_alternates() {
    let temp = tempfile::tempdir().unwrap();
    let own = objects_with(temp.path(), "own");
    objects_with(temp.path(), "late");
    let store = open(&own);
    assert!(!has(&store, "late"));
    name_in(&own, "../late\n");
    assert!(has(&store, "late"), "found after the reload that a miss causes");
    fs::remove_file(own.join("info/alternates")).unwrap();
    store.reload().unwrap();
    assert!(has(&store, "late"), "an alternate once used is kept");
}
