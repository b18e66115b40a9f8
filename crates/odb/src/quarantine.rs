//! Objects that are looked at before they are let in: an object directory of their own within the store's.
//!
//! What a stranger sent goes to `objects/tmp_objdir-NAME-XXXXXX`, whose objects the store does not see, while those who
//! check it see both. If all is well, [`migrate`](Quarantine::migrate) moves it over; else it is dropped, and gone. The name
//! is git's, so that its `prune` removes what a crash left.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashfile::FileSystem;
use hashfile::publish::{Batch, IfExists};
use object::ObjectId;

use crate::error::WriteError;
use crate::store::Store;
use crate::write::{WriteOptions, Writer};

/// How often a name that is taken is replaced by another.
const ATTEMPTS: usize = 64;

/// An object directory for objects on trial. Removed, with all that is in it, when dropped.
///
/// ```
/// # use object as packstone_object;
/// use packstone_object::{HashKind, ObjectKind};
/// use packstone_odb::{Options, Quarantine, Store, WriteOptions};
///
/// let dir = tempfile::tempdir()?;
/// let store = Store::open(dir.path(), Options::new(HashKind::Sha1))?;
/// let quarantine = Quarantine::create(&store, "incoming", WriteOptions::default())?;
/// let mut writer = quarantine.writer();
/// let id = writer.write(ObjectKind::Blob, b"hello\n")?;
/// writer.finish()?;
/// assert!(quarantine.store().contains(&id)? && !store.contains(&id)?);
/// quarantine.migrate()?;
/// assert!(store.contains(&id)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "what was not migrated is removed"]
pub struct Quarantine {
    dir: PathBuf,
    main: Store,
    store: Store,
    options: WriteOptions,
}

impl Quarantine {
    /// Makes the directory. `name` becomes part of its name.
    ///
    /// # Errors
    /// If that cannot be done.
    pub fn create(main: &Store, name: &str, options: WriteOptions) -> Result<Quarantine, WriteError> {
        let options = options.settled();
        // A process may work in another directory than this one, and is told the path.
        let objects = std::path::absolute(main.objects_dir())
            .map_err(|source| WriteError::File { path: main.objects_dir().into(), source })?;
        let mut attempts = ATTEMPTS;
        let dir = loop {
            let dir = objects.join(format!("tmp_objdir-{name}-{}", random()));
            match options.loose.fs.create_dir(&dir) {
                Ok(()) => break dir,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempts > 0 => attempts -= 1,
                Err(source) => return Err(WriteError::File { path: dir, source }),
            }
        };
        let made = Quarantine::open(&dir, objects, main, &options);
        if made.is_err() {
            remove(&dir, &options.loose.fs);
        }
        Ok(Quarantine { store: made?, dir, main: main.clone(), options })
    }

    fn open(dir: &Path, objects: PathBuf, main: &Store, options: &WriteOptions) -> Result<Store, WriteError> {
        let pack = dir.join("pack");
        options.loose.fs.create_dir(&pack).map_err(|source| WriteError::File { path: pack, source })?;
        let mut inner = main.options().clone();
        inner.alternates.insert(0, objects);
        inner.max_alternates_depth = inner.max_alternates_depth.saturating_add(1); // ours is one more
        Ok(Store::open(dir, inner)?)
    }

    /// Where the objects are, an absolute path: what git's programs want as `GIT_OBJECT_DIRECTORY` and
    /// `GIT_QUARANTINE_PATH`, with the main directory among `GIT_ALTERNATE_OBJECT_DIRECTORIES`
    /// ([`alternates::format_list`](crate::alternates::format_list)).
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The objects on trial and those of the main store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Adds objects on trial. What the main store has is freshened there.
    pub fn writer(&self) -> Writer {
        self.store.writer(self.options.clone())
    }

