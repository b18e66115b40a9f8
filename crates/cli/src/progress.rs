//! Progress on standard error, in the form git shows it.
//!
//! A meter is one line, rewritten in place by a carriage return and closed by `, done.`: the form that upload-pack hands on
//! to its client over the side band, so it is the same on a terminal and in a pipe. With a known total the line is written
//! when the percentage changes, and at most a second after the last time; without one, once a second.

use std::io::{Read, Write as _};
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
    /// Bytes read so far, if somebody counts them.
    read: AtomicU64,
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
    /// How fast bytes come, if some came since the phase began.
    rate: Option<Rate>,
    began: Instant,
}

/// How fast bytes come.
struct Rate {
    total: u64,
    /// When and at how many bytes the text was made.
    at: Instant,
    then: u64,
    text: String,
}

impl Rate {
    /// Between two texts.
    const INTERVAL: Duration = Duration::from_millis(500);

    fn note(&mut self, total: u64) {
        self.total = total;
        let elapsed = self.at.elapsed();
        if elapsed >= Self::INTERVAL {
            self.say(total - self.then, elapsed);
            (self.at, self.then) = (Instant::now(), total);
        }
    }

    fn say(&mut self, bytes: u64, elapsed: Duration) {
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX).max(1);
        let rate = u128::from(bytes) * 1_000_000 / u128::from(micros);
        let rate = amount(u64::try_from(rate).unwrap_or(u64::MAX));
        self.text = format!(", {} | {rate}/s", amount(self.total));
    }
}

/// A number of bytes as people read it.
fn amount(bytes: u64) -> String {
    for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes >> shift > 0 {
            // Hundredths, rounded.
            let hundredths = (u128::from(bytes) * 100 + (1 << (shift - 1))) >> shift;
            return format!("{}.{:02} {unit}", hundredths / 100, hundredths % 100);
        }
    }
    format!("{bytes} {}", if bytes == 1 { "byte" } else { "bytes" })
}

impl Meter {
    /// A meter that shows all phases but those named.
    pub(crate) fn new(hidden: &'static [&'static str]) -> Self {
        Meter {
            hidden,
            value: AtomicU64::new(0),
            read: AtomicU64::new(0),
            due: AtomicU64::new(u64::MAX),
            line: Mutex::new(None),
        }
    }

    /// Notes that so many more bytes were read, which the open phase shows.
    pub(crate) fn read(&self, bytes: u64) {
        let total = self.read.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Ok(mut line) = self.line.lock()
            && let Some(line) = line.as_mut()
        {
            let at = line.began;
            line.rate.get_or_insert_with(|| Rate { total, at, then: 0, text: String::new() }).note(total);
        }
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
        let counters = match &mut self.rate {
            Some(rate) => {
                if end.is_some() {
                    rate.say(rate.total, self.began.elapsed());
                }
                counters + &rate.text
            }
            None => counters,
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
            rate: None,
            began: Instant::now(),
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

/// What is read, and told to a meter.
pub(crate) struct Counted<'m, R> {
    pub(crate) input: R,
    pub(crate) meter: &'m Meter,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = self.input.read(out)?;
        self.meter.read(n as u64);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        for (bytes, want) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1.00 KiB"),
            (1536, "1.50 KiB"),
            (32_261_734, "30.77 MiB"),
            (5 << 30, "5.00 GiB"),
        ] {
            assert_eq!(amount(bytes), want);
        }
    }
}
