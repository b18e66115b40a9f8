//! What is wrong with an object's content, compared with git.

use packstone_object::fsck::{self, MessageId, Severities, Severity, SeverityError, SkipList, TreeCheck, check};
use packstone_object::tree::Mode;
use packstone_object::{HashKind, ObjectKind};
use proptest::prelude::*;
use testkit::io::Rng;

use crate::fsck_git::{self, Lines, Object, Verdict, compare, id_of};
use crate::kinds;

const STRICT: &[&str] = &["fsck", "--strict", "--no-dangling", "--no-progress"];
const LENIENT: &[&str] = &["fsck", "--no-dangling", "--no-progress"];

const WHO: &str = "A U Thor <a@example.com> 1112911993 -0700";

fn id(hash: HashKind, n: u8) -> String {
    format!("{n:02x}").repeat(hash.len())
}

fn commit(hash: HashKind) -> String {
    let (tree, parent) = (id(hash, 0x11), id(hash, 0x22));
    format!("tree {tree}\nparent {parent}\nauthor {WHO}\ncommitter {WHO}\n\nmessage\n")
}

fn tag(hash: HashKind) -> String {
    format!("object {}\ntype tree\ntag v1\ntagger {WHO}\n\nmessage\n", id(hash, 0x11))
}

fn entry(hash: HashKind, mode: &str, name: &[u8], n: u8) -> Vec<u8> {
    [mode.as_bytes(), b" ", name, b"\0", &vec![n; hash.len()]].concat()
}

/// Every text that differs from these by one replacement.
fn edited(kind: ObjectKind, text: &str, edits: &[(&str, &str)]) -> Vec<Object> {
    let edit = |(from, to): &(&str, &str)| {
        assert!(text.contains(from), "{from}");
        (kind, text.replacen(from, to, 1).into_bytes())
    };
    edits.iter().map(edit).collect()
}

/// Signatures, sound and not.
#[rustfmt::skip]
const SIGNATURES: &[&str] = &[
    "", "<", ">", " <a> 1 +0000", "<a> 1 +0000", "A<a> 1 +0000", "A > <a> 1 +0000", "A <a<b> 1 +0000",
    "A <a 1 +0000", "A <a>1 +0000", "A <a>  1 +0000", "A <a>\t1 +0000", "A <a> \t1 +0000", "A <a> 01 +0000",
    "A <a> 0 +0000", "A <a> 00 +0000", "A <a> 0", "A <a> 1", "A <a> 1  +0000", "A <a> 1 0000", "A <a> 1 +00000",
    "A <a> 1 +000", "A <a> 1 +00a0", "A <a> 1 +0000 ", "A <a> 1 +0000\r", "A <a> -1 +0000",
    "A <a> 18446744073709551616 +0000", "A <a> 9223372036854775807 +0000", "A <a> 9223372036854775808 +0000",
    "A <a> 99999999999999999999999 +0000", "A <a> 1x +0000", "A <a> x +0000", "A <a> ", "A <a>", "A <> 1 +0000",
    "A <a> \u{b}1 +0000", "A <a> \r1 +0000", "A <a> 1 +9999", "A <a> 1\t+0000", "A <a>> 1 +0000", "\t<a> 1 +0000",
    "A <a> 0x1 +0000", "A <a> 0\t+0000", "A <a> 0 ",
];

#[rustfmt::skip]
fn commits(hash: HashKind) -> Vec<Object> {
    let text = commit(hash);
    let mut objects = edited(
        ObjectKind::Commit,
        &text,
        &[
            ("", ""), ("tree ", "Tree "), ("\nparent", "0\nparent"), ("parent ", "parent x"),
            ("parent 2", "parent 2\n2"), ("message", "mess\0age"), ("A U", "A\0U"), ("\n\nmessage\n", "\n"),
            ("\n\nmessage\n", ""), ("\n\n", "\n\0\n"), ("\nauthor", "\nauthor x\nauthor"), ("author ", "nobody "),
            ("committer ", "committee "), ("tree 1", "tree A"), ("\n\nmessage", "\ngpgsig x\n y\n\nmessage"),
            ("message\n", "no line end"), ("\n\nmessage\n", "\nno end"),
        ],
    );
    let author = format!("author {WHO}");
    let committer = format!("committer {WHO}");
    objects.extend([(ObjectKind::Commit, text.replace(&author, &format!("{author}\n{author}")).into_bytes())]);
    objects.extend([(ObjectKind::Commit, text.replace(&format!("{author}\n"), "").into_bytes())]);
    objects.extend([(ObjectKind::Commit, text.replace(&format!("{committer}\n"), "").into_bytes())]);
    objects.extend([(ObjectKind::Commit, text.replace(WHO, "x").replace("mess", "\0").into_bytes())]);
    objects.extend([(ObjectKind::Commit, b"".to_vec()), (ObjectKind::Commit, b"\n".to_vec())]);
    for signature in SIGNATURES {
        objects.push((ObjectKind::Commit, text.replacen(WHO, signature, 1).into_bytes()));
        objects.push((ObjectKind::Commit, text.replace(&committer, &format!("committer {signature}")).into_bytes()));
    }
    objects
}

