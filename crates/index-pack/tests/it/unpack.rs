//! Packs to loose objects: beside git, under every split and budget, and hostile ones.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use hashfile::publish::{self, Fsync};
use object::{HashKind, ObjectId};
use odb::{Observer, Options, Quiet, Store, WriteOptions};
use packstone_index_pack::unpack::{UnpackError, UnpackOptions, Unpacked, Wrong, unpack};
use packstone_index_pack::{Inspect, Object, Received, Refusal};
use testkit::disk::{Disk, Fault};
use testkit::io::Ragged;
use testkit::pack::{Entry, Op, PackBuilder, delta, hex, object_id};
use testkit::repo::{Hash, TestRepo, growing, noise};

use crate::seam;

fn kind(hash: Hash) -> HashKind {
    HashKind::from_name(hash.name()).unwrap()
}

fn options() -> UnpackOptions {
    let loose = publish::Options::default().fsync(Fsync::None);
    UnpackOptions::default().write(WriteOptions::default().loose(loose))
}

fn store(repo: &TestRepo) -> Store {
    Store::open(&repo.objects_dir(), Options::new(kind(repo.hash()))).unwrap()
}

fn run(repo: &TestRepo, pack: impl Read, options: &UnpackOptions) -> Result<Unpacked, UnpackError> {
    unpack(pack, &store(repo), options, &Quiet)
}

/// Files below the objects' directory that are loose objects, and all others.
fn files(repo: &TestRepo) -> (BTreeSet<String>, Vec<String>) {
    let (mut loose, mut others) = (BTreeSet::new(), Vec::new());
    let mut dirs = vec![repo.objects_dir()];
    while let Some(dir) = dirs.pop() {
        for entry in dir.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let below = path.strip_prefix(repo.objects_dir()).unwrap().to_str().unwrap().replace('/', "");
            match below.len() == repo.hash().hex_len() && below.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                true => drop(loose.insert(below)),
                false => others.push(below),
            }
        }
    }
    (loose, others)
}

