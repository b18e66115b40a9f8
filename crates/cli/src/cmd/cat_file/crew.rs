//! Many hands: answers are made by several threads and written by one, in the order of the requests.
//!
//! Requests are handed out in units of neighbours. Whoever makes the answers of the oldest unit may always go on, as
//! these are being written; the others wait once [`AHEAD`] bytes are ready, so that memory stays bounded whatever is asked
//! for. The writer lets go of what it has whenever nothing more is ready, and so whoever sends requests may wait for more
//! of them at any time.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::answer::{Answers, Buffers, Item, Sink};
use super::output::{GATHERED, Output, Piece};
use crate::report::Failure;

/// So many bytes may be ready before their turn.
const AHEAD: usize = 8 << 20;

/// So many bytes are passed on together, as waking another thread costs more than an answer.
const TOGETHER: usize = 512 << 10;

/// A buffer that is larger is not kept for the next use.
const KEPT: usize = 1 << 20;

/// Requests that follow each other.
#[derive(Default)]
pub(super) struct Unit {
    pub(super) items: Vec<Item>,
    /// What the items' names and rests are part of.
    pub(super) text: Vec<u8>,
    /// Their answers leave at once.
    pub(super) flush: bool,
}

/// A unit on its way.
struct Place {
    /// Until somebody takes it.
    unit: Option<Unit>,
    flush: bool,
    ready: Vec<Piece>,
    bytes: usize,
    done: Option<Result<(), Failure>>,
}

#[derive(Default)]
struct State {
    /// The oldest first, whose number is `first`.
    places: VecDeque<Place>,
    first: u64,
    /// In all places together.
    bytes: usize,
    /// No more requests will come.
    closed: bool,
    /// Something failed, and nothing more will be written.
    failed: bool,
    /// Buffers for the next pieces, and the bytes they can hold.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
}

impl State {
    /// Keeps buffers for the next pieces.
    fn keep(&mut self, pieces: Vec<Piece>) {
        for mut buffer in pieces.into_iter().flat_map(|piece| [piece.text, piece.content]) {
            let size = buffer.capacity();
            if size > 0 && size <= KEPT && self.spare_bytes + size <= AHEAD {
                buffer.clear();
                self.spare_bytes += size;
                self.spare.push(buffer);
            }
        }
    }

    fn place(&mut self, number: u64) -> Option<&mut Place> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.places.get_mut(at)
    }
}

/// What the threads share.
pub(super) struct Crew {
    state: Mutex<State>,
    /// Something changed that one of them may wait for.
    requests: Condvar,
    answers: Condvar,
    room: Condvar,
    /// So many units may be on their way.
    units: usize,
}