#[rustfmt::skip]
fn tags(hash: HashKind) -> Vec<Object> {
    let text = tag(hash);
    let mut objects = edited(
        ObjectKind::Tag,
        &text,
        &[
            ("", ""), ("object ", "obj "), ("type tree", "type"), ("type tree", "type bogus"), ("type tree\n", ""),
            ("tag v1\n", ""), ("tag v1", "tag v..1"), ("tag v1", "tag v1.lock"), ("tag v1", "tag "),
            ("tag v1", "tag a/.b"), ("tag v1", "tag a b"), ("tag v1", "tag @"), ("tag v1", "tag -x"),
            ("tag v1", "tag x@{y"), ("tag v1", "tag a/"), ("tag v1", "tag /a"), ("tag v1", "tag a//b"),
            ("tag v1", "tag v1."), ("tag v1", "tag v1\r"), ("tag v1", "tag \u{7f}"), ("tag v1", "tag a.lock/b"),
            ("tag v1", "tag v\0"), ("tagger", "Tagger"), ("\n\nmess", "\nextra\n\nmess"), ("message", "\0"),
            ("\n\nmessage\n", "\n"), ("\n\nmessage\n", ""), ("\n\nmess", "\nmess"), ("type tree", "type tree "),
        ],
    );
    let no_tagger = text.replace(&format!("tagger {WHO}\n"), "");
    objects.push((ObjectKind::Tag, no_tagger.replace("v1", "v..1").into_bytes()));
    objects.push((ObjectKind::Tag, no_tagger.replace("\n\n", "\nextra\n\n").into_bytes()));
    objects.push((ObjectKind::Tag, no_tagger.into_bytes()));
    for signature in SIGNATURES {
        objects.push((ObjectKind::Tag, text.replace(WHO, signature).into_bytes()));
    }
    objects
}

/// Names that some file system takes for another; each as file and as link.
#[rustfmt::skip]
fn disguises(hash: HashKind) -> Vec<Object> {
    let mut names: Vec<Vec<u8>> = [
        &b".git"[..], b".GIT", b"git~1", b"GIT~1", b"git~2", b".git ", b".git.", b".git . ", b".git:x", b".git\\x",
        b".git\\", b".gitx", b"git~10", b"x\\.git", b"x\\git~1", b"x\\.git\\y", b"\\.git", b"\\\\.git",
        b".g\xe2\x80\x8cit", b"\xef\xbb\xbf.git", b".git\xe2\x80\x8f", b".\xe2\x81\xaagit", b".g\xcc\x87it",
        b"x/.git", b".git/x", b"git~1/x", b"./", b"../", b".", b"..", b"...", b". ", b".\xe2\x80\x8c", b".git\xff",
        b".git\xef\xbf\xbe", b".git\xed\xa0\x80", b".git\xe2\x80\x8c\xff", b"x\\.g\xe2\x80\x8cit", b".git\t",
        b"~1234567", b"~", b"\\", b"/", b"a/b", b".gitmodules:\\.gitmodules", b"x\\.gitmodules\\.gitmodules",
        b"\xe2\x80\x8c.mailmap", b"\xe2\x80\x8c", b"a\\b~c/d",
    ]
    .iter()
    .map(|name| name.to_vec())
    .collect();
    for (name, short, hashed) in [
        (".gitmodules", "gitmod", "gi7eba"),
        (".gitattributes", "gitatt", "gi7d29"),
        (".gitignore", "gitign", "gi250a"),
        (".mailmap", "mailma", "maba30"),
    ] {
        for (head, tails) in [
            (name, &["", " ", ".", ":x", "x", "\\x", "\\", "/"][..]),
            (short, &["~1", "~4", "~5", "~0", "~1 ", "~1\\", "~1x"]),
            (hashed, &["~1", "~9", "~0", "~1 ", "~1:", "~1x"]),
            (&hashed[..5], &["~10", "~01", "~1", "~1a", "x~1"]),
            (&hashed[..2], &["~12345", "~123456"]),
        ] {
            for tail in tails {
                names.push(format!("{head}{tail}").into_bytes());
                names.push(format!("{head}{tail}").to_uppercase().into_bytes());
                names.push(format!("x\\{head}{tail}").into_bytes());
            }
        }
        names.push(name.replace('m', "m\u{200c}").into_bytes());
    }
    let mut objects = Vec::new();
    for name in names {
        for (n, mode) in ["100644", "120000", "40000"].into_iter().enumerate() {
            objects.push((ObjectKind::Tree, entry(hash, mode, &name, 0x40 + n as u8)));
        }
    }
    objects
}

