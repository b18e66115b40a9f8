//! The cases of stale and damaged files: each is an error that tells the caller to walk, or a right answer.

use std::path::PathBuf;

use object::ObjectId;
use packstone_pack_bitmap::{OpenError, OpenOptions, ParseErrorKind};
use testkit::{Hash, TestRepo};

use crate::parts::{Parts, made_of};
use crate::world::{Form, Ids, forms, ours, store};

/// Four commits, twelve objects.
fn four(form: Form) -> (TestRepo, PathBuf) {
    let repo = TestRepo::linear(form.hash, 4);
    form.repack(&repo);
    let bitmap = repo.only_pack().with_extension("bitmap");
    (repo, bitmap)
}

fn put(path: &PathBuf, bytes: &[u8]) {
    let _ = std::fs::remove_file(path); // git makes it read-only
    std::fs::write(path, bytes).unwrap();
}

/// What asking for each tip gives: an error that says "walk", or the objects.
fn outcome(repo: &TestRepo, verify: bool, tips: &[ObjectId]) -> Vec<Result<Ids, String>> {
    let (ours, problems) = ours(repo, &OpenOptions::default().verify(verify));
    let Some(ours) = ours else {
        let [problem] = problems.try_into().unwrap();
        return vec![Err(format!("{problem:?}"))];
    };
    let ask = |tip: &ObjectId| match ours.ask(&[*tip], &[], None) {
        Ok(answer) => Ok(ours.names(&answer)),
        Err(error) => {
            assert!(error.should_walk(), "{error:?}");
            Err(format!("{error:?}"))
        }
    };
    tips.iter().map(ask).collect()
}

struct Tips(Vec<ObjectId>, Vec<Ids>);

impl Tips {
    fn of(repo: &TestRepo) -> Tips {
        let ids: Vec<String> = repo.git_str(["rev-list", "--all"]).lines().map(Into::into).collect();
        let truth = ids.iter().map(|id| repo.rev_list_objects(&[id])).collect();
        Tips(ids.iter().map(|id| id.parse().unwrap()).collect(), truth)
    }

    /// Every outcome is an error or right; says whether any was an error.
    #[track_caller]
    fn errors(&self, repo: &TestRepo, verify: bool, what: &str) -> bool {
        let got = outcome(repo, verify, &self.0);
        let wrong = got.iter().zip(&self.1).any(|(got, want)| got.as_ref().is_ok_and(|got| got != want));
        assert!(!wrong, "{what}: wrong answer");
        got.iter().any(Result::is_err)
    }
}

#[test]
fn b1_bitmap_of_another_pack() {
    for form in forms() {
        let (repo, bitmap) = four(form);
        let old = std::fs::read(bitmap).unwrap();
        repo.fast_import(
            b"commit refs/heads/main\ncommitter C <c@e> 1800000000 +0000\ndata 2\nm\nfrom refs/heads/main^0\n\
              M 100644 inline more\ndata 4\nmore\n",
        );
        form.repack(&repo);
        let bitmap = repo.only_pack().with_extension("bitmap");
        let good = std::fs::read(&bitmap).unwrap();
        put(&bitmap, &old);
        let (none, problems) = ours(&repo, &OpenOptions::default().verify(false));
        assert!(none.is_none());
        let [OpenError::Parse { path, source }] = &problems[..] else { panic!("{problems:?}") };
        assert_eq!(path, &bitmap);
        // The checksum differs; should counts differ first, that were as good an error.
        assert!(matches!(source.kind, ParseErrorKind::WrongPack { .. }), "{source}");
        assert_eq!(source.at, 12);

        let mut other = good.clone();
        other[12..12 + form.hash.len()].fill(0x11);
        testkit::pack::resign(form.hash, &mut other);
        put(&bitmap, &other);
        let (none, problems) = ours(&repo, &OpenOptions::default());
        assert!(none.is_none());
        let [OpenError::Parse { source, .. }] = &problems[..] else { panic!("{problems:?}") };
        assert!(matches!(source.kind, ParseErrorKind::WrongPack { .. }), "{source}");

        put(&bitmap, &good);
        assert!(!Tips::of(&repo).errors(&repo, true, "good"));
    }
}

