//! Multi-pack-indexes of object directories: read, written, verified, with git beside us.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use object::{HashKind, ObjectId};
use pack_format::idx::Idx;
use pack_format::midx::Version;
use packstone_odb::ByteSource;
use packstone_odb::midx::{Base, Editor, Fault, Layers, LoadErrorKind, MidxError, Outcome, WriteOptions};
use testkit::pack::resign;
use testkit::{Hash, TestRepo};

fn kinds() -> [(Hash, HashKind); 2] {
    [(Hash::Sha1, HashKind::Sha1), (Hash::Sha256, HashKind::Sha256)]
}

/// What is there, and what was complained about.
fn load(objects: &Path, kind: HashKind) -> (Option<Layers>, Vec<String>) {
    let mut problems = Vec::new();
    let layers = Layers::load(objects, kind, ByteSource::Mmap, &mut |error| {
        let kind = match &error.kind {
            LoadErrorKind::Io(error) => error.kind().to_string(),
            LoadErrorKind::Format(error) => error.to_string(),
            other => format!("{other:?}"),
        };
        problems.push(format!("{}: {kind}", error.path.file_name().unwrap().display()));
    });
    (layers, problems)
}

/// Three packs of a commit each, and a chain of a layer for each.
fn chain_of_three(hash: Hash) -> TestRepo {
    let repo = TestRepo::init(hash);
    for round in 0..3u8 {
        repo.commit_files(&[("file", &[round; 20])], "c");
        repo.repack_loose();
        repo.git(["multi-pack-index", "write", "--incremental"]);
    }
    repo
}

#[test]
fn nothing_there_is_no_problem() {
    for (hash, kind) in kinds() {
        let repo = TestRepo::init(hash);
        let (none, problems) = load(&repo.objects_dir(), kind);
        assert!(none.is_none() && problems.is_empty());
        assert!(load(Path::new("/nowhere"), kind).0.is_none());
    }
}

#[test]
fn the_file_wins_over_the_chain() {
    for (hash, kind) in kinds() {
        let repo = chain_of_three(hash);
        let objects = repo.objects_dir();
        let (layers, problems) = load(&objects, kind);
        let layers = layers.unwrap();
        assert!(layers.is_chain() && problems.is_empty());
        assert_eq!((layers.layers().len(), layers.pack_count(), layers.count()), (3, 3, 9));
        let mut below = (0, 0);
        for layer in layers.layers() {
            assert_eq!((layer.base_packs(), layer.base_objects()), below);
            below = (below.0 + layer.midx().pack_count(), below.1 + layer.midx().count());
        }
        for id in repo.all_objects() {
            let id: ObjectId = id.parse().unwrap();
            let (layer, pos) = layers.lookup(&id).unwrap();
            assert_eq!(layer.midx().id(pos), id);
        }
        for pack in repo.packs() {
            assert!(layers.covers_pack(pack.file_name().unwrap().as_encoded_bytes()));
        }
        assert!(!layers.covers_pack(b"pack-1"));
        assert_eq!(layers.pack_names().count(), 3);

        let top = layers.layers()[2].path();
        fs::copy(top, objects.join("pack/multi-pack-index")).unwrap();
        let (layers, problems) = load(&objects, kind);
        let layers = layers.unwrap();
        assert!(!layers.is_chain() && problems.is_empty());
        assert_eq!((layers.layers().len(), layers.count()), (1, 3));

        // A file that cannot be used lets the chain have its turn.
        fs::write(objects.join("pack/multi-pack-index"), b"").unwrap();
        let (layers, problems) = load(&objects, kind);
        assert_eq!(layers.unwrap().count(), 9);
        let least = 12 + kind.len();
        assert_eq!(
            problems,
            [format!("multi-pack-index: truncated multi-pack-index: {least} bytes needed, 0 there at byte 0")]
        );
    }
}

#[test]
fn a_chain_is_used_as_far_as_it_is_sound() {
    for (hash, kind) in kinds() {
        let repo = chain_of_three(hash);
        let dir = repo.objects_dir().join("pack/multi-pack-index.d");
        let chain = dir.join("multi-pack-index-chain");
        let text = fs::read_to_string(&chain).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let found = |content: &str| {
            fs::write(&chain, content).unwrap();
            let (layers, problems) = load(&repo.objects_dir(), kind);
            (layers.map_or(0, |layers| layers.layers().len()), problems)
        };
        assert_eq!(found(&text), (3, vec![]));
        assert_eq!(found(""), (0, vec![]));
        let (layers, problems) = found("ab\n");
        assert_eq!(layers, 0);
        assert!(problems[0].starts_with("multi-pack-index-chain: truncated line"), "{problems:?}");
        let (layers, problems) = found(&format!("{}\n{}\n{}\n", lines[0], "x".repeat(kind.hex_len()), lines[2]));
        assert_eq!(layers, 1);
        assert!(problems[0].contains("is no id"), "{problems:?}");
        let (layers, problems) = found(&format!("{}\n{}\n{}\n", lines[0], kind.null(), lines[2]));
        assert_eq!(layers, 1);
        assert!(problems[0].ends_with("entity not found"), "{problems:?}");
        let other = if kind == HashKind::Sha1 { HashKind::Sha256 } else { HashKind::Sha1 };
        assert_eq!(found(&format!("{}\n", other.null())).0, 0);
        fs::remove_file(dir.join(format!("multi-pack-index-{}.midx", lines[1]))).unwrap();
        let (layers, problems) = found(&text);
        assert_eq!((layers, problems.len()), (1, 1));
    }
}

