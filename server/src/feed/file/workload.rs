//! Workloads in files: objects that stand for pods.

use berth_engine::workload::{Workload, WorkloadKind};

use super::written::WrittenObject;

/// Reads the JSON of one object of `kind`.
pub(super) fn parse(kind: WorkloadKind, json: &str) -> serde_json::Result<Workload> {
    Ok(match kind {
        WorkloadKind::CronJob => Workload::CronJob(serde_json::from_str(json)?),
        WorkloadKind::DaemonSet => Workload::DaemonSet(serde_json::from_str(json)?),
        WorkloadKind::Deployment => Workload::Deployment(serde_json::from_str(json)?),
        WorkloadKind::Job => Workload::Job(serde_json::from_str(json)?),
        WorkloadKind::PodTemplate => Workload::PodTemplate(serde_json::from_str(json)?),
        WorkloadKind::ReplicaSet => Workload::ReplicaSet(serde_json::from_str(json)?),
        WorkloadKind::ReplicationController => {
            Workload::ReplicationController(serde_json::from_str(json)?)
        }
        WorkloadKind::StatefulSet => Workload::StatefulSet(serde_json::from_str(json)?),
    })
}

impl WrittenObject {
    /// The object as a workload, if it is one: a ReplicationController, a ReplicaSet or a StatefulSet.
    ///
    /// # Errors
    /// The object itself, if it is of another kind.
    pub(crate) fn into_workload(self) -> Result<Workload, WrittenObject> {
        match self {
            WrittenObject::ReplicationController(object) => {
                Ok(Workload::ReplicationController(object))
            }
            WrittenObject::ReplicaSet(object) => Ok(Workload::ReplicaSet(object)),
            WrittenObject::StatefulSet(object) => Ok(Workload::StatefulSet(object)),
            other => Err(other),
        }
    }

    /// The workload as an object that placements depend on; `None` for other kinds.
    pub(crate) fn from_workload(workload: Workload) -> Option<WrittenObject> {
        match workload {
            Workload::ReplicationController(object) => {
                Some(WrittenObject::ReplicationController(object))
            }
            Workload::ReplicaSet(object) => Some(WrittenObject::ReplicaSet(object)),
            Workload::StatefulSet(object) => Some(WrittenObject::StatefulSet(object)),
            Workload::CronJob(_)
            | Workload::DaemonSet(_)
            | Workload::Deployment(_)
            | Workload::Job(_)
            | Workload::PodTemplate(_) => None,
        }
    }
}
