//! Accessors for the fields of a pod outside its spec.

use berth_proto::core_v1::Pod;

use super::label_selector::Labels;
use super::objects;

pub(crate) fn name(pod: &Pod) -> &str {
    pod.metadata.as_ref().map_or("", |metadata| &metadata.name)
}

pub(crate) fn namespace(pod: &Pod) -> &str {
    pod.metadata.as_ref().map_or("default", objects::namespace)
}

pub(crate) fn uid(pod: &Pod) -> &str {
    pod.metadata.as_ref().map_or("", |metadata| &metadata.uid)
}

pub(crate) fn key(pod: &Pod) -> String {
    format!("{}/{}", namespace(pod), name(pod))
}

/// S-Q-3
pub(crate) fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
}

/// Returns the start time in seconds.
pub(crate) fn start_time(pod: &Pod) -> Option<i64> {
    pod.status.as_ref()?.start_time.as_ref()?.unix_seconds()
}

/// `status.nominatedNodeName`
pub(crate) fn nominated_node(pod: &Pod) -> Option<&str> {
    let name = pod.status.as_ref().map(|status| status.nominated_node_name.as_str());
    name.filter(|name| !name.is_empty())
}

/// Whether the pod terminates because of preemption; only the first condition of its type counts (S-PRE-3).
pub(crate) fn is_terminating_by_preemption(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions);
    let first = conditions.into_iter().find(|condition| condition.r#type == "DisruptionTarget");
    is_terminating(pod)
        && first.is_some_and(|condition| {
            (condition.status.as_str(), condition.reason.as_str())
                == ("True", "PreemptionByScheduler")
        })
}

pub(crate) fn labels(pod: &Pod) -> &Labels {
    static NONE: Labels = Labels::new();
    pod.metadata.as_ref().map_or(&NONE, |metadata| &metadata.labels)
}

pub(crate) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.as_ref().is_some_and(|metadata| metadata.deletion_timestamp.is_some())
}

/// Returns the claims of the pod's volumes in order, and whether each is a generic ephemeral one, whose name consists
/// of the pod's and the volume's (S-VLL-2).
pub(crate) fn claims(pod: &Pod) -> Vec<(String, bool)> {
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes);
    volumes
        .filter_map(|volume| {
            let source = volume.volume_source.as_ref()?;
            match (&source.persistent_volume_claim, &source.ephemeral) {
                (Some(claim), _) => Some((claim.claim_name.clone(), false)),
                (None, Some(_)) => Some((format!("{}-{}", name(pod), volume.name), true)),
                (None, None) => None,
            }
        })
        .collect()
}
