//! The grounds on which a commit depends, each in a small example.

use berth_engine::{
    Cluster, CommitError, Delta, Ground, Nomination, Outcome, PlaceRequest, Pod, PodKey, Policy,
    PreemptOptions, PreemptRequest, TieBreak,
};
use berth_proto::core_v1;

use berth_testing::object;

const NODES: [&str; 2] = [
    "n1 cpu=4 memory=8Gi pods=9 label:host=n1 label:zone=a",
    "n2 cpu=2 memory=8Gi pods=9 label:host=n2 label:zone=b",
];

fn cluster(pods: &[&str]) -> Cluster {
    let cluster = Cluster::new();
    NODES.iter().for_each(|text| tell_node(&cluster, text));
    pods.iter().for_each(|text| tell(&cluster, text));
    cluster
}

fn tell_node(cluster: &Cluster, text: &str) {
    let node = cluster.compile_node(&object::node(text)).unwrap();
    assert_eq!(cluster.apply(vec![Delta::UpsertNode(node)]).rejected, []);
}

fn tell(cluster: &Cluster, text: &str) {
    let pod = cluster.compile_pod(&object::pod(text)).unwrap();
    assert_eq!(cluster.apply(vec![Delta::UpsertPod(pod)]).rejected, []);
}

fn forget(cluster: &Cluster, name: &str) {
    cluster.apply(vec![Delta::DeletePod { key: PodKey::new("default", name), uid: None }]);
}

fn pod(cluster: &Cluster, text: &str) -> Pod {
    cluster.compile_pod(&object::pod(text)).unwrap()
}

/// Places a pod and returns its node.
fn assume(cluster: &Cluster, text: &str) -> String {
    let (pod, policy) = (&pod(cluster, text), &Policy::default());
    let request = PlaceRequest { pod, policy, tie_break: TieBreak::Lexicographic, now: None };
    match cluster.assume(&request).unwrap().outcome {
        Outcome::Placed(placement) => placement.node.to_string(),
        outcome => panic!("{outcome:?}"),
    }
}

fn changed(name: &str, node: &str, ground: Ground) -> CommitError {
    CommitError::Changed { pod: PodKey::new("default", name), node: node.into(), ground }
}

fn supposed(name: &str, node: &str, ground: Ground) -> CommitError {
    CommitError::Hypothetical { pod: PodKey::new("default", name), node: node.into(), ground }
}

/// Places a pod `p` on n1 in a fork, then changes the cluster, and returns the result of the commit.
fn after(pods: &[&str], placed: &str, happens: impl Fn(&Cluster)) -> Result<usize, CommitError> {
    let live = cluster(pods);
    let fork = live.fork();
    assert_eq!(assume(&fork, placed), "n1");
    happens(&live);
    live.commit(&fork).map(|committed| committed.n_assumed)
}

/// Commits a pod that was placed on a fork after a hypothetical change, and returns the result.
fn supposing(
    pods: &[&str],
    placed: &str,
    happens: impl Fn(&Cluster),
) -> Result<usize, CommitError> {
    let live = cluster(pods);
    let fork = live.fork();
    happens(&fork);
    assert_eq!(assume(&fork, placed), "n1");
    live.commit(&fork).map(|committed| committed.n_assumed)
}

#[test]
fn the_node() {
    let relabel = |cluster: &Cluster| tell_node(cluster, &format!("{} label:x=y", NODES[0]));
    let other = |cluster: &Cluster| tell_node(cluster, &format!("{} label:x=y", NODES[1]));
    assert_eq!(after(&[], "p cpu=3", relabel), Err(changed("p", "n1", Ground::Node)));
    assert_eq!(supposing(&[], "p cpu=3", relabel), Err(supposed("p", "n1", Ground::Node)));
    assert_eq!(after(&[], "p cpu=3", other), Ok(1));
    assert_eq!(supposing(&[], "p cpu=3", other), Ok(1));
    let gone = |cluster: &Cluster| drop(cluster.apply(vec![Delta::DeleteNode("n1".into())]));
    assert_eq!(after(&[], "p cpu=3", gone), Err(changed("p", "n1", Ground::Node)));
}

#[test]
fn the_pods_on_the_node() {
    let arrives = |cluster: &Cluster| tell(cluster, "a node=n1 cpu=1");
    assert_eq!(after(&[], "p cpu=3", arrives), Err(changed("p", "n1", Ground::Pods)));
    let elsewhere = |cluster: &Cluster| tell(cluster, "a node=n2 cpu=1");
    assert_eq!(after(&[], "p cpu=3", elsewhere), Ok(1));
    let leaves = |cluster: &Cluster| forget(cluster, "a");
    assert_eq!(
        after(&["a node=n1 cpu=1"], "p cpu=3", leaves),
        Err(changed("p", "n1", Ground::Pods))
    );
    // The room is only hypothetical.
    let supposed_room = supposing(&["a node=n1 cpu=4", "b node=n2 cpu=2"], "p cpu=3", leaves);
    assert_eq!(supposed_room, Err(supposed("p", "n1", Ground::Node)));
}

/// An affinity term that was added in the meantime might repel the pod (S-IPA-7).
#[test]
fn terms_of_other_pods() {
    let keeps_off = |cluster: &Cluster| tell(cluster, "a node=n2 label:app=y far=zone,app:x");
    assert_eq!(
        after(&[], "p cpu=3 label:app=x", keeps_off),
        Err(changed("p", "n1", Ground::Terms))
    );
    let supposed_term = supposing(&[], "p cpu=3 label:app=x", keeps_off);
    assert_eq!(supposed_term, Err(supposed("p", "n1", Ground::Terms)));
}