/// Six packs that share objects: `pack-T0-<checksum>` and so on. Nothing else.
fn overlapping(hash: Hash) -> TestRepo {
    let repo = TestRepo::linear(hash, 30);
    let ranges = ["main~20", "main\n^main~12", "main~3\n^main~15", "main~9", "main~5", "main\n^main~21"];
    for (nr, range) in ranges.iter().enumerate() {
        pack(&repo, &format!("T{nr}"), range);
    }
    for path in repo.packs().into_iter().filter(|path| !name(path).starts_with("pack-T")) {
        for end in ["pack", "idx", "rev"] {
            // Not each has a reverse index.
            let _ = fs::remove_file(path.with_extension(end));
        }
    }
    repo.git(["prune-packed"]);
    repo
}

/// Packs what a revision range reaches as `pack-<tag>-<checksum>`; returns the path of the `.pack`.
fn pack(repo: &TestRepo, tag: &str, range: &str) -> PathBuf {
    let base = repo.objects_dir().join(format!("pack/pack-{tag}"));
    let made = repo.git_with(["pack-objects", "-q", "--revs", base.to_str().unwrap()], range.as_bytes());
    let checksum = String::from_utf8(made).unwrap();
    base.with_file_name(format!("pack-{tag}-{}.pack", checksum.trim()))
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn set_age(pack: &Path, seconds: u64) {
    let time = UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::open(pack).unwrap().set_times(fs::FileTimes::new().set_modified(time)).unwrap();
}

fn root(repo: &TestRepo) -> PathBuf {
    repo.objects_dir().join("pack/multi-pack-index")
}

fn chain_file(repo: &TestRepo) -> PathBuf {
    repo.objects_dir().join("pack/multi-pack-index.d/multi-pack-index-chain")
}

/// Everything in the folder of packs, by path, with its content.
fn snapshot(repo: &TestRepo) -> BTreeMap<String, Vec<u8>> {
    let dir = repo.objects_dir().join("pack");
    let mut files = BTreeMap::new();
    for dir in [dir.clone(), dir.join("multi-pack-index.d")] {
        for entry in fs::read_dir(dir).into_iter().flatten().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                let path = entry.path();
                files.insert(path.display().to_string(), fs::read(path).unwrap());
            }
        }
    }
    files
}

/// Writes with us; returns what came of it and what was noted.
fn write(repo: &TestRepo, kind: HashKind, options: &WriteOptions) -> (Result<Outcome, MidxError>, Vec<String>) {
    let mut notes = Vec::new();
    let result = Editor::new(&repo.objects_dir(), kind).on_note(|note| notes.push(note.to_string())).write(options);
    (result, notes)
}

/// Our file and git's in the same place, made from the same packs and the same former file.
fn same_as_git(repo: &TestRepo, kind: HashKind, args: &[&str], input: &str, options: &WriteOptions) -> Vec<u8> {
    let former = fs::read(root(repo)).ok();
    let (result, notes) = write(repo, kind, options);
    let Outcome::Written { checksum, path, packs, objects } = result.unwrap() else { panic!("nothing was written") };
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!(path, root(repo));
    let ours = fs::read(&path).unwrap();
    assert!(ours.ends_with(checksum.as_bytes()));
    fs::remove_file(&path).unwrap();
    if let Some(former) = former {
        fs::write(&path, former).unwrap();
    }
    repo.git_with(["multi-pack-index", "write"].iter().chain(args), input.as_bytes());
    let theirs = fs::read(&path).unwrap();
    assert!(ours == theirs, "{args:?}: not git's file");
    let layers = load(&repo.objects_dir(), kind).0.unwrap();
    assert_eq!((layers.pack_count(), layers.count()), (packs, objects));
    ours
}

/// Holds what is listed against the packs' own indexes: each object of the covered packs once, where its pack has it.
fn check_listed(repo: &TestRepo, kind: HashKind) -> usize {
    let layers = load(&repo.objects_dir(), kind).0.unwrap();
    let mut wanted = BTreeSet::new();
    let mut found = BTreeSet::new();
    for layer in layers.layers() {
        let midx = layer.midx();
        midx.verify_all().unwrap();
        let open = |name: &[u8]| {
            let path = repo.objects_dir().join("pack").join(str::from_utf8(name).unwrap());
            Idx::parse(fs::read(path).unwrap(), kind).unwrap()
        };
        let packs: Vec<_> = midx.pack_names().map(open).collect();
        wanted.extend(packs.iter().flat_map(|idx| idx.ids().collect::<Vec<_>>()));
        for pos in (0..midx.count()).map(pack_format::MidxPos::new) {
            let (pack, offset) = midx.location(pos).unwrap();
            let idx = &packs[pack.index()];
            assert_eq!(idx.offset(idx.lookup(&midx.id(pos)).unwrap()), Ok(offset));
            assert!(found.insert(midx.id(pos)), "in two layers");
        }
    }
    assert_eq!(wanted, found);
    found.len()
}