#[rustfmt::skip]
fn trees(hash: HashKind) -> Vec<Object> {
    let one = |mode: &str, name: &str| entry(hash, mode, name.as_bytes(), 0x33);
    let null = |mode: &str, name: &str| entry(hash, mode, name.as_bytes(), 0);
    let all = |parts: &[Vec<u8>]| parts.concat();
    let mut objects = vec![
        vec![],
        one("100644", "a"),
        null("100644", "a"),
        all(&[
            null("0100600", ".git"),
            one("40000", "."),
            one("40000", ".."),
            one("120000", ".gitmodules"),
            one("120000", ".gitattributes"),
            one("120000", ".gitignore"),
            one("120000", ".mailmap"),
            one("100644", "a/b"),
            one("100644", "a"),
            one("100644", "a"),
            one("100644", &"z".repeat(5000)),
        ]),
        all(&[one("120000", ".gitmodules"), one("120000", ".gitmodules ")]),
        one("100644", &"z".repeat(4096)),
        one("100644", &"z".repeat(4097)),
        one("100644x", "a"),
        one("", "a"),
        one(" ", "a"),
        one("100644", ""),
        all(&[one("0100600", ".git"), one("0100600", ".git"), one("100644", "")]),
        all(&[null("0100600", "a/b"), one("1x", "a")]),
        all(&[one("100644", &"z".repeat(4097)), one("1x", "a")]),
        all(&[one("100600", "b"), one("100600", "a"), one("1x", "a")]),
        all(&[one("100600", "b"), one("100600", "a"), one("1x", "a")]),
        [&b"100644 a\0"[..], &vec![b'1'; hash.len() - 16], b"\x00100644 bb\0", &[1; 10]].concat(),
        [&b"1 \0"[..], &vec![1; hash.len()]].concat(),
        [&b"1\0"[..], &vec![1; hash.len()]].concat(),
        [&b"\0"[..], &vec![1; hash.len() + 2]].concat(),
    ];
    for mode in [
        "100644", "100755", "100664", "100600", "120000", "120777", "160000", "160755", "40000", "040000", "40755",
        "140000", "0", "1", "1100644", "77777777777777777777100644", "100644 ",
    ] {
        objects.push(one(mode, "a"));
        objects.push(all(&[one("100644", "A"), one(mode, "a"), one("100644", "b")]));
    }
    // Orders and duplicates: all pairs and triples of a few names that are beginnings of each other.
    let names = ["a", "a-", "a-b", "a.", "a.b", "a/", "a0", "ab"];
    let kinds = ["100644", "40000"];
    let some: Vec<Vec<u8>> = names.iter().flat_map(|name| kinds.map(|kind| one(kind, name))).collect();
    for a in &some {
        for b in &some {
            objects.push(all(&[a.clone(), b.clone()]));
            for c in &some {
                objects.push(all(&[a.clone(), b.clone(), c.clone()]));
            }
        }
    }
    // Cut anywhere.
    let whole = all(&[one("100644", "a"), one("40000", "b"), one("100755", "c")]);
    objects.extend((0..whole.len()).map(|end| whole[..end].to_vec()));
    objects.into_iter().map(|content| (ObjectKind::Tree, content)).collect()
}

#[test]
fn hand_made_objects_as_git_sees_them() {
    for (git, hash) in kinds() {
        let objects = [commits(hash), tags(hash), trees(hash), disguises(hash)].concat();
        compare(&objects, git, &Severities::strict(), STRICT);
        compare(&objects, git, &Severities::default(), LENIENT);
    }
}

/// What is no error does not end the look at a commit or a tag.
#[test]
fn severities_that_were_set() {
    let list = "missingEmail=warn,nulInCommit=ignore,multipleAuthors=warn,missingAuthor=warn,missingCommitter=warn,\
                extraHeaderEntry=warn,badTagName=error,badFilemode=error,hasDot=ignore,badTree=warn,\
                largePathname=warn:3,badTimezone=ignore";
    for (git, hash) in kinds() {
        let objects = [commits(hash), tags(hash), trees(hash)].concat();
        let settings: Vec<String> = list.split(',').map(|item| format!("fsck.{item}")).collect();
        for (base, options) in [(Severities::strict(), STRICT), (Severities::default(), LENIENT)] {
            let mut severities = base;
            assert_eq!(severities.apply(list.as_bytes()), Ok(vec![]));
            let mut words = Vec::new();
            for setting in &settings {
                words.extend(["-c", setting.as_str()]);
            }
            words.extend(options);
            compare(&objects, git, &severities, &words);
        }
    }
}

/// The blobs, and for each a tree that gives it this name.
fn named(hash: HashKind, name: &str, blobs: impl IntoIterator<Item = Vec<u8>>) -> Vec<Object> {
    let mut objects = Vec::new();
    for blob in blobs {
        let blob = (ObjectKind::Blob, blob);
        let head = format!("100644 {name}\0");
        objects.push((ObjectKind::Tree, [head.as_bytes(), id_of(&blob, hash).as_bytes()].concat()));
        objects.push(blob);
    }
    objects
}

