//! The extender over HTTP: exchanges of a real kube-scheduler, Berth's responses to its requests, and malformed
//! requests.

mod abuse;
mod bind;
mod client;
mod deploy;
mod exchange;
mod recording;
mod replay;
mod scheduler;
mod world;
