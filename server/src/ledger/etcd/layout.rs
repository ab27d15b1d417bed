//! Where a ledger's records are in etcd, and in which form.

use berth_etcd::mvcc::KeyValue;
use prost::Message;

use crate::escape;
use crate::ledger::{Key, LedgerError, Revision};

/// Keys below the prefix of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    prefix: String,
}

/// The value of `head`: every commit writes it, and compares its revision in etcd with the last one that it knows. So
/// commits have one order, and a commit that is in doubt can be ruled out by writing it again.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Head {
    /// Revision of the last commit.
    #[prost(uint64, tag = "1")]
    pub(super) last: u64,
    /// Term of the committer that wrote it.
    #[prost(int64, tag = "2")]
    pub(super) term: i64,
    /// Number of times that it was written without a commit in this term.
    #[prost(uint64, tag = "3")]
    pub(super) n_barriers: u64,
    /// Revision of the last line of the journal, or the start of the ledger.
    #[prost(uint64, tag = "4")]
    pub(super) line: u64,
}

/// The value of a record, or of a line of the journal.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Stored {
    /// Revision of the commit.
    #[prost(uint64, tag = "1")]
    pub(super) revision: u64,
    /// Revision of the commit before; of lines only.
    #[prost(uint64, tag = "2")]
    pub(super) previous: u64,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) value: Vec<u8>,
}

/// The value of `committer`, and of a replica that runs.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Holder {
    /// Name of the replica.
    #[prost(string, tag = "1")]
    pub(super) name: String,
    /// URL of its gRPC services.
    #[prost(string, tag = "2")]
    pub(super) address: String,
}

impl Layout {
    /// The layout below `prefix`, which gets a `/` at its end if it has none.
    pub(super) fn new(prefix: &str) -> Layout {
        Layout { prefix: format!("{}/", prefix.trim_end_matches('/')) }
    }

    /// The key whose create revision is the term of the committer.
    pub(super) fn committer(&self) -> String {
        format!("{}committer", self.prefix)
    }

    /// The key of a replica that runs.
    pub(super) fn replica(&self, name: &str) -> String {
        format!("{}replica/{name}", self.prefix)
    }

    /// Start of all keys.
    pub(super) fn everything(&self) -> String {
        self.prefix.clone()
    }

    /// Whether a key in etcd is a record's.
    pub(super) fn is_record(&self, stored: &KeyValue) -> bool {
        self.name_of(stored, "record/").is_ok()
    }

    pub(super) fn head(&self) -> String {
        format!("{}head", self.prefix)
    }

    /// The key of a record, or the start of the keys of several.
    pub(super) fn record(&self, key: &str) -> String {
        format!("{}record/{key}", self.prefix)
    }

    /// The key of a line of the journal: the keys are in the order of the numbers.
    pub(super) fn line(&self, revision: Revision) -> String {
        format!("{}{:020}", self.journal(), revision.0)
    }

    /// Start of the keys of all lines.
    pub(super) fn journal(&self) -> String {
        format!("{}journal/", self.prefix)
    }

    /// The record that a key in etcd is for.
    pub(super) fn record_of(&self, stored: &KeyValue) -> Result<Key, LedgerError> {
        let name = self.name_of(stored, "record/")?;
        Ok(Key::stored(name))
    }

    /// The revision of the line that a key in etcd is for.
    pub(super) fn line_of(&self, stored: &KeyValue) -> Result<Revision, LedgerError> {
        let name = self.name_of(stored, "journal/")?;
        let revision = name.parse().map_err(|_| damaged(stored, "its name is not a number"))?;
        Ok(Revision(revision))
    }

    fn name_of<'a>(&self, stored: &'a KeyValue, folder: &str) -> Result<&'a str, LedgerError> {
        let name = std::str::from_utf8(&stored.key).ok();
        let name = name.and_then(|name| name.strip_prefix(&self.prefix)?.strip_prefix(folder));
        name.ok_or_else(|| damaged(stored, "it is not a name that a ledger writes"))
    }
}

/// Decodes the value of a key.
pub(super) fn decode<M: Message + Default>(stored: &KeyValue) -> Result<M, LedgerError> {
    M::decode(&*stored.value).map_err(|error| damaged(stored, &error.to_string()))
}

fn damaged(stored: &KeyValue, reason: &str) -> LedgerError {
    let key = escape::presentable(&String::from_utf8_lossy(&stored.key));
    LedgerError::Damaged { reason: format!("`{key}` in etcd: {reason}") }
}

#[cfg(test)]
mod tests {
    use berth_etcd::mvcc::KeyValue;

    use super::Layout;
    use crate::ledger::{Key, LedgerError, Revision};

    #[test]
    fn names_come_back_from_their_keys() {
        let layout = Layout::new("/berth/blue");
        let stored = |key: String| KeyValue { key: key.into(), ..KeyValue::default() };
        let key = Key::identity("shop", "db-0");
        assert_eq!(layout.record(key.as_str()), "/berth/blue/record/identity/shop/db-0");
        assert_eq!(layout.record_of(&stored(layout.record(key.as_str()))), Ok(key));
        let line = layout.line(Revision(17));
        assert_eq!(line, "/berth/blue/journal/00000000000000000017");
        assert_eq!(layout.line_of(&stored(line)), Ok(Revision(17)));
        for key in ["/berth/red/record/fence/a", "/berth/blue/record", "/berth/blue/journal/x"] {
            let (record, line) = (stored(key.to_owned()), stored(key.to_owned()));
            assert!(matches!(layout.record_of(&record), Err(LedgerError::Damaged { .. })), "{key}");
            assert!(matches!(layout.line_of(&line), Err(LedgerError::Damaged { .. })), "{key}");
        }
    }
}
