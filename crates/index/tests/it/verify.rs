//! Damaged files of all kinds, and that each damage is found where it is.

use object::{Checksum, HashKind, ObjectKind, object_id};
use packstone_index::ext::{self, CacheTreeBuilder, Fsmonitor};
use packstone_index::verify::{Finding, Severity, verify};
use packstone_index::{Bump, Flags, Index, Mode, NewEntry, ReadOptions, Stage, Version, WriteOptions};
use testkit::{Hash, TestRepo};

/// A file that is put together by hand, so that it can be wrong.
pub(crate) struct Sample {
    kind: HashKind,
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: u32,
}

impl Sample {
    pub(crate) fn new(kind: HashKind) -> Self {
        Sample { kind, bytes: b"DIRC\0\0\0\x02\0\0\0\0".to_vec(), count: 0 }
    }

    /// Adds a version 2 entry, and says where it is.
    pub(crate) fn entry(&mut self, path: &[u8], mode: u32, stage: u16) -> usize {
        let at = self.bytes.len();
        self.bytes.extend([0; 40]);
        self.bytes[at + 24..at + 28].copy_from_slice(&mode.to_be_bytes());
        self.bytes.extend(self.kind.empty_blob().as_bytes());
        self.bytes.extend((stage << 12 | path.len().min(0xfff) as u16).to_be_bytes());
        self.bytes.extend(path);
        let len = (self.bytes.len() - at + 8) & !7;
        self.bytes.resize(at + len, 0);
        self.count += 1;
        at
    }

    pub(crate) fn files(mut self, paths: &[&str]) -> Self {
        for path in paths {
            self.entry(path.as_bytes(), 0o100_644, 0);
        }
        self
    }

    /// Adds an extension, and says where its data begin.
    pub(crate) fn extension(&mut self, signature: [u8; 4], data: &[u8]) -> usize {
        self.bytes.extend(ext::header(signature, data.len() as u32));
        let at = self.bytes.len();
        self.bytes.extend(data);
        at
    }

    /// Adds `EOIE` as it should be, if the entries end there.
    pub(crate) fn end_of_entries(&mut self, end: usize) {
        let mut data = Vec::new();
        let items = ext::Extensions::new(&self.bytes, end, self.bytes.len()).map(|item| item.unwrap());
        let frames: Vec<_> = items.map(|item| (item.signature, item.data.len() as u32)).collect();
        ext::eoie::append(end as u32, &frames, self.kind, &mut data);
        self.extension(ext::EOIE, &data);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes[8..12].copy_from_slice(&self.count.to_be_bytes());
        signed(self.bytes, self.kind)
    }
}

pub(crate) fn signed(mut bytes: Vec<u8>, kind: HashKind) -> Vec<u8> {
    let mut sum = Checksum::new(kind);
    sum.update(&bytes);
    bytes.extend(sum.finish().as_bytes());
    bytes
}

/// Places and texts.
fn found(bytes: &[u8], kind: HashKind) -> Vec<(u64, String)> {
    verify(bytes, kind, None).into_iter().map(|finding| (finding.at, finding.what)).collect()
}

#[track_caller]
fn finds(bytes: &[u8], kind: HashKind, expected: &[(usize, &str)]) {
    let found = found(bytes, kind);
    let places: Vec<usize> = found.iter().map(|(at, _)| *at as usize).collect();
    assert_eq!(places, expected.iter().map(|(at, _)| *at).collect::<Vec<_>>(), "{found:#?}");
    for ((_, text), (_, part)) in found.iter().zip(expected) {
        assert!(text.contains(part), "{text:?} has no {part:?}");
        assert!(!text.contains('\n') && !text.ends_with('.'), "{text:?}");
    }
}