/// URLs, good and bad.
#[rustfmt::skip]
const URLS: &[&str] = &[
    "", "x", "-x", " -x", "./x", "../x", "./-x", "/%0ax", "./%0ax", "../%0ax", "..%0a", "./x%0ay", "../x%0Ay",
    "../x%0d", "../x%00", "..", ".", "../..", "./..", "./%0a", ".\\x%0a", "..\\x%0a", "../x\ny", "x\ny",
    "http://h/x\ny", "http://h/%0a", "http://h%0a/", "https://h/%0ax", "ftp://h/%0ax", "ftps://h/%0ax",
    "git://h/%0ax", "ssh://h/%0ax", "file:///%0ax", "HTTP://h/%0a", "http:///x", "git:///x", "git:///%0a",
    "git://%0a", "git:%0a", "GIT://h/%0a", "http://", "http:/x", "http:x", "http:", "http://h", "http://:80/",
    "http://u@/", "http://u:p@/x", "http://@/x", "http://u@h/x", "http://?x", "http://#x", "http://h?x",
    "http://h#x%0a", "http://h?%0a", "http://h:%0a/", "http://%2f/", "http://h%", "http:// /", "http://u%0a@h/",
    "http://h/%250a", "http://h/%0", "http://h/%0g", "http://h/%00", "http::x", "http::http://h/", "http::https:///",
    "https::x", "ftp::x", "ext::sh", "http::http://h/%0a", "http::ext::x", "https::http://h/x", "foo::http:///",
    "http::", "::http://h", "ftps::http://h/", "../:x", "./:x", "../../:x", "..//:x", "..:x", "../x:y", "../a/:x",
    ".:x", "./../:x", ".././:x", "..//", "../", "./", ".././/x", "..\\:x", "..\\/x", "..\\\\x", "../\\x",
    "../.../:x", "./x/../:x", ".//:x", ".//../:x", "../.:x", "../?:", "./././../x%0a", "./a%0ab:c", "./a:c%0a",
    "./%25%30%61", "./a%0a%", "./%00%0a", "http://[::1]/x", "http://[::1/x", "http://[::x/", "http://[::x]/",
    "http://[::1]:x/", "http://[x]:/", "http://]:x/", "http://a]:80x/", "http://h:80]/", "http://h:x]/",
    "http://h:1:x/", "http://h:x:1/", "http://:1:1/", "http://::/", "http://:/", "http://]/", "http://h/\u{1}",
    "http://u\u{1}@h/", "http://u @h/", "http://u?@h/", "http://h/%0a/../x", "http://h/x%0a/../x", "http://h/../%0a",
    "http://h?%0a/..", "http://h/a/%2e%2e/x", "http://h/.%2e/x", "http://h/%2e/x", "http://h/a/..%2f..",
    "http://h/a%2f../..", "http://h/a%2f../../..", "http://h/a//../..", "http://h/a//../../..", "http://h/a/./..",
    "http://h/a/./../..", "http://h/...", "http://h/a/../?x/../..", "http://h/..?x", "http://h/..#x",
    "http://h/a/..b/../..", "http::file:///x", "http::file://h/%0a", "http::file:x", "http::foo:///x",
    "http::1a://h", "http::a+b-c.d://h", "http::a_b://h", "http::file://", "http::file:///../", "http::file://:80/",
    "http::file://u@/x", "http::file://:/", "http::file://::/", "http::file://::80/", "http::file://:a:/",
    "http::file://h:80/", "http::file://h:/", "http:://x", "http::HTTP://h/%0a", "http::-http://h", "http://h:00/",
    "http://h:65535/", "http://h:65536/", "http://h:00000000000080/", "http://h:+1/", "http://h:1 /",
    "http://h:80@/", "http://h:80@x:80/", "http://a@b@h/", "http://a%40b@h/", "http://a+b/", "http://A.B/",
    "http://a_b/", "http://a*b/", "http://\u{e9}/", "http://h/\u{e9}", "http://u%@h/", "http://u%zz@h/",
    "http://h/x?%zz", "http://h/x#%",
];

