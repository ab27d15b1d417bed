//! Idempotency: a request that is named by its caller is carried out once. Its answer is remembered under (user, method, id); the
//! same request under the same name is given that answer instead of being carried out again, and another request is refused.
//!
//! Only `OK` is remembered: whatever else is answered has changed nothing, so that it does no harm to try again, and trying again
//! is what the name is for. It works on the bytes of messages, outside of the handlers, and costs nothing where there is no
//! name.
//!
//! What is remembered is in memory: it does not survive a restart, and neither does what it is about, but for the ledger's
//! grants. Those are compare-and-swap on what the caller knew before: repeated, they grant again what is held already, or say who
//! holds it.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::hash::{DefaultHasher, Hasher as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body as HttpBody, Frame};
use prost::bytes::{Bytes, BytesMut};
use tokio::sync::watch;
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tower_service::Service as _;

use super::status::CallError;
use crate::clock;

/// Tells that an answer is one from before; its value is `true`.
pub(crate) const REPLAYED: &str = "berth-replayed";
/// How long an answer is remembered.
const MAX_AGE: Duration = Duration::from_secs(5 * 60);
/// Most answers that are remembered, and most bytes of them with their names; the oldest make room.
const MAX_ANSWERS: usize = 100_000;
const MAX_BYTES: usize = 64 << 20;
/// What an answer takes besides its bytes and its name, about.
const OVERHEAD_BYTES: usize = 300;
/// A message's length and a flag stand before it.
const PREFIX_BYTES: usize = 5;

/// What a request is known by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    /// Two users may choose the same id.
    pub(crate) user: Arc<str>,
    pub(crate) method: &'static str,
    pub(crate) id: Arc<str>,
}

/// The answers to named requests.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<Name, Entry>,
    /// Those that are known, oldest first.
    order: VecDeque<(Instant, Name)>,
    n_bytes: usize,
}

#[derive(Debug)]
struct Entry {
    /// Of the request.
    digest: Digest,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    /// Closes when it is over.
    UnderWay(watch::Receiver<()>),
    /// The message of an `OK`, which is all that such an answer is.
    Known(Bytes),
}

/// 128 bits: whoever wants two requests of one name to have the same harms nobody else.
type Digest = [u64; 2];

/// A whole request or response.
#[derive(Clone, Debug, Default)]
struct Message {
    data: Bytes,
    trailers: Option<HeaderMap>,
}

/// What becomes of a named request.
enum Claim {
    First(UnderWay),
    Again(Bytes),
}

/// Carries a named request out, unless it was before.
///
/// # Errors
/// [`CallError::RequestIdReused`], [`CallError::MessageTooLarge`], and [`CallError::Undecodable`] where the request breaks off.
pub(super) async fn answer_once(
    answers: &Arc<Answers>,
    name: Name,
    mut routes: Routes,
    request: Request<Body>,
    max_message_bytes: usize,
) -> Result<Answered, CallError> {
    let (parts, body) = request.into_parts();
    let message = collect(body, max_message_bytes + PREFIX_BYTES).await?;
    let under_way = match answers.claim(name, digest(&message.data)).await? {
        Claim::First(under_way) => Arc::new(under_way),
        Claim::Again(data) => {
            return Ok(Answered { response: replayed(data), is_replayed: true });
        }
    };
    let data = (!message.data.is_empty()).then_some(message.data);
    let body = Body::new(Whole { data, trailers: None });
    let answering = routes.call(Request::from_parts(parts, body));
    let response = match UNDER_WAY.scope(under_way.clone(), answering).await {
        Ok(response) => response,
        Err(error) => match error {},
    };
    let (parts, body) = response.into_parts();
    let message = collect(body, usize::MAX).await?;
    let is_ok = |headers: &HeaderMap| headers.get("grpc-status").is_some_and(|code| code == "0");
    if message.trailers.as_ref().is_some_and(is_ok) {
        under_way.remember(&message.data);
    }
    let Message { data, trailers } = message;
    let data = (!data.is_empty()).then_some(data);
    let response = Response::from_parts(parts, Body::new(Whole { data, trailers }));
    Ok(Answered { response, is_replayed: false })
}

/// A unary answer as it was, and that it is one from before.
fn replayed(data: Bytes) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let mut response =
        Response::new(Body::new(Whole { data: Some(data), trailers: Some(trailers) }));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

