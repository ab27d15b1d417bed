//! The extender over HTTP: what a real kube-scheduler sent and took, what Berth answers to that, and what it makes of callers who
//! are none.
#![cfg(test)]

#[path = "extender/abuse.rs"]
mod abuse;
#[path = "extender/bind.rs"]
mod bind;
#[path = "extender/client.rs"]
mod client;
#[path = "extender/deploy.rs"]
mod deploy;
#[path = "extender/exchange.rs"]
mod exchange;
#[path = "extender/recording.rs"]
mod recording;
#[path = "extender/replay.rs"]
mod replay;
#[path = "extender/scheduler.rs"]
mod scheduler;
#[path = "extender/world.rs"]
mod world;
