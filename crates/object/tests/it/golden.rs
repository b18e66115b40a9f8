//! Git's answers are the truth. Made by the git on the path, at test time.

use packstone_object::{
    Checksum, HashKind, NameHasher, ObjectId, ObjectKind, commit, object_id, object_ids,
    tag::Tag,
    tree::{Entries, Mode},
};
use testkit::TestRepo;

use crate::kinds;

fn kind_of(repo: &TestRepo, id: &str) -> ObjectKind {
    ObjectKind::from_name(repo.kind(id).as_bytes()).unwrap()
}

#[test]
fn names_of_all_objects() {
    for (hash, kind) in kinds() {
        let repo = TestRepo::rich(hash);
        let (mut contents, mut ids) = (Vec::new(), Vec::new());
        for id in repo.all_objects().iter().take(150) {
            contents.push((kind_of(&repo, id), repo.read(id)));
            ids.push(id.parse::<ObjectId>().unwrap());
        }
        let mut found = Vec::new();
        object_ids(kind, contents.iter().map(|(k, c)| (*k, &c[..])), &mut found).unwrap();
        assert_eq!(found, ids);
    }
}

#[test]
fn ids_that_everyone_knows() {
    for (hash, kind) in kinds() {
        let repo = TestRepo::init(hash);
        assert_eq!(repo.hash_object("tree", b""), kind.empty_tree().to_string());
        assert_eq!(repo.hash_object("blob", b""), kind.empty_blob().to_string());
        assert_eq!(object_id(kind, ObjectKind::Tree, b"").unwrap(), kind.empty_tree());
        assert_eq!(object_id(kind, ObjectKind::Blob, b"").unwrap(), kind.empty_blob());
        assert!(kind.null().is_null() && !kind.empty_blob().is_null());
    }
}

