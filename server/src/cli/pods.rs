//! Pods of the cluster: one by name, or the pending ones in queue order.

use std::cmp::Reverse;

use berth_engine::PodKey;
use berth_proto::berth_v1::ListPodsRequest;
use berth_proto::core_v1::Pod;

use super::backend::Backend;
use super::what_if::Change;
use super::{CliError, manifest, output};

/// All pending pods of the cluster in queue order: highest priority first, then oldest, then by name (S-Q-4).
///
/// Also returns, in the same order, those of schedulers that have no profile there, which are not considered (S-Q-2).
///
/// # Errors
/// A server that cannot be reached.
pub(super) async fn pending(backend: &Backend) -> Result<(Vec<Pod>, Vec<Pod>), CliError> {
    match backend {
        Backend::Local(local) => {
            let is_ours = |pod: &Pod| local.has_profile(scheduler_of(pod));
            let pods = in_queue_order(&local.pods, |pod| local.priority_of(pod));
            Ok(pods.into_iter().partition(is_ours))
        }
        Backend::Server(_) => {
            let request =
                ListPodsRequest { waits: Some(true), with_objects: true, ..Default::default() };
            let listed = backend.list_pods(request).await?;
            let pods: Vec<Pod> = listed.into_iter().filter_map(|pod| pod.object).collect();
            let names = backend.cluster().await?.scheduler_names;
            let is_ours = |pod: &Pod| {
                let name = scheduler_of(pod);
                name.is_empty() || names.iter().any(|known| known == name)
            };
            // A server has admitted its pods, or got them from one that has.
            let priority_of = |pod: &Pod| pod.spec.as_ref().and_then(|it| it.priority).unwrap_or(0);
            Ok(in_queue_order(&pods, priority_of).into_iter().partition(is_ours))
        }
    }
}

/// A remark on pods of schedulers that have no profile.
pub(super) fn not_considered(of_others: &[Pod]) -> Option<String> {
    let pod = of_others.first()?;
    let (n_pods, name) = (output::count(of_others.len(), "pod"), manifest::name_of(pod));
    let scheduler = scheduler_of(pod);
    Some(format!("{n_pods} not considered, such as {name}, which asks for scheduler `{scheduler}`"))
}

fn scheduler_of(pod: &Pod) -> &str {
    pod.spec.as_ref().map_or("", |spec| spec.scheduler_name.as_str())
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

/// The pod of this name as the cluster has it, on its node if it is on one.
///
/// # Errors
/// An unknown or refused pod, a server that cannot be reached.
pub(super) async fn as_it_is(key: &PodKey, backend: &Backend) -> Result<Pod, CliError> {
    let name = key.to_string();
    let (found, refusal) = match backend {
        Backend::Local(local) => {
            let found = local.pods.iter().find(|pod| manifest::name_of(pod) == name).cloned();
            (found, local.refusal_of(&name))
        }
        Backend::Server(_) => (backend.pod(key).await?.and_then(|found| found.pod), None),
    };
    found.ok_or_else(|| {
        CliError::Request(match refusal {
            Some(refused) => format!("`{name}` was refused: {refused}"),
            None => format!("`{name}` is neither a file nor a pod of the cluster"),
        })
    })
}

/// The pod of this name. One that runs is taken off its node, to decide where it would go: in a session, if a server
/// is asked.
///
/// # Errors
/// An unknown or refused pod, a server that cannot be reached.
pub(super) async fn as_if_pending(key: &PodKey, backend: &mut Backend) -> Result<Pod, CliError> {
    let mut pod = as_it_is(key, backend).await?;
    let Some(spec) = pod.spec.as_mut().filter(|spec| !spec.node_name.is_empty()) else {
        return Ok(pod);
    };
    let node = std::mem::take(&mut spec.node_name);
    output::note(&format!("note: {key} is on node {node}; decided as if it were pending"));
    backend.fork_if_live().await?;
    match backend.apply(vec![Change::NoPod(key.clone())]).await?.first() {
        Some((_, reason)) => Err(CliError::Request(reason.clone())),
        None => Ok(pod),
    }
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
