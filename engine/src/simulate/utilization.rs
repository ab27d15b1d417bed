//! Utilization of a node: the fraction of its capacity that its pods request. Rule: S-SD-2.

use crate::model::Pod;
use crate::model::resources::{Resource, Resources};
use crate::rows::NodeRow;
use crate::snapshot::Snapshot;

/// How a pod counts for the utilization of its node.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Share {
    /// The pod's requests are counted.
    Counted,
    /// A skipped DaemonSet or mirror pod: its requests are deducted from the node's capacity.
    Skipped,
    /// A long-terminating pod: it is left out.
    Ignored,
}

/// How full a node is: requests divided by capacity, where 1.0 is full.
#[derive(Copy, Clone, PartialEq, Debug)]
pub(crate) struct Utilization {
    /// The larger of cpu's and memory's ratio, or the GPU's alone.
    pub(crate) ratio: f64,
    /// The resource that the ratio is of; memory where both are equal.
    pub(crate) resource: Resource,
}

/// The node has none of this resource, so that no ratio exists.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unmeasured(pub(crate) Resource);

/// The utilization of the node of a row (S-SD-2).
///
/// A node with some of `gpu` is measured by that alone. Requests are those of the pods' specs: a resize in progress
/// does not count. Amounts other than cpu are whole units here, so a request for a fraction of a byte counts as a whole
/// byte. `Err` where the node has none of a resource that it is measured by; a free row has none of any. Cost: one look
/// at each pod of the node.
pub(crate) fn utilization(
    snapshot: &Snapshot,
    row: NodeRow,
    gpu: Option<Resource>,
    share: impl Fn(&Pod) -> Share,
) -> Result<Utilization, Unmeasured> {
    let none = Resources::default();
    let allocatable = snapshot.node(row).map_or(&none, |node| &node.facts().allocatable);
    let pods = snapshot.shards.get(row.shard()).map_or(&[][..], |shard| shard.pods.of(row.row()));
    let (mut requested, mut skipped) = (Sums::default(), Sums::default());
    for placed in pods {
        let request = placed.shape.facts.request();
        match share(&placed.pod) {
            Share::Counted => requested.add(request, gpu),
            Share::Skipped => skipped.add(request, gpu),
            Share::Ignored => {}
        }
    }
    let of = |resource: Resource, requested: i128, skipped: i128| {
        let room = i128::from(allocatable.get(resource));
        if room == 0 {
            return Err(Unmeasured(resource));
        }
        Ok(milli(resource, requested) / milli(resource, room - skipped))
    };
    if let Some(gpu) = gpu.filter(|gpu| allocatable.get(*gpu) > 0) {
        let ratio = of(gpu, requested.gpu, skipped.gpu)?;
        return Ok(Utilization { ratio, resource: gpu });
    }
    let cpu = of(Resource::Cpu, requested.cpu, skipped.cpu)?;
    let memory = of(Resource::Memory, requested.memory, skipped.memory)?;
    Ok(if cpu > memory {
        Utilization { ratio: cpu, resource: Resource::Cpu }
    } else {
        Utilization { ratio: memory, resource: Resource::Memory }
    })
}

/// Sums in units of [`Resources`].
#[derive(Copy, Clone, Default)]
struct Sums {
    cpu: i128,
    memory: i128,
    gpu: i128,
}

impl Sums {
    fn add(&mut self, request: &Resources, gpu: Option<Resource>) {
        self.cpu += i128::from(request.milli_cpu);
        self.memory += i128::from(request.memory);
        self.gpu += gpu.map_or(0, |gpu| i128::from(request.get(gpu)));
    }
}