#[test]
fn written_as_git_writes_it() {
    for (hash, kind) in kinds() {
        let repo = overlapping(hash);
        let packs = repo.packs();
        assert_eq!(packs.len(), 6);
        let plain = WriteOptions::default();
        // Each order of ages makes other copies win; with the same age it is the directory's order.
        let mut variants = BTreeSet::new();
        for ages in [[5, 4, 3, 2, 1, 0], [0, 1, 2, 3, 4, 5], [3, 9, 1, 9, 9, 2], [7; 6]] {
            packs.iter().zip(ages).for_each(|(path, age)| set_age(path, 1_600_000_000 + age));
            let _ = fs::remove_file(root(&repo));
            variants.insert(same_as_git(&repo, kind, &[], "", &plain));
        }
        assert!(variants.len() >= 3);
        check_listed(&repo, kind);
        for preferred in &packs {
            fs::remove_file(root(&repo)).unwrap();
            let idx = name(&preferred.with_extension("idx")).to_owned();
            for name in [&idx, name(preferred)] {
                let options = plain.clone().preferred(Some(name.as_bytes().to_vec()));
                let _ = fs::remove_file(root(&repo));
                same_as_git(&repo, kind, &[&format!("--preferred-pack={name}")], "", &options);
            }
        }
        // Half a second is no difference.
        set_age(&packs[0], 1_600_000_000);
        let time = UNIX_EPOCH + Duration::from_millis(1_600_000_000_500);
        fs::File::open(&packs[1]).unwrap().set_times(fs::FileTimes::new().set_modified(time)).unwrap();
        fs::remove_file(root(&repo)).unwrap();
        same_as_git(&repo, kind, &[], "", &plain);
    }
}

#[test]
fn a_choice_of_packs_as_git_takes_it() {
    for (hash, kind) in kinds() {
        let repo = overlapping(hash);
        let names: Vec<String> = repo.packs().iter().map(|path| name(&path.with_extension("idx")).to_owned()).collect();
        for chosen in [&names[..1], &names[1..4], &names[3..]] {
            let mut list: Vec<Vec<u8>> = chosen.iter().map(|name| name.as_bytes().to_vec()).collect();
            // No name of an index, and none that is there.
            list.extend([names[0].replace(".idx", ".pack").into_bytes(), b"pack-none.idx".to_vec()]);
            let input: String = list.iter().map(|name| format!("{}\n", str::from_utf8(name).unwrap())).collect();
            let options = WriteOptions::default().packs(Some(list));
            same_as_git(&repo, kind, &["--stdin-packs"], &input, &options);
            assert_eq!(write(&repo, kind, &options).0.unwrap(), Outcome::UpToDate);
        }
        let (result, notes) = write(
            &repo,
            kind,
            &WriteOptions::default().packs(Some(vec![])).preferred(Some(b"pack-none.pack".to_vec())),
        );
        assert!(matches!(result, Err(MidxError::NoPacks)));
        assert_eq!(notes, ["unknown preferred pack: 'pack-none.pack'"]);
    }
}

/// What is covered stays covered, and its copies lose against those of any pack that comes anew, as with git.
#[test]
fn built_upon_as_git_does() {
    for (hash, kind) in kinds() {
        let repo = overlapping(hash);
        let packs = repo.packs();
        let hidden = repo.scratch();
        let hide = |path: &Path, away: bool| {
            for end in ["pack", "idx"] {
                let (here, there) = (path.with_extension(end), hidden.join(name(&path.with_extension(end))));
                if away { fs::rename(here, there).unwrap() } else { fs::rename(there, here).unwrap() }
            }
        };
        packs.iter().enumerate().for_each(|(age, path)| set_age(path, 1_600_000_000 - age as u64));
        packs[2..].iter().for_each(|path| hide(path, true));
        let plain = WriteOptions::default();
        same_as_git(&repo, kind, &[], "", &plain);
        for (nr, path) in packs.iter().enumerate().skip(2) {
            hide(path, false);
            let options = match nr {
                3 => plain.clone().preferred(Some(name(path).as_bytes().to_vec())),
                // One that was covered before.
                4 => plain.clone().preferred(Some(name(&packs[0]).as_bytes().to_vec())),
                _ => plain.clone(),
            };
            let args: Vec<String> =
                options.preferred.iter().map(|p| format!("--preferred-pack={}", str::from_utf8(p).unwrap())).collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            same_as_git(&repo, kind, &args, "", &options);
        }
        // Nothing new: kept, also when another pack is preferred or it cannot be written.
        let before = snapshot(&repo);
        fs::write(repo.objects_dir().join("pack/multi-pack-index-12.bitmap"), b"").unwrap();
        let options = plain.clone().preferred(Some(name(&packs[3]).as_bytes().to_vec()));
        assert_eq!(write(&repo, kind, &options).0.unwrap(), Outcome::UpToDate);
        assert_eq!(snapshot(&repo), before, "the bitmap is gone, the rest as it was");
        // Another version is something new.
        let written = write(&repo, kind, &plain.clone().version(Some(Version::V2))).0.unwrap();
        assert!(matches!(written, Outcome::Written { packs: 6, .. }));
        assert_eq!(load(&repo.objects_dir(), kind).0.unwrap().layers()[0].midx().version(), Version::V2);
        check_listed(&repo, kind);
        // A covered pack that is gone stops it.
        hide(&packs[1], true);
        let before = snapshot(&repo);
        let error = write(&repo, kind, &plain).0.unwrap_err();
        assert!(error.to_string().starts_with("could not load pack 1"), "{error}");
        assert_eq!(snapshot(&repo), before);
    }
}

