//! The recount: compares the server's cluster with the model, and its sums with its pods.

use std::collections::BTreeMap;
use std::time::Duration;

use super::model::{Counts, Key, Model, requests};
use super::report::Sample;
use super::survey::{Survey, survey};
use super::world::World;

/// Limit of the surveys of one recount. Deleted pods that are still listed then are a difference.
const MAX_SURVEYS: usize = 100;
/// Pause between two surveys, because a cut call may still be in flight.
const PAUSE: Duration = Duration::from_millis(100);

/// Deletes uncertain pods until they stay absent, then compares. The caller has closed the gate.
pub(super) async fn recount(world: &World) -> Sample {
    let mut n_quiet = 0;
    let mut settled = None;
    for _ in 0..MAX_SURVEYS {
        let uncertain: Vec<Key> = world.model().uncertain.iter().cloned().collect();
        if !uncertain.is_empty() {
            world.delete(&uncertain).await;
            tokio::time::sleep(PAUSE).await;
        }
        let Ok(survey) = survey(world).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let is_quiet =
            survey.is_consistent && !uncertain.iter().any(|key| survey.pods.contains_key(key));
        n_quiet = if is_quiet { n_quiet + 1 } else { 0 };
        // After a cut call, a second survey finds pods that were assumed after the first.
        if n_quiet >= if uncertain.is_empty() { 1 } else { 2 } {
            world.count("pods settled after a cut", uncertain.len());
            world.model().uncertain.clear();
            settled = Some(survey);
            break;
        }
    }
    let Some(survey) = settled else {
        world.differs("no recount was possible: the cluster kept changing");
        return Sample::default();
    };
    let differences = differences(&survey, &world.model());
    differences.iter().for_each(|difference| world.differs(difference));
    world.count("recounts", 1);
    Sample {
        generation: survey.cluster.generation,
        n_nodes: survey.cluster.n_nodes.into(),
        n_pods: survey.cluster.n_pods.into(),
        n_assumed: survey.cluster.n_assumed_pods.into(),
        n_shapes: survey.cluster.n_shapes.into(),
        n_differences: differences.len() as u64,
        ..Sample::default()
    }
}

/// All differences between the survey and the model.
fn differences(survey: &Survey, model: &Model) -> Vec<String> {
    let mut differences = Vec::new();
    compare_nodes(survey, model, &mut differences);
    compare_pods(survey, model, &mut differences);
    compare_sums(survey, &mut differences);
    let counted = Counts {
        n_nodes: survey.cluster.n_nodes as usize,
        n_pods: survey.cluster.n_pods as usize,
        n_assumed: survey.cluster.n_assumed_pods as usize,
        n_pending: survey.cluster.n_pending_pods as usize,
        n_orphaned: survey.cluster.n_orphaned_pods as usize,
    };
    if counted != model.counts() {
        differences.push(format!("GetCluster counts {counted:?}, expected {:?}", model.counts()));
    }
    if survey.cluster.n_contradictions != 0 {
        differences.push(format!("{} contradictions", survey.cluster.n_contradictions));
    }
    differences
}

fn compare_nodes(survey: &Survey, model: &Model, differences: &mut Vec<String>) {
    for (name, node) in &survey.nodes {
        match model.nodes.get(name) {
            None => differences.push(format!("node `{name}` is listed and should not exist")),
            Some(expected) => {
                let cordoned = expected.spec.as_ref().is_some_and(|spec| spec.unschedulable);
                if node.unschedulable != cordoned {
                    differences.push(format!("node `{name}`: unschedulable is not {cordoned}"));
                }
                let labels =
                    expected.metadata.as_ref().map(|it| it.labels.len()).unwrap_or_default();
                if node.labels.len() != labels {
                    let n = node.labels.len();
                    differences.push(format!("node `{name}` has {n} labels instead of {labels}"));
                }
            }
        }
    }
    for name in model.nodes.keys().filter(|name| !survey.nodes.contains_key(*name)) {
        differences.push(format!("node `{name}` is missing"));
    }
}

fn compare_pods(survey: &Survey, model: &Model, differences: &mut Vec<String>) {
    for (key, listed) in &survey.pods {
        let shown = format!("pod `{}/{}`", key.0, key.1);
        let Some(known) = model.pods.get(key) else {
            differences.push(format!("{shown} is on `{}` and should not be", listed.node_name));
            continue;
        };
        if listed.node_name != known.node {
            differences
                .push(format!("{shown} is on `{}` instead of `{}`", listed.node_name, known.node));
        }
        if listed.assumed != known.assumed {
            differences.push(format!("{shown}: assumed is not {}", known.assumed));
        }
        let (found, expected) = (without_zeros(&listed.requests), requests(&known.pod));
        if found != expected {
            differences.push(format!("{shown} requests {found:?} instead of {expected:?}"));
        }
    }
    let missing = |(key, known): &(&Key, &super::model::KnownPod)| {
        model.nodes.contains_key(&known.node) && !survey.pods.contains_key(*key)
    };
    for (key, known) in model.pods.iter().filter(missing) {
        differences.push(format!("pod `{}/{}` is not on `{}`", key.0, key.1, known.node));
    }
}

