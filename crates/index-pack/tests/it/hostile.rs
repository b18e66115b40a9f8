//! What a stranger can send: answers with a place, nothing left behind, and the same answer as git, whatever the threads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::ObjectKind;
use packstone_index_pack::{
    Destination, Inspect, Object, Options, Outcome, ReceiveError, Receiver, Refusal, index_file, verify,
};
use testkit::io::Rng;
use testkit::pack::{Entry, Op, Pack, PackBuilder, delta, object_id, write_loose};
use testkit::{Hash, TestRepo};

use crate::support::{files, into, options, store};

/// Receives in every way; the answers must be of one kind and at one place, and nothing is left after an error.
fn received(stream: &[u8], options: &Options) -> Result<Outcome, ReceiveError> {
    let mut first: Option<Result<Outcome, ReceiveError>> = None;
    for (threads, memory, piece) in [(1, 320 << 20, usize::MAX), (2, 320 << 20, usize::MAX), (3, 0, 11)] {
        let dir = tempfile::tempdir().unwrap();
        let options = options.clone().threads(threads).memory(memory);
        let to = Destination::Directory(dir.path().into());
        let result = Receiver::new(to, options).and_then(|mut receiver| {
            for piece in stream.chunks(piece.min(stream.len().max(1))) {
                receiver.feed(piece)?;
            }
            receiver.finish()
        });
        match (&result, &first) {
            (Err(_), _) => assert!(files(dir.path()).is_empty(), "{:?}", files(dir.path())),
            (Ok(_), _) => assert!(files(dir.path()).len() >= 3),
        }
        match (&result, &first) {
            (Ok(a), Some(Ok(b))) => assert_eq!((a.checksum, a.counts), (b.checksum, b.counts)),
            (Err(a), Some(Err(b))) => {
                assert_eq!(std::mem::discriminant(a), std::mem::discriminant(b), "{a:?} {b:?}");
                assert_eq!(a.at(), b.at(), "{a:?} {b:?}");
            }
            (_, None) => first = Some(result),
            (a, b) => panic!("{a:?} {b:?}"),
        }
    }
    first.unwrap()
}

fn refused(pack: &Pack, options: &Options) -> ReceiveError {
    received(&pack.bytes, options).expect_err("unsound, but received")
}

fn git_takes(repo: &TestRepo, stream: &[u8]) -> bool {
    repo.try_git(["index-pack", "--stdin"], stream).status.success()
}

fn base64() -> Vec<u8> {
    b"abcdefgh".repeat(8)
}

/// R1: the base of a delta by name comes later; chains of them in any order.
#[test]
fn bases_may_come_later() {
    for hash in Hash::ALL {
        let base = base64();
        let later = [&base[..], b"later"].concat();
        let latest = [&later[..], b"!"].concat();
        let d1 = delta(64, 69, &[Op::Copy(0, 64), Op::Insert(b"later")]);
        let d2 = delta(69, 70, &[Op::Copy(0, 69), Op::Insert(b"!")]);
        let (a, b) = (object_id(hash, "blob", &base), object_id(hash, "blob", &later));
        let entries = [Entry::reference(&a, &d1), Entry::full("blob", &base), Entry::reference(&b, &d2)];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut pack = PackBuilder::new(hash);
            for at in order {
                pack = pack.entry(entries[at].clone());
            }
            let pack = pack.build();
            let outcome = received(&pack.bytes, &options(hash)).unwrap();
            assert_eq!(outcome.counts.appended, 0);
            assert_eq!(outcome.checksum.as_bytes(), pack.checksum());
            let ids = [object_id(hash, "blob", &later), a.clone(), object_id(hash, "blob", &latest)];
            let ids: Vec<Vec<u8>> = order.iter().map(|&at| ids[at].clone()).collect();
            let dir = tempfile::tempdir().unwrap();
            let outcome = into(dir.path(), &pack.bytes, options(hash)).unwrap();
            assert!(std::fs::read(&outcome.idx).unwrap() == pack.idx(&ids));
            let verified = verify(&outcome.pack, None, options(hash)).unwrap();
            assert_eq!(verified.histogram(), [1, 1, 1]);
        }
    }
}

