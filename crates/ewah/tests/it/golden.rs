//! Bytes that git wrote, taken apart and put together again.

use std::path::Path;
use std::process::Command;

use packstone_ewah::{Builder, Ewah, EwahBuf, ops};

/// Bit 0, bit 63 and bits 128 to 319 of 320, as git's builder lays them out; checked by hand against the format
/// document.
#[test]
fn a_bitmap_by_hand() {
    let mut b = Builder::new();
    for bit in [0, 63].into_iter().chain(128..320) {
        b.set(bit).unwrap();
    }
    let mut out = Vec::new();
    b.finish().append_to(&mut out);
    let hex: String = out.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(
        hex,
        "00000140\
         00000004\
         0000000200000000\
         8000000000000001\
         0000000000000002\
         0000000000000007\
         00000003"
    );
}

fn git(dir: &Path, args: &[&str], stdin: &str) {
    use std::io::Write;
    let mut child = Command::new("git")
        .current_dir(dir)
        .args(args)
        .env("HOME", dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env_remove("GIT_DIR")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "git {args:?}");
}

/// A history of `commits` commits, each changing one of 40 files, every tenth a merge.
fn history(commits: u32) -> String {
    let mut s = String::new();
    for i in 1..=commits {
        s += &format!("commit refs/heads/main\nmark :{i}\ncommitter A <a@b> {} +0000\ndata 2\nm\n", 1_500_000_000 + i);
        if i % 10 == 0 && i > 10 {
            s += &format!("merge :{}\n", i - 7);
        }
        s += &format!("M 100644 inline d{}/f{}\ndata {}\n{i}\n", i % 5, i % 40, i.to_string().len() + 1);
    }
    s
}

/// Every bitmap of a `.bitmap` file: the four by type, then the entries. Knows just enough of the file.
fn bitmaps(file: &[u8], hash_len: usize) -> (Vec<&[u8]>, Vec<&[u8]>) {
    let count = u32::from_be_bytes(file[8..12].try_into().unwrap());
    let mut at = 12 + hash_len;
    let mut next = |skip: usize| {
        at += skip;
        let (_, used) = Ewah::parse(&file[at..]).unwrap();
        at += used;
        &file[at - used..at]
    };
    ((0..4).map(|_| next(0)).collect(), (0..count).map(|_| next(6)).collect())
}

#[test]
fn git_s_own_bitmaps_come_out_as_they_went_in() {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "-q", "--bare", "."], "");
    git(dir.path(), &["fast-import", "--quiet"], &history(700));
    git(dir.path(), &["-c", "pack.threads=1", "repack", "-adbq"], "");
    let packs = std::fs::read_dir(dir.path().join("objects/pack")).unwrap();
    let path = packs.map(|e| e.unwrap().path()).find(|p| p.extension().is_some_and(|e| e == "bitmap")).unwrap();
    let file = std::fs::read(path).unwrap();
    let (types, entries) = bitmaps(&file, 20);
    assert!(entries.len() > 50);

    let mut out = Vec::new();
    let mut sets = 0;
    for bytes in types.iter().chain(&entries) {
        let (e, _) = Ewah::parse(bytes).unwrap();
        out.clear();
        EwahBuf::from(e).append_to(&mut out);
        assert_eq!(&out, bytes, "normalised");
        out.clear();
        e.to_owned().append_to(&mut out);
        assert_eq!(&out, bytes, "copied");
        let dense: Vec<u64> = e.words().take(e.covered_words()).collect();
        let mut b = Builder::new();
        b.push_literals(&dense).unwrap();
        out.clear();
        b.finish_with_bits(e.bit_len() as u32).unwrap().append_to(&mut out);
        assert_eq!(&out, bytes, "from words");
        // git spells out zeros at the end where an XOR left them; a set does not know of those.
        let by_set = EwahBuf::from_roaring(&e.to_roaring(), e.bit_len() as u32).unwrap();
        assert_eq!(by_set.as_ewah(), e);
        if dense.last().is_some_and(|w| *w != 0) {
            out.clear();
            by_set.append_to(&mut out);
            assert_eq!(&out, bytes, "by way of roaring");
            sets += 1;
        }
    }
    assert!(sets > 4);
    // The four bitmaps by type part the objects among them.
    let types: Vec<Ewah<'_>> = types.iter().map(|b| Ewah::parse(b).unwrap().0).collect();
    let all = types.iter().fold(EwahBuf::new(), |acc, t| ops::or(acc.as_ewah(), *t));
    let sum: u64 = types.iter().map(Ewah::count_ones).sum();
    assert_eq!(all.as_ewah().count_ones(), sum);
    assert_eq!(all.as_ewah().bit_len(), sum);
}
