//! Received: the messages of a request as they come in. Each is taken whole within the budget of bytes, and measured,
//! before anything is decoded; what is over is refused.

use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use berth_proto::layout::{Bounds, Excess, Layout, Measured, Meter, Refused};
use http_body::{Body as HttpBody, Frame, SizeHint};
use prost::bytes::{Buf as _, Bytes as Buffer, BytesMut};
use tokio::time::{Instant, Sleep, sleep};
use tonic::Status;
use tonic::body::Body;

use crate::admission::{ByteBudget, Bytes, Holder, SMALL};
use crate::service::Credential;
use crate::service::{CallError, HeldBytes};

/// Length of the prefix of a message: a flag and its length.
const PREFIX_BYTES: usize = 5;
/// Time within which a message comes whole, or at least so many bytes more of it.
const PATIENCE: Duration = Duration::from_secs(10);
const BYTES_IN_TIME: usize = 1 << 20;
/// Time within which a stranger's message begins, after the start of the call or after the message before.
const STRANGERS_PATIENCE: Duration = Duration::from_secs(60);
/// Pause before a message is refused for what it is.
const REFUSAL_PAUSE: Duration = Duration::from_millis(200);
/// How long a stream waits for bytes before it looks again, and altogether.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// What messages of a call may take.
pub(super) struct Terms {
    pub(super) budget: ByteBudget,
    pub(super) holder: Holder,
    /// Layout of the messages; `None` for the standard services.
    pub(super) layout: Option<&'static Layout>,
    pub(super) bounds: Bounds,
    pub(super) max_message_bytes: usize,
    /// Whether there may be many messages: then one waits for bytes rather than being refused, and the bytes of the one
    /// before are given back first.
    pub(super) is_stream: bool,
    /// Whether nobody has to say who they are: then a message has to begin in time, too.
    pub(super) is_for_strangers: bool,
    /// Credential of a stream's caller, looked at again before each message.
    pub(super) credential: Option<Credential>,
}

/// A request's body, whose data are whole messages.
pub(super) struct Received {
    body: Body,
    terms: Terms,
    held: HeldBytes,
    /// Bytes of the next message, and of those behind it.
    buffer: BytesMut,
    /// Memory of the buffer, once a message came in parts.
    memory: Option<Bytes>,
    message: Option<Message>,
    waits: Option<Wait>,
    /// Why the call is refused, and the pause before that.
    refused: Option<Box<(CallError, Pin<Box<Sleep>>)>>,
    /// Until when the next message of a stranger has to begin.
    beginning: Option<Pin<Box<Sleep>>>,
    is_over: bool,
}

/// A message that is coming in.
struct Message {
    /// Length with its prefix.
    n_bytes: usize,
    /// Measures what has come of it; `None` for the standard services.
    meter: Option<Box<Meter>>,
    /// When it has to be whole, or longer than `n_late`.
    deadline: Pin<Box<Sleep>>,
    n_late: usize,
}

/// A wait for bytes.
struct Wait {
    pause: Pin<Box<Sleep>>,
    until: Instant,
}

impl Received {
    pub(super) fn new(body: Body, terms: Terms, held: HeldBytes) -> Received {
        let (buffer, message, waits) = (BytesMut::new(), None, None);
        let beginning = terms.is_for_strangers.then(|| Box::pin(sleep(STRANGERS_PATIENCE)));
        Received {
            body,
            terms,
            held,
            buffer,
            memory: None,
            message,
            waits,
            refused: None,
            beginning,
            is_over: false,
        }
    }

    /// Whether the frame is one whole message, which is the usual case.
    fn is_whole(&self, data: &Buffer) -> bool {
        self.buffer.is_empty() && self.message.is_none() && length(data) == Some(data.len())
    }

    fn check_credential(&mut self) -> Result<(), CallError> {
        match &mut self.terms.credential {
            Some(credential) => Ok(credential.check()?),
            None => Ok(()),
        }
    }

    /// Checks a message whose prefix is there.
    fn check_length(&self, prefix: &[u8]) -> Result<usize, CallError> {
        let n_bytes = length(prefix).unwrap_or(usize::MAX);
        let limit = self.terms.max_message_bytes;
        if n_bytes.saturating_sub(PREFIX_BYTES) > limit {
            return Err(CallError::MessageTooLarge { limit });
        }
        // Nothing is decompressed here: the transport refuses such a message.
        Ok(n_bytes)
    }

