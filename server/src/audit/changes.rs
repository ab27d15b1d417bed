//! Changes: what a call reports to the audit log while it is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::ChangeError;
use super::queue::{LineSlot, Queue};

/// Handle with which a call, or its handler, reports that it changes something. Travels in the request's extensions if
/// audit is on.
#[derive(Clone)]
pub(crate) struct Changes(Arc<Shared>);

struct Shared {
    queue: Arc<Queue>,
    state: AtomicU8,
    n: AtomicU64,
}

/// Nothing was reported.
const NOTHING: u8 = 0;
/// The call was denied a change.
const DENIED: u8 = 1;
/// The call changes something and has a slot in the queue.
const BEGUN: u8 = 2;
/// The call is over.
const OVER: u8 = 3;

impl Changes {
    pub(super) fn new(queue: Arc<Queue>) -> Changes {
        Changes(Arc::new(Shared { queue, state: AtomicU8::new(NOTHING), n: AtomicU64::new(0) }))
    }

    /// Reports that the call is about to change something. A stream reports each of its messages.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if too many lines wait, `UNAVAILABLE` if none can be written: nothing may be changed
    /// then.
    pub(crate) fn begin(&self) -> Result<(), ChangeError> {
        let Shared { queue, state, n } = &*self.0;
        match state.load(Ordering::Acquire) {
            BEGUN => queue.check()?,
            OVER => {
                // The caller went away, and a change that begins now would be undone: no line would name the caller.
                return Err(ChangeError::CallEnded);
            }
            from => {
                queue.reserve()?;
                let begun =
                    state.compare_exchange(from, BEGUN, Ordering::AcqRel, Ordering::Acquire);
                if let Err(now) = begun {
                    queue.release();
                    // Another message of the stream was first, or the call has just ended.
                    if now == OVER {
                        return Err(ChangeError::CallEnded);
                    }
                }
            }
        }
        n.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Reports that the call was denied a change.
    pub(crate) fn note_denied(&self) {
        // A change that has begun stays reported.
        let state = &self.0.state;
        state.compare_exchange(NOTHING, DENIED, Ordering::AcqRel, Ordering::Acquire).ok();
    }

    /// Number of changes that were begun.
    pub(super) fn n(&self) -> u64 {
        self.0.n.load(Ordering::Relaxed)
    }

    /// Ends the call; returns the slot of its line, if it gets one.
    pub(super) fn line_slot(&self) -> Option<LineSlot> {
        match self.0.state.swap(OVER, Ordering::AcqRel) {
            BEGUN => Some(LineSlot::Reserved),
            DENIED => Some(LineSlot::IfThereIsRoom),
            _ => None,
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if *self.state.get_mut() == BEGUN {
            // The call was not recorded: the server is ending.
            self.queue.release();
        }
    }
}
