//! Split indexes: a large shared file that rarely changes, and a small one that says what is different.
//!
//! The small file has extension `link`: the shared file's checksum, one bitmap of shared entries that are gone and one of
//! shared entries that are replaced. Its own entries are first the replacements, without paths, in the shared order,
//! then what was added (gitformat-index, "Split index").

use ewah::EwahBuf;
use object::ObjectId;

use crate::entry::{Entry, NewEntry};
use crate::ext::Link;
use crate::index::Index;
use crate::store::{Slot, Slots, Store};

/// How an index is split: the shared index it builds on.
pub(crate) struct Split {
    /// Its checksum; `None` if it is still to be written.
    pub(crate) base: Option<ObjectId>,
    /// Its entries.
    pub(crate) slots: Slots,
    /// For each entry of the index, 1 + its position there; 0 if it is not from there. Empty: none is.
    pub(crate) of: Vec<u32>,
}

/// Puts the own entries on top of the shared ones. Linear.
pub(crate) fn merge(
    store: &mut Store<'_>,
    mut own: Vec<Slot>,
    base: Vec<Slot>,
    link: &Link<'_>,
) -> Result<(Vec<Slot>, Split), &'static str> {
    let mut deleted = link.delete.iter().flat_map(|bits| bits.ones()).peekable();
    let mut replaced = link.replace.iter().flat_map(|bits| bits.ones()).peekable();
    let added = own.split_off(own.iter().take_while(|slot| store.path(**slot).is_empty()).count());
    let mut own = own.into_iter();
    if added.iter().any(|slot| store.path(*slot).is_empty()) {
        return Err("an added entry has no path");
    }
    if added.windows(2).any(|pair| matches!(pair, [a, b] if !before(store.entry(*a), store.entry(*b)))) {
        return Err("added entries are out of order");
    }
    let mut added = added.into_iter().peekable();

    let mut slots = Vec::with_capacity(base.len() + added.len());
    let mut of = Vec::with_capacity(base.len() + added.len());
    for (at, &slot) in (0u32..).zip(&base) {
        let is_replaced = replaced.next_if_eq(&at).is_some();
        if deleted.next_if_eq(&at).is_some() {
            if is_replaced {
                return Err("a shared entry is both replaced and deleted");
            }
            continue;
        }
        let shared = store.entry(slot);
        let mut here = slot;
        if is_replaced {
            let entry = store.entry(own.next().ok_or("too few replacements")?);
            here = store.put(&NewEntry { path: shared.path(), ..entry.into() });
        }
        while let Some(slot) = added.next_if(|slot| before(store.entry(*slot), shared)) {
            slots.push(slot);
            of.push(0);
        }
        // An added entry of the same path and stage takes the shared one's place.
        if let Some(slot) = added.next_if(|slot| !before(shared, store.entry(*slot))) {
            here = slot;
        }
        slots.push(here);
        of.push(at + 1);
    }
    if deleted.next().is_some() || replaced.next().is_some() {
        return Err("a bit lies beyond the shared entries");
    }
    if own.next().is_some() {
        return Err("too many replacements");
    }
    for slot in added {
        slots.push(slot);
        of.push(0);
    }
    Ok((slots, Split { base: Some(link.base), slots: Slots::List(base), of }))
}

fn before(a: Entry<'_>, b: Entry<'_>) -> bool {
    a.cmp_key(b.path(), b.stage()).is_lt()
}

/// What a split index writes into its own file.
pub(crate) struct Own {
    /// Replacements in shared order, to be written without their paths.
    pub(crate) replacements: Slots,
    /// Entries that are not in the shared file.
    pub(crate) added: Slots,
    pub(crate) delete: EwahBuf,
    pub(crate) replace: EwahBuf,
}

impl Split {
    /// Compares the entries with the shared ones. Linear; an entry that lies where the shared one lies is not looked at.
    pub(crate) fn own(&self, slots: &Slots, store: &Store<'_>) -> Own {
        let mut own = Own {
            replacements: Slots::default(),
            added: Slots::default(),
            delete: EwahBuf::new(),
            replace: EwahBuf::new(),
        };
        let (mut delete, mut replace) = (EwahBuf::builder(), EwahBuf::builder());
        let mut next = 0u32; // the first shared entry that is not accounted for
        for (at, slot) in slots.iter(0..slots.len()).enumerate() {
            let shared = self.of.get(at).copied().unwrap_or(0).checked_sub(1).filter(|&shared| shared >= next);
            let Some((shared, base)) = shared.and_then(|at| Some((at, self.slots.get(at as usize)?))) else {
                own.added.list().push(slot);
                continue;
            };
            if shared > next {
                // Bits ascend and are below a u32, so neither call can fail.
                let _ = delete.set_range(next, shared - 1);
            }
            next = shared + 1;
            if slot != base && store.entry(slot) != store.entry(base) {
                let _ = replace.set(shared);
                own.replacements.list().push(slot);
            }
        }
        let count = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        if next < count {
            let _ = delete.set_range(next, count - 1);
        }
        (own.delete, own.replace) = (delete.finish(), replace.finish());
        own
    }

    /// How many entries are not from the shared file.
    pub(crate) fn not_shared(&self, count: usize) -> usize {
        count - self.of.iter().take(count).filter(|&&of| of != 0).count()
    }
}

impl Index<'_> {
    /// Whether a split index has this entry in place of one of its shared index.
    pub fn is_replacement(&self, at: usize) -> bool {
        let Some(split) = &self.split else { return false };
        let shared = split.of.get(at).and_then(|&of| split.slots.get((of as usize).checked_sub(1)?));
        shared.is_some() && self.slots.get(at) != shared
    }
}
