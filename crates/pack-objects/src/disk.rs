//! A pack on disk, with its index and reverse index.

use std::path::{Path, PathBuf};

use hashfile::HashFile;
use hashfile::publish::{DirSync, IfExists, TempFile};
use odb::{Observer, Pack};
use pack_format::{IdxPos, PackOffset};

use crate::error::PackError;
use crate::layout::NewEntry;
use crate::options::WriteOptions;
use crate::select::Selection;
use crate::stream::{Output, copy_pack, write_error};
use crate::write::{Outcome, Packer, verbatim};

impl Output for TempFile {
    #[cfg(unix)]
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.options().fs.allows_kernel_copies().then(|| std::os::fd::AsFd::as_fd(self.file()))
    }
}

/// Writes the pack of `selection` to `<base>-<hash>.pack`, with `.idx` and, if asked, `.rev`.
///
/// The index is derived from those of the source packs: ids and CRC-32s are known already. Every
/// entry is held against its CRC-32 first, so that damage is not carried forward. Files appear in
/// the order `.pack`, `.rev`, `.idx`, each complete and (by [`WriteOptions::publish`]) durable; a
/// failure leaves none of them, or, after the first has its name, a pack without an index, which
/// nothing reads.
///
/// # Errors
/// When a file cannot be written, an object is damaged in all its copies, or `observer` asks to
/// stop.
pub fn write_to_disk(
    selection: &Selection,
    options: &WriteOptions,
    base: &Path,
    observer: &dyn Observer,
) -> Result<Outcome, PackError> {
    let total = selection.objects.count();
    let count = u32::try_from(total).map_err(|_| PackError::TooMany { count: total })?;
    let dir = match base.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let create = |prefix: &str| TempFile::create_in(dir, prefix, &options.publish).map_err(|e| file_error(dir, e));
    let hash = selection.numbering.store().hash_kind();

    let mut pack_file = create("tmp_pack_")?;
    let temporary = pack_file.path().to_owned();
    let on_file = |error| match error {
        PackError::Output(source) => file_error(&temporary, source),
        other => other,
    };
    let (pack_file, outcome, entries) = if let Some(pack) = verbatim(selection, options, total, true, observer)? {
        observer.phase("Writing objects", Some(total));
        copy_pack(pack, &mut pack_file, observer).map_err(on_file)?;
        observer.inc(total);
        (pack_file, Outcome::of_whole(pack, count)?, entries_of(pack)?)
    } else {
        std::thread::scope(|scope| {
            let hashing = hashfile::Options::default().hash_on_thread(options.threads > 1);
            let mut out = HashFile::scoped(scope, pack_file, hash, &hashing);
            let mut packer = Packer::new(selection, options, observer);
            packer.write(count, &mut out).map_err(on_file)?;
            let (file, checksum) = out.finish().map_err(write_error).map_err(on_file)?;
            Ok::<_, PackError>((file, packer.outcome(checksum), packer.entries()?))
        })?
    };

    let name = |extension: &str| -> PathBuf {
        let mut name = base.as_os_str().to_owned();
        name.push(format!("-{}.{extension}", outcome.checksum));
        name.into()
    };
    let rows = entries.iter().map(|e| (e.id, e.crc, PackOffset::new(e.output)));
    let file = create("tmp_idx_")?;
    let idx = match options.index_version {
        1 => pack_format::idx::write_v1(file, rows.map(|(id, _, offset)| (id, offset)), &outcome.checksum),
        _ => {
            let options = pack_format::idx::Options::default().offset_limit(options.index_offset_limit);
            pack_format::idx::write_v2_with(file, rows, &outcome.checksum, &options)
        }
    };
    let (idx, _) = idx.map_err(|e| file_error(dir, e))?;
    let rev = if options.write_rev {
        let mut by_rank = vec![IdxPos::new(0); entries.len()];
        for (at, entry) in entries.iter().enumerate() {
            by_rank[entry.rank as usize] = IdxPos::new(at as u32);
        }
        let rev = pack_format::rev::write(create("tmp_rev_")?, by_rank.into_iter(), &outcome.checksum);
        Some(rev.map_err(|e| file_error(dir, e))?.0)
    } else {
        None
    };

    let mut dirs = DirSync::new();
    let mut publish = |file: TempFile, extension| {
        let dest = name(extension);
        file.persist_deferred(&dest, IfExists::Compare, &mut dirs).map_err(|e| file_error(&dest, e))
    };
    publish(pack_file, "pack")?;
    if let Some(rev) = rev {
        publish(rev, "rev")?;
    }
    publish(idx, "idx")?;
    dirs.finish().map_err(|e| file_error(dir, e))?;
    Ok(outcome)
}

fn entries_of(pack: &Pack) -> Result<Vec<NewEntry>, PackError> {
    let order = pack.order()?;
    let idx = pack.idx();
    (0..pack.count())
        .map(|at| {
            let at = IdxPos::new(at);
            let pos = order.pack_pos(at);
            let crc = match idx.crc32(at) {
                Some(crc) => crc,
                None => crc32fast::hash(&pack.entry_bytes(pos)?),
            };
            Ok(NewEntry { id: idx.id(at), crc, output: order.offset(pos).get(), rank: pos.get() })
        })
        .collect()
}

fn file_error(path: &Path, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> PackError {
    PackError::File { path: path.to_owned(), source: source.into() }
}