/// Contents of a `.gitmodules`.
#[rustfmt::skip]
fn modules() -> Vec<Vec<u8>> {
    let mut texts: Vec<Vec<u8>> = Vec::new();
    for url in URLS {
        let quoted = url.replace('\\', "\\\\").replace('\n', "\\n");
        texts.push(format!("[submodule \"a\"]\nurl=\"{quoted}\"\n").into_bytes());
    }
    let heads = [
        "[submodule \"a\"]", "[submodule]", "[submodule.a]", "[SUBMODULE \"a\"]", "[submodule \"\"]",
        "[submodule \"..\"]", "[submodule \"a/../b\"]", "[submodule \"..a\"]", "[submodule \"a\\\\..\\\\b\"]",
        "[submodule \"a\\qb\"]", "[submodule \"a\\\"b\"]", "[submodule \"a]\"]", "[submodule  \"a\"]",
        "[submodule\t\"a\"]", "[submodule \"a\" ]", "[ submodule \"a\"]", "[submodule\"a\"]", "[submodule\n\"a\"]",
        "[submodule\r\n\"a\"]", "[submodule \"a\nb\"]", "[submodule \"a\\\nb\"]", "[submodule \"a\rb\"]",
        "[submodule ]", "[submodule x]", "[submodule.]", "[submodule..]", "[submodule.a.b]", "[submodule.a \"b\"]",
        "[sub_module \"a\"]", "[sub-module.x]", "[]", "[ \"x\"]", "[.x]", "[core]", "[", "[sub", "[submodule ",
        "[submodule \"a", "[submodule \"a\"", "[submodule \"a\"]]", "[submodule \"a\0b/../c\"]",
        "[submodule \"../a\0b\"]", "[submodule \"x.url\0\"]", "[submodule \"x.path\0y\"]", "[submodule \"a.b\"]",
        "[submodule \"/\"]", "[submodule \".\"]", "[submodule \"\\\\..\"]", "[submodules \"a\"]",
        "\r[submodule \"a\"]", "# c\n; d\n\n [submodule \"a\"] # e\n", "",
    ];
    let keys = [
        "url=-x", "url", "url\r", "path=-p", "path=\"-p\"", "path", "update=!x", "update=\"!x\"", "update=checkout",
        "update=x!", "update=", "URL = -x", "url\t= -x # c", "url=-x;c", "url=#-x", "url=\"#-x\"", "url=- x  ",
        "url=\" -x\"", "url=-\\tx", "url=\\-x", "url=\\\"-x", "url=\"-x\" \"y\"", "url=-x\"", "url=\\\n-x",
        "url= \\\n -x", "url=\t-x", "url=\u{b}-x", "\u{b}url=-x", "url=\r-x", "url=-x\rz", "url -x", "url;c",
        "1key=x", "key-x=x", "u_rl=x", "u.rl=x", "-u=x", "=x", "u\0rl=x", "url=\0-x", "url=-\0x", "url=-x\\", "\0",
        "]", "url=-u\npath=-p\nupdate=!x", "url=\"\" -x", "url=a\\qb", "url=\"a\nb\"", "# \\\nurl=-x",
        "url=x # \\\npath=-p",
    ];
    for head in heads {
        for (joint, end) in [("\n", "\n"), (" ", ""), ("", "\r\n")] {
            for key in ["url=-x", "path", "update=!", ""] {
                texts.push(format!("{head}{joint}{key}{end}").into_bytes());
            }
        }
    }
    for key in keys {
        for (head, end) in [
            ("[submodule \"a\"]\n", "\n"),
            ("[submodule \"a\"]", ""),
            ("[submodule \"..\"]\nx\n", "\nurl=-y"),
            ("", "\n"),
        ] {
            texts.push(format!("{head}{key}{end}").into_bytes());
        }
    }
    texts
}

fn attributes() -> Vec<Vec<u8>> {
    let long = |n| vec![b'a'; n];
    vec![
        vec![],
        [long(2047), b"\n".to_vec()].concat(),
        [long(2048), b"\n".to_vec()].concat(),
        [long(2047), b"\r\n".to_vec()].concat(),
        long(2047),
        long(2048),
        [b"x\n".to_vec(), long(2048)].concat(),
        [b"#".to_vec(), long(2048)].concat(),
        [long(2000), b"\0".to_vec(), long(2000)].concat(),
        [long(100), b"\0\n".to_vec(), long(3000)].concat(),
        [long(3000), b"\n".to_vec(), long(3000), b"\n".to_vec()].concat(),
    ]
}

#[test]
fn blobs_with_a_meaning_as_git_sees_them() {
    for (git, hash) in kinds() {
        let mut objects = named(hash, ".gitmodules", modules());
        objects.extend(named(hash, "GITMOD~1", [b"[submodule \"..\"]\nurl=disguised".to_vec()]));
        objects.extend(named(hash, "x\\.gitmodules", [b"[submodule \"..\"]\nurl=behind".to_vec()]));
        objects.extend(named(hash, "x\\.gitattributes", [vec![b'b'; 2048]]));
        objects.extend(named(hash, ".gitattributes", attributes()));
        compare(&objects, git, &Severities::strict(), STRICT);
    }
}

/// What git's fsck does not look at, though git will read it when it reads the file: we do.
#[test]
fn hidden_from_gits_fsck() {
    let bad = b"[submodule \"a\"]\nurl=-x\n";
    for (git, hash) in kinds() {
        // With a sign bit 0xff is -1, which is what git takes for the end of a file that it has in memory.
        let hidden = [[b"#\xff\n\n", &bad[..]].concat(), [b"\xef\xbb\xbf", &bad[..]].concat()];
        let objects = named(hash, ".gitmodules", hidden);
        let told = |verdicts: Vec<Verdict>| {
            let told = |verdict| match verdict {
                Verdict::Told(lines) => lines.join("; "),
                Verdict::Unparsed => "unparsed".to_owned(),
            };
            [1, 3].map(|n| told(verdicts[n].clone()))
        };
        let gits = told(fsck_git::gits(&objects, git, STRICT));
        if cfg!(target_arch = "x86_64") {
            assert_eq!(gits, ["", "warning gitmodulesParse: could not parse gitmodules blob"]);
        }
        let ours = told(fsck_git::ours(&objects, hash, &Severities::strict()));
        assert_eq!(ours, ["error gitmodulesUrl: disallowed submodule url: "; 2]);
    }
}

/// Replaces, takes out, doubles and swaps at random, mostly with bytes that mean something.
fn mutate(rng: &mut Rng, content: &mut Vec<u8>, words: &[&[u8]]) {
    let at = rng.below(content.len() as u64 + 1) as usize;
    let end = (at + rng.below(12) as usize).min(content.len());
    match rng.below(5) {
        0 => drop(content.drain(at..end)),
        1 => {
            let part = content[at..end].to_vec();
            content.splice(at..at, part);
        }
        2 => {
            let word = words[rng.below(words.len() as u64) as usize];
            content.splice(at..at, word.iter().copied());
        }
        3 => {
            let word = words[rng.below(words.len() as u64) as usize];
            content.splice(at..end, word.iter().copied());
        }
        // Not 0xff: see `hidden_from_gits_fsck`.
        _ if at < content.len() => content[at] = rng.below(255) as u8,
        _ => {}
    }
}