/// Whatever git can be made to write is sound.
#[test]
fn what_git_writes_has_no_findings() {
    for hash in Hash::ALL {
        let kind = HashKind::from_name(hash.name()).unwrap();
        let repo = TestRepo::init(hash);
        for (key, value) in [
            ("core.fsmonitorHookVersion", "2"),
            ("index.threads", "3"),
            ("index.recordEndOfIndexEntries", "true"),
            ("index.recordOffsetTable", "true"),
        ] {
            repo.git(["config", key, value]);
        }
        let sound = |what: &str| {
            let bytes = std::fs::read(repo.git_dir().join("index")).unwrap();
            let arena = Bump::new();
            let shared = match Index::read(&arena, &bytes, &ReadOptions::new(kind)) {
                Ok(index) if !index.is_split() => None,
                _ => {
                    let shared = std::fs::read_dir(repo.git_dir()).unwrap().map(|file| file.unwrap().path());
                    let mut shared: Vec<_> =
                        shared.filter(|path| path.to_string_lossy().contains("sharedindex.")).collect();
                    assert_eq!(shared.len(), 1);
                    Some(std::fs::read(shared.remove(0)).unwrap())
                }
            };
            if let Some(shared) = &shared {
                assert_eq!(verify(shared, kind, None), [], "{what}, shared");
            }
            assert_eq!(verify(&bytes, kind, shared.as_deref()), [], "{what}");
        };
        repo.commit_files(&[("a/b/c", b"1"), ("a/b.c", b"2"), ("a/bb", b"3"), ("z", b"4")], "one");
        sound("plain");
        repo.git(["update-index", "--index-version", "4"]);
        sound("version 4");
        repo.git(["update-index", "--skip-worktree", "z"]);
        repo.git(["update-index", "--force-untracked-cache"]);
        repo.write("new/file", b"");
        repo.git(["status"]);
        sound("untracked cache");
        repo.branch("other");
        repo.commit_files(&[("a/bb", b"ours")], "ours");
        repo.checkout("other");
        repo.commit_files(&[("a/bb", b"theirs")], "theirs");
        repo.try_git(["merge", "main"], b"");
        sound("conflict");
        repo.git(["add", "a/bb"]);
        sound("resolved");
        repo.git(["update-index", "--split-index"]);
        sound("split");
        repo.commit_files(&[("a/bb", b"again"), ("added", b"")], "again");
        sound("split and changed");
        repo.git(["-c", "splitIndex.sharedIndexExpire=now", "update-index", "--no-split-index"]);
        repo.git(["sparse-checkout", "set", "--sparse-index", "nothing"]);
        sound("sparse");
        repo.git(["-c", "index.skipHash=true", "update-index", "--force-write-index"]);
        sound("without hash");
    }
}

/// And so is what this crate writes.
#[test]
fn what_is_written_has_no_findings() {
    for kind in HashKind::ALL {
        for version in [Version::V2, Version::V3, Version::V4] {
            let arena = Bump::new();
            let mut index = Index::new(&arena, kind);
            let paths: Vec<String> = (0..200).map(|n| format!("dir{:02}/{n}{}", n / 13, "x".repeat(n % 23))).collect();
            let mut paths: Vec<&[u8]> = paths.iter().map(|path| path.as_bytes()).collect();
            let long = [b'l'; 5000];
            paths.push(&long);
            paths.sort();
            let flags = Flags { skip_worktree: version != Version::V2, ..Flags::default() };
            let entries =
                paths.iter().map(|path| NewEntry { flags, ..NewEntry::new(path, Mode(0o100_644), kind.empty_blob()) });
            index.replace_entries(entries).unwrap();
            index.set_version(version);
            let (bytes, _) = index.write_to(Vec::new(), &WriteOptions::default().offset_table(Some(64))).unwrap();
            assert_eq!(verify(&bytes, kind, None), []);
            for cut in (0..bytes.len()).step_by(97) {
                assert_ne!(verify(&bytes[..cut], kind, None), []);
            }
        }
    }
}

