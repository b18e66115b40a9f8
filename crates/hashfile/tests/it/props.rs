//! Properties over random operations and random splits.

use std::io::{Cursor, Write};

use object::HashKind;
use packstone_hashfile::{Compare, HashFile, Options, Trailer, WriteError, verify, verify_reader};
use proptest::prelude::*;
use testkit::io::{Ragged, Rng};

use crate::{KINDS, bodies, with_trailer};

fn kind() -> impl Strategy<Value = HashKind> {
    prop::sample::select(&KINDS[..])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// The fuzz target's body: a `Vec<u8>` under the same operations, full disks and all.
    #[test]
    fn same_as_a_vec(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        bodies::ops_hashfile(&bytes);
    }

    /// However the input is split and the sink behaves: the same bytes.
    #[test]
    fn splits_do_not_show(
        kind in kind(),
        len in 0usize..5000,
        cuts in prop::collection::vec(0usize..5000, 0..8),
        buffer in 1usize..700,
        most in 1usize..900,
        seed in any::<u64>(),
        threaded in any::<bool>(),
        hint in prop::option::of(0u64..6000),
    ) {
        let content = Rng::new(seed).bytes(len);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(len)).chain([0, len]).collect();
        cuts.sort_unstable();
        let options = Options::default().buffer_size(buffer).hash_on_thread(threaded).size_hint(hint);
        let mut out = HashFile::with_options(Ragged::new(Vec::new(), seed, most), kind, &options);
        for pair in cuts.windows(2) {
            out.write_all(&content[pair[0]..pair[1]]).unwrap();
        }
        let (sink, id) = out.finish().unwrap();
        prop_assert_eq!(id.as_bytes(), bodies::hash(kind, &content));
        prop_assert_eq!(sink.inner, with_trailer(kind, &content));
    }

    /// H1: write A, checkpoint, write B, rewind, write C is A then C, wherever the pieces fall in the buffer.
    #[test]
    fn rewinding(
        kind in kind(),
        a in 0usize..400, b in 0usize..400, c in 0usize..400,
        buffer in 1usize..200,
        flush in any::<[bool; 3]>(),
        threaded in any::<bool>(),
    ) {
        let bytes = Rng::new(7).bytes(a + b + c);
        let options = Options::default().buffer_size(buffer).hash_on_thread(threaded);
        let mut out = HashFile::with_options(Cursor::new(Vec::new()), kind, &options);
        out.crc32_begin();
        out.write_all(&bytes[..a]).unwrap();
        if flush[0] { out.flush().unwrap(); }
        let place = out.checkpoint().unwrap();
        prop_assert_eq!(place.total(), a as u64);
        for _ in 0..2 {
            out.write_all(&bytes[a..a + b]).unwrap();
            if flush[1] { out.flush().unwrap(); }
            out.truncate(&place).unwrap();
            prop_assert_eq!(out.total(), a as u64);
        }
        out.write_all(&bytes[a + b..]).unwrap();
        if flush[2] { out.flush().unwrap(); }
        let want = [&bytes[..a], &bytes[a + b..]].concat();
        prop_assert_eq!(out.crc32_end(), bodies::crc32(&want));
        let (sink, _) = out.finish().unwrap();
        prop_assert_eq!(sink.into_inner(), with_trailer(kind, &want));
    }

    /// A trailer is found wherever reads end, and any flipped bit is.
    #[test]
    fn verifying(kind in kind(), len in 0usize..3000, flip in any::<prop::sample::Index>(), seed in any::<u64>()) {
        let mut file = with_trailer(kind, &Rng::new(seed).bytes(len));
        let ragged = |file: &[u8]| verify_reader(Ragged::new(Cursor::new(file.to_vec()), seed, 50), kind);
        prop_assert!(matches!(verify(&file, kind), Ok(Trailer::Matches(_))));
        prop_assert!(matches!(ragged(&file), Ok(Trailer::Matches(_))));
        let bit = flip.index(file.len() * 8);
        file[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(verify(&file, kind).is_err());
        prop_assert!(ragged(&file).is_err());
    }

    /// A comparing sink agrees with `==`, and says where.
    #[test]
    fn comparing(
        kind in kind(),
        old in prop::collection::vec(0u8..3, 0..60),
        new in prop::collection::vec(0u8..3, 0..60),
        buffer in 1usize..20,
        seed in any::<u64>(),
    ) {
        let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count() as u64;
        let existing = Ragged::new(Cursor::new(old.clone()), seed, 7);
        let mut out = HashFile::with_options(Compare::new(existing), kind, &Options::default().buffer_size(buffer));
        let end = out.write_all(&new).map_err(|e| WriteError::Io { taken: 0, source: e })
            .and_then(|()| out.finish_without_trailer())
            .map_err(std::io::Error::from)
            .and_then(|(compare, _)| compare.finish());
        match end {
            Ok(_) => prop_assert_eq!(old, new),
            Err(e) => {
                let found = e.downcast::<packstone_hashfile::WriteError>().map_or_else(
                    |e| e.downcast::<packstone_hashfile::Difference>().expect("a difference"),
                    |e| match e { WriteError::Differs(difference) => difference, e => panic!("{e}") },
                );
                prop_assert_ne!(old, new);
                prop_assert_eq!(found.at, same);
            }
        }
    }
}
