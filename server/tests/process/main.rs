//! The built binary as a process: its commands, its output, its signals, its faults, and what survives when it is
//! killed.
//!
//! The ledger's tests are here too: `crash` replays their workload against the binary.
#![cfg(test)]

mod by_name;
mod campaign;
mod cli;
mod console;
mod crash;
mod decisions;
mod drain;
mod faults;
mod forwarding;
mod journal;
mod ledger;
mod ledger_questions;
mod log;
mod manifests;
mod proxy;
mod record;
mod reservations;
mod serve;
mod served;
mod session_steps;
