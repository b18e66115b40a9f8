//! Object filters over a set: what the bitmaps by type can decide at once, and sizes.
//!
//! | filter | by bitmap |
//! |---|---|
//! | `blob:none` | all blobs go |
//! | `blob:limit=n` | blobs of n bytes or more go, one header each |
//! | `tree:0` | all trees and blobs go |
//! | `tree:n`, n > 0 | cannot be told: depth depends on the path |
//! | `object:type=t` | all other kinds go |
//! | `combine:...` | each in turn |
//! | `sparse:oid=...` | cannot be told: patterns need paths |
//!
//! Tips always stay. (git forgets that a blob outside the pack was asked for by name when it has already met it below a
//! tree asked for before; here the order does not matter.) Source: behaviour of `git rev-list --use-bitmap-index --filter`, git 1a3e64c6c; the tests compare.

use object::ObjectKind;
use pack_format::PackPos;
use revwalk::{BlobRule, Filter, Numbering, ObjectNr, ObjectSet, Place, WalkError, WalkOptions};

use crate::error::AnswerError;
use crate::read::BitmapFile;

/// What a filter comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    no_commits: bool,
    no_trees: bool,
    no_blobs: bool,
    no_tags: bool,
    /// Blobs must be smaller than this.
    limit: Option<u64>,
}

impl Rules {
    pub(crate) fn new(filter: Option<&Filter>) -> Result<Rules, AnswerError> {
        let mut rules = Rules::default();
        let mut todo: Vec<&Filter> = filter.into_iter().collect();
        while let Some(filter) = todo.pop() {
            match filter {
                Filter::BlobNone | Filter::BlobLimit(0) => rules.no_blobs = true,
                Filter::BlobLimit(limit) => {
                    rules.limit = Some(rules.limit.map_or(*limit, |l| l.min(*limit)));
                }
                Filter::TreeDepth(0) => (rules.no_trees, rules.no_blobs) = (true, true),
                Filter::ObjectType(kind) => {
                    rules.no_commits |= *kind != ObjectKind::Commit;
                    rules.no_trees |= *kind != ObjectKind::Tree;
                    rules.no_blobs |= *kind != ObjectKind::Blob;
                    rules.no_tags |= *kind != ObjectKind::Tag;
                }
                Filter::Combine(filters) => todo.extend(filters),
                other => {
                    let spec = other.to_string();
                    return Err(AnswerError::UnsupportedFilter { spec });
                }
            }
        }
        Ok(rules)
    }

    /// How to walk trees so that nothing is looked up that would be thrown away; `None`: not at all.
    pub(crate) fn walk(&self, options: WalkOptions) -> Option<WalkOptions> {
        if self.no_trees && self.no_blobs {
            return None;
        }
        Some(match self.limit {
            _ if self.no_blobs => options.blobs(BlobRule::None),
            Some(limit) => options.blobs(BlobRule::Below(limit)),
            None => options,
        })
    }

    fn leaves_out(&self, kind: ObjectKind) -> bool {
        match kind {
            ObjectKind::Commit => self.no_commits,
            ObjectKind::Tree => self.no_trees,
            ObjectKind::Blob => self.no_blobs,
            ObjectKind::Tag => self.no_tags,
        }
    }

    /// Takes out of `set` what the filter leaves out, except `tips`.
    pub(crate) fn apply<D: AsRef<[u8]>>(
        &self,
        set: &mut ObjectSet,
        tips: &ObjectSet,
        numbering: &Numbering,
        file: &BitmapFile<D>,
    ) -> Result<(), AnswerError> {
        if *self == Rules::default() {
            return Ok(());
        }
        let all = [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Blob, ObjectKind::Tag];
        let tip_words = tips.words();
        for kind in all.into_iter().filter(|kind| self.leaves_out(*kind)) {
            let words = set.words_mut(file.object_count());
            for (nr, (word, mask)) in words.iter_mut().zip(file.of_kind(kind)).enumerate() {
                *word &= !(mask & !tip_words.get(nr).copied().unwrap_or(0));
            }
        }
        if let Some(limit) = self.limit
            && !self.no_blobs
        {
            self.sizes(limit, set, tip_words, numbering, file)?;
        }
        // Outside the bitmapped pack only the walk has put objects, and it has kept to the rules for blobs.
        let base = ObjectNr::new(file.object_count());
        let mut next = set.next_at_or_after(base);
        let drop_any = self.no_commits || self.no_trees || self.no_tags;
        while let Some(nr) = next.filter(|_| drop_any) {
            if !tips.contains(nr) && self.leaves_out(kind_of(numbering, nr)?) {
                set.remove(nr);
            }
            next = nr.get().checked_add(1).and_then(|nr| set.next_at_or_after(ObjectNr::new(nr)));
        }
        Ok(())
    }

    fn sizes<D: AsRef<[u8]>>(
        &self,
        limit: u64,
        set: &mut ObjectSet,
        tips: &[u64],
        numbering: &Numbering,
        file: &BitmapFile<D>,
    ) -> Result<(), AnswerError> {
        let pack = numbering.pack(0);
        let order = pack.order()?;
        let words = set.words_mut(file.object_count());
        for (nr, (word, mask)) in words.iter_mut().zip(file.of_kind(ObjectKind::Blob)).enumerate() {
            let mut blobs = *word & mask & !tips.get(nr).copied().unwrap_or(0);
            while blobs != 0 {
                let bit = blobs.trailing_zeros();
                blobs &= blobs - 1;
                let pos = PackPos::new(nr as u32 * 64 + bit); // a bit of the file, so below its count
                let size = match pack.header(order.offset(pos)) {
                    Ok(header) => header.size,
                    Err(_) => numbering.store().header(&pack.idx().id(order.idx_pos(pos)))?.size,
                };
                if size >= limit {
                    *word &= !(1 << bit);
                }
            }
        }
        Ok(())
    }
}

fn kind_of(numbering: &Numbering, nr: ObjectNr) -> Result<ObjectKind, WalkError> {
    if let Place::Packed { pack, pos } = numbering.place(nr) {
        let pack = numbering.pack(pack);
        if let Ok(header) = pack.order().and_then(|order| pack.header(order.offset(pos))) {
            return Ok(header.kind);
        }
    }
    Ok(numbering.store().header(&numbering.id_of(nr)?)?.kind)
}
