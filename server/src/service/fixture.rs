//! Fixtures of the unit tests: a state of a few nodes, and objects in one line each.

use std::cell::Cell;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use berth_engine::{BatchRequest, Cluster, TieBreak};
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{BatchEntry, Delta};
use berth_proto::core_v1::Pod;
use serde_json::json;
use tokio::sync::watch;

use super::access::Access;
use super::cluster::delta;
use super::target::Target;
use super::{CallError, Limits, State};
use crate::policy::Profiles;

/// State with nodes of these names and CPUs, already reported by a feed; ties are broken lexicographically.
pub(crate) fn state(nodes: &[(&str, &str)]) -> Arc<State> {
    state_of(nodes, Profiles::default())
}

/// State with these nodes and other profiles.
pub(crate) fn state_of(nodes: &[(&str, &str)], profiles: Profiles) -> Arc<State> {
    let cluster = Arc::new(Cluster::new());
    let nodes = nodes.iter().map(|(name, cpu)| {
        let node = json!({
            "metadata": {"name": name},
            "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "10000"}},
        });
        Change::UpsertNode(serde_json::from_value(node).unwrap())
    });
    apply(&cluster, nodes);
    let (_, draining) = watch::channel(false);
    let ties = TieBreak::Lexicographic;
    let state = Arc::new(State::new(cluster, profiles, ties, Limits::default(), draining));
    state.freshness.note_applied();
    state
}

/// A pod of `default` that requests `cpu`.
pub(crate) fn pod(name: &str, cpu: &str, priority: i32) -> Pod {
    let pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        },
    });
    serde_json::from_value(pod).unwrap()
}

/// Runs the pod on a node.
pub(crate) fn run(cluster: &Cluster, pod: &Pod, node: &str) {
    let mut pod = pod.clone();
    pod.spec.as_mut().unwrap().node_name = node.to_owned();
    apply(cluster, [Change::UpsertPod(pod)]);
}

pub(crate) fn entry(pod: &Pod, replicas: u32) -> BatchEntry {
    BatchEntry { pod: Some(pod.clone().into()), replicas }
}

/// A thread that holds the write lock of a cluster.
pub(crate) struct Holder {
    release: mpsc::Sender<()>,
    thread: JoinHandle<bool>,
}

/// Holds the write lock of a cluster, by slowly assuming a pod of 1 CPU there: until it is released, 10 s at most.
pub(crate) fn hold(state: &Arc<State>, target: Target) -> Holder {
    let (state, (held, is_held)) = (state.clone(), mpsc::channel());
    let (release, released) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let pods = [target.compile_pod(&pod("holder", "1", 0)).unwrap()];
        let (is_first, was_in_time) = (Cell::new(true), Cell::new(false));
        // Called under the lock.
        let cancelled = || {
            if is_first.take() {
                held.send(()).unwrap();
                was_in_time.set(released.recv_timeout(Duration::from_secs(10)).is_ok());
            }
            false
        };
        target.place_batch(&BatchRequest {
            pods: &pods,
            policy: state.profiles.get("").unwrap(),
            tie_break: TieBreak::Lexicographic,
            assume: true,
            gang: None,
            cancelled: &cancelled,
            now: None,
        });
        was_in_time.get()
    });
    is_held.recv().unwrap();
    Holder { release, thread }
}

impl Holder {
    /// Releases the lock; returns false if the thread had already timed out.
    pub(crate) fn let_go(self) -> bool {
        // The thread may be gone already: its result then says so.
        self.release.send(()).ok();
        self.thread.join().unwrap()
    }
}

/// Whether a call that waits for the write lock of the live cluster keeps single decisions off the reactor meanwhile.
pub(crate) fn is_long_write(state: &Arc<State>, call: impl FnOnce(Target) + Send) -> bool {
    let holder = hold(state, state.target_of("").unwrap());
    let is_marked = || !state.decides_in_microseconds(&state.cluster);
    std::thread::scope(|scope| {
        let target = state.target_of("").unwrap();
        let call = scope.spawn(move || call(target));
        while !is_marked() && !call.is_finished() && !holder.thread.is_finished() {
            std::thread::yield_now();
        }
        let is_long = is_marked() && holder.let_go();
        call.join().unwrap();
        is_long && !is_marked()
    })
}

impl State {
    /// The target of a request with all rights.
    pub(crate) fn target_of(&self, session_id: &str) -> Result<Target, CallError> {
        self.target(&Access::open(), session_id)
    }
}

fn apply(cluster: &Cluster, changes: impl IntoIterator<Item = Change>) {
    let deltas = changes.into_iter().map(|change| Delta { change: Some(change) }).collect();
    assert_eq!(delta::apply_to(cluster, deltas).rejections, []);
}
