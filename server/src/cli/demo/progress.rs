//! Something to look at while waiting: a bar on a terminal, plain lines elsewhere.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use berth_loadgen::client::OnProgress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::output;

/// One stretch of work with a known end.
pub(super) struct Progress {
    what: String,
    bar: ProgressBar,
}

impl Progress {
    /// Says what begins; `total` objects are to come.
    pub(super) fn start(what: &str, total: u64) -> Progress {
        let bar = if io::stderr().is_terminal() {
            ProgressBar::new(total)
        } else {
            ProgressBar::hidden()
        };
        let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what.to_owned());
        if bar.is_hidden() {
            output::note(&format!("{what} …"));
        }
        Progress { what: what.to_owned(), bar }
    }

    /// To be called with the number of objects that are done.
    pub(super) fn callback(&self) -> OnProgress {
        let bar = self.bar.clone();
        Arc::new(move |n| bar.inc(n))
    }

    /// Takes the bar away, or says that the work is done.
    pub(super) fn finish(self) {
        if self.bar.is_hidden() {
            output::note(&format!("{}: done", self.what));
        }
        self.bar.finish_and_clear();
    }
}
