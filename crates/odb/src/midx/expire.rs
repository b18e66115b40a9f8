//! Packs that the multi-pack-index makes superfluous, and packs that are worth putting together.

use std::collections::HashSet;

use object::ObjectId;
use pack_format::midx::Midx;
use pack_format::{MidxPack, MidxPos};

use super::edit::{Editor, Outcome, TICK, WriteOptions};
use super::write::pack_mtime;
use super::{Layer, Layers, MidxError};
use crate::source::Bytes;

/// What belongs to a pack, in the order in which it is removed: first what leads readers to it. (`.keep` is not there.)
const FILES: [&str; 6] = ["idx", "pack", "rev", "bitmap", "promisor", "mtimes"];

/// Which objects to put into one new pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepackPlan {
    /// The objects, by id.
    pub objects: Vec<ObjectId>,
    /// Names of the packs' `.idx` that they come from. All their listed objects are in `objects`.
    pub packs: Vec<Vec<u8>>,
}

impl Editor<'_> {
    /// Deletes packs of which the multi-pack-index lists no object, but for those with a `.keep` and cruft packs, after
    /// writing one that does not cover them. New packs of the directory come to be covered. Returns the names of the
    /// deleted packs' `.idx` files.
    ///
    /// A pack stays, too, if it has an object that is not listed at all: then the file is not what it claims to be.
    ///
    /// # Errors
    /// [`MidxError`]; [`MidxError::Chained`] for a chain. Nothing is deleted before the new file has its name. With a
    /// multi-pack-index that cannot be read or has a wrong checksum, nothing is done and [`MidxError::Corrupt`] returned.
    pub fn expire(&mut self, options: &WriteOptions) -> Result<Vec<Vec<u8>>, MidxError> {
        let lock = self.lock(false, true)?;
        let Some((layers, layer)) = self.load_single("expire packs from")? else { return Ok(Vec::new()) };
        let midx = layer.midx();
        midx.verify_checksum().map_err(MidxError::corrupt(layer.path()))?;
        self.observer.phase("Counting referenced objects", Some(midx.count().into()));
        let counts = self.count(&layer)?;
        self.observer.phase("Finding and deleting unreferenced packfiles", Some(midx.pack_count().into()));
        let mut drop = HashSet::new();
        for (pack, _) in (0..).map(MidxPack::new).zip(&counts).filter(|(_, count)| **count == 0) {
            if self.may_go(midx, pack)? {
                drop.insert(pack.get());
            }
        }
        self.observer.inc(midx.pack_count().into());
        if drop.is_empty() {
            return Ok(Vec::new());
        }
        let mut gone: Vec<Vec<u8>> = drop.iter().map(|&pack| midx.pack_name(MidxPack::new(pack)).to_vec()).collect();
        gone.sort();
        let options = WriteOptions { packs: None, preferred: None, incremental: false, ..options.clone() };
        match self.write_locked(lock, Some(layers), &options, &drop)? {
            Outcome::Written { .. } => {}
            Outcome::UpToDate => return Ok(Vec::new()), // never with packs to drop
        }
        for name in &gone {
            if self.pack_path(name, "keep").is_some_and(|path| path.exists()) {
                continue; // since a moment ago
            }
            for extension in FILES {
                self.pack_path(name, extension).map_or(Ok(()), |path| self.remove(&path))?;
            }
        }
        Ok(gone)
    }

    /// Chooses packs whose objects are worth putting into one pack, oldest first: those that are expected to be smaller
    /// than `batch_size` bytes, until together they reach that size; with 0 all. Left out are cruft packs, and packs with a
    /// `.keep` unless `kept`. `None` if that is fewer than two, or there is no multi-pack-index.
    ///
    /// The size expected of a pack is its own, times the share of its objects that is listed from it
    /// (git-multi-pack-index, "repack").
    ///
    /// # Errors
    /// [`MidxError`]; [`MidxError::Chained`] for a chain.
    pub fn repack_plan(&mut self, batch_size: u64, kept: bool) -> Result<Option<RepackPlan>, MidxError> {
        let Some((_, layer)) = self.load_single("repack")? else { return Ok(None) };
        let midx = layer.midx();
        let counts = self.count(&layer)?;
        let mut packs = Vec::new();
        for (pack, &count) in (0..).map(MidxPack::new).zip(&counts) {
            let has = |extension| self.pack_path(midx.pack_name(pack), extension).is_some_and(|path| path.exists());
            let Some(path) = self.pack_path(midx.pack_name(pack), "pack") else { continue };
            let Ok(Some(mtime)) = pack_mtime(&path) else { continue };
            if has("mtimes") || (has("keep") && !kept) {
                continue;
            }
            let Ok(idx) = self.open_idx(&path.with_extension("idx")) else { continue };
            if idx.count() > 0 {
                let len = path.metadata().map_err(MidxError::io("read", &path))?.len();
                packs.push((mtime, pack, expected_size(len, count, idx.count())));
            }
        }
        packs.sort_by_key(|&(mtime, pack, _)| (mtime, pack));
        let mut total = 0u64;
        let mut chosen = vec![false; counts.len()];
        for (_, pack, expected) in packs {
            if batch_size > 0 && total >= batch_size {
                break;
            }
            if batch_size > 0 && expected >= batch_size {
                continue;
            }
            total = total.saturating_add(expected);
            chosen[pack.index()] = true;
        }
        if chosen.iter().filter(|&&chosen| chosen).count() < 2 {
            return Ok(None);
        }
        let mut objects = Vec::new();
        for pos in (0..midx.count()).map(MidxPos::new) {
            let (pack, _) = midx.location(pos).map_err(MidxError::corrupt(layer.path()))?;
            if chosen.get(pack.index()) == Some(&true) {
                objects.push(midx.id(pos));
            }
        }
        let names = midx.pack_names().zip(&chosen).filter(|(_, chosen)| **chosen);
        Ok(Some(RepackPlan { objects, packs: names.map(|(name, _)| name.to_vec()).collect() }))
    }

    /// The multi-pack-index if it is a single file.
    fn load_single(&mut self, what: &'static str) -> Result<Option<(Layers, std::sync::Arc<Layer>)>, MidxError> {
        let Some(layers) = self.load() else { return Ok(None) };
        match layers.layers() {
            [layer] => {
                let layer = layer.clone();
                Ok(Some((layers, layer)))
            }
            _ => Err(MidxError::Chained { what }),
        }
    }

    /// How many objects are listed from each pack.
    fn count(&self, layer: &Layer) -> Result<Vec<u32>, MidxError> {
        let midx = layer.midx();
        let mut counts = vec![0u32; midx.pack_count() as usize];
        for pos in (0..midx.count()).map(MidxPos::new) {
            let (pack, _) = midx.location(pos).map_err(MidxError::corrupt(layer.path()))?;
            counts[pack.index()] += 1; // `location` gives no pack beyond the last
            self.tick(pos.get())?;
        }
        self.observer.inc(u64::from(midx.count() % TICK));
        Ok(counts)
    }

    /// Whether a pack from which nothing is listed may be deleted.
    fn may_go(&self, midx: &Midx<Bytes>, pack: MidxPack) -> Result<bool, MidxError> {
        let name = midx.pack_name(pack);
        let Some(path) = self.pack_path(name, "pack") else { return Ok(false) };
        if !matches!(pack_mtime(&path), Ok(Some(_)))
            || ["keep", "mtimes"].iter().any(|end| path.with_extension(end).exists())
        {
            return Ok(false);
        }
        let Ok(idx) = self.open_idx(&path.with_extension("idx")) else { return Ok(false) };
        Ok(idx.ids().all(|id| midx.lookup(&id).is_some()))
    }
}

/// The size of `listed` of `count` objects of a pack of `len` bytes, to about four digits, without overflow below 2^50.
fn expected_size(len: u64, listed: u32, count: u32) -> u64 {
    let share = (u64::from(listed) << 14) / u64::from(count.max(1));
    let scaled = u128::from(share) * u128::from(len) + (1 << 13);
    u64::try_from(scaled >> 14).unwrap_or(u64::MAX)
}
