//! Files that git made, and digests that standards give.

use std::io::Write;

use object::HashKind;
use packstone_hashfile::{HashFile, Trailer, verify, verify_file};
use testkit::{Hash, TestRepo};

const HASHES: [(Hash, HashKind); 2] = [(Hash::Sha1, HashKind::Sha1), (Hash::Sha256, HashKind::Sha256)];

/// "abc" of FIPS 180.
#[test]
fn known_digests() {
    for (kind, want) in [
        (HashKind::Sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
        (HashKind::Sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ] {
        let mut out = HashFile::new(Vec::new(), kind);
        out.write_all(b"abc").unwrap();
        let (file, id) = out.finish().unwrap();
        assert_eq!(id.to_string(), want);
        assert!(file.ends_with(id.as_bytes()));
    }
}

/// Every kind of file that ends in a trailer verifies, and a pack written again is the same.
#[test]
fn files_that_git_wrote() {
    for (hash, kind) in HASHES {
        let repo = TestRepo::init(hash);
        repo.commit_files(&[("a", b"one")], "first");
        repo.commit_files(&[("a", b"two"), ("b/c", b"three")], "second");
        repo.repack_with_bitmap();
        repo.write_commit_graph();
        let mut seen = Vec::new();
        let pack_dir = repo.objects_dir().join("pack");
        for entry in std::fs::read_dir(&pack_dir).unwrap() {
            let path = entry.unwrap().path();
            let trailer = verify_file(&path, kind).unwrap();
            assert!(matches!(trailer, Trailer::Matches(_)), "{}", path.display());
            seen.push(path.extension().unwrap().to_str().unwrap().to_owned());
        }
        for needed in ["pack", "idx", "rev", "bitmap"] {
            assert!(seen.iter().any(|found| found == needed), "git wrote no .{needed}");
        }
        assert!(matches!(verify_file(&repo.git_dir().join("index"), kind), Ok(Trailer::Matches(_))));

        // Replayed through the writer: the same file.
        let pack = std::fs::read(repo.only_pack()).unwrap();
        let mut out = HashFile::new(Vec::new(), kind);
        out.write_all(&pack[..pack.len() - kind.len()]).unwrap();
        assert_eq!(out.finish().unwrap().0, pack);
    }
}

/// gitformat-index, `index.skipHash`: the trailer is null.
#[test]
fn an_index_without_hash() {
    for (hash, kind) in HASHES {
        let repo = TestRepo::init(hash);
        repo.write("new", b"content");
        repo.git(["-c", "index.skipHash=true", "add", "new"]);
        let index = std::fs::read(repo.git_dir().join("index")).unwrap();
        assert_eq!(verify(&index, kind).unwrap(), Trailer::Skipped);
    }
}
