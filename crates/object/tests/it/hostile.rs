//! Bytes that lie.

use packstone_object::{
    HashKind, IdError, ObjectId, ObjectKind, ParseErrorKind, Prefix,
    commit::{Commit, Signature},
    header,
    tag::Tag,
    tree::Entries,
};

use crate::kinds;

/// cases.md of loose objects: what a header may and may not be.
#[test]
fn loose_headers() {
    let good = |bytes: &[u8]| header::parse(bytes).unwrap();
    assert_eq!(good(b"blob 12\0this is a"), (ObjectKind::Blob, 12, 8));
    assert_eq!(good(b"tree 0\0"), (ObjectKind::Tree, 0, 7));
    let most = b"commit 18446744073709551615\0";
    assert_eq!(good(most), (ObjectKind::Commit, u64::MAX, most.len()));
    assert_eq!(good(b"blob 9223372036854775808\0").1, 1 << 63);
    let bad = |bytes: &[u8]| header::parse(bytes).unwrap_err().kind;
    for size in [
        &b"04"[..],
        b"00",
        b"+4",
        b"-4",
        b"4 ",
        b" 4",
        b"",
        b"0x4",
        b"4\n",
        b"18446744073709551616",
        b"99999999999999999999999",
    ] {
        assert_eq!(bad(&[b"blob ", size, b"\0abcd"].concat()), ParseErrorKind::BadSize, "{size:?}");
    }
    for kind in ["blub", "BLOB", "", "blob\t", "bloblob"] {
        assert_eq!(bad(format!("{kind} 4\0abcd").as_bytes()), ParseErrorKind::UnknownKind, "{kind:?}");
    }
    assert!(matches!(bad(b"blob4\0"), ParseErrorKind::Expected { .. }));
    // No NUL within 32 bytes, or at all.
    for long in [[&b"blob 4"[..], &[b'5'; 60]].concat(), b"blob 4".to_vec(), Vec::new()] {
        assert!(matches!(bad(&long), ParseErrorKind::Truncated { .. }));
    }
    for kind in ObjectKind::ALL {
        for size in [0, 9, 10, u64::from(u32::MAX), u64::MAX] {
            let bytes = header::encode(kind, size);
            assert_eq!(bytes[..], *format!("{} {size}\0", kind.name()).as_bytes());
            assert_eq!(good(&bytes), (kind, size, bytes.len()));
        }
    }
}

#[test]
fn ids_and_prefixes() {
    assert_eq!(ObjectId::from_bytes(&[1; 21]), Err(IdError::Length { found: 21 }));
    assert_eq!(ObjectId::from_hex(&[b'a'; 41]), Err(IdError::HexLength { found: 41 }));
    let mut text = [b'a'; 64];
    text[63] = b'g';
    assert_eq!(ObjectId::from_hex(&text), Err(IdError::Digit { at: 63, found: b'g' }));
    for (_, kind) in kinds() {
        for len in [0, 3, kind.hex_len() + 1] {
            assert_eq!(Prefix::from_hex(&vec![b'a'; len], kind), Err(IdError::PrefixLength { kind, found: len }));
        }
        assert_eq!(Prefix::from_hex(b"aaa\xff", kind), Err(IdError::Digit { at: 3, found: 0xff }));
        // A prefix of one kind never names an id of the other.
        let other = if kind == HashKind::Sha1 { HashKind::Sha256 } else { HashKind::Sha1 };
        assert!(!Prefix::from_hex(b"0000", kind).unwrap().matches(&other.null()));
        assert!(Prefix::from(kind.empty_tree()).matches(&kind.empty_tree()));
        // Bytes shorter than the prefix lack its digits.
        assert!(Prefix::from(kind.null()).cmp_id(&[0; 3]).is_gt());
        assert!(Prefix::from_hex(b"00000", kind).unwrap().cmp_id(&[0; 2]).is_gt());
        assert_eq!(HashKind::from_name(kind.name()), Some(kind));
        assert_eq!(HashKind::from_file_id(kind.file_id()), Some(kind));
        assert_eq!(HashKind::from_len(kind.len()), Some(kind));
    }
    assert_eq!(size_of::<ObjectId>(), 33);
}