#[test]
fn checksums_by_rfc() {
    let sum = |kind| {
        let mut sum = Checksum::new(kind);
        sum.update(b"a");
        sum.clone().update(b"does not show");
        sum.update(b"bc");
        sum.finish().to_string()
    };
    // FIPS 180, "abc".
    assert_eq!(sum(HashKind::Sha1), "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_eq!(sum(HashKind::Sha256), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/// The blocks that collide in the two documents of <https://shattered.io>: their first 320 bytes.
#[test]
fn collision_is_an_error() {
    let attack = include_bytes!("shattered-320.bin");
    let mut hasher = NameHasher::raw(HashKind::Sha1);
    hasher.update(attack);
    let error = hasher.finish().unwrap_err();
    // The plain checksum does not care.
    let mut sum = Checksum::new(HashKind::Sha1);
    sum.update(attack);
    assert_eq!(error.id, sum.finish());
    // Elsewhere in the blocks it is no attack: as a blob, or with another hash.
    assert!(object_id(HashKind::Sha1, ObjectKind::Blob, attack).is_ok());
    let mut hasher = NameHasher::raw(HashKind::Sha256);
    hasher.update(attack);
    assert!(hasher.finish().is_ok());
}

#[test]
fn trees() {
    for (hash, kind) in kinds() {
        let repo = TestRepo::rich(hash);
        let mut gitlinks = 0;
        for id in repo.all_objects().iter().filter(|id| repo.kind(id) == "tree").take(40) {
            let bytes = repo.read(id);
            let mut ours = String::new();
            let mut at = 0;
            for entry in Entries::new(&bytes, kind) {
                let entry = entry.unwrap();
                assert_eq!(entry.at, at);
                at = entry.end;
                let what = entry.mode.object_kind().map_or("commit", ObjectKind::name);
                gitlinks += u32::from(entry.mode.is_gitlink());
                assert_eq!(entry.mode.is_gitlink(), what == "commit");
                assert_eq!(entry.mode.is_tree(), what == "tree");
                assert_eq!(entry.mode.is_blob() || entry.mode.is_symlink(), what == "blob");
                let name = str::from_utf8(entry.name).unwrap();
                ours += &format!("{:06o} {what} {}\t{name}\0", entry.mode.0, entry.id);
            }
            assert_eq!(at, bytes.len());
            assert_eq!(ours, repo.git_str(["ls-tree", "-z", id]));
        }
        assert!(gitlinks > 0, "the repository has a submodule somewhere");
    }
}

#[test]
fn commits() {
    for (hash, kind) in kinds() {
        let repo = TestRepo::rich(hash);
        let mut links = Vec::new();
        for id in repo.all_objects().iter().filter(|id| repo.kind(id) == "commit") {
            let bytes = repo.read(id);
            let commit = commit::Commit::parse(&bytes, kind).unwrap();
            let (author, committer) = (commit.author().unwrap(), commit.committer().unwrap());
            let parents: Vec<_> = commit.parents().map(|id| id.to_string()).collect();
            let text = |bytes| str::from_utf8(bytes).unwrap();
            let ours = [
                commit.tree().to_string(),
                parents.join(" "),
                text(author.name).into(),
                text(author.email).into(),
                author.seconds.to_string(),
                text(committer.name).into(),
                text(committer.email).into(),
                committer.seconds.to_string(),
            ]
            .join("\n");
            let format = "--format=%T%n%P%n%an%n%ae%n%at%n%cn%n%ce%n%ct";
            assert_eq!(ours, repo.git_str(["log", "-1", "--no-show-signature", format, id]));
            let message = text(commit.message()).trim_end();
            assert_eq!(message, repo.git_str(["log", "-1", "--format=%B", id]).trim_end());
            assert_eq!(commit.commit_time(), committer.seconds as u64);
            let (tree, time) = commit::links(&bytes, kind, &mut links).unwrap();
            assert_eq!((tree, time), (commit.tree(), commit.commit_time()));
            assert!(links.iter().copied().eq(commit.parents()));
        }
    }
}

#[test]
fn tags() {
    for (hash, kind) in kinds() {
        let repo = TestRepo::rich(hash);
        let mut seen = 0;
        for id in repo.all_objects().iter().filter(|id| repo.kind(id) == "tag") {
            let bytes = repo.read(id);
            let tag = Tag::parse(&bytes, kind).unwrap();
            let line = repo.git_str(["cat-file", "tag", id]);
            assert!(line.starts_with(&format!("object {}\n", tag.target())));
            assert_eq!(tag.target_kind(), kind_of(&repo, &tag.target().to_string()));
            assert!(bytes.windows(tag.name().len()).any(|w| w == tag.name()));
            assert!(tag.tagger().unwrap().seconds > 0);
            assert!(!tag.message().is_empty());
            seen += 1;
        }
        assert!(seen >= 3);
    }
}

/// What git makes of odd commits: its own parents and date, or a refusal. Ours must be the same.
#[test]
fn odd_commits_as_git() {
    for (hash, kind) in kinds() {
        let repo = TestRepo::init(hash);
        let parent = repo.commit_files(&[("file", b"x")], "parent");
        let tree = repo.rev_parse("HEAD^{tree}");
        let upper = parent.to_uppercase();
        let line = "A U Thor <a@example.com> 1700000000 +0100";
        let odd: Vec<String> = vec![
            format!("tree {tree}\n"),
            format!("tree {tree}\n\n"),
            format!("tree {tree}"),
            format!("tree {tree} \nauthor x\n"),
            format!("tree  {tree}\n\n"),
            format!("Tree {tree}\n\n"),
            format!("\ntree {tree}\n\n"),
            format!("tree {tree}\nparent {parent}\n\nmessage\n"),
            format!("tree {tree}\nparent {parent}\nparent {parent}\n\n"),
            format!("tree {tree}\nparent {upper}\n\n"),
            format!("tree {tree}\nparent {parent}\n"),
            format!("tree {tree}\nparent {parent}"),
            format!("tree {tree}\nparent {parent} \n\n"),
            format!("tree {tree}\nparent {}\n\n", &parent[1..]),
            format!("tree {tree}\nparent g{}\n\n", &parent[1..]),
            format!("tree {tree}\nparent short\n"),
            format!("tree {tree}\nparent {parent}\nauthor {line}\nparent {parent}\ncommitter {line}\n\n"),
            format!("tree {tree}\nauthor {line}\ncommitter {line}\n"),
            format!("tree {tree}\nauthor {line}\ncommitter {line}"),
            format!("tree {tree}\ncommitter {line}\nauthor {line}\n\n"),
            format!("tree {tree}\nauthor\ncommitter {line}\n\n"),
            format!("tree {tree}\nauthors\ncommitters {line}\n\n"),
            format!("tree {tree}\nauthor {line}\nother\ncommitter {line}\n\n"),
            format!("tree {tree}\nauthor {line}\ncommitter A > B <a@b> 5 +0000\n\n"),
            format!("tree {tree}\nauthor {line}\ncommitter A <a@b>5\n\n"),
            format!("tree {tree}\nauthor {line}\ncommitter A <a@b> \t\r 5\n\n"),
            format!("tree {tree}\nauthor {line}\ncommitter A <a@b> \x0b5\n\n"),
            format!("tree {tree}\nauthor {line}\ncommitter A <a@b> 12x34 +0000\n\n"),
            format!("tree {tree}\nauthor {line}\ncommitter A <a@b> 12+0100\n\n"),
            format!("tree {tree}\nauthor {line}\ncommitter A <a@b> x\n\n"),
            format!("tree {tree}\nauthor {line}\ncommitter A <a@b>\n\n"),
            format!("tree {tree}\nauthor {line}\ncommitter A <a@b> \n\n"),
            format!("tree {tree}\nauthor {line}\ncommitter A a@b 77 +0000\n\n"),
            format!("tree {tree}\nauthor {line}\ncommitter A <a@b> 18446744073709551614 +0000\n\n"),
            format!("tree {tree}\nauthor {line}\ncommitter A <a@b> 18446744073709551616 +0000\n\n"),
            format!("tree {tree}\nauthor {line}\ncommitter A <a@b> 99999999999999999999999 +0000\n\n"),
            format!("tree {tree}\nauthor {line}\ncommitter A <a@b> - +0000\n\n"),
        ];
        let mut refused = 0;
        for text in odd {
            let id = repo.hash_object("commit", text.as_bytes());
            let out = repo.try_git(["rev-list", "--no-walk", "--timestamp", "--parents", &id], b"");
            let theirs = out.status.success().then(|| String::from_utf8(out.stdout).unwrap().trim().to_owned());
            let mut parents = Vec::new();
            let ours = commit::links(text.as_bytes(), kind, &mut parents).ok().map(|(_, time)| {
                let ids: Vec<_> = parents.iter().map(|id| format!(" {id}")).collect();
                format!("{time} {id}{}", ids.concat())
            });
            assert_eq!(ours, theirs, "{text:?}");
            assert_eq!(ours.is_some(), commit::Commit::parse(text.as_bytes(), kind).is_ok());
            refused += usize::from(theirs.is_none());
        }
        assert!(refused >= 9, "the list has commits that git refuses");
    }
}

/// The same for trees: git lists what it can read, and ours are the modes that it sees.
#[test]
fn odd_trees_as_git() {
    for (hash, kind) in kinds() {
        let repo = TestRepo::init(hash);
        let blob: ObjectId = repo.hash_object("blob", b"x").parse().unwrap();
        let entry = |head: &[u8]| [head, blob.as_bytes()].concat();
        let mut odd: Vec<Vec<u8>> = [
            &b"100644 a\0"[..],
            b"100755 a\0",
            b"0100644 a\0",
            b"000000100644 a\0",
            b"100664 a\0",
            b"40000 a\0",
            b"040000 a\0",
            b"120000 a\0",
            b"160000 a\0",
            b"0 a\0",
            b"7 a\0",
            b"1100644 a\0",
            b"7777777777777777100644 a\0",
            b" 100644 a\0",
            b" a\0",
            b"100648 a\0",
            b"10o644 a\0",
            b"100644  a\0",
            b"100644 \0",
            b"100644\0",
            b"100644 a b\0",
            b"-100644 a\0",
        ]
        .map(entry)
        .into();
        let good = entry(b"100644 a\0");
        odd.extend((0..good.len()).map(|cut| good[..cut].to_vec()));
        odd.extend((0..good.len()).map(|cut| [&good, &good[..cut]].concat()));
        let mut refused = 0;
        for bytes in odd {
            let id = repo.hash_object("tree", &bytes);
            let out = repo.try_git(["ls-tree", "-z", &id], b"");
            let theirs = out.status.success().then_some(out.stdout);
            let ours: Result<Vec<u8>, _> = Entries::new(&bytes, kind)
                .map(|entry| {
                    let entry = entry?;
                    let what = entry.mode.object_kind().map_or("commit", ObjectKind::name);
                    let mode = canonical(entry.mode);
                    let line = format!("{mode:06o} {what} {}\t", entry.id);
                    Ok::<_, packstone_object::ParseError>([line.as_bytes(), entry.name, b"\0"].concat())
                })
                .collect::<Result<Vec<_>, _>>()
                .map(|lines| lines.concat());
            assert_eq!(ours.ok(), theirs, "{:?}", bytes.escape_ascii().to_string());
            refused += usize::from(theirs.is_none());
        }
        assert!(refused > 20, "the list has trees that git refuses");
    }
}

/// What git shows for a mode.
fn canonical(mode: Mode) -> u32 {
    match mode {
        _ if mode.is_tree() => 0o040_000,
        _ if mode.is_symlink() => 0o120_000,
        _ if mode.is_blob() && mode.0 & 0o100 != 0 => 0o100_755,
        _ if mode.is_blob() => 0o100_644,
        _ => 0o160_000,
    }
}
