//! Audit: writes a line for each call that changes something: who, what, when, with which outcome.
//!
//! A call that changes something reserves a slot in the queue of lines before it begins, and its line uses the slot
//! when it ends: an admitted call never finds the queue full. While lines cannot be written, no such call is
//! admitted.

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

/// The audit log of a server.
pub(crate) struct Audit {
    /// Queue to the writer; `None` if audit is off.
    queue: Option<Arc<Queue>>,
}

/// Reason why there can be no audit log.
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
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The thread that writes the log cannot be started.
    #[error("cannot start the thread that writes the audit log: {0}")]
    Thread(std::io::Error),
}

impl Audit {
    /// An audit log that is off.
    pub(crate) fn off() -> Audit {
        Audit { queue: None }
    }

    /// Opens the target that the options name. Without one, lines go to the log of this process, or nowhere if
    /// callers are not authenticated. May wait for the file.
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

    /// Handle with which a call reports that it changes something; `None` if audit is off.
    pub(crate) fn changes(&self) -> Option<Changes> {
        self.queue.as_ref().map(|queue| Changes::new(queue.clone()))
    }

    /// Writes the line of a call that is over, if it changed something or was denied a change.
    pub(crate) fn record(&self, changes: &Changes, line: impl FnOnce() -> Line) {
        if let Some(queue) = &self.queue
            && let Some(place) = changes.line_slot()
        {
            queue.send(place, Line { n_changes: changes.n(), ..line() });
        }
    }

    /// Reason why calls that change something are refused; `None` while lines are written.
    pub(crate) fn fault(&self) -> Option<Arc<str>> {
        self.queue.as_ref().and_then(|queue| queue.fault())
    }

    /// Opens the file anew by its configured name: the open file may have been renamed.
    pub(crate) fn reopen(&self) {
        if let Some(queue) = &self.queue {
            queue.tell(Message::Reopen);
        }
    }

    /// Writes the queued lines, and ends. Gives up after `patience`.
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