/// An edit of the bytes: where, what, and the name for messages.
fn b2_edits(file: &[u8], hash: Hash) -> Vec<(String, Vec<u8>)> {
    let types = 12 + hash.len();
    let set = |name: &str, at: usize, bytes: &[u8]| {
        let mut out = file.to_vec();
        out[at..at + bytes.len()].copy_from_slice(bytes);
        (name.to_owned(), out)
    };
    let mut edits = vec![
        set("magic", 0, b"BITX"),
        set("version 2", 4, &[0, 2]),
        set("flags 8000", 6, &[0x80, 0]),
        set("flags 0004", 6, &[0, 4]),
        set("flags 0000", 6, &[0, 0]),
        set("count 7fffffff", 8, &[0x7f, 0xff, 0xff, 0xff]),
        set("count ffffffff", 8, &[0xff; 4]),
        set("count 0 with entries there", 8, &[0; 4]),
        set("word count 0fffffff", types + 4, &[0x0f, 0xff, 0xff, 0xff]),
        set("word count 0", types + 4, &[0; 4]),
        set("bit size ffffffff", types, &[0xff; 4]),
        set("bit size 0", types, &[0; 4]),
        set("first marker all ones", types + 8, &[0xff; 8]),
        set("first marker a run of 2^32-1 zeros", types + 8, &0x1_ffff_fffeu64.to_be_bytes()),
        set("first marker a run of 2^32-1 ones", types + 8, &0x1_ffff_ffffu64.to_be_bytes()),
    ];
    for cut in [0, 1, 4, 12, 20, 32, 60, 100, 150] {
        if cut < file.len() {
            edits.push((format!("cut to {cut}"), file[..cut].to_vec()));
        }
    }
    for short in [1, 3, 4, 8, 20, 21, 32, 33] {
        edits.push((format!("short by {short}"), file[..file.len() - short].to_vec()));
    }
    edits
}

#[test]
fn b2_header_types_and_cuts() {
    for form in forms() {
        let (repo, bitmap) = four(form);
        let good = std::fs::read(&bitmap).unwrap();
        let tips = Tips::of(&repo);
        for (name, edited) in b2_edits(&good, form.hash) {
            // As it is: with and without looking at the checksum.
            put(&bitmap, &edited);
            assert!(tips.errors(&repo, true, &name), "{form:?}: {name} passes");
            tips.errors(&repo, false, &name);
            // With a right checksum only the structure gives it away.
            if edited.len() > 2 * form.hash.len() + 12 && !name.starts_with("cut") && !name.starts_with("short") {
                let mut signed = edited;
                testkit::pack::resign(form.hash, &mut signed);
                put(&bitmap, &signed);
                assert!(tips.errors(&repo, true, &name), "{form:?}: {name}, signed, passes");
            }
        }
        put(&bitmap, &good);
        assert!(!tips.errors(&repo, true, "good"));
    }
}

#[test]
fn b2_bitmaps_of_commits() {
    for form in forms() {
        let (repo, bitmap) = four(form);
        let tips = Tips::of(&repo);
        let parts = Parts::of_repo(&repo);
        assert_eq!(parts.bytes(), std::fs::read(&bitmap).unwrap(), "the tests know the format");
        let objects = repo.ids_of_pack(&repo.only_pack()).len() as u32;
        for nr in 0..parts.entries.len() {
            let edit = |name: &str, change: &dyn Fn(&mut crate::parts::Entry)| {
                let mut edited = parts.clone();
                change(&mut edited.entries[nr]);
                // The table stays as it was, unless things have moved.
                if edited.entries[nr].bitmap.len() == parts.entries[nr].bitmap.len() {
                    edited.table = parts.rows();
                }
                put(&bitmap, &edited.bytes());
                let errors = tips.errors(&repo, true, name);
                // With a table, how far back the other half is stands there; the entry need only agree that there is one.
                let free = form.table && parts.entries[nr].xor > 0 && name.starts_with("xor offset beyond");
                assert!(errors || free, "{form:?} entry {nr}: {name} passes");
            };
            edit("position at the object count", &|e| e.pos = objects);
            edit("position ffffffff", &|e| e.pos = u32::MAX);
            edit("xor offset beyond the first", &|e| e.xor = 100);
            edit("xor offset above 160", &|e| e.xor = 161);
            edit("xor offset 255", &|e| e.xor = 255);
            edit("bit size ffffffff", &|e| e.bitmap[..4].fill(0xff));
            edit("word count 0fffffff", &|e| e.bitmap[4..8].copy_from_slice(&[0x0f, 0xff, 0xff, 0xff]));
            edit("first marker all ones", &|e| e.bitmap[8..16].fill(0xff));
            edit("first marker a long run", &|e| {
                e.bitmap[8..16].copy_from_slice(&0x1_ffff_ffffu64.to_be_bytes());
            });
            edit("last marker beyond the words", &|e| {
                let at = e.bitmap.len() - 4;
                e.bitmap[at..].fill(0xff);
            });
            edit("a bit at the object count", &|e| e.bitmap = made_of([objects], objects + 1));
            edit("no bits", &|e| {
                e.bitmap = made_of([], objects);
                e.xor = 0;
            });
        }
    }
}