    /// Takes memory for a decoded message beside its buffer, of which the transport makes a copy of `n_copied` bytes
    /// before it decodes that; `None` for one that is not counted.
    fn hold(&self, measured: Measured, n_copied: usize) -> Result<Option<Bytes>, CallError> {
        let Terms { budget, holder, .. } = &self.terms;
        let (n, limit) = (measured.n_bytes, budget.share_of(holder));
        if n > limit {
            return Err(CallError::TooMany { what: "decoded bytes", limit });
        }
        // The buffer is free before the copy is decoded.
        match n.max(n_copied) {
            0..=SMALL => Ok(None),
            n => Ok(Some(budget.take(holder, n)?)),
        }
    }

    /// Takes memory for what has come of a message in parts. A stream keeps a little of it.
    fn hold_buffer(&mut self) -> Result<(), CallError> {
        let n = self.buffer.len().next_multiple_of(SMALL);
        match &mut self.memory {
            Some(memory) if memory.n() >= n => Ok(()),
            Some(memory) => Ok(memory.grow(n - memory.n())?),
            None => {
                self.memory = Some(self.terms.budget.take(&self.terms.holder, n)?);
                Ok(())
            }
        }
    }

    fn meter(&self) -> Option<Meter> {
        self.terms.layout.map(|layout| Meter::new(layout, self.terms.bounds))
    }

    /// Bytes for a message that came in one piece; `None` for one that is not counted.
    fn measure(&self, message: &[u8]) -> Result<Option<Bytes>, CallError> {
        // Nothing is decompressed: the transport refuses such a message.
        let Some(mut meter) = self.meter().filter(|_| message[0] == 0) else { return Ok(None) };
        advance(&mut meter, &message[PREFIX_BYTES..], true)?;
        self.hold(meter.measured(), 0)
    }

    /// Waits and returns `Pending`, or the error where the wait is over.
    fn retry(
        &mut self,
        context: &mut Context<'_>,
        error: CallError,
    ) -> Poll<Option<Result<Frame<Buffer>, Status>>> {
        if !self.terms.is_stream || !matches!(error, CallError::Overloaded(_)) {
            return self.fail(context, error);
        }
        let now = Instant::now();
        let until = self.waits.as_ref().map_or(now + LONGEST_WAIT, |wait| wait.until);
        if now >= until {
            return self.fail(context, error);
        }
        let mut pause = Box::pin(sleep(PAUSE));
        // It was just made, so it is pending, and wakes the task.
        let _ = pause.as_mut().poll(context);
        self.waits = Some(Wait { pause, until });
        Poll::Pending
    }

    /// Ends the request with an error, after a moment: who sends such messages one after the other is slowed down.
    fn fail(
        &mut self,
        context: &mut Context<'_>,
        error: CallError,
    ) -> Poll<Option<Result<Frame<Buffer>, Status>>> {
        self.message = None;
        self.buffer = BytesMut::new();
        self.memory = None;
        // What was sent and not read is dropped with the body.
        self.body = Body::empty();
        self.refused = Some(Box::new((error, Box::pin(sleep(REFUSAL_PAUSE)))));
        self.poll_refused(context)
    }

    fn poll_refused(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Buffer>, Status>>> {
        if let Some(refused) = &mut self.refused {
            ready!(refused.1.as_mut().poll(context));
        }
        self.is_over = true;
        Poll::Ready(self.refused.take().map(|refused| Err(refused.0.into())))
    }

    /// The next whole message in the buffer; `None` where more has to come.
    fn next(&mut self) -> Result<Option<Buffer>, CallError> {
        if self.message.is_none() {
            if self.buffer.len() < PREFIX_BYTES {
                if !self.buffer.is_empty() {
                    self.hold_buffer()?;
                }
                return Ok(None);
            }
            self.message = Some(self.begin()?);
        }
        let Some(message) = &mut self.message else { return Ok(None) };
        let n_bytes = message.n_bytes;
        let is_whole = self.buffer.len() >= n_bytes;
        if let Some(meter) = &mut message.meter {
            let there = &self.buffer[PREFIX_BYTES..n_bytes.min(self.buffer.len())];
            advance(meter, there, is_whole)?;
        }
        if !is_whole {
            self.hold_buffer()?;
            return Ok(None);
        }
        let measured = message.meter.as_ref().map(|meter| meter.measured()).unwrap_or_default();
        let mut bytes = self.hold(measured, n_bytes)?;
        if n_bytes > SMALL
            && let (Some(bytes), Some(memory)) = (&mut bytes, self.memory.take())
        {
            bytes.join(memory);
        }
        self.message = None;
        if let Some(beginning) = &mut self.beginning {
            beginning.as_mut().reset(Instant::now() + STRANGERS_PATIENCE);
        }
        self.held.set(bytes);
        let whole = self.buffer.split_to(n_bytes).freeze();
        if self.buffer.is_empty() {
            // Otherwise the buffer keeps room for the largest message that ever came.
            self.buffer = BytesMut::new();
        }
        Ok(Some(whole))
    }

    /// Begins a message whose prefix is in the buffer.
    fn begin(&self) -> Result<Message, CallError> {
        let n_bytes = self.check_length(&self.buffer)?;
        let deadline = Box::pin(sleep(PATIENCE));
        let meter = self.meter().filter(|_| self.buffer[0] == 0).map(Box::new);
        Ok(Message { n_bytes, meter, deadline, n_late: BYTES_IN_TIME })
    }

    /// Whether the next message is late: ready once it is.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match (&mut self.message, &mut self.beginning) {
            (Some(message), _) => loop {
                ready!(message.deadline.as_mut().poll(context));
                if self.buffer.len() < message.n_late {
                    return Poll::Ready(());
                }
                message.n_late = self.buffer.len() + BYTES_IN_TIME;
                message.deadline.as_mut().reset(Instant::now() + PATIENCE);
            },
            (None, Some(beginning)) => beginning.as_mut().poll(context),
            (None, None) => Poll::Pending,
        }
    }
}

