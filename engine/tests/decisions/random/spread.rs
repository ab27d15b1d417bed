//! Random topology spread constraints.

use berth_engine::{DefaultConstraint, SpreadDefaulting, WhenUnsatisfiable};
use berth_proto::core_v1::TopologySpreadConstraint;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::labels::pod_selector;
use super::node::TOPOLOGY_KEYS;

pub(crate) fn constraints() -> BoxedStrategy<Vec<TopologySpreadConstraint>> {
    prop_oneof![1 => Just(Vec::new()), 1 => vec(constraint(), 1..4)].boxed()
}

fn constraint() -> BoxedStrategy<TopologySpreadConstraint> {
    let what = (1..4_i32, topology_key(), select(vec!["DoNotSchedule", "ScheduleAnyway"]));
    let keys = subsequence(vec!["app", "revision", "unheard"], 0..=3);
    let keys = prop_oneof![2 => Just(Vec::new()), 1 => keys];
    (what, pod_selector(), min_domains(), policy(), policy(), keys)
        .prop_map(
            |(
                (max_skew, topology_key, action),
                label_selector,
                min_domains,
                affinity,
                taints,
                keys,
            )| {
                TopologySpreadConstraint {
                    max_skew,
                    topology_key,
                    when_unsatisfiable: action.to_owned(),
                    label_selector,
                    min_domains,
                    node_affinity_policy: affinity,
                    node_taints_policy: taints,
                    match_label_keys: keys.into_iter().map(str::to_owned).collect(),
                }
            },
        )
        .boxed()
}

/// Generates a topology key, in most cases one that many nodes have.
pub(crate) fn topology_key() -> BoxedStrategy<String> {
    prop_oneof![
        8 => select(TOPOLOGY_KEYS[..2].to_vec()),
        2 => select(TOPOLOGY_KEYS.to_vec()),
    ]
    .prop_map(str::to_owned)
    .boxed()
}

fn min_domains() -> BoxedStrategy<Option<i32>> {
    option::weighted(0.3, select(vec![1, 2, 3, 6])).boxed()
}

fn policy() -> BoxedStrategy<Option<String>> {
    select(vec![None, Some("Honor"), Some("Ignore")])
        .prop_map(|policy| policy.map(str::to_owned))
        .boxed()
}

/// Generates the default constraints of a policy, each key and action once.
pub(crate) fn defaulting() -> BoxedStrategy<SpreadDefaulting> {
    let actions = [WhenUnsatisfiable::DoNotSchedule, WhenUnsatisfiable::ScheduleAnyway];
    let pairs: Vec<_> =
        TOPOLOGY_KEYS.iter().flat_map(|key| actions.map(|action| (*key, action))).collect();
    let details = vec((1..4_i32, min_domains(), any::<bool>(), any::<bool>()), 4);
    let list = (subsequence(pairs, 0..=3).prop_shuffle(), details).prop_map(|(pairs, details)| {
        let of = |((key, when_unsatisfiable), (max_skew, min_domains, affinity, taints))| {
            let key: &str = key;
            DefaultConstraint {
                max_skew,
                topology_key: key.to_owned(),
                when_unsatisfiable,
                min_domains,
                honors_affinity: affinity,
                honors_taints: taints,
            }
        };
        SpreadDefaulting::List(pairs.into_iter().zip(details).map(of).collect())
    });
    prop_oneof![1 => Just(SpreadDefaulting::System), 1 => list].boxed()
}