#[test]
fn a_damaged_former_file_is_not_built_upon() {
    for (hash, kind) in kinds() {
        let repo = overlapping(hash);
        let good = same_as_git(&repo, kind, &[], "", &WriteOptions::default());
        for at in [good.len() / 2, good.len() - 3] {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            fs::write(root(&repo), &bad).unwrap();
            let (result, notes) = write(&repo, kind, &WriteOptions::default());
            assert!(matches!(result, Ok(Outcome::Written { .. })));
            assert_eq!(notes, ["ignoring existing multi-pack-index; checksum mismatch"]);
            assert!(fs::read(root(&repo)).unwrap() == good);
        }
        fs::write(root(&repo), b"MIDY").unwrap();
        let (result, notes) = write(&repo, kind, &WriteOptions::default());
        assert!(result.is_ok() && notes[0].contains("is not used"), "{notes:?}");
        assert!(fs::read(root(&repo)).unwrap() == good);
    }
}

#[test]
fn packs_without_index_or_pack_are_left_out() {
    for (hash, kind) in kinds() {
        let repo = overlapping(hash);
        let packs = repo.packs();
        fs::remove_file(packs[0].with_extension("idx")).unwrap();
        fs::remove_file(&packs[1]).unwrap();
        let idx = packs[2].with_extension("idx");
        let whole = fs::read(&idx).unwrap();
        fs::remove_file(&idx).unwrap();
        fs::write(&idx, &whole[..whole.len() - 1]).unwrap();
        let (result, mut notes) = write(&repo, kind, &WriteOptions::default());
        assert!(matches!(result, Ok(Outcome::Written { packs: 3, .. })));
        notes.sort();
        let expected = [
            format!("failed to add packfile '{}'", packs[1].with_extension("idx").display()),
            format!("failed to open pack-index '{}'", idx.display()),
        ];
        assert_eq!(notes, expected);
        check_listed(&repo, kind);
    }
}

#[test]
fn nothing_to_cover() {
    for (hash, kind) in kinds() {
        let repo = TestRepo::init(hash);
        assert!(matches!(write(&repo, kind, &WriteOptions::default()).0, Err(MidxError::NoPacks)));
        assert!(snapshot(&repo).is_empty());
        let missing = repo.scratch();
        let result = Editor::new(&missing, kind).write(&WriteOptions::default());
        assert!(matches!(result, Err(MidxError::NoPacks)));
        assert!(!missing.join("pack").exists());
        let empty = pack(&repo, "E", "");
        let options = WriteOptions::default().preferred(Some(name(&empty).as_bytes().to_vec()));
        assert!(matches!(write(&repo, kind, &options).0, Err(MidxError::EmptyPreferred { path }) if path == empty));
        same_as_git(&repo, kind, &[], "", &WriteOptions::default());
    }
}

#[test]
fn the_lock_is_respected() {
    for (hash, kind) in kinds() {
        let repo = overlapping(hash);
        let lock = repo.objects_dir().join("pack/multi-pack-index.lock");
        fs::write(&lock, b"").unwrap();
        let before = snapshot(&repo);
        assert!(matches!(write(&repo, kind, &WriteOptions::default()).0, Err(MidxError::Lock(_))));
        assert_eq!(snapshot(&repo), before);
        fs::remove_file(&lock).unwrap();
        write(&repo, kind, &WriteOptions::default()).0.unwrap();
        assert!(!lock.exists());
    }
}

