//! Watches: initial objects, then every later event once and in order, bookmarks, and the end (recordings 03 to 07).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::ReceiverStream;

mod line;
mod writer;

use line::Lines;
use writer::{End, Writer};

use crate::faults::{EventFault, WatchFaults};
use crate::list::{self, parse_version};
use crate::options::Options;
use crate::selector::Selector;
use crate::status::Refusal;
use crate::store::Store;
use crate::stored::Stored;
use crate::target::{Query, Target};

/// Limit of the events that are read from the store at once.
const MAX_BATCH: usize = 512;

/// Limit of the chunks that wait for a slow client; further events wait in the store.
const MAX_CHUNKS: usize = 16;

/// A requested watch.
struct Watch {
    store: Store,
    target: Target,
    selector: Selector,
    /// Initial objects at the time of the request.
    initial: Vec<Arc<Stored>>,
    /// Whether a bookmark marks the end of the initial objects.
    marked: bool,
    /// Version after which live events begin.
    version: u64,
    bookmarks: bool,
    as_tables: bool,
    bookmark_interval: Duration,
    ends: Instant,
}

/// Start of a watch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Start {
    /// With the events after this version.
    After(u64),
    /// With all objects; if the flag is set, a bookmark marks their end.
    WithAll { marked: bool },
    /// With the events from now on.
    Now,
}

/// Starts the watch of `query` and returns the body of its response.
pub(crate) fn watch(
    store: &Store,
    options: &Options,
    target: Target,
    query: &Query,
    as_tables: bool,
    watch_faults: WatchFaults,
) -> Result<Body, Refusal> {
    let labels = query.get("labelSelector");
    let selector = Selector::parse(target.resource, labels, query.get("fieldSelector"))?;
    let bookmarks = query.is_set("allowWatchBookmarks");
    let start = Start::parse(query, options, bookmarks)?;
    let timeout = match query.get("timeoutSeconds").parse() {
        Ok(seconds) if seconds > 0 => Duration::from_secs(seconds),
        _ => options.watch_timeout,
    };
    // Read before the response starts, so that all later changes come as events.
    let (initial, version) = start.state(store, &target, &selector);
    let watch = Watch {
        store: store.clone(),
        target,
        selector,
        initial,
        marked: start == Start::WithAll { marked: true },
        version,
        bookmarks,
        as_tables,
        bookmark_interval: options.bookmark_interval,
        ends: Instant::now() + timeout,
    };
    let (chunks, body) = mpsc::channel(MAX_CHUNKS);
    let writer = Writer::new(chunks, options.chunk_bytes, watch_faults);
    tokio::spawn(watch.run(writer));
    Ok(Body::from_stream(ReceiverStream::<Result<Bytes, io::Error>>::new(body)))
}

impl Start {
    fn parse(query: &Query, options: &Options, bookmarks: bool) -> Result<Start, Refusal> {
        const FIELD: &str = "resourceVersionMatch";
        let rule = query.get(FIELD);
        let initial = query.get("sendInitialEvents");
        let version = parse_version(query.get("resourceVersion"))?;
        if initial.is_empty() {
            if !rule.is_empty() {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                return Err(Refusal::list_options(FIELD, why));
            }
            return Ok(match version {
                0 => Start::WithAll { marked: false },
                version => Start::After(version),
            });
        }
        if !options.streaming_lists {
            let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            return Err(Refusal::list_options("sendInitialEvents", why));
        }
        if rule != "NotOlderThan" {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            return Err(Refusal::list_options(FIELD, why));
        }
        Ok(match (initial, version) {
            ("true" | "1", _) => Start::WithAll { marked: bookmarks },
            (_, 0) => Start::Now,
            (_, version) => Start::After(version),
        })
    }

    /// The initial objects and their version.
    fn state(self, store: &Store, target: &Target, selector: &Selector) -> (Vec<Arc<Stored>>, u64) {
        let state = store.lock();
        match self {
            Start::After(version) => (Vec::new(), version),
            Start::Now => (Vec::new(), state.version),
            Start::WithAll { .. } => (list::all(&state, target, selector), state.version),
        }
    }
}

