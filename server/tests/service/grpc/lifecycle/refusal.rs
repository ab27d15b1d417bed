//! Refused requests: each has a reason, and none changes anything.

use std::path::Path;

use berth_proto::berth_v1::{
    AcquireIdentityRequest, AdvanceFenceRequest, AttachSequenceRequest, AttachVolumeRequest,
    BreakAttachmentRequest, CheckTokenRequest, FenceSequenceRequest, GetFenceRequest,
    GetVolumeRequest, IdentityLockRequest, MultiAttachAllowedRequest, RecordIdentityEventRequest,
};
use berth_server::ledger::{Embedded, Revision};
use berth_server::runtime::{Server, ServerOptions, Shutdown, StartError};
use tonic::Code;

use super::{Caller, account, status};
use crate::grpc::world::{World, eventually, options, violation};

fn with_ledger(path: &Path) -> ServerOptions {
    ServerOptions { ledger: Some(path.to_owned()), ..options() }
}

#[tokio::test]
async fn a_break_by_word_is_recorded_as_such() {
    let world = World::start().await;
    let mut caller = Caller::of(&world, "admin");
    caller.attach("A", "pod1", 0).await;
    let base = caller.break_request("A");
    let tainted = BreakAttachmentRequest { out_of_service_taint: true, ..base.clone() };
    for node_ready in ["", "True"] {
        let request = BreakAttachmentRequest { node_ready: node_ready.into(), ..tainted.clone() };
        assert_eq!(caller.break_attachment(request).await.reason, "FenceRequired");
    }
    let unhealthy = BreakAttachmentRequest { node_ready: "Unknown".into(), ..base.clone() };
    assert_eq!(caller.break_attachment(unhealthy).await.reason, "FenceRequired");
    let down = BreakAttachmentRequest { node_ready: "Unknown".into(), ..tainted };
    let stale = BreakAttachmentRequest { expected_version: Some(7), ..down.clone() };
    assert_eq!(caller.break_attachment(stale).await.reason, "VersionConflict");
    assert_eq!(caller.break_attachment(down.clone()).await.reason, "Broken");
    let again = caller.break_attachment(down).await;
    assert_eq!((again.ok, &*again.reason), (true, "NotAttached"));
    caller.attach("A", "pod2", 2).await;
    let deleted = BreakAttachmentRequest { node_object_deleted: true, ..base };
    assert_eq!(caller.break_attachment(deleted).await.reason, "Broken");
    assert_eq!(
        account(&caller.journal().await),
        [
            ("admin", "volume/pv-1", "Attached", ""),
            ("admin", "volume/pv-1", "Broken", "NodeOutOfService"),
            ("admin", "volume/pv-1", "Attached", ""),
            ("admin", "volume/pv-1", "Broken", "NodeObjectDeleted"),
        ]
    );
}

#[tokio::test]
async fn a_forced_release_needs_to_be_acknowledged_and_is_unsafe() {
    let world = World::start().await;
    let mut user = Caller::of(&world, "jane");
    let token = user.acquire("db-0", "u1", "n1").await.token;
    let refused = user.event("db-0", "u1", "ForceDeletedByUser", 0).await;
    assert_eq!(refused.outcome, "NotReleased");
    assert!(refused.message.contains("two copies of the process may run"), "{}", refused.message);
    let request = RecordIdentityEventRequest {
        namespace: "default".into(),
        name: "db-0".into(),
        uid: "u1".into(),
        r#type: "ForceDeletedByUser".into(),
        acknowledged: true,
        token,
        actor: "jane".into(),
    };
    let released = user.client.record_identity_event(request).await.unwrap().into_inner();
    assert_eq!(released.outcome, "ReleasedUnsafely");
    let second = user.acquire("db-0", "u2", "n2").await;
    assert!(second.record.unwrap().released_unsafely, "it stays known");
    assert_eq!(user.event("db-0", "u1", "RemovedByNodeAgent", token).await.outcome, "StaleUID");
    assert_eq!(user.event("db-0", "u2", "RemovedByPodGC", second.token).await.outcome, "Released");
    let lines = user.journal().await;
    let unsafely: Vec<bool> = lines.iter().map(|line| line.is_unsafe).collect();
    assert_eq!(unsafely, [false, true, false, false]);
    assert_eq!(lines[1].entitlement, "AcknowledgedForceDelete");
    assert_eq!(lines[3].entitlement, "RemovedByPodGC");
}

