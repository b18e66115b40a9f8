//! Content and links, against `git index-pack --strict` and its kin.

// So that lists of one object read as lists of two do.
#![allow(clippy::cloned_ref_to_slice_refs)]

use std::sync::{Arc, Mutex};

use object::fsck::{Severities, SkipList};
use object::{HashKind, ObjectKind};
use packstone_index_pack::{ReceiveError, Strict, StrictError, StrictOptions};
use testkit::pack::{self, Entry, PackBuilder};
use testkit::{Hash, TestRepo};

use crate::support::{into, kind, options};

type Content = (ObjectKind, Vec<u8>);

const WHO: &str = "A U Thor <a@example.com> 1112911993 -0700";

/// What is asked for, as git's options.
#[derive(Debug, Clone, Copy)]
struct Asked<'a> {
    list: &'a str,
    fsck: bool,
    strict: bool,
    connected: bool,
}

const FSCK: Asked<'_> = Asked { list: "", fsck: true, strict: false, connected: false };
const STRICT: Asked<'_> = Asked { strict: true, ..FSCK };
const CONNECTED: Asked<'_> = Asked { fsck: false, connected: true, ..FSCK };
const ALL: [Asked<'_>; 4] = [FSCK, STRICT, CONNECTED, Asked { connected: true, ..STRICT }];

/// How it went: the exit code, what was told of objects, and modules that are missing.
#[derive(Debug, PartialEq, Eq)]
struct Went {
    code: i32,
    told: Vec<String>,
    modules: Vec<String>,
}

fn id(hash: Hash, (kind, content): &Content) -> String {
    pack::hex(&pack::object_id(hash, kind.name(), content))
}

fn builder(hash: Hash, objects: &[Content]) -> PackBuilder {
    let entries = objects.iter().map(|(kind, content)| Entry::full(kind.name(), content));
    entries.fold(PackBuilder::new(hash), PackBuilder::entry)
}

/// A repository for all cases, and an object directory for one.
struct Place<'a> {
    repo: &'a TestRepo,
    objects: tempfile::TempDir,
}

impl<'a> Place<'a> {
    /// That has these.
    fn new(repo: &'a TestRepo, have: &[Content]) -> Place<'a> {
        let objects = tempfile::tempdir().unwrap();
        std::fs::create_dir(objects.path().join("pack")).unwrap();
        for (kind, content) in have {
            let inflated = [format!("{kind} {}\0", content.len()).as_bytes(), content].concat();
            pack::write_loose(objects.path(), &pack::object_id(repo.hash(), kind.name(), content), &inflated);
        }
        Place { repo, objects }
    }
}

fn git(place: &Place<'_>, bytes: &[u8], asked: Asked<'_>) -> Went {
    let equals = |name: &str| format!("{name}{}{}", if asked.list.is_empty() { "" } else { "=" }, asked.list);
    let mut words = vec!["index-pack".to_owned(), "--stdin".to_owned(), "--threads=1".to_owned()];
    words.extend(asked.strict.then(|| equals("--strict")));
    words.extend((asked.fsck && !asked.strict).then(|| equals("--fsck-objects")));
    words.extend(asked.connected.then(|| "--check-self-contained-and-connected".to_owned()));
    let mut command = place.repo.command();
    command.args(words).env("GIT_OBJECT_DIRECTORY", place.objects.path());
    let out = testkit::repo::output(&mut command, bytes);
    let mut told: Vec<String> = String::from_utf8_lossy(&out.stderr)
        .lines()
        .filter(|line| line.starts_with("error: object ") || line.starts_with("warning: object "))
        .filter(|line| line.split_once(": ").is_some_and(|(_, rest)| rest.contains(": ")))
        .map(str::to_owned)
        .collect();
    told.sort();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let modules = text.lines().skip(1).filter(|_| out.status.success()).map(str::to_owned).collect();
    Went { code: out.status.code().unwrap(), told, modules }
}

fn ours(place: &Place<'_>, bytes: &[u8], asked: Asked<'_>, threads: usize) -> (Went, Option<ReceiveError>) {
    let hash = kind(place.repo.hash());
    let told = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&told);
    let mut severities = Severities::strict();
    let mut skip = SkipList::default();
    for file in severities.apply(asked.list.as_bytes()).unwrap() {
        let file = std::fs::read(String::from_utf8_lossy(file).as_ref()).unwrap();
        skip.parse(&file, hash).unwrap();
    }
    let store = odb::Store::open(place.objects.path(), odb::Options::new(hash)).unwrap();
    let strict = StrictOptions::new(hash)
        .fsck(asked.fsck.then_some(severities))
        .skip(skip)
        .links(asked.strict || asked.connected)
        .store(Some(store))
        .report(Some(Arc::new(move |id, finding| {
            let severity = if finding.severity.is_error() { "error" } else { "warning" };
            lines.lock().unwrap().push(format!("{severity}: object {id}: {finding}"));
        })));
    let strict = Arc::new(Strict::new(strict));
    let dir = tempfile::tempdir().unwrap();
    let options = options(place.repo.hash()).threads(threads).inspect(Some(strict.clone()));
    let done = into(dir.path(), bytes, options);
    let verdict = strict.verdict();
    let code = match &done {
        Ok(_) if asked.connected && verdict.foreign > 0 => 1,
        Ok(_) => 0,
        Err(_) => 128,
    };
    let modules = verdict.missing_modules.iter().filter(|_| done.is_ok()).map(|id| id.to_string()).collect();
    let mut told = std::mem::take(&mut *told.lock().unwrap());
    told.sort();
    (Went { code, told, modules }, done.err())
}

