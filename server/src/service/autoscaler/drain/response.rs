//! Outcomes of a drain for nodes and pods, engine → wire.

use berth_engine as engine;
use berth_engine::{BlockingReason, NodeOutcome, PodVerdict, UnremovableReason};
use berth_proto::berth_v1 as wire;

use crate::service::convert::{pod_key, reason_count, saturate};

pub(super) fn drain(drained: engine::Drain) -> wire::SimulateDrainResponse {
    let engine::Drain { generation, nodes, n_waves } = drained;
    wire::SimulateDrainResponse {
        generation: generation.get(),
        nodes: nodes.into_iter().map(node).collect(),
        n_waves,
    }
}

pub(in crate::service::autoscaler) fn node(drained: engine::NodeDrain) -> wire::NodeDrain {
    let engine::NodeDrain { node, utilization: ratio, outcome, pods, n_waves, budgets } = drained;
    let base = wire::NodeDrain {
        node_name: node.to_string(),
        utilization: ratio.map(utilization),
        pods: pods.into_iter().map(pod).collect(),
        n_waves,
        budgets: budgets.into_iter().map(budget).collect(),
        ..wire::NodeDrain::default()
    };
    match outcome {
        NodeOutcome::Removable { risky } => wire::NodeDrain { removable: true, risky, ..base },
        NodeOutcome::Unremovable { reason, message, blocking_pod } => wire::NodeDrain {
            unremovable_reason: reason.as_str().to_owned(),
            unremovable_code: code(UnremovableReason::ALL, &reason),
            message,
            blocking_pod: blocking_pod.map(|pod| pod_key(&pod, "")),
            ..base
        },
    }
}

pub(in crate::service::autoscaler) fn utilization(
    utilization: engine::NodeUtilization,
) -> wire::NodeUtilization {
    let engine::NodeUtilization { ratio, resource } = utilization;
    wire::NodeUtilization { ratio, resource: resource.to_string() }
}

/// cluster-autoscaler's number of a reason: its index among all reasons.
pub(in crate::service::autoscaler) fn code<T: PartialEq>(all: &[T], one: &T) -> u32 {
    saturate(all.iter().position(|other| other == one).unwrap_or_default())
}

fn pod(drained: engine::PodDrain) -> wire::PodDrain {
    use wire::DrainVerdict as Wire;
    let engine::PodDrain { pod, uid, priority, verdict, budgets } = drained;
    let base = wire::PodDrain {
        pod: Some(pod_key(&pod, &uid)),
        priority,
        budgets: budgets.iter().map(ToString::to_string).collect(),
        ..wire::PodDrain::default()
    };
    let plain = |verdict: Wire| wire::PodDrain { verdict: verdict.into(), ..base.clone() };
    match verdict {
        PodVerdict::Moves { node, wave } => {
            wire::PodDrain { node_name: node.to_string(), wave, ..plain(Wire::Moves) }
        }
        PodVerdict::Daemon => plain(Wire::Daemon),
        PodVerdict::Mirror => plain(Wire::Mirror),
        PodVerdict::LongTerminating => plain(Wire::LongTerminating),
        PodVerdict::OnCompletion => plain(Wire::OnCompletion),
        PodVerdict::Blocked { reason, message } => wire::PodDrain {
            blocking_reason: reason.as_str().to_owned(),
            blocking_code: code(BlockingReason::ALL, &reason),
            message,
            ..plain(Wire::Blocked)
        },
        PodVerdict::NoRoom { message, reasons } => {
            let reasons = reasons.into_iter().map(reason_count);
            wire::PodDrain { message, reasons: reasons.collect(), ..plain(Wire::NoRoom) }
        }
    }
}

fn budget(used: engine::BudgetUse) -> wire::BudgetUse {
    let engine::BudgetUse { namespace, name, n_moved, n_allowed } = used;
    let [namespace, name] = [namespace, name].map(|text| text.to_string());
    wire::BudgetUse { namespace, name, n_moved, n_allowed }
}
