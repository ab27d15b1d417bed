//! Reserve: carries out decisions that were made elsewhere, on a session of another server or by another scheduler, all
//! of them or none. Each is made anew with its node as the pod's nominated node, so it holds only where that node still
//! fits.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::commit::{self, Committed, Planned};
use super::fork::Fork;
use super::step::Step;
use super::writer::Writer;
use super::{Cluster, OPTIMISTIC_TRIES, check_uid};
use crate::error::{EngineError, check_wanted};
use crate::model::{ModelError, Pod, PodKey};
use crate::place::basis::{Basis, Touched};
use crate::place::decision::{Decision, Outcome};
use crate::place::survey::{self, Standing, SurveyedNodes};
use crate::plan::request::{PlaceRequest, TieBreak};
use crate::policy::Policy;
use crate::snapshot::Snapshot;

/// Decisions to carry out.
pub struct ReserveRequest<'a> {
    /// The decisions, in order: each counts those before it.
    pub planned: &'a [Planned],
    /// The policy of each pod that is to be assumed. A pod without one is refused.
    pub policy_of: &'a dyn Fn(&Pod) -> Option<&'a Policy>,
    /// Unix time, for age-dependent rules; `None` to leave those out.
    pub now: Option<i64>,
    /// Called before each decision.
    pub cancelled: &'a dyn Fn() -> bool,
}

/// Why nothing was carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// A pod cannot be decided, or is on a node already.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Another pod has the name of one.
    #[error("another pod is called `{pod}`")]
    AnotherPod {
        /// The name of both.
        pod: PodKey,
    },
    /// A pod does not fit its node any more.
    #[error("pod `{pod}` does not fit node `{node}`: {reason}")]
    DoesNotFit {
        /// The pod.
        pod: PodKey,
        /// The node that was chosen.
        node: Arc<str>,
        /// The node's reasons in kube-scheduler's words, or the pod's where a PreFilter or a PreEnqueue refuses it.
        reason: String,
    },
}

impl Cluster {
    /// Carries out decisions that were made elsewhere: pods are assumed and nominated in one generation, if each pod
    /// that is to be assumed passes all filters on its node now. As in [`Cluster::assume`], nobody else gets the same
    /// room.
    ///
    /// # Errors
    /// [`ReserveError`] of the first decision that does not hold; then the cluster is not changed.
    pub fn reserve(&self, request: &ReserveRequest<'_>) -> Result<Committed, ReserveError> {
        for _ in 0..OPTIMISTIC_TRIES {
            let base = self.snapshot();
            let steps = self.decide_anew(&base, request)?;
            let mut writer = self.writer();
            check_known(&writer, request)?;
            let untouched = Touched::default();
            let holds = |step: &Step| commit::check(step, &base, &untouched, &writer).is_ok();
            if steps.iter().all(holds) {
                return Ok(self.carry_out(&mut writer, &steps));
            }
        }
        let mut writer = self.writer();
        check_known(&writer, request)?;
        let base = writer.draft.snapshot.clone();
        let steps = self.decide_anew(&base, request)?;
        Ok(self.carry_out(&mut writer, &steps))
    }

    fn decide_anew(
        &self,
        base: &Snapshot,
        request: &ReserveRequest<'_>,
    ) -> Result<Vec<Step>, ReserveError> {
        let mut fork = Fork::of(base, self.versions.clone(), &self.memo);
        let mut steps = Vec::with_capacity(request.planned.len());
        let mut nodes = FxHashMap::default();
        for planned in request.planned {
            check_wanted(request.cancelled)?;
            match planned {
                Planned::Assume { pod, node } => {
                    let pod = &pod.without_node();
                    check_uid(pod)?;
                    if let Some(node) = nodes.insert(pod.key().clone(), node.clone()) {
                        let pod = pod.key().clone();
                        return Err(EngineError::AlreadyPlaced { pod, node }.into());
                    }
                    let policy = (request.policy_of)(pod).ok_or_else(|| {
                        EngineError::from(ModelError::new("spec.schedulerName", "has no profile"))
                    })?;
                    fork.nominate(pod, node);
                    let (tie_break, now) = (TieBreak::Lexicographic, request.now);
                    let place = PlaceRequest { pod, policy, tie_break, now };
                    let decided = fork.decide(&place, self.kernels)?;
                    let step = Step::of(pod, &decided).filter(|step| step.node() == node);
                    let Some(step) = step else {
                        let reason = self.refusal(&mut fork, &place, node, decided.decision)?;
                        let (pod, node) = (pod.key().clone(), node.clone());
                        return Err(ReserveError::DoesNotFit { pod, node, reason });
                    };
                    fork.commit(pod, &decided);
                    steps.push(step);
                }
                Planned::Nominate { pod, node } => {
                    fork.nominate(pod, node);
                    steps.push(Step::nominate(&pod.without_node(), node, base));
                }
                Planned::Clear { pod } => {
                    fork.clear_nomination(pod);
                    if let Some(node) = base.nominations.of(pod) {
                        let (pod, node) = (pod.clone(), base.model.names().name(node));
                        steps.push(Step::Clear { by: pod.clone(), pod, node, basis: Basis::WHOLE });
                    }
                }
            }
        }
        Ok(steps)
    }

