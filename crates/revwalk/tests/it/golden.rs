//! Files that git wrote, against what git says about the same commits; and git's own spellings.

use object::ObjectKind;
use packstone_revwalk::commit_graph::Generation;
use packstone_revwalk::{Commits, Filter, FilterError, GraphPos, Shallow, WalkError, peel};
use testkit::{Hash, TestRepo};

use crate::history::{Dag, History, id_kind, open_graph, open_store};

/// Every fact the graph has, against git reading the commits without it.
fn compare_with_git(repo: &TestRepo, want: Generation) {
    let (graph, problems) = open_graph(repo);
    assert!(problems.is_empty(), "{problems:?}");
    let graph = graph.expect("a commit-graph");
    assert_eq!(graph.generation_kind(), want);
    let args = ["-c", "core.commitGraph=false", "log", "--all", "--format=%H %T %ct %P"];
    let mut count = 0;
    for line in repo.git_str(args).lines() {
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        let id = words[0].parse().unwrap();
        let pos = graph.lookup(&id).expect("every commit");
        assert_eq!(graph.id(pos), id);
        assert_eq!(graph.tree(pos).to_string(), words[1]);
        assert_eq!(graph.commit_time(pos).to_string(), words[2]);
        let mut parents = Vec::new();
        graph.parents(pos, &mut parents).unwrap();
        let names: Vec<String> = parents.iter().map(|&parent| graph.id(parent).to_string()).collect();
        assert_eq!(names, &words[3..]);

        let level = parents.iter().map(|&parent| graph.level(parent).unwrap()).max().unwrap_or(0) + 1;
        assert_eq!(graph.level(pos), Some(level));
        let generation = match want {
            Generation::Level => u64::from(level),
            Generation::CorrectedDate => {
                let above = parents.iter().map(|&parent| graph.generation(parent).unwrap() + 1).max();
                above.unwrap_or(0).max(graph.commit_time(pos))
            }
        };
        assert_eq!(graph.generation(pos), Some(generation));
        count += 1;
    }
    assert_eq!(graph.len(), count);
    for file in graph.files() {
        file.verify_checksum().unwrap();
    }
    let absent = id_kind(repo.hash()).empty_blob();
    assert_eq!(graph.lookup(&absent), None);
}

#[test]
fn a_single_file_says_what_the_commits_say() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        repo.git(["-c", "commitGraph.generationVersion=1", "commit-graph", "write", "--reachable"]);
        compare_with_git(&repo, Generation::Level);
        std::fs::remove_file(repo.objects_dir().join("info/commit-graph")).unwrap();
        repo.git(["commit-graph", "write", "--reachable", "--changed-paths"]);
        compare_with_git(&repo, Generation::CorrectedDate);
    }
}

fn write_layers(repo: &TestRepo, configs: &[&str]) {
    for (config, tip) in configs.iter().zip(["main~30", "main~10", "main", "side"]) {
        let id = repo.rev_parse(tip);
        let args = ["-c", config, "commit-graph", "write", "--stdin-commits", "--split=no-merge"];
        repo.git_with(args, format!("{id}\n").as_bytes());
    }
    let chain = repo.objects_dir().join("info/commit-graphs/commit-graph-chain");
    assert_eq!(std::fs::read_to_string(chain).unwrap().lines().count(), 4);
}

#[test]
fn a_chain_says_what_the_commits_say() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        write_layers(&repo, &["commitGraph.generationVersion=2"; 4]);
        compare_with_git(&repo, Generation::CorrectedDate);
    }
}

#[test]
fn o18_one_layer_without_corrected_dates_means_levels_for_all() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        let (with, without) = ("commitGraph.generationVersion=2", "commitGraph.generationVersion=1");
        write_layers(&repo, &[without, with, with, with]);
        compare_with_git(&repo, Generation::Level);
    }
}

#[test]
fn commits_read_with_and_without_graph_are_the_same() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        let store = open_store(&repo);
        repo.write_commit_graph();
        let graph = open_graph(&repo).0;
        let with = Commits::new(&store, graph, Shallow::none());
        let without = Commits::new(&store, None, Shallow::none());
        let graph = with.graph().unwrap();
        for pos in (0..graph.len()).map(GraphPos::new) {
            let id = graph.id(pos);
            let (mut a, b) = (with.info(&id).unwrap(), without.info(&id).unwrap());
            assert!(a.generation.take().is_some());
            assert_eq!(a, b);
        }
        let tree = repo.rev_parse("main^{tree}").parse().unwrap();
        let error = without.info(&tree).unwrap_err();
        assert!(matches!(error, WalkError::NotACommit { kind: ObjectKind::Tree, .. }), "{error}");
        let error = without.info(&id_kind(hash).null()).unwrap_err();
        assert!(error.is_missing(), "{error}");
        // A shallow repository has no use for the graph, which knows the true history.
        let shallow = Shallow::from_ids([repo.rev_parse("main").parse().unwrap()]);
        assert!(Commits::new(&store, open_graph(&repo).0, shallow).graph().is_none());
    }
}

