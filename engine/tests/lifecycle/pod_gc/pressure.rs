//! The order of evictions from a node that is short of a resource (L-PRESS-9 to L-PRESS-13).

use berth_engine::lifecycle::pressure::{Signal, rank_for_eviction};
use berth_proto::Quantity;
use berth_proto::berth_v1::{PodUsage, RankForEvictionRequest, RankedPod};
use berth_proto::core_v1::{Container, Pod, PodSpec, ResourceRequirements};
use berth_proto::meta_v1::ObjectMeta;
use proptest::prelude::*;
use proptest::sample::select;

use super::cluster::meta;
use super::config;

/// Generates a pod with requests and usage from a few values, so that many are equal.
fn ranked(index: usize) -> impl Strategy<Value = RankedPod> {
    let amount = || proptest::option::of(select(vec!["0", "1", "1500m", "2", "2Ki", "9Ei"]));
    let priority = proptest::option::of(select(vec![-1, 0, 7, 1_999_999_999, 2_000_000_000]));
    let usage = proptest::option::weighted(0.8, [amount(), amount(), amount(), amount()]);
    (amount(), amount(), priority, usage, proptest::bool::weighted(0.1)).prop_map(
        move |(memory, storage, priority, usage, is_static)| {
            let quantity = |text: Option<&str>| text.map(Quantity::from);
            let requests = [("memory", memory), ("ephemeral-storage", storage)]
                .into_iter()
                .filter_map(|(name, amount)| Some((name.to_owned(), quantity(amount)?)))
                .collect();
            let container = Container {
                resources: Some(ResourceRequirements { requests, ..Default::default() }),
                ..Container::default()
            };
            let name = format!("p{}", index / 2);
            let namespace = if index.is_multiple_of(2) { "a" } else { "b" }.to_owned();
            RankedPod {
                pod: Some(Pod {
                    metadata: Some(ObjectMeta {
                        uid: format!("{namespace}/{name}"),
                        name,
                        namespace,
                        ..ObjectMeta::default()
                    }),
                    spec: Some(PodSpec {
                        priority,
                        containers: vec![container],
                        ..PodSpec::default()
                    }),
                    status: None,
                }),
                usage: usage.map(|[memory, storage, inodes, pids]| PodUsage {
                    memory: quantity(memory),
                    ephemeral_storage: quantity(storage),
                    inodes: quantity(inodes),
                    pids: quantity(pids),
                }),
                is_static,
            }
        },
    )
}

fn pressure() -> impl Strategy<Value = RankForEvictionRequest> {
    let pods = (0..12_usize).prop_flat_map(|n| (0..n).map(ranked).collect::<Vec<_>>());
    let mode = select(vec!["", "Strict", "v1.36.2"]);
    (select(Signal::WORDS), mode, any::<bool>(), pods).prop_map(|(signal, mode, hard, pods)| {
        RankForEvictionRequest {
            signal: signal.to_owned(),
            mode: mode.to_owned(),
            hard,
            max_pod_grace_period_seconds: Some(20),
            pods,
        }
    })
}

/// Whether the pod is known to use more than it requested.
fn exceeds(signal: &str, ranked: &RankedPod) -> bool {
    let (resource, usage) = match signal.contains("emory") {
        true => ("memory", ranked.usage.as_ref().and_then(|usage| usage.memory.clone())),
        false => (
            "ephemeral-storage",
            ranked.usage.as_ref().and_then(|usage| usage.ephemeral_storage.clone()),
        ),
    };
    let container = &ranked.pod.as_ref().unwrap().spec.as_ref().unwrap().containers[0];
    let request = container.resources.as_ref().unwrap().requests.get(resource).cloned();
    let request = request.unwrap_or_default().parse().unwrap();
    usage.is_some_and(|usage| usage.parse().unwrap() > request)
}

