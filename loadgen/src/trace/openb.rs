//! The openb format: Alibaba's GPU cluster trace of 2023, a file of nodes and a file of tasks.
//!
//! Nodes: `sn,cpu_milli,memory_mib,gpu,model`. Tasks: `name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,…,
//! creation_time,deletion_time,…`. GPUs become the extended resource [`GPU_RESOURCE`] in thousandths.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use berth_proto::core_v1::{Node, NodeStatus, Pod};
use berth_proto::meta_v1::ObjectMeta;
use berth_synthetic::object::{
    Requests, count_quantity, cpu_quantity, label_in, mebibyte_quantity, pod,
    required_node_affinity,
};

use super::rows::{self, Row};
use super::{Amounts, Task, Trace, TraceError, TraceNode};

/// Extended resource of GPUs, in thousandths of one.
pub const GPU_RESOURCE: &str = "alibabacloud.com/gpu-milli";

/// Label that holds a node's GPU model.
pub const GPU_MODEL_LABEL: &str = "alibabacloud.com/gpu-card-model";

/// Namespace of every task.
pub const NAMESPACE: &str = "openb";

/// Pods that a node admits; the trace does not record it.
const PODS_PER_NODE: i64 = 110;

/// Reads both files, each plain or gzipped. Tasks are sorted by creation, then by file order.
pub fn read(nodes: &Path, pods: &Path) -> Result<Trace, TraceError> {
    let nodes = read_nodes(nodes, rows::open(nodes)?)?;
    let tasks = read_tasks(pods, rows::open(pods)?)?;
    Ok(Trace { nodes, tasks })
}

/// Reads the nodes of an open source; errors name it as `path`.
pub fn read_nodes(path: &Path, source: impl Read) -> Result<Vec<TraceNode>, TraceError> {
    let mut names = BTreeSet::new();
    let columns = ["sn", "cpu_milli", "memory_mib", "gpu", "model"];
    rows::read_from(path, source, &columns, |row| {
        node(row).and_then(|node| once(row, "sn", &mut names, &node.name).map(|()| node))
    })
}

/// Reads the tasks of an open source, sorted by creation, then by source order; errors name it as `path`.
pub fn read_tasks(path: &Path, source: impl Read) -> Result<Vec<Task>, TraceError> {
    let columns = [
        "name",
        "cpu_milli",
        "memory_mib",
        "num_gpu",
        "gpu_milli",
        "gpu_spec",
        "creation_time",
        "deletion_time",
    ];
    let mut names = BTreeSet::new();
    let mut tasks = rows::read_from(path, source, &columns, |row| {
        task(row).and_then(|task| once(row, "name", &mut names, &task.name).map(|()| task))
    })?;
    tasks.sort_by_key(|task| task.creation_time);
    Ok(tasks)
}

fn once(
    row: &Row<'_>,
    column: &'static str,
    names: &mut BTreeSet<String>,
    name: &str,
) -> Result<(), TraceError> {
    if names.insert(name.to_owned()) {
        Ok(())
    } else {
        Err(row.error(column, &format!("`{name}` occurs twice")))
    }
}

fn node(row: &Row<'_>) -> Result<TraceNode, TraceError> {
    Ok(TraceNode {
        name: row.name("sn")?.to_owned(),
        allocatable: Amounts {
            cpu_milli: row.amount("cpu_milli")?,
            memory_mib: row.amount("memory_mib")?,
            gpu_milli: row.amount("gpu")? * 1000,
            pods: PODS_PER_NODE,
        },
        gpu_model: Some(row.text("model")).filter(|model| !model.is_empty()).map(str::to_owned),
    })
}

fn task(row: &Row<'_>) -> Result<Task, TraceError> {
    let creation_time =
        row.integer("creation_time")?.ok_or_else(|| row.error("creation_time", "is empty"))?;
    let gpu_models: Vec<String> = match row.text("gpu_spec") {
        "" => Vec::new(),
        models => models.split('|').map(|model| model.trim().to_owned()).collect(),
    };
    if gpu_models.iter().any(String::is_empty) {
        return Err(row.error("gpu_spec", "names an empty model"));
    }
    Ok(Task {
        name: row.name("name")?.to_owned(),
        requests: Amounts {
            cpu_milli: row.amount("cpu_milli")?,
            memory_mib: row.amount("memory_mib")?,
            gpu_milli: row.amount("num_gpu")? * row.amount("gpu_milli")?,
            pods: 1,
        },
        gpu_models,
        creation_time,
        deletion_time: row.integer("deletion_time")?,
    })
}

impl TraceNode {
    /// The node as a Kubernetes object.
    pub fn to_wire(&self) -> Node {
        let mut metadata = ObjectMeta { name: self.name.clone(), ..ObjectMeta::default() };
        metadata.labels.insert("kubernetes.io/hostname".to_owned(), self.name.clone());
        if let Some(model) = &self.gpu_model {
            metadata.labels.insert(GPU_MODEL_LABEL.to_owned(), model.clone());
        }
        let mut status = NodeStatus::default();
        let Amounts { cpu_milli, memory_mib, gpu_milli, pods } = self.allocatable;
        let mut resource =
            |name: &str, quantity| status.allocatable.insert(name.to_owned(), quantity);
        resource("cpu", cpu_quantity(cpu_milli));
        resource("memory", mebibyte_quantity(memory_mib));
        resource("pods", count_quantity(pods));
        if gpu_milli > 0 {
            resource(GPU_RESOURCE, count_quantity(gpu_milli));
        }
        Node { metadata: Some(metadata), status: Some(status), ..Node::default() }
    }
}

impl Task {
    /// The task as a pending pod.
    pub fn to_wire(&self) -> Pod {
        let Amounts { cpu_milli, memory_mib, gpu_milli, .. } = self.requests;
        let extended = (gpu_milli > 0).then_some((GPU_RESOURCE, gpu_milli));
        let requests = Requests { cpu_milli, memory_mib, extended };
        let mut pod = pod(NAMESPACE, &self.name, &self.name, "", requests);
        if !self.gpu_models.is_empty() {
            let affinity =
                required_node_affinity(label_in(GPU_MODEL_LABEL, self.gpu_models.iter().cloned()));
            pod.spec.get_or_insert_default().affinity = Some(affinity);
        }
        pod
    }
}

#[cfg(test)]
mod tests;
