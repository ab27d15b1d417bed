//! The ledger: the contract of every implementation, damaged files, and simulated lives that end in crashes.

mod contract;
mod disk;
mod etcd;
mod file;
mod legacy;
pub(crate) mod replay;
mod replica;
mod simulation;
pub(crate) mod workload;