#[test]
fn headers_and_trailers() {
    for kind in HashKind::ALL {
        let good = Sample::new(kind).files(&["a"]).finish();
        assert_eq!(verify(&good, kind, None), []);
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        finds(&with(0, b'X'), kind, &[(0, "bad signature")]);
        finds(&with(7, 5), kind, &[(4, "bad index version 5")]);
        let trailer = good.len() - kind.len();
        finds(&with(trailer, !good[trailer]), kind, &[(trailer, "content hashes to")]);
        let mut bytes = good[..trailer].to_vec();
        bytes.extend(kind.null().as_bytes());
        assert_eq!(verify(&bytes, kind, None), [], "skipHash");
        finds(&good[..10], kind, &[(10, "index file needs")]);
    }
}

#[test]
fn s3_paths() {
    for kind in HashKind::ALL {
        for (path, at, what) in [
            (".git/x", 0, ".git"),
            ("../x", 0, "'..'"),
            ("/abs", 0, "absolute"),
            ("a//b", 2, "empty"),
            ("a/./b", 2, "'.'"),
            ("a/", 2, "empty"),
            (".GIT/x", 0, ".git"),
            ("git~1/x", 0, ".git"),
        ] {
            let mut sample = Sample::new(kind);
            let entry = sample.entry(path.as_bytes(), 0o100_644, 0);
            finds(&sample.finish(), kind, &[(entry + 40 + kind.len() + 2 + at, what)]);
        }
        let sample = Sample::new(kind).files(&["a\\b"]);
        assert_eq!(verify(&sample.finish(), kind, None), [], "only Windows takes it for a separator");
        let mut sample = Sample::new(kind);
        let entry = sample.entry(b".gitmodules", 0o120_000, 0);
        finds(&sample.finish(), kind, &[(entry + 42 + kind.len(), ".gitmodules")]);
    }
}

#[test]
fn entries() {
    for kind in HashKind::ALL {
        let path_at = 42 + kind.len();
        let mut sample = Sample::new(kind).files(&["b"]);
        let one = sample.entry(b"a", 0o100_644, 0);
        let two = sample.entry(b"a", 0o100_644, 0);
        let three = sample.entry(b"a", 0o100_644, 2);
        let four = sample.entry(b"a", 0o100_644, 1);
        finds(
            &sample.finish(),
            kind,
            &[
                (one, "'a' (stage 0) is out of order"),
                (two, "'a' (stage 0) is there twice"),
                (three, "with and without a stage"),
                (four, "'a' (stage 1) is out of order"),
            ],
        );

        let mut sample = Sample::new(kind);
        let file = sample.entry(b"a", 0o100_644, 0);
        let mut sample = sample.files(&["a.b", "a/b/c", "a/d"]);
        let deep = sample.entry(b"e/f", 0o100_644, 2);
        let mut sample = sample.files(&["e/f/g"]);
        sample.entry(b"e/f/h", 0o100_644, 2);
        finds(&sample.finish(), kind, &[(file, "'a' is both"), (deep, "'e/f' is both")]);

        let mut sample = Sample::new(kind);
        let odd = sample.entry(b"odd", 0o100_664, 0);
        let dir = sample.entry(b"sparse/", 0o040_000, 0);
        let nameless = sample.entry(b"", 0o100_644, 0);
        finds(&sample.finish(), kind, &[(odd + 24, "mode 100664"), (dir, "not sparse"), (nameless, "without a path")]);

        let mut sample = Sample::new(kind);
        let dir = sample.entry(b"sparse/", 0o040_000, 0);
        let data = sample.extension(ext::SDIR, b"?");
        finds(&sample.finish(), kind, &[(dir, "skip-worktree"), (data, "1 bytes of data")]);

        // The flags say another length: a shorter, one that ends in the next entry's mode, and one that takes in a NUL.
        let far = ((path_at + 4 + 8) & !7) + 26 - path_at;
        let far_says = format!("has 4 bytes, the flags say {far}");
        for (stated, path, offset, want) in [
            (3, "abcd", 0, "has 4 bytes, the flags say 3"),
            (far as u8, "abcd", 0, &far_says[..]),
            (4, "a\0cd", 1, "path 'a\\x00cd': NUL"),
        ] {
            let mut sample = Sample::new(kind);
            let at = sample.entry(path.as_bytes(), 0o100_644, 0);
            sample.bytes[at + path_at - 1] = stated;
            finds(&sample.files(&["behind"]).finish(), kind, &[(at + path_at + offset, want)]);
        }

        let mut sample = Sample::new(kind);
        let at = sample.entry(b"null", 0o100_644, 0);
        sample.bytes[at + 40..at + 40 + kind.len()].fill(0);
        let last = sample.bytes.len() - 1;
        sample.bytes[last] = 7;
        let bytes = sample.finish();
        finds(&bytes, kind, &[(at + 40, "names no object"), (last, "padding")]);
        assert!(verify(&bytes, kind, None).iter().all(|finding| finding.severity == Severity::Warning));

        let mut sample = Sample::new(kind);
        let at = sample.entry(b"\x10\0ext", 0o100_644, 4); // flags: extended, and what follows as its second word
        sample.bytes[at + path_at - 1] = 3;
        finds(&sample.finish(), kind, &[(at + path_at - 2, "version 2"), (at + path_at, "0x1000")]);

        let mut sample = Sample::new(kind).files(&["a"]);
        let end = sample.bytes.len();
        sample.count = 3;
        finds(&sample.finish(), kind, &[(end, "entry 2 of 3")]);
    }
}

