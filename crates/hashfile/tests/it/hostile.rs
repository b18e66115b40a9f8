//! H2: sinks that fail. Nothing that failed may look like success, and what was taken is known to the byte.

use std::io::{self, Cursor, Seek, SeekFrom, Write};

use object::HashKind;
use packstone_hashfile::{HashFile, Options, SetLen, WriteError};
use testkit::io::{FailAfter, Ragged, Rng};

use crate::{KINDS, bodies, with_trailer};

/// A sink that is full after `k` bytes, for every `k`: `finish` fails unless everything fits, and what the writer knows
/// about the sink is exact.
#[test]
fn failing_after_every_byte() {
    let content = Rng::new(1).bytes(300);
    for kind in KINDS {
        let whole = content.len() + kind.len();
        for buffer in [1, 7, 64, 299, 300, 4096] {
            for threaded in [false, true] {
                // One thread a round is slow, and the rounds differ little.
                for k in (0..=whole).step_by(if threaded { 17 } else { 1 }) {
                    let options = Options::default().buffer_size(buffer).hash_on_thread(threaded);
                    let sink = FailAfter::new(Ragged::new(Vec::new(), k as u64, 40), k as u64);
                    let mut out = HashFile::with_options(sink, kind, &options);
                    let written = content.chunks(23).try_for_each(|piece| out.write_all(piece));
                    if written.is_err() || k < content.len() {
                        // One that passed the buffer by has failed already and left nothing to flush.
                        let error = written.and_then(|()| out.flush()).unwrap_err();
                        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
                        assert_eq!(out.taken(), k as u64);
                        let parts = out.into_parts().unwrap();
                        assert_eq!(parts.inner.inner.inner, content[..k]);
                        assert_eq!(parts.checksum.as_bytes(), bodies::hash(kind, &content[..k]));
                        assert_eq!(parts.unwritten, content[k..k + parts.unwritten.len()]);
                    } else {
                        match out.finish() {
                            Ok((sink, _)) => {
                                assert_eq!(k, whole);
                                assert_eq!(sink.inner.inner, with_trailer(kind, &content));
                            }
                            Err(WriteError::Io { taken, source }) => {
                                assert!(k < whole);
                                assert_eq!((taken, source.kind()), (k as u64, io::ErrorKind::StorageFull));
                            }
                            Err(e) => panic!("{e}"),
                        }
                    }
                }
            }
        }
    }
}

/// After an error that goes away, writing goes on where it stopped.
#[test]
fn an_error_that_goes_away() {
    struct Valve(Vec<u8>, u32);
    impl Write for Valve {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 += 1;
            if !self.1.is_multiple_of(3) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let n = bytes.len().min(11);
            self.0.extend_from_slice(&bytes[..n]);
            Ok(n)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let content = Rng::new(2).bytes(1000);
    for threaded in [false, true] {
        let options = Options::default().buffer_size(32).hash_on_thread(threaded);
        let mut out = HashFile::with_options(Valve(Vec::new(), 0), HashKind::Sha1, &options);
        let mut at = 0;
        while at < content.len() {
            match out.write(&content[at..(at + 50).min(content.len())]) {
                Ok(n) => at += n,
                Err(e) => assert_eq!(e.kind(), io::ErrorKind::WouldBlock),
            }
            assert_eq!(out.total(), at as u64);
        }
        while let Err(e) = out.flush() {
            assert_eq!(e.kind(), io::ErrorKind::WouldBlock);
        }
        let (sink, id) = out.finish_without_trailer().unwrap();
        assert_eq!(sink.0, content);
        assert_eq!(id.as_bytes(), bodies::hash(HashKind::Sha1, &content));
    }
}

#[test]
fn a_failing_flush_fails_the_end() {
    let mut out = HashFile::new(FailAfter::new(Vec::new(), 23).fail_flush(), HashKind::Sha1);
    out.write_all(b"abc").unwrap();
    assert!(matches!(out.finish(), Err(WriteError::Io { taken: 23, .. })));
}

#[test]
fn sinks_that_lie() {
    struct Liar(usize);
    impl Write for Liar {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Ok(self.0)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for (claim, kind) in [(0, io::ErrorKind::WriteZero), (usize::MAX, io::ErrorKind::Other)] {
        let mut out = HashFile::with_options(Liar(claim), HashKind::Sha1, &Options::default().buffer_size(8));
        assert_eq!(out.write_all(&[0; 100]).unwrap_err().kind(), kind);
        assert!(out.finish().is_err());
    }
}

/// When cutting the sink fails half-way nobody knows where it is: no more bytes, no trailer.
#[test]
fn a_cut_that_fails_poisons() {
    struct Stuck(Cursor<Vec<u8>>);
    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl Seek for Stuck {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.seek(to)
        }
    }
    impl SetLen for Stuck {
        fn set_len(&mut self, _: u64) -> io::Result<()> {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
    let options = Options::default().buffer_size(4);
    let mut out = HashFile::with_options(Stuck(Cursor::default()), HashKind::Sha1, &options);
    let place = out.checkpoint().unwrap();
    out.write_all(b"0123456789").unwrap();
    assert!(matches!(out.truncate(&place), Err(WriteError::Io { source, .. })
        if source.kind() == io::ErrorKind::PermissionDenied));
    assert!(out.write_all(b"more").is_err());
    assert!(out.truncate(&place).is_err());
    assert!(out.finish().is_err());
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use std::fs::OpenOptions;

    /// The disk is full: the error keeps the system's number, whichever way the bytes take.
    #[test]
    fn dev_full() {
        let content = vec![0; 3 << 20];
        for (len, threaded) in [(10, false), (1 << 18, false), (3 << 20, false), (3 << 20, true)] {
            let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
            let options = Options::default().hash_on_thread(threaded);
            let error = std::thread::scope(|scope| {
                let mut out = HashFile::scoped(scope, full, HashKind::Sha1, &options);
                match out.write_shared(&content[..len]) {
                    Err(e) => e,
                    Ok(()) => io::Error::from(out.finish().unwrap_err()),
                }
            });
            assert_eq!(error.raw_os_error(), Some(28), "ENOSPC");
        }
    }

    /// Nobody reads: known as such, so that a program can end quietly.
    #[test]
    fn closed_pipe() {
        // Not a pipe: a program that another test is about to start may hold its reading end for a moment.
        let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        reader.shutdown(std::net::Shutdown::Both).unwrap();
        let mut out = HashFile::new(writer, HashKind::Sha1);
        out.write_all(b"x").unwrap();
        assert!(out.finish().unwrap_err().is_broken_pipe());
    }
}
