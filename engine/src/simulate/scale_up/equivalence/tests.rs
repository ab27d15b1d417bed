//! Tests of classes and groups.

use berth_proto::meta_v1::OwnerReference;

use super::*;
use crate::cluster::Cluster;
use berth_testing::object;

fn owned(cluster: &Cluster, text: &str, kind: &str, owner: &str) -> Pod {
    let mut pod = object::pod(text);
    let (kind, uid) = (kind.to_owned(), owner.to_owned());
    let owner = OwnerReference { kind, uid, controller: Some(true), ..Default::default() };
    pod.metadata.as_mut().unwrap().owner_references = vec![owner];
    cluster.compile_pod(&pod).unwrap()
}

/// S-CAS-5
#[test]
fn pods_of_one_controller_that_are_alike_are_a_group() {
    let cluster = Cluster::new();
    let free = |text| cluster.compile_pod(&object::pod(text)).unwrap();
    let pods = [
        owned(&cluster, "a cpu=1", "Job", "u1"),
        free("b cpu=1"),
        owned(&cluster, "c cpu=1 label:k=v", "Job", "u1"),
        owned(&cluster, "d cpu=1", "Job", "u2"),
        free("e cpu=1"),
        owned(&cluster, "f cpu=1", "Job", "u1"),
        owned(&cluster, "g cpu=1", "DaemonSet", "u3"),
        owned(&cluster, "h cpu=1", "DaemonSet", "u3"),
        owned(&cluster, "i cpu=2", "Job", "u1"),
    ];
    let all: Vec<usize> = (0..pods.len()).collect();
    let expected: [&[usize]; 8] = [&[0, 5], &[1], &[2], &[3], &[4], &[6], &[7], &[8]];
    assert_eq!(groups(&pods, &all), expected);
    assert_eq!(groups(&pods, &[8, 5, 0]), [vec![8], vec![5, 0]]);
    let classes = Classes::of(&pods);
    let of_pods: Vec<usize> = all.iter().map(|pod| classes.of_pod(*pod)).collect();
    assert_eq!(of_pods, [0, 0, 1, 0, 0, 0, 0, 0, 2], "owners of no kind that rules look at");
    assert_eq!((classes.len(), classes.samples()), (3, &[0, 2, 8][..]));
}

#[test]
fn a_controller_has_ten_groups_and_then_deviants() {
    let cluster = Cluster::new();
    let text = |n: usize| format!("p{n} cpu={}", 1 + n % 12);
    let pods: Vec<Pod> = (0..24).map(|n| owned(&cluster, &text(n), "Job", "u")).collect();
    let found = groups(&pods, &(0..24).collect::<Vec<_>>());
    let sizes: Vec<usize> = found.iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1]);
}

#[test]
fn claims_and_chosen_nodes_are_classes_by_themselves() {
    let cluster = Cluster::new();
    let pods = ["a claim=c", "b claim=c", "c node=n", "d node=n", "e", "f"];
    let pods = pods.map(|text| cluster.compile_pod(&object::pod(text)).unwrap());
    let classes = Classes::of(&pods);
    let of_pods: Vec<usize> = (0..6).map(|pod| classes.of_pod(pod)).collect();
    assert_eq!(of_pods, [0, 1, 2, 3, 4, 4]);
}
