//! Multi-pack-indexes of object directories: read, written, verified, with git beside us.

use std::fs;
use std::path::Path;

use object::{HashKind, ObjectId};
use packstone_odb::ByteSource;
use packstone_odb::midx::{Layers, LoadErrorKind};
use testkit::{Hash, TestRepo};

fn kinds() -> [(Hash, HashKind); 2] {
    [(Hash::Sha1, HashKind::Sha1), (Hash::Sha256, HashKind::Sha256)]
}

/// What is there, and what was complained about.
fn load(objects: &Path, kind: HashKind) -> (Option<Layers>, Vec<String>) {
    let mut problems = Vec::new();
    let layers = Layers::load(objects, kind, ByteSource::Mmap, &mut |error| {
        let kind = match &error.kind {
            LoadErrorKind::Io(error) => error.kind().to_string(),
            LoadErrorKind::Format(error) => error.to_string(),
            other => format!("{other:?}"),
        };
        problems.push(format!("{}: {kind}", error.path.file_name().unwrap().display()));
    });
    (layers, problems)
}

/// Three packs of a commit each, and a chain of a layer for each.
fn chain_of_three(hash: Hash) -> TestRepo {
    let repo = TestRepo::init(hash);
    for round in 0..3u8 {
        repo.commit_files(&[("file", &[round; 20])], "c");
        repo.repack_loose();
        repo.git(["multi-pack-index", "write", "--incremental"]);
    }
    repo
}

#[test]
fn nothing_there_is_no_problem() {
    for (hash, kind) in kinds() {
        let repo = TestRepo::init(hash);
        let (none, problems) = load(&repo.objects_dir(), kind);
        assert!(none.is_none() && problems.is_empty());
        assert!(load(Path::new("/nowhere"), kind).0.is_none());
    }
}

#[test]
fn the_file_wins_over_the_chain() {
    for (hash, kind) in kinds() {
        let repo = chain_of_three(hash);
        let objects = repo.objects_dir();
        let (layers, problems) = load(&objects, kind);
        let layers = layers.unwrap();
        assert!(layers.is_chain() && problems.is_empty());
        assert_eq!((layers.layers().len(), layers.pack_count(), layers.count()), (3, 3, 9));
        let mut below = (0, 0);
        for layer in layers.layers() {
            assert_eq!((layer.base_packs(), layer.base_objects()), below);
            below = (below.0 + layer.midx().pack_count(), below.1 + layer.midx().count());
        }
        for id in repo.all_objects() {
            let id: ObjectId = id.parse().unwrap();
            let (layer, pos) = layers.lookup(&id).unwrap();
            assert_eq!(layer.midx().id(pos), id);
        }
        for pack in repo.packs() {
            assert!(layers.covers_pack(pack.file_name().unwrap().as_encoded_bytes()));
        }
        assert!(!layers.covers_pack(b"pack-1"));
        assert_eq!(layers.pack_names().count(), 3);

        let top = layers.layers()[2].path();
        fs::copy(top, objects.join("pack/multi-pack-index")).unwrap();
        let (layers, problems) = load(&objects, kind);
        let layers = layers.unwrap();
        assert!(!layers.is_chain() && problems.is_empty());
        assert_eq!((layers.layers().len(), layers.count()), (1, 3));

        // A file that cannot be used lets the chain have its turn.
        fs::write(objects.join("pack/multi-pack-index"), b"").unwrap();
        let (layers, problems) = load(&objects, kind);
        assert_eq!(layers.unwrap().count(), 9);
        let least = 12 + kind.len();
        assert_eq!(
            problems,
            [format!("multi-pack-index: truncated multi-pack-index: {least} bytes needed, 0 there at byte 0")]
        );
    }
}

#[test]
fn a_chain_is_used_as_far_as_it_is_sound() {
    for (hash, kind) in kinds() {
        let repo = chain_of_three(hash);
        let dir = repo.objects_dir().join("pack/multi-pack-index.d");
        let chain = dir.join("multi-pack-index-chain");
        let text = fs::read_to_string(&chain).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let found = |content: &str| {
            fs::write(&chain, content).unwrap();
            let (layers, problems) = load(&repo.objects_dir(), kind);
            (layers.map_or(0, |layers| layers.layers().len()), problems)
        };
        assert_eq!(found(&text), (3, vec![]));
        assert_eq!(found(""), (0, vec![]));
        let (layers, problems) = found("ab\n");
        assert_eq!(layers, 0);
        assert!(problems[0].starts_with("multi-pack-index-chain: truncated line"), "{problems:?}");
        let (layers, problems) = found(&format!("{}\n{}\n{}\n", lines[0], "x".repeat(kind.hex_len()), lines[2]));
        assert_eq!(layers, 1);
        assert!(problems[0].contains("is no id"), "{problems:?}");
        let (layers, problems) = found(&format!("{}\n{}\n{}\n", lines[0], kind.null(), lines[2]));
        assert_eq!(layers, 1);
        assert!(problems[0].ends_with("entity not found"), "{problems:?}");
        let other = if kind == HashKind::Sha1 { HashKind::Sha256 } else { HashKind::Sha1 };
        assert_eq!(found(&format!("{}\n", other.null())).0, 0);
        fs::remove_file(dir.join(format!("multi-pack-index-{}.midx", lines[1]))).unwrap();
        let (layers, problems) = found(&text);
        assert_eq!((layers, problems.len()), (1, 1));
    }
}
