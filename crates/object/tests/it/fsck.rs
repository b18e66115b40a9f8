//! What is wrong with an object's content. Compared with git, case by case, in the program's tests of `hash-object`.

use packstone_object::ObjectKind;
use packstone_object::fsck::{Finding, check};
use testkit::io::Rng;

use crate::kinds;

#[test]
fn sound_objects_and_faults() {
    for (_, hash) in kinds() {
        let id = hash.empty_tree();
        let who = "A U Thor <a@example.com> 1112911993 -0700";
        let commit = format!("tree {id}\nparent {id}\nauthor {who}\ncommitter {who}\n\nmessage\n");
        let tag = format!("object {id}\ntype tree\ntag v1\ntagger {who}\n\nmessage\n");
        let entry = |head: &str| [head.as_bytes(), b"\0", id.as_bytes()].concat();
        let tree = [entry("100644 a"), entry("40000 b"), entry("100644 b.c")].concat();
        let sound =
            [(ObjectKind::Commit, commit.as_bytes()), (ObjectKind::Tag, tag.as_bytes()), (ObjectKind::Blob, b"\0")];
        for (kind, content) in sound {
            assert_eq!(check(kind, content, hash), [], "{}", kind.name());
        }
        let names = |content: &[u8]| check(ObjectKind::Tree, content, hash).iter().map(|f| f.id).collect::<Vec<_>>();
        assert_eq!(names(&tree), ["treeNotSorted"], "a directory sorts as if a slash followed");
        assert_eq!(names(&[entry("100644 b.c"), entry("40000 b")].concat()), [""; 0]);
        assert_eq!(
            names(&[entry("0100644 .git"), entry("100600 .git")].concat()),
            ["hasDotgit", "zeroPaddedFilemode", "badFilemode", "duplicateEntries"]
        );
        assert_eq!(check(ObjectKind::Tree, &entry("40000 .Git"), hash), [Finding::HAS_DOTGIT]);
        assert_eq!(check(ObjectKind::Tree, &entry("120000 .gitmodules"), hash), [Finding::GITMODULES_SYMLINK]);
        // Cut or changed anywhere: an answer, and no panic.
        let mut rng = Rng::new(3);
        for (kind, content) in sound.into_iter().chain([(ObjectKind::Tree, &tree[..])]) {
            for end in 0..content.len() {
                check(kind, &content[..end], hash);
                let mut changed = content.to_vec();
                changed[end] = rng.below(256) as u8;
                check(kind, &changed, hash);
            }
        }
    }
}