#[rustfmt::skip]
const HEADER_WORDS: &[&[u8]] = &[
    b"\n", b"\n\n", b"\0", b" ", b"<", b">", b"0", b"+", b"tree ", b"parent ", b"author ", b"committer ", b"object ",
    b"type ", b"tag ", b"tagger ",

    b" <a> 1 +0000\n",
    b"gpgsig x\n",
    b"..",
    b"/",
];
#[rustfmt::skip]
const TREE_WORDS: &[&[u8]] = &[
    b"\0", b" ", b"0", b"100644 ", b"40000 ", b"120000 .gitmodules\0", b".git", b"~1", b"\\", b"/", b".", b"-",
    b"\xe2\x80\x8c", b":",
];
#[rustfmt::skip]
const MODULES_WORDS: &[&[u8]] = &[
    b"\n", b"\r\n", b"\"", b"\\", b"[", b"]", b"=", b" ", b"#", b"..", b"/", b"%0a", b"[submodule \"b\"]\n",
    b"url = http://h/", b"path=-", b"update=!", b"../", b":", b"@", b"?", b"\0", b"\\n",
];

/// Names that begin each other, in order or nearly.
fn random_tree(rng: &mut Rng, hash: HashKind) -> Vec<u8> {
    const MODES: [&str; 8] = ["100644", "100644", "100644", "40000", "40000", "100755", "120000", "160000"];
    const LETTERS: &[u8] = b"aab--..0/~\\g";
    let mut entries: Vec<(Vec<u8>, usize)> = (0..rng.below(12))
        .map(|_| {
            let name = (0..1 + rng.below(5)).map(|_| LETTERS[rng.below(LETTERS.len() as u64) as usize]).collect();
            (name, rng.below(8) as usize)
        })
        .collect();
    entries.sort_by_key(|(name, mode)| {
        let mut key = name.clone();
        key.extend((MODES[*mode] == "40000").then_some(b'/'));
        key
    });
    if rng.below(4) == 0 && entries.len() > 1 {
        let (a, b) = (rng.below(entries.len() as u64) as usize, rng.below(entries.len() as u64) as usize);
        entries.swap(a, b);
    }
    entries.iter().flat_map(|(name, mode)| entry(hash, MODES[*mode], name, 0x50 + *mode as u8)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutants_as_git_sees_them(seed in any::<u64>(), sha256 in any::<bool>()) {
        let (git, hash) = kinds()[usize::from(sha256)];
        let mut rng = Rng::new(seed);
        let mut objects: Vec<Object> = Vec::new();
        for _ in 0..600 {
            let (kind, mut content, words) = match rng.below(3) {
                0 => (ObjectKind::Commit, commit(hash).into_bytes(), HEADER_WORDS),
                1 => (ObjectKind::Tag, tag(hash).into_bytes(), HEADER_WORDS),
                _ => (ObjectKind::Tree, random_tree(&mut rng, hash), TREE_WORDS),
            };
            for _ in 0..rng.below(4) {
                mutate(&mut rng, &mut content, words);
            }
            objects.push((kind, content));
        }
        let texts = (0..300).map(|n| {
            let mut text = format!("[submodule \"a/b\"]\n\tpath = p\n\turl = {}\n", URLS[n % URLS.len()]).into_bytes();
            for _ in 0..rng.below(6) {
                mutate(&mut rng, &mut text, MODULES_WORDS);
            }
            text
        });
        objects.extend(named(hash, ".gitmodules", texts));
        compare(&objects, git, &Severities::strict(), STRICT);
    }
}

#[test]
fn severities() {
    let mut severities = Severities::default();
    assert_eq!(severities.of(MessageId::HasDot), Severity::Warn);
    assert_eq!(Severities::strict().of(MessageId::HasDot), Severity::Error);
    assert_eq!(Severities::strict().of(MessageId::BadFilemode), Severity::Info);
    assert_eq!(Severities::pedantic().of(MessageId::BadFilemode), Severity::Error);
    assert_eq!(Severities::pedantic().of(MessageId::ExtraHeaderEntry), Severity::Ignore);
    let list = b"BADDATE=warn,baddateoverflow:ignore hasDot=error|skipList=a=b,,SKIPLIST:c,largePathname=warn:1k,\
                 nulInHeader=error";
    assert_eq!(severities.apply(list), Ok(vec![&b"a=b"[..], b"c"]));
    for (id, severity) in [
        (MessageId::BadDate, Severity::Warn),
        (MessageId::BadDateOverflow, Severity::Ignore),
        (MessageId::HasDot, Severity::Error),
        (MessageId::LargePathname, Severity::Warn),
    ] {
        assert_eq!(severities.of(id), severity);
    }
    assert_eq!(severities.max_name(), 1024);
    for (text, most) in [("-1", -1), ("0x10", 16), ("010", 8), ("+3", 3), ("1G", 1 << 30), ("-0x2", -2), ("0", 0)] {
        assert_eq!(severities.set(b"largepathname", format!("error:{text}").as_bytes()), Ok(()));
        assert_eq!(severities.max_name(), most);
    }
    // In git's words.
    for (list, words) in [
        ("badDate=foo", "Unknown fsck message type: 'foo'"),
        ("badDate=", "Unknown fsck message type: ''"),
        ("badDate==warn", "Unknown fsck message type: '=warn'"),
        ("baddate=WARN", "Unknown fsck message type: 'WARN'"),
        ("badDate=info", "Unknown fsck message type: 'info'"),
        ("badName=warn:10", "Unknown fsck message type: 'warn:10'"),
        ("largePathname=10", "Unknown fsck message type: '10'"),
        ("largePathname=:10", "Unknown fsck message type: ''"),
        ("badDate", "Missing '=': 'baddate'"),
        ("=warn", "Unhandled message id: "),
        ("Bad-Date=warn", "Unhandled message id: bad-date"),
        ("nulInHeader=warn", "Cannot demote nulinheader to warn"),
        ("unterminatedHeader=ignore", "Cannot demote unterminatedheader to ignore"),
        ("largePathname=warn:x", "unable to parse max tree entry len: x"),
        ("largePathname=warn:", "unable to parse max tree entry len: "),
        ("largePathname=warn:08", "unable to parse max tree entry len: 08"),
        ("largePathname=warn:9223372036854775808", "unable to parse max tree entry len: 9223372036854775808"),
        ("largePathname=warn:9007199254740993k", "unable to parse max tree entry len: 9007199254740993k"),
        ("skiplist", "skiplist requires a path"),
    ] {
        let error = Severities::strict().apply(list.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), words);
        let repo = testkit::TestRepo::bare(testkit::Hash::Sha1);
        let out = repo.try_git(["index-pack", "--stdin", &format!("--strict={list}")], b"");
        assert_eq!(String::from_utf8_lossy(&out.stderr).trim_end(), format!("fatal: {words}").trim_end());
    }
    assert!(matches!(severities.set(b"skiplist", b"x"), Err(SeverityError::UnknownId { .. })));
}

