//! The ledger: what every implementation promises, files that are none, and simulated lives that end in crashes.
#![cfg(test)]

#[path = "ledger/contract.rs"]
mod contract;
#[path = "ledger/disk.rs"]
mod disk;
#[path = "ledger/file.rs"]
mod file;
#[path = "ledger/replay.rs"]
mod replay;
#[path = "ledger/simulation.rs"]
mod simulation;
#[path = "ledger/workload.rs"]
mod workload;