/// Measures what has come of a message.
fn advance(meter: &mut Meter, message: &[u8], is_whole: bool) -> Result<(), CallError> {
    match meter.advance(message, is_whole) {
        Ok(()) => Ok(()),
        Err(Refused::Excess { path, what, limit }) => Err(too_long(path, what, limit)),
        // Decoding says what is wrong with it.
        Err(Refused::Malformed | Refused::Truncated) if is_whole => Ok(()),
        Err(Refused::Malformed | Refused::Truncated) => {
            let reason = "it does not begin like a message of protobuf".to_owned();
            Err(CallError::Undecodable { reason })
        }
    }
}

/// The error for a list or an object that is too large.
fn too_long(path: String, what: Excess, limit: usize) -> CallError {
    let reason = match what {
        Excess::Items => format!("has more than {limit} elements"),
        Excess::ObjectItems => format!("the lists of its object have more than {limit} elements"),
        Excess::ObjectBytes => format!("has more than {limit} bytes"),
        Excess::Occurrences => format!("stands there more than {limit} times"),
        Excess::Depth => format!("has more than {limit} levels"),
    };
    CallError::field(path, reason)
}

/// Length of a message with its prefix, once that is there.
fn length(data: &[u8]) -> Option<usize> {
    let [_, a, b, c, d, ..] = *data else { return None };
    let n = usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?;
    n.checked_add(PREFIX_BYTES)
}

impl HttpBody for Received {
    type Data = Buffer;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Buffer>, Status>>> {
        let this = &mut *self;
        if this.is_over {
            return Poll::Ready(None);
        }
        if this.refused.is_some() {
            return this.poll_refused(context);
        }
        if let Some(wait) = &mut this.waits {
            ready!(wait.pause.as_mut().poll(context));
        }
        if this.terms.is_stream {
            // The handler asks for the next message: it has decided the one before, or has taken its bytes.
            this.held.set(None);
        }
        loop {
            match this.next().and_then(|whole| this.check_credential().map(|()| whole)) {
                Ok(Some(whole)) => {
                    this.waits = None;
                    return Poll::Ready(Some(Ok(Frame::data(whole))));
                }
                Ok(None) => this.waits = None,
                Err(error) => return this.retry(context, error),
            }
            let frame = match Pin::new(&mut this.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    this.is_over = true;
                    let rest = std::mem::take(&mut this.buffer).freeze();
                    // A message that is cut off: the transport says so.
                    return Poll::Ready((!rest.is_empty()).then(|| Ok(Frame::data(rest))));
                }
                Poll::Pending => {
                    ready!(this.poll_late(context));
                    return this.fail(context, CallError::TookTooLong { limit: PATIENCE });
                }
            };
            let data = match frame.into_data() {
                Ok(data) => data,
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            };
            if this.is_whole(&data) && data.len() <= SMALL {
                let checked = this
                    .check_credential()
                    .and_then(|()| this.check_length(&data))
                    .and_then(|_| this.measure(&data));
                match checked {
                    Ok(bytes) => {
                        this.held.set(bytes);
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                    Err(error) if !matches!(error, CallError::Overloaded(_)) => {
                        return this.fail(context, error);
                    }
                    Err(_) => {}
                }
            }
            this.buffer.extend_from_slice(data.chunk());
        }
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
            || self.refused.is_none()
                && self.buffer.is_empty()
                && self.message.is_none()
                && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
