//! cluster-autoscaler's expander over real connections, with and without TLS: requests of each release, every strategy,
//! chains, bounds, and the files that an operator writes.

mod bounds;
mod files;
mod strategies;
mod tls;
mod world;
mod writers;
