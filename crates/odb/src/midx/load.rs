//! Finds and reads the multi-pack-index of an object directory.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::{HashKind, ObjectId};
use pack_format::midx::{Chain, Midx};
use pack_format::{MidxPos, ParseError};

use super::{chain_path, layer_path, root_path};
use crate::options::ByteSource;
use crate::platform;
use crate::source::Bytes;

/// One file of a multi-pack-index, and what lies below it.
#[derive(Debug)]
pub struct Layer {
    path: PathBuf,
    midx: Midx<Bytes>,
    base_packs: u32,
    base_objects: u32,
}

impl Layer {
    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its content. Numbers in it count this layer alone.
    #[inline]
    #[must_use]
    pub fn midx(&self) -> &Midx<Bytes> {
        &self.midx
    }

    /// How many packs the layers below cover.
    #[inline]
    #[must_use]
    pub fn base_packs(&self) -> u32 {
        self.base_packs
    }

    /// How many objects the layers below list.
    #[inline]
    #[must_use]
    pub fn base_objects(&self) -> u32 {
        self.base_objects
    }
}

/// A multi-pack-index: one layer, or the layers of a chain.
#[derive(Debug, Clone)]
pub struct Layers {
    layers: Vec<Arc<Layer>>,
    chained: bool,
}

impl Layers {
    /// Reads what is in `objects`, an object directory: the single file, or if that is not there or cannot be used, the
    /// chain. `None` if there is neither, or nothing in them that could be used; whatever is wrong goes to `problem`.
    ///
    /// Of a chain, the layers before the first that is missing or damaged are used, as by git: each is sound without
    /// those above it. Constant memory a layer with [`ByteSource::Mmap`]; contents are not looked at, packs not opened.
    pub fn load(
        objects: &Path,
        hash: HashKind,
        source: ByteSource,
        problem: &mut dyn FnMut(LoadError),
    ) -> Option<Layers> {
        match open(&root_path(objects), hash, source, (0, 0)) {
            Ok(layer) => return Some(Layers { layers: vec![Arc::new(layer)], chained: false }),
            Err(error) if error.is_gone() => {}
            Err(error) => problem(error),
        }
        let path = chain_path(objects);
        let bytes = match Bytes::open(&path, ByteSource::Heap) {
            Ok(bytes) => bytes,
            Err(source) if platform::is_gone(&source) => return None,
            Err(source) => {
                problem(LoadError { path, kind: LoadErrorKind::Io(source) });
                return None;
            }
        };
        let (chain, wrong) = Chain::parse_prefix(bytes.as_ref(), hash);
        let mut layers: Vec<Arc<Layer>> = Vec::with_capacity(chain.layers.len());
        let mut wrong = wrong.map(|error| LoadError { path, kind: LoadErrorKind::Format(error) });
        let (mut packs, mut objects_below) = (0u32, 0u32);
        for checksum in &chain.layers {
            let path = layer_path(objects, checksum, "midx");
            let layer = open(&path, hash, source, (packs, objects_below)).and_then(|layer| {
                let sums =
                    packs.checked_add(layer.midx.pack_count()).zip(objects_below.checked_add(layer.midx.count()));
                sums.map(|sums| (layer, sums)).ok_or(LoadError { path, kind: LoadErrorKind::TooMany })
            });
            match layer {
                Ok((layer, sums)) => {
                    (packs, objects_below) = sums;
                    layers.push(Arc::new(layer));
                }
                Err(error) => {
                    wrong = Some(error);
                    break;
                }
            }
        }
        wrong.into_iter().for_each(problem);
        (!layers.is_empty()).then_some(Layers { layers, chained: true })
    }

    /// The layers, oldest first; never none.
    #[inline]
    #[must_use]
    pub fn layers(&self) -> &[Arc<Layer>] {
        &self.layers
    }

    /// Whether they come from a chain file; `false` for the single file.
    #[must_use]
    pub fn is_chain(&self) -> bool {
        self.chained
    }

    /// How many packs all layers cover.
    #[must_use]
    pub fn pack_count(&self) -> u32 {
        self.layers.last().map_or(0, |top| top.base_packs + top.midx.pack_count())
    }

    /// How many objects all layers list.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.layers.last().map_or(0, |top| top.base_objects + top.midx.count())
    }

    /// The layer and position at which `id` is listed; younger layers first.
    #[inline]
    #[must_use]
    pub fn lookup(&self, id: &ObjectId) -> Option<(&Arc<Layer>, MidxPos)> {
        self.layers.iter().rev().find_map(|layer| Some((layer, layer.midx.lookup(id)?)))
    }

    /// Whether some layer covers the pack of that name (`.idx`, `.pack` or without an ending).
    #[must_use]
    pub fn covers_pack(&self, name: &[u8]) -> bool {
        self.layers.iter().any(|layer| layer.midx.find_pack(name).is_some())
    }

    /// The names of all packs' `.idx` files, by their number over all layers.
    pub fn pack_names(&self) -> impl Iterator<Item = &[u8]> + '_ {
        self.layers.iter().flat_map(|layer| layer.midx.pack_names())
    }
}

impl Layers {
    /// The lowest `count` layers; `None` if that is none.
    pub(super) fn below(&self, count: usize) -> Option<Layers> {
        let layers = self.layers.get(..count)?.to_vec();
        (!layers.is_empty()).then_some(Layers { layers, chained: self.chained })
    }
}

fn open(path: &Path, hash: HashKind, source: ByteSource, base: (u32, u32)) -> Result<Layer, LoadError> {
    let failed = |kind| LoadError { path: path.to_owned(), kind };
    let bytes = Bytes::open(path, source).map_err(|error| failed(LoadErrorKind::Io(error)))?;
    let midx = Midx::parse(bytes, hash).map_err(|error| failed(LoadErrorKind::Format(error)))?;
    Ok(Layer { path: path.to_owned(), midx, base_packs: base.0, base_objects: base.1 })
}

/// A file of a multi-pack-index that is not used.
#[derive(Debug)]
pub struct LoadError {
    /// The file.
    pub path: PathBuf,
    /// Why not.
    pub kind: LoadErrorKind,
}

/// Why a file of a multi-pack-index is not used.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadErrorKind {
    /// The operating system could not deliver it.
    Io(io::Error),
    /// It does not follow its format, or is for another hash.
    Format(ParseError),
    /// A layer that would bring the chain beyond 2^32 - 1 packs or objects.
    TooMany,
}

impl LoadError {
    /// Whether the file is simply not there.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(&self.kind, LoadErrorKind::Io(error) if platform::is_gone(error))
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.kind {
            LoadErrorKind::Io(_) => write!(f, "cannot read {path}"),
            LoadErrorKind::Format(_) => write!(f, "{path} is not used"),
            LoadErrorKind::TooMany => write!(f, "{path} has too many packs or objects for its chain"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            LoadErrorKind::Io(error) => Some(error),
            LoadErrorKind::Format(error) => Some(error),
            LoadErrorKind::TooMany => None,
        }
    }
}
