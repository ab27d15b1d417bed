//! Requests: what a ledger keeps of calls that their callers have named, so that each of them is carried out once also if
//! another server, or the next one, is asked again.
//!
//! A call that assumes pods leaves a record with them that says so: its caller has no response yet. The response is
//! written into the same record before the caller gets it. A server that begins to decide ends the pods of each record
//! without a response; whoever asks again then has the request carried out anew.

use std::collections::BTreeMap;
use std::ops::Range;

use prost::Message;
use prost::bytes::Bytes;

use super::record::{NewRecord, decode_whole};
use crate::ledger::{Key, LedgerError};
use crate::service::method;
use crate::service::response_cache::{Answered, Digest, InProgress, RequestName};

/// Number of bytes of a response that a record takes: two of them fit into a transaction.
const MAX_PART_BYTES: usize = 256 << 10;

/// The requests that a ledger knows.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Requests {
    pub(super) answered: Vec<Answered>,
    pub(super) unanswered: Vec<Unanswered>,
    /// Records that belong to no request, or to one of another version.
    pub(super) strays: Vec<Key>,
}

/// A request whose caller has no response.
#[derive(Debug, PartialEq)]
pub(super) struct Unanswered {
    pub(super) name: RequestName,
    pub(super) digest: Digest,
    /// Tokens of the pods that it has assumed.
    pub(super) tokens: Vec<Range<u64>>,
}

/// The value of a request's record.
#[derive(Clone, PartialEq, Message)]
struct Record {
    #[prost(string, tag = "1")]
    user: String,
    /// Path of the method.
    #[prost(string, tag = "2")]
    method: String,
    #[prost(string, tag = "3")]
    id: String,
    /// Digest of the message: two numbers.
    #[prost(fixed64, repeated, tag = "4")]
    digest: Vec<u64>,
    /// What it has assumed, while it has no response.
    #[prost(message, repeated, tag = "5")]
    assumed: Vec<Tokens>,
    #[prost(bool, tag = "6")]
    is_answered: bool,
    /// The response, or its first part.
    #[prost(bytes = "bytes", tag = "7")]
    response: Bytes,
    /// Number of further parts, each a record of its own.
    #[prost(uint32, tag = "8")]
    n_parts: u32,
}

/// Consecutive tokens.
#[derive(Clone, PartialEq, Eq, Message)]
struct Tokens {
    #[prost(uint64, tag = "1")]
    first: u64,
    #[prost(uint64, tag = "2")]
    n: u64,
}

impl Record {
    fn of(request: &InProgress) -> Record {
        let RequestName { user, method, id } = request.name();
        Record {
            user: user.to_string(),
            method: (*method).to_owned(),
            id: id.to_string(),
            digest: request.digest().to_vec(),
            ..Record::default()
        }
    }
}

/// The key of a request's record.
pub(super) fn key(name: &RequestName) -> Key {
    Key::request(&name.user, name.method, &name.id)
}

/// The record of a request that has assumed pods and has no response yet.
pub(super) fn unanswered(request: &InProgress, records: &[NewRecord]) -> (Key, Vec<u8>) {
    let tokens = |it: &NewRecord| Tokens { first: it.first, n: it.n_pods as u64 };
    let assumed = records.iter().map(tokens).collect();
    (key(request.name()), Record { assumed, ..Record::of(request) }.encode_to_vec())
}

/// The records of a response. The last one makes them count.
pub(super) fn answered(request: &InProgress, response: &[u8]) -> Vec<(Key, Vec<u8>)> {
    let key = key(request.name());
    let mut parts = response.chunks(MAX_PART_BYTES);
    let first = Bytes::copy_from_slice(parts.next().unwrap_or_default());
    let mut records: Vec<_> =
        (0..).zip(parts).map(|(n, part)| (key.request_part(n), part.to_vec())).collect();
    let n_parts = u32::try_from(records.len()).unwrap_or(u32::MAX);
    let record = Record { is_answered: true, response: first, n_parts, ..Record::of(request) };
    records.push((key, record.encode_to_vec()));
    records
}

/// Number of records of a response besides the first one.
pub(super) fn n_parts(answered: &Answered) -> u32 {
    let n_records = answered.response.len().div_ceil(MAX_PART_BYTES);
    u32::try_from(n_records.saturating_sub(1)).unwrap_or(u32::MAX)
}

