//! From a tag to what it stands for.

use std::collections::HashSet;

use object::{ObjectId, ObjectKind, tag::Tag};
use odb::Store;

use crate::error::WalkError;

/// An object behind any number of annotated tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peeled {
    /// The tags, outermost first; empty if the object asked for is not a tag.
    pub tags: Vec<ObjectId>,
    /// What the innermost tag points at, or the object asked for.
    pub target: ObjectId,
    /// What that is: never a tag.
    pub kind: ObjectKind,
}

/// Follows annotated tags until something else turns up.
///
/// Only tags are read whole; of the target only the header. What a tag claims its target to be is not
/// believed. Time and memory grow with the number of tags in the chain.
///
/// # Errors
///
/// [`WalkError::Missing`] for `id` itself, [`WalkError::MissingLink`] for what a tag points at,
/// [`WalkError::TagCycle`] for tags in a ring (which takes a damaged store: their names are hashes),
/// [`WalkError::Malformed`] for a tag without a target.
pub fn peel(store: &Store, id: &ObjectId) -> Result<Peeled, WalkError> {
    let mut tags = Vec::new();
    let mut seen = HashSet::new();
    let mut content = Vec::new();
    let mut target = *id;
    loop {
        let missing = |tags: &[ObjectId]| match tags.last() {
            Some(by) => WalkError::MissingLink { id: target, by: *by },
            None => WalkError::Missing { id: target },
        };
        let header = match store.header(&target) {
            Ok(header) => header,
            Err(error) if error.is_missing() => return Err(missing(&tags)),
            Err(error) => return Err(error.into()),
        };
        if header.kind != ObjectKind::Tag {
            return Ok(Peeled { tags, target, kind: header.kind });
        }
        if !seen.insert(target) {
            return Err(WalkError::TagCycle { id: target });
        }
        store.read(&target, &mut content)?;
        let tag = Tag::parse(&content, target.kind());
        let tag = tag.map_err(|source| WalkError::Malformed { id: target, source })?;
        tags.push(target);
        target = tag.target();
    }
}