#[test]
fn layers_as_git_writes_them() {
    for (hash, kind) in kinds() {
        let layer = WriteOptions::default().incremental(true);
        let make = |by_git: bool, from_file: bool| {
            let repo = TestRepo::init(hash);
            for round in 0..4u8 {
                repo.commit_files(&[("file", &[round; 20]), ("same", b"same")], "c");
                repo.tick_to(u64::from(round) * 7 + 1);
                repo.repack_loose();
                // A second pack with everything: only what is new counts.
                pack(&repo, &format!("T{round}"), "main");
                repo.packs().iter().for_each(|path| set_age(path, 1_600_000_000));
                let single = from_file && round == 0;
                match (by_git, single) {
                    (true, true) => drop(repo.git(["multi-pack-index", "write"])),
                    (true, false) => drop(repo.git(["multi-pack-index", "write", "--incremental"])),
                    (false, true) => drop(write(&repo, kind, &WriteOptions::default()).0.unwrap()),
                    (false, false) => drop(write(&repo, kind, &layer).0.unwrap()),
                }
            }
            repo
        };
        for from_file in [false, true] {
            let (ours, theirs) = (make(false, from_file), make(true, from_file));
            let files = |repo: &TestRepo| -> BTreeMap<String, Vec<u8>> {
                let dir = repo.objects_dir().display().to_string();
                let midx = snapshot(repo).into_iter().filter(|(path, _)| path.contains("multi-pack-index"));
                midx.map(|(path, bytes)| (path.replace(&dir, ""), bytes)).collect()
            };
            let (ours_files, theirs_files) = (files(&ours), files(&theirs));
            assert_eq!(ours_files.keys().collect::<Vec<_>>(), theirs_files.keys().collect::<Vec<_>>());
            assert!(ours_files == theirs_files);
            assert_eq!(ours_files.len(), 5);
            assert_eq!(check_listed(&ours, kind), ours.all_objects().len());
            ours.git(["multi-pack-index", "verify"]);
            ours.fsck();
            // No packs, no layer.
            assert_eq!(write(&ours, kind, &layer).0.unwrap(), Outcome::UpToDate);
        }
    }
}

#[test]
fn one_file_in_place_of_a_chain() {
    for (hash, kind) in kinds() {
        let repo = chain_of_three(hash);
        // As with git, nothing new means nothing to do.
        assert_eq!(write(&repo, kind, &WriteOptions::default()).0.unwrap(), Outcome::UpToDate);
        assert!(chain_file(&repo).exists());
        repo.commit_files(&[("more", b"more")], "c");
        repo.repack_loose();
        let written = write(&repo, kind, &WriteOptions::default()).0.unwrap();
        assert!(matches!(written, Outcome::Written { packs: 4, .. }));
        assert!(root(&repo).exists());
        assert_eq!(fs::read_dir(chain_file(&repo).parent().unwrap()).unwrap().count(), 0);
        assert_eq!(check_listed(&repo, kind), repo.all_objects().len());
        // The same from scratch.
        let built = fs::read(root(&repo)).unwrap();
        fs::remove_file(root(&repo)).unwrap();
        write(&repo, kind, &WriteOptions::default()).0.unwrap();
        assert!(fs::read(root(&repo)).unwrap() == built);
    }
}

#[test]
fn layers_on_a_chosen_base() {
    for (hash, kind) in kinds() {
        let repo = chain_of_three(hash);
        repo.commit_files(&[("more", b"more")], "c");
        pack(&repo, "all", "main");
        let chain = fs::read(chain_file(&repo)).unwrap();
        let checksums: Vec<ObjectId> =
            str::from_utf8(&chain).unwrap().lines().map(|line| line.parse().unwrap()).collect();
        let loose = WriteOptions::default().incremental(true).write_chain(false);
        let all = repo.all_objects().len() as u32;
        for (base, objects) in [
            (None, all - 9),
            (Some(Base::Layer(checksums[2])), all - 9),
            (Some(Base::Layer(checksums[0])), all - 3),
            (Some(Base::Nothing), all),
        ] {
            let written = write(&repo, kind, &loose.clone().base(base)).0.unwrap();
            let Outcome::Written { checksum, path, packs: 1, objects: found } = written else { panic!() };
            assert_eq!(found, objects, "{base:?}");
            assert!(path.ends_with(format!("multi-pack-index.d/multi-pack-index-{checksum}.midx")));
            assert!(fs::metadata(&path).unwrap().permissions().readonly());
            assert!(fs::read(chain_file(&repo)).unwrap() == chain, "the chain is as it was");
        }
        let unknown = loose.base(Some(Base::Layer(kind.null())));
        let error = write(&repo, kind, &unknown).0.unwrap_err();
        assert_eq!(error.to_string(), format!("could not find base MIDX '{}'", kind.null()));
    }
}