/// R2: a chain by name whose middle the store has as well is accepted, and nothing that is in the pack is appended. (git 2.47
/// refuses it.)
#[test]
fn a_middle_that_is_there_already() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let c = b"C".repeat(100);
        let b = [&c[..], b"B"].concat();
        let a = [&b[..], b"A"].concat();
        for content in [&b, &c] {
            let id = object_id(hash, "blob", content);
            write_loose(&repo.objects_dir(), &id, &[format!("blob {}\0", content.len()).as_bytes(), content].concat());
        }
        let to_a = delta(101, 102, &[Op::Copy(0, 101), Op::Insert(b"A")]);
        let to_b = delta(100, 101, &[Op::Copy(0, 100), Op::Insert(b"B")]);
        let (id_b, id_c) = (object_id(hash, "blob", &b), object_id(hash, "blob", &c));
        let entries = [Entry::reference(&id_b, &to_a), Entry::reference(&id_c, &to_b)];
        for order in [[0, 1], [1, 0]] {
            let pack = PackBuilder::new(hash).entry(entries[order[0]].clone()).entry(entries[order[1]].clone()).build();
            for threads in [1, 2] {
                let dir = tempfile::tempdir().unwrap();
                let thin = options(hash).store(Some(store(&repo))).fix_thin(true).threads(threads);
                let outcome = into(dir.path(), &pack.bytes, thin).unwrap();
                assert_eq!((outcome.counts.objects, outcome.counts.appended), (2, 1));
                let mut ids: Vec<String> = repo.show_index(&outcome.pack).into_iter().map(|o| o.id).collect();
                assert_eq!(ids.pop().unwrap(), testkit::pack::hex(&id_c), "appended at the end");
                let mut expected = [testkit::pack::hex(&object_id(hash, "blob", &a)), testkit::pack::hex(&id_b)];
                if order == [1, 0] {
                    expected.reverse();
                }
                assert_eq!(ids, expected);
                repo.git([std::ffi::OsStr::new("verify-pack"), outcome.pack.as_os_str()]);
            }
        }
    }
}

/// A cycle by name is refused; with one of its objects there in full, it is none.
#[test]
fn cycles() {
    for hash in Hash::ALL {
        let x = base64();
        let y = [&x[..], b"y"].concat();
        let (id_x, id_y) = (object_id(hash, "blob", &x), object_id(hash, "blob", &y));
        let to_x = Entry::reference(&id_y, &delta(65, 64, &[Op::Copy(0, 64)]));
        let to_y = Entry::reference(&id_x, &delta(64, 65, &[Op::Copy(0, 64), Op::Insert(b"y")]));
        let cycle = PackBuilder::new(hash).entry(to_x.clone()).entry(to_y.clone());
        let error = refused(&cycle.clone().build(), &options(hash));
        assert!(matches!(error, ReceiveError::Unresolved { count: 2, at: 12, .. }), "{error:?}");
        let own = PackBuilder::new(hash).entry(Entry::reference(&id_x, &delta(64, 64, &[Op::Copy(0, 64)]))).build();
        refused(&own, &options(hash));
        let broken = cycle.entry(Entry::full("blob", &x)).build();
        let outcome = received(&broken.bytes, &options(hash)).unwrap();
        assert_eq!(outcome.counts.objects, 3);
        let twice = refused(&broken, &options(hash).refuse_duplicates(true));
        assert!(matches!(twice, ReceiveError::Duplicate { .. }), "{twice:?}");
    }
}

