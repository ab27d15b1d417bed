//! Modules that the benches share: kube-scheduler's baseline workloads ([`workload`]) with its decisions ([`expected`])
//! and times ([`kube_scheduler`]), timing of Berth on them ([`trial`]), added and removed pods ([`churn`]), pods in all
//! stages of their lifecycle ([`stages`]), servers with the baseline cluster ([`served`]), what a process uses
//! ([`process`]), and pauses of the machine ([`pause`]).

pub mod workload;
pub mod expected;
pub mod kube_scheduler;
pub mod pause;
pub mod process;
pub mod stages;
pub mod trial;
pub mod churn;
pub mod served;

pub use workload::{
    DeviceWorkload, N_NODES, PreemptionWorkload, Workload, cluster, distinct_shape, existing,
    incoming, node, objects,
};
