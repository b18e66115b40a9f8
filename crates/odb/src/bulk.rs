//! Bulk check-in: large blobs go straight into a pack, whole and undeltified, in the order they come.
//!
//! The pack is written to `pack/tmp_pack_*` while blobs are added, and gets its name, which is its checksum, with its
//! `.rev` and then its `.idx` at the end: [`Writer::finish`](crate::Writer::finish). Until then there is nothing to be seen.
//! A blob's name is known when its last byte was read; if the store has it by then, the pack is cut back to where it began.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use hashfile::publish::{DirSync, IfExists, TempFile};
use hashfile::{Checkpoint, DEFAULT_IO_BUFFER_SIZE, HashFile};
use object::{Checksum, HashKind, NameHasher, ObjectId, ObjectKind};
use pack_format::entry::{EntryKind, Header, PackHeader};
use pack_format::zlib::Deflate;
use pack_format::{IdxPos, PackOffset};

use crate::error::WriteError;
use crate::store::Store;
use crate::write::{WriteOptions, deflate_step, read_exactly};

/// A pack that is being made.
pub(crate) struct Bulk {
    /// Nothing once it was given up: what was kept in it is lost then.
    out: Option<HashFile<TempFile>>,
    path: PathBuf,
    entries: Vec<Entry>,
}

/// A blob in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) id: ObjectId,
    crc: u32,
    offset: u64,
}

impl std::fmt::Debug for Bulk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bulk").field("path", &self.path).field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}

impl Bulk {
    /// An empty pack.
    pub(crate) fn begin(store: &Store, options: &WriteOptions) -> Result<Bulk, WriteError> {
        let dir = store.objects_dir().join("pack");
        let temp = TempFile::create_in(&dir, "tmp_pack_", &options.pack)?;
        let path = temp.path().to_owned();
        let mut out = HashFile::new(temp, store.hash_kind());
        // Most often there will be one blob, and this is right already.
        out.write_all(&PackHeader::new(1).to_bytes())
            .map_err(|source| WriteError::File { path: path.clone(), source })?;
        Ok(Bulk { out: Some(out), path, entries: Vec::new() })
    }

    /// Whether a blob of this size could make the pack larger than it may be. A pack of a single blob may have any size.
    pub(crate) fn is_full(&self, size: u64, limit: Option<u64>) -> bool {
        // What does not compress grows by a few bytes in each block of deflate.
        let most = size.saturating_add(size >> 10).saturating_add(64);
        let total = self.out.as_ref().map_or(0, HashFile::total);
        limit.is_some_and(|limit| !self.entries.is_empty() && total.saturating_add(most) > limit)
    }

    /// Appends a blob. It is part of the pack when it was [kept](Self::keep); after an error, and if it is not wanted, the
    /// pack has to be [cut back](Self::rewind) to the checkpoint.
    pub(crate) fn add(
        &mut self,
        hash: HashKind,
        size: u64,
        input: &mut dyn Read,
        deflate: &mut Deflate,
    ) -> Result<Entry, WriteError> {
        let failed = |source| WriteError::File { path: self.path.clone(), source };
        let out = self.out.as_mut().ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        let offset = out.total();
        let mut head = Vec::new();
        Header { kind: EntryKind::Blob, size }.encode(&mut head);
        let mut hasher = NameHasher::new(hash, ObjectKind::Blob, size);
        let mut output = vec![0; DEFAULT_IO_BUFFER_SIZE];
        out.crc32_begin();
        out.write_all(&head).map_err(failed)?;
        deflate.reset();
        read_exactly(size, input, |part| {
            hasher.update(part);
            deflate_step(deflate, part, false, &mut output, out).map_err(failed)
        })?;
        deflate_step(deflate, &[], true, &mut output, out).map_err(failed)?;
        Ok(Entry { id: hasher.finish()?, crc: out.crc32_end(), offset })
    }

    /// Where the next blob will begin.
    pub(crate) fn checkpoint(&self) -> Result<Checkpoint, WriteError> {
        let failed = |source| WriteError::File { path: self.path.clone(), source };
        let out = self.out.as_ref().ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        out.checkpoint().map_err(|error| failed(error.into()))
    }

