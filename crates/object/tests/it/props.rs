//! Laws, and equality with models too simple to be wrong.

use packstone_object::{
    Checksum, HashKind, NameHasher, ObjectId, ObjectKind, Prefix, commit, object_id, tree::Entries,
};
use proptest::prelude::*;

fn kind() -> impl Strategy<Value = HashKind> {
    prop_oneof![Just(HashKind::Sha1), Just(HashKind::Sha256)]
}

fn id() -> impl Strategy<Value = ObjectId> {
    // Few different bytes, so that ids share beginnings.
    let byte = || prop_oneof![Just(0u8), Just(0x0f), Just(0xf0), any::<u8>()];
    kind()
        .prop_flat_map(move |kind| prop::collection::vec(byte(), kind.len()))
        .prop_map(|bytes| ObjectId::from_bytes(&bytes).unwrap())
}

proptest! {
    #[test]
    fn hex_round_trip(id in id()) {
        let naive: String = id.as_bytes().iter().map(|b| format!("{b:02x}")).collect();
        prop_assert_eq!(&*id.to_hex(), &naive);
        prop_assert_eq!(id.to_string(), naive.clone());
        prop_assert_eq!(naive.parse::<ObjectId>(), Ok(id));
        prop_assert_eq!(naive.to_uppercase().parse::<ObjectId>(), Ok(id));
        let mut out = [b'-'; 65];
        id.write_hex(&mut out);
        prop_assert_eq!(&out[..naive.len()], naive.as_bytes());
        prop_assert_eq!(out[naive.len()], b'-');
    }

    #[test]
    fn one_bad_digit_is_found(id in id(), at in 0..40usize, bad in any::<u8>()) {
        prop_assume!(!bad.is_ascii_hexdigit());
        let mut text = id.to_hex().as_bytes().to_vec();
        text[at] = bad;
        prop_assert!(ObjectId::from_hex(&text).is_err());
        prop_assert_eq!(ObjectId::from_hex_prefix(&text, id.kind()), None);
    }

    #[test]
    fn ids_order_as_bytes(a in id(), b in id()) {
        if a.kind() == b.kind() {
            prop_assert_eq!(a.cmp(&b), a.as_bytes().cmp(b.as_bytes()));
            prop_assert_eq!(a == b, a.as_bytes() == b.as_bytes());
        } else {
            prop_assert_ne!(a, b);
        }
    }

    #[test]
    fn prefixes_are_beginnings_of_text(a in id(), b in id(), digits in 4..=40usize) {
        let text = a.to_hex();
        let prefix = Prefix::from_hex(&text.as_bytes()[..digits], a.kind()).unwrap();
        prop_assert_eq!(prefix.to_string(), &text[..digits]);
        prop_assert!(prefix.matches(&a) && prefix.lowest() <= a);
        prop_assert_eq!(prefix.cmp_id(b.as_bytes()), text[..digits].cmp(&b.to_hex()[..digits]));
        prop_assert_eq!(prefix.matches(&b), a.kind() == b.kind() && b.to_hex().starts_with(&text[..digits]));
    }

    #[test]
    fn hashing_in_pieces(kind in kind(), content in prop::collection::vec(any::<u8>(), 0..300), cuts in prop::collection::vec(0..300usize, 0..4)) {
        let whole = object_id(kind, ObjectKind::Blob, &content).unwrap();
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(content.len())).collect();
        cuts.sort();
        let mut hasher = NameHasher::new(kind, ObjectKind::Blob, content.len() as u64);
        // The same through the plain hasher, header and all: the two differ only under attack.
        let mut plain = Checksum::new(kind);
        plain.update(format!("blob {}\0", content.len()).as_bytes());
        let mut from = 0;
        for cut in cuts.into_iter().chain([content.len()]) {
            hasher.update(&content[from..cut]);
            plain.update(&content[from..cut]);
            from = cut;
        }
        prop_assert_eq!(hasher.finish().unwrap(), whole);
        prop_assert_eq!(plain.finish(), whole);
    }

    #[test]
    fn trees_round_trip(kind in kind(), entries in prop::collection::vec((0..=0xffffu32, prop::collection::vec(1..=255u8, 1..40)), 0..8), seed in any::<u8>()) {
        let mut bytes = Vec::new();
        let id = |i: usize| ObjectId::from_bytes(&vec![seed.wrapping_mul(i as u8); kind.len()]).unwrap();
        for (i, (mode, name)) in entries.iter().enumerate() {
            bytes.extend_from_slice(format!("{mode:o} ").as_bytes());
            bytes.extend_from_slice(name);
            bytes.push(0);
            bytes.extend_from_slice(id(i).as_bytes());
        }
        let found: Vec<_> = Entries::new(&bytes, kind).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(found.len(), entries.len());
        for (i, (entry, (mode, name))) in found.iter().zip(&entries).enumerate() {
            prop_assert_eq!((entry.mode.0, entry.name, entry.id), (*mode, &name[..], id(i)));
            prop_assert_eq!(Entries::from_offset(&bytes, kind, entry.at).next(), Some(Ok(*entry)));
        }
    }

    #[test]
    fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        crate::regressions::bodies::parse_object(&bytes);
    }

    /// Lines that look like those of commits and tags, in any order.
    #[test]
    fn any_lines_can_be_read(lines in prop::collection::vec(prop_oneof![
        Just("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904"),
        Just("parent 4b825dc642cb6eb9a060e54bf8d69288fbee4904"),
        Just("object 4b825dc642cb6eb9a060e54bf8d69288fbee4904"),
        Just("type blob"), Just("tag x"), Just("author A <a> 1 +0000"), Just("committer C <c> 2 +0000"),
        Just("tagger > < 5"), Just(""), Just(" "), Just("encoding"), Just("> > 3"),
    ], 0..9), end in any::<bool>()) {
        let mut text = lines.join("\n");
        if end { text.push('\n'); }
        crate::regressions::bodies::parse_object(text.as_bytes());
        let mut parents = Vec::new();
        let links = commit::links(text.as_bytes(), HashKind::Sha1, &mut parents);
        let whole = commit::Commit::parse(text.as_bytes(), HashKind::Sha1);
        match (links, whole) {
            (Ok((tree, time)), Ok(whole)) => {
                prop_assert_eq!((tree, time), (whole.tree(), whole.commit_time()));
                prop_assert_eq!(parents, whole.parents().collect::<Vec<_>>());
            }
            (Err(a), Err(b)) => prop_assert_eq!(a, b),
            (a, b) => prop_assert!(false, "{a:?} {b:?}"),
        }
    }
}
