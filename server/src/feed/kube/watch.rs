//! Watch: lists one kind and then follows it for as long as the feed runs.
//!
//! A list is streamed (recording 05), or paged if the server does not stream lists (01). The watch continues from the
//! list's version; whenever it ends it is resumed from the last version received, and if that is impossible, or the
//! received events cannot be trusted, everything is listed again. Versions of one kind grow: an event that is not newer
//! than the last is a repetition, or the stream is out of order, and then it is not applied. So nothing old ever
//! overwrites anything new.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc};

use super::answer::Refusal;
use super::apply::Message;
use super::event::{Decoder, Event};
use super::failure::Failure;
use super::lines::MAX_LINE_BYTES;
use super::listing::{Listing, PageLimit};
use super::object_change::{Change, ObjectChange};
use super::pace::{Backoff, Pace};
use super::page::{self, Page};
use super::request::Requests;
use super::resource::Resource;
use super::watches::Watches;
use crate::clock;
use crate::feed::FeedSink;
use crate::telemetry::{FeedEvent, KindCounts};

pub(super) struct Watcher {
    pub(super) resource: Resource,
    pub(super) requests: Requests,
    pub(super) sink: FeedSink,
    pub(super) watches: Arc<Watches>,
    pub(super) messages: mpsc::Sender<Message>,
    pub(super) pace: Pace,
    pub(super) keeps_pods: bool,
    pub(super) counts: KindCounts,
    /// Signal to list again, since the state is wrong.
    pub(super) relist: Arc<Notify>,
}

/// Number of consecutive streams with nothing but an error, after which everything is listed again.
const MAX_ERRORS: u32 = 3;
/// How long lists are paged after a server did not stream one.
const PAGES_FOR: Duration = Duration::from_secs(3_600);

/// Position of a kind's watch.
#[derive(Default)]
struct Position {
    /// Version to watch from; `None` if the kind is to be listed.
    version: Option<u64>,
    /// The newest version ever received.
    highest: u64,
    /// Whether the server's history began anew: then the next list counts whatever its versions.
    is_rewound: bool,
    /// Version from which the current stream began.
    began_at: u64,
    /// Whether an event or a bookmark was received since the last request.
    has_heard: bool,
    /// Time of the API server's answer to the last request; `None` if it refused or did not answer.
    answered: Option<Instant>,
    /// Whether the API server did not serve the last request.
    is_outage: bool,
    /// Number of consecutive streams that timed out without an event.
    n_silent: u32,
    /// Number of consecutive streams with nothing but an error.
    n_errors: u32,
    page_limit: PageLimit,
    /// Time until which lists are paged, since the server did not stream one.
    pages_until: Option<Instant>,
    listed: Option<Instant>,
}