impl Watch {
    async fn run(mut self, mut writer: Writer) {
        let end = match self.deliver(&mut writer).await {
            Ok(()) => End::Orderly,
            Err(end) => end,
        };
        writer.finish(end).await;
    }

    /// Writes the watch until its timeout; the error is any other end.
    async fn deliver(&mut self, writer: &mut Writer) -> Result<(), End> {
        let lines = Lines::new(self.target.resource, self.as_tables);
        self.begin(&lines, writer).await?;
        let mut cursor = self.version;
        let mut changes = self.store.lock().collection(self.target.resource).changes();
        let mut cuts = writer.cuts();
        let mut next_bookmark = Instant::now() + self.bookmark_interval;
        loop {
            changes.mark_unchanged();
            if !writer.is_stalled() {
                cursor = self.catch_up(cursor, &lines, writer).await?;
            }
            tokio::select! {
                changed = changes.changed() => {
                    if changed.is_err() {
                        return Err(End::Cut);
                    }
                }
                () = sleep_until(next_bookmark) => {
                    next_bookmark = Instant::now() + self.bookmark_interval;
                    if !writer.is_stalled() {
                        cursor = self.catch_up(cursor, &lines, writer).await?;
                        writer.release_held().await?;
                        if self.bookmarks && !writer.skips_bookmarks() {
                            writer.line(lines.bookmark(cursor, false)).await?;
                        }
                        writer.flush().await?;
                    }
                }
                () = sleep_until(self.ends) => return Ok(()),
                _ = cuts.changed() => return Err(End::Cut),
                () = writer.gone() => return Err(End::Gone),
            }
        }
    }

    /// Writes the initial objects.
    async fn begin(&mut self, lines: &Lines, writer: &mut Writer) -> Result<(), End> {
        for object in std::mem::take(&mut self.initial) {
            writer.line(lines.added(&object)).await?;
        }
        if self.marked {
            writer.line(lines.bookmark(self.version, true)).await?;
        }
        writer.flush().await
    }

    /// Writes all events after `cursor`; returns the version up to which events are written.
    async fn catch_up(
        &self,
        mut cursor: u64,
        lines: &Lines,
        writer: &mut Writer,
    ) -> Result<u64, End> {
        loop {
            let (batch, version) = {
                let state = self.store.lock();
                (state.collection(self.target.resource).after(cursor, MAX_BATCH), state.version)
            };
            let batch = match batch {
                Ok(batch) => batch,
                Err(oldest) => {
                    let message = format!("too old resource version: {cursor} ({oldest})");
                    writer.line(lines.error(&Refusal::expired(message))).await?;
                    return Err(End::Orderly);
                }
            };
            for event in &batch.events {
                cursor = event.object.version;
                if let Some(line) = lines.event(event, &self.target, &self.selector) {
                    self.write(line, lines, writer).await?;
                }
            }
            if batch.is_last {
                writer.flush().await?;
                return Ok(cursor.max(version));
            }
        }
    }

    async fn write(&self, line: Vec<u8>, lines: &Lines, writer: &mut Writer) -> Result<(), End> {
        match writer.next_fault() {
            EventFault::None => writer.line(line).await?,
            EventFault::Cut => {
                let half = line[..line.len() / 2].to_vec();
                writer.line(half).await?;
                return Err(End::Cut);
            }
            EventFault::Gone => {
                let refusal =
                    Refusal::expired("The resourceVersion for the provided watch is too old.");
                writer.line(lines.error(&refusal)).await?;
                return Err(End::Orderly);
            }
            EventFault::Garbage => {
                writer
                    .line(b"{\"type\":\"MODIFIED\",\"object\":<html>502 Bad Gateway\n".to_vec())
                    .await?;
                writer.line(line).await?;
            }
            EventFault::Duplicate => {
                writer.line(line.clone()).await?;
                writer.line(line).await?;
            }
            EventFault::Reorder => {
                writer.hold(line).await?;
                return Ok(());
            }
        }
        writer.release_held().await
    }
}