/// Converts to milli-units, which cpu already is in. Rounded once, so that the quotient of two equals that of S-SD-2
/// bit for bit.
fn milli(resource: Resource, amount: i128) -> f64 {
    match resource {
        Resource::Cpu => amount as f64,
        Resource::Memory | Resource::EphemeralStorage | Resource::Scalar(_) => {
            (amount * 1000) as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Cluster;
    use crate::cluster::delta::Delta;

    /// Checks a node with these amounts of cpu, memory and GPUs, and pods with their requests. The first letter of a
    /// pod's name is `d` for a pod to skip, `t` for one to ignore. `expected` is `RESOURCE RATIO`.
    fn check(allocatable: [&str; 3], pods: &[(&str, [&str; 3])], skip: bool, expected: &str) {
        let amounts = |amounts: [&str; 3]| {
            let names = ["cpu", "memory", "example.com/gpu"];
            let pairs = names.iter().zip(amounts).filter(|(_, amount)| !amount.is_empty());
            pairs
                .map(|(name, amount)| ((*name).to_owned(), amount.into()))
                .collect::<serde_json::Map<_, _>>()
        };
        let cluster = Cluster::new();
        let node = serde_json::json!({"metadata": {"name": "n"}, "status": {"allocatable": amounts(allocatable)}});
        let node = serde_json::from_value(node).unwrap();
        let mut deltas = vec![Delta::UpsertNode(cluster.compile_node(&node).unwrap())];
        for (name, requests) in pods {
            let containers =
                serde_json::json!([{"name": "c", "resources": {"requests": amounts(*requests)}}]);
            let metadata = serde_json::json!({"name": name, "uid": name});
            let pod = serde_json::json!({"metadata": metadata, "spec": {"nodeName": "n", "containers": containers}});
            let pod = serde_json::from_value(pod).unwrap();
            deltas.push(Delta::UpsertPod(cluster.compile_pod(&pod).unwrap()));
        }
        assert_eq!(cluster.apply(deltas).rejected, []);
        let snapshot = cluster.snapshot();
        let row = snapshot.row_named("n").unwrap();
        let gpu = Resource::from_name("example.com/gpu", snapshot.model.names());
        let share = |pod: &Pod| match pod.key().name.as_bytes()[0] {
            b'd' if skip => Share::Skipped,
            b't' => Share::Ignored,
            _ => Share::Counted,
        };
        let name = |resource| match resource {
            Resource::Cpu => "cpu",
            Resource::Memory => "memory",
            Resource::EphemeralStorage => "ephemeral-storage",
            Resource::Scalar(_) => "gpu",
        };
        let measured = match utilization(&snapshot, row, gpu, share) {
            Ok(Utilization { ratio, resource }) => format!("{} {ratio:?}", name(resource)),
            Err(Unmeasured(resource)) => format!("no {}", name(resource)),
        };
        assert_eq!(measured, expected);
    }

    /// S-SD-2
    #[test]
    fn the_fuller_resource_is_named_and_memory_where_both_are_equal() {
        let node = ["4", "8Gi", ""];
        check(node, &[], false, "memory 0.0");
        check(node, &[("a", ["1", "2Gi", ""])], false, "memory 0.25");
        check(node, &[("a", ["1001m", "2Gi", ""])], false, "cpu 0.25025");
        check(node, &[("a", ["1", "2Gi", ""]), ("b", ["1", "1Gi", ""])], false, "cpu 0.5");
        check(["3", "1", ""], &[("a", ["1", "", ""])], false, "cpu 0.3333333333333333");
        check(["1", "3", ""], &[("a", ["", "1", ""])], false, "memory 0.3333333333333333");
    }

    /// S-SD-2: skipped pods reduce the node's capacity.
    #[test]
    fn skipped_pods_reduce_the_capacity() {
        let (node, pods) = (["4", "8Gi", ""], [("a", ["1", "1Gi", ""]), ("d", ["2", "4Gi", ""])]);
        check(node, &pods, false, "cpu 0.75");
        check(node, &pods, true, "cpu 0.5");
        check(node, &[("d", ["4", "1Gi", ""]), ("a", ["1", "", ""])], true, "cpu inf");
        check(node, &[("t", ["4", "8Gi", ""]), ("a", ["1", "", ""])], false, "cpu 0.25");
    }

    /// S-SD-2
    #[test]
    fn a_node_with_gpus_is_measured_by_them_alone() {
        let pods = [("a", ["3", "7Gi", "1"]), ("d", ["", "", "2"])];
        check(["4", "8Gi", "8"], &pods, false, "gpu 0.375");
        check(["4", "8Gi", "8"], &pods, true, "gpu 0.16666666666666666");
        check(["4", "8Gi", "0"], &pods[..1], false, "memory 0.875");
        check(["", "", "2"], &pods[..1], false, "gpu 0.5");
    }

    #[test]
    fn a_node_without_a_resource_is_not_measured_by_it() {
        check(["", "8Gi", ""], &[], false, "no cpu");
        check(["4", "0", ""], &[], false, "no memory");
    }
}
