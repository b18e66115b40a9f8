//! What the fuzz targets do; `tests/it/regressions.rs` runs the same over `regressions/`.

use object::{HashKind, ObjectId};
use packstone_revwalk::commit_graph::GraphFile;
use packstone_revwalk::{CommitGraph, Filter, GraphPos};

/// The first byte chooses the hash; header fields that every parser refuses are put right, so that the
/// fuzzer's bytes go deeper.
pub fn parse_commit_graph(data: &[u8]) {
    let Some((choice, file)) = data.split_first() else { return };
    let hash = if choice & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    let mut file = file.to_vec();
    if file.len() >= 8 {
        file[..6].copy_from_slice(&[b'C', b'G', b'P', b'H', 1, hash.file_id() as u8]);
    }
    use_graph(&file, hash);
}

/// Parses, and calls every accessor for every commit.
pub fn use_graph(file: &[u8], hash: HashKind) {
    if let Ok(graph) = GraphFile::parse(file, hash) {
        let _ = graph.verify_checksum();
        let _ = graph.base_layers().count();
        let _ = graph.checksum();
        for first in 0..=255 {
            let id = ObjectId::from_bytes(&vec![first; hash.len()]).expect("a whole id");
            assert!(graph.rank(&id).is_none_or(|rank| rank < graph.len()));
        }
    }
    let Ok(graph) = CommitGraph::from_bytes(file.to_vec(), hash) else { return };
    let mut parents = Vec::new();
    let mut edges = 0;
    for pos in (0..graph.len()).map(GraphPos::new) {
        let found = graph.lookup(&graph.id(pos));
        assert!(found.is_none_or(|found| graph.id(found) == graph.id(pos)));
        let _ = graph.tree(pos);
        assert!(graph.commit_time(pos) < 1 << 34);
        assert!(graph.level(pos).is_none_or(|level| level < 1 << 30));
        let _ = graph.generation(pos);
        parents.clear();
        match graph.parents(pos, &mut parents) {
            Ok(()) => assert!(parents.iter().all(|parent| parent.get() < graph.len())),
            Err(_) => assert!(parents.is_empty()),
        }
        edges += parents.len();
        // Lists may overlap in a file made to be slow; the fuzzer need not wait for that.
        if edges > 1 << 16 {
            break;
        }
    }
}

/// A spec that parses prints as one that parses to the same.
pub fn parse_filter(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Filter::parse(text) {
        Ok(filter) => assert_eq!(Filter::parse(&filter.to_string()).as_ref(), Ok(&filter), "{text:?}"),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
