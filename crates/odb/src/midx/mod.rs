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
//! | [`Editor::write`] | covers all packs, or those named, by one file or by one more layer |
//! | [`Editor::compact`] | makes one layer of several |
//! | [`Editor::expire`] | deletes packs of which the multi-pack-index uses nothing |
//! | [`Editor::repack_plan`] | says which objects of small packs to put into one |
//! | [`Editor::verify`] | holds everything against the packs' own indexes |
//!
//! # Which copy of an object is listed
//! Where several packs have it: that of the preferred pack, else of the pack whose `.pack` is youngest (in whole seconds),
//! else of the first in the order in which the directory lists them. What an existing multi-pack-index lists counts as
//! older than any pack beside it. All as git does it (git-multi-pack-index, "--preferred-pack"), down to the bytes.
//!
//! # What a crash leaves
//! | step | then a crash leaves |
//! |---|---|
//! | content written to the lock file, or to `tmp_midx_*`; synced | the former state |
//! | layer renamed, its directory synced | the former state, and a layer that no chain names |
//! | single file or chain renamed, its directory synced (of a chain, the one above, too) | the new state, and files it no longer needs; the former if a chain takes the place of a single file |
//! | in that case: the single file removed, its directory synced | the new state, and files it no longer needs |
//! | files no longer needed removed; packs expired: `.idx` first | the new state |
//!
//! A lock (`multi-pack-index.lock`, `multi-pack-index-chain.lock`) is held from before the former state is read until the
//! new one has its name, so that two writers do not undo each other's work.

mod edit;
mod error;
mod expire;
mod load;
mod merge;
mod verify;
mod write;

use std::path::{Path, PathBuf};

use object::ObjectId;

pub use edit::{Base, Editor, Outcome, WriteOptions};
pub use error::{MidxError, Note};
pub use expire::RepackPlan;
pub use load::{Layer, Layers, LoadError, LoadErrorKind};
pub use verify::Fault;

/// `pack/` in an object directory.
fn pack_dir(objects: &Path) -> PathBuf {
    objects.join("pack")
}

/// The single file.
pub(crate) fn root_path(objects: &Path) -> PathBuf {
    pack_dir(objects).join("multi-pack-index")
}

/// Where layers lie.
fn layer_dir(objects: &Path) -> PathBuf {
    pack_dir(objects).join("multi-pack-index.d")
}

/// The list of layers.
pub(crate) fn chain_path(objects: &Path) -> PathBuf {
    layer_dir(objects).join("multi-pack-index-chain")
}

/// A layer, or what belongs to it.
fn layer_path(objects: &Path, checksum: &ObjectId, extension: &str) -> PathBuf {
    layer_dir(objects).join(format!("multi-pack-index-{checksum}.{extension}"))
}
