//! Listing: everything that the cluster knows by name, for a feed that compares it with a complete list.

use std::sync::Arc;

use berth_proto::core_v1;

use super::Cluster;
use super::change::Change;
use super::recollection::Recollection;
use crate::model::{Object, ObjectKind, Pod, PodKey};
use crate::snapshot::Generation;

/// Known pods, and the published generation in which they are as they are here.
#[derive(Clone, Debug)]
pub struct PodListing {
    /// The generation.
    pub generation: Generation,
    /// The pods, and whether each is assumed (S-CCH-1), by namespace and name.
    pub pods: Vec<(Pod, bool)>,
}

impl Cluster {
    /// The pod of this name, wherever it is, and whether it is assumed (S-CCH-1).
    pub fn pod_named(&self, key: &PodKey) -> Option<(Pod, bool)> {
        let writer = self.writer();
        let known = writer.known(key)?;
        Some((known.pod.clone(), known.is_assumed()))
    }

    /// The pod as it was compiled when a feed reported this version of it; `None` if it was not, has no version, or is on a
    /// node.
    pub fn as_reported(&self, pod: &core_v1::Pod) -> Option<Pod> {
        let metadata = pod.metadata.as_ref()?;
        let version = metadata.resource_version.parse().ok()?;
        let namespace = if metadata.namespace.is_empty() { "default" } else { &metadata.namespace };
        let (known, _) = self.pod_named(&PodKey::new(namespace, &metadata.name))?;
        let is_it = known.is_reported()
            && known.resource_version() == Some(version)
            && known.uid() == metadata.uid
            && known.node_name().is_none();
        is_it.then_some(known)
    }

    /// The known pods for which `wanted` returns true, like [`Cluster::known_pods`].
    ///
    /// Cost: every pod of the cluster.
    pub fn pod_listing(&self, mut wanted: impl FnMut(&Pod, bool) -> bool) -> PodListing {
        let writer = self.writer();
        let known = writer.known_pods().filter(|known| wanted(known.pod, known.is_assumed()));
        let known = known.map(|known| (known.pod.clone(), known.is_assumed()));
        let mut pods: Vec<(Pod, bool)> = known.collect();
        // Every change is published before the writer's lock is given back.
        let generation = self.snapshot().generation();
        drop(writer);
        pods.sort_unstable_by(|(a, _), (b, _)| a.key().cmp(b.key()));
        PodListing { generation, pods }
    }

    /// The known pods for which `wanted` returns true, by namespace and name: on nodes, on nodes that the cluster does
    /// not have, and pending. The second argument of `wanted` is whether the pod is assumed (S-CCH-1); it must be fast,
    /// because writers wait for it.
    ///
    /// Cost: every pod of the cluster.
    pub fn known_pods(&self, mut wanted: impl FnMut(&Pod, bool) -> bool) -> Vec<Pod> {
        let writer = self.writer();
        let known = writer.known_pods().filter(|known| wanted(known.pod, known.is_assumed()));
        let mut pods: Vec<Pod> = known.map(|known| known.pod.clone()).collect();
        drop(writer);
        pods.sort_unstable_by(|a, b| a.key().cmp(b.key()));
        pods
    }

