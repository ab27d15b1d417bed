//! Cases that the worked examples leave out.

use super::*;

/// The response to a request about an app container of an `Always` pod, overridden by `fields`:
/// `STATE (lastState …, nTH restart)`.
fn check(fields: &str) -> String {
    let request: DeriveContainerStateRequest = serde_json::from_str(&format!(
        r#"{{"container":{{"name":"app"}},"kind":"regular","podRestartPolicy":"Always",{fields}}}"#
    ))
    .unwrap();
    match derive_container_state(&request) {
        Ok(answer) => {
            let last = answer.last_state.map_or("nothing".to_owned(), |last| text(&last));
            format!("{} after {last}, {}", text(&answer.state.unwrap()), answer.restart_count)
        }
        Err(error) => error.to_string(),
    }
}

fn text(state: &ContainerState) -> String {
    match (&state.waiting, &state.running, &state.terminated) {
        (Some(waiting), None, None) => format!("waiting `{}`", waiting.reason),
        (None, Some(_), None) => "running".to_owned(),
        (None, None, Some(end)) => format!("ended {} `{}`", end.exit_code, end.reason),
        state => panic!("{state:?}"),
    }
}

/// An end as JSON.
const ENDED: &str = r#"{"terminated":{"exitCode":3,"reason":"Error"}}"#;

/// L-CSTATE-12: a runtime that lost its restart count, and one that loses the same container twice.
#[test]
fn restart_counts_never_fall() {
    let fresh =
        r#""runtime":{"state":"Running","restartCount":0},"old":{"name":"app","restartCount":7}"#;
    assert_eq!(check(fresh), "running after nothing, 7");
    let lost = r#""runtime":{"state":"Unknown","restartCount":1},
        "old":{"restartCount":2,"state":{"terminated":{"exitCode":137,"reason":"ContainerStatusUnknown"}}}"#;
    assert_eq!(check(lost), "waiting `` after ended 137 `ContainerStatusUnknown`, 2");
    let most =
        r#""runtime":{"state":"Unknown"},"old":{"restartCount":2147483647,"state":{"running":{}}}"#;
    assert_eq!(check(most), "ended 137 `ContainerStatusUnknown` after nothing, 2147483647");
}

