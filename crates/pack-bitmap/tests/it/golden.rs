//! Files that git wrote, part by part.

use std::collections::BTreeMap;

use object::{ObjectId, ObjectKind};
use odb::Pack;
use pack_format::{IdxPos, PackPos};
use packstone_pack_bitmap::{BitmapFile, OpenOptions, Scratch, name_hash, open};
use testkit::{Hash, TestRepo};

use crate::world::{Form, forms, grown, store};

fn opened(repo: &TestRepo) -> (std::sync::Arc<Pack>, BitmapFile<odb::Bytes>) {
    let store = store(repo);
    let packs = store.packs().unwrap();
    let mut found =
        packs.iter().filter_map(|pack| open(pack, &OpenOptions::default()).unwrap().map(|file| (pack.clone(), file)));
    found.next().unwrap()
}

#[test]
fn kinds_names_and_commits() {
    for form in forms() {
        let repo = TestRepo::rich(form.hash);
        form.repack(&repo);
        let (pack, file) = opened(&repo);
        let order = pack.order().unwrap();
        assert_eq!(file.object_count(), pack.count());
        assert_eq!(file.pack_checksum(), pack.checksum().unwrap());
        assert_eq!((file.has_lookup_table(), file.has_name_hashes()), (form.table, form.names));
        assert!(!file.has_pseudo_merges());
        file.verify_checksum().unwrap();
        file.verify_all(order, &mut Scratch::new()).unwrap();

        let listed = repo.git_str(["rev-list", "--objects", "--all"]);
        let names: BTreeMap<&str, &str> = listed.lines().map(|l| l.split_once(' ').unwrap_or((l, ""))).collect();
        let mut commits = Vec::new();
        for pos in (0..pack.count()).map(IdxPos::new) {
            let id = pack.idx().id(pos).to_string();
            let kind = file.kind_at(order.pack_pos(pos)).unwrap();
            assert_eq!(kind.name(), repo.verify_kind(&id));
            let name = form.names.then(|| name_hash(names[id.as_str()].as_bytes()));
            assert_eq!(file.name_hash(pos), name, "{id}");
            if kind == ObjectKind::Commit {
                commits.push(pos);
            }
        }
        // A history this short has a bitmap for every commit.
        assert!(file.commits().eq(commits.iter().copied()));
        assert_eq!(file.entry_count() as usize, commits.len());
        assert!((0..pack.count()).all(|p| { file.has_commit(IdxPos::new(p)) == commits.contains(&IdxPos::new(p)) }));
        assert!(!file.has_commit(IdxPos::new(pack.count())));
        assert_eq!(file.kind_at(PackPos::new(pack.count())), None);
        assert_eq!(file.name_hash(IdxPos::new(pack.count())), None);
    }
}

trait Kinds {
    fn verify_kind(&self, id: &str) -> String;
}

impl Kinds for TestRepo {
    fn verify_kind(&self, id: &str) -> String {
        use std::cell::RefCell;
        thread_local!(static KNOWN: RefCell<BTreeMap<String, String>> = RefCell::default());
        KNOWN.with(|known| {
            let mut known = known.borrow_mut();
            if !known.contains_key(id) {
                let all =
                    self.git_str(["cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"]);
                known.extend(all.lines().map(|l| {
                    let (id, kind) = l.split_once(' ').unwrap();
                    (id.to_owned(), kind.to_owned())
                }));
            }
            known[id].clone()
        })
    }
}

