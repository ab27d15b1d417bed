//! Response cache: a request that its caller names is carried out once. Its response is remembered under (user, method,
//! id). A repeated request under the same id gets that response instead of being carried out again; a different request
//! under the id is refused.
//!
//! Only `OK` is remembered: a call with any other status has changed nothing, so a retry does no harm.
//!
//! The cache is in memory. What has changed something is also in the ledger, if there is one (`assumptions/request.rs`), and
//! the next server that decides takes it over. A grant is in the ledger before its response is: it compares and swaps on
//! what the caller knew before, so a request that is repeated in between grants again what is held already, or names the
//! holder.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prost::bytes::Bytes;
use tokio::sync::watch;

use super::error::CallError;
use crate::clock;

/// How long a response is remembered.
pub(crate) const MAX_AGE: Duration = Duration::from_secs(5 * 60);
/// Maximum number of remembered responses, and of their bytes with their names; the oldest are dropped.
pub(crate) const MAX_ANSWERS: usize = 100_000;
pub(crate) const MAX_BYTES: usize = 64 << 20;
/// Approximate memory of a response besides its bytes and its name.
const OVERHEAD_BYTES: usize = 300;
/// Key of a request in the cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestName {
    /// Name of the user; two users may choose the same id.
    pub(crate) user: Arc<str>,
    pub(crate) method: &'static str,
    pub(crate) id: Arc<str>,
}

/// Responses to named requests.
#[derive(Debug, Default)]
pub(crate) struct ResponseCache {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<RequestName, Entry>,
    /// Names of the known responses, oldest first.
    order: VecDeque<(Instant, RequestName)>,
    n_bytes: usize,
}

#[derive(Debug)]
struct Entry {
    /// Digest of the request.
    digest: Digest,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    /// The request is under way; the channel closes when it is over.
    InProgress(watch::Receiver<()>),
    /// Message of an `OK`, which is the whole response.
    Known(Bytes),
}

/// Digest of a request. 128 bits suffice: a caller that makes two of its own requests collide harms nobody else.
pub(crate) type Digest = [u64; 2];

/// A request whose response is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) name: RequestName,
    pub(crate) digest: Digest,
    pub(crate) response: Bytes,
}

/// How a request with an id is to be handled.
pub(crate) enum Claim {
    First(InProgress),
    Again(Bytes),
}

tokio::task_local! {
    /// The named request of the current task.
    static IN_PROGRESS: Arc<InProgress>;
}

/// Runs `future` as the work of a named request.
pub(crate) async fn in_scope_of<T>(request: Arc<InProgress>, future: impl Future<Output = T>) -> T {
    IN_PROGRESS.scope(request, future).await
}

/// The named request of the current task, for work that continues after its caller is gone: until it has undone its
/// changes, others with the same name wait.
pub(crate) fn in_progress() -> Option<Arc<InProgress>> {
    IN_PROGRESS.try_with(Arc::clone).ok()
}

