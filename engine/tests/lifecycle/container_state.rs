//! Restart counts for any sequence of container states that a runtime reports, forgets or counts.

use berth_engine::lifecycle::container_state::derive_container_state;
use berth_proto::Time;
use berth_proto::berth_v1::{
    ContainerRuntimeRecord, ContainerStartError, DeriveContainerStateRequest,
};
use berth_proto::core_v1::{Container, ContainerStatus};
use proptest::prelude::*;

/// Generates one observation of a container through its runtime.
fn observation() -> impl Strategy<Value = DeriveContainerStateRequest> {
    let state = prop::sample::select(vec!["Created", "Running", "Exited", "Unknown"]);
    let count = prop_oneof![8 => 0..5i32, 1 => Just(i32::MAX)];
    let record = (state, prop::sample::select(vec![0, 1, 137]), count).prop_map(
        |(state, code, restart_count)| ContainerRuntimeRecord {
            state: state.to_owned(),
            exit_code: (state == "Exited").then_some(code),
            started_at: Some(Time::from_unix_seconds(0)),
            restart_count,
            ..ContainerRuntimeRecord::default()
        },
    );
    let kind = prop::sample::select(vec!["regular", "init", "sidecar"]);
    let policy = prop::sample::select(vec!["Always", "OnFailure", "Never"]);
    let flags = prop::array::uniform4(any::<bool>());
    (prop::option::of(record), kind, policy, flags, any::<bool>()).prop_map(
        |(runtime, kind, policy, flags, has_error)| {
            let [has_init, deleting, any_created, is_pending] = flags;
            let own = (kind == "sidecar").then(|| "Always".to_owned());
            DeriveContainerStateRequest {
                container: Some(Container {
                    name: "app".to_owned(),
                    restart_policy: own,
                    ..Container::default()
                }),
                kind: kind.to_owned(),
                pod_restart_policy: policy.to_owned(),
                pod_has_init_containers: has_init,
                pod_deleting: deleting,
                any_regular_container_created: any_created,
                runtime,
                old: None,
                start_error: has_error.then(|| ContainerStartError {
                    reason: "CrashLoopBackOff".to_owned(),
                    message: String::new(),
                }),
                post_start: if is_pending { "Pending" } else { "Done" }.to_owned(),
            }
        },
    )
}

proptest! {
    #![proptest_config(super::config(512, 23))]

    /// L-CSTATE-1, L-CSTATE-12, L-TEST-9: whatever a runtime reports, forgets or counts, a restart count never
    /// decreases, and a state is one of three.
    #[test]
    fn restart_counts_never_fall(observations in prop::collection::vec(observation(), 1..20)) {
        let mut old: Option<ContainerStatus> = None;
        for observation in observations {
            let mut request = observation;
            request.old.clone_from(&old);
            let answer = derive_container_state(&request).unwrap();
            let count = old.as_ref().map_or(0, |old| old.restart_count);
            prop_assert!(answer.restart_count >= count, "{:?} {:?}", &request, &answer);
            let state = answer.state.clone().unwrap();
            let n_states = usize::from(state.waiting.is_some())
                + usize::from(state.running.is_some())
                + usize::from(state.terminated.is_some());
            prop_assert_eq!(n_states, 1);
            old = Some(ContainerStatus {
                name: "app".to_owned(),
                state: answer.state,
                last_state: answer.last_state,
                restart_count: answer.restart_count,
                ..ContainerStatus::default()
            });
        }
    }
}
