//! Holds a multi-pack-index against its checksum, its own order, and the indexes of the packs it covers.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use object::ObjectId;
use pack_format::idx::Idx;
use pack_format::midx::PACK_NUMBER;
use pack_format::{MidxPos, ParseError, ParseErrorKind};

use super::edit::{Editor, TICK};
use super::{Layer, Layers, MidxError, Note, root_path};
use crate::source::{self, Bytes};

/// Something that is wrong with a multi-pack-index. Positions are counted over all layers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The trailer is not the checksum of the content.
    Checksum {
        /// The file.
        path: PathBuf,
    },
    /// A layer that the chain names cannot be used, nor can those above it; or the chain file is damaged.
    Unusable {
        /// The file.
        path: PathBuf,
    },
    /// A pack that is covered is not there, or is no pack.
    Pack {
        /// Its number.
        number: u32,
        /// Its `.idx`, as named.
        name: Vec<u8>,
    },
    /// There is no object in it.
    Empty,
    /// Two ids are in the wrong order, or the same.
    Order {
        /// Position of the first.
        at: u32,
        /// The first.
        first: ObjectId,
        /// The second.
        second: ObjectId,
    },
    /// An id is not where a look-up would search for it, or its pack could not be used.
    Entry {
        /// Its position.
        at: u32,
        /// The id.
        id: ObjectId,
    },
    /// The pack's `.idx` is not there, or not readable.
    Index {
        /// The `.pack`.
        path: PathBuf,
    },
    /// The pack's `.idx` gives another offset, or does not have the object.
    Offset {
        /// Position of the object.
        at: u32,
        /// The object.
        id: ObjectId,
        /// The offset that the multi-pack-index gives.
        found: u64,
        /// The offset that the `.idx` gives; 0 if it does not have the object.
        expected: u64,
    },
    /// Pack number or offset of an object cannot be right.
    Location {
        /// Position of the object.
        at: u32,
        /// What is wrong.
        error: ParseError,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Checksum { .. } => f.write_str("incorrect checksum"),
            Fault::Unusable { path } => write!(f, "cannot use {}", path.display()),
            Fault::Pack { number, .. } => write!(f, "failed to load pack in position {number}"),
            Fault::Empty => f.write_str("the midx contains no oid"),
            Fault::Order { at, first, second } => {
                let next = at + 1;
                write!(f, "oid lookup out of order: oid[{at}] = {first} >= {second} = oid[{next}]")
            }
            Fault::Entry { at, id } => write!(f, "failed to load pack entry for oid[{at}] = {id}"),
            Fault::Index { path } => write!(f, "failed to load pack-index for packfile {}", path.display()),
            Fault::Offset { at, id, found, expected } => {
                write!(f, "incorrect object offset for oid[{at}] = {id}: {found:x} != {expected:x}")
            }
            Fault::Location { at, error } => match error.kind {
                ParseErrorKind::OutOfRange { what: PACK_NUMBER, found, limit } => {
                    write!(f, "bad pack-int-id: {found} ({limit} total packs) for oid[{at}]")
                }
                _ => write!(f, "multi-pack-index large offset out of bounds for oid[{at}]"),
            },
        }
    }
}

/// What can be said of a covered pack.
enum State {
    Fine(Idx<Bytes>),
    /// Not there, or no pack that belongs to its index.
    Gone,
    /// Without a usable index; told once.
    NoIndex,
}

