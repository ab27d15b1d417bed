//! Random amounts: absent, zero, tiny, ordinary, and around the limits up to which kernels compute in doubles.

use berth_proto::Quantity;
use proptest::prelude::*;
use proptest::sample::select;

/// Generates the cpu of a node.
pub(crate) fn node_cpu() -> BoxedStrategy<Option<Quantity>> {
    prop_oneof![
        1 => Just(None),
        1 => Just(Some("0".into())),
        1 => select(vec!["1m", "3m", "100m", "0.5m"]).prop_map(some),
        9 => select(vec!["1", "2", "4", "3900m", "8", "7.91", "16", "64", "96"]).prop_map(some),
        1 => around(1 << 44, "m"),
        1 => around(1 << 45, "m"),
        1 => around(1 << 51, "m"),
    ]
    .boxed()
}

/// Generates the memory or storage of a node, in bytes.
pub(crate) fn node_bytes() -> BoxedStrategy<Option<Quantity>> {
    prop_oneof![
        1 => Just(None),
        1 => Just(Some("0".into())),
        1 => select(vec!["1", "7", "1k", "200Mi", "150M"]).prop_map(some),
        9 => select(vec!["1Gi", "2Gi", "4Gi", "8Gi", "16G", "64Gi", "7.5Gi", "32612312Ki", "256Gi"]).prop_map(some),
        1 => around(1 << 44, ""),
        1 => around(1 << 45, ""),
        1 => around(1 << 51, ""),
    ].boxed()
}

/// Generates ordinary amounts of cpu and bytes, which kernels score in doubles.
pub(crate) fn ordinary_node() -> BoxedStrategy<(Option<Quantity>, Option<Quantity>)> {
    let cpu = select(vec!["4", "8", "7.91", "16", "96"]).prop_map(some);
    let bytes = select(vec!["16Gi", "64Gi", "32612312Ki", "256G"]).prop_map(some);
    (cpu, bytes).boxed()
}

/// Generates the largest amounts that are still scored in doubles, and the first that are not.
pub(crate) fn huge_node() -> BoxedStrategy<(Option<Quantity>, Option<Quantity>)> {
    let limit = 1_i64 << 44;
    let amount =
        prop_oneof![30 => limit - 100..limit, 10 => limit / 2..limit, 1 => limit..limit + 3]
            .boxed();
    let cpu = amount.clone().prop_map(|amount| Some(format!("{amount}m").into()));
    (cpu, amount.prop_map(|amount| Some(amount.to_string().into()))).boxed()
}

/// Generators of a node's cpu and memory, and of its number of pods.
type Room = (BoxedStrategy<(Option<Quantity>, Option<Quantity>)>, BoxedStrategy<Option<Quantity>>);

/// Generates a node that a few pods fill.
pub(crate) fn small_node() -> Room {
    let cpu = select(vec!["1", "2", "2", "3", "4"]).prop_map(some);
    let bytes = select(vec!["1Gi", "2Gi", "4Gi"]).prop_map(some);
    let pods = select(vec!["2", "3", "4", "5", "8", "110"]).prop_map(some);
    ((cpu, bytes).boxed(), pods.boxed())
}

/// Generates a node that dozens of small pods fill.
pub(crate) fn roomy_node() -> Room {
    let cpu = select(vec!["8", "12", "16"]).prop_map(some);
    let bytes = select(vec!["8Gi", "16Gi", "64Gi"]).prop_map(some);
    let pods = select(vec!["30", "60", "110"]).prop_map(some);
    ((cpu, bytes).boxed(), pods.boxed())
}

/// Generates the allowed number of pods of a node.
pub(crate) fn node_pods() -> BoxedStrategy<Option<Quantity>> {
    prop_oneof![
        1 => Just(None),
        1 => Just(Some("0".into())),
        2 => select(vec!["1", "2", "3"]).prop_map(some),
        12 => select(vec!["110", "250"]).prop_map(some),
    ]
    .boxed()
}

/// Generates the amount of a countable resource of a node.
pub(crate) fn node_count() -> BoxedStrategy<Option<Quantity>> {
    prop_oneof![
        3 => Just(None),
        1 => Just(Some("0".into())),
        6 => select(vec!["1", "2", "4", "8", "1k"]).prop_map(some),
        1 => around(1 << 44, ""),
    ]
    .boxed()
}

/// Generates the cpu request of a container.
pub(crate) fn cpu_request() -> BoxedStrategy<Option<Quantity>> {
    prop_oneof![
        4 => Just(None),
        1 => Just(Some("0".into())),
        10 => select(vec!["1m", "0.5m", "0.1n", "100m", "250m", "0.5", "1", "1500m", "2", "3.3", "10", "1e1"])
            .prop_map(some),
        1 => select(vec!["17592186044415m", "175921860443m", "175921860444m", "175921860445m", "8796093022208m", "1e12"])
            .prop_map(some),
    ].boxed()
}

/// Generates the memory or storage request of a container.
pub(crate) fn bytes_request() -> BoxedStrategy<Option<Quantity>> {
    prop_oneof![
        4 => Just(None),
        1 => Just(Some("0".into())),
        10 => select(vec!["1", "100m", "64Mi", "200Mi", "256M", "0.5Gi", "1Gi", "1.5Gi", "4G", "12e6", "6E-1"])
            .prop_map(some),
        1 => select(vec!["16Ti", "17592186044415", "8796093022208", "175921860443", "175921860444", "175921860445", "1P"])
            .prop_map(some),
    ].boxed()
}

/// Generates the request of a container for a countable resource.
pub(crate) fn count_request() -> BoxedStrategy<Option<Quantity>> {
    prop_oneof![
        12 => Just(None),
        1 => Just(Some("0".into())),
        3 => select(vec!["1", "2", "500m", "4"]).prop_map(some),
    ]
    .boxed()
}

fn some(text: &str) -> Option<Quantity> {
    Some(text.into())
}

fn around(center: i64, suffix: &'static str) -> BoxedStrategy<Option<Quantity>> {
    (center - 2..=center + 2)
        .prop_map(move |amount| Some(format!("{amount}{suffix}").into()))
        .boxed()
}
