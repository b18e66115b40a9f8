//! Progress on standard error, in the form git shows it.
//!
//! A meter is one line, rewritten in place by a carriage return and closed by `, done.`: the form that upload-pack hands on
//! to its client over the side band, so it is the same on a terminal and in a pipe. With a known total the line is written
//! when the percentage changes, and at most a second after the last time; without one, once a second.

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use odb::Observer;

/// How often a line is refreshed when nothing else asks for it.
const INTERVAL: Duration = Duration::from_secs(1);
/// At most so many steps pass between two looks at the clock.
const STRIDE: u64 = 1024;

/// How a phase ends.
const DONE: &str = ", done.\n";

/// Shows the phases of one command. One phase at a time is open.
pub(crate) struct Meter {
    /// Phases that are not shown, by name.
    hidden: &'static [&'static str],
    value: AtomicU64,
    /// The value at which the line is due for a look.
    due: AtomicU64,
    line: Mutex<Option<Line>>,
}

struct Line {
    title: String,
    total: Option<u64>,
    shown_percent: Option<u64>,
    shown_at: Instant,
    /// Length of the counters last shown: a shorter text must cover them.
    shown_len: usize,
}

impl Meter {
    /// A meter that shows all phases but those named.
    pub(crate) fn new(hidden: &'static [&'static str]) -> Self {
        Meter { hidden, value: AtomicU64::new(0), due: AtomicU64::new(u64::MAX), line: Mutex::new(None) }
    }

    /// Brings the open phase up to `value`, where its steps were fewer than what they found.
    pub(crate) fn raise(&self, value: u64) {
        self.value.fetch_max(value, Ordering::Relaxed);
    }

    /// Closes the open phase.
    pub(crate) fn finish(&self) {
        self.finish_with(DONE);
    }

    /// Closes the open phase with these words.
    pub(crate) fn finish_with(&self, end: &str) {
        self.replace(None, end);
    }

    fn replace(&self, next: Option<Line>, end: &str) {
        let Ok(mut line) = self.line.lock() else { return };
        let value = self.value.swap(0, Ordering::Relaxed);
        if let Some(mut old) = line.take() {
            // A phase that did nothing is not worth a line.
            if value > 0 {
                old.show(value, Some(end));
            }
        }
        self.due.store(if next.is_some() { 1 } else { u64::MAX }, Ordering::Relaxed);
        *line = next;
    }

    /// Looks whether the line must be written, and when to look again.
    fn look(&self) {
        // Another thread that is at it already will do.
        let Ok(mut line) = self.line.try_lock() else { return };
        let Some(line) = line.as_mut() else { return };
        let value = self.value.load(Ordering::Relaxed);
        line.show(value, None);
        let mut due = value.saturating_add(STRIDE);
        if let Some(total) = line.total.filter(|&total| total > 0) {
            let percent = percent(value, total);
            let next = (u128::from(percent + 1) * u128::from(total)).div_ceil(100);
            due = due.min(u64::try_from(next).unwrap_or(u64::MAX)).max(value + 1);
        }
        self.due.store(due, Ordering::Relaxed);
    }
}

fn percent(value: u64, total: u64) -> u64 {
    u64::try_from(u128::from(value) * 100 / u128::from(total.max(1))).unwrap_or(100)
}

impl Line {
    fn show(&mut self, value: u64, end: Option<&str>) {
        let late = end.is_some() || self.shown_at.elapsed() >= INTERVAL;
        let counters = match self.total {
            Some(total) => {
                let percent = percent(value, total);
                if self.shown_percent == Some(percent) && !late {
                    return;
                }
                self.shown_percent = Some(percent);
                format!("{percent:3}% ({value}/{total})")
            }
            None if !late => return,
            None => value.to_string(),
        };
        let cover = self.shown_len.saturating_sub(counters.len());
        self.shown_len = counters.len();
        self.shown_at = Instant::now();
        let end = end.unwrap_or("\r");
        // The text that ends a line also covers what a longer one left behind.
        let pad = if cover > 0 { (cover + 1).saturating_sub(end.len()) } else { 0 };
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "{}: {counters}{:pad$}{end}", self.title, "");
        let _ = stderr.flush();
    }
}

impl Observer for Meter {
    fn phase(&self, name: &str, total: Option<u64>) {
        let line = (!self.hidden.contains(&name)).then(|| Line {
            title: name.to_owned(),
            total,
            shown_percent: None,
            shown_at: Instant::now(),
            shown_len: 0,
        });
        self.replace(line, DONE);
    }

    fn inc(&self, n: u64) {
        let value = self.value.fetch_add(n, Ordering::Relaxed).saturating_add(n);
        if value >= self.due.load(Ordering::Relaxed) {
            self.look();
        }
    }
}
