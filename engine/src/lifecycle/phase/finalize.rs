//! The statuses of a pod's containers in the last step before its object is removed (L-PHASE-12).

use berth_proto::berth_v1::FinalStatuses;
use berth_proto::core_v1::{ContainerState, ContainerStatus, Pod};

use crate::lifecycle::container_state::{self, Member, Observed, Roster};
use crate::lifecycle::vocabulary::ContainerKind;
use crate::model::ModelError;

/// Statuses to record of the containers of a pod that is being removed, in listing order (L-CSTATE-15). A container
/// without a final state is recorded as terminated with exit code 137 and reason `ContainerStatusUnknown` (L-PHASE-12).
/// This applies to app containers if the pod had initialised, and to init containers up to the last one that ever
/// started. All others keep their status.
///
/// # Errors
/// [`ModelError`] relative to the pod, as [`decide`](super::decide).
pub fn final_statuses(pod: &Pod) -> Result<FinalStatuses, ModelError> {
    let roster = Roster::of(pod)?;
    let is_initialized = is_initialized(&roster);
    let n_started = roster.init().iter().rposition(has_started).map_or(0, |last| last + 1);
    let app = roster.app().iter().filter_map(|member| last_status(member, is_initialized));
    let mut container_statuses: Vec<ContainerStatus> = app.collect();
    container_state::sort_app_statuses(&mut container_statuses);
    let init = roster.init().iter().enumerate();
    let init = init.filter_map(|(at, member)| last_status(member, at < n_started));
    Ok(FinalStatuses { container_statuses, init_container_statuses: init.collect() })
}

/// Whether the pod had initialised: it has no init containers, one of its app containers ever started, or every init
/// container has completed, or started if it is a sidecar.
fn is_initialized(roster: &Roster<'_>) -> bool {
    let is_done = |member: &Member<'_>| match member.kind {
        ContainerKind::Sidecar => member.is_started(),
        _ => matches!(member.observed, Some(Observed::Ended { exit_code: 0, .. })),
    };
    roster.app().iter().any(has_started) || roster.init().iter().all(is_done)
}

fn has_started(member: &Member<'_>) -> bool {
    matches!(member.observed, Some(Observed::Running | Observed::Ended { .. }))
}

/// The status to record; `None` without a status for a container that cannot have run.
fn last_status(member: &Member<'_>, may_have_run: bool) -> Option<ContainerStatus> {
    let status = member.pair.status().cloned();
    let is_final = matches!(member.observed, Some(Observed::Ended { is_waiting: false, .. }));
    if is_final || !may_have_run {
        return status;
    }
    let terminated = Some(container_state::lost("its pod was removed"));
    Some(ContainerStatus {
        name: member.name().to_owned(),
        state: Some(ContainerState { terminated, ..ContainerState::default() }),
        ready: false,
        started: Some(false),
        ..status.unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pod: &str) -> Vec<String> {
        let pod: Pod = serde_json::from_str(pod).unwrap();
        let statuses = final_statuses(&pod).unwrap();
        let all = statuses.container_statuses.iter().chain(&statuses.init_container_statuses);
        let line = |status: &ContainerStatus| {
            let state = status.state.clone().unwrap_or_default();
            let end = state.terminated.map(|end| format!("{} {}", end.exit_code, end.reason));
            format!("{}: {}", status.name, end.unwrap_or_else(|| "no end".to_owned()))
        };
        all.map(line).collect()
    }

    /// L-PHASE-12, L-CSTATE-15: sorted by name; one of the containers has no status.
    #[test]
    fn containers_without_a_final_state_are_recorded_as_lost() {
        let found = check(
            r#"{"spec":{"containers":[{"name":"b"},{"name":"c"},{"name":"a"}]},"status":{"containerStatuses":[
            {"name":"b","state":{"running":{}},"ready":true},
            {"name":"c","state":{"terminated":{"exitCode":3,"reason":"Error"}}}]}}"#,
        );
        let lost = "137 ContainerStatusUnknown";
        assert_eq!(found, [format!("a: {lost}"), format!("b: {lost}"), "c: 3 Error".to_owned()]);
    }

    /// L-PHASE-12
    #[test]
    fn app_containers_of_a_pod_that_never_initialised_keep_their_status() {
        let found = check(
            r#"{"spec":{"containers":[{"name":"a"}],"initContainers":[{"name":"i"},{"name":"j"},{"name":"k"}]},
            "status":{"containerStatuses":[{"name":"a","state":{"waiting":{}}}],"initContainerStatuses":[
            {"name":"i","state":{"terminated":{"exitCode":0,"reason":"Completed"}}},
            {"name":"j","state":{"running":{}}},{"name":"k","state":{"waiting":{}}}]}}"#,
        );
        assert_eq!(
            found,
            ["a: no end", "i: 0 Completed", "j: 137 ContainerStatusUnknown", "k: no end"]
        );
    }

    /// L-PHASE-12: every init container has completed, but no app container ever started.
    #[test]
    fn an_initialised_pod_whose_app_never_started() {
        let found = check(
            r#"{"spec":{"containers":[{"name":"a"}],"initContainers":[{"name":"i"},{"name":"s","restartPolicy":"Always"}]},
            "status":{"initContainerStatuses":[{"name":"i","state":{"terminated":{"exitCode":0,"reason":"Completed"}}},
            {"name":"s","state":{"running":{}},"started":true}]}}"#,
        );
        let lost = "137 ContainerStatusUnknown";
        assert_eq!(
            found,
            [format!("a: {lost}"), "i: 0 Completed".to_owned(), format!("s: {lost}")]
        );
    }
}
