//! The seam: every backend gives the same bytes and refuses the same streams. Run with `--features sirocco` as well.

use packstone_pack_format::zlib::{Backend, Deflate, Inflate, ZlibError, max_inflated_len};
use testkit::{io::Rng, pack::deflate};

/// Contents of many shapes.
fn samples() -> Vec<Vec<u8>> {
    let mut rng = Rng::new(5);
    let mut samples = vec![
        Vec::new(),
        b"a".to_vec(),
        b"hello\n".to_vec(),
        vec![0; 100_000],
        b"abcdefgh".repeat(10_000),
        (0..70_000u32).flat_map(|i| i.wrapping_mul(i).to_le_bytes()).collect(),
    ];
    for len in [1, 2, 100, 257, 258, 259, 4096, 32_767, 32_768, 33_000, 70_000] {
        samples.push(rng.bytes(len));
        samples.push((0..len).map(|_| b"ab \n"[rng.below(4) as usize]).collect());
    }
    samples
}

/// What each backend says, which must be the same: the bytes used and made, or a refusal.
fn exact(input: &[u8], size: usize) -> Result<(usize, Vec<u8>), ZlibError> {
    let mut answers = Backend::ALL.iter().map(|&backend| {
        let mut out = vec![0xaa; size];
        let result = Inflate::with_backend(backend).inflate_exact(input, &mut out);
        result.map(|used| (used, out))
    });
    let first = answers.next().unwrap();
    for other in answers {
        assert_eq!(first.is_ok(), other.is_ok(), "{first:?} {other:?} {input:?}");
        if first.is_ok() {
            assert!(first == other);
        }
    }
    first
}

#[test]
fn round_trips() {
    for content in samples() {
        for level in -1..=9 {
            for &backend in Backend::ALL {
                let mut stream = b"before".to_vec();
                let mut deflate = Deflate::with_backend(backend, level);
                // Twice with one state: the second stream is like the first.
                deflate.deflate(&content, &mut stream);
                let len = stream.len();
                deflate.deflate(&content, &mut stream);
                assert_eq!(stream[6..len], stream[len..]);
                let stream = &stream[6..len];
                let (used, out) = exact(stream, content.len()).unwrap();
                assert!(used == stream.len() && out == content);
                // What follows is not looked at.
                let (used, out) = exact(&[stream, b"\x78\x9cmore"].concat(), content.len()).unwrap();
                assert!(used == stream.len() && out == content);
                assert!(content.len() as u64 <= max_inflated_len(stream.len()));
            }
        }
    }
}

#[test]
fn wrong_sizes_and_cuts() {
    let mut inflates: Vec<_> = Backend::ALL.iter().map(|&backend| Inflate::with_backend(backend)).collect();
    for content in samples().into_iter().filter(|content| content.len() < 5000) {
        for level in [0, 1, 6] {
            let stream = deflate(&content, level);
            let size = content.len();
            for more in [1, 2, 300] {
                let expected = (size + more) as u64;
                assert_eq!(exact(&stream, size + more), Err(ZlibError::TooShort { expected }));
            }
            for less in [1, 2, 300] {
                if let Some(len) = size.checked_sub(less) {
                    assert_eq!(exact(&stream, len), Err(ZlibError::TooLong { expected: len as u64 }));
                }
            }
            for cut in (0..stream.len()).rev().take(40).chain(0..stream.len().min(20)) {
                assert_eq!(exact(&stream[..cut], size), Err(ZlibError::Truncated), "{cut} of {}", stream.len());
            }
            for at in stream.len() - 4..stream.len() {
                let mut wrong = stream.clone();
                wrong[at] ^= 0x10;
                assert_eq!(exact(&wrong, size), Err(ZlibError::Corrupt));
            }
            // A state that has seen all that is as good as new.
            for inflate in &mut inflates {
                let mut out = vec![0; size];
                assert!(inflate.inflate_exact(&stream[..stream.len() / 2], &mut out).is_err());
                assert_eq!(inflate.inflate_exact(&stream, &mut out), Ok(stream.len()));
                assert!(out == content);
            }
        }
    }
}

