//! `berth schedule` against an API server that is small, exact, and misbehaves on demand.

mod elect;
mod evict;
mod faults;
mod gang;
mod hand_off;
mod many;
mod place;
mod restart;
mod volumes;
mod world;
mod writes;
