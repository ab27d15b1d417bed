//! Audit: a line for each call that changes something: who, what, when, with which outcome.
//!
//! A call that changes something takes a place in the queue of lines before it begins, and gives it to its line when it ends: a
//! call that was let through never finds the queue full. Where the lines cannot be written, no such call is let through.

mod changes;
mod error;
mod line;
mod options;
mod queue;
mod sink;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::oneshot;

pub(crate) use changes::Changes;
pub(crate) use error::ChangeError;
pub(crate) use line::Line;
pub use options::{AuditOptions, AuditTarget};
use queue::{Message, Queue};
use sink::Sink;
use writer::Writer;

/// Where the lines go.
pub(crate) struct Audit {
    /// `None`: nobody wants lines.
    queue: Option<Arc<Queue>>,
}

/// Why there can be no audit log.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The file cannot be opened for writing.
    #[error(
        "cannot write the audit log `{}`: {source}; name another file with `--audit-log`, or `-` for standard error",
        path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The thread that writes it.
    #[error("cannot start the thread that writes the audit log: {0}")]
    Thread(std::io::Error),
}

impl Audit {
    /// Nobody wants lines.
    pub(crate) fn off() -> Audit {
        Audit { queue: None }
    }

    /// Opens the place that the options name. Without one, lines go to the log of this process, or nowhere where callers are not
    /// asked who they are. May wait for the file.
    ///
    /// # Errors
    /// [`AuditError`].
    pub(crate) fn start(options: &AuditOptions, is_open: bool) -> Result<Audit, AuditError> {
        let sink = match &options.target {
            Some(AuditTarget::File(path)) => Sink::file(path)
                .map_err(|source| AuditError::Open { path: path.clone(), source })?,
            Some(AuditTarget::StandardError) => Sink::StandardError,
            None if is_open => return Ok(Audit::off()),
            None => Sink::Log,
        };
        let (sender, receiver) = mpsc::channel();
        let queue = Arc::new(Queue::new(sender, options.max_waiting));
        let writer = Writer::new(sink, receiver, queue.clone());
        std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer.run())
            .map_err(AuditError::Thread)?;
        Ok(Audit { queue: Some(queue) })
    }

    /// By which a call tells that it changes something; `None` where nobody wants lines.
    pub(crate) fn changes(&self) -> Option<Changes> {
        self.queue.as_ref().map(|queue| Changes::new(queue.clone()))
    }

    /// Writes the line of a call that is over, if it changed something or was denied to.
    pub(crate) fn record(&self, changes: &Changes, line: impl FnOnce() -> Line) {
        if let Some(queue) = &self.queue
            && let Some(place) = changes.line_slot()
        {
            queue.send(place, Line { n_changes: changes.n(), ..line() });
        }
    }

    /// Why calls that change something are refused; `None` while lines are written.
    pub(crate) fn fault(&self) -> Option<Arc<str>> {
        self.queue.as_ref().and_then(|queue| queue.fault())
    }

    /// Opens the file anew, under the name that it was given: the one that is open may have been renamed.
    pub(crate) fn reopen(&self) {
        if let Some(queue) = &self.queue {
            queue.tell(Message::Reopen);
        }
    }

    /// Writes what waits, and ends. Gives up after `patience`.
    pub(crate) async fn close(&self, patience: Duration) {
        let Some(queue) = &self.queue else { return };
        let (done, is_done) = oneshot::channel();
        queue.tell(Message::Close(done));
        if tokio::time::timeout(patience, is_done).await.is_err() {
            let n_lines = queue.n_taken();
            tracing::error!(
                n_lines,
                "the audit log did not take its last lines in time: they are lost"
            );
        }
    }
}

#[cfg(test)]
mod tests;
