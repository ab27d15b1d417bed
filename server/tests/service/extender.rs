//! The extender over HTTP: what a real kube-scheduler sent and took, what Berth answers to that, and what it makes of callers who
//! are none.

mod abuse;
mod bind;
mod client;
mod deploy;
mod exchange;
mod recording;
mod replay;
mod scheduler;
mod world;
