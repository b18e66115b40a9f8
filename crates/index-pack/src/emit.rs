//! The files that belong to a pack: `.idx`, `.rev`, `.keep`, `.promisor`; and how they get their names.

use std::io::Write;
use std::path::{Path, PathBuf};

use hashfile::PublishError;
use hashfile::publish::{DirSync, IfExists, TempFile};
use object::ObjectId;
use pack_format::{IdxPos, PackOffset, WriteError};

use crate::error::ReceiveError;
use crate::options::{IndexVersion, Options};
use crate::table::Table;

/// The entries by id; those of one id in the order of the pack.
pub(crate) fn order(table: &Table, entries: impl Iterator<Item = u32>) -> Vec<u32> {
    // Most comparisons are settled by the first four bytes, which lie side by side.
    let mut keys: Vec<(u32, u32)> = entries.map(|entry| (prefix(table, entry), entry)).collect();
    keys.sort_unstable_by(|a, b| {
        a.0.cmp(&b.0).then_with(|| table.id_bytes(a.1).cmp(table.id_bytes(b.1))).then(a.1.cmp(&b.1))
    });
    keys.into_iter().map(|(_, entry)| entry).collect()
}

fn prefix(table: &Table, entry: u32) -> u32 {
    table.id_bytes(entry).first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Writes the index of the entries in this order.
pub(crate) fn write_idx<W: Write>(
    to: W,
    table: &Table,
    order: &[u32],
    checksum: &ObjectId,
    options: &Options,
) -> Result<W, WriteError> {
    let place = |entry: u32| PackOffset::new(table.offset(entry));
    let written = match options.index_version {
        IndexVersion::V1 => {
            let rows = order.iter().map(|&entry| (table.id(entry), place(entry)));
            pack_format::idx::write_v1(to, rows, checksum)
        }
        IndexVersion::V2 => {
            let rows = order.iter().map(|&entry| (table.id(entry), table.crc(entry), place(entry)));
            let limit = pack_format::idx::Options::default().offset_limit(options.offset_limit);
            pack_format::idx::write_v2_with(to, rows, checksum, &limit)
        }
    };
    written.map(|(to, _)| to)
}

/// Writes the reverse index.
pub(crate) fn write_rev<W: Write>(to: W, table: &Table, order: &[u32], checksum: &ObjectId) -> Result<W, WriteError> {
    // Entries that stand for bases which were not appended have no place in the pack.
    let mut at = vec![u32::MAX; table.len() as usize];
    for (pos, &entry) in (0u32..).zip(order) {
        if let Some(slot) = at.get_mut(entry as usize) {
            *slot = pos;
        }
    }
    at.retain(|&pos| pos != u32::MAX);
    pack_format::rev::write(to, at.into_iter().map(IdxPos::new), checksum).map(|(to, _)| to)
}

/// Where a pack and what belongs to it are.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) pack: PathBuf,
    pub(crate) idx: PathBuf,
    /// Whether a file of that name must be the same one, or there must be none.
    pub(crate) if_exists: IfExists,
}

impl Place {
    pub(crate) fn companion(&self, extension: &str) -> PathBuf {
        self.pack.with_extension(extension)
    }

    pub(crate) fn rev(&self) -> PathBuf {
        self.idx.with_extension("rev")
    }
}

pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// Publishes in the order in which git does it: marks, pack, `.rev`, and `.idx`, which makes it visible, last. Returns
/// whether a new `.keep` was written.
pub(crate) fn publish(
    place: &Place,
    pack: Option<TempFile>,
    table: &Table,
    order: &[u32],
    checksum: &ObjectId,
    options: &Options,
) -> Result<bool, ReceiveError> {
    let temp = |at: &Path, prefix: &str| TempFile::create_in(parent(at), prefix, &options.publish);
    let write = |what| move |source| ReceiveError::Write { what, source };
    let idx = write_idx(temp(&place.idx, "tmp_idx_")?, table, order, checksum, options).map_err(write("the index"))?;
    let rev = match options.write_rev {
        true => Some(
            write_rev(temp(&place.rev(), "tmp_rev_")?, table, order, checksum).map_err(write("the reverse index"))?,
        ),
        false => None,
    };
    let mut dirs = DirSync::new();
    let mut kept = false;
    for (content, extension) in [(&options.keep, "keep"), (&options.promisor, "promisor")] {
        let Some(content) = content else { continue };
        let path = place.companion(extension);
        let mut file = temp(&path, "tmp_mark_")?;
        file.write_all(content).map_err(ReceiveError::file(file.path()))?;
        match file.persist_deferred(&path, IfExists::Refuse, &mut dirs) {
            Ok(_) => kept |= extension == "keep",
            // Somebody keeps it already, and will say when no more.
            Err(PublishError::Exists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(pack) = pack {
        pack.persist_deferred(&place.pack, place.if_exists, &mut dirs)?;
    }
    if let Some(rev) = rev {
        rev.persist_deferred(&place.rev(), IfExists::Replace, &mut dirs)?;
    }
    // One and the same for a pack of this name, but for its version.
    idx.persist_deferred(&place.idx, IfExists::Replace, &mut dirs)?;
    dirs.finish()?;
    Ok(kept)
}
