//! Pods of a dump: one by name, or the pending ones in queue order.

use std::cmp::Reverse;

use berth_engine::PodKey;
use berth_proto::core_v1::Pod;

use super::CliError;
use super::backend::{Backend, Local};
use super::output;

/// All pending pods of the dump in queue order: highest priority first, then oldest, then by name (S-Q-4).
///
/// Also returns, in the same order, those of schedulers that are not configured here, which are not considered (S-Q-2).
pub(super) fn pending(local: &Local) -> (Vec<Pod>, Vec<Pod>) {
    let is_ours = |pod: &Pod| {
        local.has_profile(pod.spec.as_ref().map_or("", |spec| spec.scheduler_name.as_str()))
    };
    in_queue_order(&local.pods, |pod| local.priority_of(pod)).into_iter().partition(is_ours)
}

fn in_queue_order(pods: &[Pod], priority_of: impl Fn(&Pod) -> i32) -> Vec<Pod> {
    let mut pending: Vec<Pod> = pods.iter().filter(|pod| is_pending(pod)).cloned().collect();
    pending.sort_by_cached_key(|pod| {
        let priority = priority_of(pod);
        let metadata = pod.metadata.clone().unwrap_or_default();
        let created = metadata.creation_timestamp.and_then(|time| time.unix_seconds());
        (Reverse(priority), created.unwrap_or(i64::MAX), metadata.namespace, metadata.name)
    });
    pending
}

/// Whether the pod waits for a node: it has none yet, has not finished, and is not being deleted (S-Q-1, S-Q-9).
pub(super) fn is_pending(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().map_or("", |status| status.phase.as_str());
    pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_empty())
        && !matches!(phase, "Succeeded" | "Failed")
        && pod.metadata.as_ref().is_none_or(|metadata| metadata.deletion_timestamp.is_none())
}

/// The pod `namespace/name` of the dump. One that runs is taken off its node, to decide where it would go.
pub(super) fn of_dump(name: &str, backend: &Backend) -> Result<Pod, CliError> {
    let Backend::Local(local) = backend else {
        let reason = format!(
            "`{name}` is not a file; pods are named as `namespace/name` with `--cluster` only"
        );
        return Err(CliError::Request(reason));
    };
    let (namespace, pod_name) = name.split_once('/').unwrap_or_default();
    let is_named = |pod: &&Pod| {
        pod.metadata
            .as_ref()
            .is_some_and(|metadata| metadata.namespace == namespace && metadata.name == pod_name)
    };
    let found = local.pods.iter().find(is_named);
    let mut pod = found.cloned().ok_or_else(|| {
        CliError::Request(match local.refusal_of(name) {
            Some(refused) => format!("`{name}` was refused: {refused}"),
            None => format!("`{name}` is neither a file nor a pod of the cluster"),
        })
    })?;
    if let Some(spec) = &mut pod.spec
        && !spec.node_name.is_empty()
    {
        output::note(&format!(
            "note: {name} is on node {}; decided as if it were pending",
            spec.node_name
        ));
        spec.node_name.clear();
        local.take_off(PodKey::new(namespace, pod_name));
    }
    Ok(pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_pods_come_in_queue_order() {
        let pod = |name: &str, rest: &str| -> Pod {
            serde_json::from_str(&format!(
                r#"{{"metadata": {{"namespace": "d", "name": "{name}"{rest}}}"#
            ))
            .unwrap()
        };
        let pods = [
            pod("running", r#"}, "spec": {"nodeName": "n"}"#),
            pod("young", r#", "creationTimestamp": "2026-01-02T00:00:00Z"}, "spec": {}"#),
            pod("b-undated", r#"}, "spec": {}"#),
            pod("a-undated", r#"}, "spec": {}"#),
            pod("done", r#"}, "spec": {}, "status": {"phase": "Succeeded"}"#),
            pod("leaving", r#", "deletionTimestamp": "2026-01-02T00:00:00Z"}, "spec": {}"#),
            pod("old", r#", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}"#),
            pod(
                "urgent",
                r#", "creationTimestamp": "2026-01-03T00:00:00Z"}, "spec": {"priority": 10}"#,
            ),
        ];
        let priority = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
        let names: Vec<String> = in_queue_order(&pods, priority)
            .into_iter()
            .map(|pod| pod.metadata.unwrap().name)
            .collect();
        assert_eq!(names, ["urgent", "old", "young", "a-undated", "b-undated"]);
    }
}