#[tokio::test]
async fn volumes_are_shared_as_their_modes_allow() {
    let world = World::start().await;
    let mut caller = Caller::of(&world, "agent");
    let mut ask = async |volume: &str, modes: &[&str], node: &str, pod: &str| {
        let request = AttachVolumeRequest {
            volume: volume.into(),
            access_modes: modes.iter().map(|mode| (*mode).into()).collect(),
            node: node.into(),
            pod_uid: pod.into(),
            expected_version: None,
            actor: "agent".into(),
        };
        caller.client.attach_volume(request).await.unwrap().into_inner()
    };
    let first = ask("once", &["ReadWriteOnce"], "A", "p1").await;
    let again = ask("once", &["ReadWriteOnce"], "A", "p1").await;
    assert_eq!((&*again.reason, again.token), ("AlreadyAttached", first.token));
    let beside = ask("once", &[], "A", "p2").await;
    assert_eq!((&*beside.reason, beside.token > first.token), ("Attached", true));
    assert_eq!(ask("once", &[], "B", "p3").await.reason, "HeldByOtherNode");
    assert_eq!(ask("once", &["ReadWriteMany"], "B", "p3").await.reason, "OtherAccessModes");
    assert_eq!(ask("pod", &["ReadWriteOncePod"], "A", "p1").await.reason, "Attached");
    assert_eq!(ask("pod", &["ReadWriteOncePod"], "A", "p2").await.reason, "HeldByOtherPod");
    for node in ["A", "B", "C"] {
        assert!(ask("many", &["ReadOnlyMany"], node, "p1").await.ok);
    }
    let record = ask("many", &[], "C", "p1").await.record.unwrap();
    let tokens: Vec<u64> = record.holders.iter().map(|holder| holder.token).collect();
    assert_eq!((record.version, tokens.len()), (3, 3));
    assert!(tokens.is_sorted() && tokens[0] < tokens[2]);
}

fn check(status: &tonic::Status, field: &str, reason: &str) {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert_eq!(violation(status), (field.to_owned(), reason.to_owned()));
}