#[test]
fn heads_that_are_not_zlib() {
    let good = deflate(b"hello, hello", 6);
    for (at, byte) in [(0, 0x79), (0, 0x08), (1, 0x9d), (0, 0), (2, 0x07), (2, 0xff)] {
        let mut bad = good.clone();
        bad[at] = byte;
        assert_eq!(exact(&bad, 12), Err(ZlibError::Corrupt), "{at} {byte:#x}");
    }
    // With a preset dictionary: FDICT, a header check that is right, and an identifier.
    assert_eq!(exact(b"\x78\xbb\0\0\0\x01\x03\0\0\0\0\x01", 0), Err(ZlibError::Corrupt));
    // A smaller window than its matches need is refused; than 32 KiB but enough, accepted. All 256 first bytes agree.
    for cmf in 0..=255u8 {
        let flg = (31 - u16::from(cmf) * 256 % 31) as u8 % 31;
        let mut stream = good.clone();
        (stream[0], stream[1]) = (cmf, flg);
        let _ = exact(&stream, 12);
    }
    // Gzip, and bare deflate.
    assert_eq!(exact(b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0", 0), Err(ZlibError::Corrupt));
    assert!(exact(&good[2..], 12).is_err());
}

/// Any single byte changed, any size: backends agree on acceptance and on bytes.
#[test]
fn mutations_are_judged_alike() {
    let mut rng = Rng::new(11);
    for content in samples().into_iter().filter(|content| content.len() < 300) {
        for level in [0, 1, 9] {
            let stream = deflate(&content, level);
            for at in 0..stream.len().min(60) {
                let mut changed = stream.clone();
                changed[at] ^= 1 << rng.below(8);
                for size in [content.len(), content.len() + 1, 0, 700] {
                    let _ = exact(&changed, size);
                }
            }
        }
    }
    for _ in 0..2000 {
        let mut noise = b"\x78\x9c".to_vec();
        let len = rng.below(40) as usize;
        noise.extend(rng.bytes(len));
        for size in [0, 1, 5, 300] {
            let _ = exact(&noise, size);
        }
    }
}

/// Empty blocks, as a flush leaves them, may come after the last byte.
#[test]
fn empty_blocks() {
    let adler = |content: &[u8]| {
        let (a, b) = content.iter().fold((1u32, 0u32), |(a, b), &byte| {
            let a = (a + u32::from(byte)) % 65_521;
            (a, (b + a) % 65_521)
        });
        (b << 16 | a).to_be_bytes()
    };
    for content in [&b""[..], b"hello"] {
        let mut stream = b"\x78\x01".to_vec();
        if !content.is_empty() {
            stream.extend([0, content.len() as u8, 0, !(content.len() as u8), 0xff]);
            stream.extend_from_slice(content);
        }
        for _ in 0..3 {
            stream.extend([0, 0, 0, 0xff, 0xff]);
        }
        stream.extend([1, 0, 0, 0xff, 0xff]);
        stream.extend(adler(content));
        assert_eq!(exact(&stream, content.len()), Ok((stream.len(), content.to_vec())));
    }
}

#[test]
fn claims_do_not_allocate() {
    let stream = deflate(&[0; 1000], 9);
    let mut out = b"kept".to_vec();
    let mut inflate = Inflate::new();
    for claim in [max_inflated_len(stream.len()) + 1, 1 << 40, u64::MAX] {
        let error = inflate.inflate_into(&stream, claim, &mut out).unwrap_err();
        assert_eq!(error, ZlibError::TooShort { expected: claim });
    }
    assert!(inflate.inflate_into(&stream, 1001, &mut out).is_err());
    assert!(out == b"kept" && out.capacity() < 1 << 20);
    inflate.inflate_into(&stream, 1000, &mut out).unwrap();
    assert_eq!(out.len(), 1004);
}

#[test]
fn prefixes() {
    let content = b"abcdefgh".repeat(20);
    let stream = deflate(&content, 6);
    let mut inflate = Inflate::new();
    for len in 0..content.len() {
        let mut out = vec![0; len];
        let (used, made) = inflate.inflate_prefix(&stream, &mut out).unwrap();
        assert!(used <= stream.len() && made == len && out == content[..len]);
    }
    // More room than content: it ends, verified.
    let mut out = vec![0; content.len() + 9];
    assert_eq!(inflate.inflate_prefix(&stream, &mut out), Ok((stream.len(), content.len())));
    let mut wrong = stream.clone();
    *wrong.last_mut().unwrap() ^= 1;
    assert_eq!(inflate.inflate_prefix(&wrong, &mut out), Err(ZlibError::Corrupt));
    // Nobody asked for what is wrong behind a full buffer.
    assert_eq!(inflate.inflate_prefix(&wrong, &mut out[..content.len()]).map(|(_, made)| made), Ok(content.len()));
    assert_eq!(inflate.inflate_prefix(&stream[..stream.len() - 1], &mut out), Err(ZlibError::Truncated));
    assert_eq!(inflate.inflate_prefix(b"", &mut out), Err(ZlibError::Truncated));
    assert_eq!(inflate.inflate_prefix(b"", &mut []), Ok((0, 0)));
}

/// In steps of every size, both ways, the result is that of the whole.
#[test]
fn steps() {
    for content in samples() {
        for (room, piece) in [(1, 1), (7, 3), (100, 1000), (70_000, 70_000)] {
            if content.len() > 5000 && room < 100 {
                continue;
            }
            let mut deflate = Deflate::new(6);
            let (mut stream, mut out) = (Vec::new(), vec![0; room]);
            deflate.reset();
            let mut rest = &content[..];
            loop {
                let end = rest.len().min(piece);
                let step = deflate.step(&rest[..end], &mut out, end == rest.len());
                stream.extend_from_slice(&out[..step.produced]);
                rest = &rest[step.consumed..];
                if step.done {
                    break;
                }
            }
            assert!(rest.is_empty());
            assert!(exact(&stream, content.len()).unwrap().1 == content);
            stream.extend_from_slice(b"trailing");
            let (mut inflate, mut back, mut rest) = (Inflate::new(), Vec::new(), &stream[..]);
            inflate.reset();
            loop {
                let step = inflate.step(&rest[..rest.len().min(piece)], &mut out).unwrap();
                back.extend_from_slice(&out[..step.produced]);
                rest = &rest[step.consumed..];
                if step.done {
                    break;
                }
                assert!(step.consumed + step.produced > 0);
            }
            assert!(rest == b"trailing" && back == content);
        }
    }
}

#[test]
#[should_panic(expected = "levels")]
fn no_such_level() {
    let _ = Deflate::new(10);
}

/// The decoder of first bytes says what the other says: of every kind of block, cut anywhere, and with any bit changed.
#[test]
fn first_bytes() {
    let mut inflate = Inflate::new();
    let mut check = |stream: &[u8], len: usize| {
        let (mut first, mut prefix) = (vec![0; len], vec![0; len]);
        let made = inflate.inflate_first(stream, &mut first);
        let expected = inflate.inflate_prefix(stream, &mut prefix).map(|(_, made)| made);
        assert_eq!(made, expected, "{len} bytes of {stream:?}");
        assert!(made.is_err() || first == prefix, "{len} bytes of {stream:?}");
    };
    let mut rng = Rng::new(9);
    for content in samples() {
        for level in [0, 1, 6, 9] {
            let stream = deflate(&content, level);
            for len in [0, 1, 2, 19, 20, 21, 63, 64, 65] {
                check(&stream, len);
            }
            for _ in 0..40 {
                let mut stream = stream[..stream.len().min(600)].to_vec();
                check(&stream[..rng.below(stream.len() as u64 + 1) as usize], 20);
                let at = rng.below(stream.len() as u64) as usize;
                stream[at] ^= 1 << rng.below(8);
                check(&stream, 20);
            }
        }
    }
    // Anything behind a valid start.
    for _ in 0..20_000 {
        let len = rng.below(200) as usize;
        let mut stream = vec![0x78, 0x9c];
        stream.extend(rng.bytes(len));
        check(&stream, rng.below(65) as usize);
    }
}
