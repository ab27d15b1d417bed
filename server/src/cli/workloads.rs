//! Workloads of files: expanded into pods, with the objects that exist beside the pods supposed in the cluster.

use std::collections::HashSet;

use berth_engine::workload::{DaemonNode, ExpandOptions, Expansion, PodController, Workload};
use berth_proto::core_v1::Pod;
use berth_proto::meta_v1::ObjectMeta;

use super::backend::Backend;
use super::what_if::Change;
use super::{CliError, manifest};
use crate::feed::file::{Located, Refused, WrittenObject};
use crate::feed::object_name;

/// Expands workloads in order; `replicas` is the number of pods of each, instead of its own. A workload that the API
/// server would refuse is refused alone.
///
/// The pods' controllers and claims are supposed on the fork of `backend`, which is made if there is none. Claims that
/// the cluster has stay as they are.
///
/// # Errors
/// A server that cannot be reached, or that does not accept the objects.
pub(super) async fn expand(
    workloads: Vec<Located<Workload>>,
    replicas: Option<u32>,
    backend: &mut Backend,
) -> Result<Vec<Result<Expansion, Refused>>, CliError> {
    let is_daemon = |workload: &Located<Workload>| matches!(workload.value, Workload::DaemonSet(_));
    let nodes: Vec<DaemonNode> =
        if workloads.iter().any(is_daemon) { backend.daemon_nodes().await? } else { Vec::new() };
    let options = ExpandOptions { replicas, nodes: &nodes };
    let (mut controllers, mut claims) = (Vec::new(), Vec::new());
    let mut expanded = Vec::with_capacity(workloads.len());
    for Located { value, location } in workloads {
        match value.expand(&options) {
            Ok(mut expansion) => {
                expansion.pods.iter_mut().for_each(manifest::identify);
                controllers.extend(expansion.controller.take().map(written));
                let of_pods = std::mem::take(&mut expansion.claims).into_iter();
                claims.extend(
                    of_pods.map(|claim| WrittenObject::PersistentVolumeClaim(Box::new(claim))),
                );
                expanded.push(Ok(expansion));
            }
            Err(error) => {
                let object = object_name(value.kind().name(), value.metadata());
                let (field, reason) = (error.field, error.reason);
                expanded.push(Err(Refused { location, object, field, reason }));
            }
        }
    }
    suppose(controllers, claims, backend).await?;
    Ok(expanded)
}

/// Supposes the controllers, and the claims that do not exist.
async fn suppose(
    controllers: Vec<WrittenObject>,
    claims: Vec<WrittenObject>,
    backend: &mut Backend,
) -> Result<(), CliError> {
    if controllers.is_empty() && claims.is_empty() {
        return Ok(());
    }
    backend.fork_if_live().await?;
    let controllers = controllers.into_iter().map(Change::Object).collect();
    let mut refused = backend.apply(controllers).await?;
    if !claims.is_empty() {
        let claims = claims.into_iter().map(Change::Object).collect();
        refused.append(&mut backend.apply_missing(claims).await?);
    }
    if refused.is_empty() {
        return Ok(());
    }
    let reasons: Vec<String> = refused.into_iter().map(|(_, reason)| reason).collect();
    Err(CliError::Request(reasons.join("\n  ")))
}

fn written(controller: PodController) -> WrittenObject {
    match controller {
        PodController::ReplicationController(object) => {
            WrittenObject::ReplicationController(object)
        }
        PodController::ReplicaSet(object) => WrittenObject::ReplicaSet(object),
        PodController::StatefulSet(object) => WrittenObject::StatefulSet(object),
    }
}

/// Name of a workload in messages, such as ``Deployment `shop/web` ``.
pub(super) fn name_of(expansion: &Expansion) -> String {
    let Expansion { kind, namespace, name, .. } = expansion;
    format!("{kind} `{namespace}/{name}`")
}

/// The objects that own other given objects: a Deployment whose ReplicaSet is given too, a ReplicaSet whose pods are.
/// They are not expanded, since what their controllers made of them is there already.
pub(super) struct Owners {
    uids: HashSet<String>,
    names: HashSet<(String, String, String)>,
}

impl Owners {
    /// The owners of these pods and workloads.
    pub(super) fn of<'a>(
        pods: impl Iterator<Item = &'a Pod>,
        workloads: impl Iterator<Item = &'a Workload>,
    ) -> Owners {
        let (mut uids, mut names) = (HashSet::new(), HashSet::new());
        let pods = pods.filter_map(|pod| pod.metadata.as_ref());
        for metadata in pods.chain(workloads.filter_map(Workload::metadata)) {
            let owners = metadata.owner_references.iter();
            for owner in owners.filter(|owner| owner.controller == Some(true)) {
                if owner.uid.is_empty() {
                    names.insert((
                        owner.kind.clone(),
                        namespace_of(metadata).to_owned(),
                        owner.name.clone(),
                    ));
                } else {
                    uids.insert(owner.uid.clone());
                }
            }
        }
        Owners { uids, names }
    }

    /// Whether the workload is one of them.
    pub(super) fn has(&self, workload: &Workload) -> bool {
        let Some(metadata) = workload.metadata() else {
            return false;
        };
        let name = (
            workload.kind().name().to_owned(),
            namespace_of(metadata).to_owned(),
            metadata.name.clone(),
        );
        self.uids.contains(&metadata.uid) || self.names.contains(&name)
    }
}

fn namespace_of(metadata: &ObjectMeta) -> &str {
    if metadata.namespace.is_empty() { "default" } else { &metadata.namespace }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_found_by_uid_or_by_name() {
        let workload = |uid: &str, name: &str| {
            let json = format!(r#"{{"metadata": {{"name": "{name}", "uid": "{uid}"}}}}"#);
            Workload::ReplicaSet(serde_json::from_str(&json).unwrap())
        };
        let pod = |uid: &str, controller: bool| -> Pod {
            let json = format!(
                r#"{{"metadata": {{"name": "p", "ownerReferences": [{{
                    "kind": "ReplicaSet", "name": "web", "uid": "{uid}", "controller": {controller}}}]}}}}"#
            );
            serde_json::from_str(&json).unwrap()
        };
        let has = |pod: Pod, workload: &Workload| {
            Owners::of([&pod].into_iter(), std::iter::empty()).has(workload)
        };
        assert!(has(pod("u1", true), &workload("u1", "any")));
        assert!(!has(pod("u1", true), &workload("u2", "web")));
        assert!(!has(pod("u1", false), &workload("u1", "web")));
        assert!(has(pod("", true), &workload("", "web")));
        assert!(!has(pod("", true), &workload("", "api")));
    }
}