/// Version 4: what is removed from the path in front.
pub(crate) fn version_4(kind: HashKind, entries: &[(&[u8], &str, usize)]) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = b"DIRC\0\0\0\x04\0\0\0".to_vec();
    bytes.push(entries.len() as u8);
    let mut places = Vec::new();
    for (strip, suffix, len) in entries {
        places.push(bytes.len());
        bytes.extend([0; 24]);
        bytes.extend(0o100_644u32.to_be_bytes());
        bytes.extend([0; 12]);
        bytes.extend(kind.empty_blob().as_bytes());
        bytes.extend((*len as u16).to_be_bytes());
        bytes.extend(*strip);
        bytes.extend(suffix.as_bytes());
        bytes.push(0);
    }
    (signed(bytes, kind), places)
}

#[test]
fn i2_strip_counts() {
    for kind in HashKind::ALL {
        let path_at = 42 + kind.len();
        let (bytes, _) = version_4(kind, &[(&[1], "aaabbb", 6), (&[3], "cc", 5), (&[2], "ddd", 6)]);
        assert_eq!(verify(&bytes, kind, None), []);
        let (bytes, at) = version_4(kind, &[(&[0], "aaabbb", 6), (&[7], "b", 1)]);
        finds(&bytes, kind, &[(at[1] + path_at, "removes 7 bytes from a path of 6")]);
        let (bytes, at) = version_4(kind, &[(&[0], "aaabbb", 6), (&[0x9e, 0xfe, 0xfe, 0xfe, 0xfe, 0x00], "b", 1)]);
        finds(&bytes, kind, &[(at[1] + path_at, "bytes from a path of 6")]);
        let (bytes, at) = version_4(kind, &[(&[0], "aaabbb", 6), (&[0xff; 12], "b", 1)]);
        finds(&bytes, kind, &[(at[1] + path_at, "does not end")]);
        let (bytes, at) = version_4(kind, &[(&[0], "aaabbb", 6), (&[3], "cc", 6)]);
        finds(&bytes, kind, &[(at[1] + path_at, "has 5 bytes, the flags say 6")]);
    }
}

