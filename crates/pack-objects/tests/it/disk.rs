//! Packs on disk.

use std::fs;
use std::path::PathBuf;

use odb::Quiet;
use packstone_pack_objects::{Exclude, Outcome, SelectOptions, Selection, WriteOptions, write_to_disk};
use testkit::repo::{Hash, TestRepo};

use crate::support::{Ask, id, ids, store};

fn refs(repo: &TestRepo) -> Vec<String> {
    repo.git_str(["for-each-ref", "--format=%(objectname)"]).lines().map(str::to_owned).collect()
}

fn to_disk(repo: &TestRepo, selection: &Selection, options: &WriteOptions) -> (PathBuf, Outcome) {
    let base = repo.scratch().join("out");
    let outcome = write_to_disk(selection, options, &base, &Quiet).expect("write");
    (repo.scratch().join(format!("out-{}.pack", outcome.checksum)), outcome)
}

/// git finds nothing to complain about, and writes the same index for the pack.
fn accepted(repo: &TestRepo, pack: &PathBuf) {
    repo.verify_pack(pack);
    let copy = repo.scratch().join("copy.pack");
    let _ = fs::remove_file(&copy);
    fs::copy(pack, &copy).expect("copy");
    for extension in ["idx", "rev"] {
        let _ = fs::remove_file(copy.with_extension(extension));
    }
    repo.git(["index-pack".as_ref(), "--rev-index".as_ref(), copy.as_os_str()]);
    for extension in ["idx", "rev"] {
        let read = |path: &PathBuf| fs::read(path.with_extension(extension)).expect("read");
        assert!(read(pack) == read(&copy), "the {extension} differs from git's");
    }
}

#[test]
fn index_and_reverse_index_are_gits() {
    for hash in Hash::ALL {
        for (round, storage) in ["whole", "part", "two packs", "loose", "no deltas", "new"].into_iter().enumerate() {
            let repo = TestRepo::rich(hash);
            repo.repack_with_bitmap();
            let mut ask = Ask { wants: refs(&repo), offsets: true, bitmaps: true, sparse: true, ..Ask::default() };
            let mut options = WriteOptions::default().delta_base_offset(true).threads(1 + round % 2);
            match storage {
                "part" => ask.wants = vec![repo.rev_parse("main~3")],
                "two packs" => {
                    // The same objects once more, so that each has two copies, and one more commit.
                    let more = repo.git_str(["commit-tree", "-p", "main", "-m", "more", "main~7^{tree}"]);
                    repo.git(["update-ref", "refs/heads/more", &more]);
                    repo.repack_loose();
                    ask.wants.push(more);
                }
                "loose" => {
                    let tree = repo.rev_parse("main^{tree}");
                    let more = repo.git_str(["commit-tree", "-p", "main", "-m", "more", &tree]);
                    ask.wants.push(more);
                }
                "no deltas" => options = options.reuse_delta(false),
                "new" => options = options.reuse_object(false).compression(1),
                _ => {}
            }
            let selection = ask.select(&repo);
            let (pack, outcome) = to_disk(&repo, &selection, &options);
            assert_eq!(outcome.verbatim, storage == "whole", "{storage}");
            assert_eq!(repo.ids_of_pack(&pack), ids(&selection), "{storage}");
            accepted(&repo, &pack);
            if storage == "no deltas" || storage == "new" {
                assert!(repo.verify_pack(&pack).iter().all(|object| object.base.is_none()));
                assert_eq!(outcome.deltas, 0);
            }
            let left: Vec<_> = fs::read_dir(repo.scratch())
                .expect("list")
                .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
                .filter(|name| name.starts_with("tmp_"))
                .collect();
            assert!(left.is_empty(), "left behind: {left:?}");
        }
    }
}