#[test]
fn tags_are_peeled() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        let store = open_store(&repo);
        let id = |name: &str| repo.rev_parse(name).parse::<object::ObjectId>().unwrap();
        let peeled = peel(&store, &id("v2-nested")).unwrap();
        assert_eq!(peeled.tags, [id("v2-nested"), id("v2")]);
        assert_eq!((peeled.target, peeled.kind), (id("main"), ObjectKind::Commit));
        let peeled = peel(&store, &id("blob-tag")).unwrap();
        assert_eq!((peeled.tags.len(), peeled.kind), (1, ObjectKind::Blob));
        let peeled = peel(&store, &id("main^{tree}")).unwrap();
        assert_eq!((peeled.tags.len(), peeled.kind), (0, ObjectKind::Tree));

        let gone = "1".repeat(hash.hex_len());
        let dangling =
            repo.hash_object("tag", format!("object {gone}\ntype commit\ntag x\ntagger A <a> 1 +0000\n\n").as_bytes());
        let dangling = dangling.parse().unwrap();
        let store = open_store(&repo);
        match peel(&store, &dangling) {
            Err(WalkError::MissingLink { id, by }) => assert_eq!((id.to_string(), by), (gone.clone(), dangling)),
            other => panic!("{other:?}"),
        }
        assert!(matches!(peel(&store, &gone.parse().unwrap()), Err(WalkError::Missing { .. })));
    }
}

#[test]
fn filters_parse_as_git_parses_them() {
    use FilterError as E;
    let ok = |spec: &str, want: Filter| assert_eq!(Filter::parse(spec), Ok(want), "{spec}");
    ok("blob:none", Filter::BlobNone);
    ok("blob:limit=1k", Filter::BlobLimit(1024));
    ok("tree:0", Filter::TreeDepth(0));
    ok("tree:0x1g", Filter::TreeDepth(1 << 30));
    ok("object:type=tag", Filter::ObjectType(ObjectKind::Tag));
    ok("sparse:oid=main:a b", Filter::SparseOid("main:a b".into()));
    let two = Filter::Combine(vec![Filter::BlobNone, Filter::TreeDepth(3)]);
    ok("combine:blob:none+tree:3", two.clone());
    ok("combine:+blob:none++tree:3+", two.clone());
    ok("combine:blob%3anone+tree%3A3", two.clone());
    ok("combine:+", Filter::Combine(vec![]));
    ok("combine:sparse:oid=a%2bb", Filter::Combine(vec![Filter::SparseOid("a+b".into())]));
    ok("combine:combine:blob:none%2btree:3", Filter::Combine(vec![two]));
    // No escape at all, and an escaped NUL, which git leaves alone.
    ok("combine:sparse:oid=%zz%00%", Filter::Combine(vec![Filter::SparseOid("%zz%00%".into())]));

    let no = |spec: &str, want: FilterError, text: &str| {
        let error = Filter::parse(spec).unwrap_err();
        assert_eq!((error.to_string().as_str(), error), (text, want), "{spec}");
    };
    let invalid = |spec: &str| E::Invalid { spec: spec.into() };
    no("", invalid(""), "invalid filter-spec ''");
    no("blob:limit=x", invalid("blob:limit=x"), "invalid filter-spec 'blob:limit=x'");
    no("blob:nonex", invalid("blob:nonex"), "invalid filter-spec 'blob:nonex'");
    no("tree:-1", E::TreeDepth, "expected 'tree:<depth>'");
    no("sparse:path=x", E::SparsePath, "sparse:path filters support has been dropped");
    no("combine:", E::EmptyCombine, "expected something after combine:");
    no("combine:blob:none+tree:x", E::TreeDepth, "expected 'tree:<depth>'");
    no("combine:a b", E::Unescaped { found: ' ' }, "must escape char in sub-filter-spec: ' '");
    // The character is told before the spec is looked at.
    no("combine:nonsense~", E::Unescaped { found: '~' }, "must escape char in sub-filter-spec: '~'");
    let kind = E::ObjectType { found: "commits".into() };
    no("object:type=commits", kind, "'commits' for 'object:type=<type>' is not a valid object type");
    no("auto", E::AutoHere, "'auto' filter not supported by this command");
    no("combine:sparse:oid=%ff", E::NotText, "sub-filter-spec is not UTF-8");

    assert_eq!(
        Filter::BlobNone.and(Filter::TreeDepth(1)).and(Filter::BlobLimit(5)).to_string(),
        "combine:blob:none+tree:1+blob:limit=5"
    );
    assert_eq!(
        Filter::Combine(vec![Filter::SparseOid("a b+%\u{e9}".into())]).to_string(),
        "combine:sparse:oid=a%20b%2b%25%c3%a9"
    );
}

/// Git accepts and refuses the same specs (those that do not need an object), with the same words.
#[test]
fn filters_are_refused_as_git_refuses_them() {
    let mut dag = Dag::default();
    dag.commit(1, &[]);
    let history = History::new(dag, Hash::Sha1);
    for spec in [
        "blob:none",
        "blob:limit=0x10k",
        "blob:limit=010",
        "blob:limit=08",
        "blob:limit= 1",
        "blob:limit=-1",
        "blob:limit=",
        "blob:limit=18446744073709551615",
        "blob:limit=18446744073709551616",
        "tree:",
        "tree:1",
        "tree:1q",
        "object:type=tree",
        "object:type=",
        "sparse:path=x",
        "combine:",
        "combine:tree:1+tree:0",
        "combine:tree:1%2b",
        "combine:tree:1?",
        "combine:object:type=x",
        "combine:combine:tree:1+blob:none",
        "combine:tree:%31",
        "combine:tr\u{e9}",
        "nothing",
        "",
    ] {
        let filter = format!("--filter={spec}");
        let out = history.repo.try_git(["rev-list", "--objects", &filter, "c0"], b"");
        let text = String::from_utf8_lossy(&out.stderr);
        let text = text.trim_end().strip_prefix("fatal: ").unwrap_or_default().to_owned();
        match Filter::parse(spec) {
            Ok(_) => assert!(out.status.success(), "{spec}: {text}"),
            // One byte of a longer character in git's message.
            Err(FilterError::Unescaped { .. }) => assert!(text.starts_with("must escape char"), "{spec}: {text}"),
            Err(error) => assert_eq!(error.to_string(), text, "{spec}"),
        }
    }
}