/// R4, K2, O12: sizes that lie, deltas that do not fit, distances to nowhere. Told with the offset of the entry; git refuses
/// them, too.
#[test]
fn lies() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let text = b"x".repeat(100);
        let full = || Entry::full("blob", &text);
        let one = |entry: Entry| PackBuilder::new(hash).entry(entry);
        let against = |program: Vec<u8>| one(full()).entry(Entry::ofs_to(0, &program));
        let copy = [Op::Copy(0, 100)];
        let cases: Vec<(&str, PackBuilder, bool)> = vec![
            ("too small", one(full().size(50)), true),
            ("too large", one(full().size(150)), true),
            ("nothing claimed", one(full().size(0)), true),
            ("2^40, a blob", one(full().size(1 << 40)), true),
            ("2^40, a commit", one(Entry::full("commit", &text).size(1 << 40)), true),
            ("2^32 more", one(full().size((1 << 32) + 100)), true),
            ("2^63", one(full().size(1 << 63)), true),
            ("kind 0", one(full().kind(0)), true),
            ("kind 5", one(full().kind(5)), true),
            ("no zlib", one(full().deflated(b"\x78\x9c\xff\xff\xff\xff garbage")), true),
            ("result 2^40", against(delta(100, 1 << 40, &copy)), true),
            ("result too large", against(delta(100, 101, &copy)), true),
            ("result too small", against(delta(100, 99, &copy)), true),
            ("another base", against(delta(99, 100, &copy)), true),
            ("base of 2^32 more", against(delta((1 << 32) + 100, 100, &copy)), true),
            ("copy beyond", against(delta(100, 100, &[Op::Copy(1, 100)])), true),
            ("reserved", against(delta(100, 100, &[Op::Raw(&[0]), Op::Copy(0, 100)])), true),
            ("cut instruction", against(delta(100, 100, &[Op::Raw(&[0xff])])), true),
            ("seventy bits", against([vec![0xff; 10], vec![0x7f, 100, 0x90, 100]].concat()), true),
            ("three bytes", against(vec![0, 0, 0]), true),
            ("distance 0", one(full()).entry(Entry::ofs_raw(&[0], &delta(100, 100, &copy))), true),
            ("before the pack", one(full()).entry(Entry::ofs(4000, &delta(100, 100, &copy))), true),
            ("into the head", one(full()).entry(Entry::ofs_raw(&[0x1f], &delta(100, 100, &copy))), true),
            ("endless distance", one(full()).entry(Entry::ofs_raw(&[0xff; 12], &delta(100, 100, &copy))), true),
            ("no base", one(Entry::reference(&vec![7; hash.len()], &delta(100, 100, &copy))), true),
            ("more entries", one(full()).count(2), true),
            ("fewer entries", one(full()).entry(full()).count(1), false),
            ("2^32 - 1 entries", one(full()).count(u32::MAX), true),
            ("version 4", one(full()).version(4), true),
        ];
        for (what, pack, placed) in cases {
            let pack = pack.build();
            let error = refused(&pack, &options(hash));
            assert_eq!(error.at().is_some(), placed, "{what}: {error:?}");
            // git takes room for what a commit claims before it looks, and dies of that.
            if !what.starts_with("2^") && what != "result 2^40" {
                assert!(!git_takes(&repo, &pack.bytes), "{what}: git takes it");
            }
        }
    }
}

