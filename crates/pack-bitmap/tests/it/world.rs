//! Repositories with bitmaps, what is reachable in them by git's word, and our answer to the same question.

use std::collections::{BTreeMap, BTreeSet};

use object::{HashKind, ObjectId};
use odb::{Options, Store};
use packstone_pack_bitmap::{Answer, AnswerError, OpenOptions, Request, answer, find};
use revwalk::{CommitGraph, Commits, Filter, Numbering, Shallow};
use testkit::{Hash, TestRepo};

pub(crate) type Ids = BTreeSet<String>;

pub(crate) fn kind(hash: Hash) -> HashKind {
    HashKind::from_name(hash.name()).unwrap()
}

pub(crate) fn store(repo: &TestRepo) -> Store {
    Store::open(&repo.objects_dir(), Options::new(kind(repo.hash()))).unwrap()
}

/// Which optional sections a bitmap file gets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) hash: Hash,
    pub(crate) table: bool,
    pub(crate) names: bool,
}

pub(crate) fn forms() -> impl Iterator<Item = Form> {
    Hash::ALL.into_iter().flat_map(|hash| {
        [(false, true), (true, true), (true, false), (false, false)].map(|(table, names)| Form { hash, table, names })
    })
}

impl Form {
    pub(crate) fn repack(self, repo: &TestRepo) {
        let table = format!("pack.writeBitmapLookupTable={}", self.table);
        let names = format!("pack.writeBitmapHashCache={}", self.names);
        repo.git(["-c", &table, "-c", &names, "-c", "pack.threads=1", "repack", "-adbq"]);
    }
}

/// A repository whose bitmapped pack is not all there is: commits in a second pack, loose commits, trees and tags.
pub(crate) fn grown(form: Form) -> TestRepo {
    let repo = TestRepo::rich(form.hash);
    form.repack(&repo);
    let commit = |branch: &str, from: &str, minute: u64, files: &[(&str, &str)]| {
        let mut s = format!(
            "commit {branch}\ncommitter C <c@example.com> {} +0000\ndata 2\nm\nfrom {from}\n",
            1_700_000_000 + 60 * minute
        );
        for (path, text) in files {
            s += &format!("M 100644 inline {path}\ndata {}\n{text}\n", text.len());
        }
        repo.fast_import(s.as_bytes());
    };
    commit("refs/heads/main", "refs/heads/main^0", 1, &[("src/a1/b/c1.txt", "later"), ("new/x", "x")]);
    commit("refs/heads/topic", "refs/heads/side^0", 2, &[("topic", "topic")]);
    repo.repack_loose();
    commit("refs/heads/main", "refs/heads/main^0", 3, &[("new/y", "y"), ("empty2", "")]);
    commit("refs/heads/back", "refs/heads/main~20", 4, &[("merged", "one\n")]);
    repo.annotated_tag("late", "topic");
    repo.annotated_tag("late-nested", "late");
    assert_eq!(repo.packs().len(), 2);
    repo
}

/// Names of objects of every kind, within and outside the bitmapped pack of [`grown`].
pub(crate) const TIPS: [&str; 22] = [
    "main",
    "main~1",
    "main~2",
    "main~9",
    "main~25",
    "side",
    "other",
    "root2",
    "topic",
    "back",
    "refs/tags/light",
    "refs/tags/v1",
    "refs/tags/v2",
    "refs/tags/v2-nested",
    "refs/tags/tree-tag",
    "refs/tags/blob-tag",
    "refs/tags/late",
    "refs/tags/late-nested",
    "main^{tree}",
    "main~30:src",
    "main:growing",
    "main:new/y",
];

/// What git says about a repository.
pub(crate) struct Truth {
    /// Ids of the tips.
    pub(crate) ids: BTreeMap<&'static str, String>,
    closures: BTreeMap<&'static str, Ids>,
    /// Kind and size of every object.
    objects: BTreeMap<String, (String, u64)>,
    /// What naming a tip names: itself, and what a tag points at.
    named: BTreeMap<&'static str, Ids>,
}

