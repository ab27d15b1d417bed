//! Evictions: deletions that the pod's disruption budget must allow (recordings 10, 17).

use std::ops::Bound;

use serde_json::{Value, json};

use crate::call::Call;
use crate::clock::time;
use crate::condition::{condition_status, set_condition};
use crate::deletion::check_preconditions;
use crate::field;
use crate::resource::{PODS, Resource, of_kind};
use crate::response::ApiResponse;
use crate::selector::selects_labels;
use crate::status::Refusal;
use crate::store::{State, Store, key};
use crate::stored::Stored;
use crate::target::Target;
use crate::write::found;

/// Limit of the pods in `disruptedPods`, above which the budget refuses further evictions.
const MAX_DISRUPTED: usize = 2_000;

/// Handles a POST of `pods/NAME/eviction`.
pub(crate) fn evict(
    store: &Store,
    target: &Target,
    name: &str,
    call: &Call,
) -> Result<ApiResponse, Refusal> {
    let eviction = call.object_of_kind("Eviction", "policy/v1")?;
    let said = field::text(&eviction, "metadata.name");
    if !said.is_empty() && said != name {
        return Err(Refusal::bad_request("name in URL does not match name in Eviction object"));
    }
    let empty = json!({});
    let options = eviction.get("deleteOptions").filter(|given| given.is_object()).unwrap_or(&empty);
    let is_dry_run = call.is_dry_run() || options["dryRun"] == json!(["All"]);
    let mut state = store.lock();
    let stored = found(&state, target, name)?;
    let mut pod = stored.to_plain();
    let needs_budget = needs_budget(&pod);
    if needs_budget {
        state.ask_budget(&target.namespace, name, &stored, &pod, is_dry_run)?;
    }
    check_preconditions(PODS, name, &pod, options)?;
    if is_dry_run {
        return Ok(ApiResponse::success(201));
    }
    let key = key(PODS, &target.namespace, name);
    if field::at(&pod, "metadata.deletionTimestamp").is_null() {
        set_condition(
            &mut pod,
            json!({
                "type": "DisruptionTarget", "status": "True", "lastProbeTime": null,
                "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
            }),
        );
        state.put(PODS, &key, pod);
    }
    state.delete(PODS, &key, options)?;
    Ok(ApiResponse::success(201))
}

/// Whether a pod needs no budget, because it does not run or is already being deleted.
fn needs_budget(pod: &Value) -> bool {
    field::at(pod, "metadata.deletionTimestamp").is_null()
        && !matches!(field::text(pod, "status.phase"), "Pending" | "Succeeded" | "Failed")
}

impl State {
    /// Takes a disruption from the pod's budget, if it has one. As in the real server, it stays taken even if the
    /// eviction fails later (recording 17).
    fn ask_budget(
        &mut self,
        namespace: &str,
        name: &str,
        stored: &Stored,
        pod: &Value,
        is_dry_run: bool,
    ) -> Result<(), Refusal> {
        let Some(row) = of_kind("PodDisruptionBudget") else { return Ok(()) };
        let mut budgets = self.budgets(row, namespace, stored);
        if budgets.len() > 1 {
            let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Refusal::internal(message));
        }
        let Some((key, mut budget)) = budgets.pop() else { return Ok(()) };
        let status = &budget["status"];
        let count = |field: &str| status[field].as_i64().unwrap_or(0);
        let is_healthy =
            count("currentHealthy") >= count("desiredHealthy") && count("desiredHealthy") > 0;
        let lets_unready_go =
            field::text(&budget, "spec.unhealthyPodEvictionPolicy") == "AlwaysAllow" || is_healthy;
        if condition_status(pod, "Ready") != "True" && lets_unready_go {
            return Ok(());
        }
        check_budget(&budget)?;
        if is_dry_run {
            return Ok(());
        }
        spend(&mut budget, name);
        self.put(row, &key, budget);
        Ok(())
    }

    fn budgets(&self, row: &Resource, namespace: &str, pod: &Stored) -> Vec<(String, Value)> {
        let prefix = format!("{namespace}/");
        let from = (Bound::Included(prefix.as_str()), Bound::Unbounded);
        let all = self.collection(row).objects().range::<str, _>(from);
        all.take_while(|(key, _)| key.starts_with(&prefix))
            .map(|(key, budget)| (key.to_string(), budget.to_plain()))
            .filter(|(_, budget)| selects_labels(&budget["spec"]["selector"], pod))
            .collect()
    }
}

fn check_budget(budget: &Value) -> Result<(), Refusal> {
    let name = field::text(budget, "metadata.name");
    let status = &budget["status"];
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let generation = budget["metadata"]["generation"].as_i64().unwrap_or(0);
    if count("observedGeneration") < generation {
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        return Err(Refusal::disruption_budget(&cause).retry_after(10));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
        let Some(row) = of_kind("PodDisruptionBudget") else { return Ok(()) };
        return Err(Refusal::forbidden(
            row,
            name,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    if count("disruptionsAllowed") > 0 {
        return Ok(());
    }
    let (healthy, desired) = (count("currentHealthy"), count("desiredHealthy"));
    Err(Refusal::disruption_budget(&if healthy <= desired {
        format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )
    } else {
        format!("The disruption budget {name} does not allow evicting pods currently")
    }))
}

/// Decrements the allowed disruptions, and adds the pod to `disruptedPods`.
fn spend(budget: &mut Value, pod: &str) {
    let allowed = budget["status"]["disruptionsAllowed"].as_i64().unwrap_or(0) - 1;
    let generation = budget["metadata"]["generation"].clone();
    let status = field::object(budget, "status");
    status.insert("disruptionsAllowed".into(), allowed.into());
    field::object(&mut budget["status"], "disruptedPods").insert(pod.into(), time(0).into());
    let (value, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    set_condition(
        budget,
        json!({
            "type": "DisruptionAllowed", "status": value, "observedGeneration": generation,
            "reason": reason, "message": "",
        }),
    );
}
