//! What the receiver of a pack is taken to have, judged by the trees at the edge.
//!
//! Without bitmaps, finding all that the haves reach costs more than it saves. git marks only what
//! it finds near the edge, and so do we, since a pack must hold what git's would hold.

use std::collections::{BTreeMap, HashSet};

use object::ObjectId;
use odb::Observer;

use crate::error::WalkError;
use crate::objects::ObjectWalk;
use crate::set::{ObjectNr, ObjectSet};
use crate::trees::{Child, id_of};

impl ObjectWalk<'_> {
    /// Marks in `known` what the receiver has, as `pack.useSparse` (git's default) finds it: trees
    /// of `edges` and their entries, going down only into those paths at which both sides have
    /// trees.
    ///
    /// `wanted` are the root trees of the commits to send, `edges` those of the commits that
    /// the receiver has. The result is a subset of what `edges` reach, and not closed under
    /// reachability. Memory grows with the distinct trees of the paths that changed. What the receiver
    /// has and the store lacks, as its history may be incomplete here, is added to `absent`.
    ///
    /// # Errors
    /// When a tree is damaged in all its copies, or `observer` asks to stop.
    pub fn mark_edges(
        &mut self,
        wanted: impl IntoIterator<Item = ObjectId>,
        edges: impl IntoIterator<Item = ObjectId>,
        known: &mut ObjectSet,
        absent: &mut HashSet<ObjectId>,
        observer: &dyn Observer,
    ) -> Result<(), WalkError> {
        let (numbering, reader) = self.reader();
        let hash = numbering.store().hash_kind();
        let mut here: HashSet<ObjectNr> = HashSet::new();
        for id in edges {
            match numbering.number_of(&id)? {
                Some(nr) => {
                    known.insert(nr);
                    here.insert(nr);
                }
                None => {
                    absent.insert(id);
                }
            }
        }
        for id in wanted {
            here.extend(numbering.number_of(&id)?);
        }
        let mut paths = vec![here];
        while let Some(trees) = paths.pop() {
            if observer.cancelled() {
                return Err(WalkError::Cancelled);
            }
            let theirs = trees.iter().filter(|nr| known.contains(**nr)).count();
            if theirs == 0 || theirs == trees.len() {
                continue;
            }
            let mut trees: Vec<ObjectNr> = trees.into_iter().collect();
            trees.sort_unstable(); // pack order: delta bases come before what is made from them
            let mut below: BTreeMap<Vec<u8>, HashSet<ObjectNr>> = BTreeMap::new();
            for nr in trees {
                let theirs = known.contains(nr);
                let tree = reader.read(numbering, nr)?;
                for entry in tree.entries(hash) {
                    if entry.child == Child::Gitlink || entry.child == Child::Blob && !theirs {
                        continue;
                    }
                    let id = id_of(entry.id)?;
                    let Some(child) = numbering.number_of(&id)? else {
                        if theirs {
                            absent.insert(id);
                        }
                        continue;
                    };
                    if theirs {
                        known.insert(child);
                    }
                    if entry.child == Child::Tree {
                        match below.get_mut(entry.name) {
                            Some(at_path) => {
                                at_path.insert(child);
                            }
                            None => {
                                below.insert(entry.name.to_vec(), HashSet::from([child]));
                            }
                        }
                    }
                }
            }
            paths.extend(below.into_values().rev());
        }
        Ok(())
    }
}
