//! Many objects at once, and in the order of packs.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use object::ObjectId;
use packstone_odb::{Content, Many, Scratch, Store};
use testkit::Hash;

use crate::differential::in_packs;
use crate::support::{id, objects_by_git, options, store};

#[test]
fn results_come_in_the_order_asked_for_whatever_the_threads_and_blocks() {
    for hash in Hash::ALL {
        let repo = in_packs(hash, 3);
        repo.commit("loose");
        for midx in [false, true] {
            if midx {
                repo.git(["multi-pack-index", "write"]);
            }
            let objects = objects_by_git(&repo);
            // Not in any order, some twice, some missing, one of the other hash.
            let mut ids: Vec<ObjectId> = objects.keys().copied().collect();
            ids.sort_by_key(|id| (id.as_bytes()[3], *id));
            ids.insert(5, id(&vec![7; hash.len()]));
            ids.insert(9, ids[2]);
            ids.push(id(&vec![7; 52 - hash.len()]));
            for (threads, block, memory) in [(0, 1, 0), (1, 7, 1 << 20), (2, 1000, 1 << 20), (3, 4, 2000), (9, 2, 10)] {
                for verify in [false, true] {
                    let store = Store::open(&repo.objects_dir(), options(hash).verify_on_read(verify)).unwrap();
                    let many = Many::default().threads(threads).block(block).memory(memory);
                    let mut next = ids.iter();
                    let done = store.headers(ids.iter().copied(), &many, |id, header| {
                        assert_eq!(id, next.next().unwrap());
                        match (objects.get(id), header) {
                            (Some((kind, content)), Ok(header)) => {
                                assert_eq!((header.kind, header.size), (*kind, content.len() as u64));
                            }
                            (None, Err(error)) => assert!(error.is_missing()),
                            (_, other) => panic!("{id}: {other:?}"),
                        }
                        ControlFlow::<()>::Continue(())
                    });
                    assert!(done.is_continue() && next.next().is_none());

                    let (mut next, mut streamed) = (ids.iter(), 0);
                    let large = |header: &packstone_odb::ObjectHeader| header.size > 300;
                    let done = store.read_many(ids.iter().copied(), &many.in_order(block == 4), large, |id, read| {
                        assert_eq!(id, next.next().unwrap());
                        match (objects.get(id), read) {
                            (Some((kind, content)), Ok((found, Some(bytes)))) => {
                                assert!(content.len() <= 300 && found == *kind && bytes == content);
                            }
                            (Some((kind, content)), Ok((found, None))) => {
                                assert!(content.len() > 300 && found == *kind);
                                streamed += 1;
                            }
                            (None, Err(error)) => assert!(error.is_missing()),
                            (_, other) => panic!("{id}: {other:?}"),
                        }
                        ControlFlow::<()>::Continue(())
                    });
                    assert!(done.is_continue() && next.next().is_none() && streamed > 3);
                    assert_eq!(store.problems(), []);
                }
            }
        }
    }
}

#[test]
fn it_stops_when_told_to() {
    let repo = in_packs(Hash::Sha1, 2);
    let store = store(&repo);
    for threads in [1, 3] {
        let mut left = 5;
        let stopped = store.headers(store.ids().unwrap(), &Many::default().threads(threads).block(2), |id, _| {
            left -= 1;
            if left == 0 { ControlFlow::Break(*id) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(stopped, ControlFlow::Break(store.ids().unwrap().nth(4).unwrap()));
    }
}

#[test]
fn damaged_copies_are_recovered_here_too() {
    let repo = in_packs(Hash::Sha1, 1);
    let objects = objects_by_git(&repo);
    let pack = repo.only_pack();
    repo.git(["repack", "-afq", "--window=0"]);
    let whole = repo.packs().into_iter().find(|other| *other != pack).unwrap();
    let mut bytes = std::fs::read(&pack).unwrap();
    let end = bytes.len() - 20;
    bytes[200..end].fill(0xff);
    std::fs::remove_file(&pack).unwrap();
    std::fs::write(&pack, bytes).unwrap();
    let store = store(&repo);
    let mut read = 0;
    let _ = store.read_many(
        objects.keys().copied(),
        &Many::default().threads(2),
        |_| false,
        |id, content| {
            assert!(content.unwrap().1.unwrap() == objects[id].1);
            read += 1;
            ControlFlow::<()>::Continue(())
        },
    );
    assert_eq!(read, objects.len());
    assert!(whole.exists());
}

#[test]
fn ids_in_the_order_of_packs() {
    for hash in Hash::ALL {
        let repo = in_packs(hash, 1);
        let listed: Vec<String> = repo.show_index(&repo.only_pack()).into_iter().map(|object| object.id).collect();
        let ids = |store: &Store| store.ids_in_pack_order().unwrap().map(|id| id.to_string()).collect::<Vec<_>>();
        assert_eq!(ids(&store(&repo)), listed);
        // Twice packed and loose too: each once, packs first.
        repo.commit("more");
        repo.git(["repack", "-afq", "--window=0"]);
        repo.commit("loose");
        let store = store(&repo);
        let ids = ids(&store);
        let sorted: BTreeSet<&String> = ids.iter().collect();
        assert_eq!(sorted.len(), ids.len());
        assert_eq!(sorted, repo.all_objects().iter().collect());
        let loose = store.loose_ids(0).unwrap();
        assert!(loose.iter().any(|id| ids.last() == Some(&id.to_string())));
        assert_eq!(store.packs().unwrap().len(), 2);
    }
}

/// What is large and stored whole comes as a stream, everything else in the buffer: packed and loose.
#[test]
fn large_objects_come_as_streams() {
    for hash in Hash::ALL {
        let repo = testkit::TestRepo::init(hash);
        repo.git(["config", "core.bigFileThreshold", "1m"]);
        let contents = [testkit::repo::noise(2 << 20), vec![b'x'; 90 << 20], testkit::repo::noise(200_000), Vec::new()];
        let names: Vec<String> = contents.iter().map(|content| repo.hash_object("blob", content)).collect();
        for packed in [false, true] {
            if packed {
                let base = repo.objects_dir().join("pack/pack");
                let list = names.join("\n") + "\n";
                repo.git_with(["pack-objects", "-q", base.to_str().unwrap()], list.as_bytes());
                repo.git(["prune-packed"]);
            }
            let store = store(&repo);
            let (mut scratch, mut out) = (Scratch::new(), Vec::new());
            for (name, content) in names.iter().zip(&contents) {
                let id = ObjectId::from_hex(name.as_bytes()).unwrap();
                let streamed = match store.read_or_stream(&id, &mut scratch, &mut out).unwrap() {
                    Content::Whole(_) => false,
                    Content::Stream(mut stream) => {
                        out.clear();
                        std::io::Read::read_to_end(&mut stream, &mut out).unwrap();
                        true
                    }
                };
                assert_eq!(streamed, content.len() > 1 << 20, "{} bytes, packed: {packed}", content.len());
                assert!(out == *content);
            }
            let missing = store.read_or_stream(&id(&vec![7; hash.len()]), &mut scratch, &mut out);
            assert!(missing.unwrap_err().is_missing());
        }
    }
}
