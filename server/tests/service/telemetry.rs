//! Telemetry over the wire: metrics in both formats, traces, and the page about them.

mod collector;
mod exposition;
mod metrics;
mod monitoring;
mod page;
mod trace;
mod world;
