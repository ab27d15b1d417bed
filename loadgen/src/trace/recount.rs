//! An independent recount: checks that no node ever exceeded its allocatable amounts.
//!
//! The recount uses only the trace's files and the placement of each pod, and adds up every node anew after every
//! arrival. It calls no server and shares no running sum with the replay.

use std::collections::BTreeMap;

use super::replay::TaskPlacement;
use super::{Amounts, Event, Order, Trace};

/// Result of the recount.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Recount {
    /// Arrivals after which all nodes were added up.
    pub n_instants: usize,
    /// Arrivals after which a node exceeded its allocatable amounts.
    pub n_overcommitted_instants: usize,
    /// Pods placed on a node that the trace does not have.
    pub n_unknown_nodes: usize,
    /// Description of the first overcommitted instant.
    pub first: Option<String>,
}

impl Recount {
    /// Recounts the trace with the placements of a replay in `order`.
    pub fn of(trace: &Trace, order: Order, answers: &[TaskPlacement]) -> Self {
        let nodes: BTreeMap<&str, usize> = trace
            .nodes
            .iter()
            .enumerate()
            .map(|(position, node)| (node.name.as_str(), position))
            .collect();
        let node_of: BTreeMap<&str, &str> = answers
            .iter()
            .filter_map(|answer| Some((answer.pod.as_str(), answer.node.as_deref()?)))
            .collect();
        let mut recount = Self::default();
        // The current tasks of each node, by position.
        let mut running: Vec<Vec<usize>> = vec![Vec::new(); trace.nodes.len()];
        for event in trace.events(order) {
            let (Event::Arrive(task) | Event::Leave(task)) = event;
            let name = trace.tasks[task].name.as_str();
            let node = node_of.get(name).map(|node| nodes.get(node).copied());
            match (event, node) {
                (Event::Arrive(_), Some(Some(node))) => running[node].push(task),
                (Event::Arrive(_), Some(None)) => recount.n_unknown_nodes += 1,
                (Event::Leave(_), Some(Some(node))) => running[node].retain(|other| *other != task),
                (_, None) | (Event::Leave(_), Some(None)) => {}
            }
            if matches!(event, Event::Arrive(_)) {
                recount.check_nodes(trace, &running, name);
            }
        }
        recount
    }

    fn check_nodes(&mut self, trace: &Trace, running: &[Vec<usize>], arrived: &str) {
        self.n_instants += 1;
        let over = trace.nodes.iter().zip(running).find_map(|(node, tasks)| {
            let sum = tasks
                .iter()
                .fold(Amounts::default(), |sum, task| sum.plus(trace.tasks[*task].requests));
            sum.exceeded(node.allocatable).map(|resource| (node.name.as_str(), resource))
        });
        if let Some((node, resource)) = over {
            self.n_overcommitted_instants += 1;
            self.first.get_or_insert_with(|| {
                format!("after `{arrived}` node `{node}` is over its {resource}")
            });
        }
    }

    /// Whether no node was ever overcommitted and every node exists.
    pub fn is_clean(&self) -> bool {
        self.n_overcommitted_instants == 0 && self.n_unknown_nodes == 0
    }
}

impl Amounts {
    fn plus(self, other: Self) -> Self {
        Self {
            cpu_milli: self.cpu_milli.saturating_add(other.cpu_milli),
            memory_mib: self.memory_mib.saturating_add(other.memory_mib),
            gpu_milli: self.gpu_milli.saturating_add(other.gpu_milli),
            pods: self.pods.saturating_add(other.pods),
        }
    }

    /// Name of the first resource whose amount exceeds `allocatable`.
    fn exceeded(self, allocatable: Self) -> Option<&'static str> {
        [
            ("cpu", self.cpu_milli > allocatable.cpu_milli),
            ("memory", self.memory_mib > allocatable.memory_mib),
            ("gpu-milli", self.gpu_milli > allocatable.gpu_milli),
            ("pods", self.pods > allocatable.pods),
        ]
        .into_iter()
        .find_map(|(name, over)| over.then_some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Amounts, Order, Task, Trace, TraceNode};
    use super::{Recount, TaskPlacement};

    const NODE: Amounts = Amounts { cpu_milli: 1000, memory_mib: 1000, gpu_milli: 1000, pods: 2 };

    fn task(name: &str, requests: Amounts, creation_time: i64, deletion_time: i64) -> Task {
        let deletion_time = Some(deletion_time);
        Task {
            name: name.to_owned(),
            requests,
            gpu_models: Vec::new(),
            creation_time,
            deletion_time,
        }
    }

    fn on(pod: &str, node: &str) -> TaskPlacement {
        TaskPlacement {
            pod: pod.to_owned(),
            node: Some(node.to_owned()),
            total: None,
            n_feasible: 1,
            n_best: 1,
        }
    }

    fn recount(order: Order, tasks: Vec<Task>, answers: &[TaskPlacement]) -> Recount {
        let node = TraceNode { name: "n".to_owned(), allocatable: NODE, gpu_model: None };
        Recount::of(&Trace { nodes: vec![node], tasks }, order, answers)
    }

    #[test]
    fn each_resource_is_checked() {
        let half = Amounts { cpu_milli: 500, memory_mib: 500, gpu_milli: 500, pods: 1 };
        for (resource, over) in [
            ("cpu", Amounts { cpu_milli: 501, ..half }),
            ("memory", Amounts { memory_mib: 501, ..half }),
            ("gpu-milli", Amounts { gpu_milli: 501, ..half }),
            ("pods", Amounts { pods: 2, ..half }),
        ] {
            let tasks = vec![task("a", half, 0, 9), task("b", over, 1, 9)];
            let found = recount(Order::Arrive, tasks, &[on("a", "n"), on("b", "n")]);
            assert_eq!(found.n_overcommitted_instants, 1);
            assert_eq!(found.first, Some(format!("after `b` node `n` is over its {resource}")));
        }
        let tasks = vec![task("a", half, 0, 9), task("b", half, 1, 9)];
        let found = recount(Order::Arrive, tasks, &[on("a", "n"), on("b", "n")]);
        assert!(found.is_clean() && found.n_instants == 2);
    }

    #[test]
    fn departures_free_their_node_in_time() {
        let whole = Amounts { cpu_milli: 1000, pods: 1, ..Amounts::default() };
        let tasks = vec![task("a", whole, 0, 5), task("b", whole, 5, 9)];
        let answers = [on("a", "n"), on("b", "n")];
        assert!(recount(Order::Events, tasks.clone(), &answers).is_clean());
        assert_eq!(recount(Order::Arrive, tasks, &answers).n_overcommitted_instants, 1);
    }

    #[test]
    fn a_placement_on_an_unknown_node_is_counted() {
        let found = recount(Order::Arrive, vec![task("a", NODE, 0, 1)], &[on("a", "elsewhere")]);
        assert_eq!((found.n_unknown_nodes, found.is_clean()), (1, false));
    }
}
