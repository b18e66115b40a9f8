//! Objects that are there already, told from unused ones by the times of their files.
//!
//! `git gc` and `git prune` remove what is unreachable and old. Who stores an object that is there already, and is about
//! to refer to it, makes the copy young instead: the pack's time (the `.pack`'s, never the `.idx`'s), or the loose file's.
//! That is one system call a pack and while, or one a loose object; nothing is looked at beforehand.
//!
//! What is in a cruft pack has a time of its own there, which cannot be set alone; and a file of somebody else may not be
//! touched at all. Such a copy does not count, and the object is written once more, as a loose file.

use std::collections::HashMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use hashfile::DEFAULT_IO_BUFFER_SIZE;
use object::{NameHasher, ObjectId};

use crate::store::Store;
use crate::write::WriteOptions;

/// When each pack's time was set last, by path.
#[derive(Debug, Default)]
pub(crate) struct Freshened(Mutex<HashMap<PathBuf, Instant>>);

impl Store {
    /// Makes a copy of the object young, if there is one for which that can be done.
    pub(crate) fn freshen(&self, id: &ObjectId, options: &WriteOptions) -> bool {
        if id.kind() != self.hash_kind() {
            return false;
        }
        let fs = &options.loose.fs;
        self.any_pack_with(id, |pack| {
            if pack.is_cruft() {
                return false;
            }
            // The lock is held while the time is set, so that threads which meet here set it once.
            let mut times = self.freshened().0.lock().unwrap_or_else(PoisonError::into_inner);
            if times.get(pack.path()).is_some_and(|last| last.elapsed() < options.freshen_interval) {
                return true;
            }
            let done = fs.set_times(pack.path(), None).is_ok();
            if done {
                times.insert(pack.path().to_owned(), Instant::now());
            }
            done
        }) || (0..self.sources().len()).any(|source| fs.set_times(&self.loose_path_of(id, source), None).is_ok())
    }

    /// Whether some copy of the object reads well and has its name.
    pub(crate) fn has_sound_copy(&self, id: &ObjectId) -> bool {
        let Ok(mut stream) = self.stream(id) else { return false };
        let header = stream.header();
        let mut hasher = NameHasher::new(self.hash_kind(), header.kind, header.size);
        let mut buffer = vec![
            0;
            usize::try_from(header.size)
                .map_or(DEFAULT_IO_BUFFER_SIZE, |size| size.clamp(1, DEFAULT_IO_BUFFER_SIZE))
        ];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return hasher.finish().is_ok_and(|found| found == *id),
                Ok(n) => hasher.update(buffer.get(..n).unwrap_or_default()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }
}