    /// Takes back what was added since. If that fails, the pack is given up.
    pub(crate) fn rewind(&mut self, to: &Checkpoint) -> Result<(), WriteError> {
        let Some(out) = &mut self.out else { return Ok(()) };
        if let Err(error) = out.truncate(to) {
            self.out = None;
            return Err(WriteError::File { path: self.path.clone(), source: error.into() });
        }
        Ok(())
    }

    /// Takes a blob that was added into the pack's index.
    pub(crate) fn keep(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// Gives the pack its name, and those of its indexes. An empty one vanishes.
    pub(crate) fn finish(&mut self, store: &Store, options: &WriteOptions) -> Result<(), WriteError> {
        let failed = |source| WriteError::File { path: self.path.clone(), source };
        let out = self.out.take().ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        let count = u32::try_from(self.entries.len()).map_err(|_| failed(io::ErrorKind::FileTooLarge.into()))?;
        let (pack, checksum) = match count {
            0 => return Ok(()),
            1 => out.finish().map_err(|error| failed(error.into()))?,
            _ => {
                let (mut pack, written) = out.finish_without_trailer().map_err(|error| failed(error.into()))?;
                let checksum = count_anew(&mut pack, count, &written).map_err(failed)?;
                (pack, checksum)
            }
        };
        // Entries lie in the order they came, so an entry's rank there is its number.
        let mut by_id: Vec<(u32, Entry)> = (0..count).zip(self.entries.iter().copied()).collect();
        by_id.sort_unstable_by_key(|(_, entry)| entry.id);
        let dir = store.objects_dir().join("pack");
        let write_failed = |error: pack_format::WriteError| failed(io::Error::other(error));
        let temp = |prefix: &str| TempFile::create_in(&dir, prefix, &options.pack);
        let rows = by_id.iter().map(|(_, entry)| (entry.id, entry.crc, PackOffset::new(entry.offset)));
        let (idx, _) = pack_format::idx::write_v2(temp("tmp_idx_")?, rows, &checksum).map_err(write_failed)?;
        let rev = match options.write_rev {
            true => {
                let mut order = vec![IdxPos::new(0); by_id.len()];
                for (at, (rank, _)) in (0..count).zip(&by_id) {
                    if let Some(place) = order.get_mut(*rank as usize) {
                        *place = IdxPos::new(at);
                    }
                }
                let rev = pack_format::rev::write(temp("tmp_rev_")?, order.into_iter(), &checksum);
                Some(rev.map_err(write_failed)?.0)
            }
            false => None,
        };
        let mut dirs = DirSync::new();
        let mut publish = |file: TempFile, extension: &str| {
            file.persist_deferred(&pack_file(&dir, &checksum, extension), IfExists::Compare, &mut dirs)
        };
        publish(pack, "pack")?;
        if let Some(rev) = rev {
            publish(rev, "rev")?;
        }
        publish(idx, "idx")?;
        dirs.finish()?;
        Ok(())
    }
}

fn pack_file(dir: &Path, checksum: &ObjectId, extension: &str) -> PathBuf {
    dir.join(format!("pack-{checksum}.{extension}"))
}

/// Writes the number of entries into a pack's head, and the trailer that belongs to it then. On the way, what is on the
/// disk is held against what was written, so that damage gets no valid trailer.
fn count_anew(pack: &mut TempFile, count: u32, written: &ObjectId) -> io::Result<ObjectId> {
    let head = PackHeader::new(count).to_bytes();
    let (mut old, mut new) = (Checksum::new(written.kind()), Checksum::new(written.kind()));
    let mut buffer = vec![0; DEFAULT_IO_BUFFER_SIZE];
    pack.seek(SeekFrom::Start(0))?;
    let mut was = [0; PackHeader::LEN];
    pack.read_exact(&mut was)?;
    old.update(&was);
    new.update(&head);
    loop {
        match pack.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                let part = buffer.get(..n).unwrap_or_default();
                old.update(part);
                new.update(part);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    if old.finish() != *written {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file does not hold what was written to it"));
    }
    let checksum = new.finish();
    pack.seek(SeekFrom::Start(0))?;
    pack.write_all(&head)?;
    pack.seek(SeekFrom::End(0))?;
    pack.write_all(checksum.as_bytes())?;
    Ok(checksum)
}
