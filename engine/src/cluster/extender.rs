//! Extender: operations for an external scheduler that decides itself: verdicts on nodes, checks of evictions, and
//! placements made elsewhere. Rules: S-EXT-13, S-EXT-14, S-EXT-16, S-CCH-2.

use std::sync::Arc;

use super::Cluster;
use super::delta::Delta;
use super::known::PodPlace;
use super::step::Step;
use super::writer::check_range;
use crate::error::EngineError;
use crate::model::{ModelError, Pod, PodKey};
use crate::place::basis::Basis;
use crate::place::survey::{self, Survey, SurveyRequest, SurveyedNodes};
use crate::plan::Plan;
use crate::plan::request::{PlaceRequest, TieBreak};
use crate::policy::Policy;
use crate::preempt::proposal::{self, Proposal, ProposalOutcome};
use crate::snapshot::Generation;
use crate::snapshot::bindings::Bindings;

/// A pod that was assumed on a node that the caller chose; to be passed to [`Cluster::take_back_assumed`] if the
/// binding fails.
#[derive(Clone, Debug)]
pub struct AssumedPod {
    key: PodKey,
    uid: Arc<str>,
    /// The pod as it was known before, if it was pending.
    pending: Option<Pod>,
    /// The generation that holds the pod.
    pub generation: Generation,
}

/// Why a pod could not be assumed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssumeError {
    /// The pod is on a node already (S-CCH-2).
    #[error("pod `{pod}` is on node `{node}` already")]
    AlreadyPlaced {
        /// The pod.
        pod: PodKey,
        /// The pod's node.
        node: Arc<str>,
    },
    /// Another pod has the same name.
    #[error("pod `{pod}` has uid `{known}`, not `{requested}`")]
    AnotherPod {
        /// The name of both.
        pod: PodKey,
        /// The uid of the known one.
        known: Arc<str>,
        /// The uid in the request.
        requested: Arc<str>,
    },
    /// The cluster has no such node.
    #[error("no node is called `{node}`")]
    UnknownNode {
        /// The requested name.
        node: String,
    },
    /// The cluster does not know the pod, and the request does not contain it.
    #[error("pod `{pod}` is not known")]
    UnknownPod {
        /// The pod.
        pod: PodKey,
    },
    /// The pod's requests would overflow a node's sums.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl Cluster {
    /// Verdicts on the nodes of these names for a pod, in the order of the names; the cluster is not changed. Unlike in
    /// an attempt, the pod's nominated node has no precedence, and gates are ignored.
    ///
    /// # Errors
    /// Errors of [`Cluster::place`]; a PreFilter that refuses the pod is not an error.
    pub fn survey<'n>(
        &self,
        request: &SurveyRequest<'_>,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<Survey, EngineError> {
        let snapshot = self.snapshot();
        let surveyed = SurveyedNodes::of(&snapshot, names);
        let SurveyRequest { pod, policy, with_totals } = *request;
        let mut plan = Plan::new(&snapshot, &place_request(pod, policy), self.kernels);
        self.memo.with(&mut plan, |plan, evaluation| {
            survey::survey(plan, evaluation, &surveyed, with_totals)
        })
    }

    /// Checks whether a pod would fit on each of some nodes without some of its pods; returns one outcome for each
    /// proposal, in order. The cluster is not changed.
    ///
    /// # Errors
    /// Errors of [`Cluster::place`]; where a PreFilter refuses the pod, no eviction helps.
    pub fn check_evictions(
        &self,
        pod: &Pod,
        policy: &Policy,
        proposals: &[Proposal<'_>],
    ) -> Result<Vec<ProposalOutcome>, EngineError> {
        let snapshot = self.snapshot();
        let mut plan = Plan::new(&snapshot, &place_request(pod, policy), self.kernels);
        self.memo.with(&mut plan, |plan, evaluation| proposal::check(plan, evaluation, proposals))
    }

    /// Assumes a pod on a node that the caller chose, whether or not the pod fits there. Of several callers that assume
    /// the same pod, one succeeds.
    ///
    /// `described` is the pod as the caller knows it; without it the cluster must know the pod as pending.
    ///
    /// # Errors
    /// [`AssumeError`]; then the cluster is not changed.
    pub fn assume_on(
        &self,
        key: &PodKey,
        uid: &str,
        node: &str,
        described: Option<&Pod>,
    ) -> Result<AssumedPod, AssumeError> {
        let mut writer = self.writer();
        let pending = writer.known(key).map(|known| known.pod.clone());
        if let Some(known) = pending.as_ref().filter(|known| known.uid() != uid) {
            let (pod, known) = (key.clone(), known.facts().uid.clone());
            return Err(AssumeError::AnotherPod { pod, known, requested: uid.into() });
        }
        if let Some(on) = writer.node_of(key) {
            return Err(AssumeError::AlreadyPlaced { pod: key.clone(), node: on });
        }
        let described = described.filter(|pod| pod.key() == key && pod.uid() == uid);
        let Some(pod) = pending.as_ref().or(described) else {
            return Err(AssumeError::UnknownPod { pod: key.clone() });
        };
        let pod = pod.without_node();
        let snapshot = &writer.draft.snapshot;
        let Some((row, name)) = snapshot
            .row_named(node)
            .and_then(|row| Some((row, snapshot.node(row)?.facts().name.clone())))
        else {
            return Err(AssumeError::UnknownNode { node: node.to_owned() });
        };
        check_range(snapshot, row, &pod)?;
        let (basis, bindings) = (Basis::of_nomination(&pod, Some(row)), Bindings::default());
        let uid = pod.facts().uid.clone();
        writer.carry_out(Step::Assume { pod, node: name, row, bindings, basis });
        let generation = self.publish(&mut writer);
        Ok(AssumedPod { key: key.clone(), uid, pending, generation })
    }

    /// Undoes [`Cluster::assume_on`]: the pod is pending again if it was before. A pod that a feed has confirmed or
    /// deleted since stays as the feed reported it.
    pub fn take_back_assumed(&self, assumed: &AssumedPod) -> Generation {
        let AssumedPod { key, uid, pending, .. } = assumed;
        let mut writer = self.writer();
        let is_assumed = writer.known(key).is_some_and(|known| {
            known.is_assumed() && known.place != PodPlace::Pending && known.pod.uid() == &**uid
        });
        if is_assumed {
            writer.take_back(key, uid);
            if let Some(pod) = pending {
                // A pending pod takes no room, so the delta cannot be rejected.
                let applied = writer.apply(Delta::UpsertPod(pod.clone()));
                debug_assert!(applied.is_ok(), "{applied:?}");
            }
        }
        self.publish(&mut writer)
    }
}

