//! Faults of the system below Berth: disk, files, ports, descriptors, clock, signals. Each has a clear message and a
//! safe state.

mod clock;
mod descriptors;
mod disk;
mod files;
mod output;
mod ports;
mod signals;
mod soak;
