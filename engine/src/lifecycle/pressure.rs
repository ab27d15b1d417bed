//! Node pressure: QoS classes of pods, and the order in which a node under pressure evicts them (group `pressure`).

mod qos;
mod rank;
mod request;

pub use qos::{QosClass, qos_class, qos_class_of};
pub use rank::{RankingMode, Signal, rank_for_eviction};
