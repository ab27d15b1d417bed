//! The recorded cluster of 300 nodes: what kube-scheduler wrote into its pending pods, against Berth's messages.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking and says what it skips"
)]

use std::path::{Path, PathBuf};

use berth_engine::{Cluster, Outcome, PlaceRequest, Policy, TieBreak};
use berth_server::feed::file;

/// `../shared`, or `BERTH_SHARED`.
fn shared() -> PathBuf {
    std::env::var_os("BERTH_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from)
}

/// Each pod that fits nowhere by the plugins that are built has kube-scheduler's own text, letter for letter up to what
/// PostFilter adds (S-ERR-1 to S-ERR-5).
#[test]
fn pending_pods_have_kube_schedulers_messages() {
    let path = shared().join("data/cluster-dump/mid.json.gz");
    if !path.exists() {
        println!("skipped: {} is not here", path.display());
        return;
    }
    let dump = file::read(&path).unwrap();
    let cluster = Cluster::new();
    let nodes = dump.nodes.iter().map(|node| cluster.compile_node(&node.value).unwrap()).collect();
    let pods = dump.pods.iter().map(|pod| cluster.compile_pod(&pod.value).unwrap()).collect();
    assert!(cluster.replace(nodes, pods).rejected.is_empty());
    let policy = Policy::default();
    let mut n_equal = 0;
    for pod in dump.pods.iter().map(|pod| &pod.value) {
        let conditions = pod.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let recorded =
            conditions.iter().find(|c| c.r#type == "PodScheduled" && c.status == "False");
        let Some(recorded) = recorded.filter(|c| c.reason == "Unschedulable") else { continue };
        let compiled = cluster.compile_pod(pod).unwrap();
        let request =
            PlaceRequest { pod: &compiled, policy: &policy, tie_break: TieBreak::Lexicographic };
        // Pods that need plugins which are not built are refused, or placed where those would object.
        let Ok(decision) = cluster.place(&request) else { continue };
        let Outcome::Unschedulable(unschedulable) = decision.outcome else { continue };
        assert!(
            recorded.message.starts_with(&unschedulable.message),
            "{}: {} but recorded {}",
            compiled.key(),
            unschedulable.message,
            recorded.message
        );
        n_equal += 1;
    }
    assert!(n_equal >= 30, "only {n_equal} pods were compared");
}
