//! Bodies of requests: read whole, within the budget of bytes.

use std::future::poll_fn;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use http_body::Body as _;

use crate::admission::{ByteBudget, Bytes, Holder, SMALL};
use crate::auth::Caller;
use crate::net::Peer;

/// Reason why a body was not read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// The body is larger than the limit.
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// It would become larger in memory than any caller's share.
    TooMuch {
        /// About as many objects and lines as may be.
        limit: usize,
    },
    /// No memory becomes free for it.
    Busy,
    /// It did not arrive in time, or not completely.
    Cut(&'static str),
}

/// Time limit for a body. kube-scheduler gives a whole call 5 s by default; a slower client is gone or malicious.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a body waits before it looks again for bytes.
const PAUSE: Duration = Duration::from_millis(10);
/// Maximum number of bytes that are allocated ahead on the word of a header.
const MAX_AHEAD: usize = 16 << 20;
/// Bytes that are taken together for a body whose length is unknown.
const STEP: usize = 256 << 10;
/// About as many bytes as an object of JSON, or a line of YAML, becomes in memory, the rare large ones included.
const OBJECT_BYTES: usize = 512;

/// Reads bodies within limits.
pub(super) struct Bodies {
    max_bytes: usize,
    budget: ByteBudget,
}

/// A body, and the memory taken for it.
pub(super) struct Held {
    bytes: Vec<u8>,
    memory: Option<Bytes>,
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Held {
    /// Takes memory for what the body becomes when it is read.
    ///
    /// # Errors
    /// [`Unread::TooMuch`] if no caller may have as much, [`Unread::Busy`] if it is not to be had now.
    pub(super) fn weigh(&mut self, bodies: &Bodies, holder: &Holder) -> Result<(), Unread> {
        let objects = memchr::memchr2_iter(b'{', b'\n', &self.bytes).count();
        let n_bytes = objects.saturating_mul(OBJECT_BYTES);
        let limit = bodies.budget.share();
        if n_bytes > limit {
            return Err(Unread::TooMuch { limit: limit / OBJECT_BYTES });
        }
        if n_bytes <= SMALL {
            return Ok(());
        }
        bodies.grow(&mut self.memory, holder, n_bytes)
    }
}

/// The holder of the memory of a request.
pub(super) fn holder(caller: &Caller, peer: Option<&Arc<Peer>>) -> Holder {
    Holder::of(caller.user.clone(), peer)
}

impl Bodies {
    pub(super) fn new(max_bytes: usize, budget: ByteBudget) -> Bodies {
        Bodies { max_bytes, budget }
    }

    /// Reads the body of a request. If its length is known, all of its memory is taken first; otherwise memory is taken
    /// as it grows, without waiting.
    ///
    /// # Errors
    /// [`Unread::TooLarge`], before it is read if the length says so; [`Unread::Busy`] if no memory becomes free in
    /// time; [`Unread::Cut`].
    pub(super) async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
        holder: &Holder,
    ) -> Result<Held, Unread> {
        let length = headers.get(CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
        let limit = self.max_bytes.min(self.budget.share());
        if length.is_some_and(|length| length > limit) {
            return Err(Unread::TooLarge { limit });
        }
        let memory = self.take(holder, length.unwrap_or(0)).await?;
        let reading = self.fill(body, length.unwrap_or(0), memory, holder);
        match tokio::time::timeout(TIMEOUT, reading).await {
            Ok(read) => read,
            Err(_) => Err(Unread::Cut("30 s were not enough")),
        }
    }

    async fn fill(
        &self,
        mut body: Body,
        expected: usize,
        mut memory: Option<Bytes>,
        holder: &Holder,
    ) -> Result<Held, Unread> {
        let limit = self.max_bytes;
        let mut bytes = Vec::with_capacity(expected.min(MAX_AHEAD));
        let mut n_taken = expected.max(SMALL);
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let frame = frame.map_err(|_| Unread::Cut("the connection broke off"))?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > limit {
                return Err(Unread::TooLarge { limit });
            }
            bytes.extend_from_slice(&data);
            if bytes.len() > n_taken {
                let n_more = (bytes.len() - n_taken).max(STEP);
                self.grow(&mut memory, holder, n_more)?;
                n_taken += n_more;
            }
        }
        Ok(Held { bytes, memory })
    }

    fn grow(&self, memory: &mut Option<Bytes>, holder: &Holder, n: usize) -> Result<(), Unread> {
        let grown = match memory {
            Some(memory) => memory.grow(n),
            None => self.budget.take(holder, n).map(|taken| *memory = Some(taken)),
        };
        grown.map_err(|_| Unread::Busy)
    }

    /// Takes the memory of a body, waiting for it.
    async fn take(&self, holder: &Holder, n_bytes: usize) -> Result<Option<Bytes>, Unread> {
        if n_bytes <= SMALL {
            return Ok(None);
        }
        let taking = async {
            loop {
                match self.budget.take(holder, n_bytes) {
                    Ok(taken) => return taken,
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        };
        let taken = tokio::time::timeout(TIMEOUT, taking).await;
        taken.map(Some).map_err(|_| Unread::Busy)
    }
}
