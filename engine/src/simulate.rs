//! Simulations: what would happen with more nodes or with fewer. Each question has a file and works on a private copy
//! of a snapshot ([`scene`]). Rules: scheduling.md, section 8.

pub(crate) mod one_pass;
mod among;
mod scene;
mod rows;
pub(crate) mod utilization;
mod refusals;
pub(crate) mod fit;
pub(crate) mod headroom;
pub(crate) mod scale_in;
pub(crate) mod drain;
pub(crate) mod consolidate;
pub(crate) mod scale_up;