#[test]
fn files_are_read_only() {
    use std::os::unix::fs::PermissionsExt;
    let repo = TestRepo::linear(Hash::Sha1, 3);
    let ask = Ask { wants: refs(&repo), sparse: true, ..Ask::default() };
    let (pack, _) = to_disk(&repo, &ask.select(&repo), &WriteOptions::default());
    for extension in ["pack", "idx", "rev"] {
        let mode = fs::metadata(pack.with_extension(extension)).expect("stat").permissions().mode();
        assert_eq!(mode & 0o777 & !0o044, 0o400, "{extension}: {mode:o}");
    }
}

#[test]
fn version_one_index_on_request() {
    for hash in Hash::ALL {
        let repo = TestRepo::linear(hash, 5);
        let ask = Ask { wants: refs(&repo), sparse: true, ..Ask::default() };
        let (pack, _) = to_disk(&repo, &ask.select(&repo), &WriteOptions::default().index_version(1).write_rev(false));
        assert!(!pack.with_extension("rev").exists());
        assert_ne!(fs::read(pack.with_extension("idx")).expect("read")[..4], *b"\xfftOc");
        repo.verify_pack(&pack);
    }
}

#[test]
fn lists_are_packed_exactly() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        repo.repack();
        let all: Vec<String> = repo.all_objects().into_iter().collect();
        let some: Vec<_> = all.iter().step_by(3).map(|hex| id(hex)).collect();
        let store = store(&repo);
        let selection = Selection::of_list(&store, &some, &[], &SelectOptions::default(), &Quiet).expect("select");
        let (pack, outcome) = to_disk(&repo, &selection, &WriteOptions::default().delta_base_offset(true));
        assert_eq!(outcome.count as usize, some.len());
        assert_eq!(repo.ids_of_pack(&pack), some.iter().map(ToString::to_string).collect());
        accepted(&repo, &pack);
        let missing = kind_null(hash);
        let error =
            Selection::of_list(&store, &[missing], &[], &SelectOptions::default(), &Quiet).expect_err("missing");
        assert!(error.to_string().contains(&missing.to_string()), "{error}");
    }
}

fn kind_null(hash: Hash) -> object::ObjectId {
    id(&"7".repeat(hash.hex_len()))
}

#[test]
fn exclusions_by_place_are_gits() {
    for hash in Hash::ALL {
        let repo = TestRepo::rich(hash);
        repo.repack();
        let old = repo.only_pack();
        for n in 0..3 {
            let tree = repo.rev_parse(&format!("main~{n}^{{tree}}"));
            let commit = repo.git_str(["commit-tree", "-p", "main", "-m", &format!("later {n}"), &tree]);
            repo.git(["update-ref", "refs/heads/main", &commit]);
            if n < 2 {
                repo.repack_loose();
            }
        }
        let name = old.file_name().expect("a name").to_str().expect("text").to_owned();
        let keep = format!("--keep-pack={name}");
        fs::write(old.with_extension("keep"), "").expect("write");
        let cases: [(&[&str], Exclude); 4] = [
            (&["--incremental"], Exclude { packed: true, ..Exclude::default() }),
            (&["--honor-pack-keep"], Exclude { kept: true, ..Exclude::default() }),
            (&[keep.as_str()], Exclude { packs: vec![name.clone()], ..Exclude::default() }),
            (&["--unpacked", "--incremental"], Exclude { packed: true, packed_commits: true, ..Exclude::default() }),
        ];
        for (git_options, exclude) in cases {
            let ask = Ask { wants: refs(&repo), sparse: true, ..Ask::default() };
            let mut options = vec!["--revs"];
            options.extend(git_options);
            let expected = repo.pack_objects_ids(&options, &ask.input());
            let store = store(&repo);
            let commits = crate::support::commits(&repo, &store, revwalk::Shallow::none());
            let wants: Vec<_> = ask.wants.iter().map(|hex| id(hex)).collect();
            let request = packstone_pack_objects::Request { wants: &wants, haves: &[], filter: None, tags: &[] };
            let select = SelectOptions::default().exclude(exclude);
            let selection = Selection::of_request(&store, &commits, request, &select, &Quiet).expect("select");
            assert_eq!(ids(&selection), expected, "{git_options:?}");
        }
    }
}
