//! A small cluster that has one of everything that decisions depend on, and the checks of fuzzed objects in it.

use std::cell::RefCell;
use std::sync::Arc;

use berth_engine::{
    Cluster, Decision, Delta, EngineError, ModelError, ObjectKind, Outcome, PlaceRequest, Pod,
    Policy, TieBreak, WireObject,
};
use berth_proto::core_v1;
use berth_server::feed::file::{self, UnknownFields};

/// The number of inputs that share a world, because a cluster keeps the names and shapes that it has seen.
const INPUTS: u32 = 2_000;

/// The cluster's objects.
pub(crate) const OBJECTS: &str = include_str!("world.json");

/// A cluster, and the policy that places pods in it.
pub(crate) struct World {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) policy: Policy,
}

/// Runs `check` in a world that no other thread uses and that few earlier inputs have used.
pub(crate) fn within<T>(check: impl FnOnce(&World) -> T) -> T {
    thread_local!(static WORLD: RefCell<Option<(u32, World)>> = const { RefCell::new(None) });
    WORLD.with_borrow_mut(|kept| {
        let (n_inputs, world) = kept.get_or_insert_with(|| (0, World::new()));
        *n_inputs += 1;
        let answer = check(world);
        if *n_inputs == INPUTS {
            *kept = None;
        }
        answer
    })
}

impl World {
    pub(crate) fn new() -> World {
        World { cluster: cluster(), policy: Policy::default() }
    }

    fn place(&self, pod: &Pod, on: &Cluster) -> Result<Decision, EngineError> {
        let tie_break = TieBreak::Seeded(7);
        on.place(&PlaceRequest { pod, policy: &self.policy, tie_break, now: None })
    }

    /// Returns the decision on a pod without its generation, or why there is none.
    pub(crate) fn decide(&self, pod: &core_v1::Pod) -> Result<Outcome, String> {
        let pod = self.cluster.compile_pod(pod).map_err(|error| checked_message(&error))?;
        let decided = self.place(&pod, &self.cluster);
        check_decision(&pod, &decided, self.cluster.snapshot().n_nodes());
        // Cached results for the pod's shape change nothing.
        let again = self.place(&pod, &self.cluster);
        assert_eq!(decided, again, "{} anew", pod.key());
        decided.map(|decision| decision.outcome).map_err(|error| error.to_string())
    }

    /// Feeds, places and deletes a pod on a fork, and checks that the fork's counts are then as before.
    pub(crate) fn come_and_go(&self, pod: &core_v1::Pod) {
        let Ok(pod) = self.cluster.compile_pod(pod) else { return };
        let fork = self.cluster.fork();
        let counts = |cluster: &Cluster| {
            let snapshot = cluster.snapshot();
            (snapshot.n_pods(), snapshot.n_pending(), snapshot.n_orphaned(), snapshot.n_assumed())
        };
        let key = pod.key().clone();
        fork.apply(vec![Delta::DeletePod { key: key.clone(), uid: None }]);
        let before = counts(&fork);
        let assumed = fork.assume(&PlaceRequest {
            pod: &pod,
            policy: &self.policy,
            tie_break: TieBreak::Lexicographic,
            now: None,
        });
        if let Ok(Decision { outcome: Outcome::Placed(placed), .. }) = &assumed {
            assert!(placed.assumed, "{key}");
            assert_eq!(counts(&fork).0, before.0 + 1, "{key} is assumed");
        }
        fork.apply(vec![Delta::UpsertPod(pod.clone())]);
        fork.apply(vec![Delta::UpsertPod(pod)]);
        fork.apply(vec![Delta::DeletePod { key: key.clone(), uid: None }]);
        assert_eq!(counts(&fork), before, "{key} came and went");
    }

