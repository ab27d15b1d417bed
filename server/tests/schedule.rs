//! `berth schedule` against an API server that is small, exact, and misbehaves on demand.
#![cfg(test)]

#[path = "schedule/elect.rs"]
mod elect;
#[path = "schedule/evict.rs"]
mod evict;
#[path = "schedule/faults.rs"]
mod faults;
#[path = "schedule/gang.rs"]
mod gang;
#[path = "schedule/hand_off.rs"]
mod hand_off;
#[path = "schedule/many.rs"]
mod many;
#[path = "schedule/place.rs"]
mod place;
#[path = "schedule/restart.rs"]
mod restart;
#[path = "schedule/volumes.rs"]
mod volumes;
#[path = "schedule/world.rs"]
mod world;
#[path = "schedule/writes.rs"]
mod writes;
