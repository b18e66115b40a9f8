//! Writes one file for all packs, or one more layer; makes one layer of several.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use hashfile::FileMode;
use hashfile::lock::{self, LockFile};
use hashfile::publish::{self, DirSync, Fsync, IfExists, TempFile};
use object::ObjectId;
use pack_format::idx::Idx;
use pack_format::midx::{self, Chain, Version};
use pack_format::{IdxPos, MidxPack, MidxPos, PackOffset};

use super::edit::{Base, Editor, Outcome, WriteOptions};
use super::merge::{Ids, merge};
use super::{Layers, MidxError, Note, chain_path, layer_dir, layer_path, pack_dir, root_path};
use crate::platform;
use crate::source::Bytes;

/// What begins the names of layers, bitmaps and reverse indexes of a multi-pack-index, and what ends them.
const PREFIX: &[u8] = b"multi-pack-index-";
const EXTENSIONS: [&str; 3] = ["midx", "bitmap", "rev"];

/// A pack that is to be covered.
struct Candidate {
    /// Of the `.idx`, without directory.
    name: Vec<u8>,
    /// Of the `.pack`, in seconds, as git counts.
    mtime: i64,
    /// Open if its ids are needed.
    idx: Option<Idx<Bytes>>,
}

/// A list of ids, and where its objects are.
#[derive(Clone, Copy)]
enum List<'a> {
    /// All in the candidate of that number.
    Pack(u32, &'a Idx<Bytes>),
    /// Each in the candidate whose number is that in the layer plus this one.
    Layer(u32, &'a super::Layer),
}

impl<'a> List<'a> {
    fn ids(self) -> Ids<'a> {
        match self {
            List::Pack(_, idx) => Ids::Idx(idx),
            List::Layer(_, layer) => Ids::Midx(layer.midx()),
        }
    }
}

/// The copies that will be listed, by id.
#[derive(Default)]
struct Chosen {
    /// One after the other: gone through several times, while the lists they come from lie far apart.
    ids: Vec<u8>,
    /// Number of the candidate, then of the pack in the new file; and offset.
    places: Vec<(u32, PackOffset)>,
}

/// What a new file replaces, and what it is put on.
struct Frame<'a> {
    lock: Option<LockFile>,
    incremental: bool,
    write_chain: bool,
    version: Version,
    /// What the new layer is on; if that is a single file it becomes a layer.
    base: Option<&'a Layers>,
    /// Checksums of the layers that are on the new one.
    above: Vec<ObjectId>,
}

