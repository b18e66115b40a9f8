//! What `index-pack` shows of its progress.

use std::sync::Mutex;

use odb::Observer;

use super::typed::Typed;
use crate::progress::Meter;
use crate::report;

/// Two phases: the pack is read, and its deltas are resolved.
pub(crate) struct Progress {
    pub(super) meter: Meter,
    title: Option<String>,
    reading: bool,
    resolving: bool,
    /// Whether the end of the input is still to be told.
    report_end: Mutex<bool>,
    phases: Mutex<u32>,
}

impl Progress {
    pub(crate) fn new(typed: &Typed) -> Progress {
        let title = match (&typed.title, typed.stdin) {
            (Some(title), _) => title.to_string_lossy().into_owned(),
            (None, true) => "Receiving objects".to_owned(),
            (None, false) => "Indexing objects".to_owned(),
        };
        Progress {
            meter: Meter::new(&[]),
            title: Some(title),
            reading: typed.verbose,
            resolving: typed.verbose || typed.show_resolving,
            report_end: Mutex::new(typed.report_end),
            phases: Mutex::new(0),
        }
    }

    /// Whether there is anything to show or to tell.
    pub(crate) fn is_needed(&self) -> bool {
        self.reading || self.resolving || self.report_end.lock().is_ok_and(|end| *end)
    }

    /// Closes the last phase; so many bases were appended.
    pub(crate) fn finish(&self, appended: u32) {
        self.end_of_input();
        match appended {
            0 => self.meter.finish(),
            1 => self.meter.finish_with(", completed with 1 local object.\n"),
            n => self.meter.finish_with(&format!(", completed with {n} local objects.\n")),
        }
    }

    fn end_of_input(&self) {
        if let Ok(mut end) = self.report_end.lock()
            && std::mem::take(&mut *end)
        {
            report::say("\0");
        }
    }
}

impl Observer for Progress {
    fn phase(&self, name: &str, total: Option<u64>) {
        let nth = self.phases.lock().map_or(0, |mut phases| {
            *phases += 1;
            *phases
        });
        let show = if nth == 1 && name != "Resolving deltas" {
            self.reading.then(|| self.title.as_deref().unwrap_or(name))
        } else {
            self.end_of_input();
            // A pack without deltas has no such phase.
            (self.resolving && total != Some(0)).then_some(name)
        };
        match show {
            Some(name) => self.meter.phase(name, total),
            None => self.meter.finish(),
        }
    }

    fn inc(&self, n: u64) {
        self.meter.inc(n);
    }
}