#[test]
fn compacted_layers() {
    for (hash, kind) in kinds() {
        let make = || {
            let repo = TestRepo::init(hash);
            // Names against the order of time.
            for tag in ["D", "C", "A", "B", "E"] {
                repo.commit_files(&[(tag, tag.as_bytes())], "c");
                let except = if tag == "D" { "" } else { "\n^main~1" };
                pack(&repo, tag, &format!("main{except}"));
                repo.git(["prune-packed"]);
                repo.git(["multi-pack-index", "write", "--incremental"]);
            }
            repo
        };
        let repo = make();
        let all = repo.all_objects();
        let before = load(&repo.objects_dir(), kind).0.unwrap();
        let checksums: Vec<ObjectId> = before.layers().iter().map(|layer| layer.midx().checksum()).collect();
        let compact = |repo: &TestRepo, from: usize, to: usize, options: &WriteOptions| {
            Editor::new(&repo.objects_dir(), kind).compact(&checksums[from], &checksums[to], options)
        };
        let layer = WriteOptions::default().incremental(true);
        for (from, to, message) in [
            (2, 2, "MIDX compaction endpoints must be unique".to_owned()),
            (3, 1, format!("MIDX {} must be an ancestor of {}", checksums[3], checksums[1])),
        ] {
            assert_eq!(compact(&repo, from, to, &layer).unwrap_err().to_string(), message);
        }
        let version_1 = layer.clone().version(Some(Version::V1));
        assert!(matches!(compact(&repo, 0, 1, &version_1), Err(MidxError::CompactVersion1)));
        let none = Editor::new(&repo.objects_dir(), kind).compact(&checksums[0], &kind.null(), &layer);
        assert_eq!(none.unwrap_err().to_string(), format!("could not find MIDX: {}", kind.null()));

        // The middle three.
        let Outcome::Written { checksum, packs: 3, .. } = compact(&repo, 1, 3, &layer).unwrap() else { panic!() };
        let after = load(&repo.objects_dir(), kind).0.unwrap();
        let chain: Vec<ObjectId> = after.layers().iter().map(|layer| layer.midx().checksum()).collect();
        assert_eq!(chain, [checksums[0], checksum, checksums[4]]);
        assert_eq!(after.layers()[1].midx().version(), Version::V2);
        // Packs keep their order, objects their copies.
        assert!(after.pack_names().eq(before.pack_names()));
        for id in &all {
            let id: ObjectId = id.parse().unwrap();
            let found = |layers: &Layers| {
                let (layer, pos) = layers.lookup(&id).unwrap();
                let (pack, offset) = layer.midx().location(pos).unwrap();
                (layer.midx().pack_name(pack).to_vec(), offset)
            };
            assert_eq!(found(&before), found(&after));
        }
        assert_eq!(check_listed(&repo, kind), all.len());
        let files = fs::read_dir(chain_file(&repo).parent().unwrap()).unwrap().count();
        assert_eq!(files, 4, "three layers and the chain");
        assert!(!Editor::new(&repo.objects_dir(), kind).verify(&mut |fault| panic!("{fault}")).unwrap());

        // Without the chain.
        let repo = make();
        let chain = fs::read(chain_file(&repo)).unwrap();
        let Outcome::Written { path, .. } = compact(&repo, 0, 4, &layer.clone().write_chain(false)).unwrap() else {
            panic!()
        };
        assert!(path.exists() && fs::read(chain_file(&repo)).unwrap() == chain);
        // On another base: what was between is gone.
        let options = layer.clone().base(Some(Base::Layer(checksums[0])));
        compact(&repo, 2, 3, &options).unwrap();
        assert_eq!(load(&repo.objects_dir(), kind).0.unwrap().layers().len(), 3);
        // As the single file.
        let repo = make();
        compact(&repo, 0, 3, &WriteOptions::default()).unwrap();
        assert!(root(&repo).exists() && !chain_file(&repo).exists());
        assert_eq!(load(&repo.objects_dir(), kind).0.unwrap().pack_count(), 4);
        // A layer that is not what was written is not copied.
        let repo = make();
        let path = before.layers()[1].path();
        let path = repo.objects_dir().join("pack/multi-pack-index.d").join(path.file_name().unwrap());
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.len() - 1;
        bytes[at] ^= 1;
        fs::remove_file(&path).unwrap();
        fs::write(&path, &bytes).unwrap();
        let last = bytes.len() - kind.len();
        let found = ObjectId::from_bytes(&bytes[last..]).unwrap();
        let error = Editor::new(&repo.objects_dir(), kind).compact(&found, &checksums[3], &layer).unwrap_err();
        assert!(matches!(error, MidxError::Corrupt { .. }), "{error}");
    }
}

