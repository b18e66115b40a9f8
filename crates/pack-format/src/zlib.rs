//! The only place that names a zlib library.
//!
//! [`Inflate`] and [`Deflate`] keep their state between streams, so that thousands of small entries cost no allocation.
//! Whole buffers are the common case and take the fast path; streams that do not fit memory go in [`Step`]s.
//!
//! Two libraries stand behind it. `zlib-rs` is always there. Feature `sirocco` adds the library of that name and makes it
//! the default for whole buffers. Inflated bytes, and which streams are refused, do not depend on the choice; deflated
//! bytes do. [`Backend`] picks one by hand.

use zlib_rs::{DeflateFlush, InflateFlush, Status};

mod first;

/// A stream that does not inflate to what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ZlibError {
    /// Not zlib data, a wrong Adler-32, or a need for a preset dictionary, which packs never have.
    #[error("corrupt zlib stream")]
    Corrupt,
    /// The input ends before the stream does.
    #[error("zlib stream ends early")]
    Truncated,
    /// The stream holds more than the expected bytes.
    #[error("zlib stream holds more than the expected {expected} bytes")]
    TooLong {
        /// Bytes that were expected.
        expected: u64,
    },
    /// The stream holds less than the expected bytes; or it cannot hold as many, being so short.
    #[error("zlib stream holds less than the expected {expected} bytes")]
    TooShort {
        /// Bytes that were expected.
        expected: u64,
    },
}

/// What one step of a stream did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Input bytes used up.
    pub consumed: usize,
    /// Output bytes written.
    pub produced: usize,
    /// The stream is complete, its checksum verified or written. What follows in the input is not part of it.
    pub done: bool,
}

/// The library that handles whole buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// `zlib-rs`, always there.
    ZlibRs,
    /// `sirocco`, faster.
    #[cfg(feature = "sirocco")]
    Sirocco,
}

impl Backend {
    /// All that were compiled in.
    pub const ALL: &[Backend] = &[
        Backend::ZlibRs,
        #[cfg(feature = "sirocco")]
        Backend::Sirocco,
    ];
}

impl Default for Backend {
    /// `sirocco` where it was compiled in.
    fn default() -> Self {
        #[cfg(feature = "sirocco")]
        return Backend::Sirocco;
        #[cfg(not(feature = "sirocco"))]
        return Backend::ZlibRs;
    }
}

/// The most bytes that a stream of `len` bytes can inflate to.
///
/// Deflate's densest code takes two bits for 258 bytes. So a claimed size can be refused before memory is taken for it.
pub const fn max_inflated_len(len: usize) -> u64 {
    (len as u64).saturating_mul(4 * 258)
}

/// Inflates zlib streams, one after the other, keeping its state.
///
/// Every whole-buffer call begins a new stream, and abandons one that was being stepped through.
pub struct Inflate {
    backend: Backend,
    /// Made when first needed: it is some 40 KiB, and `sirocco` does without it for whole buffers.
    zlib: Option<zlib_rs::Inflate>,
    #[cfg(feature = "sirocco")]
    sirocco: Option<Box<sirocco::inflate::Decoder>>,
}

impl Default for Inflate {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Inflate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inflate").field("backend", &self.backend).finish_non_exhaustive()
    }
}

impl Inflate {
    /// With the default backend. Allocates when first used.
    pub fn new() -> Self {
        Self::with_backend(Backend::default())
    }

    /// With that backend.
    pub fn with_backend(backend: Backend) -> Self {
        Self {
            backend,
            zlib: None,
            #[cfg(feature = "sirocco")]
            sirocco: None,
        }
    }

