//! Packs, indices and reverse indices that git makes, at test time, with the git on the path.

use std::{collections::BTreeMap, fs, path::Path};

use object::{HashKind, ObjectId, ObjectKind, Prefix, object_id};
use packstone_pack_format::{
    IdxPos, MidxPack, MidxPos, PackOffset, PackPos, PseudoPos, delta,
    entry::{EntryKind, Header, PackHeader},
    idx::{self, Idx},
    midx::{self, Chain, Midx},
    mtimes::{self, Mtimes},
    rev::{self, Rev},
    zlib::Inflate,
};
use testkit::{
    TestRepo,
    io::Ragged,
    pack::{PackBuilder, Row, idx_v2},
};

use crate::kinds;

fn id(text: &str) -> ObjectId {
    text.parse().unwrap()
}

fn read(path: &Path, extension: &str) -> Vec<u8> {
    fs::read(path.with_extension(extension)).unwrap()
}

/// All of an index: what `git show-index` says, by position, by look-up, by prefix; and written again the same bytes.
fn check_index(repo: &TestRepo, path: &Path, kind: HashKind, version: u32, limit: u32) {
    let bytes = fs::read(path).unwrap();
    let idx = Idx::parse(&bytes[..], kind).unwrap();
    assert_eq!(idx.version(), version);
    idx.verify_all().unwrap();
    let mut rows = repo.show_index(path);
    rows.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(idx.count() as usize, rows.len());
    for (pos, row) in (0..).map(IdxPos::new).zip(&rows) {
        assert_eq!(idx.id(pos), id(&row.id));
        assert_eq!(idx.offset(pos).unwrap(), PackOffset::new(row.offset));
        assert_eq!(idx.crc32(pos), row.crc32);
        assert_eq!(idx.lookup(&id(&row.id)), Some(pos));
        let prefix = Prefix::from_hex(&row.id.as_bytes()[..7], kind).unwrap();
        let range = idx.prefix_range(&prefix);
        assert!(range.contains(&pos.get()));
        assert!((0..idx.count()).all(|p| range.contains(&p) == prefix.matches(&idx.id(IdxPos::new(p)))));
    }
    assert_eq!(idx.lookup(&kind.null()), None);
    let entries = (0..idx.count())
        .map(IdxPos::new)
        .map(|pos| (idx.id(pos), idx.crc32(pos).unwrap_or(0), idx.offset(pos).unwrap()));
    let (pack, mut written) = (idx.pack_checksum(), Vec::new());
    let out = Ragged::new(&mut written, 7, 100);
    let (_, checksum) = match version {
        1 => idx::write_v1(out, entries.map(|(id, _, offset)| (id, offset)), &pack).unwrap(),
        _ => {
            let options = idx::Options::default().offset_limit(limit);
            idx::write_v2_with(out, entries, &pack, &options).unwrap()
        }
    };
    assert_eq!(checksum, idx.idx_checksum());
    assert!(written == bytes, "written again, version {version}, it is another file");
}

#[test]
fn indices() {
    for (hash, kind) in kinds() {
        let repo = TestRepo::rich(hash);
        repo.repack_with_bitmap();
        let pack = repo.only_pack();
        check_index(&repo, &pack.with_extension("idx"), kind, 2, u32::MAX);
        for (spec, version, limit) in [("1", 1, 0), ("2,0x400", 2, 0x400), ("2,12", 2, 12)] {
            let out = repo.scratch().join(format!("index-{spec}.idx"));
            let version_option = format!("--index-version={spec}");
            repo.git(["index-pack", &version_option, "-o", out.to_str().unwrap(), pack.to_str().unwrap()]);
            check_index(&repo, &out, kind, version, limit);
        }
    }
}

/// Git writes a slot for each of the n objects when asked to, and then refuses its own file. Here it is read.
#[test]
fn as_many_large_slots_as_objects() {
    for (hash, kind) in kinds() {
        let repo = TestRepo::linear(hash, 3);
        repo.repack();
        let pack = repo.only_pack();
        let out = repo.scratch().join("all.idx");
        repo.git(["index-pack", "--index-version=2,0", "-o", out.to_str().unwrap(), pack.to_str().unwrap()]);
        let bytes = fs::read(&out).unwrap();
        let idx = Idx::parse(&bytes[..], kind).unwrap();
        assert_eq!(idx.large_count(), idx.count());
        idx.verify_all().unwrap();
        let usual = read(&pack, "idx");
        assert!(idx.offsets().eq(Idx::parse(&usual[..], kind).unwrap().offsets()));
    }
}