tokio::task_local! {
    /// The named request that is being answered here.
    static UNDER_WAY: Arc<UnderWay>;
}

/// The named request that is being answered here, for work that goes on although its caller is gone: until it has undone what it
/// did, whoever comes with the same name waits.
pub(super) fn under_way() -> Option<Arc<UnderWay>> {
    UNDER_WAY.try_with(Arc::clone).ok()
}

/// An answer, and whether it is one from before.
pub(super) struct Answered {
    pub(super) response: Response<Body>,
    pub(super) is_replayed: bool,
}

impl Answers {
    /// Waits while the same request is under way.
    async fn claim(self: &Arc<Self>, name: Name, digest: Digest) -> Result<Claim, CallError> {
        loop {
            let mut over = {
                let mut table = self.table();
                table.forget_older(clock::now());
                match table.entries.get(&name) {
                    None => return Ok(Claim::First(self.begin(&mut table, name, digest))),
                    Some(entry) if entry.digest != digest => {
                        return Err(CallError::RequestIdReused { id: name.id.to_string() });
                    }
                    Some(Entry { outcome: Outcome::Known(answer), .. }) => {
                        return Ok(Claim::Again(answer.clone()));
                    }
                    Some(Entry { outcome: Outcome::UnderWay(over), .. }) => over.clone(),
                }
            };
            // Nothing is ever sent: it ends with the sender.
            while over.changed().await.is_ok() {}
        }
    }

    fn begin(self: &Arc<Self>, table: &mut Table, name: Name, digest: Digest) -> UnderWay {
        let (over, is_over) = watch::channel(());
        let entry = Entry { digest, outcome: Outcome::UnderWay(is_over) };
        table.entries.insert(name.clone(), entry);
        UnderWay { answers: self.clone(), name, digest, _over: over }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing panics under it that could leave it half changed.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A named request that is being carried out. Dropped without an answer to remember, it is as if it had never been sent: whoever
/// asks again, or waits, carries it out.
#[derive(Debug)]
pub(super) struct UnderWay {
    answers: Arc<Answers>,
    name: Name,
    digest: Digest,
    /// Wakes those who wait, once the table says what became of it.
    _over: watch::Sender<()>,
}

impl UnderWay {
    fn remember(&self, answer: &[u8]) {
        // A copy: it came in a buffer with room for many.
        let answer = Bytes::copy_from_slice(answer);
        let mut table = self.answers.table();
        table.remember(&self.name, self.digest, answer, clock::now());
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut table = self.answers.table();
        let is_under_way = |entry: &Entry| matches!(entry.outcome, Outcome::UnderWay(_));
        if table.entries.get(&self.name).is_some_and(is_under_way) {
            table.entries.remove(&self.name);
        }
    }
}

impl Table {
    fn remember(&mut self, name: &Name, digest: Digest, answer: Bytes, now: Instant) {
        self.n_bytes += n_bytes(name, &answer);
        let entry = Entry { digest, outcome: Outcome::Known(answer) };
        self.entries.insert(name.clone(), entry);
        self.order.push_back((now, name.clone()));
        while self.order.len() > MAX_ANSWERS || self.n_bytes > MAX_BYTES {
            self.forget_oldest();
        }
    }

    fn forget_older(&mut self, now: Instant) {
        let is_old = |since: Instant| now.saturating_duration_since(since) >= MAX_AGE;
        while self.order.front().is_some_and(|(since, _)| is_old(*since)) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((_, name)) = self.order.pop_front() else { return };
        if let Some(Entry { outcome: Outcome::Known(answer), .. }) = self.entries.remove(&name) {
            self.n_bytes -= n_bytes(&name, &answer);
        }
    }
}

fn n_bytes(name: &Name, answer: &Bytes) -> usize {
    answer.len() + name.id.len() + OVERHEAD_BYTES
}

fn digest(bytes: &[u8]) -> Digest {
    [0_u8, 1].map(|salt| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(salt);
        hasher.write(bytes);
        hasher.finish()
    })
}

/// All of a body.
async fn collect(mut body: Body, max_bytes: usize) -> Result<Message, CallError> {
    let (mut message, mut more) = (Message::default(), BytesMut::new());
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|error| CallError::Undecodable {
            reason: format!("it did not arrive whole: {}", error.message()),
        })?;
        match frame.into_data() {
            Ok(data) if message.data.is_empty() && more.is_empty() => message.data = data,
            Ok(data) => {
                more.extend_from_slice(&std::mem::take(&mut message.data));
                more.extend_from_slice(&data);
            }
            Err(frame) => message.trailers = frame.into_trailers().ok(),
        }
        if message.data.len() + more.len() > max_bytes {
            return Err(CallError::MessageTooLarge { limit: max_bytes - PREFIX_BYTES });
        }
    }
    if !more.is_empty() {
        message.data = more.freeze();
    }
    Ok(message)
}

