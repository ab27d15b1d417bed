use super::node_group_option::tests::{node, option, pod, read_options};
use super::*;
use crate::clock;
use crate::policy::Profiles;
use berth_engine::Cluster;
use std::time::Duration;

/// All options with their indexes, as the first strategy of a chain gets them.
pub(super) fn all(options: &[NodeGroupOption]) -> Vec<(usize, &NodeGroupOption)> {
    options.iter().enumerate().collect()
}

/// Checks that a strategy keeps exactly the options at `expected`.
pub(super) fn check(
    judge: impl Fn(&[(usize, &NodeGroupOption)]) -> Verdict,
    options: &[NodeGroupOption],
    expected: &[usize],
) {
    let Verdict::Kept(kept) = judge(&all(options)) else { panic!("undecided") };
    assert_eq!(kept.iter().map(|kept| kept.index).collect::<Vec<_>>(), expected, "{kept:?}");
}

pub(super) fn check_undecided(verdict: &Verdict, expected: &str) {
    let Verdict::Undecided(reason) = verdict else { panic!("{verdict:?}") };
    assert!(reason.contains(expected), "{reason}");
}

/// World of a server whose cluster is not known yet.
pub(super) fn world() -> World<'static> {
    static PROFILES: std::sync::LazyLock<Profiles> = std::sync::LazyLock::new(Profiles::default);
    World {
        cluster: Err("it has not been fed".to_owned()),
        profiles: &PROFILES,
        is_cancelled: &|| false,
        patience: clock::now() + Duration::from_secs(60),
        last_call: clock::now() + Duration::from_secs(60),
    }
}

fn best(strategies: &[Strategy], options: &[NodeGroupOption]) -> Vec<(usize, usize)> {
    let expander = Expander { strategies: strategies.to_vec(), priorities: None, prices: None };
    let metrics = crate::telemetry::Metrics::new();
    let best = expander.best(options, &world(), &Judgements::new(&metrics));
    best.into_iter().map(|best| (best.index, best.because.len())).collect()
}

/// Four options. Pods: a 1, b 2, c 2, d 2. Nodes: a 1, b 2, c 1, d 1. Idle: c less than d.
fn four() -> Vec<NodeGroupOption> {
    let pods = [pod("p", "1", "1Gi"), pod("q", "1", "1Gi")];
    read_options(vec![
        (option("a", 1, &pods[..1]), Some(node("1", "1Gi"))),
        (option("b", 2, &pods), Some(node("1", "1Gi"))),
        (option("c", 1, &pods), Some(node("4", "4Gi"))),
        (option("d", 1, &pods), Some(node("8", "8Gi"))),
    ])
}

#[test]
fn each_strategy_judges_the_remaining_options_until_one_is_left() {
    use Strategy::{LeastNodes, LeastWaste, MostPods};
    assert_eq!(best(&[MostPods], &four()), [(1, 1), (2, 1), (3, 1)]);
    assert_eq!(best(&[MostPods, LeastNodes], &four()), [(2, 2), (3, 2)]);
    assert_eq!(best(&[MostPods, LeastNodes, LeastWaste], &four()), [(2, 3)]);
    // a and b leave nothing idle; of the two, a adds fewer nodes, and the third strategy does not run.
    assert_eq!(best(&[LeastWaste, LeastNodes, MostPods], &four()), [(0, 2)]);
}

#[test]
fn an_undecided_strategy_keeps_all_options() {
    use Strategy::{Berth, LeastNodes, LeastWaste, Price, Priority};
    assert_eq!(best(&[Berth, Priority, Price], &four()), [(0, 0), (1, 0), (2, 0), (3, 0)]);
    assert_eq!(best(&[Berth, LeastWaste, LeastNodes], &four()), [(0, 2)]);
    assert_eq!(best(&[LeastWaste], &[]), []);
}

/// Decisions made before the time was up are kept, and no further strategy runs.
#[test]
fn a_late_strategy_keeps_all_options() {
    let late = World { last_call: clock::now(), ..world() };
    let four = four();
    check_undecided(&least_waste::judge(&all(&four), &late), "takes too long");
    let prices = Prices { per_cpu_hour: 1.0, preferred_cpus: Some(4), ..Prices::default() };
    check_undecided(&price::judge(&prices, &all(&four), &late), "takes too long");
    let expander =
        Expander { strategies: vec![Strategy::LeastWaste], priorities: None, prices: None };
    let metrics = crate::telemetry::Metrics::new();
    assert_eq!(expander.best(&four, &late, &Judgements::new(&metrics)).len(), 4);
}

#[test]
fn strategies_are_counted_by_outcome() {
    let expander = Expander {
        strategies: vec![Strategy::Berth, Strategy::MostPods, Strategy::MostPods],
        priorities: None,
        prices: None,
    };
    let metrics = crate::telemetry::Metrics::new();
    expander.best(&four(), &world(), &Judgements::new(&metrics));
    let text = metrics.render(&Cluster::new().snapshot(), 0, None);
    for line in [
        "berth_expander_judgements_total{strategy=\"berth\",outcome=\"undecided\"} 1",
        "berth_expander_judgements_total{strategy=\"most-pods\",outcome=\"narrowed\"} 1",
        "berth_expander_judgements_total{strategy=\"most-pods\",outcome=\"tied\"} 1",
    ] {
        assert!(text.contains(line), "{text}");
    }
}