impl Editor<'_> {
    /// Checks all there is, and calls `fault` for whatever is wrong. Returns whether anything was; without a
    /// multi-pack-index there is nothing wrong.
    ///
    /// Checked are the checksum of each layer, that all packs are there and belong to their indexes, that ids ascend and are
    /// found where the fan-out table says, and that each offset is the one that the pack's index has. Nothing is read from
    /// the packs but header and trailer. Linear; a pack's index is open for as long as its layer is looked at.
    ///
    /// # Errors
    /// [`MidxError::Load`] if nothing that is there can be used (of a chain, sound layers are checked, and what is wrong with
    /// the others noted); [`MidxError::Cancelled`].
    pub fn verify(&mut self, fault: &mut dyn FnMut(Fault)) -> Result<bool, MidxError> {
        let mut faults = 0u64;
        let mut fault = |found| {
            faults += 1;
            fault(found);
        };
        let mut wrong = Vec::new();
        let layers = Layers::load(&self.objects, self.hash, self.byte_source, &mut |error| wrong.push(error));
        // With a chain in its place, a single file that cannot be used is only worth a word.
        let Some(layers) = layers else { return wrong.into_iter().next().map_or(Ok(false), |error| Err(error.into())) };
        for error in wrong {
            if error.path != root_path(&self.objects) {
                fault(Fault::Unusable { path: error.path.clone() });
            }
            (self.note)(Note::Load(error));
        }
        for layer in layers.layers() {
            self.check_cancelled()?;
            if layer.midx().verify_checksum().is_err() {
                fault(Fault::Checksum { path: layer.path().to_owned() });
            }
        }
        self.observer.phase("Looking for referenced packfiles", Some(layers.pack_count().into()));
        let mut states: HashMap<u32, State> = HashMap::new();
        for (number, name) in (0u32..).zip(layers.pack_names()) {
            self.check_cancelled()?;
            let state = self.state_of(name);
            if matches!(state, State::Gone) {
                fault(Fault::Pack { number, name: name.to_vec() });
            }
            states.insert(number, state);
            self.observer.inc(1);
        }
        if layers.layers().last().is_some_and(|top| top.midx().count() == 0) {
            fault(Fault::Empty);
            return Ok(true);
        }
        self.observer.phase("Verifying OID order in multi-pack-index", Some(layers.count().into()));
        for layer in layers.layers() {
            let ids = (1..layer.midx().count()).map(|pos| (MidxPos::new(pos - 1), MidxPos::new(pos)));
            for (first, second) in ids {
                let (midx, at) = (layer.midx(), layer.base_objects() + first.get());
                if midx.id_bytes(first) >= midx.id_bytes(second) {
                    fault(Fault::Order { at, first: midx.id(first), second: midx.id(second) });
                }
                self.tick(second.get())?;
            }
            self.observer.inc(u64::from(layer.midx().count() % TICK));
        }
        self.observer.phase("Verifying object offsets", Some(layers.count().into()));
        for layer in layers.layers() {
            for pos in (0..layer.midx().count()).map(MidxPos::new) {
                self.check_entry(layer, pos, &mut states, &mut fault);
                self.tick(pos.get())?;
            }
            self.observer.inc(u64::from(layer.midx().count() % TICK));
        }
        Ok(faults > 0)
    }

    fn check_entry(&self, layer: &Layer, pos: MidxPos, states: &mut HashMap<u32, State>, fault: &mut dyn FnMut(Fault)) {
        let (midx, at) = (layer.midx(), layer.base_objects() + pos.get());
        let (pack, offset) = match midx.location(pos) {
            Ok(location) => location,
            Err(error) => return fault(Fault::Location { at, error }),
        };
        let id = midx.id(pos);
        if midx.lookup(&id).is_none_or(|found| midx.location(found) != Ok((pack, offset))) {
            return fault(Fault::Entry { at, id });
        }
        match states.get_mut(&(layer.base_packs() + pack.get())) {
            Some(State::Fine(idx)) => {
                let expected = idx.lookup(&id).and_then(|pos| idx.offset(pos).ok()).map_or(0, |offset| offset.get());
                let found = offset.get();
                if found != expected {
                    fault(Fault::Offset { at, id, found, expected });
                }
            }
            Some(state @ State::NoIndex) => {
                *state = State::Gone;
                let path = self.pack_path(midx.pack_name(pack), "pack").unwrap_or_default();
                fault(Fault::Index { path });
            }
            Some(State::Gone) | None => fault(Fault::Entry { at, id }),
        }
    }

    fn state_of(&self, name: &[u8]) -> State {
        let Some(path) = self.pack_path(name, "pack") else { return State::Gone };
        let Ok((file, len)) = source::open_regular(&path) else { return State::Gone };
        let Ok(idx) = self.open_idx(&path.with_extension("idx")) else { return State::NoIndex };
        let mut trailer = vec![0; self.hash.len()];
        let read = len.checked_sub(trailer.len() as u64).map(|at| source::read_exact_at(&file, &mut trailer, at));
        match read {
            Some(Ok(())) if trailer == idx.pack_checksum().as_bytes() => State::Fine(idx),
            _ => State::Gone,
        }
    }
}
