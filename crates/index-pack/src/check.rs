//! What is done with each object as it gets its name: held against the store's, and shown to whoever asked.

use std::io::Read;
use std::sync::Arc;

use object::{ObjectId, ObjectKind};
use odb::Store;

use crate::error::ReceiveError;
use crate::options::{Inspect, Object, Options};

/// See the [module](self). Each thread has its own.
#[derive(Clone)]
pub(crate) struct Check {
    store: Option<Store>,
    inspect: Option<Arc<dyn Inspect>>,
    big_file_threshold: u64,
    theirs: Vec<u8>,
}

impl Check {
    pub(crate) fn new(options: &Options) -> Check {
        Check {
            store: options.store.clone(),
            inspect: options.inspect.clone(),
            big_file_threshold: options.big_file_threshold,
            theirs: Vec::new(),
        }
    }

    /// Whether objects that were only streamed have to be looked at again.
    pub(crate) fn wants_content(&self) -> bool {
        self.store.is_some() || self.inspect.is_some()
    }

    /// Whether an object is streamed again, not held.
    pub(crate) fn is_big(&self, kind: ObjectKind, size: u64) -> bool {
        kind == ObjectKind::Blob && size > self.big_file_threshold
    }

    pub(crate) fn object(
        &mut self,
        at: u64,
        id: &ObjectId,
        kind: ObjectKind,
        content: &[u8],
    ) -> Result<(), ReceiveError> {
        if let Some(store) = &self.store
            && store.contains_quick(id)?
        {
            let theirs = store.read(id, &mut self.theirs)?;
            if theirs != kind || self.theirs != content {
                return Err(ReceiveError::Clash { at, id: *id });
            }
        }
        self.show(Object { id: *id, kind, size: content.len() as u64, content: Some(content) })
    }

    /// As [`object`](Self::object), for a large blob: `ours` gives its content, piece by piece, to what it is handed.
    pub(crate) fn big(
        &self,
        at: u64,
        id: &ObjectId,
        kind: ObjectKind,
        size: u64,
        ours: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), ReceiveError>) -> Result<(), ReceiveError>,
    ) -> Result<(), ReceiveError> {
        if let Some(store) = &self.store
            && store.contains_quick(id)?
        {
            let clash = || ReceiveError::Clash { at, id: *id };
            let mut theirs = store.stream(id)?;
            if theirs.header().kind != kind || theirs.header().size != size {
                return Err(clash());
            }
            let mut buffer = Vec::new();
            ours(&mut |piece| {
                buffer.resize(piece.len(), 0);
                theirs.read_exact(&mut buffer).map_err(|source| match source.downcast::<odb::ReadError>() {
                    Ok(error) => ReceiveError::Store(error),
                    Err(source) => ReceiveError::Input(source),
                })?;
                if buffer == piece { Ok(()) } else { Err(clash()) }
            })?;
        }
        self.show(Object { id: *id, kind, size, content: None })
    }

    fn show(&self, object: Object<'_>) -> Result<(), ReceiveError> {
        match &self.inspect {
            Some(inspect) => inspect.object(object).map_err(ReceiveError::Refused),
            None => Ok(()),
        }
    }
}
