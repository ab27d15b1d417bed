//! Connections with TLS and without: which are accepted, how long an idle one is kept, and what happens when
//! certificates change.

mod authority;
mod crowd;
mod handshake;
mod patience;
mod reload;
mod start;
mod world;
