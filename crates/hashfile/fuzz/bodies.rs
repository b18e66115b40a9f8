// What the fuzz targets do, as plain functions: `tests/it/regressions.rs` runs them over `regressions/`, and
// `tests/it/props.rs` over random bytes.

use std::cell::Cell;
use std::io::{self, Cursor, Seek, SeekFrom, Write};

use object::HashKind;
use packstone_hashfile::{Checkpoint, HashFile, Options, SetLen};
use sha1::Digest as _;

/// A sink that takes ragged pieces, is interrupted, and is full after `left` bytes until it is given more.
struct Sink {
    data: Cursor<Vec<u8>>,
    left: Cell<usize>,
    dice: u32,
    ragged: bool,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut most = bytes.len();
        if self.ragged {
            self.dice = self.dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if self.dice >> 30 == 0 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            most = most.min(1 + (self.dice >> 16) as usize % 97);
        }
        let most = most.min(self.left.get());
        if most == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.left.set(self.left.get() - most);
        self.data.write(&bytes[..most])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Sink {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.data.seek(to)
    }
}

impl SetLen for Sink {
    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.data.set_len(len)
    }
}

/// What a writer must equal: the bytes, and what the checkpoints saw.
struct Mark {
    at: Checkpoint,
    len: usize,
    crc: Option<usize>,
}

pub(crate) fn hash(kind: HashKind, bytes: &[u8]) -> Vec<u8> {
    match kind {
        HashKind::Sha1 => sha1::Sha1::digest(bytes).to_vec(),
        _ => sha2::Sha256::digest(bytes).to_vec(),
    }
}

/// CRC-32 of ISO 3309, a bit at a time.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// Drives a writer and a `Vec<u8>` by the same operations, taken from `bytes`, and compares them after each.
pub(crate) fn ops_hashfile(bytes: &[u8]) {
    let mut input = bytes.iter().copied();
    let flags = input.next().unwrap_or(0);
    let kind = if flags & 1 == 0 { HashKind::Sha1 } else { HashKind::Sha256 };
    let skip = flags & 2 != 0;
    let options = Options::default()
        .buffer_size(1 + input.next().unwrap_or(63) as usize * 3)
        .skip_hash(skip)
        .hash_on_thread(flags & 4 != 0)
        .size_hint((flags & 8 != 0).then_some(u64::from(flags) * 5));
    let sink =
        Sink { data: Cursor::new(Vec::new()), left: Cell::new(2000), dice: u32::from(flags), ragged: flags & 16 != 0 };
    // What is lent must outlive the thread.
    let source: Vec<u8> = (0..70_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();

    std::thread::scope(|scope| {
        let mut out = HashFile::scoped(scope, sink, kind, &options);
        let mut model: Vec<u8> = Vec::new();
        let mut crc: Option<usize> = None; // where it began
        let mut marks: Vec<Mark> = Vec::new();
        while let Some(op) = input.next() {
            let arg = input.next().unwrap_or(0) as usize;
            match op % 8 {
                0..=3 => {
                    let len = if op % 8 == 3 { arg * 13 } else { arg };
                    let piece = &source[arg..arg + len];
                    let result = match op & 0x80 {
                        0 => out.write_all(piece),
                        _ => out.write_shared(piece),
                    };
                    let accepted = out.total() as usize - model.len();
                    assert!(accepted == len || (result.is_err() && accepted < len));
                    model.extend_from_slice(&piece[..accepted]);
                }
                4 if op & 0x80 == 0 => {
                    let _ = out.flush();
                }
                4 => out.get_ref().left.set(arg * 32),
                5 => marks.push(Mark { at: out.checkpoint().expect("hashing cannot fail"), len: model.len(), crc }),
                6 => {
                    let Some(mark) = marks.get(arg % marks.len().max(1)) else { continue };
                    assert_eq!(out.truncate(&mark.at).is_ok(), mark.len <= model.len());
                    if mark.len <= model.len() {
                        model.truncate(mark.len);
                        crc = mark.crc;
                        // Those beyond are void from now on, even when the stream is as long again.
                        let len = mark.len;
                        marks.iter_mut().filter(|other| other.len > len).for_each(|other| other.len = usize::MAX);
                    }
                }
                _ => match crc.take() {
                    None => {
                        out.crc32_begin();
                        crc = Some(model.len());
                    }
                    Some(from) => assert_eq!(out.crc32_end(), crc32(&model[from..])),
                },
            }
            assert_eq!(out.total(), model.len() as u64);
            let taken = out.taken() as usize;
            assert!(taken <= model.len());
            assert_eq!(out.get_ref().data.get_ref()[..], model[..taken]);
        }
        let end = match flags & 32 {
            0 => {
                let parts = out.into_parts().expect("hashing cannot fail");
                let taken = parts.taken as usize;
                assert_eq!(parts.inner.data.get_ref()[..], model[..taken]);
                assert_eq!(parts.unwritten[..], model[taken..]);
                let want = if skip { vec![0; kind.len()] } else { hash(kind, &model[..taken]) };
                assert_eq!(parts.checksum.as_bytes(), want);
                return;
            }
            _ => out.finish(),
        };
        if let Ok((sink, id)) = end {
            let want = if skip { vec![0; kind.len()] } else { hash(kind, &model) };
            assert_eq!(id.as_bytes(), want);
            model.extend_from_slice(&want);
            assert_eq!(*sink.data.get_ref(), model);
        }
    });
}