#[test]
fn superfluous_packs_are_expired() {
    for (hash, kind) in kinds() {
        let expire = |repo: &TestRepo| {
            Editor::new(&repo.objects_dir(), kind)
                .expire(&WriteOptions::default())
                .map(|gone| gone.into_iter().map(|name| String::from_utf8(name).unwrap()).collect::<Vec<_>>())
        };
        let repo = overlapping(hash);
        let all = repo.all_objects();
        assert!(expire(&repo).unwrap().is_empty(), "without a multi-pack-index there is nothing to do");
        let packs = repo.packs();
        let whole = pack(&repo, "whole", "main");
        packs.iter().for_each(|path| set_age(path, 1_600_000_000));
        fs::write(packs[1].with_extension("keep"), b"").unwrap();
        fs::write(packs[2].with_extension("mtimes"), b"").unwrap();
        write(&repo, kind, &WriteOptions::default()).0.unwrap();
        let late = pack(&repo, "zlate", "main~7");
        let git = snapshot(&repo);
        let mut gone: Vec<String> =
            [0, 3, 4, 5].map(|nr: usize| name(&packs[nr].with_extension("idx")).to_owned()).to_vec();
        gone.sort();
        assert_eq!(expire(&repo).unwrap(), gone);
        assert_eq!(repo.all_objects(), all);
        let left: BTreeSet<PathBuf> = [&packs[1], &packs[2], &whole, &late].map(Clone::clone).into();
        assert_eq!(repo.packs().into_iter().collect::<BTreeSet<_>>(), left);
        assert_eq!(load(&repo.objects_dir(), kind).0.unwrap().pack_count(), 4);
        assert!(!packs[0].with_extension("rev").exists());
        check_listed(&repo, kind);
        assert!(expire(&repo).unwrap().is_empty());
        // Git from the same start: the same files with the same bytes.
        let ours = snapshot(&repo);
        for path in ours.keys() {
            fs::remove_file(path).unwrap();
        }
        for (path, bytes) in &git {
            fs::write(path, bytes).unwrap();
        }
        for path in repo.packs() {
            set_age(&path, if path == whole { 1_700_000_000 } else { 1_600_000_000 });
        }
        fs::write(packs[1].with_extension("keep"), b"").unwrap();
        repo.git(["multi-pack-index", "expire"]);
        let theirs: BTreeSet<_> = snapshot(&repo).into_keys().collect();
        assert_eq!(ours.into_keys().collect::<BTreeSet<_>>(), theirs);

        // A file that claims nothing of a pack, without listing its objects elsewhere, does no harm.
        let repo = overlapping(hash);
        let packs = repo.packs();
        let list = vec![name(&packs[5].with_extension("idx")).as_bytes().to_vec()];
        write(&repo, kind, &WriteOptions::default().packs(Some(list))).0.unwrap();
        let layers = load(&repo.objects_dir(), kind).0.unwrap();
        let mut names: Vec<Vec<u8>> = layers.pack_names().map(<[u8]>::to_vec).collect();
        names.push(b"pack-T9.idx".to_vec());
        for end in ["pack", "idx"] {
            fs::copy(packs[0].with_extension(end), repo.objects_dir().join(format!("pack/pack-T9.{end}"))).unwrap();
        }
        let midx = layers.layers()[0].midx();
        let rows = (0..midx.count()).map(pack_format::MidxPos::new).map(|pos| {
            let (pack, offset) = midx.location(pos).unwrap();
            (midx.id(pos), pack, offset)
        });
        let options = pack_format::midx::Options::default();
        let (lying, _) = pack_format::midx::write(Vec::new(), kind, &names, rows, &options).unwrap();
        fs::write(root(&repo), lying).unwrap();
        assert!(expire(&repo).unwrap().is_empty());
        // Nor does one with a wrong checksum.
        let mut bytes = fs::read(root(&repo)).unwrap();
        let at = bytes.len() - 1;
        bytes[at] ^= 1;
        fs::write(root(&repo), &bytes).unwrap();
        let before = snapshot(&repo);
        assert!(matches!(expire(&repo), Err(MidxError::Corrupt { .. })));
        assert_eq!(snapshot(&repo), before);
        // Chains are refused.
        let repo = chain_of_three(hash);
        assert_eq!(expire(&repo).unwrap_err().to_string(), "cannot expire packs from an incremental multi-pack-index");
        let error = Editor::new(&repo.objects_dir(), kind).repack_plan(0, false).unwrap_err();
        assert_eq!(error.to_string(), "cannot repack an incremental multi-pack-index");
    }
}

/// The packs that git puts together for a batch size are those of the plan.
#[test]
fn repack_plans_are_gits() {
    for (hash, kind) in kinds() {
        let repo = overlapping(hash);
        let packs = repo.packs();
        packs.iter().enumerate().for_each(|(nr, path)| set_age(path, 1_600_000_000 + (nr as u64 * 5) % 7));
        fs::write(packs[3].with_extension("keep"), b"").unwrap();
        write(&repo, kind, &WriteOptions::default()).0.unwrap();
        let start = snapshot(&repo);
        let sizes: Vec<u64> = packs.iter().map(|path| fs::metadata(path).unwrap().len()).collect();
        let mut batches: Vec<u64> = sizes.iter().flat_map(|&size| [size / 3, size, size + 1, size * 2]).collect();
        batches.extend([0, 1, 1 << 40]);
        let mut plans = BTreeSet::new();
        for batch in batches {
            for kept in [false, true] {
                let plan = Editor::new(&repo.objects_dir(), kind).repack_plan(batch, kept).unwrap();
                assert_eq!(snapshot(&repo), start, "a plan changes nothing");
                let kept = format!("repack.packKeptObjects={kept}");
                let batch = format!("--batch-size={batch}");
                repo.git(["-c", &kept, "multi-pack-index", "repack", &batch]);
                let new: Vec<PathBuf> = repo.packs().into_iter().filter(|path| !packs.contains(path)).collect();
                match plan {
                    None => assert!(new.is_empty(), "{batch} {kept}"),
                    Some(plan) => {
                        assert_eq!(new.len(), 1, "{batch} {kept}");
                        let ids: BTreeSet<String> = plan.objects.iter().map(|id| id.to_string()).collect();
                        assert_eq!(ids, repo.ids_of_pack(&new[0]), "{batch} {kept}");
                        assert!(plan.packs.len() >= 2 && plan.objects.is_sorted());
                        plans.insert(plan.packs);
                    }
                }
                for path in snapshot(&repo).into_keys().filter(|path| !start.contains_key(path)) {
                    fs::remove_file(path).unwrap();
                }
                fs::write(root(&repo), &start[&root(&repo).display().to_string()]).unwrap();
            }
        }
        assert!(plans.len() >= 3, "{plans:?}");
    }
}