#[test]
fn i3_offset_tables() {
    for kind in HashKind::ALL {
        let size = (42 + kind.len() + 1 + 8) & !7;
        let places = [12, 12 + size, 12 + 2 * size, 12 + 3 * size];
        let with = |blocks: &[(usize, u32)]| {
            let mut sample = Sample::new(kind).files(&["a", "b", "c", "d"]);
            let end = sample.bytes.len();
            let mut data = 1u32.to_be_bytes().to_vec();
            for (at, count) in blocks {
                data.extend((*at as u32).to_be_bytes());
                data.extend(count.to_be_bytes());
            }
            let at = sample.extension(ext::IEOT, &data);
            sample.end_of_entries(end);
            (sample.finish(), at)
        };
        assert_eq!(verify(&with(&[(12, 2), (places[2], 2)]).0, kind, None), []);
        for (wrong, what) in
            [(places[3], "entry 3 is at"), (places[2] + 3, "entry 3 is at"), (0x7fff_ffff, "entry 3 is at")]
        {
            let (bytes, at) = with(&[(12, 2), (wrong, 2)]);
            finds(&bytes, kind, &[(at + 12, what)]);
        }
        let (bytes, at) = with(&[(12, 2), (places[2], 1)]);
        finds(&bytes, kind, &[(at + 4, "blocks have 3 entries, there are 4")]);
        let (bytes, at) = with(&[(12, 4), (places[2], 2)]);
        finds(&bytes, kind, &[(at + 12, "behind the last entry")]);
        let (bytes, at) = with(&[(12, 0), (12, 4)]);
        finds(&bytes, kind, &[(at + 8, "without entries")]);
        let (bytes, at) = with(&[]);
        finds(&bytes, kind, &[(at + 4, "blocks have 0 entries")]);

        // Both are kept while the entries change.
        let (bytes, at) = with(&[(12, 2), (places[2], 2)]);
        let tail = &bytes[at - 8..bytes.len() - kind.len()];
        let mut sample = Sample::new(kind).files(&["a", "and a longer one", "c", "d"]);
        let (table, second) = (sample.bytes.len() + 8, 12 + 2 * size + 16);
        sample.bytes.extend(tail);
        let end = table - 8 + 8 + 4 + 16 + 8;
        let text = format!("entry 3 is at {second}");
        finds(&sample.finish(), kind, &[(table + 12, &text), (end, "extension EOIE: says that the entries end at")]);

        let mut sample = Sample::new(kind).files(&["a"]);
        let end = sample.bytes.len();
        sample.end_of_entries(end);
        let hash = sample.bytes.len() - kind.len();
        sample.bytes[hash] ^= 1;
        let at = hash - 4;
        sample.extension(*b"ABCD", b"123");
        finds(&sample.finish(), kind, &[(at, "not the last"), (hash, "EOIE: hash is")]);

        // A block of version 4 has to begin with a whole path.
        let arena = Bump::new();
        let mut index = Index::new(&arena, kind);
        let new = |path| NewEntry::new(path, Mode(0o100_644), kind.empty_blob());
        index.replace_entries([b"dir/a", b"dir/b", b"dir/c"].map(|path| new(path))).unwrap();
        index.set_version(Version::V4);
        let (bytes, _) = index.write_to(Vec::new(), &WriteOptions::default()).unwrap();
        let mut sample = Sample { kind, bytes: bytes[..bytes.len() - kind.len()].to_vec(), count: 3 };
        let third = sample.bytes.len() - (42 + kind.len() + 3);
        let data = [1, 12, 2, third as u32, 1].map(u32::to_be_bytes).concat();
        let at = sample.extension(ext::IEOT, &data);
        finds(&sample.finish(), kind, &[(at + 12, "needs the one in front")]);
    }
}

