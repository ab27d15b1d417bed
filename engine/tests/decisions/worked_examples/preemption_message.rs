//! Section 5: messages if preemption does not help (S-ERR-5 to S-ERR-8).

use berth_engine::{Cluster, Nomination, Outcome, PostFilterCode};

use super::{cluster, preempt};

/// Returns the whole message of a pod that fits nowhere.
fn whole(cluster: &Cluster, pod: &str) -> String {
    match preempt(cluster, pod).preemption.decision.outcome {
        Outcome::Unschedulable(unschedulable) => unschedulable.message,
        outcome => panic!("{outcome:?}"),
    }
}

fn five_nodes() -> Cluster {
    cluster(
        &[
            "n0 cpu=2 memory=8Gi pods=10",
            "n1 cpu=4 memory=8Gi pods=10",
            "n2 cpu=4 memory=8Gi pods=10",
            "n3 cpu=4 memory=8Gi pods=10 taint=k=v:NoSchedule",
            "n4 cpu=4 memory=8Gi pods=10 cordoned=true",
        ],
        &["a node=n1 cpu=2", "b node=n2 cpu=2"],
    )
}

/// The first two rows; the message of DynamicResources is also part of that for a pod without claims (S-DRA-1,
/// S-ERR-6).
#[test]
fn no_pod_of_lower_priority() {
    let head = "0/5 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 3 Insufficient cpu.";
    let pod = "p cpu=3 memory=1Gi";
    assert_eq!(
        whole(&five_nodes(), pod),
        format!(
            "{head} no new claims to deallocate, preemption: 0/5 nodes are available: 2 No preemption victims found for \
             incoming pod, 3 Preemption is not helpful for scheduling."
        )
    );
    let never = format!("{pod} preemption=Never");
    assert_eq!(
        whole(&five_nodes(), &never),
        format!(
            "{head} no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."
        )
    );
}

/// Rows three and four: a pod that is pinned to a node by its name.
#[test]
fn pinned_pods() {
    let nodes =
        ["n1 cpu=1 memory=8Gi pods=9", "n2 cpu=1 memory=8Gi pods=9", "n3 cpu=1 memory=8Gi pods=9"];
    let left_out = "node(s) didn't satisfy plugin(s) [NodeAffinity]";
    let inner = "no new claims to deallocate, preemption:";
    let not_helpful = "Preemption is not helpful for scheduling";
    assert_eq!(
        whole(&cluster(&nodes, &["a node=n1 cpu=1"]), "p cpu=1 named=n1"),
        format!(
            "0/3 nodes are available: 1 Insufficient cpu, 2 {left_out}. {inner} 0/3 nodes are available: 1 No preemption \
             victims found for incoming pod, 2 {not_helpful}."
        )
    );
    assert_eq!(
        whole(&cluster(&nodes[..2], &[]), "p named=absent"),
        format!(
            "0/2 nodes are available: 2 {left_out}. {inner} 0/2 nodes are available: 2 {not_helpful}."
        )
    );
}

/// Rows five and six: PreFilter stops before DynamicResources has run, and nominations stay as they are (S-ERR-7).
#[test]
fn stopped_before_claims_are_looked_at() {
    let two = cluster(&["n1 cpu=1 memory=8Gi pods=9", "n2 cpu=1 memory=8Gi pods=9"], &[]);
    let conflict = "p named=n1 named=n2 nominated=n1";
    assert_eq!(
        whole(&two, conflict),
        "0/2 nodes are available: pod affinity terms conflict. not found"
    );
    assert_eq!(
        whole(&two, "p claim=missing"),
        "0/2 nodes are available: persistentvolumeclaim \"missing\" not found. not found"
    );
    let post_filter = preempt(&two, conflict).preemption.post_filter.unwrap();
    assert_eq!(
        (post_filter.code, post_filter.message.as_str()),
        (PostFilterCode::Error, "not found")
    );
    assert_eq!(post_filter.nomination, Nomination::Unchanged);
}

/// The last row: a successful preemption adds no text.
#[test]
fn success_says_nothing() {
    let nodes = ["n1 cpu=1 memory=8Gi pods=9", "n2 cpu=1 memory=8Gi pods=9"];
    let cluster = cluster(&nodes, &["a node=n1 cpu=1", "b node=n2 cpu=1"]);
    assert_eq!(
        whole(&cluster, "p cpu=1 priority=1"),
        "0/2 nodes are available: 2 Insufficient cpu."
    );
}

/// S-PRE-17: preemption does not help, so the nomination is cleared; S-ERR-8: the text counts the statuses of the dry
/// run.
#[test]
fn nothing_helps() {
    let nodes = [
        "n1 cpu=2 memory=8Gi pods=9 label:host=n1",
        "n2 cpu=2 memory=8Gi pods=9",
        "n3 cpu=1 memory=8Gi pods=9",
    ];
    let pods =
        ["a node=n1 cpu=1 priority=9", "b node=n1 cpu=1 priority=1", "c node=n2 cpu=2 priority=5"];
    let cluster = cluster(&nodes, &pods);
    let found =
        preempt(&cluster, "p cpu=2 priority=5 nominated=n2").preemption.post_filter.unwrap();
    assert_eq!(
        found.message,
        "no new claims to deallocate, preemption: 0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found \
         for incoming pod, 1 Preemption is not helpful for scheduling."
    );
    assert_eq!(
        (found.code, found.nomination),
        (PostFilterCode::Unschedulable, Nomination::Cleared)
    );
}

/// S-CYC-1: without nodes there is nothing to preempt.
#[test]
fn no_nodes() {
    let empty = cluster(&[], &[]);
    assert_eq!(whole(&empty, "p"), "no nodes available to schedule pods");
    assert_eq!(preempt(&empty, "p").preemption.post_filter, None);
}