    /// Inflates the stream that `input` begins with, which must hold exactly `out.len()` bytes, checksum included.
    /// Returns the stream's own length; what follows it in `input` is not looked at.
    ///
    /// After an error, `out` is unspecified.
    pub fn inflate_exact(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, ZlibError> {
        match self.backend {
            Backend::ZlibRs => self.exact_zlib_rs(input, out),
            #[cfg(feature = "sirocco")]
            Backend::Sirocco => self.exact_sirocco(input, out),
        }
    }

    /// Like [`inflate_exact`](Self::inflate_exact), appending `size` bytes to `out`.
    ///
    /// A `size` that the input cannot hold is refused before memory is taken for it. After an error `out` is as before.
    pub fn inflate_into(&mut self, input: &[u8], size: u64, out: &mut Vec<u8>) -> Result<usize, ZlibError> {
        let start = out.len();
        let end = usize::try_from(size).ok().filter(|_| size <= max_inflated_len(input.len()));
        let Some(end) = end.and_then(|size| start.checked_add(size)) else {
            return Err(ZlibError::TooShort { expected: size });
        };
        out.resize(end, 0);
        let result = self.inflate_exact(input, out.get_mut(start..).unwrap_or_default());
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    /// Inflates until `out` is full or the stream ends, whichever is first; returns input bytes used and output bytes
    /// written. What lies beyond a full `out` is not judged; a stream that ends before it has its checksum verified, and
    /// one that is cut before it is an error.
    pub fn inflate_prefix(&mut self, input: &[u8], out: &mut [u8]) -> Result<(usize, usize), ZlibError> {
        self.reset();
        let (mut consumed, mut produced) = (0, 0);
        while produced < out.len() {
            let rest = input.get(consumed..).unwrap_or_default();
            let before = self.totals();
            let result = self.step(rest, out.get_mut(produced..).unwrap_or_default());
            let after = self.totals();
            // Counted here, since bytes made before an error count too.
            let step = ((after.0 - before.0) as usize, (after.1 - before.1) as usize);
            consumed += step.0;
            produced += step.1;
            if produced == out.len() {
                break;
            }
            if result?.done {
                break;
            }
            if step == (0, 0) {
                return Err(ZlibError::Truncated);
            }
        }
        Ok((consumed, produced))
    }

    /// Fills `out` with the first bytes of a stream; returns how many there are. As
    /// [`inflate_prefix`](Self::inflate_prefix), but faster for the few bytes in which a delta says its sizes: up to 64 are
    /// decoded without making tables.
    ///
    /// # Errors
    /// As for [`inflate_prefix`](Self::inflate_prefix).
    pub fn inflate_first(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, ZlibError> {
        if out.len() <= first::MOST && first::fill(input, out).is_some() {
            return Ok(out.len());
        }
        self.inflate_prefix(input, out).map(|(_, produced)| produced)
    }

    /// Begins a new stream for [`step`](Self::step).
    pub fn reset(&mut self) {
        match &mut self.zlib {
            Some(zlib) => zlib.reset(true),
            None => self.zlib = Some(zlib_rs::Inflate::new(true, WINDOW_BITS)),
        }
    }

    /// Inflates some more of the stream that was begun by [`reset`](Self::reset).
    ///
    /// A step that neither uses nor makes anything needs more input, or more room; with both at hand it does not happen.
    /// A caller whose input has ended then knows that the stream is truncated.
    pub fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<Step, ZlibError> {
        let zlib = self.zlib.get_or_insert_with(|| zlib_rs::Inflate::new(true, WINDOW_BITS));
        let (before_in, before_out) = (zlib.total_in(), zlib.total_out());
        let status = zlib.decompress(input, out, InflateFlush::NoFlush).map_err(|_| ZlibError::Corrupt)?;
        Ok(Step {
            consumed: (zlib.total_in() - before_in) as usize,
            produced: (zlib.total_out() - before_out) as usize,
            done: status == Status::StreamEnd,
        })
    }

    fn totals(&self) -> (u64, u64) {
        self.zlib.as_ref().map_or((0, 0), |zlib| (zlib.total_in(), zlib.total_out()))
    }

    fn exact_zlib_rs(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, ZlibError> {
        self.reset();
        let expected = out.len() as u64;
        let Some(zlib) = &mut self.zlib else {
            return Err(ZlibError::Corrupt);
        };
        let (mut consumed, mut produced) = (0, 0);
        // More than one turn only where a buffer exceeds the 4 GiB that one call takes.
        loop {
            let (rest, room) = (input.get(consumed..).unwrap_or_default(), out.get_mut(produced..).unwrap_or_default());
            // `Finish` promises that no further call needs a window, so none is kept.
            let flush = if rest.len() > LARGEST_CALL || room.len() > LARGEST_CALL {
                InflateFlush::NoFlush
            } else {
                InflateFlush::Finish
            };
            let status = zlib.decompress(rest, room, flush).map_err(|_| ZlibError::Corrupt)?;
            let before = (consumed, produced);
            consumed = zlib.total_in() as usize;
            produced = zlib.total_out() as usize;
            if status == Status::StreamEnd {
                return if produced == out.len() { Ok(consumed) } else { Err(ZlibError::TooShort { expected }) };
            }
            if flush == InflateFlush::Finish || before == (consumed, produced) {
                // It stopped for want of input or of room.
                return Err(if consumed == input.len() {
                    ZlibError::Truncated
                } else {
                    ZlibError::TooLong { expected }
                });
            }
        }
    }

    #[cfg(feature = "sirocco")]
    fn exact_sirocco(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, ZlibError> {
        use sirocco::{Format, inflate};
        let expected = out.len() as u64;
        let decoder = self.sirocco.get_or_insert_with(|| Box::new(inflate::Decoder::new(Format::Zlib)));
        match decoder.decompress(input, out, true) {
            Ok(progress) if progress.done => {
                let (consumed, produced) = (progress.consumed, progress.output.len());
                if produced as u64 == expected { Ok(consumed) } else { Err(ZlibError::TooShort { expected }) }
            }
            // With all input given, only a full buffer stops it short of the end.
            Ok(_) | Err(inflate::Error::BufferFull | inflate::Error::InsufficientSpace) => {
                decoder.reset();
                Err(ZlibError::TooLong { expected })
            }
            Err(error) => {
                decoder.reset();
                Err(match error {
                    inflate::Error::Truncated => ZlibError::Truncated,
                    _ => ZlibError::Corrupt,
                })
            }
        }
    }
}

/// Deflates into zlib streams, one after the other, keeping its state.
pub struct Deflate {
    backend: Backend,
    level: u8,
    zlib: Option<zlib_rs::Deflate>,
    #[cfg(feature = "sirocco")]
    sirocco: Option<sirocco::deflate::Encoder>,
}

impl std::fmt::Debug for Deflate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deflate").field("backend", &self.backend).field("level", &self.level).finish_non_exhaustive()
    }
}

impl Deflate {
    /// At zlib's `level`: 0 stores, 1 is fastest, 9 smallest, -1 means the default, 6. Allocates when first used.
    ///
    /// # Panics
    /// If there is no such level.
    pub fn new(level: i32) -> Self {
        Self::with_backend(Backend::default(), level)
    }

    /// With that backend.
    ///
    /// # Panics
    /// If there is no such level.
    pub fn with_backend(backend: Backend, level: i32) -> Self {
        assert!((-1..=9).contains(&level), "zlib levels go from -1 to 9");
        Self {
            backend,
            level: u8::try_from(level).unwrap_or(6),
            zlib: None,
            #[cfg(feature = "sirocco")]
            sirocco: None,
        }
    }

    /// The level in use, 0 to 9.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Appends the zlib stream of `input` to `out`.
    pub fn deflate(&mut self, input: &[u8], out: &mut Vec<u8>) {
        match self.backend {
            Backend::ZlibRs => self.deflate_zlib_rs(input, out),
            #[cfg(feature = "sirocco")]
            Backend::Sirocco => self.deflate_sirocco(input, out),
        }
    }

    /// Begins a new stream for [`step`](Self::step), abandoning one in progress.
    pub fn reset(&mut self) {
        match &mut self.zlib {
            Some(zlib) => zlib.reset(),
            None => self.zlib = Some(zlib_rs::Deflate::new(i32::from(self.level), true, WINDOW_BITS)),
        }
    }

    /// Deflates some more of the stream that was begun by [`reset`](Self::reset). `finish` says that nothing follows
    /// `input`; then call until [`Step::done`], with what of the input is left, and with room.
    pub fn step(&mut self, input: &[u8], out: &mut [u8], finish: bool) -> Step {
        let level = i32::from(self.level);
        let zlib = self.zlib.get_or_insert_with(|| zlib_rs::Deflate::new(level, true, WINDOW_BITS));
        let (before_in, before_out) = (zlib.total_in(), zlib.total_out());
        // Of an input beyond one call's limit the end is not in sight yet.
        let flush = if finish && input.len() <= LARGEST_CALL { DeflateFlush::Finish } else { DeflateFlush::NoFlush };
        // Its errors are misuse of the state, which this type keeps sound, or no memory, where std aborts as well.
        let status = zlib.compress(input, out, flush).unwrap_or(Status::BufError);
        Step {
            consumed: (zlib.total_in() - before_in) as usize,
            produced: (zlib.total_out() - before_out) as usize,
            done: status == Status::StreamEnd,
        }
    }

    fn deflate_zlib_rs(&mut self, input: &[u8], out: &mut Vec<u8>) {
        self.reset();
        let start = out.len();
        let (mut consumed, mut end) = (0, start);
        let mut room = zlib_rs::compress_bound(input.len());
        loop {
            // The bound is exact enough for one turn; a second one only comes with inputs beyond 4 GiB.
            out.resize(end + room, 0);
            let step =
                self.step(input.get(consumed..).unwrap_or_default(), out.get_mut(end..).unwrap_or_default(), true);
            // Only a state that was spoilt makes nothing of such a room; that must not turn into an endless loop.
            assert!(step.done || step.produced > 0, "zlib-rs made no progress");
            consumed += step.consumed;
            end += step.produced;
            if step.done {
                break;
            }
            room = zlib_rs::compress_bound(input.len() - consumed).max(4096);
        }
        out.truncate(end);
    }

    #[cfg(feature = "sirocco")]
    fn deflate_sirocco(&mut self, input: &[u8], out: &mut Vec<u8>) {
        use sirocco::{Format, deflate};
        let level = deflate::Level::new(self.level);
        let encoder = self.sirocco.get_or_insert_with(|| deflate::Encoder::new(Format::Zlib, level));
        let mut end = out.len();
        let mut room = deflate::compress_bound(Format::Zlib, input.len());
        loop {
            out.resize(end + room, 0);
            let progress = encoder.compress(input, out.get_mut(end..).unwrap_or_default(), deflate::Flush::Finish);
            end += progress.output.len();
            if progress.done {
                break;
            }
            room = 4096; // never, by the bound's promise
        }
        out.truncate(end);
    }
}

/// The largest window, which every zlib stream may ask for.
const WINDOW_BITS: u8 = 15;

/// What `zlib-rs` takes in one call.
const LARGEST_CALL: usize = u32::MAX as usize;