/// git accepts the names of exactly these findings.
#[test]
fn names_of_all_findings() {
    let repo = testkit::TestRepo::bare(testkit::Hash::Sha1);
    let pack =
        testkit::pack::PackBuilder::new(testkit::Hash::Sha1).entry(testkit::pack::Entry::full("blob", b"x")).build();
    let list: Vec<String> = MessageId::ALL.iter().map(|id| format!("{id}=error")).collect();
    let out = repo.try_git(["index-pack", "--stdin", &format!("--strict={}", list.join(","))], &pack.bytes);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    for id in MessageId::ALL {
        assert_eq!(MessageId::from_name(id.name().to_uppercase().as_bytes()), Some(*id));
    }
}

#[test]
fn skip_lists() {
    for (_, hash) in kinds() {
        let (a, b) = (hash.empty_tree(), hash.empty_blob());
        let mut list = SkipList::default();
        assert!(list.is_empty() && !list.contains(&a));
        let text = format!("# one\n\n \t{}\t\r\n{b}#two\n#{}\n{b}", a.to_string().to_uppercase(), id(hash, 1));
        list.parse(text.as_bytes(), hash).unwrap();
        assert!(list.contains(&a) && list.contains(&b) && !list.contains(&hash.null()) && !list.is_empty());
        for (text, at, words) in [
            (format!("{a}\n zz"), a.to_string().len() + 2, "zz".to_owned()),
            (format!("{a}x"), 0, format!("{a}x")),
            (format!("{a} {b}"), 0, format!("{a} {b}")),
            (format!("{}00", &a.to_string()[..30]), 0, format!("{}00", &a.to_string()[..30])),
        ] {
            let error = SkipList::default().parse(text.as_bytes(), hash).unwrap_err();
            assert_eq!((error.at, error.to_string()), (at, format!("invalid object name: {words}")));
            assert_eq!(error.line, 1 + text.matches('\n').count());
        }
        let other = HashKind::ALL.into_iter().find(|other| *other != hash).unwrap();
        assert!(SkipList::default().parse(text.as_bytes(), other).is_err());
    }
}