/// Both, and they agree. Gives our error.
fn same(repo: &TestRepo, what: &str, objects: &[Content], have: &[Content], asked: Asked<'_>) -> Option<ReceiveError> {
    let bytes = builder(repo.hash(), objects).build().bytes;
    let place = Place::new(repo, have);
    let (mut mine, error) = ours(&place, &bytes, asked, 1);
    let mut git = git(&place, &bytes, asked);
    // git lists them in no order.
    git.modules.sort();
    mine.modules.sort();
    // A failure of links is told in other words.
    assert_eq!(mine, git, "{what}, {asked:?}: {error:?}");
    error
}

fn blob(text: &str) -> Content {
    (ObjectKind::Blob, text.as_bytes().to_vec())
}

fn tree(hash: Hash, entries: &[(&str, &Content)]) -> Content {
    let entry = |(head, to): &(&str, &Content)| [head.as_bytes(), b"\0", &pack::unhex(&id(hash, to))].concat();
    (ObjectKind::Tree, entries.iter().flat_map(entry).collect())
}

fn commit(hash: Hash, tree: &Content, parents: &[&Content]) -> Content {
    let parents: String = parents.iter().map(|parent| format!("parent {}\n", id(hash, parent))).collect();
    let text = format!("tree {}\n{parents}author {WHO}\ncommitter {WHO}\n\nm\n", id(hash, tree));
    (ObjectKind::Commit, text.into_bytes())
}

fn tag(hash: Hash, to: &Content, kind: &str) -> Content {
    let text = format!("object {}\ntype {kind}\ntag v1\ntagger {WHO}\n\nm\n", id(hash, to));
    (ObjectKind::Tag, text.into_bytes())
}