#[test]
fn i6_cache_trees() {
    for kind in HashKind::ALL {
        let tree = |names: &[(&str, &str)]| {
            let mut bytes = Vec::new();
            for (mode, name) in names {
                bytes.extend(format!("{mode} {name}\0").into_bytes());
                bytes.extend(kind.empty_blob().as_bytes());
            }
            object_id(kind, ObjectKind::Tree, &bytes).unwrap()
        };
        let a = tree(&[("100644", "b")]);
        let id = |id: object::ObjectId| id.as_bytes().to_vec();
        let with = |data: &[Vec<u8>]| {
            let mut sample = Sample::new(kind).files(&["a/b", "z"]);
            let at = sample.extension(ext::TREE, &data.concat());
            (sample.finish(), at)
        };
        let text = |text: &str| text.as_bytes().to_vec();
        let len = kind.len();
        assert_eq!(verify(&with(&[text("\0-1 1\na\0-1 0\n")]).0, kind, None), []);
        assert_eq!(verify(&with(&[text("\0-1 1\na\x001 0\n"), id(a)]).0, kind, None), []);
        let cases: &[(&[Vec<u8>], usize, &str)] = &[
            (&[text("\0-1 1\na\x000 0\n"), id(a)], 8, "TREE: impossible: subtree without entries"),
            (&[text("\0-1 1\na\x00500 0\n"), id(a)], 8, "subtree of more entries than there are"),
            (&[text("\x00500 1\n"), id(a), text("a\x001 0\n"), id(a)], 1, "subtree of more entries than there are"),
            (&[text("\0-1 2\na\x004294967295 0\n"), id(a), text("b\x004294967295 0\n"), id(a)], 8, "more entries"),
            (&[text("\0-1 1000000000\n")], 15, "list of subtrees"),
            (&[text("\0-1 0")], 5, "truncated"),
            (&[text("\x002 0\n0123456789")], 15, "id of a tree"),
            (&[text("\0-1 2\na\x001 0\n"), id(a), text("a\x001 0\n"), id(a)], 12 + len, "out of order"),
            // Well formed, and a lie.
            (&[text("\0-1 1\na\x002 0\n"), id(a)], 6, "cache tree of 'a': covers 2 entries, the directory has 1"),
            (&[text("\0-1 1\nq\x001 0\n"), id(a)], 6, "cache tree of 'q': covers 1 entries, the directory has 0"),
            (&[text("\x002 1\n"), id(kind.empty_tree()), text("a\x001 0\n"), id(a)], 0, "cache tree of '': names tree"),
        ];
        for (data, offset, what) in cases {
            let (bytes, at) = with(data);
            finds(&bytes, kind, &[(at + offset, what)]);
        }
    }
}

#[test]
fn i13_other_extensions() {
    for kind in HashKind::ALL {
        let with = |signature: [u8; 4], data: &[u8]| {
            let mut sample = Sample::new(kind).files(&["a", "b", "c", "d"]);
            let at = sample.extension(signature, data);
            (sample.finish(), at)
        };
        assert_eq!(verify(&with(*b"ABCD", b"123").0, kind, None), []);
        let (bytes, at) = with(*b"abcd", b"123");
        finds(&bytes, kind, &[(at - 8, "abcd is required and not known")]);

        let mut sample = Sample::new(kind).files(&["a"]);
        let end = sample.bytes.len();
        sample.bytes.extend(ext::header(ext::TREE, 0xffff_fff0));
        finds(&sample.finish(), kind, &[(end, "runs into the trailer")]);
        let mut sample = Sample::new(kind).files(&["a"]);
        sample.bytes.extend(b"stray");
        finds(&sample.finish(), kind, &[(end, "runs into the trailer")]);

        let mut monitor = Vec::new();
        Fsmonitor::append(b"tok", [1, 3], &mut monitor);
        assert_eq!(verify(&with(ext::FSMN, &monitor).0, kind, None), []);
        monitor.clear();
        Fsmonitor::append(b"tok", 0..32, &mut monitor);
        let (bytes, at) = with(ext::FSMN, &monitor);
        finds(&bytes, kind, &[(at + 12, "FSMN: bitmap")]);

        let (bytes, at) = with(ext::UNTR, b"x");
        finds(&bytes, kind, &[(at + 1, "UNTR: environment is truncated")]);
        let (bytes, at) = with(ext::UNTR, &[0x80; 20]);
        finds(&bytes, kind, &[(at, "UNTR: length of the environment is malformed")]);

        let mut undo = b"../x\0".to_vec();
        undo.extend(b"100664\x000\x00100644\0");
        undo.extend([kind.empty_blob().as_bytes(), kind.empty_blob().as_bytes()].concat());
        let (bytes, at) = with(ext::REUC, &undo);
        finds(&bytes, kind, &[(at, "path '../x'"), (at + 5, "mode 100664")]);
        let (bytes, at) = with(ext::REUC, b"x\x009\0");
        finds(&bytes, kind, &[(at + 2, "REUC: mode is malformed")]);

        let mut sample = Sample::new(kind).files(&["a"]);
        sample.extension(ext::REUC, b"");
        let again = sample.extension(ext::REUC, b"");
        finds(&sample.finish(), kind, &[(again - 8, "REUC is there again")]);
    }
}

