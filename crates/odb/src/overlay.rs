//! Objects in memory over a store: for work that may be thrown away, such as a merge that is only tried.

use std::collections::HashMap;

use object::{ObjectId, ObjectKind, object_id};

use crate::error::{ReadError, WriteError};
use crate::store::{ObjectHeader, Store};
use crate::write::Writer;

/// Objects that only this value knows, and those of a store. Nothing reaches a disk before [`write_to`](Self::write_to).
///
/// ```
/// # use object as packstone_object;
/// use packstone_object::{HashKind, ObjectKind};
/// use packstone_odb::{Options, Overlay, Store, WriteOptions};
///
/// let dir = tempfile::tempdir()?;
/// let store = Store::open(dir.path(), Options::new(HashKind::Sha1))?;
/// let mut overlay = Overlay::new(store.clone(), None);
/// let id = overlay.write(ObjectKind::Blob, b"hello\n")?;
/// assert!(overlay.contains(&id)? && !store.contains(&id)?);
/// let mut writer = store.writer(WriteOptions::default());
/// overlay.write_to(&mut writer, [id])?;
/// writer.finish()?;
/// assert!(store.contains(&id)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Overlay {
    store: Store,
    objects: HashMap<ObjectId, (ObjectKind, Box<[u8]>)>,
    held: u64,
    limit: Option<u64>,
}

impl Overlay {
    /// Nothing in memory yet, and never more than `limit` bytes of content.
    #[must_use]
    pub fn new(store: Store, limit: Option<u64>) -> Overlay {
        Overlay { store, objects: HashMap::new(), held: 0, limit }
    }

    /// The store below.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Names an object and holds it, whether or not the store has it.
    ///
    /// # Errors
    /// [`OverBudget`](WriteError::OverBudget) if it would be too much, and an attack on SHA-1. Nothing has changed then.
    pub fn write(&mut self, kind: ObjectKind, content: &[u8]) -> Result<ObjectId, WriteError> {
        let id = object_id(self.store.hash_kind(), kind, content)?;
        if !self.objects.contains_key(&id) {
            let held = self.held.saturating_add(content.len() as u64);
            if let Some(limit) = self.limit.filter(|&limit| held > limit) {
                return Err(WriteError::OverBudget { held, limit });
            }
            self.held = held;
            self.objects.insert(id, (kind, content.into()));
        }
        Ok(id)
    }

    /// Whether the object is in memory or in the store.
    ///
    /// # Errors
    /// As for [`Store::contains`].
    pub fn contains(&self, id: &ObjectId) -> Result<bool, ReadError> {
        Ok(self.objects.contains_key(id) || self.store.contains(id)?)
    }

    /// Kind and size.
    ///
    /// # Errors
    /// As for [`Store::header`].
    pub fn header(&self, id: &ObjectId) -> Result<ObjectHeader, ReadError> {
        match self.objects.get(id) {
            Some((kind, content)) => Ok(ObjectHeader { kind: *kind, size: content.len() as u64 }),
            None => self.store.header(id),
        }
    }

    /// The whole object into `out`, which is cleared first, and its kind.
    ///
    /// # Errors
    /// As for [`Store::read`].
    pub fn read(&self, id: &ObjectId, out: &mut Vec<u8>) -> Result<ObjectKind, ReadError> {
        match self.objects.get(id) {
            Some((kind, content)) => {
                out.clear();
                out.extend_from_slice(content);
                Ok(*kind)
            }
            None => self.store.read(id, out),
        }
    }

    /// The objects in memory, in no order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = &ObjectId> {
        self.objects.keys()
    }

    /// Bytes of content in memory.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Forgets all that is in memory.
    pub fn clear(&mut self) {
        self.objects.clear();
        self.held = 0;
    }

    /// Writes some of the objects; those that are in the store alone are freshened. Give those first that others name.
    ///
    /// # Errors
    /// The first that cannot be written ends it; so does one that is nowhere.
    pub fn write_to(&self, writer: &mut Writer, ids: impl IntoIterator<Item = ObjectId>) -> Result<(), WriteError> {
        for id in ids {
            match self.objects.get(&id) {
                Some((kind, content)) => drop(writer.write(*kind, content)?),
                None if writer.freshen(&id)? => {}
                None => {
                    // There, but not to be touched, or nowhere.
                    let mut content = Vec::new();
                    let kind = self.store.read(&id, &mut content)?;
                    writer.write(kind, &content)?;
                }
            }
        }
        Ok(())
    }
}