impl Truth {
    pub(crate) fn of(repo: &TestRepo, tips: &[&'static str]) -> Truth {
        let check = repo.git_str([
            "cat-file",
            "--batch-all-objects",
            "--batch-check=%(objectname) %(objecttype) %(objectsize)",
        ]);
        let object = |line: &str| {
            let mut f = line.split(' ').map(str::to_owned);
            let mut f = || f.next().unwrap();
            (f(), (f(), f().parse().unwrap()))
        };
        let mut truth = Truth {
            ids: BTreeMap::new(),
            closures: BTreeMap::new(),
            objects: check.lines().map(object).collect(),
            named: BTreeMap::new(),
        };
        for &tip in tips {
            let mut id = repo.rev_parse(tip);
            truth.ids.insert(tip, id.clone());
            truth.closures.insert(tip, repo.rev_list_objects(&[tip]));
            let mut named = Ids::from([id.clone()]);
            while truth.objects[&id].0 == "tag" {
                let tag = String::from_utf8(repo.read(&id)).unwrap();
                id = tag.lines().next().unwrap().strip_prefix("object ").unwrap().to_owned();
                named.insert(id.clone());
            }
            truth.named.insert(tip, named);
        }
        truth
    }

    fn union(map: &BTreeMap<&'static str, Ids>, tips: &[&str]) -> Ids {
        tips.iter().flat_map(|tip| &map[tip]).cloned().collect()
    }

    /// The naive answer.
    pub(crate) fn answer(&self, wants: &[&str], haves: &[&str], filter: Option<&str>) -> Ids {
        let haves = Self::union(&self.closures, haves);
        let named = Self::union(&self.named, wants);
        let keeps = |id: &String| {
            named.contains(id)
                || filter.is_none_or(|f| {
                    f.split('+').all(|f| {
                        let (kind, size) = &self.objects[id];
                        match f {
                            "blob:none" => kind != "blob",
                            "tree:0" => kind != "blob" && kind != "tree",
                            _ => match f.split_once('=').unwrap() {
                                ("blob:limit", n) => kind != "blob" || *size < n.parse().unwrap(),
                                ("object:type", t) => kind == t,
                                _ => unreachable!("{f}"),
                            },
                        }
                    })
                })
        };
        Self::union(&self.closures, wants).into_iter().filter(|id| !haves.contains(id) && keeps(id)).collect()
    }

    pub(crate) fn id(&self, tip: &str) -> ObjectId {
        self.ids[tip].parse().unwrap()
    }
}

/// Everything of ours that an answer takes, opened once.
pub(crate) struct Ours {
    pub(crate) numbering: Numbering,
    pub(crate) file: packstone_pack_bitmap::BitmapFile<odb::Bytes>,
    pub(crate) commits: Commits,
}

/// `None` if no bitmap could be used; the reasons come along.
pub(crate) fn ours(repo: &TestRepo, options: &OpenOptions) -> (Option<Ours>, Vec<packstone_pack_bitmap::OpenError>) {
    let store = store(repo);
    let found = find(&store, options).unwrap();
    let ours = found.bitmap.map(|(pack, file)| {
        let numbering = Numbering::new(&store, Some(&pack)).unwrap();
        let (graph, problems) = CommitGraph::open(&[&repo.objects_dir()], store.hash_kind());
        assert!(problems.is_empty(), "{problems:?}");
        Ours { numbering, file, commits: Commits::new(&store, graph, Shallow::none()) }
    });
    (ours, found.problems)
}

impl Ours {
    pub(crate) fn of(repo: &TestRepo) -> Ours {
        let (ours, problems) = ours(repo, &OpenOptions::default());
        assert!(problems.is_empty(), "{problems:?}");
        ours.expect("a bitmap")
    }

    pub(crate) fn ask(
        &self,
        wants: &[ObjectId],
        haves: &[ObjectId],
        filter: Option<&str>,
    ) -> Result<Answer, AnswerError> {
        let filter = filter.map(|f| {
            let f = if f.contains('+') { format!("combine:{f}") } else { f.to_owned() };
            Filter::parse(&f).unwrap()
        });
        let request = Request::new(wants).haves(haves).filter(filter.as_ref());
        answer(&self.numbering, &self.file, &self.commits, &request)
    }

    /// The names of the objects in an answer. Panics if one comes twice.
    pub(crate) fn names(&self, answer: &Answer) -> Ids {
        let names: Ids = answer.objects.iter().map(|nr| self.numbering.id_of(nr).unwrap().to_string()).collect();
        assert_eq!(names.len() as u64, answer.objects.count(), "an object twice");
        assert!(answer.to_roaring().iter().eq(answer.objects.iter().map(|nr| nr.get())));
        names
    }
}