/// Whether the first pod is evicted before the second, criterion by criterion (L-PRESS-9, L-PRESS-10, L-PRESS-13).
fn goes_before(signal: &str, left: &RankedPod, right: &RankedPod) -> bool {
    let number = |quantity: Option<&Quantity>| quantity.map(|quantity| quantity.parse().unwrap());
    let used = |ranked: &RankedPod| {
        let usage = ranked.usage.as_ref()?;
        number(match signal {
            "pid.available" => usage.pids.as_ref(),
            _ if signal.contains("emory") => usage.memory.as_ref(),
            _ if signal.ends_with("inodesFree") => usage.inodes.as_ref(),
            _ => usage.ephemeral_storage.as_ref(),
        })
    };
    let zero = Quantity::from("0").parse().unwrap();
    let requested = |ranked: &RankedPod| {
        let resource = if signal.contains("emory") { "memory" } else { "ephemeral-storage" };
        let container = &ranked.pod.as_ref().unwrap().spec.as_ref().unwrap().containers[0];
        let request = container.resources.as_ref().unwrap().requests.get(resource);
        if signal == "pid.available" { zero } else { number(request).unwrap_or(zero) }
    };
    if signal != "pid.available" {
        let step = |ranked: &RankedPod| match used(ranked) {
            None => 0,
            Some(used) if signal.ends_with("inodesFree") => {
                if used > zero {
                    1
                } else {
                    2
                }
            }
            Some(used) => {
                if used > requested(ranked) {
                    1
                } else {
                    2
                }
            }
        };
        if step(left) != step(right) {
            return step(left) < step(right);
        }
    }
    let spec = |ranked: &RankedPod| ranked.pod.as_ref().unwrap().spec.clone().unwrap();
    let priority = |ranked: &RankedPod| spec(ranked).priority.unwrap_or_default();
    if priority(left) != priority(right) {
        return priority(left) < priority(right);
    }
    let excess = |ranked: &RankedPod| used(ranked).map(|used| used + -requested(ranked));
    match (excess(left), excess(right)) {
        (None, Some(_)) => return true,
        (Some(_), None) => return false,
        (Some(left), Some(right)) if left != right => return left > right,
        _ => {}
    }
    let place = |ranked: &RankedPod| {
        let meta = meta(ranked.pod.as_ref().unwrap());
        (meta.name.clone(), meta.namespace.clone())
    };
    place(left) < place(right)
}

proptest! {
    #![proptest_config(config(1500, 13))]

    /// L-PRESS-9 to L-PRESS-13.
    #[test]
    fn a_short_node_gives_pods_up_in_one_order(
        request in pressure(),
        rotation in any::<prop::sample::Index>(),
    ) {
        let answer = rank_for_eviction(&request).unwrap();
        let name = |ranked: &RankedPod| meta(ranked.pod.as_ref().unwrap()).name.clone();
        let place = |ranked: &RankedPod| {
            let meta = meta(ranked.pod.as_ref().unwrap());
            (meta.namespace.clone(), meta.name.clone())
        };
        let mut plainly: Vec<&RankedPod> = Vec::new();
        for ranked in &request.pods {
            let is_later = |other: &&RankedPod| goes_before(&request.signal, ranked, other);
            let at = plainly.iter().position(is_later).unwrap_or(plainly.len());
            plainly.insert(at, ranked);
        }
        let order: Vec<_> =
            answer.order_namespaces.iter().cloned().zip(answer.order.iter().cloned()).collect();
        prop_assert_eq!(&order, &plainly.iter().map(|ranked| place(ranked)).collect::<Vec<_>>());

        let mut reordered = request.clone();
        if !reordered.pods.is_empty() {
            let by = rotation.index(reordered.pods.len());
            reordered.pods.rotate_left(by);
            reordered.pods.reverse();
        }
        prop_assert_eq!(&rank_for_eviction(&reordered).unwrap(), &answer, "whatever the input order");
        let other_mode = match request.mode.as_str() {
            "v1.36.2" => "Strict",
            _ => "v1.36.2",
        };
        let other = RankForEvictionRequest { mode: other_mode.to_owned(), ..request.clone() };
        let other = rank_for_eviction(&other).unwrap();
        prop_assert_eq!(&other.order, &answer.order, "the same in both modes");

        // Pods are compared by uid, because pods of the same name are in two namespaces.
        let is_promised = |ranked: &RankedPod| {
            request.mode != "v1.36.2"
                && request.signal.ends_with("available")
                && request.signal != "pid.available"
                && !exceeds(&request.signal, ranked)
        };
        let is_critical = |ranked: &RankedPod| {
            let priority = ranked.pod.as_ref().unwrap().spec.as_ref().unwrap().priority;
            ranked.is_static || priority.is_some_and(|priority| priority >= 2_000_000_000)
        };
        let spared: Vec<&RankedPod> =
            request.pods.iter().filter(|pod| is_promised(pod) || is_critical(pod)).collect();
        let mut protected: Vec<String> = spared.iter().map(|pod| name(pod)).collect();
        protected.sort();
        prop_assert_eq!(&answer.protected, &protected);
        prop_assert_eq!(answer.victim.is_empty(), spared.len() == request.pods.len());
        let is_victim =
            |pod: &&RankedPod| meta(pod.pod.as_ref().unwrap()).uid == answer.victim_uid;
        let is_spared = |ranked: &&RankedPod| spared.iter().any(|spared| place(spared) == place(ranked));
        let first = plainly.into_iter().find(|ranked| !is_spared(ranked));
        prop_assert_eq!(first, request.pods.iter().find(is_victim), "the first that is not protected");
    }
}
