//! Simulations: the questions of an autoscaler, with the answers compared with straightforward computations.

mod consolidate;
pub(crate) mod drain;
mod fit;
mod headroom;
mod scale_in;
mod scale_up;
