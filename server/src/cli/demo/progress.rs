//! Progress on standard error: a bar on a terminal, plain lines elsewhere.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use berth_client::OnProgress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::output;

/// Progress of one step with a known number of objects.
pub(super) struct Progress {
    what: String,
    bar: ProgressBar,
}

impl Progress {
    /// Shows the start of a step of `total` objects.
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

    /// Callback that takes the number of objects just completed.
    pub(super) fn callback(&self) -> OnProgress {
        let bar = self.bar.clone();
        Arc::new(move |n| bar.inc(n))
    }

    /// Removes the bar, or prints that the step is done.
    pub(super) fn finish(self) {
        if self.bar.is_hidden() {
            output::note(&format!("{}: done", self.what));
        }
        self.bar.finish_and_clear();
    }
}
