//! `least-waste`: the option whose new nodes would have the least CPU and memory idle.

use berth_proto::Amount;

use super::node_group_option::{Capacity, NodeGroupOption};
use super::verdict::{Verdict, World, least};

/// Fractions of the new nodes that the pods would not request, 1 for nodes that stay empty.
#[derive(Copy, Clone, Debug, PartialEq)]
struct Waste {
    cpu: f64,
    memory: f64,
}

/// Keeps the options with the minimum of wasted CPU fraction plus wasted memory fraction. Skipped are groups without a
/// template, and those whose nodes have no CPU or no memory, for which the fraction is undefined.
pub(super) fn judge(options: &[(usize, &NodeGroupOption)], world: &World<'_>) -> Verdict {
    let wastes = options.iter().filter_map(|(index, option)| Some((*index, waste(option, world)?)));
    let wastes: Vec<(usize, Waste)> = wastes.collect();
    if world.is_over() {
        return Verdict::Undecided("summing up the options' pods takes too long".to_owned());
    }
    let scored =
        wastes.into_iter().map(|(index, waste)| (index, (waste.cpu + waste.memory, waste.cpu)));
    let scored = scored.map(|(index, (total, cpu))| (index, Score { total, cpu }));
    least(scored, "no option has a template with CPU and memory", |score| {
        format!("least-waste: {:.3}, of it cpu {:.3}", score.total, score.cpu)
    })
}

/// Score of an option, compared by the total alone.
struct Score {
    total: f64,
    cpu: f64,
}

impl PartialEq for Score {
    fn eq(&self, other: &Score) -> bool {
        self.total == other.total
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Score) -> Option<std::cmp::Ordering> {
        self.total.partial_cmp(&other.total)
    }
}

fn waste(option: &NodeGroupOption, world: &World<'_>) -> Option<Waste> {
    let capacity = Capacity::of(&option.template().ok()?);
    let requested = option.requested(|| world.is_over())?;
    let n_nodes = i128::from(option.n_nodes);
    let wasted = |capacity: i64, requested: i64| {
        let available = i128::from(capacity) * n_nodes;
        // The difference is taken in whole numbers, as in cluster-autoscaler.
        (available > 0).then(|| float(available - i128::from(requested)) / float(available))
    };
    let milli = Amount::milli_value;
    let bytes = Amount::value;
    Some(Waste {
        cpu: wasted(milli(capacity.cpu), milli(requested.cpu))?,
        memory: wasted(bytes(capacity.memory), bytes(requested.memory))?,
    })
}

#[expect(clippy::cast_precision_loss, reason = "the rule is in doubles")]
fn float(value: i128) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::super::node_group_option::tests::{node, option, pod, read_options};
    use super::super::tests::{all, check, check_undecided, world};
    use super::*;

    /// By hand: a) 1 of 2 cpu and 1 of 4 Gi on one node: 0.5 + 0.75. b) 1 of 4 and 1 of 2: 0.75 + 0.5. c) the same pods
    /// on two nodes of 2 cpu, 4 Gi: 0.75 + 0.875.
    #[test]
    fn least_idle_wins_and_ties_stay() {
        let one = [pod("p", "1", "1Gi")];
        let options = read_options(vec![
            (option("c", 2, &one), Some(node("2", "4Gi"))),
            (option("a", 1, &one), Some(node("2", "4Gi"))),
            (option("b", 1, &one), Some(node("4", "2Gi"))),
            (option("no-template", 1, &one), None),
            (option("no-nodes", 0, &one), Some(node("1", "1Gi"))),
            (option("no-cpu", 1, &one), Some(node("0", "1Gi"))),
        ]);
        assert_eq!(waste(&options[0], &world()), Some(Waste { cpu: 0.75, memory: 0.875 }));
        assert_eq!(waste(&options[4], &world()), None);
        check(|options| judge(options, &world()), &options, &[1, 2]);
        check_undecided(&judge(&all(&options)[3..], &world()), "no option has a template");
    }

    #[test]
    fn requests_are_rounded_once_and_may_exceed_capacity() {
        let pods: Vec<_> = (0..4).map(|i| pod(&format!("p{i}"), "250u", "1")).collect();
        let options = read_options(vec![(option("g", 1, &pods), Some(node("2m", "2")))]);
        assert_eq!(waste(&options[0], &world()), Some(Waste { cpu: 0.5, memory: -1.0 }));
    }
}
