//! Pods on partitioned nodes: their condition, and the status that a list of pods displays (L-FENCE-2, L-FENCE-3).

use berth_proto::berth_v1::{PartitionConditionRequest, PartitionConditionResponse};
use berth_proto::core_v1::{Pod, PodCondition};

use super::condition::{recorded, stated};
use super::reading::{self, Seconds, given};
use super::vocabulary::{ConditionStatus, PodPhase};
use crate::model::ModelError;

/// Type of the condition of pods on partitioned nodes.
pub const NODE_PARTITIONED: &str = "berth.io/NodePartitioned";
/// Displayed status of a pod that is marked for deletion while its node is in contact (L-TERM-24).
pub(crate) const TERMINATING: &str = "Terminating";

/// `PartitionCondition`: the condition [`NODE_PARTITIONED`] of a pod, given the readiness of its node.
///
/// # Errors
/// [`ModelError`] for a missing pod or `now`, for an unknown `nodeReady` or phase, and for recorded conditions that
/// contradict each other.
pub fn partition_condition(
    request: &PartitionConditionRequest,
) -> Result<PartitionConditionResponse, ModelError> {
    let now = reading::required(request.now.as_ref(), "now")?;
    let pod = given(request.pod.as_ref(), "pod")?;
    let node_ready = match &*request.node_ready {
        "" => None,
        word => Some(ConditionStatus::parse(word, "nodeReady")?),
    };
    let phase = reading::phase(pod).map_err(|error| error.under("pod"))?;
    let Partition { condition, status_reason, display_status } =
        decide(pod, phase, node_ready, now).map_err(|error| error.under("pod"))?;
    let keyed = |condition: PodCondition| (condition.r#type.clone(), condition);
    Ok(PartitionConditionResponse {
        conditions: condition.map(keyed).into_iter().collect(),
        status_reason: status_reason.to_owned(),
        display_status: display_status.to_owned(),
    })
}

/// The effect of a node's contact on a pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Partition {
    /// The condition [`NODE_PARTITIONED`], if the pod has or gets it.
    pub(crate) condition: Option<PodCondition>,
    /// `NodeLost` while the node is cut off and the pod is marked, else empty.
    pub(crate) status_reason: &'static str,
    /// Status to show in a list of pods.
    pub(crate) display_status: &'static str,
}

/// The effect of the node's contact on a pod of this phase (L-FENCE-2, L-FENCE-3). Without `node_ready` nothing is
/// known about the node, and the recorded condition stays.
///
/// # Errors
/// [`ModelError`] relative to the pod, for recorded conditions that contradict each other.
pub(crate) fn decide(
    pod: &Pod,
    phase: PodPhase,
    node_ready: Option<ConditionStatus>,
    now: Seconds,
) -> Result<Partition, ModelError> {
    let recorded = recorded(pod, NODE_PARTITIONED)?;
    let is_partitioned = is_partitioned(pod, phase, node_ready, recorded.map(|(_, status)| status));
    let is_marked = reading::is_marked(pod);

    let turned = |status, reason| {
        let recorded = recorded.map(|(condition, _)| condition);
        Some(stated(pod, NODE_PARTITIONED, recorded, (status, reason), now))
    };
    let condition = match (node_ready, recorded) {
        (Some(ConditionStatus::Unknown), _) if is_partitioned => {
            turned(ConditionStatus::True, "NodeHeartbeatLost")
        }
        // Contact exists also with a node that reports itself not ready.
        (Some(ConditionStatus::True | ConditionStatus::False), Some((_, status)))
            if status != ConditionStatus::False =>
        {
            turned(ConditionStatus::False, "NodeHeartbeatRestored")
        }
        (_, recorded) => recorded.map(|(condition, _)| condition.clone()),
    };
    let display_status = match phase {
        _ if is_partitioned => "NodeDown",
        _ if is_marked => TERMINATING,
        PodPhase::Succeeded => "Completed",
        phase => phase.word(),
    };
    let status_reason = if is_partitioned && is_marked { "NodeLost" } else { "" };
    Ok(Partition { condition, status_reason, display_status })
}

/// Whether a pod that is not terminal is on a node without contact (L-FENCE-2). If nothing is known about the node, the
/// recorded condition stays (L-GEN-4).
fn is_partitioned(
    pod: &Pod,
    phase: PodPhase,
    node_ready: Option<ConditionStatus>,
    recorded: Option<ConditionStatus>,
) -> bool {
    let is_out_of_touch = match node_ready {
        Some(ready) => ready == ConditionStatus::Unknown,
        None => recorded == Some(ConditionStatus::True),
    };
    is_out_of_touch && !phase.is_terminal() && reading::node_name(pod).is_some()
}

#[cfg(test)]
mod tests {
    use super::{NODE_PARTITIONED, partition_condition};
    use berth_proto::Time;
    use berth_proto::berth_v1::{PartitionConditionRequest, PartitionConditionResponse};
    use berth_proto::core_v1::{Pod, PodCondition, PodSpec, PodStatus};
    use berth_proto::meta_v1::ObjectMeta;

