//! Changes: what a call tells of itself while it is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::ChangeError;
use super::queue::{LineSlot, Queue};

/// By which a call, or its handler, says that it changes something. Travels in the request's extensions while lines are wanted.
#[derive(Clone)]
pub(crate) struct Changes(Arc<Told>);

struct Told {
    queue: Arc<Queue>,
    state: AtomicU8,
    n: AtomicU64,
}

/// Nothing was told.
const NOTHING: u8 = 0;
/// The call was not allowed to change what it would have.
const DENIED: u8 = 1;
/// The call changes something and has a place in the queue.
const BEGUN: u8 = 2;
/// The call is over.
const OVER: u8 = 3;

impl Changes {
    pub(super) fn new(queue: Arc<Queue>) -> Changes {
        Changes(Arc::new(Told { queue, state: AtomicU8::new(NOTHING), n: AtomicU64::new(0) }))
    }

    /// The call is about to change something. A stream says so of each of its messages.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` where too many lines wait, `UNAVAILABLE` where none can be written: nothing may be changed then.
    pub(crate) fn begin(&self) -> Result<(), ChangeError> {
        let Told { queue, state, n } = &*self.0;
        match state.load(Ordering::Acquire) {
            BEGUN => queue.check()?,
            OVER => {
                // Its caller went away, and what is begun now is taken back: there is nobody to name in a line of its own.
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

    /// The call would have changed something and was not allowed to.
    pub(crate) fn note_denied(&self) {
        // What was begun before stays so.
        let state = &self.0.state;
        state.compare_exchange(NOTHING, DENIED, Ordering::AcqRel, Ordering::Acquire).ok();
    }

    /// How often something was begun.
    pub(super) fn n(&self) -> u64 {
        self.0.n.load(Ordering::Relaxed)
    }

    /// The call is over: the place of its line, where it gets one.
    pub(super) fn line_slot(&self) -> Option<LineSlot> {
        match self.0.state.swap(OVER, Ordering::AcqRel) {
            BEGUN => Some(LineSlot::Reserved),
            DENIED => Some(LineSlot::IfThereIsRoom),
            _ => None,
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if *self.state.get_mut() == BEGUN {
            // Nobody recorded it: the server ends.
            self.queue.release();
        }
    }
}
