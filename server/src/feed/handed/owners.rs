//! Owners: which of the given objects own others that are given too.

use std::collections::HashSet;

use berth_engine::workload::Workload;
use berth_proto::core_v1::Pod;
use berth_proto::meta_v1::ObjectMeta;

/// The objects that own other given objects: a Deployment whose ReplicaSet is given too, a ReplicaSet whose pods are.
/// They are not expanded, since what their controllers made of them is there already.
pub(crate) struct Owners {
    uids: HashSet<String>,
    names: HashSet<(String, String, String)>,
}

impl Owners {
    /// The owners of these pods and workloads.
    pub(crate) fn of<'a>(
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
    pub(crate) fn has(&self, workload: &Workload) -> bool {
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
