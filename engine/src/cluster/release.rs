//! Release: assumed pods give back their room, and nothing else changes.

use std::sync::Arc;

use super::Cluster;
use super::delta::Delta;
use super::known::PodPlace;
use crate::model::PodKey;
use crate::snapshot::Generation;

/// Result of giving back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenBack {
    /// The published generation that holds the change.
    pub generation: Generation,
    /// Positions of the pods that stay, because a feed has reported them.
    pub refused: Vec<usize>,
}

impl Cluster {
    /// Deletes those of these pods that are assumed, in one generation; where a uid is given, only the pod of this uid.
    /// A pod that a feed reported, bound or pending, is refused and stays: only the feed deletes it. An unknown pod
    /// counts as deleted already.
    pub fn give_back(&self, pods: &[(PodKey, Option<Arc<str>>)]) -> GivenBack {
        let mut writer = self.writer();
        let mut refused = Vec::new();
        for (position, (key, uid)) in pods.iter().enumerate() {
            let Some(known) = writer.known(key) else { continue };
            if uid.as_ref().is_some_and(|uid| **uid != *known.pod.uid()) {
                continue;
            }
            if !known.is_assumed || known.place == PodPlace::Pending {
                refused.push(position);
                continue;
            }
            let deleted = writer.apply(Delta::DeletePod { key: key.clone(), uid: uid.clone() });
            debug_assert!(deleted.is_ok(), "{deleted:?}");
        }
        GivenBack { generation: self.publish(&mut writer), refused }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Pod;
    use serde_json::{Value, json};

    fn pod(cluster: &Cluster, name: &str, spec: &Value) -> Pod {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
            "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]},
        });
        for (key, value) in spec.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        cluster.compile_pod(&serde_json::from_value(pod).unwrap()).unwrap()
    }

    fn key(name: &str) -> PodKey {
        PodKey::new("default", name)
    }

    #[test]
    fn only_what_is_assumed_is_given_back() {
        let cluster = Cluster::new();
        let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "9", "pods": "9"}}});
        let node = cluster.compile_node(&serde_json::from_value(node).unwrap()).unwrap();
        let (bound, waits) =
            (pod(&cluster, "bound", &json!({"nodeName": "n"})), pod(&cluster, "waits", &json!({})));
        let deltas = [Delta::UpsertNode(node), Delta::UpsertPod(bound), Delta::UpsertPod(waits)];
        assert_eq!(cluster.apply(deltas.to_vec()).rejected, []);
        for name in ["a", "b", "c"] {
            let described = pod(&cluster, name, &json!({}));
            cluster.assume_on(&key(name), &format!("uid-{name}"), "n", Some(&described)).unwrap();
        }
        // A feed confirms the pod.
        let confirmed = pod(&cluster, "c", &json!({"nodeName": "n"}));
        assert_eq!(cluster.apply(vec![Delta::UpsertPod(confirmed)]).rejected, []);
        let before = cluster.snapshot();
        assert_eq!((before.n_pods(), before.n_assumed(), before.n_pending()), (4, 2, 1));

        let with_uid = |name: &str, uid: &str| (key(name), Some(uid.into()));
        let given_back = [
            with_uid("a", "uid-a"),
            with_uid("b", "another"),
            (key("bound"), None),
            (key("waits"), None),
            (key("nobody"), None),
            with_uid("c", "uid-c"),
        ];
        let given = cluster.give_back(&given_back);
        assert_eq!(given.refused, [2, 3, 5]);
        let after = cluster.snapshot();
        assert_eq!(given.generation, after.generation());
        assert_eq!((after.n_pods(), after.n_assumed(), after.n_pending()), (3, 1, 1));
        // Giving back is idempotent.
        assert_eq!(cluster.give_back(&given_back[..1]).refused, [0; 0]);
        assert_eq!(cluster.give_back(&[(key("b"), None)]).refused, [0; 0]);
        assert_eq!((cluster.snapshot().n_pods(), cluster.snapshot().n_assumed()), (2, 0));
    }
}