    /// Moves everything to the main store: packs first, each with its `.idx` last, then loose objects; then removes the
    /// directory. Contents are synced before, as the options say, whoever wrote them.
    ///
    /// A pack's file that is there already must be the same; a loose object that is there stays, and gets a new time.
    /// What is neither (a multi-pack-index, say, which lists this directory's packs alone) is left behind.
    ///
    /// # Errors
    /// If something cannot be moved: what was moved before it stays, the rest is removed. Symbolic links are refused, as are
    /// directories where a file should be, before anything is moved.
    pub fn migrate(self) -> Result<(), WriteError> {
        let list = |dir: &Path| -> Result<Vec<PathBuf>, WriteError> {
            let failed = |source| WriteError::File { path: dir.into(), source };
            let mut paths = Vec::new();
            for entry in fs::read_dir(dir).map_err(failed)? {
                paths.push(entry.map_err(failed)?.path());
            }
            paths.sort();
            Ok(paths)
        };
        let regular = |path: &Path| -> Result<(), WriteError> {
            let failed = |source| WriteError::File { path: path.into(), source };
            match fs::symlink_metadata(path).map_err(failed)?.is_file() {
                true => Ok(()),
                false => Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))),
            }
        };
        let directory = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
        let to = self.main.objects_dir();

        let mut packs = Batch::new();
        let pack_dir = self.dir.join("pack");
        let mut files: Vec<PathBuf> = if directory(&pack_dir) { list(&pack_dir)? } else { Vec::new() }
            .into_iter()
            .filter(|p| is_of_pack(p))
            .collect();
        files.sort_by_key(|path| rank(path));
        for path in files {
            regular(&path)?;
            if let Some(name) = path.file_name() {
                packs.add_path(&path, &to.join("pack").join(name), IfExists::Compare, &self.options.pack);
            }
        }
        let mut loose = Batch::new();
        let mut ids = Vec::new();
        let hex_len = self.store.hash_kind().hex_len();
        for first in list(&self.dir)?.iter().filter(|path| is_hex(path, 2) && directory(path)) {
            for path in list(first)?.iter().filter(|path| is_hex(path, hex_len - 2)) {
                regular(path)?;
                if let (Some(first), Some(rest)) = (first.file_name(), path.file_name()) {
                    let hex = [first.as_encoded_bytes(), rest.as_encoded_bytes()].concat();
                    ids.extend(ObjectId::from_hex(&hex).ok());
                    loose.add_path(path, &to.join(first).join(rest), IfExists::Keep, &self.options.loose);
                }
            }
        }
        packs.commit()?;
        let done = loose.commit();
        ids.iter().for_each(|id| self.main.wrote_loose(id));
        done?;
        Ok(())
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        remove(&self.dir, &self.options.loose.fs);
    }
}

/// Removes a directory and what is in it; what cannot be removed stays. Symbolic links are not followed.
fn remove(dir: &Path, fs: &Arc<dyn FileSystem>) {
    let mut dirs = vec![dir.to_path_buf()];
    let mut at = 0;
    while let Some(dir) = dirs.get(at).cloned() {
        at += 1;
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => dirs.push(entry.path()),
                _ => drop(fs.remove_file(&entry.path())),
            }
        }
    }
    for dir in dirs.iter().rev() {
        let _ = fs.remove_dir(dir);
    }
}

fn is_of_pack(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"pack-"))
}

/// The order in which a pack's files appear: its marks first, its index, which makes it visible, last.
fn rank(path: &Path) -> u8 {
    match path.extension().map(|extension| extension.as_encoded_bytes()) {
        Some(b"keep" | b"promisor") => 0,
        Some(b"pack") => 1,
        Some(b"idx") => 3,
        _ => 2,
    }
}

fn is_hex(path: &Path, len: usize) -> bool {
    path.file_name().is_some_and(|name| {
        let name = name.as_encoded_bytes();
        name.len() == len && name.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Six characters that nobody can foresee.
fn random() -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let bits = RandomState::new().hash_one(std::process::id());
    (0..6).filter_map(|at| ALPHABET.get((bits >> (5 * at) & 31) as usize)).map(|&byte| char::from(byte)).collect()
}
