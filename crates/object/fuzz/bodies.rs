//! What the fuzz targets do with their bytes. The integration tests run the same over `regressions/`.

use packstone_object::{
    HashKind, ObjectId, Prefix,
    commit::{self, Commit, Signature},
    header,
    tag::Tag,
    tree::Entries,
};

/// A body: it panics when it finds something.
pub type Body = fn(&[u8]);

/// Each body by the name of its target and of its folder of inputs.
pub const ALL: &[(&str, Body)] = &[("parse_object", parse_object), ("round_id", round_id)];

/// Reads the bytes as every kind of object, and asks everything of what can be read.
pub fn parse_object(bytes: &[u8]) {
    for hash in HashKind::ALL {
        let mut parents = Vec::new();
        let links = commit::links(bytes, hash, &mut parents);
        match Commit::parse(bytes, hash) {
            Ok(commit) => {
                let _ = (commit.author(), commit.committer(), commit.encoding(), commit.message());
                assert!(commit.headers().count() <= bytes.len());
                assert!(commit.parents().eq(parents.iter().copied()));
                assert_eq!(commit.parents().len(), parents.len());
                assert_eq!(links, Ok((commit.tree(), commit.commit_time())));
            }
            Err(error) => {
                assert!(error.at <= bytes.len() as u64);
                assert_eq!(links, Err(error));
            }
        }
        match Tag::parse(bytes, hash) {
            Ok(tag) => {
                let _ = (tag.target(), tag.target_kind(), tag.name(), tag.tagger(), tag.message());
                assert!(tag.headers().count() <= bytes.len());
            }
            Err(error) => assert!(error.at <= bytes.len() as u64),
        }
        let mut at = 0;
        for entry in Entries::new(bytes, hash) {
            match entry {
                Ok(entry) => {
                    assert_eq!(entry.at, at);
                    assert!(!entry.name.is_empty() && !entry.name.contains(&0));
                    assert_eq!(bytes[entry.end - hash.len()..entry.end], *entry.id.as_bytes());
                    at = entry.end;
                }
                Err(error) => {
                    assert!(error.at <= bytes.len() as u64);
                    at = bytes.len();
                }
            }
        }
        assert_eq!(at, bytes.len());
    }
    let _ = Signature::parse(bytes);
    if let Ok((kind, size, len)) = header::parse(bytes) {
        assert_eq!(header::encode(kind, size)[..], bytes[..len]);
    }
}

/// Text to ids and prefixes, and back.
pub fn round_id(bytes: &[u8]) {
    if let Ok(id) = ObjectId::from_hex(bytes) {
        assert_eq!(id.to_hex().as_bytes(), bytes.to_ascii_lowercase());
    }
    if let Ok(id) = ObjectId::from_bytes(bytes) {
        assert_eq!(id.as_bytes(), bytes);
        assert_eq!(ObjectId::from_hex(id.to_hex().as_bytes()), Ok(id));
    }
    for hash in HashKind::ALL {
        if let Ok(prefix) = Prefix::from_hex(bytes, hash) {
            assert_eq!(prefix.to_string().as_bytes(), bytes.to_ascii_lowercase());
            assert!(prefix.matches(&prefix.lowest()));
        }
    }
}