/// Compares the sums of each node with those of its listed pods.
fn compare_sums(survey: &Survey, differences: &mut Vec<String>) {
    let mut sums: BTreeMap<&str, (u32, BTreeMap<String, i64>)> = BTreeMap::new();
    for pod in survey.pods.values() {
        let (n_pods, requested) = sums.entry(&pod.node_name).or_default();
        *n_pods += 1;
        for (resource, amount) in &pod.requests {
            *requested.entry(resource.clone()).or_default() += amount;
        }
    }
    for (name, node) in &survey.nodes {
        let (n_pods, requested) = sums.remove(name.as_str()).unwrap_or_default();
        if node.n_pods != n_pods {
            differences.push(format!("node `{name}` counts {} pods and has {n_pods}", node.n_pods));
        }
        let (found, expected) = (without_zeros(&node.requested), without_zeros(&requested));
        if found != expected {
            differences
                .push(format!("node `{name}` sums {found:?}, its pods request {expected:?}"));
        }
    }
    for name in sums.keys() {
        differences.push(format!("pods are listed on `{name}`, which is no node"));
    }
}

fn without_zeros(amounts: &BTreeMap<String, i64>) -> BTreeMap<String, i64> {
    amounts.iter().filter(|(_, n)| **n != 0).map(|(name, n)| (name.clone(), *n)).collect()
}

#[cfg(test)]
mod tests {
    use berth_proto::berth_v1::{GetClusterResponse, NodeSummary, PodSummary};
    use berth_proto::core_v1::{Node, Pod};
    use berth_synthetic::object::{Requests, pod};

    use super::*;

    fn web() -> Pod {
        pod("d", "web", "u", "i", Requests { cpu_milli: 100, memory_mib: 0, extended: None })
    }

    /// One node with one assumed pod, in the survey and in the model.
    fn example() -> (Survey, Model) {
        let mut model = Model::default();
        let mut node = Node::default();
        node.metadata.get_or_insert_default().name = "n".to_owned();
        model.nodes.insert("n".to_owned(), node);
        model.assume(&web(), "n");
        let cpu = BTreeMap::from([("cpu".to_owned(), 100), ("memory".to_owned(), 0)]);
        let summary = PodSummary {
            node_name: "n".to_owned(),
            assumed: true,
            requests: cpu.clone(),
            ..PodSummary::default()
        };
        let node = NodeSummary {
            name: "n".to_owned(),
            n_pods: 1,
            requested: cpu,
            ..NodeSummary::default()
        };
        let survey = Survey {
            cluster: GetClusterResponse {
                n_nodes: 1,
                n_pods: 1,
                n_assumed_pods: 1,
                ..GetClusterResponse::default()
            },
            nodes: BTreeMap::from([("n".to_owned(), node)]),
            pods: BTreeMap::from([(("d".to_owned(), "web".to_owned()), summary)]),
            is_consistent: true,
        };
        (survey, model)
    }

    fn found(change: impl FnOnce(&mut Survey, &mut Model)) -> String {
        let (mut survey, mut model) = example();
        change(&mut survey, &mut model);
        differences(&survey, &model).join("; ")
    }

    #[test]
    fn each_kind_of_difference_is_found() {
        assert_eq!(found(|_, _| ()), "");
        let key = ("d".to_owned(), "web".to_owned());
        let of_node = |survey: &mut Survey, change: fn(&mut NodeSummary)| {
            survey.nodes.values_mut().for_each(change);
        };
        let of_pod = |survey: &mut Survey, change: fn(&mut PodSummary)| {
            survey.pods.values_mut().for_each(change);
        };
        let text = found(|survey, _| of_node(survey, |node| node.n_pods = 2));
        assert_eq!(text, "node `n` counts 2 pods and has 1");
        let text = found(|survey, _| of_node(survey, |node| node.requested.clear()));
        assert_eq!(text, "node `n` sums {}, its pods request {\"cpu\": 100}");
        let text = found(|survey, _| of_node(survey, |node| node.unschedulable = true));
        assert_eq!(text, "node `n`: unschedulable is not false");
        let text = found(|survey, _| of_pod(survey, |pod| pod.assumed = false));
        assert_eq!(text, "pod `d/web`: assumed is not true");
        let text = found(|survey, _| survey.cluster.n_contradictions = 3);
        assert_eq!(text, "3 contradictions");
        let text = found(|survey, _| survey.cluster.n_assumed_pods = 0);
        assert!(text.starts_with("GetCluster counts Counts { n_nodes: 1, n_pods: 1, n_assumed: 0"));
        let text = found(|_, model| drop(model.pods.remove(&key)));
        assert!(text.starts_with("pod `d/web` is on `n` and should not be; "), "{text}");
        let text = found(|survey, _| survey.pods.clear());
        assert!(text.starts_with("pod `d/web` is not on `n`; node `n` counts 1 pods"), "{text}");
        let text = found(|survey, _| survey.nodes.clear());
        assert_eq!(text, "node `n` is missing; pods are listed on `n`, which is no node");
    }
}
