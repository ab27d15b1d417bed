//! cluster-autoscaler's expander over real connections, with TLS and without: what each of its releases sends, every strategy, chains,
//! bounds, and the files that an operator writes.
#![cfg(test)]

#[path = "expander/bounds.rs"]
mod bounds;
#[path = "expander/files.rs"]
mod files;
#[path = "expander/strategies.rs"]
mod strategies;
#[path = "expander/tls.rs"]
mod tls;
#[path = "expander/world.rs"]
mod world;
#[path = "expander/writers.rs"]
mod writers;
