//! What the service says of itself, over the wire: metrics in both formats, traces, log lines, and the page about them.

mod collector;
mod exposition;
mod metrics;
mod page;
mod trace;
mod world;
