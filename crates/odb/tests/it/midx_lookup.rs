//! Look-ups through multi-pack-indexes: that they are used, and what happens when they or their packs are not sound (O15).

use std::fs;
use std::path::{Path, PathBuf};

use object::ObjectId;
use packstone_odb::{ProblemKind, Store};
use testkit::{Hash, TestRepo};

use crate::differential::in_packs;
use crate::support::{SOURCES, objects_by_git, options, read_all_ways, store};

fn spoil_indices(repo: &TestRepo) {
    for pack in repo.packs() {
        overwrite(&pack.with_extension("idx"), b"no index");
    }
}

/// Git's files are read-only.
fn overwrite(path: &Path, bytes: &[u8]) {
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn objects_are_found_and_read_without_the_packs_own_indices() {
    for hash in Hash::ALL {
        for incremental in [false, true] {
            for source in SOURCES {
                let repo = in_packs(hash, 3);
                let args = ["multi-pack-index", "write", "--incremental"];
                repo.git(&args[..2 + usize::from(incremental)]);
                let objects = objects_by_git(&repo);
                spoil_indices(&repo);
                let options = options(hash).byte_source(source);
                let store = Store::open(&repo.objects_dir(), options.clone()).unwrap();
                for (id, (kind, content)) in &objects {
                    let (found, out) = read_all_ways(&store, id).unwrap();
                    assert!(found == *kind && out == *content);
                }
                let ids: Vec<ObjectId> = store.ids().unwrap().collect();
                assert_eq!(ids, objects.keys().copied().collect::<Vec<_>>());
                assert_eq!(store.problems(), []);
                // The proof that they are spoilt.
                let without = Store::open(&repo.objects_dir(), options.use_midx(false)).unwrap();
                assert!(without.read(&ids[0], &mut Vec::new()).unwrap_err().is_missing());
                assert!(matches!(without.problems()[0].kind, ProblemKind::BrokenPack(_)));
            }
        }
    }
}

#[test]
fn o15_a_pack_that_is_gone_and_a_later_one_with_everything() {
    for hash in Hash::ALL {
        for incremental in [false, true] {
            let repo = in_packs(hash, 3);
            let args = ["multi-pack-index", "write", "--incremental"];
            repo.git(&args[..2 + usize::from(incremental)]);
            let objects = objects_by_git(&repo);
            let old = store(&repo);
            read_all_ways(&old, objects.keys().next().unwrap()).unwrap();
            let covered = repo.packs();
            repo.git(["repack", "-afq"]); // a fourth, beside the others
            assert_eq!(repo.packs().len(), 4);
            for extension in ["pack", "idx"] {
                fs::remove_file(covered[1].with_extension(extension)).unwrap();
            }
            for store in [old, store(&repo)] {
                assert_eq!(store.midx(0).unwrap().pack_count(), 3);
                for (id, (_, content)) in &objects {
                    assert!(read_all_ways(&store, id).unwrap().1 == *content, "{id}");
                    assert!(store.find(id).unwrap().is_some());
                    assert!(!store.copies(id).unwrap().is_empty());
                    assert_eq!(store.abbreviate(id, hash.hex_len()).unwrap(), hash.hex_len());
                }
                let ids: Vec<ObjectId> = store.ids().unwrap().collect();
                assert_eq!(ids, objects.keys().copied().collect::<Vec<_>>());
            }
            assert!(store(&repo).problems().iter().any(|p| matches!(p.kind, ProblemKind::MidxPackMissing(_))));
        }
    }
}

#[test]
fn o15_one_file_of_a_pack_is_gone_and_another_copy_is_loose_or_is_not() {
    for gone in ["pack", "idx"] {
        for hash in Hash::ALL {
            let repo = in_packs(hash, 2);
            repo.git(["multi-pack-index", "write"]);
            let objects = objects_by_git(&repo);
            let victim = &repo.packs()[0];
            let listed = repo.ids_of_pack(victim);
            fs::remove_file(victim.with_extension(gone)).unwrap();
            let store = store(&repo);
            for (id, (kind, content)) in &objects {
                if !listed.contains(&id.to_string()) {
                    assert!(read_all_ways(&store, id).unwrap().1 == *content);
                    continue;
                }
                assert!(read_all_ways(&store, id).unwrap_err().is_missing(), "{id}");
                let loose = [format!("{} {}\0", kind.name(), content.len()).as_bytes(), content].concat();
                testkit::pack::write_loose(&repo.objects_dir(), id.as_bytes(), &loose);
                assert!(read_all_ways(&store, id).unwrap().1 == *content);
            }
        }
    }
}

#[test]
fn o15_a_copy_that_the_index_prefers_is_damaged() {
    for hash in Hash::ALL {
        let repo = in_packs(hash, 2);
        repo.git(["repack", "-afq"]); // everything once more
        repo.git(["multi-pack-index", "write"]);
        let objects = objects_by_git(&repo);
        for pack in repo.packs() {
            let mut bytes = fs::read(&pack).unwrap();
            let good = bytes.clone();
            let end = bytes.len() - hash.len();
            bytes[12..end].fill(0xff);
            overwrite(&pack, &bytes);
            let store = store(&repo);
            let mut recovered = 0;
            for (id, (_, content)) in &objects {
                let mut out = Vec::new();
                match store.read(id, &mut out) {
                    Ok(_) => assert!(out == *content),
                    Err(error) => assert!(error.is_corrupt(), "{error}"),
                }
                let damaged = store.problems().iter().any(
                    |problem| matches!(&problem.kind, ProblemKind::DamagedCopy { id: damaged, .. } if damaged == id),
                );
                recovered += usize::from(damaged && !out.is_empty());
            }
            // The last pack has everything, so whatever the others lose is read from there.
            let everything = repo.ids_of_pack(&pack).len() == objects.len();
            assert!(everything || objects.keys().all(|id| store.header(id).is_ok()));
            assert!(everything || recovered > 5 || !midx_prefers(&store, &pack));
            overwrite(&pack, &good);
        }
    }
}

/// Whether the multi-pack-index lists some object in this pack.
fn midx_prefers(store: &Store, pack: &Path) -> bool {
    let layers = store.midx(0).unwrap();
    let midx = layers.layers()[0].midx();
    let number = midx.find_pack(pack.file_stem().unwrap().as_encoded_bytes()).unwrap();
    (0..midx.count()).any(|pos| midx.location(pack_format::MidxPos::new(pos)).unwrap().0 == number)
}

#[test]
fn o15_a_damaged_index_is_passed_over() {
    for hash in Hash::ALL {
        let repo = in_packs(hash, 3);
        repo.git(["multi-pack-index", "write"]);
        let objects = objects_by_git(&repo);
        let path = repo.objects_dir().join("pack/multi-pack-index");
        let good = fs::read(&path).unwrap();
        // The header, the table of contents, the names: whatever is seen to be wrong leaves the packs themselves.
        let mut noted = 0;
        for at in (0..good.len().min(140)).chain([good.len() - 1]) {
            let mut bytes = good.clone();
            bytes[at] ^= 0x55;
            overwrite(&path, &bytes);
            let store = store(&repo);
            for (id, (_, content)) in &objects {
                let mut out = Vec::new();
                store.read(id, &mut out).unwrap_or_else(|error| panic!("byte {at}: {error}"));
                assert!(out == *content);
            }
            noted += usize::from(store.problems().iter().any(|p| matches!(p.kind, ProblemKind::BrokenMidx(_))));
        }
        assert!(noted > 60, "{noted}");
        for cut in [0, 1, 11, 12, 100, good.len() - 1] {
            overwrite(&path, &good[..cut]);
            let store = store(&repo);
            assert!(store.midx(0).is_none());
            assert!(objects.keys().all(|id| store.contains(id).unwrap()));
        }
        // Offsets and pack numbers that lead elsewhere are wrong for single objects.
        let offsets = good.len() - hash.len() - objects.len() * 8;
        for (rank, (id, (_, content))) in objects.iter().enumerate().step_by(5) {
            for (byte, value) in [(0, 0x7f), (3, 9), (4, 0x70), (7, good[offsets + rank * 8 + 7] ^ 1)] {
                let mut bytes = good.clone();
                bytes[offsets + rank * 8 + byte] = value;
                overwrite(&path, &bytes);
                let store = store(&repo);
                let mut out = Vec::new();
                store.read(id, &mut out).unwrap();
                assert!(out == *content && store.midx(0).is_some());
                assert!(store.contains(id).unwrap());
            }
        }
    }
}

#[test]
fn an_index_that_appears_changes_and_goes_away_while_the_store_is_open() {
    let repo = in_packs(Hash::Sha1, 2);
    let store = store(&repo);
    let objects = objects_by_git(&repo);
    let read = |store: &Store| {
        objects.iter().for_each(|(id, (_, content))| {
            assert!(read_all_ways(store, id).unwrap().1 == *content);
        })
    };
    read(&store);
    assert!(store.midx(0).is_none());
    repo.git(["multi-pack-index", "write"]);
    store.reload().unwrap();
    let first = store.midx(0).unwrap();
    read(&store);
    store.reload().unwrap();
    let again = store.midx(0).unwrap();
    assert!(std::sync::Arc::ptr_eq(&first.layers()[0], &again.layers()[0]), "nothing changed, so nothing is read");
    // Everything in one new pack, the old ones deleted together with their index.
    repo.git(["repack", "-adfq"]);
    assert!(!repo.objects_dir().join("pack/multi-pack-index").exists());
    read(&store);
    repo.git(["multi-pack-index", "write"]);
    store.reload().unwrap();
    assert_eq!(store.midx(0).unwrap().pack_count(), 1);
    read(&store);
}

#[test]
fn a_pack_that_an_index_names_can_be_had() {
    let repo = in_packs(Hash::Sha1, 3);
    repo.git(["multi-pack-index", "write"]);
    let store = store(&repo);
    let midx = store.midx(0).unwrap();
    let names: Vec<PathBuf> = (0..3)
        .map(|number| store.midx_pack(0, 0, pack_format::MidxPack::new(number)).unwrap().unwrap().path().to_owned())
        .collect();
    for (name, path) in midx.pack_names().zip(&names) {
        assert_eq!(path.with_extension("idx").file_name().unwrap().as_encoded_bytes(), name);
    }
    assert!(store.midx_pack(0, 0, pack_format::MidxPack::new(3)).unwrap().is_none());
    assert!(store.midx_pack(0, 1, pack_format::MidxPack::new(0)).unwrap().is_none());
    assert!(store.midx_pack(1, 0, pack_format::MidxPack::new(0)).unwrap().is_none());
}
