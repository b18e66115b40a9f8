//! The objects that an index names, for `--indexed-objects`: entries, cached trees, and resolved conflicts.

use std::path::Path;

use index::file::IndexFile;
use index::source::ByteSource;
use index::{Bump, ReadOptions};
use object::{HashKind, ObjectId};

use crate::report::{chain, plain_io};

/// All objects that the index of a work tree names, in no order and perhaps repeatedly; none if there is no index.
/// `git_dir` is where its shared index may be.
pub(crate) fn of_git_dir(git_dir: &Path, index: &Path, hash: HashKind) -> Result<Vec<ObjectId>, String> {
    let file = IndexFile::open(index, ByteSource::Auto)
        .map_err(|error| format!("{}: index file open failed: {}", index.display(), plain_io(&error)))?;
    let Some(file) = file.map(|file| file.shared_dirs([git_dir.to_owned()])) else { return Ok(Vec::new()) };
    let arena = Bump::new();
    let index =
        file.read(&arena, &ReadOptions::new(hash)).map_err(|error| format!("index file corrupt: {}", chain(&error)))?;
    // Submodule commits are not ours to keep.
    let entries = index.iter().filter(|entry| !entry.is_gitlink()).map(|entry| entry.id());
    let trees = index.cache_tree().into_iter().flat_map(|tree| tree.nodes()).filter_map(|node| Some(node.valid?.1));
    let resolved = index.resolve_undo().iter().flat_map(|(_, stages)| stages.iter().flatten().map(|(_, id)| *id));
    Ok(entries.chain(trees).chain(resolved).filter(|id| !id.is_null()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use testkit::repo::{Hash, TestRepo};

    fn kind(hash: Hash) -> HashKind {
        HashKind::from_name(hash.name()).unwrap()
    }

    /// A repository whose index has files, a cached tree, a resolved conflict and a submodule.
    fn conflicted(hash: Hash) -> TestRepo {
        let repo = TestRepo::init(hash);
        repo.commit_files(&[("file", b"base\n"), ("deep/down/other", b"other\n")], "base");
        repo.git(["branch", "topic"]);
        repo.commit_files(&[("file", b"ours\n")], "ours");
        repo.checkout("topic");
        repo.commit_files(&[("file", b"theirs\n")], "theirs");
        let _ = repo.try_git(["merge", "main"], b"");
        repo.write("file", b"both\n");
        repo.git(["add", "file"]);
        repo.git(["update-index", "--add", "--cacheinfo", &format!("160000,{},module", "1".repeat(hash.hex_len()))]);
        repo
    }

    fn want(repo: &TestRepo) -> BTreeSet<String> {
        let listed = repo.git_str(["ls-files", "--stage"]);
        let resolved = repo.git_str(["ls-files", "--resolve-undo"]);
        let entries = listed.lines().chain(resolved.lines()).filter(|line| !line.starts_with("160000"));
        entries.map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect()
    }

    fn blobs(repo: &TestRepo, ids: &[ObjectId]) -> BTreeSet<String> {
        ids.iter().map(ObjectId::to_string).filter(|id| repo.kind(id) == "blob").collect()
    }

    #[test]
    fn every_version() {
        for hash in Hash::ALL {
            let repo = conflicted(hash);
            let want = want(&repo);
            assert_eq!(want.len(), 5);
            for version in ["2", "3", "4"] {
                repo.git(["update-index", "--force-write-index", "--index-version", version]);
                if version == "3" {
                    repo.git(["update-index", "--skip-worktree", "deep/down/other"]);
                }
                let index = repo.git_dir().join("index");
                let ids = of_git_dir(repo.git_dir(), &index, kind(hash)).unwrap();
                assert_eq!(blobs(&repo, &ids), want, "version {version}");
                // The tree of `deep` is unchanged, and cached until a flag of a file in it changes.
                let deep = repo.rev_parse("HEAD:deep");
                assert_eq!(ids.iter().any(|id| id.to_string() == deep), version == "2", "version {version}");
            }
        }
    }

    #[test]
    fn split() {
        let repo = conflicted(Hash::Sha1);
        let want = want(&repo);
        repo.git(["update-index", "--split-index"]);
        repo.write("new", b"new\n");
        repo.git(["add", "new"]);
        let index = repo.git_dir().join("index");
        let ids = of_git_dir(repo.git_dir(), &index, HashKind::Sha1).unwrap();
        let got = blobs(&repo, &ids);
        assert!(want.is_subset(&got));
        assert!(got.contains(&repo.rev_parse(":new")));
        assert_eq!(of_git_dir(repo.git_dir(), &repo.git_dir().join("none"), HashKind::Sha1), Ok(Vec::new()));
        std::fs::write(&index, b"DIRC").unwrap();
        let error = of_git_dir(repo.git_dir(), &index, HashKind::Sha1).unwrap_err();
        assert!(error.starts_with("index file corrupt: ") && error.contains("index"), "{error}");
    }
}