#[test]
fn links_as_git_follows_them() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let b = blob("hi\n");
        let t = tree(hash, &[("100644 a", &b)]);
        let c = commit(hash, &t, &[]);
        let c2 = commit(hash, &t, &[&c]);
        let empty = (ObjectKind::Tree, Vec::new());
        let cases: Vec<(&str, Vec<Content>, Vec<Content>)> = vec![
            ("all", vec![b.clone(), t.clone(), c.clone(), c2.clone(), tag(hash, &c2, "commit")], vec![]),
            ("all, last first", vec![tag(hash, &c2, "commit"), c2.clone(), c.clone(), t.clone(), b.clone()], vec![]),
            ("no blob", vec![t.clone(), c.clone()], vec![]),
            ("blob elsewhere", vec![t.clone(), c.clone()], vec![b.clone()]),
            ("tree elsewhere, broken", vec![c.clone()], vec![t.clone()]),
            ("parent elsewhere", vec![c2.clone(), t.clone(), b.clone()], vec![c.clone()]),
            ("no parent", vec![c2.clone(), t.clone(), b.clone()], vec![]),
            ("commit for a blob", vec![c.clone(), tree(hash, &[("100644 a", &c)]), t.clone(), b.clone()], vec![]),
            ("commit for a blob, elsewhere", vec![tree(hash, &[("100644 a", &c)])], vec![c.clone()]),
            ("blob for a tree", vec![tree(hash, &[("40000 a", &b)]), b.clone()], vec![]),
            ("blob for a tree, elsewhere", vec![tree(hash, &[("40000 a", &b)])], vec![b.clone()]),
            ("commit of a blob", vec![commit(hash, &b, &[]), b.clone()], vec![]),
            ("commit of a blob, elsewhere", vec![commit(hash, &b, &[])], vec![b.clone()]),
            ("tree for a parent", vec![commit(hash, &t, &[&t]), t.clone(), b.clone()], vec![]),
            ("tree for a parent, elsewhere", vec![commit(hash, &t, &[&t])], vec![t.clone(), b.clone()]),
            ("tag of a blob", vec![tag(hash, &b, "blob"), b.clone()], vec![]),
            ("tag of another kind", vec![tag(hash, &b, "tree"), b.clone()], vec![]),
            ("tag of another kind, elsewhere", vec![tag(hash, &b, "tree")], vec![b.clone()]),
            ("tag of nothing", vec![tag(hash, &b, "blob")], vec![]),
            ("submodule", vec![tree(hash, &[("160000 a", &b)])], vec![]),
            ("submodule that is a blob", vec![tree(hash, &[("160000 a", &b), ("100644 b", &b)]), b.clone()], vec![]),
            ("blob and tree", vec![tree(hash, &[("100644 a", &b), ("40000 b", &b)]), b.clone()], vec![]),
            ("empty tree", vec![commit(hash, &empty, &[])], vec![]),
            ("empty blob", vec![tree(hash, &[("100644 a", &blob(""))])], vec![]),
            ("link", vec![tree(hash, &[("120000 a", &b)]), b.clone()], vec![]),
            ("odd mode", vec![tree(hash, &[("140000 a", &b)])], vec![]),
            ("bad commit", vec![(ObjectKind::Commit, b"tree x\n".to_vec())], vec![]),
            ("bad tag", vec![(ObjectKind::Tag, b"object x\n".to_vec())], vec![]),
            ("bad tree", vec![(ObjectKind::Tree, b"100644 a\0x".to_vec())], vec![]),
            ("padded", vec![tree(hash, &[("0100644 a", &b)]), b.clone()], vec![]),
            (
                "no author",
                vec![(ObjectKind::Commit, format!("tree {}\nauthor x\n\n123456", id(hash, &empty)).into())],
                vec![],
            ),
        ];
        for (what, objects, have) in &cases {
            for asked in ALL {
                same(&repo, what, objects, have, asked);
            }
        }
        let error = same(&repo, "named error", &[t.clone()], &[], STRICT);
        let Some(ReceiveError::Refused(error)) = error else { panic!("{error:?}") };
        let error = error.downcast::<StrictError>().unwrap();
        assert_eq!(error.to_string(), format!("did not receive expected object {}", id(hash, &b)));
    }
}

