//! Bases that a pack was sent without: taken from the store, and appended.
//!
//! The head then counts more entries, and the trailer is another. On the way, what is on the disk is held against the
//! checksum of what came, so that damage in between gets no valid trailer.

use std::io::{self, Read, Seek, SeekFrom, Write};

use hashfile::DEFAULT_IO_BUFFER_SIZE;
use hashfile::publish::TempFile;
use object::{Checksum, ObjectId, ObjectKind};
use odb::Store;
use pack_format::entry::{Header, PackHeader};
use pack_format::zlib::Deflate;

use crate::error::ReceiveError;
use crate::options::Options;
use crate::table::{NONE, NOT_KEPT, Row, Stored, Table};

/// Adds an entry to the table for each missing base that the store has; returns them, in the order of the deltas that
/// name them.
pub(crate) fn look_up(table: &mut Table, missing: &[(ObjectId, u32)], store: &Store) -> Result<Vec<u32>, ReceiveError> {
    let mut found = Vec::new();
    for (id, _) in missing {
        let header = match store.header(id) {
            Ok(header) => header,
            Err(error) if error.is_missing() => continue,
            Err(error) => return Err(error.into()),
        };
        if table.len() == u32::MAX - 1 {
            return Err(ReceiveError::TooMany);
        }
        let stored = Stored::Whole(header.kind);
        let row = Row { at: 0, header_len: 0, stored, size: header.size, crc: 0, parent: NONE, kept: NOT_KEPT };
        found.push(table.push(row, Some(id)));
    }
    Ok(found)
}

/// Appends these entries behind the `end` of the pack, and gives them their places in the table. No trailer is written.
pub(crate) fn append(
    pack: &mut TempFile,
    table: &mut Table,
    entries: &[u32],
    store: &Store,
    options: &Options,
) -> Result<(), ReceiveError> {
    let path = pack.path().to_owned();
    let failed = || ReceiveError::file(&path);
    pack.seek(SeekFrom::Start(table.end)).map_err(failed())?;
    let mut out = io::BufWriter::with_capacity(DEFAULT_IO_BUFFER_SIZE, &mut *pack);
    let mut deflate = Deflate::new(options.compression);
    let (mut content, mut bytes) = (Vec::new(), Vec::new());
    for &entry in entries {
        let kind: ObjectKind = store.read(&table.id(entry), &mut content)?;
        bytes.clear();
        Header { kind: kind.into(), size: content.len() as u64 }.encode(&mut bytes);
        let header_len = bytes.len() as u8;
        deflate.deflate(&content, &mut bytes);
        out.write_all(&bytes).map_err(failed())?;
        table.place(entry, table.end, header_len, crc32fast::hash(&bytes));
        table.end += bytes.len() as u64;
    }
    out.flush().map_err(failed())
}

/// Writes the number of entries into a pack's head, and returns the checksum of it all; the first `sent` bytes must still
/// have the checksum `was`.
pub(crate) fn count_anew(pack: &mut TempFile, count: u32, sent: u64, was: &ObjectId) -> Result<ObjectId, ReceiveError> {
    let path = pack.path().to_owned();
    let failed = || ReceiveError::file(&path);
    let changed = || ReceiveError::Changed { path: path.clone() };
    let mut head = [0; PackHeader::LEN];
    pack.seek(SeekFrom::Start(0)).map_err(failed())?;
    pack.read_exact(&mut head).map_err(failed())?;
    let header = PackHeader { count, ..PackHeader::from_bytes(&head).map_err(|_| changed())? };
    let (mut old, mut new) = (Checksum::new(was.kind()), Checksum::new(was.kind()));
    old.update(&head);
    new.update(&header.to_bytes());
    let mut left = sent.saturating_sub(PackHeader::LEN as u64);
    let mut buffer = vec![0; DEFAULT_IO_BUFFER_SIZE];
    loop {
        let n = match pack.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed()(error)),
        };
        let part = buffer.get(..n).unwrap_or_default();
        let ours = part.get(..left.min(n as u64) as usize).unwrap_or_default();
        old.update(ours);
        left -= ours.len() as u64;
        new.update(part);
    }
    if left > 0 || old.finish() != *was {
        return Err(changed());
    }
    pack.seek(SeekFrom::Start(0)).map_err(failed())?;
    pack.write_all(&header.to_bytes()).map_err(failed())?;
    pack.seek(SeekFrom::End(0)).map_err(failed())?;
    Ok(new.finish())
}