/// A placement depends on other nodes only if one of its rules reads them.
#[test]
fn other_nodes() {
    let arrives = |cluster: &Cluster| tell(cluster, "a node=n2 cpu=1 label:app=x");
    let spread = "p cpu=3 label:app=x spread=zone,1,DoNotSchedule,app:x";
    assert_eq!(after(&[], spread, arrives), Err(changed("p", "n1", Ground::OtherNodes)));
    assert_eq!(supposing(&[], spread, arrives), Err(supposed("p", "n1", Ground::OtherNodes)));
    assert_eq!(after(&[], "p cpu=3 label:app=x", arrives), Ok(1));
}

/// A placement depends on nominations to its node (S-NOM-4).
#[test]
fn nominations() {
    let promised = |cluster: &Cluster| tell(cluster, "q cpu=3 priority=5 nominated=n1");
    assert_eq!(after(&[], "p cpu=3", promised), Err(changed("p", "n1", Ground::Nominations)));
    let withdrawn = |cluster: &Cluster| forget(cluster, "q");
    let waiting = ["q cpu=3 priority=5 nominated=n1"];
    assert_eq!(
        supposing(&waiting, "p cpu=3", withdrawn),
        Err(supposed("p", "n1", Ground::Nominations))
    );
}

/// A placement with volumes depends on claims and volumes.
#[test]
fn storage() {
    let volume = |cluster: &Cluster| {
        let mut volume = core_v1::PersistentVolume::default();
        volume.metadata.get_or_insert_default().name = "v".to_owned();
        volume.spec.get_or_insert_default();
        let object = cluster.compile_object(&volume).unwrap();
        assert_eq!(cluster.apply(vec![Delta::UpsertObject(object)]).rejected, []);
    };
    let disk = "p cpu=3 disk=d";
    let taken = |cluster: &Cluster| tell(cluster, "a node=n1 disk=d");
    assert!(matches!(after(&[], disk, taken), Err(CommitError::Changed { .. })));
    assert_eq!(after(&[], "p cpu=3", volume), Ok(1));
}

/// A pod that got a node in the meantime is not committed (S-CCH-2).
#[test]
fn a_pod_is_committed_once() {
    let elsewhere = |cluster: &Cluster| tell(cluster, "p node=n2 cpu=1");
    let (pod, node) = (PodKey::new("default", "p"), "n2".into());
    assert_eq!(after(&[], "p cpu=3", elsewhere), Err(CommitError::AlreadyPlaced { pod, node }));
}

/// A session can be committed only to the cluster that it was forked from.
#[test]
fn a_session_is_committed_to_its_own_cluster() {
    let (live, stranger) = (cluster(&[]), cluster(&[]));
    let fork = live.fork();
    assert_eq!(assume(&fork, "p cpu=3"), "n1");
    let nested = fork.fork();
    assert_eq!(assume(&nested, "q cpu=2"), "n2");
    assert_eq!(stranger.commit(&fork), Err(CommitError::NotAFork));
    assert_eq!(live.commit(&live), Err(CommitError::NotAFork));
    assert_eq!(live.commit(&stranger), Err(CommitError::NotAFork));
    assert_eq!(live.commit(&nested), Err(CommitError::NotAFork));
    assert_eq!(fork.commit(&nested).map(|committed| committed.n_assumed), Ok(1));
    assert_eq!(live.commit(&fork).map(|committed| committed.n_assumed), Ok(2));
    assert_eq!(live.snapshot().n_assumed(), 2);
    assert_eq!(live.commit(&fork), Err(CommitError::AlreadyCommitted));
}

/// A commit is all or nothing: one decision that does not hold prevents the others.
#[test]
fn one_that_does_not_hold_keeps_all_back() {
    let live = cluster(&[]);
    let fork = live.fork();
    assert_eq!(assume(&fork, "p cpu=3"), "n1");
    assert_eq!(assume(&fork, "q cpu=2"), "n2");
    tell(&live, "a node=n2 cpu=1");
    assert_eq!(live.commit(&fork), Err(changed("q", "n2", Ground::Pods)));
    assert_eq!((live.snapshot().n_pods(), live.snapshot().n_assumed()), (1, 0));
}

/// A nomination is committed together with the nominations that it clears (S-PRE-21, S-PRE-24).
#[test]
fn promises() {
    let live = cluster(&[
        "a node=n1 cpu=4 priority=1",
        "low cpu=1 priority=2 nominated=n1",
        "b node=n2 cpu=2 priority=50",
    ]);
    let fork = live.fork();
    let wanted = pod(&fork, "p cpu=3 priority=9");
    let request = PreemptRequest {
        pod: &wanted,
        policy: &Policy::default(),
        tie_break: TieBreak::Lexicographic,
        options: PreemptOptions::default(),
        cancelled: &|| false,
        now: None,
    };
    let found = fork.preempt(&request).unwrap().post_filter.unwrap();
    assert_eq!(found.nomination, Nomination::Node("n1".into()));
    assert_eq!(found.cleared_nominations, [PodKey::new("default", "low")]);
    fork.nominate(&wanted, &found).unwrap();
    let again = live.preempt(&request).unwrap().post_filter.unwrap();
    assert_eq!(again.cleared_nominations.len(), 1, "nothing of it is so yet");
    let committed = live.commit(&fork).unwrap();
    assert_eq!((committed.n_assumed, committed.nominated.len()), (0, 1));
    let again = live.preempt(&request).unwrap().post_filter.unwrap();
    assert_eq!(again.cleared_nominations, []);
    forget(&live, "a");
    let rival = pod(&live, "rival cpu=2 priority=9");
    let place = PlaceRequest {
        pod: &rival,
        policy: &Policy::default(),
        tie_break: TieBreak::Lexicographic,
        now: None,
    };
    assert!(matches!(live.place(&place).unwrap().outcome, Outcome::Unschedulable(_)));
}