/// The offset and the reason of a failure.
#[track_caller]
fn corrupt(error: UnpackError) -> (u64, Wrong) {
    match error {
        UnpackError::Corrupt { at, what } => (at, what),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_same_objects_as_by_git() {
    for hash in Hash::ALL {
        let source = TestRepo::rich(hash);
        source.repack();
        for words in [&["--all", "--delta-base-offset"][..], &["--all"], &["--all", "--window=0"]] {
            let pack = source.pack_objects(words, "");
            let git = TestRepo::bare(hash);
            git.git_with(["unpack-objects", "-q"], &pack);
            for (threads, memory) in [(1, 128 << 20), (3, 128 << 20), (1, 0), (4, 0)] {
                let ours = TestRepo::bare(hash);
                let done = run(&ours, &pack[..], &options().threads(threads).memory(memory)).unwrap();
                assert_eq!(done.count, done.unpacked);
                assert!(done.failures.is_empty() && done.rest.is_empty());
                assert_eq!(hex(done.checksum.unwrap().as_bytes()), hex(&pack[pack.len() - hash.len()..]));
                assert_eq!(files(&ours), files(&git), "{words:?} {threads} {memory}");
                if threads == 4 {
                    ours.git(["fsck", "--full", "--strict", "--no-dangling"]);
                }
            }
        }
    }
}

#[test]
fn thin_packs_take_bases_from_the_store() {
    for hash in Hash::ALL {
        let source = TestRepo::rich(hash);
        source.repack();
        let base = source.pack_objects(&["--revs"], "main~12\n");
        let thin = source.pack_objects(&["--revs", "--thin"], "main\n^main~12\n");
        for packed in [false, true] {
            for threads in [1, 3] {
                let ours = TestRepo::bare(hash);
                let how: &[&str] = if packed { &["index-pack", "--stdin"] } else { &["unpack-objects", "-q"] };
                ours.git_with(how, &base);
                let before = files(&ours).0.len();
                let done = run(&ours, &thin[..], &options().threads(threads)).unwrap();
                assert_eq!(done.unpacked, done.count);
                assert_eq!(files(&ours).0.len(), before + source.ids_of_stream(&thin).len());
                ours.git(["rev-list", "--objects", &source.rev_parse("main")]);
            }
        }
        // Without the bases it is refused, at the first delta that has none.
        let none = TestRepo::bare(hash);
        let (_, what) = corrupt(run(&none, &thin[..], &options()).unwrap_err());
        assert!(matches!(what, Wrong::MissingBase { .. }), "{what:?}");
    }
}

#[test]
fn every_split_of_the_input() {
    for hash in Hash::ALL {
        let source = TestRepo::linear(hash, 12);
        source.repack();
        let pack = source.pack_objects(&["--all", "--delta-base-offset"], "");
        let mut want = None;
        for (seed, most) in [(1, 1), (2, 7), (3, 100), (4, 5000), (5, 1 << 20)] {
            let ours = TestRepo::bare(hash);
            let followed = [&pack[..], b"what follows"].concat();
            let done = run(&ours, Ragged::new(&followed[..], seed, most), &options().threads(2)).unwrap();
            assert!(b"what follows".starts_with(&done.rest[..]));
            let (loose, others) = files(&ours);
            assert_eq!(others, Vec::<String>::new());
            assert_eq!(want.get_or_insert_with(|| loose.clone()), &loose);
        }
    }
}

/// Gives one byte at a time, and fails the test when asked for more than there is.
struct Exactly<'a>(&'a [u8]);

impl Read for Exactly<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        assert!(!self.0.is_empty(), "read beyond the end of the pack");
        let n = out.len().min(1 + self.0.len() / 3);
        out[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

#[test]
fn nothing_is_read_ahead_of_need() {
    let source = TestRepo::linear(Hash::Sha1, 5);
    let pack = source.pack_objects(&["--all"], "");
    run(&TestRepo::bare(Hash::Sha1), Exactly(&pack), &options()).unwrap();
}

#[test]
fn what_exists_is_made_young_and_not_written() {
    let source = TestRepo::linear(Hash::Sha1, 8);
    source.repack();
    let pack = source.pack_objects(&["--all"], "");
    let old = SystemTime::now() - Duration::from_secs(90 * 24 * 3600);
    let age = |path: &Path| std::fs::File::open(path).unwrap().set_modified(old).unwrap();
    let is_young = |path: &Path| path.metadata().unwrap().modified().unwrap() > old + Duration::from_secs(3600);

    let packed = TestRepo::bare(Hash::Sha1);
    packed.git_with(["index-pack", "--stdin"], &pack);
    let path = packed.only_pack();
    age(&path);
    run(&packed, &pack[..], &options().threads(2)).unwrap();
    assert_eq!(files(&packed).0.len(), 0);
    assert!(is_young(&path));

    let loose = TestRepo::bare(Hash::Sha1);
    run(&loose, &pack[..], &options()).unwrap();
    let names = files(&loose).0;
    let paths: Vec<_> = names.iter().map(|id| loose.objects_dir().join(&id[..2]).join(&id[2..])).collect();
    paths.iter().for_each(|path| age(path));
    run(&loose, &pack[..], &options().threads(2)).unwrap();
    assert_eq!(files(&loose).0, names);
    assert!(paths.iter().all(|path| is_young(path)));
}

#[test]
fn large_blobs_go_in_pieces() {
    for hash in Hash::ALL {
        let large = noise(3 << 20);
        let changed = delta(large.len() as u64, 10, &[Op::Copy(5, 10)]);
        let pack = PackBuilder::new(hash)
            .entry(Entry::full("blob", &large))
            .entry(Entry::ofs_to(0, &changed))
            .entry(Entry::reference(&object_id(hash, "blob", &large), &changed))
            .entry(Entry::full("blob", b"small"))
            .build();
        for batch in [false, true] {
            let ours = TestRepo::bare(hash);
            let mut options = options();
            options.write = options.write.big_file_threshold(1 << 20).batch(batch);
            let done = run(&ours, &pack.bytes[..], &options).unwrap();
            assert_eq!(done.unpacked, 4);
            let want = [&large[..], &large[5..15], b"small"];
            let want = want.map(|content| hex(&object_id(hash, "blob", content)));
            assert_eq!(files(&ours), (want.into(), vec![]));
            ours.git(["fsck", "--full"]);
        }
    }
}

const TEXT: &[u8] = b"abcdefghabcdefghabcdefghabcdefghabcdefghabcdefghabcdefghabcdefgh";

#[test]
fn bases_behind_their_deltas_and_deltas_in_any_order() {
    for hash in Hash::ALL {
        let longer = [TEXT, b"later"].concat();
        let longest = [TEXT, b"later still"].concat();
        let pack = PackBuilder::new(hash)
            .entry(Entry::reference(
                &object_id(hash, "blob", &longer),
                &delta(69, 75, &[Op::Copy(0, 69), Op::Insert(b" still")]),
            ))
            .entry(Entry::reference(
                &object_id(hash, "blob", TEXT),
                &delta(64, 69, &[Op::Copy(0, 64), Op::Insert(b"later")]),
            ))
            .entry(Entry::ofs_to(0, &delta(75, 4, &[Op::Copy(1, 4)])))
            .entry(Entry::full("blob", TEXT))
            .entry(Entry::full("blob", TEXT)) // once more
            .build();
        let names = [TEXT, &longer, &longest, b"bcde"].map(|content| hex(&object_id(hash, "blob", content)));
        for local in [&[][..], &[TEXT], &[TEXT, &longer]] {
            let ours = TestRepo::bare(hash);
            for content in local {
                ours.hash_object("blob", content);
            }
            let done = run(&ours, &pack.bytes[..], &options().threads(2)).unwrap();
            assert_eq!(done.unpacked, 5);
            assert_eq!(files(&ours).0, BTreeSet::from(names.clone()));
        }
    }
}

#[test]
fn bad_packs_are_errors_with_an_offset() {
    for hash in Hash::ALL {
        let sound = Entry::full("blob", b"x");
        let first = PackBuilder::new(hash).entry(sound.clone()).build().entries[0].end;
        let id = object_id(hash, "blob", b"x");
        let ours = TestRepo::bare(hash);
        let copy = |base: u64| delta(base, 64, &[Op::Copy(0, 64)]);
        let cases: Vec<(&str, Entry)> = vec![
            ("type", sound.clone().kind(5)),
            ("type", sound.clone().kind(0)),
            ("zlib", sound.clone().deflated(b"\x78\x9cgarbagegarbage")),
            ("zlib", Entry::full("blob", &[7; 100]).size(50)),
            ("zlib", Entry::full("blob", &[7; 100]).size(150)),
            ("zlib", Entry::full("blob", &[7; 100]).size(0)),
            ("zlib", Entry::full("commit", &[7; 100]).size(1 << 40)),
            ("zlib", Entry::full("blob", &[7; 100]).size((1 << 32) + 100)),
            ("zlib", Entry::ofs_to(0, &copy(1)).size(1 << 40)),
            ("delta", Entry::ofs_to(0, &copy(1))),
            ("delta", Entry::ofs_to(0, &copy((1 << 32) + 1))),
            ("delta", Entry::reference(&id, &delta(1, 1 << 40, &[Op::Copy(0, 1)]))),
            ("delta", Entry::reference(&id, &delta(1, 1, &[Op::Raw(&[0])]))),
            ("delta", Entry::ofs_to(0, b"\x01\x01\x01")),
            ("base", Entry::ofs(first - 12 - 1, &copy(1))),
            ("out", Entry::ofs(first - 11, &copy(1))),
            ("out", Entry::ofs(1 << 40, &copy(1))),
            ("missing", Entry::reference(&vec![9; hash.len()], &copy(64))),
            ("missing", Entry::reference(&object_id(hash, "blob", &[5; 64]), &delta(64, 64, &[Op::Insert(&[5; 64])]))),
        ];
        for (what, entry) in cases {
            let pack = PackBuilder::new(hash).entry(sound.clone()).entry(entry.clone()).build();
            for threads in [1, 2] {
                for memory in [128 << 20, 0] {
                    let options = options().threads(threads).memory(memory);
                    let (at, wrong) = corrupt(run(&ours, &pack.bytes[..], &options).unwrap_err());
                    let found = match wrong {
                        Wrong::Format(pack_format::ParseErrorKind::EntryType(_)) => "type",
                        Wrong::Format(pack_format::ParseErrorKind::BaseOutOfPack { .. }) => "out",
                        Wrong::Zlib(_) => "zlib",
                        Wrong::Delta(_) => "delta",
                        Wrong::NoEntry { .. } => "base",
                        Wrong::MissingBase { .. } => "missing",
                        other => panic!("{other:?}"),
                    };
                    assert_eq!((found, at), (what, first), "{entry:?}");
                    assert_eq!(files(&ours).1, Vec::<String>::new(), "temporary files");
                }
            }
        }
    }
}

#[test]
fn cut_and_changed_streams() {
    for hash in Hash::ALL {
        let source = TestRepo::linear(hash, 2);
        let pack = source.pack_objects(&["--all"], "");
        let ours = TestRepo::bare(hash);
        for len in 0..pack.len() {
            let (at, what) = corrupt(run(&ours, &pack[..len], &options()).unwrap_err());
            assert_eq!((at, what), (len as u64, Wrong::Truncated));
        }
        let mut changed = pack.clone();
        *changed.last_mut().unwrap() ^= 1;
        let (at, what) = corrupt(run(&ours, &changed[..], &options()).unwrap_err());
        assert_eq!(at, (pack.len() - hash.len()) as u64);
        assert!(matches!(what, Wrong::Trailer { .. }), "{what:?}");
        for (at, byte) in [(0, b'p'), (7, 1), (7, 4)] {
            let mut changed = pack.clone();
            changed[at] = byte;
            let (_, what) = corrupt(run(&ours, &changed[..], &options()).unwrap_err());
            assert!(matches!(what, Wrong::Format(_)), "{what:?}");
        }
    }
}

#[test]
fn recovery_takes_what_is_sound() {
    for hash in Hash::ALL {
        let bad = Entry::full("blob", &[7; 100]).size(150);
        let pack = PackBuilder::new(hash)
            .entry(Entry::full("blob", TEXT))
            .entry(bad) // its stream ends where the next entry begins
            .entry(Entry::ofs_to(1, &delta(100, 10, &[Op::Copy(0, 10)])))
            .entry(Entry::ofs_to(0, &delta(64, 5, &[Op::Insert(b"ab")])))
            .entry(Entry::reference(&vec![1; hash.len()], &delta(64, 4, &[Op::Copy(0, 4)])))
            .entry(Entry::ofs_to(0, &delta(64, 4, &[Op::Copy(0, 4)])))
            .build();
        let at = |entry: usize| pack.entries[entry].offset;
        let ours = TestRepo::bare(hash);
        let done = run(&ours, &pack.bytes[..], &options().recover(true)).unwrap();
        let failed: Vec<u64> = done.failures.iter().map(|error| error.offset().unwrap()).collect();
        assert_eq!(failed, [at(1), at(3), at(4)]);
        assert_eq!((done.count, done.unpacked), (6, 2));
        assert!(done.checksum.is_some());
        let want = [TEXT, b"abcd"].map(|content| hex(&object_id(hash, "blob", content)));
        assert_eq!(files(&ours), (want.into(), vec![]));

        // What stands in front of a cut is taken, too.
        let cut = &pack.bytes[..at(5) as usize];
        let done = run(&TestRepo::bare(hash), cut, &options().recover(true)).unwrap();
        assert_eq!((done.checksum, done.unpacked), (None, 1));
        assert!(matches!(done.failures.last(), Some(UnpackError::Corrupt { what: Wrong::Truncated, .. })));
    }
}

#[test]
fn limits() {
    let hash = Hash::Sha1;
    let pack = PackBuilder::new(hash)
        .entry(Entry::full("blob", TEXT))
        .entry(Entry::ofs_to(0, &delta(64, 128, &[Op::Copy(0, 64), Op::Copy(0, 64)])))
        .entry(Entry::ofs_to(1, &delta(128, 4, &[Op::Copy(0, 4)])))
        .build();
    let ours = TestRepo::bare(hash);
    let refused = |options: UnpackOptions| run(&ours, &pack.bytes[..], &options).unwrap_err();
    let len = pack.bytes.len() as u64;
    let followed = [&pack.bytes[..], b"what follows does not count"].concat();
    assert!(run(&ours, &followed[..], &options().max_input_size(Some(len))).is_ok());
    let limit = len - 1;
    assert!(
        matches!(refused(options().max_input_size(Some(limit))), UnpackError::InputTooLarge { limit: l } if l == limit)
    );
    let limited = |error: UnpackError| match error {
        UnpackError::Limit { at, value, limit, .. } => (at, value, limit),
        other => panic!("{other:?}"),
    };
    assert_eq!(limited(refused(options().max_objects(Some(2)))), (8, 3, 2));
    assert_eq!(limited(refused(options().max_object_size(Some(63)))), (12, 64, 63));
    assert_eq!(limited(refused(options().max_object_size(Some(127)))), (pack.entries[1].offset, 128, 127));
    assert_eq!(limited(refused(options().max_depth(Some(1)))), (pack.entries[2].offset, 2, 1));
    assert!(run(&ours, &pack.bytes[..], &options().max_depth(Some(2)).max_object_size(Some(128))).is_ok());
}

/// Copies of one base, deep and wide at once; with hardly any memory every base is put aside and taken back.
#[test]
fn deep_and_wide() {
    let hash = Hash::Sha1;
    let mut builder = PackBuilder::new(hash).entry(Entry::full("blob", &growing(0)));
    let base = growing(0).len() as u64;
    let mut names = BTreeSet::from([hex(&object_id(hash, "blob", &growing(0)))]);
    let mut contents = vec![growing(0)];
    for nth in 1..1500usize {
        // Every third is made from the last, the others from one before.
        let parent = if nth % 3 == 0 { nth - 1 } else { nth / 2 };
        let text = format!("{nth}");
        let have = contents[parent].len() as u64;
        let keep = base.min(have) as u32;
        let new = [&contents[parent][..keep as usize], text.as_bytes()].concat();
        let program = delta(have, new.len() as u64, &[Op::Copy(0, keep), Op::Insert(text.as_bytes())]);
        builder = builder.entry(match nth % 2 {
            0 => Entry::ofs_to(parent, &program),
            _ => Entry::reference(&object_id(hash, "blob", &contents[parent]), &program),
        });
        names.insert(hex(&object_id(hash, "blob", &new)));
        contents.push(new);
    }
    let pack = builder.build();
    for (threads, memory) in [(1, 0), (1, 1 << 30), (4, 0), (4, 1 << 30)] {
        let ours = TestRepo::bare(hash);
        let done = run(&ours, &pack.bytes[..], &options().threads(threads).memory(memory)).unwrap();
        assert_eq!(done.unpacked, 1500);
        assert_eq!(files(&ours), (names.clone(), vec![]));
    }
}

#[test]
fn a_dry_run_writes_nothing_and_finds_damage() {
    let source = TestRepo::linear(Hash::Sha1, 3);
    let mut pack = source.pack_objects(&["--all"], "");
    let ours = TestRepo::bare(Hash::Sha1);
    let options = options().dry_run(true).memory(0);
    assert_eq!(run(&ours, &pack[..], &options).unwrap().unpacked, 15);
    assert_eq!(files(&ours), (BTreeSet::new(), vec![]));
    pack[14] ^= 0x10;
    run(&ours, &pack[..], &options).unwrap_err();
}

struct Stop;

impl Observer for Stop {
    fn cancelled(&self) -> bool {
        true
    }
}

#[test]
fn can_be_cancelled() {
    let source = TestRepo::linear(Hash::Sha1, 3);
    let pack = source.pack_objects(&["--all"], "");
    let ours = TestRepo::bare(Hash::Sha1);
    let error = unpack(&pack[..], &store(&ours), &options().recover(true), &Stop).unwrap_err();
    assert!(matches!(error, UnpackError::Cancelled), "{error:?}");
    assert_eq!(files(&ours), (BTreeSet::new(), vec![]));
}

/// Every change to the disk may fail: what has a name is whole, and a second try ends well. With hardly any memory the
/// temporary file takes part.
#[test]
fn each_change_may_fail() {
    let hash = Hash::Sha1;
    let text = growing(100);
    let base = text.len() as u64;
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut builder = PackBuilder::new(hash).entry(Entry::full("blob", &text)).entry(Entry::full("blob", b"other"));
    names.extend([object_id(hash, "blob", &text), object_id(hash, "blob", b"other")]);
    for (nth, more) in [&b"1"[..], b"2", b"3"].into_iter().enumerate() {
        let program = delta(base, base + 1, &[Op::Copy(0, base as u32), Op::Insert(more)]);
        builder = builder.entry(match nth {
            0 => Entry::ofs_to(0, &program),
            _ => Entry::reference(&names[0], &program),
        });
        names.push(object_id(hash, "blob", &[&text[..], more].concat()));
    }
    let pack = builder.build();
    for (memory, batch) in [(128 << 20, false), (0, false), (128 << 20, true)] {
        let run = |dir: &Path, fault: Fault| {
            let disk = Arc::new(Disk::new(dir));
            disk.set_fault(fault);
            let store = Store::open(dir, Options::new(HashKind::Sha1)).unwrap();
            let loose = publish::Options::default().fs(seam::on(&disk));
            let mut options = UnpackOptions::default().memory(memory);
            options.write = WriteOptions::default().loose(loose).batch(batch);
            let done = unpack(&pack.bytes[..], &store, &options, &Quiet);
            (disk, done.map(drop))
        };
        let sound = |dir: &Path, all: bool, context: &str| {
            let store = Store::open(dir, Options::new(HashKind::Sha1).verify_on_read(true)).unwrap();
            for id in store.ids().unwrap() {
                store.read(&id, &mut Vec::new()).unwrap_or_else(|error| panic!("{context}: {id}: {error}"));
            }
            let has = |id: &Vec<u8>| store.contains(&ObjectId::from_bytes(id).unwrap()).unwrap();
            assert!(!all || names.iter().all(has), "{context}: not all are there");
        };
        let (dir, context) = (tempfile::tempdir().unwrap(), format!("{memory} {batch}"));
        let (disk, done) = run(dir.path(), Fault::None);
        done.unwrap();
        sound(dir.path(), true, &context);
        let total = disk.count();
        assert!(total >= 15, "{total}");
        for change in 0..total {
            let context = format!("{memory} {batch}, change {change} of {total}");
            let dir = tempfile::tempdir().unwrap();
            let (disk, done) = run(dir.path(), Fault::Fail(change, std::io::ErrorKind::StorageFull));
            assert!(disk.was_hit(), "{context}");
            sound(dir.path(), done.is_ok(), &context);
            run(dir.path(), Fault::None).1.unwrap();
            sound(dir.path(), true, &context);
        }
    }
}

/// Asks for some objects again, and refuses in the end, if told so.
struct Judge {
    objects: std::path::PathBuf,
    ask: Vec<ObjectId>,
    refuse: bool,
    seen: Mutex<Vec<ObjectId>>,
    again: Mutex<Vec<ObjectId>>,
}

impl Judge {
    fn nothing_is_stored(&self) {
        let fanout = self.objects.read_dir().unwrap().filter(|entry| entry.as_ref().unwrap().file_name().len() == 2);
        assert_eq!(fanout.count(), 0);
    }
}

impl Inspect for Judge {
    fn object(&self, object: Object<'_>) -> Result<(), Refusal> {
        self.nothing_is_stored();
        assert_eq!(object.content.unwrap().len() as u64, object.size);
        self.seen.lock().unwrap().push(object.id);
        Ok(())
    }

    fn again(&self, pack: &Received<'_>) -> Result<Vec<ObjectId>, Refusal> {
        assert!(self.seen.lock().unwrap().iter().all(|id| pack.contains(id)));
        assert!(pack.ids().is_sorted());
        Ok(self.ask.clone())
    }

    fn object_again(&self, object: Object<'_>) -> Result<(), Refusal> {
        self.nothing_is_stored();
        self.again.lock().unwrap().push(object.id);
        Ok(())
    }

    fn finish(&self, pack: &Received<'_>) -> Result<(), Refusal> {
        self.nothing_is_stored();
        assert_eq!(pack.ids().len(), self.seen.lock().unwrap().len());
        if self.refuse { Err("no".into()) } else { Ok(()) }
    }
}

#[test]
fn nothing_is_stored_before_it_is_judged() {
    for hash in Hash::ALL {
        let source = TestRepo::linear(hash, 12);
        source.repack();
        let pack = source.pack_objects(&["--all", "--delta-base-offset"], "");
        let mut all: Vec<ObjectId> = source.ids_of_stream(&pack).iter().map(|id| id.parse().unwrap()).collect();
        all.sort();
        let mut ask = vec![all[3], all[20]];
        for (threads, refuse) in [(1, false), (3, false), (2, true)] {
            let ours = TestRepo::bare(hash);
            let judge = Arc::new(Judge {
                objects: ours.objects_dir(),
                ask: ask.clone(),
                refuse,
                seen: Mutex::default(),
                again: Mutex::default(),
            });
            let options = options().threads(threads).inspect(Some(Arc::clone(&judge) as Arc<dyn Inspect>));
            let done = run(&ours, &pack[..], &options);
            let sorted = |list: &Mutex<Vec<ObjectId>>| {
                let mut list = list.lock().unwrap().clone();
                list.sort();
                list
            };
            ask.sort();
            assert_eq!((sorted(&judge.seen), sorted(&judge.again)), (all.clone(), ask.clone()));
            match refuse {
                true => {
                    assert!(matches!(done.unwrap_err(), UnpackError::Refused(_)));
                    assert_eq!(files(&ours), (BTreeSet::new(), vec![]));
                }
                false => {
                    assert_eq!(done.unwrap().unpacked as usize, all.len());
                    assert_eq!(files(&ours).0, all.iter().map(ObjectId::to_string).collect());
                }
            }
        }
    }
}