#[test]
fn reverse_indices() {
    for (hash, kind) in kinds() {
        let repo = TestRepo::rich(hash);
        repo.repack_with_bitmap();
        let pack = repo.only_pack();
        let (idx, bytes) = (read(&pack, "idx"), read(&pack, "rev"));
        let idx = Idx::parse(&idx[..], kind).unwrap();
        let rev = Rev::parse(&bytes[..], kind, idx.count(), &idx.pack_checksum()).unwrap();
        rev.verify_all(&idx).unwrap();
        let rows = repo.show_index(&pack);
        for (pos, row) in (0..).map(PackPos::new).zip(&rows) {
            assert_eq!(idx.id(rev.idx_pos(pos)), id(&row.id));
        }
        let (out, _) = rev::write(Vec::new(), rev.positions(), &idx.pack_checksum()).unwrap();
        assert!(out == bytes);
    }
}

/// Reads whole packs with this crate alone, both forms of deltas, and names every object.
#[test]
fn packs_from_end_to_end() {
    for (hash, kind) in kinds() {
        let repo = TestRepo::rich(hash);
        for options in [&["--delta-base-offset", "--all"][..], &["--all"]] {
            let all = ["pack-objects", "-q", "--revs", "--depth=20"];
            let base = repo.scratch().join("pack");
            let args = all.iter().chain(options).copied().chain([base.to_str().unwrap()]);
            let name = String::from_utf8(repo.git_with(args, b"")).unwrap();
            let path = repo.scratch().join(format!("pack-{}.pack", name.trim()));
            let (pack, idx) = (read(&path, "pack"), read(&path, "idx"));
            let idx = Idx::parse(&idx[..], kind).unwrap();
            let header = PackHeader::from_bytes(&pack).unwrap();
            assert_eq!(header, PackHeader::new(idx.count()));
            assert_eq!(header.to_bytes(), pack[..PackHeader::LEN]);
            let mut reader =
                Reader { pack: &pack, idx: &idx, kind, done: BTreeMap::new(), inflate: Inflate::new(), deltas: 0 };
            // Entries adjoin: each ends where the next one begins, and the checksum of its bytes is the index's.
            let mut by_offset: Vec<_> =
                (0..idx.count()).map(IdxPos::new).map(|p| (idx.offset(p).unwrap(), p)).collect();
            by_offset.sort();
            let mut at = PackHeader::LEN as u64;
            for (offset, pos) in by_offset {
                assert_eq!(offset.get(), at);
                at = reader.read(offset);
                assert_eq!(Some(crc32fast::hash(&pack[offset.get() as usize..at as usize])), idx.crc32(pos));
                let (object, content) = &reader.done[&offset];
                assert_eq!(object_id(kind, *object, content).unwrap(), idx.id(pos));
            }
            assert_eq!(at as usize, pack.len() - kind.len());
            assert!(reader.deltas > 20, "the pack has deltas");
        }
    }
}

struct Reader<'a> {
    pack: &'a [u8],
    idx: &'a Idx<&'a [u8]>,
    kind: HashKind,
    done: BTreeMap<PackOffset, (ObjectKind, Vec<u8>)>,
    inflate: Inflate,
    deltas: u32,
}

impl Reader<'_> {
    /// Reads the entry, its base first; returns where it ends.
    fn read(&mut self, at: PackOffset) -> u64 {
        let bytes = &self.pack[at.get() as usize..];
        let (header, head) = Header::parse(bytes, self.kind).unwrap();
        let mut again = Vec::new();
        header.encode(&mut again);
        assert_eq!(again, bytes[..head], "git writes headers in their shortest form");
        let mut inflated = Vec::new();
        let len = self.inflate.inflate_into(&bytes[head..], header.size, &mut inflated).unwrap();
        let base = match header.kind {
            EntryKind::OfsDelta { .. } => Some(header.base_offset(at).unwrap().unwrap()),
            EntryKind::RefDelta { base } => Some(self.idx.offset(self.idx.lookup(&base).unwrap()).unwrap()),
            _ => None,
        };
        let object = match (base, header.kind.object_kind()) {
            (Some(base), None) => {
                self.deltas += 1;
                if !self.done.contains_key(&base) {
                    self.read(base);
                }
                let (object, base) = &self.done[&base];
                let mut content = Vec::new();
                delta::apply(base, &inflated, &mut content, u64::MAX).unwrap();
                (*object, content)
            }
            (None, Some(object)) => (object, inflated),
            _ => unreachable!(),
        };
        self.done.insert(at, object);
        at.get() + (head + len) as u64
    }
}

