//! Queue: lines on their way to the writer, bounded by slots that calls reserve before they begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::oneshot;

use super::ChangeError;
use super::line::Line;

/// Delay before a retry when no slot is free.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Message to the writer.
pub(super) enum Message {
    Line(Line),
    Reopen,
    Close(oneshot::Sender<()>),
}

/// Origin of a line's slot.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum LineSlot {
    /// The slot was reserved when the call began.
    Reserved,
    /// No slot was reserved since the call changed nothing: its line never keeps out a call that does.
    IfThereIsRoom,
}

pub(super) struct Queue {
    sender: Sender<Message>,
    max: usize,
    /// Number of lines that are not written yet, and of calls under way that will have one.
    n_taken: AtomicUsize,
    fault: ArcSwapOption<Box<str>>,
}

impl Queue {
    pub(super) fn new(sender: Sender<Message>, max: usize) -> Queue {
        Queue { sender, max, n_taken: AtomicUsize::new(0), fault: ArcSwapOption::empty() }
    }

    /// Checks that lines can be written.
    ///
    /// # Errors
    /// `UNAVAILABLE` while lines cannot be written.
    pub(super) fn check(&self) -> Result<(), ChangeError> {
        match &*self.fault.load() {
            Some(_) => Err(ChangeError::LogUnwritable),
            None => Ok(()),
        }
    }

    /// Reserves a slot.
    ///
    /// # Errors
    /// The errors of [`Queue::check`]; `RESOURCE_EXHAUSTED` if no slot is free.
    pub(super) fn reserve(&self) -> Result<(), ChangeError> {
        self.check()?;
        if self.take(self.max) {
            return Ok(());
        }
        Err(ChangeError::QueueFull { retry_after: RETRY_AFTER })
    }

    fn take(&self, max: usize) -> bool {
        let add = |n: usize| (n < max).then_some(n + 1);
        // The count alone is shared: no other data depends on its ordering.
        self.n_taken.try_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Releases a slot.
    pub(super) fn release(&self) {
        self.release_all(1);
    }

    /// Releases `n` slots, whose lines are written.
    pub(super) fn release_all(&self, n: usize) {
        self.n_taken.fetch_sub(n, Ordering::Relaxed);
    }

    pub(super) fn n_taken(&self) -> usize {
        self.n_taken.load(Ordering::Relaxed)
    }

    /// Sends a line in its slot.
    pub(super) fn send(&self, place: LineSlot, line: Line) {
        // Half of the slots are kept for calls that change something.
        if place == LineSlot::IfThereIsRoom && !self.take(self.max / 2) {
            return;
        }
        self.tell(Message::Line(line));
    }

    pub(super) fn tell(&self, message: Message) {
        if let Err(error) = self.sender.send(message)
            && let Message::Line(line) = error.0
        {
            // The writer has ended, and this call was aborted.
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
