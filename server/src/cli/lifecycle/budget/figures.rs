//! The figures of one budget, over the pods and controllers of the files.

use berth_engine::ModelError;
use berth_engine::lifecycle::disruption;
use berth_proto::Time;
use berth_proto::berth_v1::{PdbStatusRequest, PdbStatusResponse, ScaledController};
use berth_proto::core_v1::Pod;
use berth_proto::meta_v1::ObjectMeta;
use berth_proto::policy_v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use serde::Serialize;

use crate::cli::output;
use crate::feed::file::{Located, WrittenObject};

/// A budget and its figures.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    /// Name of the budget, `namespace/name`.
    budget: String,
    #[serde(flatten)]
    status: PdbStatusResponse,
}

/// Indexes in `pods` of those in the budget's namespace.
pub(super) fn places(budget: &PodDisruptionBudget, pods: &[Located<Pod>]) -> Vec<usize> {
    let namespace = namespace_of(budget.metadata.as_ref());
    let is_there = |place: &usize| namespace_of(pods[*place].value.metadata.as_ref()) == namespace;
    (0..pods.len()).filter(is_there).collect()
}

/// Computes the figures of `budget` over the pods at `places`, which are those of its namespace.
///
/// # Errors
/// The budget, one of its pods or one of their controllers is refused.
pub(super) fn of(
    budget: &PodDisruptionBudget,
    pods: &[Located<Pod>],
    places: &[usize],
    controllers: &[(String, ScaledController)],
    now: Time,
) -> Result<Figures, ModelError> {
    let namespace = namespace_of(budget.metadata.as_ref());
    let request = PdbStatusRequest {
        pdb: Some(budget.clone()),
        pods: places.iter().map(|place| pods[*place].value.clone()).collect(),
        controllers: controllers
            .iter()
            .filter(|(of, _)| of == namespace)
            .map(|(_, controller)| controller.clone())
            .collect(),
        now: Some(now),
    };
    let status = disruption::pdb_status(&request)?;
    let name = budget.metadata.as_ref().map_or("", |metadata| metadata.name.as_str());
    Ok(Figures { budget: format!("{namespace}/{name}"), status })
}

impl Figures {
    /// The budget as its controller would update it: with these figures, computed for its present spec.
    pub(super) fn write_into(&self, mut budget: PodDisruptionBudget) -> PodDisruptionBudget {
        let generation = budget.metadata.as_ref().map_or(0, |metadata| metadata.generation);
        let narrow = |figure: i64| i32::try_from(figure).unwrap_or(i32::MAX);
        let figures = &self.status;
        budget.status = Some(PodDisruptionBudgetStatus {
            observed_generation: generation,
            disrupted_pods: figures.disrupted_pods.clone(),
            disruptions_allowed: narrow(figures.disruptions_allowed),
            current_healthy: narrow(figures.current_healthy),
            desired_healthy: narrow(figures.desired_healthy),
            expected_pods: narrow(figures.expected_pods),
            ..budget.status.unwrap_or_default()
        });
        budget
    }
}

/// The controllers with their number of replicas, each with its namespace. Without a number, one replica counts.
pub(super) fn controllers(objects: &[WrittenObject]) -> Vec<(String, ScaledController)> {
    let scaled = |metadata: Option<&ObjectMeta>, kind: &str, replicas: Option<i32>| {
        let metadata = metadata?;
        let controller = ScaledController {
            kind: kind.to_owned(),
            name: metadata.name.clone(),
            uid: metadata.uid.clone(),
            scale: replicas.unwrap_or(1),
        };
        Some((namespace_of(Some(metadata)).to_owned(), controller))
    };
    let read = |object: &WrittenObject| match object {
        WrittenObject::ReplicaSet(set) => {
            let replicas = set.spec.as_ref().and_then(|spec| spec.replicas);
            scaled(set.metadata.as_ref(), "ReplicaSet", replicas)
        }
        WrittenObject::StatefulSet(set) => {
            let replicas = set.spec.as_ref().and_then(|spec| spec.replicas);
            scaled(set.metadata.as_ref(), "StatefulSet", replicas)
        }
        WrittenObject::ReplicationController(controller) => {
            let replicas = controller.spec.as_ref().and_then(|spec| spec.replicas);
            scaled(controller.metadata.as_ref(), "ReplicationController", replicas)
        }
        _ => None,
    };
    objects.iter().filter_map(read).collect()
}

fn namespace_of(metadata: Option<&ObjectMeta>) -> &str {
    match metadata.map_or("", |metadata| metadata.namespace.as_str()) {
        "" => "default",
        namespace => namespace,
    }
}

/// Table of the figures, a row per budget.
pub(super) fn table(figures: &[Figures]) -> String {
    let headings = ["BUDGET", "HEALTHY", "DESIRED", "EXPECTED", "ALLOWED", "REASON", "MESSAGE"];
    let mut table = output::Table::new(&headings).wrapping(6);
    for Figures { budget, status } in figures {
        let condition = status.condition.clone().unwrap_or_default();
        let [reason, message] = [condition.reason, condition.message]
            .map(|cell| if cell.is_empty() { "-".to_owned() } else { cell });
        table.add_row([
            budget.clone(),
            status.current_healthy.to_string(),
            status.desired_healthy.to_string(),
            status.expected_pods.to_string(),
            status.disruptions_allowed.to_string(),
            reason,
            message,
        ]);
    }
    table.text()
}