#[test]
fn b2_any_flipped_bit_is_caught_by_the_checksum() {
    let form = Form { hash: Hash::Sha1, table: true, names: true };
    let (repo, bitmap) = four(form);
    let good = std::fs::read(&bitmap).unwrap();
    let tips = Tips::of(&repo);
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        put(&bitmap, &bad);
        assert!(tips.errors(&repo, true, &format!("bit {} of byte {at}", at % 8)));
    }
}

#[test]
fn b2_anything_with_a_right_checksum_never_panics() {
    for hash in Hash::ALL {
        let (repo, bitmap) = four(Form { hash, table: hash == Hash::Sha1, names: false });
        let good = std::fs::read(&bitmap).unwrap();
        let tip = [repo.rev_parse("main").parse().unwrap()];
        for at in 0..good.len() - hash.len() {
            for change in [0xff, 0x80, 0x01] {
                let mut bad = good.clone();
                bad[at] ^= change;
                testkit::pack::resign(hash, &mut bad);
                put(&bitmap, &bad);
                outcome(&repo, true, &tip);
            }
        }
    }
}

#[test]
fn b4_an_object_twice_in_a_pack() {
    for hash in Hash::ALL {
        let from = TestRepo::linear(hash, 2);
        let all: Vec<String> = from.all_objects().into_iter().collect();
        let mut builder = testkit::pack::PackBuilder::new(hash);
        let order = [0, 1, 0].into_iter().chain(2..all.len());
        for id in order.clone().map(|n| &all[n]) {
            builder = builder.entry(testkit::pack::Entry::full(&from.kind(id), &from.read(id)));
        }
        let pack = builder.build();

        let repo = TestRepo::bare(hash);
        std::fs::create_dir_all(repo.objects_dir().join("pack")).unwrap();
        let path = repo.objects_dir().join("pack").join(format!("pack-{}.pack", testkit::pack::hex(pack.checksum())));
        std::fs::write(&path, &pack.bytes).unwrap();
        repo.git(["index-pack", path.to_str().unwrap()]);
        repo.git(["update-ref", "refs/heads/main", &from.rev_parse("main")]);
        // With a bitmap of a multi-pack-index: not one of the pack's, so none is found and the caller walks.
        repo.git(["multi-pack-index", "write", "--bitmap"]);
        let (none, problems) = ours(&repo, &OpenOptions::default());
        assert!(none.is_none() && problems.is_empty(), "{problems:?}");

        // With one of the pack's own, made by whoever: bit 2 and bit 0 are the same object. Refused.
        let count = all.len() as u32 + 1;
        let kinds = ["commit", "tree", "blob", "tag"].map(|kind| {
            let is = |(_, n): &(usize, usize)| from.kind(&all[*n]) == kind;
            made_of(order.clone().enumerate().filter(is).map(|(bit, _)| bit as u32), count)
        });
        let parts = Parts {
            hash,
            flags: 1,
            count: None,
            pack: pack.checksum().to_vec(),
            types: kinds.to_vec(),
            entries: vec![],
            pseudo: vec![],
            table: vec![],
            names: vec![],
        };
        put(&path.with_extension("bitmap"), &parts.bytes());
        let (none, problems) = ours(&repo, &OpenOptions::default());
        assert!(none.is_none());
        let [OpenError::Parse { source, .. }] = &problems[..] else { panic!("{problems:?}") };
        assert!(matches!(source.kind, ParseErrorKind::DuplicateObject { .. }), "{source}");
        assert_eq!(store(&repo).packs().unwrap().len(), 1);
    }
}

#[test]
fn a_pack_without_bitmap_behind_a_broken_one() {
    let repo = crate::world::grown(Form { hash: Hash::Sha1, table: false, names: true });
    for pack in repo.packs() {
        let bitmap = pack.with_extension("bitmap");
        if !bitmap.exists() {
            put(&bitmap, b"BITMnonsense");
        }
    }
    let (ours, problems) = ours(&repo, &OpenOptions::default());
    // Whichever comes first: the broken one is a problem or was not reached, the good one is used.
    assert!(ours.is_some());
    assert!(problems.len() <= 1);
}