    /// A pod of generation 3 on a node, in a phase, with the condition in a status since 100, or without it.
    fn pod(phase: &str, recorded: &str) -> Pod {
        let condition = PodCondition {
            r#type: NODE_PARTITIONED.to_owned(),
            status: recorded.to_owned(),
            last_transition_time: Some(Time::from_unix_seconds(100)),
            ..PodCondition::default()
        };
        let conditions = if recorded.is_empty() { vec![] } else { vec![condition] };
        Pod {
            metadata: Some(ObjectMeta { generation: 3, ..ObjectMeta::default() }),
            spec: Some(PodSpec { node_name: "n1".to_owned(), ..PodSpec::default() }),
            status: Some(PodStatus { phase: phase.to_owned(), conditions, ..PodStatus::default() }),
        }
    }

    fn request_for(pod: Pod, node_ready: &str) -> PartitionConditionRequest {
        PartitionConditionRequest {
            pod: Some(pod),
            node_ready: node_ready.to_owned(),
            now: Some(Time::from_unix_seconds(200)),
            key: None,
        }
    }

    /// The condition as `status/reason@transition`, and the displayed status.
    fn shown(answer: &PartitionConditionResponse) -> String {
        let condition = answer.conditions.get(NODE_PARTITIONED).map_or("-".to_owned(), |found| {
            let since = found.last_transition_time.and_then(|time| time.unix_seconds());
            format!("{}/{}@{}", found.status, found.reason, since.unwrap())
        });
        format!("{condition} {} {}", answer.display_status, answer.status_reason)
    }

    fn check(pod: Pod, node_ready: &str, expected: &str) {
        let answer = partition_condition(&request_for(pod, node_ready)).unwrap();
        assert_eq!(shown(&answer).trim_end(), expected);
    }

    #[test]
    fn the_transition_is_when_the_status_changed() {
        // L-FENCE-2, L-COND-2
        check(pod("Running", ""), "Unknown", "True/NodeHeartbeatLost@200 NodeDown");
        check(pod("Running", "True"), "Unknown", "True/NodeHeartbeatLost@100 NodeDown");
        check(pod("Running", "False"), "Unknown", "True/NodeHeartbeatLost@200 NodeDown");
        check(pod("Running", "True"), "True", "False/NodeHeartbeatRestored@200 Running");
        check(pod("Running", "False"), "True", "False/@100 Running");
        check(pod("Pending", ""), "True", "- Pending");
        // A node that reports itself not ready is not partitioned.
        check(pod("Running", "True"), "False", "False/NodeHeartbeatRestored@200 Running");
    }

    #[test]
    fn terminal_and_unbound_pods_are_not_partitioned() {
        // L-FENCE-2, L-FENCE-3
        check(pod("Succeeded", "True"), "Unknown", "True/@100 Completed");
        check(pod("Failed", ""), "Unknown", "- Failed");
        let mut unbound = pod("Pending", "");
        unbound.spec = None;
        check(unbound, "Unknown", "- Pending");
    }

    #[test]
    fn without_facts_the_recorded_condition_stays() {
        // L-GEN-4
        check(pod("Running", "True"), "", "True/@100 NodeDown");
        check(pod("Running", "False"), "", "False/@100 Running");
        check(pod("Running", ""), "", "- Running");
    }

    #[test]
    fn a_marked_pod_on_a_lost_node_is_lost() {
        // L-FENCE-2, L-FENCE-3, L-TERM-24
        let marked = |phase| {
            let mut pod = pod(phase, "");
            let metadata = pod.metadata.as_mut().unwrap();
            metadata.deletion_timestamp = Some(Time::from_unix_seconds(150));
            pod
        };
        check(marked("Running"), "Unknown", "True/NodeHeartbeatLost@200 NodeDown NodeLost");
        check(marked("Running"), "True", "- Terminating");
        check(marked("Succeeded"), "Unknown", "- Terminating");
        let answer = partition_condition(&request_for(marked("Running"), "Unknown")).unwrap();
        assert_eq!(answer.conditions[NODE_PARTITIONED].observed_generation, 3);
    }

    #[test]
    fn errors_name_the_field() {
        let error = |request| partition_condition(&request).unwrap_err().to_string();
        let known = "not one of `True`, `False`, `Unknown`";
        let request = request_for(pod("Running", ""), "Ready");
        assert_eq!(error(request), format!("`nodeReady`: unknown value `Ready`: {known}"));
        let request = request_for(pod("Running", "Yes"), "True");
        assert_eq!(
            error(request),
            format!("`pod.status.conditions[0].status`: unknown value `Yes`: {known}")
        );
        let mut twice = pod("Running", "True");
        let conditions = &mut twice.status.as_mut().unwrap().conditions;
        conditions.push(PodCondition { status: "False".to_owned(), ..conditions[0].clone() });
        assert_eq!(
            error(request_for(twice, "True")),
            format!("`pod.status.conditions[1].type`: duplicate `{NODE_PARTITIONED}`")
        );
        let request = request_for(pod("Asleep", ""), "True");
        assert!(error(request).starts_with("`pod.status.phase`: unknown value `Asleep`"));
        let request = PartitionConditionRequest { now: None, ..request_for(pod("", ""), "True") };
        assert_eq!(error(request), "`now`: required");
        let request = PartitionConditionRequest { pod: None, ..request_for(pod("", ""), "True") };
        assert_eq!(error(request), "`pod`: required");
    }
}