/// A stream that is cut anywhere, one whose every byte is wrong in turn, and what follows it.
#[test]
fn cut_changed_and_followed() {
    for hash in Hash::ALL {
        let base = base64();
        let id = object_id(hash, "blob", &base);
        let pack = PackBuilder::new(hash)
            .entry(Entry::full("blob", &base))
            .entry(Entry::ofs_to(0, &delta(64, 65, &[Op::Copy(0, 64), Op::Insert(b"1")])))
            .entry(Entry::reference(&id, &delta(64, 65, &[Op::Copy(0, 64), Op::Insert(b"2")])))
            .build();
        received(&pack.bytes, &options(hash)).unwrap();
        let repo = TestRepo::bare(hash);
        for len in 0..pack.bytes.len() {
            let error = received(&pack.bytes[..len], &options(hash)).unwrap_err();
            assert!(matches!(error, ReceiveError::Truncated { at } if at == len as u64), "{len}: {error:?}");
        }
        for at in 0..pack.bytes.len() {
            let mut bytes = pack.bytes.clone();
            bytes[at] ^= 0x10;
            received(&bytes, &options(hash)).unwrap_err();
            testkit::pack::resign(hash, &mut bytes);
            // What is left may be sound: then git says so, too.
            let ours = received(&bytes, &options(hash)).is_ok();
            if at >= pack.entries[0].offset as usize && at % 11 == 0 {
                assert_eq!(ours, git_takes(&repo, &bytes), "byte {at}");
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("junk.pack");
        std::fs::write(&path, [&pack.bytes[..], b"x"].concat()).unwrap();
        let error = index_file(&path, None, options(hash)).unwrap_err();
        assert!(matches!(error, ReceiveError::Junk { extra: 1, .. }), "{error:?}");
        assert_eq!(files(dir.path()), [path]);
    }
}

/// Each limit is an error of its own, and a pack at the limit passes.
#[test]
fn limits() {
    let hash = Hash::Sha1;
    let base = base64();
    let grow = |at: u32| delta(u64::from(64 + at), u64::from(65 + at), &[Op::Copy(0, 64 + at), Op::Insert(b"+")]);
    let mut pack = PackBuilder::new(hash).entry(Entry::full("blob", &base));
    for at in 0..10 {
        pack = pack.entry(Entry::ofs_to(at as usize, &grow(at)));
    }
    let pack = pack.build();
    let len = pack.bytes.len() as u64;
    let plain = || options(hash);
    let cases: [(&str, Options, Options); 5] = [
        ("input", plain().max_input_size(Some(len)), plain().max_input_size(Some(len - 1))),
        ("number", plain().max_objects(Some(11)), plain().max_objects(Some(10))),
        ("depth", plain().max_depth(Some(10)), plain().max_depth(Some(9))),
        ("size", plain().max_object_size(Some(74)), plain().max_object_size(Some(73))),
        ("size", plain().max_delta_result(74), plain().max_delta_result(73)),
    ];
    for (name, passes, fails) in cases {
        received(&pack.bytes, &passes).unwrap();
        let error = refused(&pack, &fails);
        assert!(matches!(error, ReceiveError::Limit { what, .. } if what.starts_with(name)), "{name}: {error:?}");
    }
}

/// Bombs: a few bytes that stand for many, in size, depth and width. Memory stays small; see `memory.rs`.
#[test]
fn bombs() {
    let hash = Hash::Sha1;
    // 16 MiB each time, 64 times over, from a delta of a few hundred bytes.
    let zeros = vec![0; 1 << 20];
    let many = vec![Op::Copy(0, 0xf_ffff); 1024];
    let program = delta(1 << 20, 0xf_ffff * 1024, &many);
    let pack = PackBuilder::new(hash).entry(Entry::full("blob", &zeros)).entry(Entry::ofs_to(0, &program)).build();
    let error = refused(&pack, &options(hash).max_delta_result(64 << 20));
    assert!(matches!(error, ReceiveError::Limit { found: 1_073_740_800, .. }), "{error:?}");
}

/// O4, S1: an object that the store has in another form is refused; one that it has damaged, too.
#[test]
fn objects_that_are_there() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let content = base64();
        let other = [&content[..63], b"!"].concat();
        let longer = [&content[..], b"+"].concat();
        let pack = PackBuilder::new(hash)
            .entry(Entry::full("blob", &content))
            .entry(Entry::ofs_to(0, &delta(64, 65, &[Op::Copy(0, 64), Op::Insert(b"+")])))
            .build();
        let with_store = || options(hash).store(Some(store(&repo)));
        let put = |id: &[u8], content: &[u8], kind: &str| {
            write_loose(&repo.objects_dir(), id, &[format!("{kind} {}\0", content.len()).as_bytes(), content].concat())
        };
        for (content, entry) in [(&content, 0), (&longer, 1)] {
            let id = object_id(hash, "blob", content);
            let path = put(&id, content, "blob");
            received(&pack.bytes, &with_store()).unwrap();
            for (wrong, kind) in [(&other, "blob"), (content, "commit")] {
                put(&id, wrong, kind);
                let error = refused(&pack, &with_store());
                let at = pack.entries[entry].offset;
                assert!(matches!(error, ReceiveError::Clash { at: a, .. } if a == at), "{error:?}");
            }
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, b"").unwrap();
            let error = refused(&pack, &with_store());
            assert!(matches!(error, ReceiveError::Store(_)), "{error:?}");
            std::fs::remove_file(&path).unwrap();
        }
    }
}

/// R6: bytes that changed on the disk before the pack was completed get no valid checksum.
#[test]
fn damage_before_completion() {
    let hash = Hash::Sha1;
    let repo = TestRepo::bare(hash);
    let base = Rng::new(1).bytes(100);
    let id = object_id(hash, "blob", &base);
    write_loose(&repo.objects_dir(), &id, &[&b"blob 100\0"[..], &base].concat());
    let more = |with: &'static [u8]| delta(100, 101, &[Op::Copy(0, 100), Op::Insert(with)]);
    let pack = PackBuilder::new(hash)
        .entry(Entry::reference(&id, &more(b"1")))
        .entry(Entry::reference(&id, &more(b"2")))
        .build();
    let thin = || options(hash).store(Some(store(&repo))).fix_thin(true);
    let outcome = received(&pack.bytes, &thin()).unwrap();
    assert_eq!((outcome.counts.objects, outcome.counts.appended), (2, 1), "one base, once");
    refused(&pack, &options(hash).store(Some(store(&repo))));
    refused(&pack, &options(hash).fix_thin(true));
    for at in [4, 20, pack.bytes.len() - 21] {
        let dir = tempfile::tempdir().unwrap();
        let damage = Arc::new(Damage { dir: dir.path().into(), at });
        let error = into(dir.path(), &pack.bytes, thin().inspect(Some(damage))).unwrap_err();
        assert!(matches!(error, ReceiveError::Changed { .. }), "{at}: {error:?}");
        assert!(files(dir.path()).is_empty());
    }
}

