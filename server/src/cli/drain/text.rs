//! Text and tables for the outcomes of nodes and their pods.

use berth_proto::berth_v1::{
    BudgetUse, DrainMode, DrainVerdict, NodeDrain, PodDrain, PodKey, SimulateDrainResponse,
};

use crate::cli::output;

/// cluster-autoscaler's reason for a node that it does not know.
const NO_NODE: &str = "NoNodeInfo";

/// One section per node: whether it can go, then its pods; a summary at the end.
pub(super) fn sections(drained: &SimulateDrainResponse, mode: DrainMode) -> Vec<String> {
    let mut sections: Vec<String> = drained.nodes.iter().map(section).collect();
    if drained.nodes.len() > 1 {
        sections.push(summary(drained, mode));
    }
    sections
}

/// The summary: ``2 of 3 nodes can go, together, in 2 waves``.
fn summary(drained: &SimulateDrainResponse, mode: DrainMode) -> String {
    let n_go = drained.nodes.iter().filter(|node| node.removable).count();
    let how = match mode {
        DrainMode::Together => ", at once",
        DrainMode::InTurn => ", one after another",
        DrainMode::OneByOne | DrainMode::Unspecified => ", each for itself",
    };
    let all = output::count(drained.nodes.len(), "node");
    let waves = match (mode, drained.n_waves) {
        (DrainMode::Together | DrainMode::InTurn, 2..) => {
            format!("; their pods leave in {}", output::count(drained.n_waves, "wave"))
        }
        _ => String::new(),
    };
    let how = if n_go > 0 { how } else { "" };
    format!("{} of {all} can go{how}{waves}", output::grouped(n_go))
}

/// A node: whether it can go, the budgets in its way, and its pods.
pub(in crate::cli) fn section(node: &NodeDrain) -> String {
    let mut lines = vec![head(node)];
    lines.extend(node.budgets.iter().filter(|used| is_exceeded(used)).map(exceeded));
    if !node.pods.is_empty() {
        lines.push(pods(&node.pods));
    }
    lines.join("\n")
}

/// First line of a node: ``n1 (cpu 45% requested) can go: 3 pods move, 1 ends with it``.
fn head(node: &NodeDrain) -> String {
    let utilization = node.utilization.as_ref().map_or_else(String::new, |utilization| {
        format!(" ({} {:.0}% requested)", utilization.resource, utilization.ratio * 100.0)
    });
    let NodeDrain { node_name, unremovable_reason: reason, message, .. } = node;
    if reason == NO_NODE {
        return format!("the cluster has no node `{node_name}`");
    }
    if !node.removable {
        return format!("{node_name}{utilization} stays: {reason}: {message}");
    }
    let n = |verdicts: &[DrainVerdict]| {
        node.pods.iter().filter(|pod| verdicts.contains(&pod.verdict())).count()
    };
    let n_moved = n(&[DrainVerdict::Moves]);
    let mut parts = vec![match n_moved {
        0 => "no pod has to move".to_owned(),
        1 => "1 pod moves".to_owned(),
        n => format!("{} move", output::count(n, "pod")),
    }];
    let with_it = |n: usize, one: &str, many: &str| match n {
        0 => None,
        1 => Some(format!("1 {one}")),
        n => Some(format!("{} {many}", output::grouped(n))),
    };
    let n_ended = n(&[DrainVerdict::Daemon, DrainVerdict::Mirror]);
    parts.extend(with_it(n_ended, "ends with it", "end with it"));
    let n_late = n(&[DrainVerdict::LongTerminating]);
    parts.extend(with_it(n_late, "should be gone already", "should be gone already"));
    let n_waited = n(&[DrainVerdict::OnCompletion]);
    let once = match n_waited {
        0 => String::new(),
        n => format!(" once {} completed", with_it(n, "pod has", "pods have").unwrap_or_default()),
    };
    let waves = match (node.risky, node.n_waves) {
        (true, n) if n > 1 => format!(", in {}", output::count(n, "wave")),
        _ => String::new(),
    };
    format!("{node_name}{utilization} can go{once}: {}{waves}", parts.join(", "))
}