#[test]
fn blobs_with_a_meaning() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let bad = blob("[submodule \"a\"]\nurl=-x\n");
        let odd = blob("[bad");
        let t = tree(hash, &[("100644 .gitmodules", &bad)]);
        let other = tree(hash, &[("100644 a", &blob("x"))]);
        let long = blob(&"a".repeat(2048));
        let list = |text| Asked { list: text, ..FSCK };
        let modes = ["100644", "40000", "160000", "120000", "100600"];
        for name in [".gitmodules", ".gitattributes"] {
            for mode in modes {
                let head = format!("{mode} {name}");
                let all = [&bad, &other, &long, &odd];
                for to in all.into_iter().take(if mode == "100644" { 4 } else { 2 }) {
                    let t = tree(hash, &[(head.as_str(), to)]);
                    same(&repo, &head, &[t.clone()], &[], FSCK);
                    same(&repo, &head, &[t.clone()], &[to.clone()], FSCK);
                    same(&repo, &head, &[t.clone(), to.clone()], &[], FSCK);
                    same(&repo, &head, &[to.clone(), t.clone()], &[], FSCK);
                }
            }
        }
        for list_ in ["gitmodulesMissing=ignore", "gitmodulesMissing=warn"] {
            same(&repo, "missing", &[t.clone()], &[], list(list_));
        }
        same(&repo, "missing", &[t.clone()], &[], STRICT);
        for asked in [list("gitmodulesUrl=warn"), list("gitmodulesUrl=ignore"), STRICT] {
            same(&repo, "set", &[t.clone(), bad.clone()], &[], asked);
            same(&repo, "set", &[bad.clone(), t.clone()], &[], asked);
        }
        same(
            &repo,
            "set",
            &[tree(hash, &[("40000 .gitmodules", &other)]), other.clone()],
            &[],
            list("gitmodulesBlob=warn"),
        );
        let both = tree(hash, &[("100644 .gitattributes", &long), ("100644 .gitmodules", &long)]);
        same(&repo, "both", &[long.clone(), both], &[], FSCK);
        // cases.md, S3.
        let plain = blob("x");
        for name in [".GIT", "git~1", &"n".repeat(5000)] {
            let head = format!("100644 {name}");
            let error = same(&repo, name, &[plain.clone(), tree(hash, &[(head.as_str(), &plain)])], &[], STRICT);
            assert!(matches!(error, Some(ReceiveError::Refused(_))));
        }
        let error = same(&repo, "link", &[plain.clone(), tree(hash, &[("120000 .gitmodules", &plain)])], &[], STRICT);
        assert!(matches!(error, Some(ReceiveError::Refused(_))));
    }
}

#[test]
fn skip_lists_and_severities() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let b = blob("x");
        let padded = tree(hash, &[("0100644 a", &b)]);
        let bad = blob("[submodule \"a\"]\nurl=-x\n");
        let modules = tree(hash, &[("100644 .gitmodules", &bad)]);
        let broken = (ObjectKind::Tree, b"100644 a\0".to_vec());
        let nul =
            (ObjectKind::Commit, format!("tree {}\nauthor A\0 <x> 1 +0000\n\n", id(hash, &(ObjectKind::Tree, vec![]))));
        let nul = (nul.0, nul.1.into_bytes());
        let path = repo.path().join("list");
        let skipped: String =
            [&padded, &bad, &broken, &nul].map(|object| format!(" {} # x\n", id(hash, object))).concat();
        std::fs::write(&path, skipped).unwrap();
        let list = format!("skipList={}", path.display());
        for asked in [Asked { list: &list, ..FSCK }, Asked { list: &list, ..STRICT }] {
            for objects in [
                vec![padded.clone(), b.clone()],
                vec![modules.clone(), bad.clone()],
                vec![bad.clone(), modules.clone()],
                vec![broken.clone()],
                vec![nul.clone()],
            ] {
                same(&repo, "skipped", &objects, &[], asked);
            }
        }
        for list in [
            "zeroPaddedFilemode=warn",
            "zeroPaddedFilemode=ignore",
            "badTree=warn",
            "badTree=ignore",
            "nullSha1=ignore",
        ] {
            for base in [FSCK, STRICT] {
                let asked = Asked { list, ..base };
                same(&repo, list, &[padded.clone(), b.clone()], &[], asked);
                same(&repo, list, &[broken.clone()], &[], asked);
                let null = [b"100644 a\0".to_vec(), vec![0; hash.len()]].concat();
                same(&repo, list, &[(ObjectKind::Tree, null)], &[], asked);
            }
        }
    }
}