#[test]
fn faults_are_found_where_git_finds_them() {
    for (hash, kind) in kinds() {
        let repo = overlapping(hash);
        repo.packs().iter().enumerate().for_each(|(nr, path)| set_age(path, 1_600_000_000 + u64::from(nr == 1)));
        write(&repo, kind, &WriteOptions::default()).0.unwrap();
        let good = fs::read(root(&repo)).unwrap();
        let verify = |repo: &TestRepo| {
            let mut faults = Vec::new();
            let found = Editor::new(&repo.objects_dir(), kind).verify(&mut |fault| faults.push(fault));
            found.map(|found| {
                assert_eq!(found, !faults.is_empty());
                faults
            })
        };
        assert_eq!(verify(&repo).unwrap(), []);
        let text = |faults: &[Fault]| faults.iter().map(|fault| format!("{fault}\n")).collect::<String>();
        // Ours and git's findings on the same bytes; git finds more than one line in some cases.
        let both = |bytes: &[u8]| {
            fs::write(root(&repo), bytes).unwrap();
            let ours = text(&verify(&repo).unwrap());
            let theirs = repo.try_git(["multi-pack-index", "verify"], b"");
            assert!(!theirs.status.success());
            let theirs = String::from_utf8(theirs.stderr).unwrap();
            (ours, theirs)
        };
        let toc = pack_format::chunk::Toc::parse(&good, 12, good[6], kind.len(), 4).unwrap();
        let (ids, offsets) =
            (toc.range(pack_format::midx::IDS).unwrap(), toc.range(pack_format::midx::OFFSETS).unwrap());
        let spoil = |at: usize, byte: u8, sign: bool| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            if sign {
                resign(hash, &mut bytes);
            }
            bytes
        };
        let (ours, theirs) = both(&spoil(good.len() - 1, !good[good.len() - 1], false));
        assert_eq!((ours.as_str(), theirs.as_str()), ("incorrect checksum\n", "incorrect checksum\n"));
        let (ours, theirs) = both(&spoil(offsets.start + 16 * 8 + 6, 0xff, true));
        assert_eq!(ours, theirs);
        assert!(ours.starts_with("incorrect object offset for oid[16] = "), "{ours}");
        let (ours, theirs) = both(&spoil(ids.start + 16 * kind.len(), 0, true));
        assert!(ours.starts_with("oid lookup out of order: oid[15] = "), "{ours}");
        assert_eq!(ours.lines().next(), theirs.lines().next());
        let (ours, theirs) = both(&spoil(offsets.start + 16 * 8 + 2, 7, true));
        assert!(ours.starts_with("bad pack-int-id: ") && ours.ends_with(" for oid[16]\n"), "{ours}");
        assert!(theirs.contains("bad pack-int-id"));

        // Packs gone; indexes gone.
        fs::write(root(&repo), &good).unwrap();
        let packs = repo.packs();
        let (pack, saved) = (&packs[1], fs::read(&packs[1]).unwrap());
        fs::remove_file(pack).unwrap();
        let (ours, theirs) = both(&good);
        assert!(ours.starts_with("failed to load pack in position 1\nfailed to load pack entry for oid["), "{ours}");
        let sorted = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(sorted(&ours), sorted(&theirs));
        // Another pack under that name.
        fs::copy(&packs[2], pack).unwrap();
        assert!(matches!(verify(&repo).unwrap()[0], Fault::Pack { number: 1, .. }));
        fs::remove_file(pack).unwrap();
        fs::write(pack, saved).unwrap();
        assert_eq!(verify(&repo).unwrap(), []);
        fs::remove_file(pack.with_extension("idx")).unwrap();
        let (ours, theirs) = both(&good);
        assert!(ours.contains("failed to load pack-index for packfile "), "{ours}");
        assert!(!theirs.is_empty());

        // Not to be read at all.
        fs::write(root(&repo), &good[..40]).unwrap();
        assert!(matches!(verify(&repo), Err(MidxError::Load(_))));
        fs::remove_file(root(&repo)).unwrap();
        assert_eq!(verify(&repo).unwrap(), []);
        let repo = chain_of_three(hash);
        assert_eq!(verify(&repo).unwrap(), []);
        let text = fs::read_to_string(chain_file(&repo)).unwrap();
        fs::write(chain_file(&repo), format!("{text}{}\n", kind.null())).unwrap();
        assert!(matches!(&verify(&repo).unwrap()[..], [Fault::Unusable { .. }]));
    }
}

/// Whatever is asked of it, a cancelled operation changes nothing.
#[test]
fn cancelled() {
    struct Stop;
    impl packstone_odb::Observer for Stop {
        fn cancelled(&self) -> bool {
            true
        }
    }
    for (hash, kind) in kinds() {
        let repo = overlapping(hash);
        let before = snapshot(&repo);
        let dir = repo.objects_dir();
        let editor = || Editor::new(&dir, kind).observer(&Stop);
        assert!(matches!(editor().write(&WriteOptions::default()), Err(MidxError::Cancelled)));
        assert_eq!(snapshot(&repo), before);
        write(&repo, kind, &WriteOptions::default()).0.unwrap();
        assert!(matches!(editor().verify(&mut |_| ()), Err(MidxError::Cancelled)));
    }
}
