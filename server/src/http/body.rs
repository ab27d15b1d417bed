//! Bodies of requests: read whole, with a limit on the memory that all of them take.

use std::future::poll_fn;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use http_body::Body as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Reason why a body was not read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// The body is larger than the limit.
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// No memory becomes free for it.
    Busy,
    /// It did not arrive in time, or not completely.
    Cut(&'static str),
}

/// Time limit for a body. kube-scheduler gives a whole call 5 s by default; a slower client is gone or malicious.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Size up to which a body is not counted.
const SMALL: usize = 1 << 20;
/// Unit in which larger bodies are counted.
const UNIT: usize = 64 << 10;
/// Number of bodies of the largest size that may be held at a time.
const N_LARGEST: usize = 2;
/// Maximum number of bytes that are allocated ahead on the word of a header.
const MAX_AHEAD: usize = 16 << 20;

/// Reads bodies within limits.
pub(super) struct Bodies {
    max_bytes: usize,
    room: Arc<Semaphore>,
}

/// A body, and the memory reserved for it.
pub(super) struct Held {
    bytes: Vec<u8>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Bodies {
    pub(super) fn new(max_bytes: usize) -> Bodies {
        let units = N_LARGEST * max_bytes.div_ceil(UNIT);
        Bodies { max_bytes, room: Arc::new(Semaphore::new(units.min(Semaphore::MAX_PERMITS))) }
    }

    /// Reads the body of a request. If its length is known, all of its memory is reserved first; otherwise memory is
    /// reserved as it grows, without waiting.
    ///
    /// # Errors
    /// [`Unread::TooLarge`], before it is read if the length says so; [`Unread::Busy`] if no memory becomes free in
    /// time; [`Unread::Cut`].
    pub(super) async fn read(&self, headers: &HeaderMap, body: Body) -> Result<Held, Unread> {
        let length = headers.get(CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        let limit = self.max_bytes;
        if length.is_some_and(|length| length > limit) {
            return Err(Unread::TooLarge { limit });
        }
        let room = self.take_room(length.unwrap_or(0)).await?;
        let reading = self.fill(body, length.unwrap_or(0), room);
        match tokio::time::timeout(TIMEOUT, reading).await {
            Ok(read) => read,
            Err(_) => Err(Unread::Cut("30 s were not enough")),
        }
    }

    async fn fill(
        &self,
        mut body: Body,
        expected: usize,
        mut room: Option<OwnedSemaphorePermit>,
    ) -> Result<Held, Unread> {
        let limit = self.max_bytes;
        let mut bytes = Vec::with_capacity(expected.min(MAX_AHEAD));
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let frame = frame.map_err(|_| Unread::Cut("the connection broke off"))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > limit {
                return Err(Unread::TooLarge { limit });
            }
            bytes.extend_from_slice(&data);
            self.grow_room(&mut room, bytes.len())?;
        }
        Ok(Held { bytes, _room: room })
    }

    /// Reserves memory up to `n_bytes` in all.
    fn grow_room(
        &self,
        room: &mut Option<OwnedSemaphorePermit>,
        n_bytes: usize,
    ) -> Result<(), Unread> {
        let n_taken = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if n_bytes <= SMALL.max(n_taken * UNIT) {
            return Ok(());
        }
        let n_wanted = n_bytes.div_ceil(UNIT) - n_taken;
        let n_wanted = u32::try_from(n_wanted).map_err(|_| Unread::Busy)?;
        let more = self.room.clone().try_acquire_many_owned(n_wanted).map_err(|_| Unread::Busy)?;
        match room {
            Some(room) => room.merge(more),
            None => *room = Some(more),
        }
        Ok(())
    }

    async fn take_room(&self, n_bytes: usize) -> Result<Option<OwnedSemaphorePermit>, Unread> {
        if n_bytes <= SMALL {
            return Ok(None);
        }
        let units = u32::try_from(n_bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let taking = self.room.clone().acquire_many_owned(units);
        match tokio::time::timeout(TIMEOUT, taking).await {
            Ok(Ok(room)) => Ok(Some(room)),
            Ok(Err(_)) | Err(_) => Err(Unread::Busy),
        }
    }
}
