//! Loose objects: a zlib stream each, in a file named after the object.
//!
//! The first two digits of the id name the directory, the others the file (gitrepository-layout, "objects/[0-9a-f]
//! [0-9a-f]"). The stream inflates to `kind SP size NUL` and the content; nothing follows it in the file. The header
//! takes at most 32 bytes, the NUL included; the size is decimal without sign or leading zero.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use object::{HashKind, ObjectId, ObjectKind, header};
use pack_format::zlib::{Inflate, ZlibError, max_inflated_len};

use crate::error::{Damage, ReadError};
use crate::handles::Handles;
use crate::inflating::{StepError, inflate_rest, inflate_some};
use crate::platform;
use crate::scratch::Scratch;
use crate::source;
use crate::store::ObjectHeader;

/// Files up to this length are read with one call.
const AT_ONCE: u64 = 256 << 10;

/// Where the object would lie.
pub(crate) fn path(objects: &Path, id: &ObjectId) -> PathBuf {
    let hex = id.to_hex();
    let (dir, file) = hex.split_at(2);
    let mut path = PathBuf::with_capacity(objects.as_os_str().len() + hex.len() + 2);
    path.push(objects);
    path.push(dir);
    path.push(file);
    path
}

/// Whether there is a regular file for the object. Anything else of that name is not one.
pub(crate) fn exists(path: &Path) -> Result<bool, ReadError> {
    match fs::metadata(path) {
        Ok(meta) => Ok(meta.is_file()),
        Err(error) if platform::is_gone(&error) => Ok(false),
        Err(error) => Err(ReadError::io(path, error)),
    }
}

/// Opens the object's file; `None` if there is none, or something else than a file.
pub(crate) fn open(path: &Path, handles: &Handles) -> Result<Option<(File, u64)>, ReadError> {
    match handles.retrying(|| source::open_regular(path)) {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if platform::is_gone(&error) || error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        Err(error) => Err(ReadError::io(path, error)),
    }
}

/// A loose object whose header has been read.
pub(crate) struct Opened<R> {
    pub(crate) header: ObjectHeader,
    pub(crate) input: R,
    /// What of the content was inflated along with the header.
    pub(crate) first: First,
    /// What became of the stream on the way: only of interest to whoever goes on.
    pub(crate) state: Result<bool, StepError>,
}

/// The first bytes of content.
#[derive(Debug)]
pub(crate) struct First {
    bytes: [u8; header::MAX_LEN],
    from: usize,
    to: usize,
}

impl First {
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.bytes.get(self.from..self.to).unwrap_or_default()
    }

    /// Moves as many of them to `out` as fit.
    pub(crate) fn take(&mut self, out: &mut [u8]) -> usize {
        let n = out.len().min(self.as_slice().len());
        if let (Some(out), Some(bytes)) = (out.get_mut(..n), self.as_slice().get(..n)) {
            out.copy_from_slice(bytes);
        }
        self.from += n;
        n
    }
}

/// Reads the header of the object whose file holds `len` bytes.
pub(crate) fn begin<R: BufRead>(
    path: &Path,
    mut input: R,
    len: u64,
    inflate: &mut Inflate,
) -> Result<Opened<R>, ReadError> {
    if len == 0 {
        return Err(ReadError::corrupt(path, 0, Damage::Truncated { what: "loose object (the file is empty)" }));
    }
    inflate.reset();
    let mut bytes = [0; header::MAX_LEN];
    let mut to = 0;
    let state = inflate_some(&mut input, inflate, &mut bytes, &mut to);
    let (kind, size, from) = match header::parse(bytes.get(..to).unwrap_or_default()) {
        Ok(parsed) => parsed,
        // When not all of the header came out, the reason is of more use than that it is incomplete.
        Err(error) => {
            return Err(match state {
                Err(why) => step_error(path, why),
                Ok(_) => ReadError::corrupt(path, 0, error),
            });
        }
    };
    let most = usize::try_from(len).map_or(u64::MAX, max_inflated_len);
    if size > most {
        return Err(ReadError::corrupt(path, 0, Damage::ImplausibleSize { size, stored: len }));
    }
    Ok(Opened { header: ObjectHeader { kind, size }, input, first: First { bytes, from, to }, state })
}