#[tokio::test]
async fn bad_requests_about_identities_name_their_field() {
    let world = World::start().await;
    let mut caller = Caller::of(&world, "agent");
    let client = &mut caller.client;
    let acquire = AcquireIdentityRequest {
        namespace: "default".into(),
        name: "db-0".into(),
        uid: "u1".into(),
        node_name: String::new(),
        actor: "me".into(),
    };
    let bad = AcquireIdentityRequest { uid: String::new(), ..acquire.clone() };
    check(&status(client.acquire_identity(bad).await), "uid", "required");
    let bad = AcquireIdentityRequest { namespace: "a/b".into(), ..acquire.clone() };
    check(&status(client.acquire_identity(bad).await), "namespace", "`a/b` may not hold '/'");
    let bad = AcquireIdentityRequest { actor: String::new(), ..acquire.clone() };
    check(&status(client.acquire_identity(bad).await), "actor", "required");
    let bad = AcquireIdentityRequest { name: "x".repeat(300), ..acquire };
    let reason = "has 300 bytes, and at most 253 may be";
    check(&status(client.acquire_identity(bad).await), "name", reason);

    let event = RecordIdentityEventRequest {
        namespace: "default".into(),
        name: "db-0".into(),
        uid: "u1".into(),
        r#type: "Acquire".into(),
        actor: "me".into(),
        ..RecordIdentityEventRequest::default()
    };
    let reason = "is no event: a name is taken with AcquireIdentity";
    check(&status(client.record_identity_event(event.clone()).await), "type", reason);
    let bad = RecordIdentityEventRequest { r#type: "removed".into(), ..event };
    let refused = status(client.record_identity_event(bad).await);
    assert_eq!(violation(&refused).0, "type");
    assert_eq!(caller.journal().await, [], "nothing was recorded");
}

#[tokio::test]
async fn bad_requests_about_volumes_name_their_field() {
    let world = World::start().await;
    let mut caller = Caller::of(&world, "agent");
    let client = &mut caller.client;
    let attach = AttachVolumeRequest {
        volume: "v".into(),
        access_modes: vec!["ReadWriteOnce".into(), "RWX".into()],
        node: "n".into(),
        pod_uid: "u".into(),
        expected_version: None,
        actor: "me".into(),
    };
    let refused = status(client.attach_volume(attach).await);
    assert_eq!(violation(&refused).0, "accessModes[1]");
    let bad = BreakAttachmentRequest {
        volume: "v".into(),
        node: "n".into(),
        node_ready: "Maybe".into(),
        actor: "me".into(),
        ..BreakAttachmentRequest::default()
    };
    assert_eq!(violation(&status(client.break_attachment(bad).await)).0, "nodeReady");
    check(&status(client.get_volume(GetVolumeRequest::default()).await), "volume", "required");
    assert_eq!(caller.journal().await, [], "nothing was recorded");
}

#[tokio::test]
async fn bad_requests_about_fences_and_tokens_name_their_field() {
    let world = World::start().await;
    let mut caller = Caller::of(&world, "agent");
    let client = &mut caller.client;
    let fence = AdvanceFenceRequest {
        node_name: "n".into(),
        r#type: "Decide".into(),
        actor: "me".into(),
        ..AdvanceFenceRequest::default()
    };
    let reason = "required: one of `compute`, `storage`, `network`, `network+storage`";
    check(&status(client.advance_fence(fence.clone()).await), "scope", reason);
    let bad = AdvanceFenceRequest { r#type: "FenceConfirmed".into(), ..fence };
    let reason = "required: of the decision that is confirmed";
    check(&status(client.advance_fence(bad).await), "token", reason);
    check(&status(client.get_fence(GetFenceRequest::default()).await), "nodeName", "required");
    let token = CheckTokenRequest {
        kind: "pod".into(),
        name: "x".into(),
        token: 1,
        ..CheckTokenRequest::default()
    };
    let reason = "unknown value `pod`: not one of `identity`, `volume`, `fence`";
    check(&status(client.check_token(token).await), "kind", reason);
    assert_eq!(caller.journal().await, [], "nothing was recorded");
}

/// Stateless functions name bad fields too.
#[tokio::test]
async fn functions_answer_and_name_bad_fields_too() {
    let world = World::start().await;
    let client = &mut Caller::of(&world, "agent").client;
    let modes = |modes: &[&str]| MultiAttachAllowedRequest {
        access_modes: modes.iter().map(|mode| (*mode).into()).collect(),
    };
    let answer = client.multi_attach_allowed(modes(&["ReadWriteMany"])).await;
    assert!(answer.unwrap().into_inner().allowed);
    let refused = status(client.multi_attach_allowed(modes(&["ReadWriteOnce", "rwx"])).await);
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert_eq!(violation(&refused).0, "accessModes[1]");
    let refused = status(client.identity_lock(IdentityLockRequest::default()).await);
    assert_eq!(violation(&refused), ("lock".into(), "required".into()));
    let refused = status(client.attach_sequence(AttachSequenceRequest::default()).await);
    assert!(violation(&refused).0.starts_with("record"), "{refused:?}");
    let refused = status(client.fence_sequence(FenceSequenceRequest::default()).await);
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
}

#[tokio::test]
async fn a_restart_forgets_nothing_that_is_in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger");
    let world = World::with(with_ledger(&path)).await;
    let token = Caller::of(&world, "me").acquire("db-0", "u1", "n1").await.token;
    let error = Server::start(with_ledger(&path)).await.map(drop).unwrap_err();
    let expected = format!("the ledger `{}` is in use by another process", path.display());
    assert!(error.to_string().starts_with(&expected), "{error}");
    let World { server, .. } = world;
    assert_eq!(server.shutdown().await, Shutdown::Drained);
    // The tasks of its connections end a moment later.
    eventually("the ledger is closed", async || Embedded::open(&path, Revision(0)).is_ok()).await;
    let world = World::with(with_ledger(&path)).await;
    let mut caller = Caller::of(&world, "me");
    let held = caller.acquire("db-0", "u1", "n1").await;
    assert_eq!((&*held.outcome, held.token), ("AlreadyHeld", token));
    assert_eq!(caller.acquire("db-0", "u2", "").await.outcome, "HeldByOther");

    let other = World::start().await;
    assert_eq!(Caller::of(&other, "me").acquire("db-0", "u2", "").await.outcome, "Granted");
    let bad = directory.path().join("bad");
    std::fs::write(&bad, "not a ledger").unwrap();
    let error = Server::start(with_ledger(&bad)).await.map(drop).unwrap_err();
    assert!(matches!(error, StartError::Ledger(_)), "{error}");
    assert!(error.to_string().contains(&format!("`{}` is not a ledger", bad.display())), "{error}");
}