impl Requests {
    /// Start of the keys of all records of requests.
    pub(crate) const PREFIXES: [&str; 2] = [Key::REQUESTS, Key::REQUEST_PARTS];

    /// Reads the records below [`Requests::PREFIXES`].
    ///
    /// # Errors
    /// [`LedgerError::Damaged`].
    pub(crate) fn read(
        records: impl IntoIterator<Item = (Key, Vec<u8>)>,
    ) -> Result<Requests, LedgerError> {
        let (mut requests, mut parts, mut others) =
            (Requests::default(), BTreeMap::new(), Vec::new());
        for (key, value) in records {
            match key.as_str().starts_with(Key::REQUEST_PARTS) {
                true => drop(parts.insert(key, value)),
                false => others.push((key, value)),
            }
        }
        for (key, value) in others {
            let record: Record = decode_whole(&key, &value)?;
            let method = method::find(&record.method).path;
            let is_known = method == record.method;
            let Record { user, id, digest, assumed, is_answered, response, n_parts, .. } = record;
            let name = RequestName { user: user.into(), method, id: id.into() };
            let digest = <[u64; 2]>::try_from(digest).ok();
            let Some(digest) = digest.filter(|_| is_known) else {
                requests.strays.push(key);
                continue;
            };
            if !is_answered {
                let range = |it: Tokens| it.first..it.first.saturating_add(it.n);
                let tokens = assumed.into_iter().map(range).collect();
                requests.unanswered.push(Unanswered { name, digest, tokens });
                continue;
            }
            let mut response = response.to_vec();
            for n in 0..n_parts {
                let part = key.request_part(n);
                let part = parts.remove(&part).ok_or_else(|| LedgerError::Damaged {
                    reason: format!("`{}` is not there", part.as_str()),
                })?;
                response.extend(part);
            }
            requests.answered.push(Answered { name, digest, response: response.into() });
        }
        requests.strays.extend(parts.into_keys());
        Ok(requests)
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Requests::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::service::response_cache::ResponseCache;

    const METHOD: &str = "/berth.v1.PlacementService/Place";

    fn request(id: &str) -> InProgress {
        let name = RequestName { user: "u".into(), method: METHOD, id: id.into() };
        Arc::new(ResponseCache::default()).begin_again(name, [1, 2]).unwrap()
    }

    #[test]
    fn a_response_is_read_from_its_parts() {
        let response: Vec<u8> = (0..=255).cycle().take(2 * MAX_PART_BYTES + 1).collect();
        for n_bytes in [0, 1, MAX_PART_BYTES, MAX_PART_BYTES + 1, response.len()] {
            let request = request("a/b");
            let records = answered(&request, &response[..n_bytes]);
            let read = Requests::read(records.clone()).unwrap();
            let [answered] = &read.answered[..] else { panic!("{read:?}") };
            assert_eq!((&answered.name, answered.digest), (request.name(), [1, 2]));
            assert_eq!(answered.response, response[..n_bytes]);
            assert_eq!(n_parts(answered) as usize, records.len() - 1);
            assert_eq!((read.unanswered.len(), read.strays.len()), (0, 0));
            // A part alone is of no request, and one that is missing is a damage.
            let (last, parts) = records.split_last().unwrap();
            let strays = Requests::read(parts.to_vec()).unwrap().strays;
            assert_eq!(strays.len(), parts.len());
            assert_eq!(Requests::read([last.clone()]).is_err(), !parts.is_empty());
        }
    }

    #[test]
    fn what_is_not_answered_names_its_pods() {
        let request = request("a");
        let record = |first, n_pods| NewRecord { first, n_pods, body: Vec::new() };
        let (key, value) = unanswered(&request, &[record(5, 2), record(9, 1)]);
        let read = Requests::read([(key.clone(), value)]).unwrap();
        let [unanswered] = &read.unanswered[..] else { panic!("{read:?}") };
        assert_eq!(unanswered.tokens, [5..7, 9..10]);
        assert!(!read.is_empty());
        let other = Record { method: "/other".to_owned(), ..Record::of(&request) };
        let read = Requests::read([(key.clone(), other.encode_to_vec())]).unwrap();
        assert_eq!(read.strays, std::slice::from_ref(&key));
        assert!(Requests::read([(key, vec![7])]).is_err());
    }
}