impl Crew {
    /// For so many threads that make answers.
    pub(super) fn new(makers: usize) -> Crew {
        Crew {
            state: Mutex::default(),
            requests: Condvar::new(),
            answers: Condvar::new(),
            room: Condvar::new(),
            units: 8 * makers,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a unit over; waits while there are many. `false`: something failed, and the writer says what.
    pub(super) fn submit(&self, unit: Unit) -> bool {
        let full = |state: &mut State| state.places.len() >= self.units && !state.failed;
        let mut state = self.room.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        let flush = unit.flush;
        state.places.push_back(Place { unit: Some(unit), flush, ready: Vec::new(), bytes: 0, done: None });
        self.requests.notify_one();
        !state.failed
    }

    /// Says that no more requests will come.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.requests.notify_all();
        self.answers.notify_all();
    }

    /// Makes answers until there are no more requests.
    pub(super) fn make(&self, answers: &Answers<'_>) {
        let mut buffers = Buffers::default();
        let mut pieces =
            Pieces { crew: self, number: 0, done: Vec::new(), bytes: 0, piece: Piece::default(), spare: Vec::new() };
        loop {
            let mut state = self.lock();
            let (number, unit) = loop {
                if state.failed {
                    return;
                }
                let first = state.first;
                let waiting =
                    (first..).zip(&mut state.places).find_map(|(number, place)| Some((number, place.unit.take()?)));
                match waiting {
                    Some(found) => break found,
                    None if state.closed => return,
                    None => state = self.requests.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(state);
            pieces.number = number;
            let made = unit.items.iter().try_for_each(|item| answers.item(item, &unit.text, &mut buffers, &mut pieces));
            // What was made before something went wrong is an answer.
            let sent = pieces.send();
            let mut state = self.lock();
            if let Some(place) = state.place(number) {
                place.done = Some(made.and(sent));
            }
            self.answers.notify_one();
        }
    }

    /// Writes answers until there are no more.
    pub(super) fn write(&self, out: &mut Output) -> Result<(), Failure> {
        let done = self.write_all(out);
        let flushed = out.flush();
        let mut state = self.lock();
        state.failed = true;
        state.places.clear();
        drop(state);
        self.requests.notify_all();
        self.room.notify_all();
        done.and(flushed)
    }

    fn write_all(&self, out: &mut Output) -> Result<(), Failure> {
        let mut state = self.lock();
        loop {
            let closed = state.closed;
            match state.places.front_mut() {
                Some(place) => {
                    if !place.ready.is_empty() {
                        let pieces = std::mem::take(&mut place.ready);
                        let bytes = std::mem::take(&mut place.bytes);
                        state.bytes -= bytes;
                        drop(state);
                        let written = out.pieces(&pieces);
                        state = self.lock();
                        state.keep(pieces);
                        self.room.notify_all();
                        written?;
                        continue;
                    }
                    if let Some(done) = place.done.take() {
                        let flush = place.flush;
                        state.places.pop_front();
                        state.first += 1;
                        self.room.notify_all();
                        done?;
                        if flush {
                            drop(state);
                            out.flush()?;
                            state = self.lock();
                        }
                        continue;
                    }
                }
                None if closed => return Ok(()),
                None => {}
            }
            if out.holds_back() {
                drop(state);
                out.flush()?;
                state = self.lock();
                continue;
            }
            state = self.answers.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Where a unit's answers go.
struct Pieces<'c> {
    crew: &'c Crew,
    number: u64,
    /// To be passed on, and how many bytes that is.
    done: Vec<Piece>,
    bytes: usize,
    piece: Piece,
    spare: Vec<Vec<u8>>,
}

impl Pieces<'_> {
    fn end_piece(&mut self) {
        if !self.piece.is_empty() {
            let text = self.spare.pop().unwrap_or_default();
            let piece = std::mem::replace(&mut self.piece, Piece { text, content: Vec::new() });
            self.bytes += piece.len();
            self.done.push(piece);
        }
    }

    /// Passes on what there is. Waits while too much is ready before its turn.
    fn send(&mut self) -> Result<(), Failure> {
        self.end_piece();
        if self.done.is_empty() {
            return Ok(());
        }
        let crowded = |state: &mut State| {
            let oldest = state.first == self.number;
            let bytes = if oldest { state.places.front().map_or(0, |place| place.bytes) } else { state.bytes };
            bytes >= AHEAD && !state.failed
        };
        let mut state = self.crew.room.wait_while(self.crew.lock(), crowded).unwrap_or_else(PoisonError::into_inner);
        if state.failed {
            return Err(Failure::ClosedPipe);
        }
        let wanted = self.done.len();
        state.bytes += self.bytes;
        let is_oldest = state.first == self.number;
        if let Some(place) = state.place(self.number) {
            place.bytes += std::mem::take(&mut self.bytes);
            place.ready.append(&mut self.done);
        }
        let from = state.spare.len().saturating_sub(wanted);
        let spare = state.spare.split_off(from);
        state.spare_bytes -= spare.iter().map(Vec::capacity).sum::<usize>();
        drop(state);
        self.spare.extend(spare);
        if is_oldest {
            self.crew.answers.notify_one();
        }
        Ok(())
    }
}

impl Sink for Pieces<'_> {
    fn text(&mut self) -> &mut Vec<u8> {
        &mut self.piece.text
    }

    fn content(&mut self, content: &mut Vec<u8>) -> Result<(), Failure> {
        if content.len() <= GATHERED {
            self.piece.text.extend_from_slice(content);
            return Ok(());
        }
        let spare = self.spare.pop().unwrap_or_default();
        self.piece.content = std::mem::replace(content, spare);
        self.end_piece();
        self.settle()
    }

    fn settle(&mut self) -> Result<(), Failure> {
        if self.bytes + self.piece.len() >= TOGETHER { self.send() } else { Ok(()) }
    }
}