pub(crate) fn step_error(path: &Path, error: StepError) -> ReadError {
    match error {
        StepError::Io(error) => ReadError::io(path, error),
        StepError::Zlib(ZlibError::Truncated) => {
            ReadError::corrupt(path, 0, Damage::Truncated { what: "loose object" })
        }
        StepError::Zlib(ZlibError::TooLong { expected } | ZlibError::TooShort { expected }) => {
            ReadError::corrupt(path, 0, Damage::SizeMismatch { size: expected })
        }
        StepError::Zlib(error) => ReadError::corrupt(path, 0, error),
    }
}

/// Kind and size, from the first bytes of the file.
pub(crate) fn read_header(
    path: &Path,
    (file, len): (File, u64),
    scratch: &mut Scratch,
) -> Result<ObjectHeader, ReadError> {
    Ok(begin(path, BufReader::with_capacity(512, file), len, &mut scratch.inflate)?.header)
}

/// The whole object, checked to have exactly the size it declares and nothing behind it.
pub(crate) fn read(
    path: &Path,
    (file, len): (File, u64),
    limit: Option<u64>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<ObjectKind, ReadError> {
    let Scratch { inflate, input, .. } = scratch;
    if len <= AT_ONCE {
        input.clear();
        file.take(len).read_to_end(input).map_err(|error| ReadError::io(path, error))?;
        read_from(path, begin(path, input.as_slice(), len, inflate)?, limit, inflate, out)
    } else {
        let reader = BufReader::with_capacity(64 << 10, file);
        read_from(path, begin(path, reader, len, inflate)?, limit, inflate, out)
    }
}

fn read_from<R: BufRead>(
    path: &Path,
    mut opened: Opened<R>,
    limit: Option<u64>,
    inflate: &mut Inflate,
    out: &mut Vec<u8>,
) -> Result<ObjectKind, ReadError> {
    let ObjectHeader { kind, size } = opened.header;
    if let Some(limit) = limit.filter(|&limit| size > limit) {
        return Err(ReadError::TooLarge { size, limit });
    }
    let mismatch = || ReadError::corrupt(path, 0, Damage::SizeMismatch { size });
    let ended = opened.state.map_err(|error| step_error(path, error))?;
    let first = opened.first.as_slice();
    let size = usize::try_from(size).map_err(|_| mismatch())?;
    out.clear();
    out.extend_from_slice(first);
    if first.len() > size || (ended && first.len() < size) {
        return Err(mismatch());
    }
    if !ended {
        inflate_rest(&mut opened.input, size, inflate, out, first.len()).map_err(|error| step_error(path, error))?;
    }
    at_end(path, &mut opened.input)?;
    Ok(kind)
}

/// Nothing may follow the stream.
pub(crate) fn at_end(path: &Path, input: &mut impl BufRead) -> Result<(), ReadError> {
    match input.fill_buf() {
        Ok([]) => Ok(()),
        Ok(_) => Err(ReadError::corrupt(path, 0, Damage::Garbage)),
        Err(error) => Err(ReadError::io(path, error)),
    }
}

/// The ids of the loose objects whose first byte is `first`, sorted. Names that are no id, and what is not a file, are
/// passed over.
pub(crate) fn list_fanout(objects: &Path, first: u8, hash: HashKind, out: &mut Vec<ObjectId>) -> Result<(), ReadError> {
    let dir = objects.join(format!("{first:02x}"));
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if platform::is_gone(&error) => return Ok(()),
        Err(error) => return Err(ReadError::io(&dir, error)),
    };
    let start = out.len();
    let mut hex = format!("{first:02x}").into_bytes();
    for entry in entries {
        let entry = entry.map_err(|error| ReadError::io(&dir, error))?;
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if name.len() + 2 != hash.hex_len() || !name.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            continue;
        }
        // A directory's own record of the type saves a call per file; links and unknown types take one.
        let regular = match entry.file_type() {
            Ok(kind) if kind.is_file() => true,
            Ok(kind) if kind.is_dir() => false,
            _ => fs::metadata(entry.path()).is_ok_and(|meta| meta.is_file()),
        };
        if regular {
            hex.truncate(2);
            hex.extend_from_slice(name);
            out.extend(ObjectId::from_hex(&hex).ok());
        }
    }
    if let Some(new) = out.get_mut(start..) {
        new.sort_unstable();
    }
    Ok(())
}
