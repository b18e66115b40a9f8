//! The object store for commands that add to it, as the configuration says.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use hashfile::FileMode;
use hashfile::publish::{Fsync, Placing};
use index::trees::ObjectAccess;
use object::{CollisionDetected, HashKind, NameHasher, ObjectId, ObjectKind, object_id};
use odb::{Store, WriteOptions, Writer};

use crate::config::Config;
use crate::report::Failure;
use crate::setup::{Part, Repository};

/// Bytes of a file that are held at a time if it is too large to be held as a whole.
const CHUNK: usize = 128 * 1024;

/// Files of up to this many bytes are held: to deflate them in one go is faster.
pub(crate) const HELD: u64 = 16 << 20;

/// A store, and how objects are added to it.
pub(crate) struct Objects(Writer);

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
    Write(#[from] odb::WriteError),
}

impl Objects {
    /// Opens the repository's store.
    pub(crate) fn open(repo: &Repository) -> Result<Objects, Failure> {
        Ok(Objects(repo.open_store()?.writer(repo.write_options()?)))
    }

    /// The store.
    pub(crate) fn store(&self) -> &Store {
        self.0.store()
    }

    /// Names an object, and sees to it that the store has it: a copy that is there gets the time of now, so that nobody
    /// takes it for unused; else it is written.
    pub(crate) fn write(&mut self, kind: ObjectKind, content: &[u8]) -> Result<ObjectId, ObjectsError> {
        Ok(self.0.write(kind, content)?)
    }

    /// Names the blob that an open file is, and unless `only_name` sees to it that the store has it.
    pub(crate) fn write_file(&mut self, file: &mut File, only_name: bool) -> Result<ObjectId, ObjectsError> {
        let size = file.metadata()?.len();
        if size <= HELD {
            let mut content = Vec::new();
            file.read_to_end(&mut content)?;
            return match only_name {
                true => Ok(object_id(self.store().hash_kind(), ObjectKind::Blob, &content)?),
                false => self.write(ObjectKind::Blob, &content),
            };
        }
        match only_name {
            true => name_of_file(file, size, self.store().hash_kind()),
            false => self.write_large(file, 0, size),
        }
    }

    /// Stores `size` bytes of a file from `at` on, where it stands, as a blob. They are read twice, so that nothing is
    /// written of what is there already.
    pub(crate) fn write_large(&mut self, file: &mut File, at: u64, size: u64) -> Result<ObjectId, ObjectsError> {
        let id = name_of_file(file, size, self.store().hash_kind())?;
        if !self.0.freshen(&id)? {
            file.seek(SeekFrom::Start(at))?;
            if self.0.write_stream(ObjectKind::Blob, Some(size), file)? != id {
                return Err(ObjectsError::Changed);
            }
        }
        Ok(id)
    }

    /// Stores content that comes in pieces, as many as there are.
    pub(crate) fn write_stream(&mut self, kind: ObjectKind, input: impl Read) -> Result<ObjectId, ObjectsError> {
        Ok(self.0.write_stream(kind, None, input)?)
    }

    /// Sees to it that all that was written is in the store.
    pub(crate) fn finish(self) -> Result<(), ObjectsError> {
        Ok(self.0.finish()?)
    }
}

impl ObjectAccess for Objects {
    type Error = ObjectsError;

    fn read_tree(&mut self, id: &ObjectId, out: &mut Vec<u8>) -> Result<(), ObjectsError> {
        // Known to everybody, stored or not.
        if *id == self.store().hash_kind().empty_tree() {
            out.clear();
            return Ok(());
        }
        match self.store().read(id, out)? {
            ObjectKind::Tree => Ok(()),
            kind => Err(ObjectsError::NotATree { id: *id, kind }),
        }
    }

    fn write_tree(&mut self, bytes: &[u8]) -> Result<ObjectId, ObjectsError> {
        self.write(ObjectKind::Tree, bytes)
    }

    fn contains(&mut self, id: &ObjectId, _: ObjectKind) -> Result<bool, ObjectsError> {
        Ok(*id == self.store().hash_kind().empty_tree() || self.0.contains(id)?)
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

impl Repository {
    /// How objects are written: as configured.
    pub(crate) fn write_options(&self) -> Result<WriteOptions, Failure> {
        let config = &self.config;
        let placing = match config.text("core.createobject")? {
            None | Some(b"link") => Placing::Link,
            Some(b"rename") => Placing::Rename,
            Some(other) => {
                let other = String::from_utf8_lossy(other);
                return Err(Failure::Fatal(format!("invalid mode for object creation: {other}")));
            }
        };
        let loose = self.publish_options_of(Part::LooseObjects)?.mode(FileMode::ReadOnly).placing(placing);
        let batch = config.text("core.fsyncmethod")? == Some(b"batch") && loose.fsync == Fsync::Full;
        let mut options = WriteOptions::default()
            .compression(level(config, "core.loosecompression", 1)?)
            .loose(loose)
            .batch(batch)
            .pack_compression(level(config, "pack.compression", -1)?)
            .pack(self.publish_options_of(Part::Packs)?.mode(FileMode::ReadOnly).placing(placing))
            .pack_size_limit(config.size("pack.packsizelimit")?.filter(|&limit| limit > 0));
        if let Some(size) = config.size("core.bigfilethreshold")? {
            options = options.big_file_threshold(size);
        }
        if let Some(yes) = config.truth("pack.writereverseindex")? {
            options = options.write_rev(yes);
        }
        Ok(options)
    }
}

/// The level that objects are deflated at: the key's, else `core.compression`, else the default.
fn level(config: &Config, key: &str, default: i32) -> Result<i32, Failure> {
    let mut level = default;
    for key in ["core.compression", key] {
        match config.int(key)? {
            Some(given @ -1..=9) => level = given,
            Some(given) if key == "pack.compression" => {
                return Err(Failure::Fatal(format!("bad pack compression level {given}")));
            }
            Some(given) => return Err(Failure::Fatal(format!("bad zlib compression level {given}"))),
            None => {}
        }
    }
    Ok(level)
}
