//! Reads a ledger in etcd. Every read asks most of the members, so it sees all that was committed before it began.

use std::collections::VecDeque;

use berth_etcd::mvcc::KeyValue;
use berth_etcd::rpc::response_op::Response;
use berth_etcd::rpc::{RangeRequest, RangeResponse};
use berth_etcd::{Client, EtcdError, range};

use super::book::{Known, Listing};
use super::layout::{Head, Layout, Stored, decode};
use crate::ledger::{Entry, JournalLine, JournalPage, Key, LedgerError, Revision};

/// Number of keys that are read at a time.
const PAGE: i64 = 5_000;

impl From<EtcdError> for LedgerError {
    fn from(error: EtcdError) -> LedgerError {
        LedgerError::Unavailable { reason: error.to_string() }
    }
}

/// Reads the records of `keys`, all at one revision.
pub(super) async fn records(
    client: &Client,
    layout: &Layout,
    keys: &[Key],
) -> Result<Vec<Option<Entry>>, LedgerError> {
    let ranges = keys.iter().map(|key| range::key(layout.record(key.as_str()))).collect();
    let answers = at_once(client, ranges).await?;
    let entry = |answer: &RangeResponse| answer.kvs.first().map(entry).transpose();
    answers.iter().map(entry).collect()
}

/// Reads all records whose names begin with `prefix`, all at one revision.
pub(super) async fn list(
    client: &Client,
    layout: &Layout,
    prefix: &str,
) -> Result<Vec<(Key, Entry)>, LedgerError> {
    list_range(client, layout, range::prefix(layout.record(prefix))).await
}

/// Reads all records of a range, all at one revision.
pub(super) async fn list_range(
    client: &Client,
    layout: &Layout,
    range: RangeRequest,
) -> Result<Vec<(Key, Entry)>, LedgerError> {
    let mut listed = Vec::new();
    pages(client, range, |stored| {
        listed.push((layout.record_of(stored)?, entry(stored)?));
        Ok(())
    })
    .await?;
    Ok(listed)
}

/// Reads at most `limit` lines of the journal after the revision `after`.
pub(super) async fn journal(
    client: &Client,
    layout: &Layout,
    after: Revision,
    limit: usize,
) -> Result<JournalPage, LedgerError> {
    let end = range::end_of_prefix(layout.journal().as_bytes());
    let lines = |from: Vec<u8>, limit: i64| RangeRequest {
        key: from,
        range_end: end.clone(),
        limit,
        ..RangeRequest::default()
    };
    // 0 would mean all.
    let limit = i64::try_from(limit.max(1)).unwrap_or(i64::MAX);
    let from = layout.line(after.next()).into_bytes();
    let oldest = RangeRequest { keys_only: true, ..lines(layout.journal().into_bytes(), 1) };
    let ranges = vec![lines(from, limit), oldest, range::key(layout.head())];
    let answers = at_once(client, ranges).await?;
    let [read, oldest, head] = &answers[..] else { return Err(misfit()) };
    let line = |stored: &KeyValue| {
        let Stored { revision, previous, value } = decode(stored)?;
        let (revision, previous) = (Revision(revision), Revision(previous));
        Ok(JournalLine { revision, previous, text: value })
    };
    let head: Head = head.kvs.first().map(decode).transpose()?.unwrap_or_default();
    Ok(JournalPage {
        lines: read.kvs.iter().map(line).collect::<Result<_, LedgerError>>()?,
        oldest: oldest.kvs.first().map(|line| layout.line_of(line)).transpose()?,
        last: Revision(head.last),
    })
}

/// Reads what a new committer has to know, all at one revision that is not below `at_least`.
pub(super) async fn listing(
    client: &Client,
    layout: &Layout,
    at_least: i64,
) -> Result<Listing, LedgerError> {
    let mut listing = Listing::default();
    let head = client.range(range::key(layout.head())).await?;
    let revision = head.header.as_ref().map_or(0, |header| header.revision);
    if revision < at_least {
        let reason = format!("it is at revision {revision}, and has been at {at_least}");
        return Err(LedgerError::Unavailable { reason });
    }
    if let Some(head) = head.kvs.first() {
        listing.head = Some((decode(head)?, head.mod_revision));
    }
    let records = RangeRequest { revision, ..range::prefix(layout.record("")) };
    pages(client, records, |stored| {
        let n_bytes = (stored.key.len() + stored.value.len()) as u64;
        let known = Known { revision: entry(stored)?.revision, n_bytes };
        listing.records.insert(layout.record_of(stored)?, known);
        Ok(())
    })
    .await?;
    let mut lines = VecDeque::new();
    let journal = RangeRequest { revision, keys_only: true, ..range::prefix(layout.journal()) };
    pages(client, journal, |stored| {
        lines.push_back(layout.line_of(stored)?);
        Ok(())
    })
    .await?;
    listing.lines = lines;
    Ok(listing)
}

/// Reads several ranges at one revision.
async fn at_once(
    client: &Client,
    ranges: Vec<RangeRequest>,
) -> Result<Vec<RangeResponse>, LedgerError> {
    let n_ranges = ranges.len();
    let answers = client.read_together(ranges).await?;
    let answers: Vec<RangeResponse> = answers
        .into_iter()
        .filter_map(|answer| match answer.response {
            Some(Response::ResponseRange(answer)) => Some(answer),
            _ => None,
        })
        .collect();
    if answers.len() != n_ranges {
        return Err(misfit());
    }
    Ok(answers)
}

/// Reads a range page by page, at the revision of the first page.
async fn pages(
    client: &Client,
    mut range: RangeRequest,
    mut each: impl FnMut(&KeyValue) -> Result<(), LedgerError>,
) -> Result<(), LedgerError> {
    range.limit = PAGE;
    loop {
        let page = client.range(range.clone()).await?;
        page.kvs.iter().try_for_each(&mut each)?;
        let Some(last) = page.kvs.last().filter(|_| page.more) else { return Ok(()) };
        if range.revision == 0 {
            range.revision = page.header.as_ref().map_or(0, |header| header.revision);
        }
        // The next name in etcd's order.
        range.key = [&last.key[..], b"\0"].concat();
    }
}

fn entry(stored: &KeyValue) -> Result<Entry, LedgerError> {
    let Stored { revision, value, .. } = decode(stored)?;
    Ok(Entry { value, revision: Revision(revision) })
}

fn misfit() -> LedgerError {
    LedgerError::Unavailable { reason: "etcd's answer does not fit the request".to_owned() }
}
