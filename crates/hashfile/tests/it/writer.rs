//! What is written, in which calls, and how it ends.

use std::fs::File;
use std::io::{Cursor, Seek, SeekFrom, Write};
use std::thread;

use object::HashKind;
use packstone_hashfile::{
    Compare, DEFAULT_IO_BUFFER_SIZE, DifferenceKind, HashFile, Options, Trailer, VerifyError, WriteError, verify,
    verify_file, verify_reader,
};
use testkit::io::{Counting, Rng, Short};

use crate::{KINDS, bodies, with_trailer};

const BUF: usize = DEFAULT_IO_BUFFER_SIZE;

/// Every size around the edges of the buffer, by `write`s of every such size.
#[test]
fn every_write_is_a_full_buffer_but_the_last() {
    let content = Rng::new(1).bytes(5 * BUF + 77);
    for piece in [100, 4096, 65536, BUF - 1, BUF, BUF + 1, 3 * BUF + 5, content.len()] {
        for threaded in [false, true] {
            let options = Options::default().hash_on_thread(threaded);
            let mut out = HashFile::with_options(Counting::new(Vec::new()), HashKind::Sha1, &options);
            for piece in content.chunks(piece) {
                out.write_all(piece).unwrap();
            }
            let (sink, _) = out.finish().unwrap();
            let (last, full) = sink.sizes.split_last().unwrap();
            assert!(full.iter().all(|size| size % BUF == 0), "{piece}: {:?}", sink.sizes);
            assert_eq!(*last, 77 + 20, "the trailer goes with the rest");
            assert_eq!(sink.inner, with_trailer(HashKind::Sha1, &content));
        }
    }
}

#[test]
fn large_writes_pass_the_buffer_by() {
    let content = Rng::new(2).bytes(10 * BUF);
    let mut out = HashFile::new(Counting::new(Vec::new()), HashKind::Sha1);
    out.write_all(&content).unwrap();
    assert_eq!(out.get_ref().sizes, [8 * BUF, 2 * BUF], "1 MiB at most");
    assert_eq!(out.taken(), content.len() as u64);
}

#[test]
fn a_trailer_that_does_not_fit_gets_its_own_write() {
    let mut out = HashFile::new(Counting::new(Vec::new()), HashKind::Sha1);
    out.write_all(&vec![1; BUF - 1]).unwrap();
    assert_eq!(out.finish().unwrap().0.sizes, [BUF, 19]);
}

/// Three million entries of a git index once cost a `write` per 8 KiB (background, 1).
#[test]
fn the_hint_makes_one_write_of_a_small_file() {
    for hint in [0, 1000, 5000, 1 << 40] {
        let options = Options::default().size_hint(Some(hint)).hash_on_thread(true);
        let mut out = HashFile::with_options(Counting::new(Vec::new()), HashKind::Sha256, &options);
        for _ in 0..100 {
            out.write_all(&[3; 50]).unwrap();
        }
        assert_eq!(out.finish().unwrap().0.sizes, [5032], "hint {hint}: a wrong guess does no harm");
    }
}

#[test]
fn totals_count_what_is_buffered() {
    let mut out = HashFile::new(Vec::new(), HashKind::Sha1);
    out.write_all(b"abc").unwrap();
    assert_eq!((out.total(), out.taken(), out.get_ref().len()), (3, 0, 0));
    out.flush().unwrap();
    assert_eq!((out.total(), out.taken(), out.get_ref().len()), (3, 3, 3));
}

#[test]
fn without_hash_the_trailer_is_zero() {
    for kind in KINDS {
        let mut out = HashFile::with_options(Cursor::new(Vec::new()), kind, &Options::default().skip_hash(true));
        out.write_all(b"abc").unwrap();
        let place = out.checkpoint().unwrap();
        out.write_all(b"def").unwrap();
        out.truncate(&place).unwrap();
        let (file, id) = out.finish().unwrap();
        let file = file.into_inner();
        assert!(id.is_null());
        assert_eq!(file, [&b"abc"[..], &vec![0; kind.len()]].concat());
        assert_eq!(verify(&file, kind).unwrap(), Trailer::Skipped);
        assert_eq!(verify_reader(&file[..], kind).unwrap(), Trailer::Skipped);
    }
}

#[test]
fn without_trailer_the_hash_is_known_all_the_same() {
    for kind in KINDS {
        let mut out = HashFile::new(Vec::new(), kind);
        out.write_all(b"abc").unwrap();
        let (file, id) = out.finish_without_trailer().unwrap();
        assert_eq!((file.as_slice(), id.as_bytes()), (&b"abc"[..], &bodies::hash(kind, b"abc")[..]));
    }
}

#[test]
fn a_dropped_writer_leaves_no_trailer() {
    let mut file = Vec::new();
    let mut out = HashFile::new(&mut file, HashKind::Sha1);
    out.write_all(&vec![5; BUF + 10]).unwrap();
    drop(out);
    assert_eq!(file, vec![5; BUF]);
}

#[test]
fn crc_of_a_stretch() {
    let mut out = HashFile::with_options(Vec::new(), HashKind::Sha1, &Options::default().buffer_size(7));
    out.write_all(b"before").unwrap();
    out.crc32_begin();
    out.write_all(b"123456789").unwrap();
    assert_eq!(out.crc32_end(), 0xcbf4_3926, "the check value of CRC-32");
    out.crc32_begin();
    assert_eq!(out.crc32_end(), 0);
}

#[test]
#[should_panic(expected = "crc32_end without crc32_begin")]
fn a_crc_must_be_begun() {
    HashFile::new(Vec::new(), HashKind::Sha1).crc32_end();
}