/// Everything in a multi-pack-index, written again: the same bytes. Returns what it holds.
fn check_midx(bytes: &[u8], kind: HashKind, base: u32) -> Vec<(ObjectId, MidxPack, PackOffset)> {
    let midx = Midx::parse(bytes, kind).unwrap();
    midx.verify_all().unwrap();
    let positions = || (0..midx.count()).map(MidxPos::new);
    let entries: Vec<_> = positions()
        .map(|pos| {
            let (pack, offset) = midx.location(pos).unwrap();
            (midx.id(pos), pack, offset)
        })
        .collect();
    for (pos, (id, ..)) in positions().zip(&entries) {
        assert_eq!(midx.lookup(id), Some(pos));
        let prefix = Prefix::from_hex(&id.to_string().as_bytes()[..9], kind).unwrap();
        let range = midx.prefix_range(&prefix);
        assert!(range.contains(&pos.get()) && range.len() < 3);
    }
    assert_eq!(midx.lookup(&kind.null()), None);
    let names: Vec<_> = midx.pack_names().collect();
    for (pack, name) in (0..).map(MidxPack::new).zip(&names) {
        let stem = name.strip_suffix(b".idx").unwrap();
        for name in [name, stem, &[stem, b".pack"].concat()] {
            assert_eq!(midx.find_pack(name), Some(pack));
        }
    }
    assert_eq!(midx.find_pack(b"pack-"), None);
    let order: Option<Vec<_>> = midx.pseudo_order(base).unwrap().map(|order| {
        let listed = (0..order.count()).map(PseudoPos::new).map(|pos| order.midx_pos(pos).unwrap());
        listed.map(|pos| MidxPos::new(pos.get() + base)).collect()
    });
    let packs: Option<Vec<_>> =
        (0..midx.pack_count()).map(|pack| midx.bitmapped_pack(MidxPack::new(pack)).unwrap()).collect();
    let packs = packs.filter(|packs| !packs.is_empty());
    let options =
        midx::Options::default().version(midx.version()).pseudo_order(order.as_deref()).bitmapped(packs.as_deref());
    let mut written = Vec::new();
    let out = Ragged::new(&mut written, 5, 100);
    let (_, checksum) = midx::write(out, kind, &names, entries.iter().copied(), &options).unwrap();
    assert_eq!(checksum, midx.checksum());
    assert!(written == bytes, "written again it is another file");
    entries
}

/// Files that git writes: plain, and with the order and packs of a bitmap.
#[test]
fn multi_pack_indexes() {
    for (hash, kind) in kinds() {
        let repo = TestRepo::rich(hash);
        repo.repack_loose();
        repo.git(["pack-objects", "-q", "--all", "--revs", "objects/pack/pack"]);
        repo.git_with(["pack-objects", "-q", "objects/pack/one"], repo.rev_parse("main").as_bytes());
        let path = repo.objects_dir().join("pack/multi-pack-index");
        for options in [&[][..], &["--bitmap"]] {
            let _ = fs::remove_file(&path);
            repo.git(["multi-pack-index", "write"].iter().chain(options));
            let bytes = fs::read(&path).unwrap();
            let midx = Midx::parse(&bytes[..], kind).unwrap();
            assert_eq!(midx.version(), midx::Version::V1);
            assert!(midx.pack_count() >= 2);
            assert_eq!(midx.pseudo_order(0).unwrap().is_some(), !options.is_empty());
            assert_eq!(midx.bitmapped_pack(MidxPack::new(0)).unwrap().is_some(), !options.is_empty());
            // Each object is where the pack's own index says.
            for (id, pack, offset) in check_midx(&bytes, kind, 0) {
                let idx = fs::read(path.with_file_name(str::from_utf8(midx.pack_name(pack)).unwrap())).unwrap();
                let idx = Idx::parse(&idx[..], kind).unwrap();
                assert_eq!(idx.offset(idx.lookup(&id).unwrap()), Ok(offset));
            }
            let ids: std::collections::BTreeSet<_> = midx.ids().map(|id| id.to_string()).collect();
            assert_eq!(ids, repo.all_objects());
        }
    }
}

