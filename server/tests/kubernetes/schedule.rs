//! `berth schedule` against a small, exact API server that misbehaves on demand.

mod devices;
mod elect;
mod evict;
mod faults;
mod gang;
mod hand_off;
mod many;
mod place;
mod replicas;
mod restart;
mod volumes;
mod world;
mod writes;
