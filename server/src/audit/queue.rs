//! Queue: lines on their way to the writer, bounded by places that calls take before they begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::oneshot;

use super::ChangeError;
use super::line::Line;

/// How long whoever finds no place had better wait.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// What the writer is told.
pub(super) enum Message {
    Line(Line),
    Reopen,
    Close(oneshot::Sender<()>),
}

/// Where a line gets its place from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum LineSlot {
    /// It was taken when the call began.
    Reserved,
    /// It changed nothing: it never keeps out a call that would.
    IfThereIsRoom,
}

pub(super) struct Queue {
    sender: Sender<Message>,
    max: usize,
    /// Lines that are not written yet, and calls under way that will have one.
    n_taken: AtomicUsize,
    fault: ArcSwapOption<Box<str>>,
}

impl Queue {
    pub(super) fn new(sender: Sender<Message>, max: usize) -> Queue {
        Queue { sender, max, n_taken: AtomicUsize::new(0), fault: ArcSwapOption::empty() }
    }

    /// # Errors
    /// `UNAVAILABLE` while lines cannot be written.
    pub(super) fn check(&self) -> Result<(), ChangeError> {
        match &*self.fault.load() {
            Some(_) => Err(ChangeError::LogUnwritable),
            None => Ok(()),
        }
    }

    /// Takes a place.
    ///
    /// # Errors
    /// As [`Queue::check`]; `RESOURCE_EXHAUSTED` where there is none.
    pub(super) fn reserve(&self) -> Result<(), ChangeError> {
        self.check()?;
        if self.take(self.max) {
            return Ok(());
        }
        Err(ChangeError::QueueFull { retry_after: RETRY_AFTER })
    }

    fn take(&self, max: usize) -> bool {
        let add = |n: usize| (n < max).then_some(n + 1);
        // A count alone: no data is read on the strength of it.
        self.n_taken.try_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Gives a place back.
    pub(super) fn release(&self) {
        self.release_all(1);
    }

    /// The lines of so many places are written.
    pub(super) fn release_all(&self, n: usize) {
        self.n_taken.fetch_sub(n, Ordering::Relaxed);
    }

    pub(super) fn n_taken(&self) -> usize {
        self.n_taken.load(Ordering::Relaxed)
    }

    /// Puts a line in its place.
    pub(super) fn send(&self, place: LineSlot, line: Line) {
        // Half of the places are for calls that change something.
        if place == LineSlot::IfThereIsRoom && !self.take(self.max / 2) {
            return;
        }
        self.tell(Message::Line(line));
    }

    pub(super) fn tell(&self, message: Message) {
        if let Err(error) = self.sender.send(message)
            && let Message::Line(line) = error.0
        {
            // The server has ended, and this call was cut off.
            self.release();
            line.log();
        }
    }

    pub(super) fn fault(&self) -> Option<Arc<str>> {
        self.fault.load().as_ref().map(|reason| Arc::from(&***reason))
    }

    pub(super) fn set_fault(&self, reason: Option<String>) {
        self.fault.store(reason.map(|reason| Arc::new(reason.into())));
    }
}
