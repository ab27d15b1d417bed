//! Disruption budgets and the eviction request (group `pdb`).
//!
//! Budgets bind the eviction request only. Preemption prefers not to violate them; taint eviction, node pressure,
//! deletion and pod garbage collection ignore them.

mod coverage;
mod demand;
mod eviction;
mod status;

pub use demand::{UnhealthyPodEvictionPolicy, validate_pdb};
pub use eviction::{EvictionOutcome, evict};
pub use status::pdb_status;

use super::reading::Seconds;

/// Time for which an approved eviction is remembered, in seconds (L-PDB-6).
const REMEMBERED_FOR: Seconds = 120;