/// Every cut of a good object parses or fails, and what parses can be asked everything.
#[test]
fn cuts() {
    for (_, kind) in kinds() {
        let id = kind.empty_tree();
        let who = "A U Thor <a@example.com> 1700000000 -0130";
        let commit = format!(
            "tree {id}\nparent {id}\nparent {id}\nauthor {who}\ncommitter {who}\nencoding latin1\ngpgsig a\n b\n\n c\n\nhello\n\nworld\n"
        );
        for cut in 0..=commit.len() {
            crate::regressions::bodies::parse_object(&commit.as_bytes()[..cut]);
        }
        let parsed = Commit::parse(commit.as_bytes(), kind).unwrap();
        assert_eq!(parsed.encoding(), Some(&b"latin1"[..]));
        assert_eq!(parsed.header("gpgsig"), Some(&b"a\n b"[..]));
        assert_eq!(parsed.message(), b" c\n\nhello\n\nworld\n");
        assert_eq!(parsed.author().unwrap().offset, -90);
        let tag = format!("object {id}\ntype tree\ntag v1\ntagger {who}\n\nhello\n");
        for cut in 0..tag.len() {
            crate::regressions::bodies::parse_object(&tag.as_bytes()[..cut]);
        }
        let tag = Tag::parse(tag.as_bytes(), kind).unwrap();
        assert_eq!((tag.name(), tag.message()), (&b"v1"[..], &b"hello\n"[..]));
        assert_eq!(tag.tagger().unwrap().name, b"A U Thor");
        for bad in ["type blub", "type tree ", "tpye tree"] {
            assert!(Tag::parse(format!("object {id}\n{bad}\ntag v1\n\nhello, hello\n").as_bytes(), kind).is_err());
        }
    }
}

#[test]
fn signatures() {
    let parse = |text: &'static str| Signature::parse(text.as_bytes());
    let full = parse("A <a@b> 5 +0130").unwrap();
    assert_eq!((full.name, full.email, full.seconds, full.offset), (&b"A"[..], &b"a@b"[..], 5, 90));
    assert_eq!(parse("<a@b> 5 +0000").unwrap().name, b"");
    assert_eq!(parse("A <a>b> 5 +0000").unwrap().seconds, 5);
    assert_eq!(parse("A <a> -5 -0000").unwrap().seconds, -5);
    assert_eq!(parse("A <a> 99999999999999999999 +99999999").unwrap().seconds, i64::MAX);
    assert_eq!(parse("A <a>").unwrap().seconds, 0);
    assert_eq!((parse("A"), parse("A <a"), parse("")), (None, None, None));
}

#[test]
fn tree_errors_say_where_and_end_it() {
    for (_, kind) in kinds() {
        let mut bytes = b"100644 a\0".to_vec();
        bytes.extend_from_slice(kind.empty_blob().as_bytes());
        let second = bytes.len();
        bytes.extend_from_slice(b"10064x b\0");
        bytes.extend_from_slice(kind.empty_blob().as_bytes());
        let mut entries = Entries::new(&bytes, kind);
        assert_eq!(entries.next().unwrap().unwrap().end, second);
        let error = entries.next().unwrap().unwrap_err();
        assert_eq!((error.at, error.kind), (second as u64 + 5, ParseErrorKind::BadMode));
        assert!(entries.next().is_none() && entries.next().is_none());
        // Beginning in the middle, and beyond the end.
        assert_eq!(Entries::from_offset(&bytes, kind, second).offset(), second);
        assert!(Entries::from_offset(&bytes, kind, usize::MAX).next().is_none());
    }
}