/// H1 on a real file, with output that starts in the middle of it, around the real buffer's size.
#[test]
fn rewinding_a_file() {
    let content = Rng::new(3).bytes(3 * BUF);
    for kind in KINDS {
        for a in [0, 1, BUF - 1, BUF, BUF + 1] {
            for b in [0, 1, BUF - 1, BUF + 1, 2 * BUF] {
                for threaded in [false, true] {
                    let mut file = tempfile::tempfile().unwrap();
                    file.write_all(b"someone else's").unwrap();
                    let options = Options::default().hash_on_thread(threaded);
                    let mut out = HashFile::with_options(file, kind, &options);
                    out.write_all(&content[..a]).unwrap();
                    let place = out.checkpoint().unwrap();
                    out.write_all(&content[..b]).unwrap();
                    out.truncate(&place).unwrap();
                    out.write_all(b"end").unwrap();
                    let (mut file, _) = out.finish().unwrap();
                    file.seek(SeekFrom::Start(0)).unwrap();
                    let mut found = Vec::new();
                    std::io::Read::read_to_end(&mut file, &mut found).unwrap();
                    let want = with_trailer(kind, &[&content[..a], b"end"].concat());
                    assert_eq!(found, [&b"someone else's"[..], &want].concat());
                }
            }
        }
    }
}

#[test]
fn a_checkpoint_off_the_stream_is_refused() {
    let new = || HashFile::with_options(Cursor::new(Vec::new()), HashKind::Sha1, &Options::default().buffer_size(4));
    let mut out = new();
    out.write_all(b"0123").unwrap();
    let early = out.checkpoint().unwrap();
    out.write_all(b"45678").unwrap();
    let late = out.checkpoint().unwrap();
    out.truncate(&late).unwrap();
    out.truncate(&early).unwrap();
    out.write_all(b"abcdefgh").unwrap(); // longer than before, but other bytes
    for stale in [&late, &new().checkpoint().unwrap()] {
        assert!(matches!(out.truncate(stale), Err(WriteError::StaleCheckpoint { total: 12, .. })));
    }
    out.truncate(&early).unwrap();
    assert_eq!(out.finish().unwrap().0.into_inner(), with_trailer(HashKind::Sha1, b"0123"));
}

/// Lent, copied, small and large pieces in turn, into a sink that takes little: the same bytes, CRCs and calls.
#[test]
fn lending_changes_nothing_but_the_time() {
    let source = Rng::new(4).bytes(6 * BUF);
    for kind in KINDS {
        for (most, threaded) in [(usize::MAX, true), (usize::MAX, false), (50_000, true), (BUF, true)] {
            let sink = Short { inner: Counting::new(Vec::new()), most };
            let options = Options::default().hash_on_thread(threaded);
            let mut want = Vec::new();
            let (sink, crc) = thread::scope(|scope| {
                let mut out = HashFile::scoped(scope, sink, kind, &options);
                out.crc32_begin();
                for (i, len) in [10, 3 * BUF, 0, 1, BUF, 6 * BUF, 2 * BUF + 1, 99].into_iter().enumerate() {
                    match i % 3 {
                        2 => out.write_all(&source[i..len.max(i)]).unwrap(),
                        _ => out.write_shared(&source[i..len.max(i)]).unwrap(),
                    }
                    want.extend_from_slice(&source[i..len.max(i)]);
                    assert_eq!(out.total(), want.len() as u64);
                }
                let crc = out.crc32_end();
                (out.finish().unwrap().0, crc)
            });
            assert_eq!(crc, bodies::crc32(&want));
            assert_eq!(sink.inner.inner, with_trailer(kind, &want));
        }
    }
}

#[test]
fn comparing_says_where() {
    let file = with_trailer(HashKind::Sha1, b"0123456789");
    let run = |written: &[u8], existing: &[u8]| {
        let mut out = HashFile::new(Compare::new(existing), HashKind::Sha1);
        out.write_all(written).unwrap();
        let (compare, _) = out.finish()?;
        let at = compare.at();
        compare.finish().map(|_| at).map_err(|source| WriteError::Io { taken: at, source })
    };
    assert_eq!(run(b"0123456789", &file).unwrap(), 30);
    match run(b"012345678", &file) {
        Err(WriteError::Differs(d)) => assert_eq!(d.at, 9),
        other => panic!("{other:?}"),
    }
    match run(b"0123456789", &file[..29]) {
        Err(WriteError::Differs(d)) => assert_eq!((d.at, d.kind), (29, DifferenceKind::ExistingShorter)),
        other => panic!("{other:?}"),
    }
    let longer = [&file[..], b"x"].concat();
    let error = run(b"0123456789", &longer).unwrap_err();
    let text = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(text, "existing file differs at byte 30: it goes on");
}

#[test]
fn verifying_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    assert!(matches!(verify_file(&path, HashKind::Sha1), Err(VerifyError::Open { .. })));
    for kind in KINDS {
        for len in [0, kind.len() - 1] {
            let short = vec![1; len];
            assert!(matches!(verify(&short, kind), Err(VerifyError::Truncated { .. })));
            assert!(matches!(verify_reader(&short[..], kind), Err(VerifyError::Truncated { .. })));
        }
        let mut file = with_trailer(kind, &vec![9; 2 * BUF]);
        std::fs::write(&path, &file).unwrap();
        assert!(matches!(verify_file(&path, kind), Ok(Trailer::Matches(_))));
        *file.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &file).unwrap();
        match verify_file(&path, kind) {
            Err(VerifyError::File { path: found, source }) => {
                assert_eq!(found, path);
                assert!(matches!(*source, VerifyError::Mismatch { at, .. } if at == 2 * BUF as u64));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(
        verify_reader(File::open(dir.path()).unwrap(), HashKind::Sha1),
        Err(VerifyError::Io { at: 0, .. })
    ));
}
