//! A client of etcd's v3 API (3.4 and later), as far as Berth uses it: ranges, transactions, leases, watches, state.
//!
//! | where | what |
//! |---|---|
//! | [`Client`] | the calls, over one of several members at a time |
//! | [`ClientOptions`] | members, certificates, user, time limit |
//! | [`EtcdError`] | failures, and whether the request may have been carried out |
//! | [`range`] | keys below a prefix |
//! | [`transaction`] | comparisons and operations of transactions |
//! | [`rpc`], [`mvcc`] | etcd's messages, made from `proto/` without `protoc` |
//!
//! The crate knows nothing of Berth. It tries a failed read again at another member, but never a failed transaction, since
//! that may have been carried out: only the caller can find out.

mod client;
mod error;
mod options;
pub mod range;
pub mod transaction;

pub use client::{Client, Watch};
pub use error::EtcdError;
pub use generated::etcdserverpb as rpc;
pub use generated::mvccpb as mvcc;
pub use options::{ClientOptions, OptionsError, Password, Tls};

#[allow(
    missing_docs,
    unreachable_pub,
    rustdoc::all,
    clippy::all,
    clippy::restriction,
    reason = "generated"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/packages.rs"));
}
