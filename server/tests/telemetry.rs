//! What the service says of itself, over the wire: metrics in both formats, traces, log lines, and the page about them.
#![cfg(test)]

#[path = "telemetry/collector.rs"]
mod collector;
#[path = "telemetry/exposition.rs"]
mod exposition;
#[path = "telemetry/log.rs"]
mod log;
#[path = "telemetry/metrics.rs"]
mod metrics;
#[path = "telemetry/page.rs"]
mod page;
#[path = "telemetry/trace.rs"]
mod trace;
#[path = "telemetry/world.rs"]
mod world;
