//! What the fuzz targets do with their bytes. The integration tests run the same over `regressions/`.

use packstone_object::{
    HashKind, ObjectId, ObjectKind, Prefix,
    commit::{self, Commit, Signature},
    fsck::{self, Detail, Finding, Severities, Sink, SkipList, Special, TreeCheck},
    header,
    tag::Tag,
    tree::{Entries, Mode},
};

/// A body: it panics when it finds something.
pub type Body = fn(&[u8]);

/// Each body by the name of its target and of its folder of inputs.
pub const ALL: &[(&str, Body)] = &[
    ("parse_object", parse_object),
    ("round_id", round_id),
    ("fsck_object", fsck_object),
    ("fsck_blob", fsck_blob),
    ("fsck_settings", fsck_settings),
];

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

/// Counts what it is told, and looks at each.
#[derive(Default)]
struct Told {
    findings: usize,
    errors: usize,
    entries: usize,
    special: Vec<Special>,
}

impl Sink for Told {
    fn finding(&mut self, finding: Finding<'_>) {
        self.findings += 1;
        self.errors += usize::from(finding.severity.is_error());
        let text = finding.to_string();
        assert!(text.starts_with(finding.id.name()));
        if let Detail::Text(_) = finding.detail {
            assert!(!text.contains(['\0', '\r', '\x1b']));
        }
    }

    fn special(&mut self, special: Special, id: &[u8]) {
        assert!(id.len() == 20 || id.len() == 32);
        self.special.push(special);
    }

    fn entry(&mut self, mode: Mode, _: &[u8]) {
        assert!(mode.0 <= 0xffff);
        self.entries += 1;
    }
}

/// Checks the bytes as every kind of object. What is sound can be parsed.
pub fn fsck_object(bytes: &[u8]) {
    for hash in HashKind::ALL {
        for severities in [Severities::default(), Severities::strict(), Severities::pedantic()] {
            let mut told = Told::default();
            let sound = fsck::check(ObjectKind::Tree, bytes, hash, &severities, &mut told);
            assert_eq!(sound, told.errors == 0);
            let entries = Entries::new(bytes, hash);
            assert_eq!(told.entries, entries.clone().map_while(Result::ok).count().min(told.entries));
            if sound {
                assert_eq!(told.entries, entries.count());
                assert!(Entries::new(bytes, hash).all(|entry| entry.is_ok()));
            }
            // One tree after another, of which each may be remembered, says of each what it says alone.
            let mut checker = TreeCheck::new(hash, severities.clone());
            for part in [bytes, bytes.get(bytes.len() / 2..).unwrap_or_default(), bytes] {
                let (mut alone, mut after) = (Told::default(), Told::default());
                let sound = fsck::check(ObjectKind::Tree, part, hash, &severities, &mut alone);
                assert_eq!(checker.check(part, &mut after), sound);
                assert_eq!((alone.findings, alone.errors), (after.findings, after.errors));
            }
            let mut told = Told::default();
            if fsck::check(ObjectKind::Tag, bytes, hash, &severities, &mut told) {
                assert!(Tag::parse(bytes, hash).is_ok() || bytes.len() < hash.hex_len() + 24);
            }
            let mut told = Told::default();
            if fsck::check(ObjectKind::Commit, bytes, hash, &severities, &mut told) {
                assert!(Commit::parse(bytes, hash).is_ok());
            }
            assert!(told.errors <= 1 && told.entries == 0 && told.special.is_empty());
        }
    }
}

/// Checks the bytes as blobs with a meaning.
pub fn fsck_blob(bytes: &[u8]) {
    let mut told = Told::default();
    let sound = fsck::gitmodules(bytes, &Severities::strict(), &mut told);
    assert_eq!(sound, told.errors == 0);
    assert!(told.findings <= bytes.len() + 1);
    let sound = fsck::gitattributes(bytes, &Severities::strict(), &mut told);
    assert!(sound || bytes.len() >= fsck::MAX_ATTRIBUTES_LINE);
}

/// Reads the bytes as settings and as a list of objects.
pub fn fsck_settings(bytes: &[u8]) {
    let mut severities = Severities::strict();
    match severities.apply(bytes) {
        Ok(lists) => assert!(lists.iter().all(|list| list.len() <= bytes.len())),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    for hash in HashKind::ALL {
        let mut list = SkipList::default();
        if let Err(error) = list.parse(bytes, hash) {
            assert!(error.at < bytes.len() && error.line > 0);
        }
    }
}
