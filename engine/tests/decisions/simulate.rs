//! Simulations: what an autoscaler asks, held against the same worked out in the obvious way.

mod consolidate;
mod drain;
mod fit;
mod headroom;
mod scale_in;
mod scale_up;
