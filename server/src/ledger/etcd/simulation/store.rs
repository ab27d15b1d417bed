//! etcd as far as the protocol relies on it: one order of transactions, revisions, leases.

use std::collections::BTreeMap;

use berth_etcd::EtcdError;
use berth_etcd::mvcc::KeyValue;
use berth_etcd::rpc::compare::TargetUnion;
use berth_etcd::rpc::request_op::Request;
use berth_etcd::rpc::response_op::Response;
use berth_etcd::rpc::{
    Compare, DeleteRangeResponse, PutResponse, RangeRequest, RangeResponse, RequestOp,
    ResponseHeader, ResponseOp, TxnRequest, TxnResponse,
};

/// The store.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) revision: i64,
    pub(super) keys: BTreeMap<Vec<u8>, KeyValue>,
    /// Time to live and end of each lease, in milliseconds.
    leases: BTreeMap<i64, (u64, u64)>,
    n_leases: i64,
}

impl Default for Store {
    /// An empty store; etcd's first revision is 1.
    fn default() -> Store {
        Store { revision: 1, keys: BTreeMap::new(), leases: BTreeMap::new(), n_leases: 0 }
    }
}

impl Store {
    /// Carries a transaction out.
    ///
    /// Errors: it puts a key under a lease that is over.
    pub(super) fn transact(&mut self, request: &TxnRequest) -> Result<TxnResponse, EtcdError> {
        let succeeded = request.compare.iter().all(|compare| self.holds(compare));
        let operations = if succeeded { &request.success } else { &request.failure };
        let is_over = |operation: &RequestOp| match &operation.request {
            Some(Request::RequestPut(put)) => {
                put.lease != 0 && !self.leases.contains_key(&put.lease)
            }
            _ => false,
        };
        if operations.iter().any(is_over) {
            return Err(EtcdError::Unavailable("requested lease not found".to_owned()));
        }
        let changes = |operation: &&RequestOp| {
            !matches!(operation.request, Some(Request::RequestRange(_)) | None)
        };
        if operations.iter().any(|operation| changes(&operation)) {
            self.revision += 1;
        }
        let responses = operations.iter().map(|operation| self.carry_out(operation)).collect();
        let header = ResponseHeader { revision: self.revision, ..ResponseHeader::default() };
        Ok(TxnResponse { header: Some(header), succeeded, responses })
    }

    pub(super) fn grant(&mut self, ttl: u64, now: u64) -> i64 {
        self.n_leases += 1;
        self.leases.insert(self.n_leases, (ttl, now + ttl));
        self.n_leases
    }

    /// Whether there is such a lease still.
    pub(super) fn renew(&mut self, lease: i64, now: u64) -> bool {
        let Some((ttl, end)) = self.leases.get_mut(&lease) else { return false };
        *end = now + *ttl;
        true
    }

    /// Ends a lease, with its keys.
    pub(super) fn revoke(&mut self, lease: i64) {
        self.leases.remove(&lease);
        let before = self.keys.len();
        self.keys.retain(|_, stored| stored.lease != lease);
        self.revision += i64::from(self.keys.len() < before);
    }

    /// Ends the leases whose time is over.
    pub(super) fn expire(&mut self, now: u64) {
        let over = self.leases.iter().filter(|(_, (_, end))| *end <= now);
        let over: Vec<i64> = over.map(|(lease, _)| *lease).collect();
        over.into_iter().for_each(|lease| self.revoke(lease));
    }

    pub(super) fn get(&self, key: &str) -> Option<&KeyValue> {
        self.keys.get(key.as_bytes())
    }

    /// All keys that begin with `prefix`.
    pub(super) fn list<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a KeyValue> {
        let keys = self.keys.range(prefix.as_bytes().to_vec()..);
        keys.map(|(_, stored)| stored)
            .take_while(|stored| stored.key.starts_with(prefix.as_bytes()))
    }

    fn holds(&self, compare: &Compare) -> bool {
        let stored = self.keys.get(&compare.key);
        match compare.target_union.as_ref().unwrap() {
            TargetUnion::CreateRevision(revision) => {
                stored.map_or(0, |stored| stored.create_revision) == *revision
            }
            TargetUnion::ModRevision(revision) => {
                stored.map_or(0, |stored| stored.mod_revision) == *revision
            }
            other => panic!("the protocol does not compare {other:?}"),
        }
    }

    fn carry_out(&mut self, operation: &RequestOp) -> ResponseOp {
        let response = match operation.request.as_ref().unwrap() {
            Request::RequestRange(RangeRequest { key, .. }) => {
                let kvs = self.keys.get(key).cloned().into_iter().collect();
                Response::ResponseRange(RangeResponse { kvs, ..RangeResponse::default() })
            }
            Request::RequestPut(put) => {
                let old = self.keys.get(&put.key);
                let stored = KeyValue {
                    key: put.key.clone(),
                    create_revision: old.map_or(self.revision, |old| old.create_revision),
                    mod_revision: self.revision,
                    version: old.map_or(0, |old| old.version) + 1,
                    value: put.value.clone(),
                    lease: put.lease,
                };
                self.keys.insert(put.key.clone(), stored);
                Response::ResponsePut(PutResponse::default())
            }
            Request::RequestDeleteRange(delete) => {
                let is_deleted = |key: &Vec<u8>| match delete.range_end.is_empty() {
                    true => *key == delete.key,
                    false => (&delete.key..&delete.range_end).contains(&key),
                };
                self.keys.retain(|key, _| !is_deleted(key));
                Response::ResponseDeleteRange(DeleteRangeResponse::default())
            }
        };
        ResponseOp { response: Some(response) }
    }
}
