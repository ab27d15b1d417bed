//! Held bytes: the memory of the message that a handler got last, until it is decided.

use std::sync::{Arc, Mutex, PoisonError};

use crate::admission::Bytes;

/// The bytes of the message that a handler got last. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldBytes(Arc<Mutex<Option<Bytes>>>);

impl HeldBytes {
    /// Takes the bytes of the last message of a stream, so that they are held until it is decided; otherwise they are
    /// given back when the next message is asked for.
    pub(crate) fn take(&self) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Replaces the bytes by those of another message.
    pub(crate) fn set(&self, bytes: Option<Bytes>) {
        let before =
            std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), bytes);
        drop(before);
    }
}
