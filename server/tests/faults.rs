//! Faults of what Berth stands on: disk, files, ports, descriptors, clock, signals. Each has a clear message and a safe state.
#![cfg(test)]

#[path = "faults/clock.rs"]
mod clock;
#[path = "faults/descriptors.rs"]
mod descriptors;
#[path = "faults/disk.rs"]
mod disk;
#[path = "faults/files.rs"]
mod files;
#[path = "faults/output.rs"]
mod output;
#[path = "faults/ports.rs"]
mod ports;
#[path = "faults/process.rs"]
mod process;
#[path = "faults/signals.rs"]
mod signals;
#[path = "faults/soak.rs"]
mod soak;
