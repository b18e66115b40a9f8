//! The multi-pack-index of an object directory: loaded, written, compacted, verified; packs that it makes superfluous.
//!
//! It lies in `pack/multi-pack-index`, or as a chain of layers in `pack/multi-pack-index.d/`: `multi-pack-index-chain`
//! lists the checksums of layers, oldest first, each of which is a file `multi-pack-index-<checksum>.midx`
//! (gitformat-pack, "multi-pack-index (MIDX) files"; technical/multi-pack-index, "Incremental multi-pack-indexes"). The
//! single file wins over a chain.
//!
//! | operation | what it does |
//! |---|---|
//! | [`Layers::load`] | reads the file, or the chain as far as it is sound |

mod load;

use std::path::{Path, PathBuf};

use object::ObjectId;

pub use load::{Layer, Layers, LoadError, LoadErrorKind};

/// `pack/` in an object directory.
fn pack_dir(objects: &Path) -> PathBuf {
    objects.join("pack")
}

/// The single file.
fn root_path(objects: &Path) -> PathBuf {
    pack_dir(objects).join("multi-pack-index")
}

/// Where layers lie.
fn layer_dir(objects: &Path) -> PathBuf {
    pack_dir(objects).join("multi-pack-index.d")
}

/// The list of layers.
fn chain_path(objects: &Path) -> PathBuf {
    layer_dir(objects).join("multi-pack-index-chain")
}

/// A layer, or what belongs to it.
fn layer_path(objects: &Path, checksum: &ObjectId, extension: &str) -> PathBuf {
    layer_dir(objects).join(format!("multi-pack-index-{checksum}.{extension}"))
}
