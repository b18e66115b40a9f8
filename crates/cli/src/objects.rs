//! The object store for commands that add to it: objects are looked for first, and written as loose files if missing.

use std::collections::HashSet;
use std::fs::{File, FileTimes};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hashfile::publish::{self, IfExists, TempFile};
use hashfile::{FileMode, PublishError};
use index::trees::ObjectAccess;
use object::{CollisionDetected, HashKind, NameHasher, ObjectId, ObjectKind, header, object_id};
use odb::{Location, Store};
use pack_format::zlib::Deflate;

use crate::config::Config;
use crate::report::Failure;
use crate::setup::{Part, Repository};

/// Bytes of a file that are held at a time if it is too large to be held as a whole.
const CHUNK: usize = 128 * 1024;

/// A store, and how objects are added to it.
pub(crate) struct Objects {
    store: Store,
    hash: HashKind,
    deflate: Deflate,
    publish: publish::Options,
    big_file_threshold: u64,
    /// Packs whose time was set to now already.
    fresh_packs: HashSet<PathBuf>,
}

/// An object that was not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ObjectsError {
    /// The store refused, or what it holds is damaged.
    #[error(transparent)]
    Read(#[from] odb::ReadError),
    /// An object that should be a tree.
    #[error("{id} is a {}, not a tree", kind.name())]
    NotATree {
        /// Its id.
        id: ObjectId,
        /// What it is.
        kind: ObjectKind,
    },
    /// Its name is the product of an attack.
    #[error(transparent)]
    Collision(#[from] CollisionDetected),
    /// The file that was to become an object could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file changed while it was read.
    #[error("file changed while it was read")]
    Changed,
    /// The object was not written.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl Objects {
    /// Opens the repository's store.
    pub(crate) fn open(repo: &Repository) -> Result<Objects, Failure> {
        Ok(Objects {
            store: repo.open_store()?,
            hash: repo.hash,
            deflate: Deflate::new(level(&repo.config)?),
            publish: repo.publish_options_of(Part::LooseObjects)?.mode(FileMode::ReadOnly).make_dir(true),
            big_file_threshold: repo.config.size("core.bigfilethreshold")?.unwrap_or(512 << 20),
            fresh_packs: HashSet::new(),
        })
    }

    /// The store.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Names an object, and sees to it that the store has it: a copy that is there gets the time of now, so that nobody
    /// takes it for unused; else it is written.
    pub(crate) fn write(&mut self, kind: ObjectKind, content: &[u8]) -> Result<ObjectId, ObjectsError> {
        let id = object_id(self.hash, kind, content)?;
        if self.freshen(&id)? {
            return Ok(id);
        }
        let mut inflated = Vec::with_capacity(header::MAX_LEN + content.len());
        inflated.extend_from_slice(&header::encode(kind, content.len() as u64));
        inflated.extend_from_slice(content);
        let mut deflated = Vec::new();
        self.deflate.deflate(&inflated, &mut deflated);
        let dest = self.store.loose_path_of(&id, 0);
        let mut temp = self.temp_beside(&dest)?;
        temp.write_all(&deflated)?;
        temp.persist(&dest, IfExists::Keep)?;
        Ok(id)
    }

    /// Names the blob that an open file is, and unless `only_name` sees to it that the store has it.
    pub(crate) fn write_file(&mut self, file: &mut File, only_name: bool) -> Result<ObjectId, ObjectsError> {
        let size = file.metadata()?.len();
        if size < self.big_file_threshold {
            let mut content = Vec::new();
            file.read_to_end(&mut content)?;
            return match only_name {
                true => Ok(object_id(self.hash, ObjectKind::Blob, &content)?),
                false => self.write(ObjectKind::Blob, &content),
            };
        }
        let id = name_of_file(file, size, self.hash)?;
        if !only_name && !self.freshen(&id)? {
            self.stream(file, size, &id)?;
        }
        Ok(id)
    }

    /// Writes a file that is too large to be held. It was read once for its name, and must still have it.
    fn stream(&mut self, file: &mut File, size: u64, id: &ObjectId) -> Result<(), ObjectsError> {
        file.seek(SeekFrom::Start(0))?;
        let dest = self.store.loose_path_of(id, 0);
        let mut temp = self.temp_beside(&dest)?;
        let mut hasher = NameHasher::new(self.hash, ObjectKind::Blob, size);
        let (mut input, mut output) = (vec![0; CHUNK], vec![0; CHUNK]);
        self.deflate.reset();
        deflate_step(&mut self.deflate, &header::encode(ObjectKind::Blob, size), false, &mut output, &mut temp)?;
        let mut left = size;
        while left > 0 {
            let want = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            let part = input.get_mut(..want).unwrap_or_default();
            file.read_exact(part)?;
            left -= want as u64;
            hasher.update(part);
            deflate_step(&mut self.deflate, part, false, &mut output, &mut temp)?;
        }
        deflate_step(&mut self.deflate, &[], true, &mut output, &mut temp)?;
        if hasher.finish()? != *id {
            return Err(ObjectsError::Changed);
        }
        temp.persist(&dest, IfExists::Keep)?;
        Ok(())
    }

    fn temp_beside(&self, dest: &Path) -> Result<TempFile, PublishError> {
        TempFile::create_in(dest.parent().unwrap_or(Path::new("")), "tmp_obj_", &self.publish)
    }

    /// Whether the store has the object, in a copy whose time could be set to now.
    fn freshen(&mut self, id: &ObjectId) -> Result<bool, ObjectsError> {
        let path = match self.store.find(id)? {
            None => return Ok(false),
            // What is in a cruft pack is on its way out, each object by a time of its own.
            Some(Location::Packed { pack, .. }) if pack.is_cruft() => return Ok(false),
            Some(Location::Packed { pack, .. }) if self.fresh_packs.contains(pack.path()) => return Ok(true),
            Some(Location::Packed { pack, .. }) => {
                self.fresh_packs.insert(pack.path().to_path_buf());
                pack.path().to_path_buf()
            }
            Some(Location::Loose { source }) => self.store.loose_path_of(id, source),
            Some(_) => return Ok(false),
        };
        let now = SystemTime::now();
        let times = FileTimes::new().set_accessed(now).set_modified(now);
        let done = File::open(&path).and_then(|file| file.set_times(times)).is_ok();
        if !done {
            self.fresh_packs.remove(&path);
        }
        Ok(done)
    }
}

impl ObjectAccess for Objects {
    type Error = ObjectsError;

    fn read_tree(&mut self, id: &ObjectId, out: &mut Vec<u8>) -> Result<(), ObjectsError> {
        // Known to everybody, stored or not.
        if *id == self.hash.empty_tree() {
            out.clear();
            return Ok(());
        }
        match self.store.read(id, out)? {
            ObjectKind::Tree => Ok(()),
            kind => Err(ObjectsError::NotATree { id: *id, kind }),
        }
    }

    fn write_tree(&mut self, bytes: &[u8]) -> Result<ObjectId, ObjectsError> {
        self.write(ObjectKind::Tree, bytes)
    }

    fn contains(&mut self, id: &ObjectId, _: ObjectKind) -> Result<bool, ObjectsError> {
        Ok(*id == self.hash.empty_tree() || self.store.contains(id)?)
    }
}

/// The name of the blob that a file of this size is, read in pieces.
pub(crate) fn name_of_file(file: &mut File, size: u64, hash: HashKind) -> Result<ObjectId, ObjectsError> {
    let mut hasher = NameHasher::new(hash, ObjectKind::Blob, size);
    let mut buffer = vec![0; usize::try_from(size).unwrap_or(CHUNK).clamp(1, CHUNK)];
    let mut left = size;
    loop {
        let read = match file.read(&mut buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        if read as u64 > left || (read == 0 && left > 0) {
            return Err(ObjectsError::Changed);
        }
        if read == 0 {
            return Ok(hasher.finish()?);
        }
        left -= read as u64;
        hasher.update(buffer.get(..read).unwrap_or_default());
    }
}

/// Deflates all of `input`, and the end of the stream if it is the last.
fn deflate_step(
    deflate: &mut Deflate,
    mut input: &[u8],
    last: bool,
    output: &mut [u8],
    sink: &mut impl Write,
) -> io::Result<()> {
    loop {
        let step = deflate.step(input, output, last);
        sink.write_all(output.get(..step.produced).unwrap_or_default())?;
        input = input.get(step.consumed..).unwrap_or_default();
        if step.done || (!last && input.is_empty()) {
            return Ok(());
        }
    }
}

/// The level that loose objects are deflated at: `core.looseCompression`, else `core.compression`, else the fastest.
fn level(config: &Config) -> Result<i32, Failure> {
    let mut level = 1;
    for key in ["core.compression", "core.loosecompression"] {
        match config.int(key)? {
            Some(given @ -1..=9) => level = given,
            Some(given) => return Err(Failure::Fatal(format!("bad zlib compression level {given}"))),
            None => {}
        }
    }
    Ok(level)
}
