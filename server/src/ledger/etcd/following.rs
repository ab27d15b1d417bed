//! Follows the records in etcd: all of them at one revision, and then each commit in order.

use berth_etcd::mvcc::KeyValue;
use berth_etcd::mvcc::event::EventType;
use berth_etcd::rpc::{RangeRequest, WatchCreateRequest, WatchResponse};
use berth_etcd::{Client, Watch, range};

use super::layout::{Head, Layout, Stored, decode};
use super::reading;
use crate::ledger::{Entry, Key, LedgerError, Revision};

/// Records at one revision.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listed {
    /// In the order of their keys.
    pub(crate) records: Vec<(Key, Entry)>,
    /// The last commit that they contain; 0 before the first one.
    pub(crate) last: Revision,
    /// etcd's revision.
    at: i64,
}

/// The records that one or more commits have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    /// New values, in the order of the commits; `None` for a record that is gone.
    pub(crate) changes: Vec<(Key, Option<Vec<u8>>)>,
    /// The last commit that they contain; `None` if they contain none.
    pub(crate) last: Option<Revision>,
}

/// Commits after a [`Listed`].
#[derive(Debug)]
pub(crate) struct Following {
    watch: Watch,
    layout: Layout,
}

/// Reads all records whose names begin with one of `prefixes`.
pub(super) async fn list(
    client: &Client,
    layout: &Layout,
    prefixes: &[&str],
) -> Result<Listed, LedgerError> {
    let head = client.range(range::key(layout.head())).await?;
    let at = head.header.as_ref().map_or(0, |header| header.revision);
    let mut records = Vec::new();
    for prefix in prefixes {
        let range = RangeRequest { revision: at, ..range::prefix(layout.record(prefix)) };
        records.extend(reading::list_range(client, layout, range).await?);
    }
    let head: Head = head.kvs.first().map(decode).transpose()?.unwrap_or_default();
    Ok(Listed { records, last: Revision(head.last), at })
}

/// Opens a watch of everything that is committed after `listed`.
pub(super) async fn follow(
    client: &Client,
    layout: &Layout,
    listed: &Listed,
) -> Result<Following, LedgerError> {
    let key = layout.everything().into_bytes();
    let range_end = range::end_of_prefix(&key);
    let start_revision = listed.at + 1;
    let request =
        WatchCreateRequest { key, range_end, start_revision, ..WatchCreateRequest::default() };
    Ok(Following { watch: client.watch(request).await?, layout: layout.clone() })
}

/// Reads the last commit, as most of the members know it.
pub(super) async fn last(client: &Client, layout: &Layout) -> Result<Revision, LedgerError> {
    let head = client.range(range::key(layout.head())).await?;
    let head: Head = head.kvs.first().map(decode).transpose()?.unwrap_or_default();
    Ok(Revision(head.last))
}

impl Following {
    /// The next news. Waits for them as long as it takes.
    ///
    /// # Errors
    /// [`LedgerError`]: nothing more comes, and everything has to be listed again.
    pub(crate) async fn next(&mut self) -> Result<News, LedgerError> {
        let answer = self.watch.next().await?;
        news(&self.layout, answer)
    }
}

fn news(layout: &Layout, answer: WatchResponse) -> Result<News, LedgerError> {
    let mut news = News::default();
    for event in answer.events {
        let is_deleted = event.r#type == EventType::Delete as i32;
        let Some(stored) = event.kv else { continue };
        if stored.key == layout.head().as_bytes() {
            if !is_deleted {
                let head: Head = decode(&stored)?;
                news.last = Some(Revision(head.last));
            }
        } else if layout.is_record(&stored) {
            let value = (!is_deleted).then(|| value(&stored)).transpose()?;
            news.changes.push((layout.record_of(&stored)?, value));
        }
    }
    Ok(news)
}

fn value(stored: &KeyValue) -> Result<Vec<u8>, LedgerError> {
    let Stored { value, .. } = decode(stored)?;
    Ok(value)
}
