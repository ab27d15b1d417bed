//! Recorder: writes a journal of all that the cluster does and of every decision, so that both can be made again
//! ([`crate::replay`]).
//!
//! The engine tells the recorder while calls are answered: what it tells goes into a queue, and a thread encodes and writes
//! it. Nothing ever waits for that thread. If it falls too far behind, or the disk takes no more, the segment ends where it
//! is whole, and the next one begins anew with what the cluster holds then; what came in between is lost, and counted.

pub(crate) mod columns;
pub(crate) mod decode;
pub(crate) mod encode;
mod queue;
pub(crate) mod record;
mod recording;
mod told;

pub(crate) use queue::Recorder;
pub use recording::JournalOptions;
pub(crate) use recording::{Header, Journal};
