//! Opening a test repository, and asking it for packs.

use std::collections::BTreeSet;

use object::{HashKind, ObjectId};
use odb::{Options, Quiet, Store};
use packstone_pack_objects::{Outcome, Plain, Request, SelectOptions, Selection, WriteOptions, write_stream};
use revwalk::{CommitGraph, Commits, Filter, Shallow};
use testkit::repo::{Hash, TestRepo};

pub(crate) fn kind(hash: Hash) -> HashKind {
    match hash {
        Hash::Sha1 => HashKind::Sha1,
        Hash::Sha256 => HashKind::Sha256,
    }
}

pub(crate) fn store(repo: &TestRepo) -> Store {
    Store::open(&repo.objects_dir(), Options::new(kind(repo.hash()))).expect("open the store")
}

pub(crate) fn commits(repo: &TestRepo, store: &Store, shallow: Shallow) -> Commits {
    let objects = repo.objects_dir();
    let (graph, problems) = CommitGraph::open(&[&objects], kind(repo.hash()));
    assert!(problems.is_empty(), "{problems:?}");
    Commits::new(store, graph, shallow)
}

/// One request, in the terms of git's command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ask {
    pub(crate) wants: Vec<String>,
    pub(crate) haves: Vec<String>,
    pub(crate) filter: Option<String>,
    pub(crate) thin: bool,
    pub(crate) offsets: bool,
    pub(crate) bitmaps: bool,
    pub(crate) include_tag: bool,
    pub(crate) sparse: bool,
    pub(crate) threads: usize,
}

impl Ask {
    pub(crate) fn git_options(&self) -> Vec<String> {
        let mut options = vec!["--revs".to_owned()];
        options.extend(self.thin.then(|| "--thin".to_owned()));
        options.extend(self.offsets.then(|| "--delta-base-offset".to_owned()));
        options.extend(self.include_tag.then(|| "--include-tag".to_owned()));
        options.push(if self.bitmaps { "--use-bitmap-index" } else { "--no-use-bitmap-index" }.to_owned());
        options.push(if self.sparse { "--sparse" } else { "--no-sparse" }.to_owned());
        options.extend(self.filter.as_ref().map(|filter| format!("--filter={filter}")));
        options
    }

    pub(crate) fn input(&self) -> String {
        let mut input = String::new();
        for id in &self.wants {
            input += &format!("{id}\n");
        }
        input += "--not\n";
        for id in &self.haves {
            input += &format!("{id}\n");
        }
        input
    }

    pub(crate) fn write_options(&self) -> WriteOptions {
        WriteOptions::default().thin(self.thin).delta_base_offset(self.offsets).threads(self.threads.max(1))
    }

    pub(crate) fn select(&self, repo: &TestRepo) -> Selection {
        let store = store(repo);
        let commits = commits(repo, &store, Shallow::none());
        let ids = |hexes: &[String]| hexes.iter().map(|hex| id(hex)).collect::<Vec<_>>();
        let filter = self.filter.as_ref().map(|spec| Filter::parse(spec).expect("a filter"));
        let tags = if self.include_tag { tags(repo) } else { Vec::new() };
        let request =
            Request { wants: &ids(&self.wants), haves: &ids(&self.haves), filter: filter.as_ref(), tags: &tags };
        let options = SelectOptions::default()
            .bitmaps(self.bitmaps)
            .sparse(self.sparse)
            .thin(self.thin)
            .threads(self.threads.max(1));
        Selection::of_request(&store, &commits, request, &options, &Quiet).expect("select")
    }

    pub(crate) fn pack(&self, repo: &TestRepo) -> (Vec<u8>, Outcome, Selection) {
        let selection = self.select(repo);
        let mut pack = Vec::new();
        let outcome = write_stream(&selection, &self.write_options(), Plain(&mut pack), &Quiet).expect("write");
        (pack, outcome, selection)
    }
}

fn tags(repo: &TestRepo) -> Vec<(ObjectId, ObjectId)> {
    repo.git_str(["for-each-ref", "--format=%(objectname) %(*objectname)", "refs/tags"])
        .lines()
        .filter_map(|line| {
            let (tag, _) = line.split_once(' ')?;
            let peeled = repo.git_str(["rev-parse", &format!("{tag}^{{}}")]);
            (tag != peeled).then(|| (id(tag), id(&peeled)))
        })
        .collect()
}

pub(crate) fn id(hex: &str) -> ObjectId {
    hex.parse().expect("an id")
}

pub(crate) fn ids(selection: &Selection) -> BTreeSet<String> {
    selection.objects.iter().map(|nr| selection.numbering.id_of(nr).expect("an id").to_string()).collect()
}