/// Time is linear in the content, whatever it is. A quadratic check would take minutes here.
#[test]
fn large_and_hostile() {
    let hash = HashKind::Sha1;
    let none = Severities::strict();
    let mut lines = Lines::default();
    // Each name begins the next: 2,000 files kept at once.
    let names: Vec<u8> = (1..2000).flat_map(|len| entry(hash, "100644", &vec![b'-'; len], 9)).collect();
    assert!(check(ObjectKind::Tree, &names, hash, &none, &mut lines), "{:?}", lines.lines);
    assert_eq!(lines.entries, 1999);
    let many: Vec<u8> = (0..200_000).flat_map(|n| entry(hash, "100644", format!("{n:06}-").as_bytes(), 9)).collect();
    assert!(check(ObjectKind::Tree, &many, hash, &none, &mut lines));
    let name = vec![b'x'; 1 << 20];
    check(ObjectKind::Tree, &entry(hash, "100644", &name, 9), hash, &none, &mut lines);
    assert_eq!(lines.lines, ["error largePathname: contains excessively large pathname"]);
    let header = [b"tree ".as_slice(), &name].concat();
    check(ObjectKind::Commit, &header, hash, &none, &mut lines);
    check(ObjectKind::Tag, &header, hash, &none, &mut lines);
    // A long bad name, and many keys: told once.
    let mut lines = Lines::default();
    let modules = [b"[submodule \"../", &name[..], b"\"]\n", &b"x\n".repeat(1 << 18)].concat();
    assert!(!fsck::gitmodules(&modules, &none, &mut lines));
    assert_eq!(lines.lines.len(), 1);
    for url in [b"/..".repeat(1 << 18), b"%0".repeat(1 << 18), b"a/../".repeat(1 << 18), b"../".repeat(1 << 18)] {
        let modules = [b"[submodule \"a\"]\nurl=http://h/", &url[..], b"\nurl=../", &url].concat();
        fsck::gitmodules(&modules, &none, &mut lines);
    }
    fsck::gitattributes(&vec![b'\n'; 1 << 20], &none, &mut lines);
}

/// What is told of a tree does not depend on the trees before it; and every entry is told, of this tree or the one
/// before.
#[test]
fn trees_one_after_the_other() {
    struct All(Lines, std::collections::HashSet<(u32, Vec<u8>)>);
    impl fsck::Sink for All {
        fn finding(&mut self, finding: fsck::Finding<'_>) {
            self.0.finding(finding);
        }
        fn special(&mut self, special: fsck::Special, id: &[u8]) {
            self.0.special(special, id);
        }
        fn entry(&mut self, mode: Mode, id: &[u8]) {
            self.0.entry(mode, id);
            self.1.insert((mode.0, id.to_vec()));
        }
    }
    let mut rng = Rng::new(7);
    for (_, hash) in kinds() {
        for severities in [Severities::strict(), {
            let mut severities = Severities::default();
            severities.apply(b"badTree=ignore,treeNotSorted=ignore,duplicateEntries=ignore,hasDot=ignore").unwrap();
            severities
        }] {
            let mut checker = TreeCheck::new(hash, severities.clone());
            let mut all = All(Lines::default(), Default::default());
            let (mut entries, mut told, mut unsound) = (0, 0, 0);
            let mut tree: Vec<(String, &str, u8)> = Vec::new();
            for round in 0..6000 {
                if round % 100 == 0 {
                    tree = (0..40)
                        .map(|n| (format!("{}{n}", ["f", "ab-", "a.", "z"][n % 4]), "100644", n as u8 + 1))
                        .collect();
                }
                for _ in 0..rng.below(4) {
                    let at = rng.below(tree.len() as u64 + 1) as usize;
                    match rng.below(6) {
                        0 if at < tree.len() => drop(tree.remove(at)),
                        1 | 2 if at < tree.len() => tree[at].2 = rng.below(250) as u8 + 1,
                        3 if at < tree.len() => {
                            tree[at].1 = ["40000", "100755", "120000", "160000"][rng.below(4) as usize]
                        }
                        4 => {
                            const NAMES: [&str; 12] =
                                ["a", "ab", "ab-", "a.", "a0", "f1", "f1-", "f1.c", "z", ".gitmodules", "g", "x"];
                            let some = if rng.below(8) == 0 { 12 } else { 9 };
                            let name = NAMES[rng.below(some) as usize];
                            tree.push((name.to_owned(), ["100644", "40000"][rng.below(2) as usize], round as u8 | 1));
                        }
                        _ if rng.below(10) == 0 => {
                            let odd = ["a/b", ".", "x~1", ".git", "a\\b"][rng.below(5) as usize];
                            tree.insert(
                                at,
                                (odd.to_owned(), ["100644", "100664", "0100644"][rng.below(3) as usize], 3),
                            );
                        }
                        _ => {}
                    }
                }
                if rng.below(20) != 0 {
                    tree.sort_by_key(|(name, mode, _)| format!("{name}{}", if *mode == "40000" { "/" } else { "" }));
                    if rng.below(3) != 0 {
                        tree.dedup_by(|a, b| a.0 == b.0);
                    }
                }
                let mut content: Vec<u8> =
                    tree.iter().flat_map(|(name, mode, n)| entry(hash, mode, name.as_bytes(), *n)).collect();
                if rng.below(30) == 0 {
                    mutate(&mut rng, &mut content, TREE_WORDS);
                }
                let mut alone = All(Lines::default(), Default::default());
                let sound = check(ObjectKind::Tree, &content, hash, &severities, &mut alone);
                let before = all.0.entries;
                all.0.lines.clear();
                assert_eq!(checker.check(&content, &mut all), sound, "round {round}");
                assert_eq!(all.0.lines, alone.0.lines, "round {round}");
                assert!(alone.1.is_subset(&all.1), "round {round}");
                assert!(alone.0.special.iter().all(|special| all.0.special.contains(special)), "round {round}");
                entries += tree.len();
                told += all.0.entries - before;
                unsound += usize::from(!all.0.lines.is_empty());
            }
            assert!(told < entries * 3 / 4, "what trees share is passed over: {told} of {entries}");
            assert!(unsound > 100);
        }
    }
}
