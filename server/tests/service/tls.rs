//! Connections, secured and plain: who gets one, who does not, how long a peer may keep one that it does not use, and what becomes of
//! them when certificates change.

mod authority;
mod crowd;
mod handshake;
mod patience;
mod reload;
mod start;
mod world;