    /// The names of all nodes, in order. Cost: every node of the cluster.
    pub fn known_nodes(&self) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = self.writer().known_nodes().cloned().collect();
        names.sort_unstable();
        names
    }

    /// All objects of a kind, by namespace and name. Cost: every object of the cluster, of any kind.
    pub fn known_objects(&self, kind: ObjectKind) -> Vec<Object> {
        let snapshot = self.snapshot();
        let of_kind = snapshot.objects.iter().filter(|object| object.key().kind == kind);
        let mut objects: Vec<Object> = of_kind.cloned().collect();
        objects.sort_unstable_by(|a, b| a.key().cmp(b.key()));
        objects
    }

    /// Forgets contradictions (S-CCH-6), after a feed has reported every pod again.
    pub fn clear_contradictions(&self) {
        if self.snapshot().n_contradictions() == 0 {
            return;
        }
        let mut writer = self.writer();
        writer.clear_contradictions();
        writer.note(|| Change::Recalled(Recollection::Contradictions(0)));
        self.publish(&mut writer);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::delta::Delta;
    use crate::model::kept::Source;
    use crate::{ObjectKey, PlaceRequest, Policy, TieBreak};

    fn pod(cluster: &Cluster, name: &str, node: &str) -> Pod {
        let pod: core_v1::Pod = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "d", "uid": name, "resourceVersion": "7"},
            "spec": {"nodeName": node, "containers": [{"name": "c"}]},
        }))
        .unwrap();
        cluster.compile_pod(&pod).unwrap()
    }

    fn reported(cluster: &Cluster, node: &str, phase: &str) -> Pod {
        let pod: core_v1::Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "d", "uid": "u"},
            "spec": {"nodeName": node, "containers": [{"name": "c"}]},
            "status": {"phase": phase},
        }))
        .unwrap();
        cluster.compile_reported_pod(&pod).unwrap()
    }

    #[test]
    fn a_pod_is_compiled_once_for_each_version_that_is_reported() {
        let cluster = Cluster::new();
        let of = |version: &str, uid: &str, node: &str| -> core_v1::Pod {
            serde_json::from_value(json!({
                "metadata": {"name": "p", "namespace": "d", "uid": uid, "resourceVersion": version},
                "spec": {"nodeName": node, "containers": [{"name": "c"}]},
            }))
            .unwrap()
        };
        let report = |pod: &core_v1::Pod| {
            let pod = cluster.compile_reported_pod(pod).unwrap();
            assert!(cluster.apply(vec![Delta::UpsertPod(pod)]).rejected.is_empty());
        };
        let waits = of("7", "u", "");
        assert!(cluster.as_reported(&waits).is_none());
        report(&waits);
        assert!(cluster.as_reported(&waits).unwrap().reported().is_some());
        for other in [of("6", "u", ""), of("7", "v", ""), of("", "u", "")] {
            assert!(cluster.as_reported(&other).is_none());
        }
        let bound = of("8", "u", "n");
        report(&bound);
        assert!(cluster.as_reported(&bound).is_none());
    }

    #[test]
    fn a_pod_is_found_as_it_was_reported_last() {
        let cluster = Cluster::new();
        let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}});
        let node = cluster.compile_node(&serde_json::from_value(node).unwrap()).unwrap();
        let key = PodKey::new("d", "p");
        let found = || {
            let (pod, is_assumed) = cluster.pod_named(&key).unwrap();
            let object = pod.reported().unwrap();
            (object.spec.unwrap().node_name, object.status.unwrap().phase, is_assumed)
        };
        assert!(cluster.pod_named(&key).is_none());
        cluster.apply(vec![
            Delta::UpsertNode(node),
            Delta::UpsertPod(reported(&cluster, "", "Pending")),
        ]);
        assert_eq!(found(), (String::new(), "Pending".to_owned(), false));
        // Placed for a request, which has facts only: the object stays, on its node.
        let asked = reported(&cluster, "", "Pending").keeping(None, Source::Feed);
        let (policy, tie_break) = (Policy::default(), TieBreak::Lexicographic);
        cluster
            .assume(&PlaceRequest { pod: &asked, policy: &policy, tie_break, now: None })
            .unwrap();
        assert_eq!(found(), ("n".to_owned(), "Pending".to_owned(), true));
        for phase in ["Pending", "Running"] {
            cluster.apply(vec![Delta::UpsertPod(reported(&cluster, "n", phase))]);
            assert_eq!(found(), ("n".to_owned(), phase.to_owned(), false));
        }
        let listing = cluster.pod_listing(|pod, _| pod.node_name() == Some("n"));
        assert_eq!((listing.pods.len(), listing.generation), (1, cluster.snapshot().generation()));
    }

    #[test]
    fn everything_known_is_found_wherever_it_is() {
        let cluster = Cluster::new();
        let node: core_v1::Node = serde_json::from_value(json!({
            "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "pods": "9"}},
        }))
        .unwrap();
        let space: core_v1::Namespace =
            serde_json::from_value(json!({"metadata": {"name": "d"}})).unwrap();
        let applied = cluster.apply(vec![
            Delta::UpsertNode(cluster.compile_node(&node).unwrap()),
            Delta::UpsertObject(cluster.compile_object(&space).unwrap()),
            Delta::UpsertPod(pod(&cluster, "bound", "n")),
            Delta::UpsertPod(pod(&cluster, "orphan", "gone")),
            Delta::UpsertPod(pod(&cluster, "pending", "")),
        ]);
        assert_eq!(applied.rejected, []);
        let (policy, waiting) = (Policy::default(), pod(&cluster, "waiting", ""));
        let request = PlaceRequest {
            pod: &waiting,
            policy: &policy,
            tie_break: TieBreak::Lexicographic,
            now: None,
        };
        cluster.assume(&request).unwrap();

        let names = |pods: Vec<Pod>| -> Vec<String> {
            pods.iter().map(|pod| pod.key().name.to_string()).collect()
        };
        assert_eq!(
            names(cluster.known_pods(|_, _| true)),
            ["bound", "orphan", "pending", "waiting"]
        );
        assert_eq!(names(cluster.known_pods(|_, is_assumed| is_assumed)), ["waiting"]);
        assert!(cluster.known_pods(|pod, _| pod.resource_version() != Some(7)).is_empty());
        assert_eq!(cluster.known_nodes(), [Arc::from("n")]);
        let keys = cluster.known_objects(ObjectKind::Namespace);
        let keys: Vec<_> = keys.iter().map(|object| object.key().clone()).collect();
        assert_eq!(keys, [ObjectKey::new(ObjectKind::Namespace, "", "d")]);
        assert!(cluster.known_objects(ObjectKind::Service).is_empty());
        assert_eq!(cluster.snapshot().node_named("n").map(|node| node.name()), Some("n"));
        assert!(cluster.snapshot().node_named("gone").is_none());
    }

    #[test]
    fn contradictions_are_cleared() {
        let cluster = Cluster::new();
        cluster.apply(vec![Delta::UpsertPod(pod(&cluster, "p", "a"))]);
        let applied = cluster.apply(vec![Delta::UpsertPod(pod(&cluster, "p", "b"))]);
        assert_eq!((applied.rejected.len(), cluster.snapshot().n_contradictions()), (1, 1));
        cluster.clear_contradictions();
        assert_eq!(cluster.snapshot().n_contradictions(), 0);
    }
}
