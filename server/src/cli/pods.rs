//! The pods that a command is about: from files, standard input, or the dump by name.

use std::cmp::Reverse;
use std::path::Path;

use berth_engine::PodKey;
use berth_proto::core_v1::Pod;

use super::CliError;
use super::backend::{Backend, Local};
use super::manifest::{admit, name_of};
use super::output;
use crate::feed::file;

/// Finds the pods that `names` refer to, in order: each is a file (`-` for standard input) or `namespace/name` of a pod
/// of the dump. Also returns the number of refused objects in the files; each is reported on standard error.
///
/// A named pod that runs already is taken off its node first, to decide where it would go.
pub(super) fn find(names: &[String], backend: &Backend) -> Result<(Vec<Pod>, usize), CliError> {
    let mut pods = Vec::new();
    let mut n_refused = 0;
    for name in names {
        if is_pod_name(name) {
            pods.push(of_dump(name, backend)?);
            continue;
        }
        let dump = file::read(Path::new(name))?;
        for refused in &dump.refused {
            output::note(&format!("refused: {refused}"));
        }
        n_refused += dump.refused.len();
        if dump.pods.is_empty() && dump.refused.is_empty() {
            return Err(CliError::Request(format!("`{name}` holds no Pod")));
        }
        for mut located in dump.pods {
            admit(&mut located.value);
            pods.push(located.value);
        }
    }
    Ok((pods, n_refused))
}

/// Finds the one pod that `name` refers to.
///
/// # Errors
/// The errors of [`find`], and any other number of pods.
pub(super) fn find_one(name: &str, backend: &Backend) -> Result<Pod, CliError> {
    let (pods, n_refused) = find(&[name.to_owned()], backend)?;
    let [pod] = <[Pod; 1]>::try_from(pods).map_err(|pods| {
        let n_pods = pods.len();
        CliError::Request(format!(
            "`{name}` holds {n_pods} pods ({n_refused} refused), one is decided at a time"
        ))
    })?;
    Ok(pod)
}

/// Whether an argument names a pod of the dump rather than a file.
fn is_pod_name(name: &str) -> bool {
    name != "-" && !Path::new(name).exists() && name.split('/').count() == 2
}

/// Whether [`find`] may need `pod` of the dump.
pub(super) fn is_named(pod: &Pod, names: &[String]) -> bool {
    names.iter().any(|name| is_pod_name(name) && *name == name_of(pod))
}

/// All pending pods of the dump in queue order: highest priority first, then oldest, then by name (S-Q-4).
///
/// Also returns, in the same order, those of schedulers that are not configured here, which are not considered (S-Q-2).
pub(super) fn pending(local: &Local) -> (Vec<Pod>, Vec<Pod>) {
    let is_ours = |pod: &Pod| {
        local.has_profile(pod.spec.as_ref().map_or("", |spec| spec.scheduler_name.as_str()))
    };
    in_queue_order(&local.pods).into_iter().partition(is_ours)
}

fn in_queue_order(pods: &[Pod]) -> Vec<Pod> {
    let mut pending: Vec<Pod> = pods.iter().filter(|pod| is_pending(pod)).cloned().collect();
    pending.sort_by_cached_key(|pod| {
        let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
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

fn of_dump(name: &str, backend: &Backend) -> Result<Pod, CliError> {
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
        let names: Vec<String> =
            in_queue_order(&pods).into_iter().map(|pod| pod.metadata.unwrap().name).collect();
        assert_eq!(names, ["urgent", "old", "young", "a-undated", "b-undated"]);
    }
}