    /// Why a node is refused for which this has been decided instead.
    fn refusal(
        &self,
        fork: &mut Fork<'_>,
        request: &PlaceRequest<'_>,
        node: &str,
        decision: Decision,
    ) -> Result<String, EngineError> {
        if let Outcome::Gated { reasons, .. } = decision.outcome {
            return Ok(reasons.join(", "));
        }
        let surveyed = SurveyedNodes::of(fork.snapshot(), [node]);
        let survey = fork.ask(request, self.kernels, |plan, evaluation| {
            survey::survey(plan, evaluation, &surveyed, false)
        })?;
        Ok(match (survey.standings.first(), survey.refusals.into_iter().next(), decision.outcome) {
            (Some(Standing::Refused(_)), Some(refusal), _) => refusal.reasons.join(", "),
            (Some(Standing::Unknown), ..) => "the cluster has no such node".to_owned(),
            (_, _, Outcome::Unschedulable(refused)) => refused.message,
            (_, _, Outcome::Placed(_) | Outcome::Gated { .. }) => {
                "another node is decided".to_owned()
            }
        })
    }
}

/// Checks that no pod is on a node, or has another one's name.
fn check_known(writer: &Writer, request: &ReserveRequest<'_>) -> Result<(), ReserveError> {
    for planned in request.planned {
        let (Planned::Assume { pod, .. } | Planned::Nominate { pod, .. }) = planned else {
            continue;
        };
        super::check_not_placed(writer, pod)?;
        if writer.knows_another(pod) {
            return Err(ReserveError::AnotherPod { pod: pod.key().clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::delta::Delta;

    /// A cluster with two nodes of 4 CPUs.
    fn cluster() -> Cluster {
        let cluster = Cluster::new();
        for name in ["n0", "n1"] {
            let node = json!({
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
            });
            let node = cluster.compile_node(&serde_json::from_value(node).unwrap()).unwrap();
            cluster.apply(vec![Delta::UpsertNode(node)]);
        }
        cluster
    }

    fn pod(cluster: &Cluster, name: &str, cpu: &str, affinity: &Value) -> Pod {
        let pod = json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"app": "a"}},
            "spec": {
                "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
                "affinity": affinity,
            },
        });
        cluster.compile_pod(&serde_json::from_value(pod).unwrap()).unwrap()
    }

    fn on(cluster: &Cluster, name: &str, cpu: &str, node: &str) -> Planned {
        Planned::Assume { pod: pod(cluster, name, cpu, &json!({})), node: node.into() }
    }

    fn reserve(cluster: &Cluster, planned: &[Planned]) -> Result<Committed, ReserveError> {
        let policy = Policy::default();
        let request = ReserveRequest {
            planned,
            policy_of: &|_| Some(&policy),
            now: None,
            cancelled: &|| false,
        };
        cluster.reserve(&request)
    }

    #[test]
    fn pods_come_to_the_chosen_nodes_or_none_does() {
        let cluster = cluster();
        // Alone, each would go to the emptier node.
        let planned = [on(&cluster, "a", "1", "n1"), on(&cluster, "b", "1", "n1")];
        let reserved = reserve(&cluster, &planned).unwrap();
        assert_eq!((reserved.n_assumed, cluster.snapshot().n_assumed()), (2, 2));
        assert!(reserved.assumed.iter().all(|it| &*it.node == "n1"));
        let before = cluster.snapshot().generation();
        let planned = [on(&cluster, "c", "1", "n1"), on(&cluster, "d", "2", "n1")];
        let refused = reserve(&cluster, &planned).unwrap_err();
        let ReserveError::DoesNotFit { pod, node, reason } = refused else { panic!("{refused}") };
        assert_eq!((&*pod.name, &*node, &*reason), ("d", "n1", "Insufficient cpu"));
        assert_eq!(cluster.snapshot().generation(), before, "nothing has changed");
        let again = reserve(&cluster, &[on(&cluster, "a", "1", "n0")]).unwrap_err();
        assert!(matches!(again, ReserveError::Engine(EngineError::AlreadyPlaced { .. })));
        let twice = [on(&cluster, "e", "1", "n0"), on(&cluster, "e", "1", "n0")];
        let twice = reserve(&cluster, &twice).unwrap_err();
        assert!(matches!(twice, ReserveError::Engine(EngineError::AlreadyPlaced { .. })));
        let unknown = reserve(&cluster, &[on(&cluster, "e", "1", "gone")]).unwrap_err();
        assert!(matches!(unknown, ReserveError::DoesNotFit { .. }), "{unknown}");
    }

    #[test]
    fn each_decision_counts_those_before_it() {
        let cluster = cluster();
        let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "a"}},
        }]}});
        let apart = |name: &str, node: &str| Planned::Assume {
            pod: pod(&cluster, name, "1", &apart),
            node: node.into(),
        };
        let together = [apart("a", "n0"), apart("b", "n0")];
        let refused = reserve(&cluster, &together).unwrap_err();
        assert!(matches!(refused, ReserveError::DoesNotFit { .. }), "{refused}");
        reserve(&cluster, &[apart("a", "n0"), apart("b", "n1")]).unwrap();
    }

    #[test]
    fn nominations_are_made_replaced_and_cleared() {
        let cluster = cluster();
        let nominate = |name: &str, node: &str| Planned::Nominate {
            pod: pod(&cluster, name, "4", &json!({})),
            node: node.into(),
        };
        let reserved = reserve(&cluster, &[nominate("a", "n0"), nominate("b", "n1")]).unwrap();
        assert_eq!((reserved.n_assumed, reserved.nominated.len()), (0, 2));
        let node_of = |name: &str| {
            let nomination = cluster.own_nomination(&PodKey::new("default", name));
            nomination.map(|(_, node)| node.to_string())
        };
        assert_eq!((node_of("a").as_deref(), node_of("b").as_deref()), (Some("n0"), Some("n1")));
        let clear = Planned::Clear { pod: PodKey::new("default", "a") };
        // Without the promise to `a` there is room.
        reserve(&cluster, &[clear, on(&cluster, "c", "4", "n0")]).unwrap();
        assert_eq!(node_of("a"), None);
        // The one that was promised the node comes to another.
        reserve(&cluster, &[nominate("b", "n0")]).unwrap();
        assert_eq!(node_of("b").as_deref(), Some("n0"));
    }

    #[test]
    fn of_many_at_once_one_gets_the_room() {
        let cluster = cluster();
        let n_reserved: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|n| {
                    let cluster = &cluster;
                    scope.spawn(move || {
                        let name = format!("p{n}");
                        reserve(cluster, &[on(cluster, &name, "3", "n0")]).is_ok()
                    })
                })
                .collect();
            threads.into_iter().map(|it| usize::from(it.join().unwrap())).sum()
        });
        assert_eq!((n_reserved, cluster.snapshot().n_assumed()), (1, 1));
    }

    #[test]
    fn a_session_is_carried_out_by_another_cluster() {
        let (one, other) = (cluster(), cluster());
        let session = one.fork();
        let policy = Policy::default();
        for name in ["a", "b"] {
            let pod = pod(&one, name, "3", &json!({}));
            let tie_break = TieBreak::Lexicographic;
            let request = PlaceRequest { pod: &pod, policy: &policy, tie_break, now: None };
            session.assume(&request).unwrap();
        }
        let planned = one.begin_commit(&session).unwrap();
        assert!(one.begin_commit(&session).is_err());
        session.abandon_commit();
        assert_eq!(one.begin_commit(&session).unwrap().len(), planned.len());
        // The pods of the other cluster are its own.
        let planned: Vec<Planned> = planned
            .into_iter()
            .map(|planned| match planned {
                Planned::Assume { pod, node } => on(&other, &pod.key().name, "3", &node),
                _ => panic!("{planned:?}"),
            })
            .collect();
        assert_eq!(reserve(&other, &planned).unwrap().n_assumed, 2);
        assert_eq!(one.snapshot().n_assumed(), 0);
        assert!(one.commit(&session).is_err(), "it counts as committed");
    }
}
