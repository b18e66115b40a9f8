//! Sets and files of drawn shapes.

use std::collections::BTreeSet;

use object::{HashKind, ObjectId};
use pack_format::{IdxPos, PackPos};
use packstone_pack_bitmap::{BitmapFile, Scratch, to_roaring};
use proptest::prelude::*;
use revwalk::{ObjectNr, ObjectSet};
use testkit::Hash;

use crate::parts::{Entry, Parts, TABLE, made_of};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn roaring_holds_the_same(numbers in prop::collection::btree_set(prop_oneof![0u32..200, 60_000u32..140_000], 0..300)) {
        let set: ObjectSet = numbers.iter().map(|n| ObjectNr::new(*n)).collect();
        prop_assert!(to_roaring(&set).iter().eq(numbers.iter().copied()));
    }

    /// Entry `i` is for the commit at index position and bit `i`; bases are drawn, and so is the memory of the scratch.
    #[test]
    fn chains_come_undone_whatever_is_remembered(
        drawn in prop::collection::vec((prop::collection::btree_set(0u32..300, 0..40), 0u8..200), 1..80),
        table in any::<bool>(),
        budget in 0usize..3000,
        asked in prop::collection::vec(any::<prop::sample::Index>(), 1..60),
    ) {
        const OBJECTS: u32 = 300;
        let want: Vec<BTreeSet<u32>> = drawn.iter().enumerate().map(|(i, (bits, _))| {
            bits.iter().copied().chain([i as u32]).collect()
        }).collect();
        let entries = drawn.iter().enumerate().map(|(i, (_, xor))| {
            let xor = *xor as usize % (i + 1).min(161);
            let bits: BTreeSet<u32> = match xor {
                0 => want[i].clone(),
                _ => &want[i] ^ &want[i - xor],
            };
            Entry { pos: i as u32, xor: xor as u8, flags: i as u8, bitmap: made_of(bits, OBJECTS) }
        }).collect();
        let all = made_of(0..OBJECTS, OBJECTS);
        let none = made_of([], 0);
        let parts = Parts {
            hash: Hash::Sha256,
            flags: if table { 1 | TABLE } else { 1 },
            count: None,
            pack: vec![9; 32],
            types: vec![all, none.clone(), none.clone(), none],
            entries,
            pseudo: vec![],
            table: vec![],
            names: vec![],
        };
        let pack = ObjectId::from_bytes(&[9; 32]).unwrap();
        let file = BitmapFile::parse(parts.bytes(), HashKind::Sha256, OBJECTS, &pack).unwrap();
        prop_assert_eq!(file.has_lookup_table(), table);
        let mut scratch = Scratch::with_budget(budget);
        for at in asked {
            let i = at.index(want.len());
            let words = file.reach(IdxPos::new(i as u32), PackPos::new(i as u32), &mut scratch).unwrap().unwrap();
            let got: BTreeSet<u32> = (0..OBJECTS).filter(|b| words[*b as usize / 64] >> (b % 64) & 1 == 1).collect();
            prop_assert_eq!(&got, &want[i]);
        }
    }
}
