//! Release: assumed pods give back their room, and nothing else changes.

use std::sync::Arc;

use super::Cluster;
use super::delta::Delta;
use super::known::{Known, PodPlace};
use crate::model::{Pod, PodKey};
use crate::snapshot::{AssumptionStamp, Generation};

/// Result of giving back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenBack {
    /// The published generation that holds the change.
    pub generation: Generation,
    /// Positions of the pods that stay, because a feed has reported them.
    pub refused: Vec<usize>,
}

/// A pod on a node, and whether it is assumed there.
#[derive(Clone, Debug)]
pub struct PodStanding {
    /// The pod.
    pub pod: Pod,
    /// The pod's node, whether or not the cluster has it.
    pub node: Arc<str>,
    /// Stamp of the assumption; `None` for a pod that a feed reported.
    pub stamp: Option<AssumptionStamp>,
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
            if !known.is_assumed() || known.place == PodPlace::Pending {
                refused.push(position);
                continue;
            }
            let deleted = writer.apply(Delta::DeletePod { key: key.clone(), uid: uid.clone() });
            debug_assert!(deleted.is_ok(), "{deleted:?}");
        }
        GivenBack { generation: self.publish(&mut writer), refused }
    }

    /// Deletes those of these pods that are still assumed under these stamps, in one generation; returns whether each
    /// one was. A pod that a feed has reported since, that was deleted, or that was assumed anew, is left alone.
    pub fn end_assumptions(&self, pods: &[(PodKey, AssumptionStamp)]) -> Vec<bool> {
        let mut writer = self.writer();
        let ended: Vec<bool> = pods
            .iter()
            .map(|(key, stamp)| {
                let is_it = writer.known(key).is_some_and(|known| known.assumed == Some(*stamp));
                is_it && writer.apply(Delta::DeletePod { key: key.clone(), uid: None }).is_ok()
            })
            .collect();
        if ended.contains(&true) {
            self.publish(&mut writer);
        }
        ended
    }

    /// Whether each of these pods is still assumed under its stamp.
    pub fn still_assumed(&self, pods: &[(PodKey, AssumptionStamp)]) -> Vec<bool> {
        let writer = self.writer();
        let is_assumed = |(key, stamp): &(PodKey, AssumptionStamp)| {
            writer.known(key).is_some_and(|known| known.assumed == Some(*stamp))
        };
        pods.iter().map(is_assumed).collect()
    }

    /// Undoes the nominations of pods of these names and uids that are still on no node, in one generation. A pod that no
    /// feed has reported is not pending any more.
    pub fn withdraw_nominations(&self, pods: &[(PodKey, Arc<str>)]) {
        let mut writer = self.writer();
        for (key, uid) in pods {
            if writer.known(key).is_some_and(|known| known.place == PodPlace::Pending) {
                writer.take_back(key, uid);
            }
        }
        self.publish(&mut writer);
    }

    /// Where each of these pods is now; `None` for a pod that is on no node.
    pub fn standing_of(&self, pods: &[PodKey]) -> Vec<Option<PodStanding>> {
        let writer = self.writer();
        let standing_of = |key| {
            let known = writer.known(key)?;
            let node = known.pod.facts().node_name.clone()?;
            let pod = known.pod.clone();
            Some(PodStanding { pod, node, stamp: known.assumed })
        };
        pods.iter().map(standing_of).collect()
    }

    /// Every assumed pod, by namespace and name, those on nodes that the cluster does not have included.
    ///
    /// Cost: every pod of the cluster, if any is assumed; writers wait for it.
    pub fn assumed_pods(&self) -> Vec<PodStanding> {
        if self.snapshot().n_assumed() == 0 {
            return Vec::new();
        }
        let writer = self.writer();
        let assumed = writer.known_pods().filter(Known::is_assumed).filter_map(|known| {
            let node = known.pod.facts().node_name.clone()?;
            let pod = known.pod.clone();
            Some(PodStanding { pod, node, stamp: known.assumed })
        });
        let mut assumed: Vec<PodStanding> = assumed.collect();
        drop(writer);
        assumed.sort_unstable_by(|a, b| a.pod.key().cmp(b.pod.key()));
        assumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::decision::Outcome;
    use crate::plan::request::{PlaceRequest, TieBreak};
    use crate::policy::Policy;
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

    fn node(cluster: &Cluster) -> Delta {
        let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "9", "pods": "9"}}});
        Delta::UpsertNode(cluster.compile_node(&serde_json::from_value(node).unwrap()).unwrap())
    }

    fn assume(cluster: &Cluster, name: &str) -> (PodKey, AssumptionStamp) {
        let (pod, policy) = (pod(cluster, name, &json!({})), Policy::default());
        let request = PlaceRequest {
            pod: &pod,
            policy: &policy,
            tie_break: TieBreak::Lexicographic,
            now: None,
        };
        match cluster.assume(&request).unwrap().outcome {
            Outcome::Placed(placement) => (key(name), placement.stamp.unwrap()),
            outcome => panic!("{outcome:?}"),
        }
    }

    /// A late end of an assumption never ends a later one of the same pod (S-CCH-4).
    #[test]
    fn an_assumption_is_ended_by_its_own_stamp() {
        let cluster = Cluster::new();
        cluster.apply(vec![node(&cluster)]);
        let first = assume(&cluster, "a");
        let standing = cluster.standing_of(&[key("a"), key("nobody")]);
        assert_eq!(standing[0].as_ref().unwrap().stamp, Some(first.1));
        assert_eq!(cluster.still_assumed(&[first.clone(), (key("b"), first.1)]), [true, false]);
        assert!(standing[1].is_none());
        cluster.apply(vec![Delta::DeletePod { key: key("a"), uid: None }]);
        let second = assume(&cluster, "a");
        assert_ne!(first.1, second.1);
        let before = cluster.snapshot().generation();
        assert_eq!(cluster.still_assumed(&[first.clone(), second.clone()]), [false, true]);
        assert_eq!(cluster.end_assumptions(std::slice::from_ref(&first)), [false]);
        assert_eq!((cluster.snapshot().generation(), cluster.snapshot().n_assumed()), (before, 1));
        let listed = |cluster: &Cluster| {
            let assumed = cluster.assumed_pods().into_iter();
            assumed.map(|it| (it.pod.key().clone(), it.stamp.unwrap())).collect::<Vec<_>>()
        };
        let other = assume(&cluster, "b");
        assert_eq!(listed(&cluster), [second.clone(), other.clone()]);
        // The stamp outlives the node, and ends with the confirmation of a feed.
        cluster.apply(vec![Delta::DeleteNode("n".into())]);
        assert_eq!(listed(&cluster), [second.clone(), other.clone()]);
        cluster.apply(vec![node(&cluster)]);
        assert_eq!(listed(&cluster), [second.clone(), other.clone()]);
        let confirmed = pod(&cluster, "b", &json!({"nodeName": "n"}));
        cluster.apply(vec![Delta::UpsertPod(confirmed)]);
        assert_eq!(cluster.end_assumptions(&[first, second, other]), [false, true, false]);
        assert_eq!((cluster.snapshot().n_pods(), cluster.snapshot().n_assumed()), (1, 0));
        let confirmed = cluster.standing_of(&[key("b")]);
        assert_eq!(confirmed[0].as_ref().unwrap().stamp, None);
        assert!(cluster.assumed_pods().is_empty());
    }

    #[test]
    fn a_withdrawn_pod_stays_if_a_feed_has_reported_it() {
        let cluster = Cluster::new();
        cluster.apply(vec![node(&cluster)]);
        let reported = |name: &str, spec| Delta::UpsertPod(pod(&cluster, name, &spec));
        cluster.apply(vec![reported("before", json!({}))]);
        let names = ["before", "after", "changed", "never"];
        for name in names {
            let nominated = pod(&cluster, name, &json!({}));
            assert!(cluster.restore_nomination(&nominated, &"n".into()));
        }
        cluster
            .apply(vec![reported("after", json!({})), reported("changed", json!({"priority": 5}))]);
        let snapshot = cluster.snapshot();
        assert_eq!(
            (snapshot.n_pending(), snapshot.nominations.of(&key("changed")).is_some()),
            (4, true)
        );
        cluster.withdraw_nominations(&names.map(|name| (key(name), format!("uid-{name}").into())));
        let pending = |name| cluster.writer().known(&key(name)).is_some();
        assert_eq!(names.map(pending), [true, true, true, false]);
        assert_eq!(cluster.snapshot().n_pending(), 3);
        assert!(names.iter().all(|name| cluster.own_nomination(&key(name)).is_none()));
    }

    #[test]
    fn only_what_is_assumed_is_given_back() {
        let cluster = Cluster::new();
        let node = node(&cluster);
        let (bound, waits) =
            (pod(&cluster, "bound", &json!({"nodeName": "n"})), pod(&cluster, "waits", &json!({})));
        let deltas = [node, Delta::UpsertPod(bound), Delta::UpsertPod(waits)];
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
