//! Objects that are shown once more, when all are known.
//!
//! Their chains of deltas are made into objects again, each once, by the same threads within the same memory: so
//! however many are asked for, and however long their chains are, that costs no more than the first time.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use odb::Observer;

use crate::budget::{Arena, Budget};
use crate::error::ReceiveError;
use crate::forest::{Forest, Waiting};
use crate::options::{Inspect, Object, Options, Received, Refusal};
use crate::resolve::{Source, Work, resolve};
use crate::table::{Stored, Table};

/// Shows the objects that the inspector asks for. `order` has the entries by id.
pub(crate) fn again(
    file: &File,
    path: &Path,
    table: &mut Table,
    order: &[u32],
    arena: &Arena,
    count: u32,
    options: &Options,
) -> Result<(), ReceiveError> {
    let Some(inspect) = &options.inspect else { return Ok(()) };
    let wanted = inspect.again(&Received { table, order }).map_err(ReceiveError::Refused)?;
    if wanted.is_empty() {
        return Ok(());
    }
    let (mut roots, mut whole) = (Vec::new(), Vec::new());
    // Climbed once, whichever chains share it.
    let mut climbed = vec![false; table.len() as usize];
    for id in wanted {
        let found = order.binary_search_by(|&entry| table.id_bytes(entry).cmp(id.as_bytes()));
        let Some(&wanted) = found.ok().and_then(|at| order.get(at)) else { continue };
        if matches!(table.stored(wanted), Stored::Whole(_)) {
            whole.push(wanted);
            continue;
        }
        let mut entry = wanted;
        while let Some(climbed) = climbed.get_mut(entry as usize).filter(|climbed| !**climbed) {
            if matches!(table.stored(entry), Stored::Whole(_)) {
                roots.push(entry);
                break;
            }
            *climbed = true;
            entry = table.parent(entry);
        }
    }
    roots.sort_unstable();
    roots.dedup();
    whole.sort_unstable();
    whole.dedup();
    // Only what lies on the way to those that are wanted is made; bases by name may lie behind their deltas.
    let forest = Forest::without(table, true, |entry| !climbed.get(entry as usize).is_some_and(|&climbed| climbed));
    let options = Options {
        inspect: Some(Arc::new(Again(inspect.clone()))),
        observer: Arc::new(Silent(options.observer.clone())),
        ..options.clone()
    };
    let budget = Budget::new(options.memory, u64::from(count) * Table::row_len(options.hash));
    budget.take(arena.len());
    let names = table.take_names();
    let source = Source { file, path, table, arena, count };
    let waiting = Waiting::new(Vec::new());
    let work = Work {
        source,
        forest: &forest,
        waiting: &waiting,
        roots: &roots,
        unseen: &whole,
        names,
        budget: &budget,
        options: &options,
    };
    let names = resolve(work)?;
    table.give_names(names);
    Ok(())
}

/// Takes what is shown for what is shown again.
struct Again(Arc<dyn Inspect>);

impl Inspect for Again {
    fn object(&self, object: Object<'_>) -> Result<(), Refusal> {
        self.0.object_again(object)
    }
}

/// Asks whether to stop, and tells nothing: no phase of the work begins here.
struct Silent(Arc<dyn Observer>);

impl Observer for Silent {
    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
}
