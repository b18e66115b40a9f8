//! Work for several threads: a stack, so that what was found last, and is at hand, is done first.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Tasks, and who works on them.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    /// Threads without work.
    idle: AtomicUsize,
    /// Tasks nobody works on.
    len: AtomicUsize,
    stopped: AtomicBool,
}

struct State<T> {
    tasks: Vec<(T, usize)>,
    /// Bytes that tasks hold which nobody works on.
    bytes: usize,
    running: usize,
    closed: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Queue {
            state: Mutex::new(State { tasks: Vec::new(), bytes: 0, running: 0, closed: false }),
            changed: Condvar::new(),
            idle: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// Adds a task that holds so many bytes. Gives how many all of them hold now.
    pub(crate) fn push(&self, task: T, bytes: usize) -> usize {
        let mut state = self.lock();
        state.tasks.push((task, bytes));
        state.bytes += bytes;
        self.len.store(state.tasks.len(), Ordering::Relaxed);
        self.changed.notify_one();
        state.bytes
    }

    /// Whether a thread waits and nothing is there for it. May be out of date.
    pub(crate) fn is_hungry(&self) -> bool {
        self.idle.load(Ordering::Relaxed) > 0 && self.len.load(Ordering::Relaxed) == 0
    }

    /// No task is begun any more.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        let mut state = self.lock();
        state.tasks.clear();
        state.bytes = 0;
        self.len.store(0, Ordering::Relaxed);
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Lets the threads go that are in [`work`](Self::work).
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Works until the queue is closed and empty.
    pub(crate) fn work(&self, mut run: impl FnMut(T)) {
        while let Some(task) = self.next(|state| state.closed) {
            run(task);
            self.done();
        }
    }

    /// Works until nothing is left to do, for others neither.
    pub(crate) fn drain(&self, mut run: impl FnMut(T)) {
        while let Some(task) = self.next(|state| state.running == 0) {
            run(task);
            self.done();
        }
    }

    /// Works until tasks hold no more than `bytes`.
    pub(crate) fn relieve(&self, bytes: usize, mut run: impl FnMut(T)) {
        loop {
            let mut state = self.lock();
            if state.bytes <= bytes {
                return;
            }
            let Some(task) = self.pop(&mut state) else { return };
            drop(state);
            run(task);
            self.done();
        }
    }

    /// Waits for a task; `None` if there is none and `enough` says so.
    fn next(&self, enough: impl Fn(&State<T>) -> bool) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(task) = self.pop(&mut state) {
                return Some(task);
            }
            if enough(&state) {
                return None;
            }
            self.idle.fetch_add(1, Ordering::Relaxed);
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            self.idle.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn pop(&self, state: &mut State<T>) -> Option<T> {
        let (task, bytes) = state.tasks.pop()?;
        state.bytes -= bytes;
        state.running += 1;
        self.len.store(state.tasks.len(), Ordering::Relaxed);
        Some(task)
    }

    fn done(&self) {
        let mut state = self.lock();
        state.running -= 1;
        if state.running == 0 && state.tasks.is_empty() {
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
