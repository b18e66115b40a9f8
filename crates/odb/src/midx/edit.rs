//! The handle for operations on an object directory's multi-pack-index, and what they are told.

use std::fmt;
use std::path::{Path, PathBuf};

use hashfile::publish;
use object::{HashKind, ObjectId};
use pack_format::midx::Version;

use super::{Layers, MidxError, Note};
use crate::observer::{Observer, Quiet};
use crate::options::{ByteSource, setters};

/// So many objects go by between two looks at the observer.
pub(super) const TICK: u32 = 1 << 12;

/// Works on the multi-pack-index of one object directory.
///
/// ```no_run
/// # use object as packstone_object;
/// use packstone_object::HashKind;
/// use packstone_odb::midx::{Editor, WriteOptions};
///
/// let mut editor = Editor::new("repo/.git/objects".as_ref(), HashKind::Sha1);
/// editor.write(&WriteOptions::default())?;
/// # Ok::<(), packstone_odb::midx::MidxError>(())
/// ```
pub struct Editor<'a> {
    pub(super) objects: PathBuf,
    pub(super) hash: HashKind,
    pub(super) byte_source: ByteSource,
    pub(super) publish: publish::Options,
    pub(super) observer: &'a dyn Observer,
    pub(super) note: Box<dyn FnMut(Note) + 'a>,
}

impl fmt::Debug for Editor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Editor").field("objects", &self.objects).field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl<'a> Editor<'a> {
    /// For the object directory `objects` of that hash. Nothing is looked at yet.
    #[must_use]
    pub fn new(objects: &Path, hash: HashKind) -> Self {
        Editor {
            objects: objects.to_owned(),
            hash,
            byte_source: ByteSource::default(),
            publish: publish::Options::default(),
            observer: &Quiet,
            note: Box::new(|_| ()),
        }
    }

    /// How indexes are reached.
    #[must_use]
    pub fn byte_source(mut self, source: ByteSource) -> Self {
        self.byte_source = source;
        self
    }

    /// How new files are synced, and for whom their permissions are widened. The single file and the chain are writable,
    /// layers are not, whatever `mode` says.
    #[must_use]
    pub fn publish(mut self, options: publish::Options) -> Self {
        self.publish = options;
        self
    }

    /// Who is told of progress, and may stop the work.
    #[must_use]
    pub fn observer(mut self, observer: &'a dyn Observer) -> Self {
        self.observer = observer;
        self
    }

    /// Who is told of what is wrong and does not stop the work.
    #[must_use]
    pub fn on_note(mut self, note: impl FnMut(Note) + 'a) -> Self {
        self.note = Box::new(note);
        self
    }

    /// The multi-pack-index there is; what is wrong with it is noted.
    pub fn load(&mut self) -> Option<Layers> {
        let note = &mut self.note;
        Layers::load(&self.objects, self.hash, self.byte_source, &mut |error| note(Note::Load(error)))
    }

    /// Once in a while on the way through many objects: asks the observer, and tells it how far we are.
    pub(super) fn tick(&self, pos: u32) -> Result<(), MidxError> {
        if pos % TICK == TICK - 1 {
            self.check_cancelled()?;
            self.observer.inc(u64::from(TICK));
        }
        Ok(())
    }

    pub(super) fn check_cancelled(&self) -> Result<(), MidxError> {
        if self.observer.cancelled() { Err(MidxError::Cancelled) } else { Ok(()) }
    }
}

/// On which layer a new one is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// On none: it is the first of a chain.
    Nothing,
    /// On the layer of this checksum, which must be in the chain.
    Layer(ObjectId),
}

/// How a multi-pack-index is written. All fields have setters of the same name.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Default: 1, which every git reads; 2 for compacted layers, which need it.
    pub version: Option<Version>,
    /// The pack whose copies are listed where others have the object too (name with `.idx`, `.pack` or no ending). Default:
    /// none.
    pub preferred: Option<Vec<u8>>,
    /// Only these packs, by the names of their `.idx`; the existing multi-pack-index is then not built upon. Others that do
    /// not exist are passed over. Default: all there are.
    pub packs: Option<Vec<Vec<u8>>>,
    /// Whether to put a layer on what exists, with packs and objects that it does not have. Default: `false`, one file
    /// for all.
    pub incremental: bool,
    /// Whether the chain file names the new layer. Without, it is only written. Default: `true`.
    pub write_chain: bool,
    /// On which layer the new one is put. Default: on all (when compacting: on what the first is on).
    pub base: Option<Base>,
}

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions { version: None, preferred: None, packs: None, incremental: false, write_chain: true, base: None }
    }
}

impl WriteOptions {
    setters! {
        version: Option<Version>,
        preferred: Option<Vec<u8>>,
        packs: Option<Vec<Vec<u8>>>,
        incremental: bool,
        write_chain: bool,
        base: Option<Base>,
    }
}

/// What came of writing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// What is there says it all, or there is nothing to add.
    UpToDate,
    /// A new file.
    Written {
        /// Its checksum, which names it if it is a layer.
        checksum: ObjectId,
        /// Where it is.
        path: PathBuf,
        /// How many packs it covers.
        packs: u32,
        /// How many objects it lists.
        objects: u32,
    },
}
