//! Nodes that run short: the classes of pods, and which pod has to go (group `pressure`).

mod qos;
mod rank;
mod request;

pub use qos::{QosClass, qos_class, qos_class_of};
pub use rank::{RankingMode, Signal, rank_for_eviction};
