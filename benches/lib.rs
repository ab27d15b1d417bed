//! What all benches share: kube-scheduler's baseline workloads rebuilt exactly ([`workload`]), its decisions on them
//! ([`expected`]) and its times ([`kube_scheduler`]), how Berth is timed on them ([`trial`]), pods that come and go ([`churn`]),
//! pods in every part of their lives ([`stages`]), and what the machine itself takes ([`pause`]).

pub mod workload;
pub mod expected;
pub mod kube_scheduler;
pub mod pause;
pub mod stages;
pub mod trial;
pub mod churn;

pub use workload::{
    N_NODES, PreemptionWorkload, Workload, cluster, distinct_shape, existing, incoming, node,
    objects,
};