fn is_exceeded(used: &BudgetUse) -> bool {
    i64::from(used.n_moved) > used.n_allowed
}

fn exceeded(used: &BudgetUse) -> String {
    let BudgetUse { namespace, name, n_moved, n_allowed } = used;
    format!(
        "disruption budget {namespace}/{name} allows {n_allowed} of these {} at a time: the next wave begins when they are ready again",
        output::count(*n_moved, "pod")
    )
}

fn pods(pods: &[PodDrain]) -> String {
    let headings = ["POD", "PRIORITY", "VERDICT", "NODE", "WAVE", "BUDGETS", "MESSAGE"];
    let mut table = output::Table::new(&headings).wrapping(6).dropping([1, 5, 4]);
    for pod in pods {
        let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        table.add_row([
            pod.pod.as_ref().map(pod_name).unwrap_or_default(),
            pod.priority.to_string(),
            verdict(pod),
            or_dash(pod.node_name.clone()),
            or_dash(if pod.wave > 0 { pod.wave.to_string() } else { String::new() }),
            or_dash(pod.budgets.join(",")),
            or_dash(pod.message.clone()),
        ]);
    }
    table.text()
}

fn verdict(pod: &PodDrain) -> String {
    match pod.verdict() {
        DrainVerdict::Moves if pod.wave == 0 => "would move".to_owned(),
        DrainVerdict::Moves => "moves".to_owned(),
        DrainVerdict::Daemon => "ends (DaemonSet)".to_owned(),
        DrainVerdict::Mirror => "ends (static pod)".to_owned(),
        DrainVerdict::LongTerminating => "should be gone".to_owned(),
        DrainVerdict::OnCompletion => "is waited for".to_owned(),
        DrainVerdict::Blocked => format!("blocked: {}", pod.blocking_reason),
        DrainVerdict::NoRoom => "no room".to_owned(),
        DrainVerdict::Unspecified => "-".to_owned(),
    }
}

fn pod_name(key: &PodKey) -> String {
    format!("{}/{}", key.namespace, key.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(verdicts: &[DrainVerdict]) -> NodeDrain {
        let pod = |verdict: &DrainVerdict| PodDrain {
            verdict: (*verdict).into(),
            wave: u32::from(*verdict == DrainVerdict::Moves),
            ..PodDrain::default()
        };
        NodeDrain {
            node_name: "n1".to_owned(),
            removable: true,
            pods: verdicts.iter().map(pod).collect(),
            ..NodeDrain::default()
        }
    }

    #[test]
    fn a_removable_node_counts_its_pods_by_verdict() {
        use DrainVerdict::{Daemon, LongTerminating, Mirror, Moves, OnCompletion};
        let check = |verdicts: &[DrainVerdict], expected: &str| {
            assert_eq!(head(&node(verdicts)), expected);
        };
        check(&[], "n1 can go: no pod has to move");
        check(&[Moves], "n1 can go: 1 pod moves");
        check(&[Moves, Moves, Daemon], "n1 can go: 2 pods move, 1 ends with it");
        check(
            &[Daemon, Mirror, LongTerminating],
            "n1 can go: no pod has to move, 2 end with it, 1 should be gone already",
        );
        check(&[OnCompletion], "n1 can go once 1 pod has completed: no pod has to move");
        check(
            &[Moves, OnCompletion, OnCompletion],
            "n1 can go once 2 pods have completed: 1 pod moves",
        );
        let risky = NodeDrain { risky: true, n_waves: 3, ..node(&[Moves, Moves, Moves]) };
        assert_eq!(head(&risky), "n1 can go: 3 pods move, in 3 waves");
    }
}