#[test]
fn every_bitmap_is_the_closure_of_its_commit() {
    for form in
        [Form { hash: Hash::Sha1, table: false, names: false }, Form { hash: Hash::Sha256, table: true, names: true }]
    {
        let repo = TestRepo::rich(form.hash);
        form.repack(&repo);
        let (pack, file) = opened(&repo);
        let order = pack.order().unwrap();
        let decode = |commit: IdxPos, scratch: &mut Scratch| -> Vec<u64> {
            file.reach(commit, order.pack_pos(commit), scratch).unwrap().unwrap().to_vec()
        };
        let commits: Vec<IdxPos> = file.commits().collect();
        let (mut big, mut small) = (Scratch::new(), Scratch::with_budget(0));
        for (nr, &commit) in commits.iter().enumerate() {
            let words = decode(commit, &mut big);
            // What a scratch remembers changes nothing.
            assert_eq!(words, decode(commit, &mut small));
            assert_eq!(words, decode(commit, &mut Scratch::with_budget(words.len() * 8)));
            if nr % 5 == 0 {
                let ids =
                    (0..pack.count()).map(PackPos::new).filter(|p| words[p.index() / 64] >> (p.get() % 64) & 1 == 1);
                let ids = ids.map(|p| pack.idx().id(order.idx_pos(p)).to_string()).collect();
                let id = pack.idx().id(commit).to_string();
                assert_eq!(repo.rev_list_objects(&[&id]), ids);
            }
        }
        // One that has no bitmap.
        let blob = (0..pack.count()).map(IdxPos::new).find(|p| !file.has_commit(*p)).unwrap();
        assert!(file.reach(blob, order.pack_pos(blob), &mut big).unwrap().is_none());
    }
}

#[test]
fn a_scratch_does_not_mix_files_up() {
    let mut scratch = Scratch::new();
    let mut seen = Vec::new();
    for commits in [120, 121] {
        let repo = TestRepo::linear(Hash::Sha1, commits);
        repo.repack_with_bitmap();
        let (pack, file) = opened(&repo);
        let order = pack.order().unwrap();
        for commit in file.commits() {
            let bit = order.pack_pos(commit);
            let shared = file.reach(commit, bit, &mut scratch).unwrap().unwrap().to_vec();
            let fresh = file.reach(commit, bit, &mut Scratch::new()).unwrap().unwrap().to_vec();
            assert_eq!(shared, fresh);
        }
        seen.push(file.entry_count());
    }
    assert!(seen.iter().all(|n| *n > 100));
}

#[test]
fn pseudo_merges_are_passed_over() {
    for hash in Hash::ALL {
        let repo = TestRepo::linear(hash, 300);
        for n in 1..40 {
            repo.tag(&format!("t{n}"), &format!("main~{}", n * 7));
        }
        for table in ["false", "true"] {
            repo.git([
                "-c",
                "bitmapPseudoMerge.all.pattern=refs/tags/",
                "-c",
                "bitmapPseudoMerge.all.threshold=now",
                "-c",
                "bitmapPseudoMerge.all.stableThreshold=never",
                "-c",
                &format!("pack.writeBitmapLookupTable={table}"),
                "repack",
                "-adbq",
            ]);
            let (pack, file) = opened(&repo);
            if !file.has_pseudo_merges() {
                let version = repo.git_str(["version"]);
                eprintln!("{version} writes no pseudo-merges; nothing to test");
                return;
            }
            let order = pack.order().unwrap();
            file.verify_all(order, &mut Scratch::new()).unwrap();
            let id: ObjectId = repo.rev_parse("main").parse().unwrap();
            let commit = pack.idx().lookup(&id).unwrap();
            let words = file.reach(commit, order.pack_pos(commit), &mut Scratch::new()).unwrap().unwrap().to_vec();
            let ones: u32 = words.iter().map(|w| w.count_ones()).sum();
            assert_eq!(ones, pack.count());
        }
    }
}

#[test]
fn name_hashes_of_the_format_document() {
    // hash = (hash >> 2) + (c << 24), white space left out.
    assert_eq!(name_hash(b""), 0);
    assert_eq!(name_hash(b"a"), 0x6100_0000);
    assert_eq!(name_hash(b"a b"), name_hash(b"ab"));
    assert_eq!(name_hash(b"ab"), (0x6100_0000 >> 2) + 0x6200_0000);
    assert_eq!(name_hash(b"\xff"), 0xff00_0000);
}

#[test]
fn the_first_usable_file_is_found() {
    let repo = grown(Form { hash: Hash::Sha1, table: false, names: true });
    let found = packstone_pack_bitmap::find(&store(&repo), &OpenOptions::default()).unwrap();
    let (pack, _) = found.bitmap.unwrap();
    assert!(found.problems.is_empty());
    assert!(packstone_pack_bitmap::path_for(&pack).is_file());
}