impl Editor<'_> {
    /// Covers all packs of the directory by a multi-pack-index, or those that `options` names.
    ///
    /// An existing one is built upon where that is sound: its packs stay covered without their indexes being read. If it
    /// covers just the packs there are, nothing is written, whatever pack is preferred (git-multi-pack-index, "write"). A
    /// bitmap of what is replaced or kept is removed, since none is written.
    ///
    /// O(n log n) in the objects; 16 bytes and an id each are held, beside mapped indexes.
    ///
    /// # Errors
    /// [`MidxError`]. After [`MidxError::Io`] with "remove" the new file holds.
    pub fn write(&mut self, options: &WriteOptions) -> Result<Outcome, MidxError> {
        let lock = self.lock(options.incremental, options.write_chain)?;
        let existing = if options.packs.is_none() || options.incremental { self.load_sound()? } else { None };
        self.write_locked(lock, existing, options, &HashSet::new())
    }

    /// As [`write`](Self::write), with the lock held (`None` if there is no directory to have one, or no need), on what is
    /// there, without the packs of those numbers.
    pub(super) fn write_locked(
        &mut self,
        lock: Option<LockFile>,
        existing: Option<Layers>,
        options: &WriteOptions,
        drop: &HashSet<u32>,
    ) -> Result<Outcome, MidxError> {
        let version = options.version.unwrap_or(Version::V1);
        let (incremental, reuse) = (options.incremental, existing.as_ref().filter(|_| options.packs.is_none()));
        let base = match &existing {
            Some(layers) if incremental => find_base(layers, options.base, layers.layers().len())?,
            _ => find_no_base(options.base.filter(|_| incremental))?,
        };
        let covered = reuse.or(base.as_ref());
        let copied = reuse.filter(|_| !incremental);

        let mut packs = match copied {
            Some(layers) => self.packs_of(layers)?,
            None => Vec::new(),
        };
        let reused = packs.len();
        self.scan(&mut packs, covered, options.packs.as_deref())?;
        if !incremental && drop.is_empty() {
            let former = match copied {
                Some(layers) => Some(layers.clone()),
                None => Layers::load(&self.objects, self.hash, self.byte_source, &mut |_| ()).filter(is_sound),
            };
            if former.is_some_and(|former| covers_exactly(&former, version, &packs)) {
                self.remove_files(&pack_dir(&self.objects), &["bitmap"], &HashSet::new())?;
                return Ok(Outcome::UpToDate);
            }
        }
        if incremental && packs.is_empty() {
            return Ok(Outcome::UpToDate);
        }
        let preferred = self.prefer(&mut packs, options.preferred.as_deref())?;
        if packs.len() == drop.len() {
            return Err(MidxError::NoPacks);
        }

        let mut lists = Vec::new();
        for (number, pack) in (0u32..).zip(&packs) {
            let first = preferred == Some(number);
            if let Some(idx) = pack.idx.as_ref().filter(|_| first || number as usize >= reused) {
                lists.push(((!first, Reverse(pack.mtime), number), List::Pack(number, idx)));
            }
        }
        for layer in copied.map(Layers::layers).unwrap_or_default() {
            // As old as can be, and before others of that age.
            lists.push(((true, Reverse(0), layer.base_packs()), List::Layer(layer.base_packs(), layer)));
        }
        lists.sort_by_key(|(key, _)| *key);
        let lists: Vec<List<'_>> = lists.into_iter().map(|(_, list)| list).collect();
        let mut chosen = self.choose(&lists, &packs, preferred, base.as_ref())?;

        let mut order: Vec<usize> = (0..packs.len()).filter(|&number| !drop.contains(&(number as u32))).collect();
        order.sort_by(|&a, &b| packs[a].name.cmp(&packs[b].name));
        let mut rank = vec![u32::MAX; packs.len()];
        for (new, &old) in (0u32..).zip(&order) {
            rank[old] = new;
        }
        for (pack, _) in &mut chosen.places {
            // An entry in a pack that is left out gets a number that the writer refuses.
            *pack = rank.get(*pack as usize).copied().unwrap_or(u32::MAX);
        }
        let names: Vec<&[u8]> = order.iter().map(|&number| &*packs[number].name).collect();
        let frame = Frame {
            lock,
            incremental,
            write_chain: options.write_chain,
            version,
            base: base.as_ref(),
            above: Vec::new(),
        };
        self.emit(frame, &names, &chosen)
    }

    /// Makes one layer of those from `from` to `to`, checksums of an older and a younger one. Packs and the choice of
    /// copies stay as they are.
    ///
    /// With [`WriteOptions::incremental`] it takes their place in the chain, else it becomes the single file, and the
    /// layers that were not compacted are gone. [`WriteOptions::preferred`] and [`WriteOptions::packs`] mean nothing here.
    ///
    /// # Errors
    /// [`MidxError`], as of [`write`](Self::write).
    pub fn compact(&mut self, from: &ObjectId, to: &ObjectId, options: &WriteOptions) -> Result<Outcome, MidxError> {
        let lock = self.lock(options.incremental, options.write_chain)?;
        let existing = self.load();
        let layers = existing.as_ref().map(Layers::layers).unwrap_or_default();
        let find = |checksum: &ObjectId| {
            let at = layers.iter().position(|layer| layer.midx().checksum() == *checksum);
            at.ok_or(MidxError::NoLayer { checksum: *checksum })
        };
        let (first, last) = (find(from)?, find(to)?);
        if first == last {
            return Err(MidxError::SameLayer);
        }
        let Some(range) = layers.get(first..=last) else {
            return Err(MidxError::NotAncestor { from: *from, to: *to });
        };
        let version = options.version.unwrap_or(Version::V2);
        if version == Version::V1 {
            return Err(MidxError::CompactVersion1);
        }
        for layer in range {
            layer.midx().verify_checksum().map_err(MidxError::corrupt(layer.path()))?;
        }
        let base = match &existing {
            Some(layers) => find_base(layers, options.base, first)?,
            None => None,
        };
        let base = base.filter(|_| options.incremental);
        let below = range.first().map_or(0, |layer| layer.base_packs());
        let mut packs = Vec::new();
        for layer in range {
            for (number, name) in (layer.base_packs()..).zip(layer.midx().pack_names()) {
                let mtime = self.pack_mtime(number, name)?;
                packs.push(Candidate { name: name.to_vec(), mtime, idx: None });
            }
        }
        let lists: Vec<List<'_>> = range.iter().map(|layer| List::Layer(layer.base_packs() - below, layer)).collect();
        let chosen = self.choose(&lists, &packs, None, base.as_ref())?;
        let names: Vec<&[u8]> = packs.iter().map(|pack| &*pack.name).collect();
        let above = layers.get(last + 1..).unwrap_or_default();
        let frame = Frame {
            lock,
            incremental: options.incremental,
            write_chain: options.write_chain,
            version,
            base: base.as_ref(),
            above: above.iter().map(|layer| layer.midx().checksum()).collect(),
        };
        self.emit(frame, &names, &chosen)
    }

    /// Takes the lock of what is to be written. `None` if nothing is locked, or there is no directory that could hold packs.
    pub(super) fn lock(&self, incremental: bool, write_chain: bool) -> Result<Option<LockFile>, MidxError> {
        let path = if incremental { chain_path(&self.objects) } else { root_path(&self.objects) };
        if incremental {
            for dir in [pack_dir(&self.objects), layer_dir(&self.objects)] {
                let made = publish::make_dir(&dir, &self.publish);
                made.map_err(MidxError::io("create", &dir))?;
            }
        } else if !pack_dir(&self.objects).is_dir() {
            return Ok(None);
        }
        if incremental && !write_chain {
            return Ok(None);
        }
        let options =
            lock::Options::default().fsync(self.publish.fsync).shared(self.publish.shared).fs(self.publish.fs.clone());
        Ok(Some(LockFile::acquire(&path, &options)?))
    }

    /// The multi-pack-index there is, unless a checksum says that it is not what was written.
    pub(super) fn load_sound(&mut self) -> Result<Option<Layers>, MidxError> {
        let Some(layers) = self.load() else { return Ok(None) };
        for layer in layers.layers() {
            self.check_cancelled()?;
            if layer.midx().verify_checksum().is_err() {
                (self.note)(Note::Checksum { path: layer.path().to_owned() });
                return Ok(None);
            }
        }
        Ok(Some(layers))
    }

    /// The packs that are covered already. They must be there.
    fn packs_of(&self, layers: &Layers) -> Result<Vec<Candidate>, MidxError> {
        let numbered = (0u32..).zip(layers.pack_names());
        let packs = numbered.map(|(number, name)| {
            let mtime = self.pack_mtime(number, name)?;
            Ok(Candidate { name: name.to_vec(), mtime, idx: None })
        });
        packs.collect()
    }

    fn pack_mtime(&self, number: u32, idx_name: &[u8]) -> Result<i64, MidxError> {
        let path = self.pack_path(idx_name, "pack");
        match path.as_deref().map(pack_mtime) {
            Some(Ok(Some(mtime))) => Ok(mtime),
            Some(Err(source)) if !platform::is_gone(&source) => {
                Err(MidxError::io("read", &path.unwrap_or_default())(source))
            }
            _ => Err(MidxError::PackGone { number, path: path.unwrap_or_default() }),
        }
    }

    /// The file of a pack, by the name of its `.idx`. `None` if that has another ending, or the platform has no such name.
    pub(super) fn pack_path(&self, idx_name: &[u8], extension: &str) -> Option<PathBuf> {
        let stem = idx_name.strip_suffix(b".idx")?;
        let name = [stem, b".", extension.as_bytes()].concat();
        Some(pack_dir(&self.objects).join(platform::path_from_bytes(&name)?))
    }

    /// Adds the packs of the directory, in its own order, that are not covered and, if there is a list, are in it.
    fn scan(
        &mut self,
        packs: &mut Vec<Candidate>,
        covered: Option<&Layers>,
        wanted: Option<&[Vec<u8>]>,
    ) -> Result<(), MidxError> {
        self.observer.phase("Adding packfiles to multi-pack-index", None);
        let wanted: Option<HashSet<&[u8]>> = wanted.map(|names| names.iter().map(Vec::as_slice).collect());
        let dir = pack_dir(&self.objects);
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if platform::is_gone(&error) => return Ok(()),
            Err(error) => return Err(MidxError::io("read", &dir)(error)),
        };
        for entry in entries {
            let name = entry.map_err(MidxError::io("read", &dir))?.file_name();
            let bytes = name.as_encoded_bytes();
            if !bytes.ends_with(b".idx") {
                continue;
            }
            self.check_cancelled()?;
            self.observer.inc(1);
            let known = covered.is_some_and(|layers| layers.covers_pack(bytes));
            if known || wanted.as_ref().is_some_and(|wanted| !wanted.contains(bytes)) {
                continue;
            }
            let idx = dir.join(&name);
            let mtime = match pack_mtime(&idx.with_extension("pack")) {
                Ok(Some(mtime)) => mtime,
                Ok(None) => {
                    (self.note)(Note::NoPack { idx });
                    continue;
                }
                Err(error) if platform::is_gone(&error) => {
                    (self.note)(Note::NoPack { idx });
                    continue;
                }
                Err(error) => return Err(MidxError::io("read", &idx.with_extension("pack"))(error)),
            };
            match self.open_idx(&idx) {
                Ok(open) => packs.push(Candidate { name: bytes.to_vec(), mtime, idx: Some(open) }),
                Err(error) => {
                    let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), |e| e.to_string());
                    (self.note)(Note::NoIndex { idx, reason });
                }
            }
        }
        Ok(())
    }

    pub(super) fn open_idx(&self, path: &Path) -> Result<Idx<Bytes>, MidxError> {
        let bytes = Bytes::open(path, self.byte_source).map_err(MidxError::io("read", path))?;
        Idx::parse(bytes, self.hash).map_err(MidxError::corrupt(path))
    }

    /// The number of the pack whose copies come first, its index open.
    fn prefer(&mut self, packs: &mut [Candidate], name: Option<&[u8]>) -> Result<Option<u32>, MidxError> {
        let Some(name) = name else { return Ok(None) };
        let idx_name = name.strip_suffix(b".pack").map(|stem| [stem, b".idx"].concat());
        let found = packs.iter().position(|pack| pack.name == name || Some(&pack.name) == idx_name.as_ref());
        let Some((number, pack)) = found.and_then(|number| Some((number, packs.get_mut(number)?))) else {
            (self.note)(Note::UnknownPreferred { name: name.to_vec() });
            return Ok(None);
        };
        let path = self.pack_path(&pack.name, "pack").unwrap_or_default();
        if pack.idx.is_none() {
            pack.idx = Some(self.open_idx(&path.with_extension("idx"))?);
        }
        if pack.idx.as_ref().is_none_or(|idx| idx.count() == 0) {
            return Err(MidxError::EmptyPreferred { path });
        }
        Ok(Some(number as u32))
    }

    /// The copy to list of each object, by id; those that the base has are left out.
    fn choose(
        &self,
        lists: &[List<'_>],
        packs: &[Candidate],
        preferred: Option<u32>,
        base: Option<&Layers>,
    ) -> Result<Chosen, MidxError> {
        let ids: Vec<Ids<'_>> = lists.iter().map(|list| list.ids()).collect();
        let mut chosen = Chosen::default();
        let path = |list: &List<'_>| match list {
            List::Pack(number, _) => {
                packs.get(*number as usize).and_then(|pack| self.pack_path(&pack.name, "idx")).unwrap_or_default()
            }
            List::Layer(_, layer) => layer.path().to_owned(),
        };
        // The preferred pack speaks for itself, also where the former file is about it.
        let skip = |list: u32, pos: u32| match (preferred, lists.get(list as usize)) {
            (Some(preferred), Some(List::Layer(below, layer))) => {
                layer.midx().location(MidxPos::new(pos)).is_ok_and(|(pack, _)| below + pack.get() == preferred)
            }
            _ => false,
        };
        let done = merge(&ids, skip, |list, pos| -> Result<(), MidxError> {
            let Some(from) = lists.get(list as usize) else { return Ok(()) };
            if base.is_some_and(|base| base.lookup(&from.ids().id(pos)).is_some()) {
                return Ok(());
            }
            let (pack, offset) = match from {
                List::Pack(number, idx) => idx.offset(IdxPos::new(pos)).map(|offset| (*number, offset)),
                List::Layer(below, layer) => {
                    layer.midx().location(MidxPos::new(pos)).map(|(pack, offset)| (below + pack.get(), offset))
                }
            }
            .map_err(|error| MidxError::corrupt(&path(from))(error))?;
            if chosen.places.len() & 0xffff == 0 {
                self.check_cancelled()?;
            }
            chosen.ids.extend_from_slice(from.ids().id_bytes(pos));
            chosen.places.push((pack, offset));
            Ok(())
        });
        match done {
            Ok(done) => done?,
            Err(list) => {
                let path = lists.get(list as usize).map(path).unwrap_or_default();
                let source = pack_format::ParseError { at: 0, kind: pack_format::ParseErrorKind::Order };
                return Err(MidxError::Corrupt { path, source });
            }
        }
        Ok(chosen)
    }

    /// Writes the file, gives it its name, and removes what it replaces.
    fn emit(&self, frame: Frame<'_>, names: &[&[u8]], chosen: &Chosen) -> Result<Outcome, MidxError> {
        self.check_cancelled()?;
        let options = midx::Options::default().version(frame.version);
        let null = self.hash.null();
        let ids = chosen.ids.chunks_exact(self.hash.len());
        let ids = ids.map(|id| ObjectId::from_prefix(id, self.hash).unwrap_or(null));
        let rows = ids.zip(&chosen.places).map(|(id, &(pack, offset))| (id, MidxPack::new(pack), offset));
        let (packs, objects) = (names.len() as u32, chosen.places.len() as u32);
        if !frame.incremental {
            let path = root_path(&self.objects);
            let Some(lock) = frame.lock else { return Err(MidxError::NoPacks) };
            let (lock, checksum) = midx::write(lock, self.hash, names, rows, &options)
                .map_err(|source| MidxError::Write { path: path.clone(), source })?;
            lock.commit()?;
            self.remove(&chain_path(&self.objects))?;
            self.remove_files(&layer_dir(&self.objects), &EXTENSIONS, &HashSet::new())?;
            self.remove_files(&pack_dir(&self.objects), &EXTENSIONS, &HashSet::from([checksum]))?;
            return Ok(Outcome::Written { checksum, path, packs, objects });
        }

        let dir = layer_dir(&self.objects);
        let publish = self.publish.clone().mode(FileMode::ReadOnly).make_dir(true);
        let temp = TempFile::create_in(&dir, "tmp_midx_", &publish)?;
        let (temp, checksum) = midx::write(temp, self.hash, names, rows, &options)
            .map_err(|source| MidxError::Write { path: dir.clone(), source })?;
        if let Some(base) = frame.base.filter(|base| !base.is_chain()) {
            self.make_layer(base, &publish)?;
        }
        let path = layer_path(&self.objects, &checksum, "midx");
        temp.persist(&path, IfExists::Replace)?;
        if let (true, Some(lock)) = (frame.write_chain, frame.lock) {
            let below = frame.base.map(Layers::layers).unwrap_or_default();
            let below = below.iter().map(|layer| layer.midx().checksum());
            let chain = Chain { layers: below.chain([checksum]).chain(frame.above).collect() };
            let mut lock = lock;
            io::Write::write_all(&mut lock, &chain.encode())
                .map_err(MidxError::io("write", &chain_path(&self.objects)))?;
            lock.commit()?;
            // The folder of layers may be new; only its content was synced so far. And a single file that came back would
            // win over the chain.
            self.sync_names(&dir)?;
            self.remove(&root_path(&self.objects))?;
            if frame.base.is_none_or(|base| !base.is_chain()) {
                self.sync_names(&dir)?;
            }
            self.remove_files(&pack_dir(&self.objects), &EXTENSIONS, &HashSet::new())?;
            self.remove_files(&dir, &EXTENSIONS, &chain.layers.iter().copied().collect())?;
        }
        Ok(Outcome::Written { checksum, path, packs, objects })
    }

    /// Makes a layer of the single file and what belongs to it, by copies.
    fn make_layer(&self, base: &Layers, publish: &publish::Options) -> Result<(), MidxError> {
        for layer in base.layers() {
            let checksum = layer.midx().checksum();
            let copy = |bytes: &[u8], extension| {
                let mut temp = TempFile::create_in(&layer_dir(&self.objects), "tmp_midx_", publish)?;
                let to = layer_path(&self.objects, &checksum, extension);
                io::Write::write_all(&mut temp, bytes).map_err(MidxError::io("write", temp.path()))?;
                temp.persist(&to, IfExists::Replace)?;
                Ok::<(), MidxError>(())
            };
            for extension in ["bitmap", "rev"] {
                let from = pack_dir(&self.objects).join(format!("multi-pack-index-{checksum}.{extension}"));
                match Bytes::open(&from, self.byte_source) {
                    Ok(bytes) => copy(bytes.as_ref(), extension)?,
                    Err(error) if platform::is_gone(&error) => {}
                    Err(error) => return Err(MidxError::io("read", &from)(error)),
                }
            }
            copy(layer.midx().as_bytes(), "midx")?;
        }
        Ok(())
    }

    /// Makes the names in the directory that `path` lies in durable, if that is wanted.
    fn sync_names(&self, path: &Path) -> Result<(), MidxError> {
        if self.publish.fsync != Fsync::Full {
            return Ok(());
        }
        let mut dirs = DirSync::new();
        dirs.add_parent_of(path, &self.publish.fs);
        Ok(dirs.finish()?)
    }

    /// Removes a file that may be gone already.
    pub(super) fn remove(&self, path: &Path) -> Result<(), MidxError> {
        match self.publish.fs.remove_file(path) {
            Err(error) if !platform::is_gone(&error) => Err(MidxError::io("remove", path)(error)),
            _ => Ok(()),
        }
    }

    /// Removes the files of a multi-pack-index with those endings, but for those of the checksums to keep.
    fn remove_files(&self, dir: &Path, extensions: &[&str], keep: &HashSet<ObjectId>) -> Result<(), MidxError> {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if platform::is_gone(&error) => return Ok(()),
            Err(error) => return Err(MidxError::io("read", dir)(error)),
        };
        let keep: HashSet<Vec<u8>> = keep.iter().map(|checksum| checksum.to_string().into_bytes()).collect();
        for entry in entries {
            let name = entry.map_err(MidxError::io("read", dir))?.file_name();
            let Some(rest) = name.as_encoded_bytes().strip_prefix(PREFIX) else { continue };
            let stem = extensions.iter().find_map(|end| rest.strip_suffix(end.as_bytes())?.strip_suffix(b"."));
            if stem.is_some_and(|stem| !keep.contains(stem)) {
                self.remove(&dir.join(&name))?;
            }
        }
        Ok(())
    }
}

