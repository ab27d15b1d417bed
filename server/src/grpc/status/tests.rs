//! Tests of the status of each failure.

use super::*;
use crate::ledger::Contradiction;
use berth_engine::ModelError;

#[test]
fn a_bad_field_is_named_in_the_details() {
    let status = Status::from(CallError::field("spec.priority", "must be small"));
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status.message(), "`spec.priority`: must be small");
    let details = status.get_error_details();
    let violations = &details.bad_request().unwrap().field_violations;
    assert_eq!(
        (violations[0].field.as_str(), violations[0].description.as_str()),
        ("spec.priority", "must be small")
    );
}

#[test]
fn engine_errors_have_the_documented_codes() {
    let check = |error: EngineError, code: Code| assert_eq!(CallError::from(error).code(), code);
    check(EngineError::SchedulerError { message: "x".into() }, Code::FailedPrecondition);
    check(
        EngineError::AlreadyPlaced { pod: PodKey::new("ns", "p"), node: "n".into() },
        Code::AlreadyExists,
    );
    check(EngineError::Cancelled, Code::Cancelled);
}

#[test]
fn details_name_the_pods_node() {
    let placed = EngineError::AlreadyPlaced { pod: PodKey::new("ns", "p"), node: "n1".into() };
    let status = Status::from(CallError::from(placed));
    assert_eq!(status.get_error_details().resource_info().unwrap().resource_name, "ns/p");
}

#[test]
fn a_ledger_that_is_not_available_says_when_to_try_again() {
    let of = |error: LedgerError| Status::from(CallError::from(GrantError::Ledger(error)));
    let status = of(LedgerError::Unavailable { reason: "no leader".to_owned() });
    assert_eq!(status.code(), Code::Unavailable);
    let details = status.get_error_details();
    assert_eq!(details.retry_info().unwrap().retry_delay, Some(LEDGER_RETRY));
    let damaged = of(LedgerError::Damaged { reason: "torn".to_owned() });
    assert_eq!(damaged.code(), Code::DataLoss);
    assert!(damaged.get_error_details().retry_info().is_none());
}

#[test]
fn transport_trouble_becomes_the_callers_trouble() {
    let large = of_transport(Status::out_of_range("decoded message length too large"), 1024);
    assert_eq!(large.code(), Code::ResourceExhausted);
    assert_eq!(large.message(), "the message is larger than the limit of 1024 bytes");
    let garbage = of_transport(
        Status::internal(
            "failed to decode Protobuf message: ObjectMeta.name: Pod.metadata: PlaceRequest.pod: \
             invalid string value: data is not UTF-8 encoded",
        ),
        1,
    );
    assert_eq!(
        (garbage.code(), garbage.message()),
        (
            Code::InvalidArgument,
            "the message cannot be decoded: `pod.metadata.name`: the text is not UTF-8"
        )
    );
    let plain = of_transport(Status::internal("failed to decode Protobuf message: a: b.c"), 1);
    assert_eq!(plain.message(), "the message cannot be decoded: a: b.c");
    assert_eq!(of_transport(Status::internal("other"), 1).code(), Code::Internal);
    assert_eq!(of_transport(Status::unavailable("gone"), 1).code(), Code::Unavailable);
}

#[test]
fn texts_from_outside_are_clipped_and_escaped() {
    let long = "ж".repeat(20_000);
    let status =
        Status::from(CallError::field("spec.schedulerName", format!("no profile `{long}`")));
    assert_eq!(
        status.message(),
        format!("`spec.schedulerName`: no profile `{}…`", "ж".repeat(200))
    );
    let status = Status::from(CallError::field(format!("metadata.labels[{long}]"), long));
    assert!(status.message().len() < 1_100, "{}", status.message().len());
    assert!(status.details().len() < 2_500, "{}", status.details().len());
    let error = CallError::field("metadata.name", "`a\nb\u{1b}[31m` is bad").to_place_error();
    assert_eq!(error.message, "`metadata.name`: `a\\nb\\u{1b}[31m` is bad");
}

#[test]
fn a_refused_commit_names_the_pod_and_the_reason() {
    let (pod, node) = (PodKey::new("ns", "p"), std::sync::Arc::<str>::from("n1"));
    let check = |error: CommitError, reason: &str, metadata: &[(&str, &str)]| {
        let message = error.to_string();
        let status = Status::from(CallError::NotCommitted(error));
        assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, &*message));
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!(info.reason, reason);
        let expected: HashMap<String, String> =
            metadata.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        assert_eq!(info.metadata, expected);
    };
    check(CommitError::AlreadyCommitted, "ALREADY_COMMITTED", &[]);
    check(CommitError::NotAFork, "NOT_A_FORK", &[]);
    let already = CommitError::AlreadyPlaced { pod: pod.clone(), node: node.clone() };
    check(already, "ALREADY_PLACED", &[("pod", "ns/p"), ("node", "n1")]);
    let ground = Ground::Pods;
    let text = ground.to_string();
    let metadata = [("pod", "ns/p"), ("node", "n1"), ("ground", text.as_str())];
    let changed = CommitError::Changed { pod: pod.clone(), node: node.clone(), ground };
    check(changed, "CHANGED", &metadata);
    check(CommitError::Hypothetical { pod, node, ground }, "HYPOTHETICAL", &metadata);
}

#[test]
fn missing_sessions_and_too_many_sessions_have_different_statuses() {
    let check = |error: CallError, code: Code, reason: Option<&str>| {
        let status = Status::from(error);
        let details = status.get_error_details();
        let info = details.error_info().map(|info| info.reason.as_str());
        assert_eq!((status.code(), info), (code, reason));
    };
    check(CallError::NoSuchSession { id: "x".into() }, Code::NotFound, None);
    let many = CallError::TooManySessions { limit: 1 };
    check(many, Code::ResourceExhausted, Some("TOO_MANY_SESSIONS"));
    let large = CallError::SessionTooLarge { limit: 1 };
    check(large, Code::ResourceExhausted, Some("SESSION_TOO_LARGE"));
}

#[test]
fn a_refused_grant_names_its_reason() {
    let check = |error: GrantError, code: Code, reason: Option<&str>| {
        let status = Status::from(CallError::from(error));
        let details = status.get_error_details();
        let info = details.error_info().map(|info| info.reason.as_str());
        assert_eq!((status.code(), info), (code, reason));
    };
    let key = crate::ledger::Key::volume("v");
    check(GrantError::Contended { key }, Code::Aborted, Some("LEDGER_CONTENDED"));
    let holders = GrantError::TooManyHolders { limit: 1 };
    check(holders, Code::ResourceExhausted, Some("TOO_MANY_HOLDERS"));
    check(GrantError::Full { limit: 1 }, Code::ResourceExhausted, Some("LEDGER_FULL"));
    check(GrantError::TooLarge { limit: 1 }, Code::ResourceExhausted, Some("LEDGER_FULL"));
    let claim = Contradiction { field: "podGone", reason: "it runs".to_owned() };
    check(claim.into(), Code::FailedPrecondition, Some("CLAIM_CONTRADICTED"));
    let user = "jane".to_owned();
    check(GrantError::NotOwner { user }, Code::PermissionDenied, Some("ROLE_MISSING"));
    let lost = LedgerError::Unavailable { reason: "no space".into() };
    check(lost.into(), Code::Unavailable, Some("LEDGER_UNAVAILABLE"));
    let damaged = LedgerError::Damaged { reason: "torn".into() };
    check(damaged.into(), Code::DataLoss, Some("LEDGER_DAMAGED"));
    check(ModelError::new("actor", "required").into(), Code::InvalidArgument, None);
}
