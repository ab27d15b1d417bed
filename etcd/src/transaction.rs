//! Comparisons and operations of transactions.

use crate::rpc::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::rpc::request_op::Request;
use crate::rpc::{Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp};

/// The key was created by the transaction of this revision, and was not deleted since; 0: there is no such key.
#[must_use]
pub fn created_at(key: impl Into<Vec<u8>>, revision: i64) -> Compare {
    let union = TargetUnion::CreateRevision(revision);
    equal(key.into(), CompareTarget::Create, union)
}

/// The key was last changed by the transaction of this revision; 0: there is no such key.
#[must_use]
pub fn changed_at(key: impl Into<Vec<u8>>, revision: i64) -> Compare {
    let union = TargetUnion::ModRevision(revision);
    equal(key.into(), CompareTarget::Mod, union)
}

/// The key has this value.
#[must_use]
pub fn has_value(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Compare {
    let union = TargetUnion::Value(value.into());
    equal(key.into(), CompareTarget::Value, union)
}

fn equal(key: Vec<u8>, target: CompareTarget, union: TargetUnion) -> Compare {
    let (result, target) = (CompareResult::Equal.into(), target.into());
    Compare { result, target, key, target_union: Some(union) }
}

/// Sets a key, under a lease if that is not 0.
#[must_use]
pub fn put(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>, lease: i64) -> RequestOp {
    let put = PutRequest { key: key.into(), value: value.into(), lease };
    RequestOp { request: Some(Request::RequestPut(put)) }
}

/// Deletes a key.
#[must_use]
pub fn delete(key: impl Into<Vec<u8>>) -> RequestOp {
    let delete = DeleteRangeRequest { key: key.into(), range_end: Vec::new() };
    RequestOp { request: Some(Request::RequestDeleteRange(delete)) }
}

/// Deletes the keys from `from` to `end`, without `end`.
#[must_use]
pub fn delete_range(from: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> RequestOp {
    let delete = DeleteRangeRequest { key: from.into(), range_end: end.into() };
    RequestOp { request: Some(Request::RequestDeleteRange(delete)) }
}

/// Reads a range.
#[must_use]
pub fn read(range: RangeRequest) -> RequestOp {
    RequestOp { request: Some(Request::RequestRange(range)) }
}