/// Damages the file when the first delta is resolved.
struct Damage {
    dir: PathBuf,
    at: usize,
}

impl Inspect for Damage {
    fn object(&self, object: Object<'_>) -> Result<(), Refusal> {
        if object.content.is_some_and(|content| content.ends_with(b"1")) {
            flip(&files(&self.dir)[0], self.at);
        }
        Ok(())
    }
}

fn flip(path: &Path, at: usize) {
    use std::os::unix::fs::FileExt;
    let mut byte = [0];
    let Ok(file) = std::fs::OpenOptions::new().read(true).write(true).open(path) else { return };
    file.read_exact_at(&mut byte, at as u64).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at as u64).unwrap();
}

/// Large objects are streamed: whole ones are named, compared and shown without being held, in small pieces too.
#[test]
fn large_objects() {
    for hash in Hash::ALL {
        let repo = TestRepo::bare(hash);
        let blob = Rng::new(5).bytes(3 << 20);
        let mut longer = blob.clone();
        longer.extend_from_slice(b"more");
        let mut copies = Vec::new();
        for at in (0..blob.len()).step_by(1 << 16) {
            copies.push(Op::Copy(at as u32, 0x1_0000));
        }
        copies.push(Op::Insert(b"more"));
        let inserts = Rng::new(6).bytes(2 << 20);
        let large_delta: Vec<Op<'_>> = inserts.chunks(127).map(Op::Insert).collect();
        let pack = PackBuilder::new(hash)
            .entry(Entry::full("blob", &blob))
            .entry(Entry::ofs_to(0, &delta(blob.len() as u64, longer.len() as u64, &copies)))
            .entry(Entry::ofs_to(0, &delta(blob.len() as u64, inserts.len() as u64, &large_delta)))
            .build();
        for content in [&blob, &inserts] {
            repo.hash_object("blob", content);
        }
        for threshold in [512 << 20, 1 << 20] {
            let options = options(hash).store(Some(store(&repo))).big_file_threshold(threshold);
            received(&pack.bytes, &options).unwrap();
        }
        let dir = tempfile::tempdir().unwrap();
        let outcome = into(dir.path(), &pack.bytes, options(hash)).unwrap();
        let ids = [&blob, &longer, &inserts].map(|content| object_id(hash, "blob", content));
        assert!(std::fs::read(&outcome.idx).unwrap() == pack.idx(&ids));
        let verified = verify(&outcome.pack, None, options(hash).threads(2)).unwrap();
        assert!(verified.objects().all(|object| object.kind == ObjectKind::Blob));
        let lying = PackBuilder::new(hash).entry(Entry::full("blob", &blob).size((3 << 20) + 1)).build();
        let error = refused(&lying, &options(hash));
        assert!(matches!(error, ReceiveError::Zlib { at: 12, .. }), "{error:?}");
    }
}

/// A long chain and a wide tree: no recursion, and the same on three threads with no memory to spare.
#[test]
fn deep_and_wide() {
    let hash = Hash::Sha1;
    let base = base64();
    for (what, parent) in [("deep", (|at| at) as fn(usize) -> usize), ("wide", |_| 0), ("both", |at| at / 2 * 2)] {
        let mut pack = PackBuilder::new(hash).entry(Entry::full("blob", &base));
        let mut sizes = vec![64u64];
        for at in 0..3000usize {
            let base = parent(at);
            let size = sizes[base];
            let text = at.to_string();
            sizes.push(size.min(64) + text.len() as u64);
            let program =
                delta(size, size.min(64) + text.len() as u64, &[Op::Copy(0, 64), Op::Insert(text.as_bytes())]);
            pack = pack.entry(Entry::ofs_to(base, &program));
        }
        let pack = pack.build();
        let outcome = received(&pack.bytes, &options(hash)).unwrap();
        assert_eq!(outcome.counts.deltas, 3000, "{what}");
        let dir = tempfile::tempdir().unwrap();
        let outcome = into(dir.path(), &pack.bytes, options(hash)).unwrap();
        let verified = verify(&outcome.pack, None, options(hash).threads(2).memory(0)).unwrap();
        let deepest = verified.histogram().len() - 1;
        assert_eq!(
            deepest,
            match what {
                "deep" => 3000,
                "wide" => 1,
                _ => 1500,
            }
        );
    }
}