#[test]
fn split_indexes() {
    for kind in HashKind::ALL {
        let shared = Sample::new(kind).files(&["a", "b"]).finish();
        let base = &shared[shared.len() - kind.len()..];
        let link = |delete: &[u32], replace: &[u32]| {
            let mut data = base.to_vec();
            for bits in [delete, replace] {
                let mut bitmap = ewah::EwahBuf::builder();
                bits.iter().for_each(|&bit| bitmap.set(bit).unwrap());
                bitmap.finish().append_to(&mut data);
            }
            data
        };
        let with = |own: &[&str], data: &[u8]| {
            let mut sample = Sample::new(kind).files(own);
            let at = sample.extension(ext::LINK, data);
            (sample.finish(), at)
        };
        let look = |bytes: &[u8], shared: Option<&[u8]>| -> Vec<Finding> { verify(bytes, kind, shared) };
        let (bytes, at) = with(&["", "c"], &link(&[1], &[0]));
        assert_eq!(look(&bytes, Some(&shared)), []);
        finds(&bytes, kind, &[(at, "needs the shared index")]);
        let mut wrong = shared.clone();
        *wrong.last_mut().unwrap() ^= 1;
        assert_eq!(look(&bytes, Some(&wrong)).len(), 1);
        let mut wrong = shared.clone();
        wrong[8..12].copy_from_slice(&9u32.to_be_bytes());
        let findings = look(&bytes, Some(&wrong));
        assert_eq!((findings.len(), findings[0].at), (1, at as u64), "{findings:?}");

        for (own, data, what) in [
            (&["", "", "c"][..], link(&[], &[0]), "1 entries are replaced, by 2"),
            (&["c"], link(&[], &[0]), "1 entries are replaced, by 0"),
            (&["c"], link(&[2], &[]), "beyond the shared entries"),
            (&[""], link(&[0], &[0]), "both replaced and deleted"),
            (&["a/b"], link(&[], &[]), "'a' is both a file and a directory"),
        ] {
            let (bytes, at) = with(own, &data);
            let findings = look(&bytes, Some(&shared));
            assert!(
                findings.iter().any(|finding| finding.at == at as u64 && finding.what.contains(what)),
                "{findings:?}"
            );
        }
    }
}

/// Nothing that bytes can say makes it fail.
#[test]
fn any_damage() {
    for kind in HashKind::ALL {
        let arena = Bump::new();
        let mut index = Index::new(&arena, kind);
        let paths = ["a", "b/c", "b/d/e", "b/d/f", "g"];
        index
            .replace_entries(
                paths.iter().map(|path| NewEntry::new(path.as_bytes(), Mode(0o100_644), kind.empty_blob())),
            )
            .unwrap();
        let mut tree = CacheTreeBuilder::new(kind);
        tree.open(b"");
        tree.open(b"b");
        tree.close(Some((3, kind.empty_tree())));
        tree.close(None);
        index.set_cache_tree(Some(tree.finish()));
        index.set_fsmonitor(Some(b"token"));
        index.resolve_undo_mut().record(b"a", Stage::Base, Mode(0o100_644), kind.empty_blob());
        for version in [Version::V2, Version::V4] {
            index.set_version(version);
            let (bytes, _) = index.write_to(Vec::new(), &WriteOptions::default().offset_table(Some(2))).unwrap();
            for at in 0..bytes.len() {
                for change in [1, 0x80, 0xff] {
                    let mut bytes = bytes.clone();
                    bytes[at] ^= change;
                    assert!(!verify(&bytes, kind, None).is_empty(), "{at}");
                    verify(&bytes, kind, Some(&bytes));
                    verify(&bytes[..at], kind, None);
                }
            }
        }
    }
}
