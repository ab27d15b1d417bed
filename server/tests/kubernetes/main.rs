//! Berth beside an API server: fed by one, scheduling for one, and compared with what a real kube-scheduler decided.
#![cfg(test)]

mod dump;
mod kube;
mod probe;
mod schedule;