fn place_request<'a>(pod: &'a Pod, policy: &'a Policy) -> PlaceRequest<'a> {
    PlaceRequest { pod, policy, tie_break: TieBreak::Lexicographic, now: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn cluster() -> Cluster {
        let cluster = Cluster::new();
        let node = |name: &str| {
            let allocatable = json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
            let node = json!({"metadata": {"name": name}, "status": {"allocatable": allocatable}});
            let node = serde_json::from_value(node).unwrap();
            Delta::UpsertNode(cluster.compile_node(&node).unwrap())
        };
        cluster.apply(vec![node("n0"), node("n1")]);
        cluster
    }

    fn pod(cluster: &Cluster, name: &str, extra: &Value) -> Pod {
        let requests = json!({"cpu": "3"});
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
            "spec": {"containers": [{"resources": {"requests": requests}}]},
        });
        for (key, value) in extra.as_object().unwrap() {
            let (outer, inner) = key.split_once('.').unwrap();
            pod[outer][inner] = value.clone();
        }
        cluster.compile_pod(&serde_json::from_value(pod).unwrap()).unwrap()
    }

    fn report(cluster: &Cluster, name: &str, extra: &Value) {
        let delta = Delta::UpsertPod(pod(cluster, name, extra));
        assert_eq!(cluster.apply(vec![delta]).rejected, []);
    }

    /// Numbers of bound, assumed and pending pods.
    fn counts(cluster: &Cluster) -> (usize, usize, usize) {
        let snapshot = cluster.snapshot();
        (snapshot.n_pods() - snapshot.n_assumed(), snapshot.n_assumed(), snapshot.n_pending())
    }

    fn assume(cluster: &Cluster, name: &str, node: &str) -> Result<AssumedPod, AssumeError> {
        let key = PodKey::new("default", name);
        cluster.assume_on(&key, &format!("uid-{name}"), node, None)
    }

    #[test]
    fn a_pod_takes_its_room_once() {
        let cluster = cluster();
        report(&cluster, "p", &json!({}));
        let assumed = assume(&cluster, "p", "n1").unwrap();
        assert_eq!(
            (assumed.generation, counts(&cluster)),
            (cluster.snapshot().generation(), (0, 1, 0))
        );
        for node in ["n0", "n1"] {
            let error = assume(&cluster, "p", node).unwrap_err();
            assert_eq!(error.to_string(), "pod `default/p` is on node `n1` already");
        }
        let other = pod(&cluster, "q", &json!({}));
        let request = SurveyRequest { pod: &other, policy: &Policy::default(), with_totals: false };
        let survey = cluster.survey(&request, ["n0", "n1"]).unwrap();
        let expected = [survey::Standing::Feasible { total: 0 }, survey::Standing::Refused(0)];
        assert_eq!(survey.standings, expected);
        assert_eq!(survey.refusals[0].reasons, ["Insufficient cpu"]);
    }

    #[test]
    fn an_unknown_pod_is_refused() {
        let cluster = cluster();
        report(&cluster, "p", &json!({}));
        assert_eq!(assume(&cluster, "p", "n9").unwrap_err().to_string(), "no node is called `n9`");
        let key = PodKey::new("default", "p");
        let error = cluster.assume_on(&key, "other", "n0", None).unwrap_err();
        assert_eq!(error.to_string(), "pod `default/p` has uid `uid-p`, not `other`");
        // Likewise for a pod on a node: a recreated pod is not the one that the feed reported.
        report(&cluster, "old", &json!({"spec.nodeName": "n0"}));
        let error = cluster.assume_on(&PodKey::new("default", "old"), "new", "n0", None);
        let text = error.unwrap_err().to_string();
        assert_eq!(text, "pod `default/old` has uid `uid-old`, not `new`");
        let late = pod(&cluster, "late", &json!({}));
        let key = late.key().clone();
        let unknown = AssumeError::UnknownPod { pod: key.clone() };
        assert_eq!(assume(&cluster, "late", "n0").unwrap_err(), unknown);
        let of_another = cluster.assume_on(&key, "other", "n0", Some(&late));
        assert_eq!(of_another.unwrap_err(), unknown);
        assert_eq!(counts(&cluster), (1, 0, 1));
        let described = cluster.assume_on(&key, "uid-late", "n0", Some(&late)).unwrap();
        assert_eq!(counts(&cluster), (1, 1, 1));
        cluster.take_back_assumed(&described);
        assert_eq!(counts(&cluster), (1, 0, 1));
    }

    #[test]
    fn a_pod_taken_back_is_pending_again() {
        let cluster = cluster();
        report(&cluster, "p", &json!({"spec.priority": 5, "status.nominatedNodeName": "n0"}));
        let other = pod(&cluster, "q", &json!({}));
        let request = SurveyRequest { pod: &other, policy: &Policy::default(), with_totals: false };
        let ask = || cluster.survey(&request, ["n0", "n1"]).unwrap().standings;
        let before = ask();
        let assumed = assume(&cluster, "p", "n1").unwrap();
        assert_ne!(ask(), before);
        cluster.take_back_assumed(&assumed);
        assert_eq!((ask(), counts(&cluster)), (before, (0, 0, 1)));
        cluster.take_back_assumed(&assumed);
        assert_eq!(counts(&cluster), (0, 0, 1), "once is enough");
    }

    #[test]
    fn a_pod_reported_since_is_not_taken_back() {
        let cluster = cluster();
        report(&cluster, "bound", &json!({}));
        report(&cluster, "gone", &json!({}));
        let bound = assume(&cluster, "bound", "n0").unwrap();
        let gone = assume(&cluster, "gone", "n1").unwrap();
        report(&cluster, "bound", &json!({"spec.nodeName": "n0"}));
        let key = PodKey::new("default", "gone");
        cluster.apply(vec![Delta::DeletePod { key, uid: None }]);
        cluster.take_back_assumed(&bound);
        cluster.take_back_assumed(&gone);
        assert_eq!(counts(&cluster), (1, 0, 0));
    }

    #[test]
    fn of_many_callers_one_gets_the_pod() {
        let cluster = cluster();
        for i in 0..20 {
            let name = format!("p{i}");
            report(&cluster, &name, &json!({"spec.containers": []}));
            let n_placed: usize = std::thread::scope(|scope| {
                let callers: Vec<_> = (0..8)
                    .map(|caller| {
                        let (cluster, name) = (&cluster, &name);
                        let node = ["n0", "n1"][caller % 2];
                        scope.spawn(move || assume(cluster, name, node).is_ok())
                    })
                    .collect();
                callers.into_iter().map(|caller| usize::from(caller.join().unwrap())).sum()
            });
            assert_eq!(n_placed, 1);
        }
        assert_eq!(counts(&cluster), (0, 20, 0));
    }
}