/// The layers that a new one is put on, of the lowest `below`.
fn find_base(layers: &Layers, base: Option<Base>, below: usize) -> Result<Option<Layers>, MidxError> {
    match base {
        None => Ok(layers.below(below)),
        Some(Base::Nothing) => Ok(None),
        Some(Base::Layer(checksum)) => {
            let candidates = layers.layers().get(..below).unwrap_or_default();
            let at = candidates.iter().position(|layer| layer.midx().checksum() == checksum);
            Ok(layers.below(at.ok_or(MidxError::NoBase { checksum })? + 1))
        }
    }
}

/// The same where there are no layers.
fn find_no_base(base: Option<Base>) -> Result<Option<Layers>, MidxError> {
    match base {
        Some(Base::Layer(checksum)) => Err(MidxError::NoBase { checksum }),
        _ => Ok(None),
    }
}

fn is_sound(layers: &Layers) -> bool {
    layers.layers().iter().all(|layer| layer.midx().verify_checksum().is_ok())
}

/// Whether a multi-pack-index is of that version and covers these packs and no others.
fn covers_exactly(layers: &Layers, version: Version, packs: &[Candidate]) -> bool {
    let names: BTreeSet<&[u8]> = packs.iter().map(|pack| &*pack.name).collect();
    layers.layers().last().is_some_and(|top| top.midx().version() == version)
        && layers.pack_count() as usize == names.len()
        && layers.pack_names().all(|name| names.contains(name))
}

/// When a `.pack` was modified, in whole seconds; `None` if it is no regular file.
pub(super) fn pack_mtime(path: &Path) -> io::Result<Option<i64>> {
    let meta = fs::metadata(path)?;
    let mtime = meta.modified()?;
    let seconds = match mtime.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        // Rounded down, as the system's own seconds are.
        Err(before) => {
            let before = before.duration();
            let seconds = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            -seconds - i64::from(before.subsec_nanos() > 0)
        }
    };
    Ok(meta.is_file().then_some(seconds))
}
