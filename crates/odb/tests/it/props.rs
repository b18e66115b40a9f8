//! Random packs against a naive model, and any bytes at all against nothing but the promise not to panic.

use packstone_odb::Store;
use proptest::prelude::*;
use testkit::pack::{Entry, Op, PackBuilder, delta, object_id};
use testkit::{Hash, TestRepo};

use crate::support::{SOURCES, id, options, read_all_ways};

/// How an object of a random pack is stored.
#[derive(Debug, Clone)]
enum Stored {
    Whole(Vec<u8>),
    /// Against the object `base` places back (modulo what there is), by offset or by id: the base with a part replaced.
    Delta {
        base: usize,
        by_id: bool,
        keep: usize,
        insert: Vec<u8>,
    },
}

fn stored() -> impl Strategy<Value = Stored> {
    prop_oneof![
        1 => prop::collection::vec(any::<u8>(), 0..200).prop_map(Stored::Whole),
        3 => (0..20usize, any::<bool>(), 0..200usize, prop::collection::vec(any::<u8>(), 1..100))
            .prop_map(|(base, by_id, keep, insert)| Stored::Delta { base, by_id, keep, insert }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn random_packs_read_as_the_model_says(objects in prop::collection::vec(stored(), 1..40), sha256 in any::<bool>(), budget in prop_oneof![Just(0), Just(2_000), Just(1 << 20)]) {
        let hash = if sha256 { Hash::Sha256 } else { Hash::Sha1 };
        let mut builder = PackBuilder::new(hash);
        let mut contents: Vec<Vec<u8>> = Vec::new();
        for object in &objects {
            let (entry, content) = match object {
                Stored::Delta { base, by_id, keep, insert } if !contents.is_empty() => {
                    let number = contents.len() - 1 - base % contents.len();
                    let from = &contents[number];
                    let keep = keep.min(&from.len()).to_owned();
                    let content = [&from[..keep], insert].concat();
                    let copy = if keep > 0 { vec![Op::Copy(0, keep as u32)] } else { vec![] };
                    let ops = [&copy[..], &[Op::Insert(insert)]].concat();
                    let program = delta(from.len() as u64, content.len() as u64, &ops);
                    let entry = if *by_id {
                        Entry::reference(&object_id(hash, "blob", from), &program)
                    } else {
                        Entry::ofs_to(number, &program)
                    };
                    (entry, content)
                }
                Stored::Delta { insert, .. } => (Entry::full("blob", insert), insert.clone()),
                Stored::Whole(content) => (Entry::full("blob", content), content.clone()),
            };
            // A pack holds an object once; twice is for the hostile tests.
            if contents.contains(&content) {
                continue;
            }
            builder = builder.entry(entry);
            contents.push(content);
        }
        let pack = builder.build();
        let ids: Vec<Vec<u8>> = contents.iter().map(|content| object_id(hash, "blob", content)).collect();
        let repo = tempfile::tempdir().unwrap();
        pack.write(repo.path(), &pack.idx(&ids));
        for source in SOURCES {
            let options = options(hash).byte_source(source).delta_base_cache(budget);
            let store = Store::open(repo.path(), options).unwrap();
            for (name, content) in ids.iter().zip(&contents).rev() {
                let (_, found) = read_all_ways(&store, &id(name)).unwrap();
                prop_assert_eq!(&found, content);
            }
        }
    }

    #[test]
    fn a_damaged_pack_is_noticed_or_harmless(at in 12usize..2000, bit in 0u8..8) {
        let repo = TestRepo::bare(Hash::Sha1);
        let base = testkit::repo::noise(1000);
        let longer = [&base[..], b"!"].concat();
        let mut pack = PackBuilder::new(Hash::Sha1)
            .entry(Entry::full("blob", &base))
            .entry(Entry::ofs_to(0, &delta(1000, 1001, &[Op::Copy(0, 1000), Op::Insert(b"!")])))
            .build();
        let ids = [pack.id("blob", &base), pack.id("blob", &longer)];
        let idx = pack.idx(&ids);
        let end = pack.bytes.len() - 20;
        pack.bytes[12 + at % (end - 12)] ^= 1 << bit;
        pack.write(&repo.objects_dir(), &idx);
        for source in SOURCES {
            let options = options(Hash::Sha1).byte_source(source).verify_on_read(true);
            let store = Store::open(&repo.objects_dir(), options).unwrap();
            for (name, content) in ids.iter().zip([&base, &longer]) {
                match read_all_ways(&store, &id(name)) {
                    Ok((_, found)) => prop_assert_eq!(&found, content),
                    Err(error) => prop_assert!(error.is_corrupt(), "{}", error),
                }
            }
        }
    }
}
