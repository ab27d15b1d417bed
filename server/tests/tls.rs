//! Connections, secured and plain: who gets one, who does not, how long a peer may keep one that it does not use, and what becomes of
//! them when certificates change.
#![cfg(test)]

#[path = "tls/authority.rs"]
mod authority;
#[path = "tls/crowd.rs"]
mod crowd;
#[path = "tls/handshake.rs"]
mod handshake;
#[path = "tls/patience.rs"]
mod patience;
#[path = "tls/reload.rs"]
mod reload;
#[path = "tls/start.rs"]
mod start;
#[path = "tls/world.rs"]
mod world;
