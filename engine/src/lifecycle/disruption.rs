//! Disruption budgets and the eviction request (group `pdb`).
//!
//! Budgets bind the eviction request and nothing else: preemption prefers not to violate them, and taint eviction, node pressure,
//! deletion and pod garbage collection do not ask.

mod coverage;
mod demand;
mod eviction;
mod status;

pub use demand::{UnhealthyPodEvictionPolicy, validate_pdb};
pub use eviction::{EvictionOutcome, evict};
pub use status::pdb_status;

use super::reading::Seconds;

/// How long an approved eviction is remembered, in seconds (L-PDB-6).
const REMEMBERED_FOR: Seconds = 120;