/// Blobs that come before the trees that name them, at the ends of long chains, are looked at once more, each once.
#[test]
fn deltas_of_modules_are_looked_at_again() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let text = |n: usize| {
            format!("[submodule \"a\"]\n\tpath = a\n\turl = {}\n# {n}\n", if n % 3 == 2 { "-x" } else { "y" })
        };
        let mut pack = PackBuilder::new(hash);
        let mut blobs = Vec::new();
        let count = 60;
        for n in 0..count {
            let content = text(n).into_bytes();
            pack = pack.entry(match blobs.last() {
                None => Entry::full("blob", &content),
                Some((_, base)) => {
                    let base: &Vec<u8> = base;
                    let ops = [pack::Op::Insert(&content)];
                    Entry::ofs_to(n - 1, &pack::delta(base.len() as u64, content.len() as u64, &ops))
                }
            });
            blobs.push((ObjectKind::Blob, content));
        }
        // Every second one has the name.
        let named = blobs.iter().step_by(2);
        let trees: Vec<Content> = named.clone().map(|blob| tree(hash, &[("100644 .gitmodules", blob)])).collect();
        let pack = trees.iter().fold(pack, |pack, (_, content)| pack.entry(Entry::full("tree", content))).build();
        let bad: Vec<String> =
            blobs.iter().enumerate().step_by(2).filter(|(n, _)| n % 3 == 2).map(|(_, b)| id(hash, b)).collect();
        for threads in [1, 2] {
            let place = Place::new(&repo, &[]);
            let (went, _) = ours(&place, &pack.bytes, FSCK, threads);
            let mut told: Vec<&str> = went.told.iter().map(|line| line.split([' ', ':']).nth(3).unwrap()).collect();
            told.sort_unstable();
            let mut bad: Vec<&str> = bad.iter().map(String::as_str).collect();
            bad.sort_unstable();
            assert_eq!((told, went.code), (bad, 128));
            let asked = Asked { list: "gitmodulesUrl=warn", ..STRICT };
            assert_eq!(ours(&place, &pack.bytes, asked, threads).0, git(&place, &pack.bytes, asked));
        }
    }
}

/// Everything git can make is sound, thin packs and histories that end early included.
#[test]
fn sound_packs() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let rich = TestRepo::rich(hash);
        let whole = rich.pack_objects(&["--all", "--delta-base-offset"], "");
        for threads in [1, 2] {
            for asked in ALL {
                let place = Place::new(&repo, &[]);
                let (went, error) = ours(&place, &whole, asked, threads);
                assert_eq!(went.code, git(&place, &whole, asked).code, "{error:?}");
                assert_eq!(went.code, 0, "{error:?}");
            }
        }
        // A shallow history: its last commit's parents are not there, and nobody asks.
        let tip = rich.rev_parse("main");
        let trees = rich.git_str(["rev-list", "--objects", "-1", "main"]);
        let ids: String = trees.lines().map(|line| format!("{}\n", &line[..hash.hex_len()])).collect();
        let shallow = rich.pack_objects(&[], &ids);
        let (went, error) = ours(&Place::new(&repo, &[]), &shallow, STRICT, 1);
        assert_eq!(went.code, 128, "{error:?}");
        let strict = StrictOptions::new(kind(hash)).links(true).shallow(vec![tip.parse().unwrap()]);
        let strict = Arc::new(Strict::new(strict));
        let dir = tempfile::tempdir().unwrap();
        into(dir.path(), &shallow, options(hash).inspect(Some(strict.clone()))).unwrap();
        assert_eq!(strict.verdict().foreign, 0);
    }
}

#[test]
fn limits() {
    let hash = HashKind::Sha1;
    let b = blob("x");
    let pack = builder(Hash::Sha1, &[tree(Hash::Sha1, &[("100644 a", &b), ("100644 b", &blob("y"))]), b]).build();
    for (limit, sound) in [(2, false), (4, true)] {
        let strict = Strict::new(StrictOptions::new(hash).links(true).max_links(limit));
        let dir = tempfile::tempdir().unwrap();
        let done = into(dir.path(), &pack.bytes, options(Hash::Sha1).inspect(Some(Arc::new(strict))));
        let Err(ReceiveError::Refused(error)) = done else { panic!("y is missing") };
        let error = error.downcast::<StrictError>().unwrap();
        assert_eq!(matches!(*error, StrictError::Missing { .. }), sound, "{error}");
        assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "nothing stays");
    }
}