/// The end of an earlier instance becomes the last state; the end of the current instance does not.
#[test]
fn last_states() {
    let with = |runtime: &str, old_count: i32| {
        let old = format!(
            r#"{{"restartCount":{old_count},"state":{ENDED},"lastState":{{"terminated":{{"exitCode":4}}}}}}"#
        );
        check(&format!(r#""runtime":{runtime},"old":{old}"#))
    };
    let exited = r#"{"state":"Exited","exitCode":0,"restartCount":1}"#;
    assert_eq!(
        with(r#"{"state":"Running","restartCount":1}"#, 0),
        "running after ended 3 `Error`, 1"
    );
    assert_eq!(with(exited, 0), "ended 0 `` after ended 3 `Error`, 1");
    assert_eq!(with(exited, 1), "ended 0 `` after ended 4 ``, 1");
    assert_eq!(
        with(r#"{"state":"Created","restartCount":1}"#, 0),
        "waiting `` after ended 3 `Error`, 1"
    );
}

/// L-CSTATE-4: without a published state, the fallback; with one, all of it.
#[test]
fn running_is_not_shown_before_its_hook_has_ended() {
    let pending = r#""runtime":{"state":"Running","restartCount":2},"postStart":"Pending""#;
    assert_eq!(check(pending), "waiting `ContainerCreating` after nothing, 2");
    let after_crash = format!(r#"{pending},"old":{{"restartCount":1,"state":{ENDED}}}"#);
    assert_eq!(check(&after_crash), "ended 3 `Error` after nothing, 1");
    let nothing_published = format!(r#"{pending},"old":{{"restartCount":1}}"#);
    assert_eq!(check(&nothing_published), "waiting `ContainerCreating` after nothing, 1");
    let failed = r#""runtime":{"state":"Exited","exitCode":137,"reason":"Error"},
        "startError":{"reason":"PostStartHookError"}"#;
    assert_eq!(check(failed), "waiting `PostStartHookError` after ended 137 `Error`, 0");
}

/// L-CSTATE-7: if there is a last state already, nothing is inferred, as in v1.36.2; a recorded end is kept whole.
#[test]
fn records_that_vanish() {
    let running =
        format!(r#""old":{{"restartCount":3,"state":{{"running":{{}}}},"lastState":{ENDED}}}"#);
    assert_eq!(check(&running), "waiting `ContainerCreating` after ended 3 `Error`, 3");
    let waiting =
        format!(r#""old":{{"restartCount":3,"state":{{"waiting":{{}}}},"lastState":{ENDED}}}"#);
    assert_eq!(check(&waiting), "waiting `ContainerCreating` after ended 3 `Error`, 3");
    let ended = format!(
        r#""old":{{"restartCount":3,"state":{ENDED},"lastState":{{"terminated":{{"exitCode":4}}}}}}"#
    );
    assert_eq!(check(&ended), "ended 3 `Error` after ended 4 ``, 3");
}

/// L-CSTATE-8, L-CSTATE-11: an init container that must have completed shows no start error; a sidecar never counts as
/// completed.
#[test]
fn init_containers_without_any_record() {
    let gone = |kind: &str, old: &str| {
        check(&format!(
            r#""kind":"{kind}","podHasInitContainers":true,"anyRegularContainerCreated":true,"old":{old},
            "startError":{{"reason":"CrashLoopBackOff"}}"#
        ))
    };
    assert_eq!(gone("init", "null"), "ended 0 `Completed` after nothing, 0");
    assert_eq!(
        gone("init", r#"{"state":{"running":{}}}"#),
        "ended 0 `Completed` after ended 137 `ContainerStatusUnknown`, 1"
    );
    assert_eq!(
        gone("init", &format!(r#"{{"state":{ENDED}}}"#)),
        "waiting `CrashLoopBackOff` after ended 3 `Error`, 0"
    );
    assert_eq!(gone("sidecar", "null"), "waiting `CrashLoopBackOff` after nothing, 0");
}

/// L-CSTATE-7, L-CSTATE-11, L-CSTATE-13: when the runtime's record is gone, the recorded end decides what a start error
/// means.
#[test]
fn a_recorded_end_outlives_the_runtimes_record() {
    let gone = |kind: &str, policy: &str, code: i32| {
        check(&format!(
            r#""kind":"{kind}","podRestartPolicy":"{policy}","startError":{{"reason":"ErrImagePull"}},
            "old":{{"restartCount":1,"state":{{"terminated":{{"exitCode":{code},"reason":"R"}}}}}}"#
        ))
    };
    assert_eq!(gone("init", "Always", 0), "ended 0 `R` after nothing, 1");
    assert_eq!(gone("init", "Always", 5), "waiting `ErrImagePull` after ended 5 `R`, 1");
    assert_eq!(gone("regular", "Never", 5), "ended 5 `R` after nothing, 1");
    assert_eq!(gone("regular", "OnFailure", 0), "ended 0 `R` after nothing, 1");
    assert_eq!(gone("regular", "Always", 0), "waiting `ErrImagePull` after ended 0 `R`, 1");
}

/// L-CSTATE-10: a running container has no start to fail; a lost one has.
#[test]
fn start_errors_are_shown_where_a_start_is_due() {
    let with = |runtime: &str| {
        check(&format!(
            r#""podRestartPolicy":"Never","runtime":{runtime},"startError":{{"reason":"RunContainerError"}}"#
        ))
    };
    assert_eq!(with(r#"{"state":"Running"}"#), "running after nothing, 0");
    assert_eq!(with(r#"{"state":"Created"}"#), "waiting `RunContainerError` after nothing, 0");
    assert_eq!(with(r#"{"state":"Unknown"}"#), "waiting `RunContainerError` after nothing, 0");
    let again = r#"{"state":"Exited","exitCode":5,"reason":"RestartingAllContainers"}"#;
    assert_eq!(
        with(again),
        "waiting `RunContainerError` after ended 5 `RestartingAllContainers`, 0"
    );
}

/// L-CSTATE-9: every reason of the list is accepted, and no other.
#[test]
fn start_errors_have_known_reasons() {
    for reason in StartErrorReason::WORDS {
        let shown = check(&format!(r#""startError":{{"reason":"{reason}"}}"#));
        assert_eq!(shown, format!("waiting `{reason}` after nothing, 0"));
    }
    assert!(
        check(r#""startError":{"reason":"Bad"}"#)
            .starts_with("`startError.reason`: unknown value `Bad`")
    );
}

/// L-CSTATE-2, L-CSTATE-3, L-CSTATE-5, L-CSTATE-6, L-CSTATE-14: the runtime's record is shown at once; a process that
/// ends by itself waits for no hook.
#[test]
fn runtime_states() {
    let nothing = r#""podHasInitContainers":HAS"#;
    assert_eq!(
        check(&nothing.replace("HAS", "true")),
        "waiting `PodInitializing` after nothing, 0"
    );
    assert_eq!(
        check(&nothing.replace("HAS", "false")),
        "waiting `ContainerCreating` after nothing, 0"
    );
    let with = |record: &str| {
        check(&format!(
            r#""container":{{"name":"app","lifecycle":{{"preStop":{{"sleep":{{"seconds":9}}}}}}}},"runtime":{record},
            "old":{{"state":{{"running":{{}}}},"restartCount":4}}"#
        ))
    };
    assert_eq!(with(r#"{"state":"Created","restartCount":5}"#), "waiting `` after nothing, 5");
    assert_eq!(
        with(r#"{"state":"Unknown","restartCount":4}"#),
        "ended 137 `ContainerStatusUnknown` after nothing, 5"
    );
    let exited = r#"{"state":"Exited","exitCode":2,"reason":"Error","restartCount":4}"#;
    assert_eq!(with(exited), "ended 2 `Error` after nothing, 4");
}

/// L-CSTATE-1
#[test]
fn bad_input_is_named() {
    let cases = [
        (r#""container":null"#, "`container`: required"),
        (
            r#""runtime":{}"#,
            "`runtime.state`: required: one of `Created`, `Running`, `Exited`, `Unknown`",
        ),
        (r#""runtime":{"state":"Exited"}"#, "`runtime.exitCode`: required in state `Exited`"),
        (
            r#""runtime":{"state":"Running","exitCode":7}"#,
            "`runtime.exitCode`: is `7` in state `Running`",
        ),
        (
            r#""runtime":{"state":"Created","finishedAt":"2026-01-10T12:00:00Z"}"#,
            "`runtime.finishedAt`: is given in state `Created`",
        ),
        (
            r#""runtime":{"state":"Exited","exitCode":0,"startedAt":"2026-01-10T12:00:00Z","finishedAt":"2026-01-10T11:59:59Z"}"#,
            "`runtime.finishedAt`: is before `startedAt`",
        ),
        (
            r#""runtime":{"state":"Running","restartCount":-1}"#,
            "`runtime.restartCount`: `-1` is negative",
        ),
        (r#""old":{"restartCount":-1}"#, "`old.restartCount`: `-1` is negative"),
        (r#""old":{"name":"db"}"#, "`old.name`: `db` is not the container `app`"),
        (
            r#""old":{"state":{"running":{},"waiting":{}}}"#,
            "`old.state`: is waiting and running at once",
        ),
        (
            r#""old":{"lastState":{"running":{},"waiting":{}}}"#,
            "`old.lastState`: is waiting and running at once",
        ),
        (
            r#""postStart":"done""#,
            "`postStart`: unknown value `done`: not one of `Done`, `Pending`",
        ),
    ];
    for (fields, expected) in cases {
        assert_eq!(check(fields), expected);
    }
}