/// A body that is there already.
struct Whole {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl HttpBody for Whole {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let data = self.data.take().map(Frame::data);
        Poll::Ready(data.or_else(|| self.trailers.take().map(Frame::trailers)).map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none() && self.trailers.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(id: &str) -> Name {
        Name { user: "u".into(), method: "/m", id: id.into() }
    }

    async fn is_first(answers: &Arc<Answers>, id: &str, request: &[u8]) -> bool {
        matches!(answers.claim(name(id), digest(request)).await, Ok(Claim::First(_)))
    }

    #[tokio::test]
    async fn an_answer_is_given_again_and_nothing_else_is() {
        let answers = Arc::new(Answers::default());
        let Ok(Claim::First(first)) = answers.claim(name("a"), digest(b"q")).await else {
            panic!("nobody asked before")
        };
        first.remember(b"yes");
        drop(first);
        let Ok(Claim::Again(again)) = answers.claim(name("a"), digest(b"q")).await else {
            panic!("it was answered")
        };
        assert_eq!(again, "yes");
        let other = answers.claim(name("a"), digest(b"r")).await.err();
        assert_eq!(other, Some(CallError::RequestIdReused { id: "a".to_owned() }));
        assert!(is_first(&answers, "b", b"q").await);
        let stranger = Name { user: "v".into(), ..name("a") };
        assert!(matches!(answers.claim(stranger, digest(b"r")).await, Ok(Claim::First(_))));
    }

    #[tokio::test]
    async fn who_comes_second_waits_and_takes_over_where_the_first_gives_up() {
        let answers = Arc::new(Answers::default());
        let Ok(Claim::First(first)) = answers.claim(name("a"), digest(b"q")).await else {
            panic!("nobody asked before")
        };
        let mut second = Box::pin(answers.claim(name("a"), digest(b"q")));
        poll_fn(|cx| {
            assert!(second.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        // What is another request need not wait to be told.
        assert!(answers.claim(name("a"), digest(b"r")).await.is_err());
        drop(first);
        let Ok(Claim::First(second)) = second.await else { panic!("the first gave up") };
        let mut third = Box::pin(answers.claim(name("a"), digest(b"q")));
        poll_fn(|cx| {
            assert!(third.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        second.remember(b"yes");
        drop(second);
        assert!(matches!(third.await, Ok(Claim::Again(again)) if again == "yes"));
    }

    #[test]
    fn what_is_remembered_is_bounded_in_age_number_and_bytes() {
        let (mut table, start) = (Table::default(), Instant::now());
        for (seconds, id) in ["a", "b", "c"].into_iter().enumerate() {
            let at = start + Duration::from_secs(seconds as u64);
            table.remember(&name(id), digest(b""), Bytes::from_static(b"x"), at);
        }
        table.forget_older(start + MAX_AGE + Duration::from_secs(1));
        assert_eq!((table.entries.len(), table.order.len()), (1, 1));
        assert!(table.entries.contains_key(&name("c")));
        let half = Bytes::from(vec![0; MAX_BYTES / 2]);
        for id in ["d", "e"] {
            table.remember(&name(id), digest(b""), half.clone(), start);
        }
        assert_eq!(table.order.len(), 1, "the last only");
        table.forget_oldest();
        assert_eq!((table.n_bytes, table.entries.len()), (0, 0));
        for n in 0..MAX_ANSWERS + 7 {
            table.remember(&name(&n.to_string()), digest(b""), Bytes::new(), start);
        }
        assert_eq!((table.entries.len(), table.order.len()), (MAX_ANSWERS, MAX_ANSWERS));
        assert!(!table.entries.contains_key(&name("6")));
    }
}