impl Watcher {
    pub(super) async fn run(self) {
        let mut position = Position::default();
        let mut backoff = Backoff::new(self.pace);
        loop {
            let began = clock::now();
            (position.has_heard, position.answered) = (false, None);
            let verb = if position.version.is_none() { "list" } else { "watch" };
            let outcome = tokio::select! {
                outcome = self.read(&mut position) => outcome,
                () = self.watches.list_requested(self.resource) => {
                    position.version = None;
                    continue;
                }
            };
            let failure = match outcome {
                Err(Failure::Stopped) => return,
                Err(failure) => Some(failure),
                // Watches end by their timeout, silently (recording 07).
                Ok(()) if self.has_lasted(began) => {
                    backoff.reset();
                    continue;
                }
                Ok(()) => None,
            };
            let is_restless =
                failure.as_ref().is_some_and(Failure::wants_list) && self.is_restless(&position);
            if self.has_settled(&position) && !is_restless {
                backoff.reset();
            }
            position.is_outage = failure.as_ref().is_some_and(Failure::is_outage);
            let wait = match failure {
                None => backoff.wait(None),
                Some(failure) if self.is_absent(&failure) => {
                    if self.messages.send(Message::Absent(self.resource)).await.is_err() {
                        return;
                    }
                    self.pace.absent
                }
                Some(failure) => {
                    self.choose_next(&failure, &mut position);
                    let wait = backoff.wait(failure.retry_after());
                    // A server that asks for a delay is not asked before.
                    position.is_outage &= failure.retry_after().is_none();
                    self.report(verb, failure);
                    wait
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.watches.woken(), if position.is_outage => {}
                () = self.watches.list_requested(self.resource) => position.version = None,
            }
        }
    }

    /// Lists, or watches from the current position, until that ends.
    async fn read(&self, position: &mut Position) -> Result<(), Failure> {
        match position.version {
            None => self.list(position).await,
            Some(version) => self.watch(version, position).await,
        }
    }

    /// Whether the last request was a success: something was heard, or the stream was open for a while.
    fn has_settled(&self, position: &Position) -> bool {
        let is_open =
            |answered| clock::now().saturating_duration_since(answered) >= self.pace.settled;
        position.has_heard || position.answered.is_some_and(is_open)
    }

    fn has_lasted(&self, began: Instant) -> bool {
        clock::now().saturating_duration_since(began) >= self.pace.watch / 2
    }

    /// Whether the last list is so recent that listing again counts as a failure.
    fn is_restless(&self, position: &Position) -> bool {
        position.listed.is_some_and(|listed| {
            clock::now().saturating_duration_since(listed) < self.pace.longest_wait
        })
    }

    /// Whether the server does not have the kind, and never had.
    fn is_absent(&self, failure: &Failure) -> bool {
        let is_missing = matches!(failure, Failure::Refused(Refusal { code: 404, .. }));
        let is_absent = is_missing
            && !self.resource.group().is_empty()
            && (!self.watches.is_listed(self.resource) || self.watches.is_absent(self.resource));
        if is_absent {
            self.watches.note_heard(self.resource, clock::now());
        }
        is_absent
    }

    /// Counts a failure, and records it for probes and the log.
    fn report(&self, verb: &'static str, failure: Failure) {
        self.counts.count_error(failure.reason());
        tracing::debug!(kind = self.resource.kind(), verb, "{failure}");
        self.watches.note_failed(self.resource, verb, failure, clock::now());
    }

    fn choose_next(&self, failure: &Failure, position: &mut Position) {
        let is_silent = matches!(failure, Failure::Silent(_));
        position.n_silent =
            if is_silent && !position.has_heard { position.n_silent + 1 } else { 0 };
        match failure {
            Failure::PageTooLong(_) => position.page_limit = position.page_limit.smaller(),
            Failure::Gone => position.page_limit = position.page_limit.larger(),
            // The next response may come from another server, or a newer one.
            Failure::Unreachable(_) | Failure::Cut(_) => position.pages_until = None,
            _ => {}
        }
        // A version from the future is watched in silence (recording 07): after a second silence only a list helps. The
        // same holds if the server has nothing but errors for the changes after a version.
        if failure.wants_list() || position.n_silent >= 2 || position.n_errors >= MAX_ERRORS {
            position.n_errors = 0;
            self.counts.count_relist(failure.reason());
            position.version = None;
            position.n_silent = 0;
        }
    }

    /// Lists, and follows the changes after that.
    async fn list(&self, position: &mut Position) -> Result<(), Failure> {
        if position.pages_until.is_some_and(|until| clock::now() < until) {
            let version = self.list_in_pages(position).await?;
            return self.watch(version, position).await;
        }
        let listing = Listing::begin(&self.sink.cluster, self.resource);
        let target = self.resource.streaming_list(self.pace.watch_seconds());
        let streamed = self.follow(&target, position, Some(listing)).await;
        match streamed {
            // Servers without streaming lists respond with 422 or 400; older ones ignore the parameter.
            Err(
                Failure::NoStreamingList
                | Failure::Silent(_)
                | Failure::Refused(Refusal { code: 400 | 422, .. }),
            ) if position.version.is_none() => {
                let version = self.list_in_pages(position).await?;
                position.pages_until = Some(clock::now() + PAGES_FOR);
                self.watch(version, position).await
            }
            other => other,
        }
    }

    /// Lists in pages. Returns the version to watch from.
    async fn list_in_pages(&self, position: &mut Position) -> Result<u64, Failure> {
        let mut listing = Listing::begin(&self.sink.cluster, self.resource);
        let mut token = String::new();
        let mut listed_at = None;
        loop {
            let target = self.resource.page(position.page_limit.0, &token);
            let body = self.requests.get_whole(&target, page::MAX_BYTES).await?;
            self.answered(position);
            let page = Page::parse(&body)?;
            // All pages have the version of the first; if a server deviates, the changes in between are received again.
            let version = *listed_at.get_or_insert(page.version()?);
            for item in page.items() {
                match ObjectChange::read(
                    &self.sink.cluster,
                    self.resource,
                    Change::Added,
                    item,
                    self.keeps_pods,
                ) {
                    Ok(object) => self.tell_listed(object, &mut listing, position).await?,
                    Err(error) => self.count_unreadable(&error),
                }
            }
            self.heard(position);
            token = page.token().to_owned();
            if token.is_empty() {
                self.complete(listing, version, position).await?;
                return Ok(position.version.unwrap_or(version));
            }
        }
    }

    async fn watch(&self, version: u64, position: &mut Position) -> Result<(), Failure> {
        position.began_at = version;
        let target = self.resource.watch(version, self.pace.watch_seconds());
        self.follow(&target, position, None).await
    }

    /// Reads a stream to its end. With a listing it begins with a list.
    async fn follow(
        &self,
        target: &str,
        position: &mut Position,
        mut listing: Option<Listing>,
    ) -> Result<(), Failure> {
        let mut stream = self.requests.get(target).await?;
        self.answered(position);
        let mut decoder = Decoder::new(&self.sink.cluster, self.resource, self.keeps_pods);
        loop {
            let chunk = tokio::select! {
                chunk = stream.next_chunk() => chunk?,
                () = self.relist.notified() => return Err(Failure::Contradicted),
            };
            let Some(chunk) = chunk else { break };
            decoder.push(chunk.as_ref());
            let mut has_events = false;
            for event in decoder.by_ref() {
                let event = event?;
                // An error is no sign of life, since it contains no change.
                if !matches!(event, Event::Failed(_)) && !std::mem::replace(&mut has_events, true) {
                    self.heard(position);
                }
                self.handle(event, position, &mut listing).await?;
            }
        }
        match listing {
            None => Ok(()),
            Some(_) => Err(Failure::Cut("the stream ended before the list did".to_owned())),
        }
    }

    async fn handle(
        &self,
        event: Event,
        position: &mut Position,
        listing: &mut Option<Listing>,
    ) -> Result<(), Failure> {
        match event {
            Event::Object(object) => match listing {
                Some(listing) => self.tell_listed(object, listing, position).await,
                None => self.tell(object, position).await,
            },
            Event::Bookmark { version, ends_list } => {
                self.counts.count_event(FeedEvent::Bookmark);
                match listing.take() {
                    Some(listing) if ends_list => self.complete(listing, version, position).await,
                    Some(_) => Err(Failure::NoStreamingList),
                    // A server that is behind the requested begin is not the one that was listed.
                    None if version < position.began_at => {
                        Err(Failure::OutOfOrder { version, after: position.began_at })
                    }
                    // A bookmark that is older than an event is irrelevant.
                    None => {
                        self.advance(version.max(position.version.unwrap_or(0)), position);
                        self.send(Message::Reached(self.resource, version)).await
                    }
                }
            }
            Event::Failed(refusal) if refusal.code == 410 => Err(Failure::Gone),
            Event::Failed(refusal) => {
                position.n_errors += u32::from(refusal.code != 429);
                Err(Failure::Refused(refusal))
            }
            Event::TooLong if listing.is_some() => {
                self.count_unreadable(&Failure::LineTooLong(MAX_LINE_BYTES));
                Ok(())
            }
            Event::TooLong => Err(Failure::LineTooLong(MAX_LINE_BYTES)),
        }
    }

    async fn tell(&self, object: ObjectChange, position: &mut Position) -> Result<(), Failure> {
        let (version, after) = (object.version.ok_or(Failure::Unversioned)?, position.version);
        match after {
            Some(after) if version == after => return Ok(()),
            Some(after) if version < after => return Err(Failure::OutOfOrder { version, after }),
            _ => {}
        }
        let event = match object.change {
            Change::Added => FeedEvent::Added,
            Change::Modified => FeedEvent::Modified,
            Change::Deleted => FeedEvent::Deleted,
        };
        self.counts.count_event(event);
        self.send(Message::Object { object, is_listed: false, is_anew: false }).await?;
        self.advance(version, position);
        Ok(())
    }

    async fn tell_listed(
        &self,
        object: ObjectChange,
        listing: &mut Listing,
        position: &Position,
    ) -> Result<(), Failure> {
        self.counts.count_event(FeedEvent::Listed);
        listing.note(&object);
        self.send(Message::Object { object, is_listed: true, is_anew: position.is_rewound }).await
    }

    /// Finishes a complete list.
    async fn complete(
        &self,
        mut listing: Listing,
        version: u64,
        position: &mut Position,
    ) -> Result<(), Failure> {
        let after = position.highest;
        if version < after && !position.is_rewound {
            position.is_rewound = true;
            return Err(Failure::Rewound { version, after });
        }
        let version = version.max(listing.highest);
        (listing.version, listing.is_anew) = (version, position.is_rewound);
        self.send(Message::Listed(Box::new(listing))).await?;
        self.heard(position);
        position.is_rewound = false;
        position.page_limit = PageLimit::default();
        position.listed = Some(clock::now());
        position.highest = 0;
        position.began_at = 0;
        self.advance(version, position);
        Ok(())
    }

    fn advance(&self, version: u64, position: &mut Position) {
        position.version = Some(version);
        position.highest = position.highest.max(version);
    }

    /// Records that the API server answered a request with a stream or a page.
    fn answered(&self, position: &mut Position) {
        let now = clock::now();
        position.answered = Some(now);
        if std::mem::take(&mut position.is_outage) {
            self.watches.note_served(now);
        }
    }

    fn heard(&self, position: &mut Position) {
        position.has_heard = true;
        position.n_silent = 0;
        position.n_errors = 0;
        self.watches.note_heard(self.resource, clock::now());
    }

    fn count_unreadable(&self, error: &dyn std::error::Error) {
        self.sink.metrics.count_deltas(0, 1);
        self.counts.count_refused();
        tracing::warn!(kind = self.resource.kind(), "an item of the list is left out: {error}");
    }

    async fn send(&self, message: Message) -> Result<(), Failure> {
        self.messages.send(message).await.map_err(|_| Failure::Stopped)
    }
}