    /// Feeds and deletes a node on a fork. Returns the placements of the probes while the node is there.
    pub(crate) fn with_node(&self, node: &core_v1::Node) -> Result<Vec<String>, String> {
        let node = self.cluster.compile_node(node).map_err(|error| checked_message(&error))?;
        let fork = self.cluster.fork();
        let name = Arc::<str>::from(node.name());
        fork.apply(vec![Delta::UpsertNode(node.clone())]);
        assert!(fork.snapshot().node_named(&name).is_some(), "`{name}`");
        let placed = self.probes(&fork);
        fork.apply(vec![Delta::UpsertNode(node)]);
        assert_eq!(self.probes(&fork), placed, "`{name}` told twice");
        fork.apply(vec![Delta::DeleteNode(name.clone())]);
        assert!(fork.snapshot().node_named(&name).is_none(), "`{name}`");
        Ok(placed)
    }

    /// Feeds and deletes an object of another kind on a fork. Returns the placements of the probes while the object is
    /// there.
    pub(crate) fn with_object(&self, object: WireObject<'_>) -> Result<Vec<String>, String> {
        let object =
            self.cluster.compile_object(object).map_err(|error| checked_message(&error))?;
        let fork = self.cluster.fork();
        let key = object.key().clone();
        fork.apply(vec![Delta::DeleteObject(key.clone())]);
        let kind: ObjectKind = key.kind;
        let n_before = fork.snapshot().n_objects(kind);
        fork.apply(vec![Delta::UpsertObject(object)]);
        assert_eq!(fork.snapshot().n_objects(kind), n_before + 1, "{key}");
        let placed = self.probes(&fork);
        fork.apply(vec![Delta::DeleteObject(key.clone())]);
        assert_eq!(fork.snapshot().n_objects(kind), n_before, "{key}");
        Ok(placed)
    }

    /// Returns the placements of the probes, whose pods use every kind of object in a cluster.
    fn probes(&self, cluster: &Cluster) -> Vec<String> {
        PROBES.with(|pods| {
            let placed = pods.iter().map(|pod| {
                let pod = cluster.compile_pod(pod).unwrap();
                let decided = self.place(&pod, cluster);
                check_decision(&pod, &decided, cluster.snapshot().n_nodes());
                format!("{:?}", decided.map(|decision| decision.outcome))
            });
            placed.collect()
        })
    }
}

thread_local!(static PROBES: Vec<core_v1::Pod> =
    serde_json::from_str(include_str!("probes.json")).unwrap());

/// A cluster of a few nodes with one of everything.
pub(crate) fn cluster() -> Arc<Cluster> {
    let cluster = Cluster::new();
    let dump = file::parse(&"world.json".into(), OBJECTS, UnknownFields::Warn).unwrap();
    let report = file::load(&cluster, dump);
    assert!(report.refused.is_empty(), "{:?}", report.refused);
    Arc::new(cluster)
}

fn check_decision(pod: &Pod, decided: &Result<Decision, EngineError>, n_nodes: usize) {
    let decision = match decided {
        Ok(decision) => decision,
        Err(EngineError::Model(error)) => return drop(checked_message(error)),
        Err(error) => return assert!(!error.to_string().is_empty(), "{error:?}"),
    };
    assert_eq!(decision.pod, *pod.key());
    match &decision.outcome {
        Outcome::Placed(placed) => {
            let (n_best, n_feasible) = (placed.n_best as usize, placed.n_feasible as usize);
            assert!((1..=n_feasible).contains(&n_best) && n_feasible <= n_nodes, "{placed:?}");
        }
        Outcome::Unschedulable(why) => {
            assert!(why.message.len() < 64 << 10, "{}", why.message.len());
            assert_eq!(why.n_nodes as usize, n_nodes);
        }
        Outcome::Gated { reasons, .. } => assert!(!reasons.is_empty()),
    }
}

/// Checks that an error names the field and has a short reason; returns its text.
pub(crate) fn checked_message(error: &ModelError) -> String {
    let ModelError { field, reason } = error;
    assert!(!field.is_empty() && !reason.is_empty(), "{error:?}");
    assert!(field.len() + reason.len() < 4 << 10, "{} bytes", field.len() + reason.len());
    error.to_string()
}
