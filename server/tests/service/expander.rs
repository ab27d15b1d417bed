//! cluster-autoscaler's expander over real connections, with TLS and without: what each of its releases sends, every
//! strategy, chains, bounds, and the files that an operator writes.

mod bounds;
mod files;
mod strategies;
mod tls;
mod world;
mod writers;
