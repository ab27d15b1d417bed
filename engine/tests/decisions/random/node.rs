//! Random nodes over a small vocabulary, so that pods' requirements are sometimes met.

use std::collections::BTreeMap;

use berth_proto::{Quantity, core_v1, meta_v1};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::quantity;

/// Names of the images that nodes hold, with tag, digest and registry.
pub(crate) const IMAGES: [&str; 6] = [
    "nginx:latest",
    "registry.example.com:5000/app:v1",
    "registry.example.com:5000/app:latest",
    "tool@sha256:00",
    "a/b:latest",
    "tool@sha256:00:latest",
];

/// Node labels that split clusters into domains; most nodes have the first few.
pub(crate) const TOPOLOGY_KEYS: [&str; 4] =
    [HOSTNAME, "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "example.com/pool"];

const HOSTNAME: &str = "kubernetes.io/hostname";

/// Gives a node its name, also as the value of a hostname label that has none yet.
pub(crate) fn named(mut node: core_v1::Node, name: &str) -> core_v1::Node {
    let metadata = node.metadata.get_or_insert_default();
    metadata.name = name.to_owned();
    if let Some(hostname) = metadata.labels.get_mut(HOSTNAME).filter(|value| value.is_empty()) {
        *hostname = name.to_owned();
    }
    node
}

/// The kind of nodes that one cluster has.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flavor {
    /// Nodes with absent, zero, tiny and huge amounts, cordons and taints.
    Odd,
    /// Nodes with ordinary amounts, few of them tainted.
    Ordinary,
    /// Nodes with amounts around 2⁴⁴, the limit up to which kernels compute in doubles.
    Huge,
    /// Nodes with room for a few pods.
    Small,
    /// Nodes with room for dozens of small pods.
    Roomy,
}

/// Generates a node without a name, which [`named`] sets.
pub(crate) fn node(flavor: Flavor) -> BoxedStrategy<core_v1::Node> {
    let (taints, cordoned) = match flavor {
        Flavor::Odd => (taints(1), 0.1),
        Flavor::Ordinary | Flavor::Huge | Flavor::Small | Flavor::Roomy => (taints(12), 0.02),
    };
    (labels(), prop::bool::weighted(cordoned), taints, allocatable(flavor), (features(), images()))
        .prop_map(
            move |(labels, unschedulable, taints, allocatable, (declared_features, images))| {
                core_v1::Node {
                    metadata: Some(meta_v1::ObjectMeta { labels, ..Default::default() }),
                    spec: Some(core_v1::NodeSpec { unschedulable, taints, ..Default::default() }),
                    status: Some(core_v1::NodeStatus {
                        allocatable,
                        declared_features,
                        images,
                        ..Default::default()
                    }),
                }
            },
        )
        .boxed()
}

fn labels() -> BoxedStrategy<BTreeMap<String, String>> {
    let hostname = prop_oneof![12 => Just(Some("")), 1 => Just(Some("shared")), 1 => Just(None)];
    let zone = select(vec![None, Some("a"), Some("b"), Some("c")]);
    let region = select(vec![None, Some("r"), Some("s"), Some("")]);
    let pool = select(vec![None, None, Some("web"), Some("gpu")]);
    let cpus = select(vec![
        None,
        Some("4"),
        Some("8"),
        Some("08"),
        Some("x8"),
        Some("9223372036854775808"),
        Some(""),
    ]);
    let beta_zone = select(vec![None, None, None, Some("a"), Some("b")]);
    (hostname, zone, region, pool, cpus, beta_zone)
        .prop_map(|(hostname, zone, region, pool, cpus, beta_zone)| {
            let [of_host, of_zone, of_region, of_pool] = TOPOLOGY_KEYS;
            let pairs = [
                (of_host, hostname),
                (of_zone, zone),
                (of_region, region),
                (of_pool, pool),
                ("cpus", cpus),
                ("failure-domain.beta.kubernetes.io/zone", beta_zone),
            ];
            let present = pairs.into_iter().filter_map(|(key, value)| Some((key, value?)));
            present.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
        })
        .boxed()
}

/// Generates taints: one of `1 + 3 * n_without` nodes has some.
fn taints(n_without: u32) -> BoxedStrategy<Vec<core_v1::Taint>> {
    let taint = (
        select(vec!["dedicated", "dedicated", "spot", "node.kubernetes.io/unschedulable"]),
        select(vec!["", "a", "5"]),
        select(vec![
            "NoSchedule",
            "NoExecute",
            "PreferNoSchedule",
            "PreferNoSchedule",
            "PreferNoSchedule",
        ]),
    );
    let taint = taint.prop_map(|(key, value, effect)| core_v1::Taint {
        key: key.to_owned(),
        value: value.to_owned(),
        effect: effect.to_owned(),
        ..Default::default()
    });
    prop_oneof![3 * n_without => Just(Vec::new()), 1 => vec(taint, 1..4)].boxed()
}

fn allocatable(flavor: Flavor) -> BoxedStrategy<BTreeMap<String, Quantity>> {
    let odd = prop_oneof![
        1 => quantity::ordinary_node(),
        2 => (quantity::node_cpu(), quantity::node_bytes()),
    ];
    let (main, pods) = match flavor {
        Flavor::Odd => (odd.boxed(), quantity::node_pods()),
        Flavor::Ordinary => (quantity::ordinary_node(), Just(Some("110".into())).boxed()),
        Flavor::Huge => (quantity::huge_node(), Just(Some("110".into())).boxed()),
        Flavor::Small => quantity::small_node(),
        Flavor::Roomy => quantity::roomy_node(),
    };
    let counts = (
        quantity::node_count(),
        quantity::node_count(),
        quantity::node_count(),
        quantity::node_count(),
    );
    (main, quantity::node_bytes(), pods, counts)
        .prop_map(|((cpu, memory), storage, pods, (gpu, pages, volumes, other))| {
            resource_list([
                ("cpu", cpu),
                ("memory", memory),
                ("ephemeral-storage", storage),
                ("pods", pods),
                ("example.com/gpu", gpu),
                ("hugepages-2Mi", pages),
                ("attachable-volumes-disk", volumes),
                ("bare", other),
            ])
        })
        .boxed()
}

/// Returns the entries that are present.
pub(crate) fn resource_list<const N: usize>(
    entries: [(&str, Option<Quantity>); N],
) -> BTreeMap<String, Quantity> {
    entries.into_iter().filter_map(|(name, quantity)| Some((name.to_owned(), quantity?))).collect()
}

fn features() -> BoxedStrategy<Vec<String>> {
    let names =
        vec!["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "Unheard"];
    subsequence(names, 0..=3)
        .prop_map(|names| names.into_iter().map(str::to_owned).collect())
        .boxed()
}

fn images() -> BoxedStrategy<Vec<core_v1::ContainerImage>> {
    const MIB: i64 = 1 << 20;
    let size = select(vec![0, MIB, 23 * MIB, 60 * MIB, 600 * MIB, 900 * MIB, 3000 * MIB, 1 << 40]);
    let image = |names: Vec<&str>, size_bytes| core_v1::ContainerImage {
        names: names.into_iter().map(str::to_owned).collect(),
        size_bytes,
    };
    (subsequence(IMAGES.to_vec(), 0..=4), size.clone(), size)
        .prop_map(move |(names, first, second)| {
            let (head, tail) = names.split_at(names.len() / 2);
            vec![image(head.to_vec(), first), image(tail.to_vec(), second)]
        })
        .boxed()
}