impl ResponseCache {
    /// Claims the name of a request, which has two parts: its message, and what it supposes. Waits while the same request
    /// is under way.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        name: RequestName,
        request: [&[u8]; 2],
    ) -> Result<Claim, CallError> {
        let digest = digest(request);
        loop {
            let mut over = {
                let mut table = self.table();
                table.forget_older(clock::now());
                match table.entries.get(&name) {
                    None => return Ok(Claim::First(self.begin(&mut table, name, digest))),
                    Some(entry) if entry.digest != digest => {
                        return Err(CallError::RequestIdReused { id: name.id.to_string() });
                    }
                    Some(Entry { outcome: Outcome::Known(response), .. }) => {
                        return Ok(Claim::Again(response.clone()));
                    }
                    Some(Entry { outcome: Outcome::InProgress(over), .. }) => over.clone(),
                }
            };
            // Nothing is ever sent: the wait ends when the sender is dropped.
            while over.changed().await.is_ok() {}
        }
    }

    /// Begins a request that another server has not finished: a retry waits until its changes are undone. `None` if the
    /// name is in use.
    pub(crate) fn begin_again(
        self: &Arc<Self>,
        name: RequestName,
        digest: Digest,
    ) -> Option<InProgress> {
        let mut table = self.table();
        let is_free = !table.entries.contains_key(&name);
        is_free.then(|| self.begin(&mut table, name, digest))
    }

    /// Takes over what the ledger has, in place of what this server has remembered: others may have answered since.
    pub(crate) fn restore(&self, answered: &[Answered], now: Instant) {
        let mut table = self.table();
        while !table.order.is_empty() {
            table.forget_oldest();
        }
        for Answered { name, digest, response } in answered {
            table.remember(name, *digest, response.clone(), now);
        }
    }

    fn begin(self: &Arc<Self>, table: &mut Table, name: RequestName, digest: Digest) -> InProgress {
        let (over, is_over) = watch::channel(());
        let entry = Entry { digest, outcome: Outcome::InProgress(is_over) };
        table.entries.insert(name.clone(), entry);
        InProgress { answers: self.clone(), name, digest, _over: over }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // No code that holds the lock panics in a way that leaves the table half changed.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A named request that is being carried out. Dropped without a remembered response, it leaves no trace: a retry, or a
/// caller that waits, carries it out.
#[derive(Debug)]
pub(crate) struct InProgress {
    answers: Arc<ResponseCache>,
    name: RequestName,
    digest: Digest,
    /// Wakes the waiting callers, once the table has the outcome.
    _over: watch::Sender<()>,
}

impl InProgress {
    pub(crate) fn name(&self) -> &RequestName {
        &self.name
    }

    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    pub(crate) fn remember(&self, response: &[u8]) {
        // A copy, since the original is in a larger buffer.
        let response = Bytes::copy_from_slice(response);
        let mut table = self.answers.table();
        table.remember(&self.name, self.digest, response, clock::now());
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        let mut table = self.answers.table();
        let is_under_way = |entry: &Entry| matches!(entry.outcome, Outcome::InProgress(_));
        if table.entries.get(&self.name).is_some_and(is_under_way) {
            table.entries.remove(&self.name);
        }
    }
}

impl Table {
    fn remember(&mut self, name: &RequestName, digest: Digest, response: Bytes, now: Instant) {
        self.n_bytes += n_bytes(name, &response);
        let entry = Entry { digest, outcome: Outcome::Known(response) };
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
        if let Some(Entry { outcome: Outcome::Known(response), .. }) = self.entries.remove(&name) {
            self.n_bytes -= n_bytes(&name, &response);
        }
    }
}

fn n_bytes(name: &RequestName, answer: &Bytes) -> usize {
    answer.len() + name.id.len() + OVERHEAD_BYTES
}

fn digest(parts: [&[u8]; 2]) -> Digest {
    [0_u8, 1].map(|salt| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(salt);
        for part in parts {
            hasher.write_usize(part.len());
            hasher.write(part);
        }
        hasher.finish()
    })
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    fn name(id: &str) -> RequestName {
        RequestName { user: "u".into(), method: "/m", id: id.into() }
    }

    async fn is_first(answers: &Arc<ResponseCache>, id: &str, request: &[u8]) -> bool {
        matches!(answers.claim(name(id), [request, b""]).await, Ok(Claim::First(_)))
    }

    #[tokio::test]
    async fn an_answer_is_given_again_and_nothing_else_is() {
        let answers = Arc::new(ResponseCache::default());
        let Ok(Claim::First(first)) = answers.claim(name("a"), [b"q", b""]).await else {
            panic!("this is the first request")
        };
        first.remember(b"yes");
        drop(first);
        let Ok(Claim::Again(again)) = answers.claim(name("a"), [b"q", b""]).await else {
            panic!("it was answered")
        };
        assert_eq!(again, "yes");
        let other = answers.claim(name("a"), [b"r", b""]).await.err();
        assert_eq!(other, Some(CallError::RequestIdReused { id: "a".to_owned() }));
        assert!(is_first(&answers, "b", b"q").await);
        let stranger = RequestName { user: "v".into(), ..name("a") };
        assert!(matches!(answers.claim(stranger, [b"r", b""]).await, Ok(Claim::First(_))));
    }

    #[tokio::test]
    async fn a_second_request_waits_and_takes_over_if_the_first_gives_up() {
        let answers = Arc::new(ResponseCache::default());
        let Ok(Claim::First(first)) = answers.claim(name("a"), [b"q", b""]).await else {
            panic!("this is the first request")
        };
        let mut second = Box::pin(answers.claim(name("a"), [b"q", b""]));
        poll_fn(|cx| {
            assert!(second.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        // A different request is refused without waiting.
        assert!(answers.claim(name("a"), [b"r", b""]).await.is_err());
        drop(first);
        let Ok(Claim::First(second)) = second.await else { panic!("the first gave up") };
        let mut third = Box::pin(answers.claim(name("a"), [b"q", b""]));
        poll_fn(|cx| {
            assert!(third.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        second.remember(b"yes");
        drop(second);
        assert!(matches!(third.await, Ok(Claim::Again(again)) if again == "yes"));
    }

    #[tokio::test]
    async fn what_the_ledger_has_replaces_what_was_remembered() {
        let answers = Arc::new(ResponseCache::default());
        let Ok(Claim::First(first)) = answers.claim(name("old"), [b"q", b""]).await else {
            panic!("this is the first request")
        };
        first.remember(b"yes");
        drop(first);
        let undone = answers.begin_again(name("undone"), digest([b"q", b""])).unwrap();
        assert!(answers.begin_again(name("undone"), [0, 0]).is_none());
        let response = Bytes::from_static(b"theirs");
        let digest = digest([b"q", b""]);
        answers.restore(&[Answered { name: name("new"), digest, response }], clock::now());
        assert!(is_first(&answers, "old", b"q").await);
        let again = answers.claim(name("new"), [b"q", b""]).await;
        assert!(matches!(again, Ok(Claim::Again(again)) if again == "theirs"));
        let mut retry = Box::pin(answers.claim(name("undone"), [b"q", b""]));
        poll_fn(|cx| {
            assert!(retry.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        drop(undone);
        assert!(matches!(retry.await, Ok(Claim::First(_))));
    }

    #[test]
    fn remembered_responses_are_bounded_in_age_number_and_bytes() {
        let (mut table, start) = (Table::default(), Instant::now());
        for (seconds, id) in ["a", "b", "c"].into_iter().enumerate() {
            let at = start + Duration::from_secs(seconds as u64);
            table.remember(&name(id), digest([b"", b""]), Bytes::from_static(b"x"), at);
        }
        table.forget_older(start + MAX_AGE + Duration::from_secs(1));
        assert_eq!((table.entries.len(), table.order.len()), (1, 1));
        assert!(table.entries.contains_key(&name("c")));
        let half = Bytes::from(vec![0; MAX_BYTES / 2]);
        for id in ["d", "e"] {
            table.remember(&name(id), digest([b"", b""]), half.clone(), start);
        }
        assert_eq!(table.order.len(), 1, "the last only");
        table.forget_oldest();
        assert_eq!((table.n_bytes, table.entries.len()), (0, 0));
        for n in 0..MAX_ANSWERS + 7 {
            table.remember(&name(&n.to_string()), digest([b"", b""]), Bytes::new(), start);
        }
        assert_eq!((table.entries.len(), table.order.len()), (MAX_ANSWERS, MAX_ANSWERS));
        assert!(!table.entries.contains_key(&name("6")));
    }
}