/// The layers of an incremental one, and the file that lists them.
#[test]
fn multi_pack_index_chains() {
    for (hash, kind) in kinds() {
        let repo = TestRepo::init(hash);
        let dir = repo.objects_dir().join("pack/multi-pack-index.d");
        for round in 0..3u8 {
            repo.commit_files(&[("file", &[round; 20])], "c");
            repo.repack_loose();
            repo.git(["multi-pack-index", "write", "--incremental"]);
        }
        let bytes = fs::read(dir.join("multi-pack-index-chain")).unwrap();
        let chain = Chain::parse(&bytes, kind).unwrap();
        assert_eq!(chain.layers.len(), 3);
        assert_eq!(chain.encode(), bytes);
        let mut base = 0;
        for layer in &chain.layers {
            let bytes = fs::read(dir.join(format!("multi-pack-index-{layer}.midx"))).unwrap();
            let midx = Midx::parse(&bytes[..], kind).unwrap();
            assert_eq!(midx.checksum(), *layer);
            base += check_midx(&bytes, kind, base).len() as u32;
        }
        assert_eq!(base as usize, repo.all_objects().len());
    }
}

/// Offsets around 2^31 and 2^32: git's own file, with and without the table of 64-bit offsets.
#[test]
fn multi_pack_index_of_large_offsets() {
    for (hash, kind) in kinds() {
        for offsets in [[12, 1 << 31, u64::from(u32::MAX)], [12, 1 << 31, 1 << 32]] {
            let repo = TestRepo::init(hash);
            let pack = PackBuilder::new(hash).build();
            let rows = (0..3).map(|n| {
                let offset = if offsets[n] < 1 << 31 { offsets[n] as u32 } else { 1 << 31 | (n - 1) as u32 };
                Row { id: vec![n as u8 + 1; kind.len()], crc: 0, offset }
            });
            let idx = idx_v2(hash, &rows.collect::<Vec<_>>(), &offsets[1..], pack.checksum());
            pack.write(&repo.objects_dir(), &idx);
            repo.git(["multi-pack-index", "write"]);
            let bytes = fs::read(repo.objects_dir().join("pack/multi-pack-index")).unwrap();
            let found = check_midx(&bytes, kind, 0).into_iter().map(|(.., offset)| offset.get());
            assert!(found.eq(offsets));
        }
    }
}

/// Ages of a cruft pack, as git writes them and as it shows them.
#[test]
fn modification_times() {
    for (hash, kind) in kinds() {
        let repo = TestRepo::linear(hash, 2);
        for n in 0..5u8 {
            let id = repo.hash_object("blob", &[n; 9]);
            let path = repo.objects_dir().join(&id[..2]).join(&id[2..]);
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000 + u64::from(n));
            let file = fs::File::open(&path).unwrap();
            file.set_times(fs::FileTimes::new().set_modified(time)).unwrap();
        }
        repo.git(["repack", "-d", "-q", "--cruft", "--no-write-bitmap-index"]);
        let cruft = repo.packs().into_iter().find(|path| path.with_extension("mtimes").exists()).unwrap();
        let (idx, bytes) = (read(&cruft, "idx"), read(&cruft, "mtimes"));
        let idx = Idx::parse(&idx[..], kind).unwrap();
        let times = Mtimes::parse(&bytes[..], kind, idx.count(), &idx.pack_checksum()).unwrap();
        times.verify_checksum().unwrap();
        assert_eq!(times.count(), 5);
        for n in 0..5u8 {
            let id = object_id(kind, ObjectKind::Blob, &[n; 9]).unwrap();
            assert_eq!(times.mtime(idx.lookup(&id).unwrap()), 1_000_000_000 + u32::from(n));
        }
        let (out, _) = mtimes::write(Vec::new(), times.mtimes(), &idx.pack_checksum()).unwrap();
        assert!(out == bytes);
    }
}
