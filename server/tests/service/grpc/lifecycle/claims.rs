//! Claims about pods and nodes are compared with the server's own cluster (L-GRANT-1, L-GRANT-2), and volumes without
//! access modes are exclusive (L-GRANT-4).

use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    AcquireIdentityRequest, ApplyRequest, AttachVolumeRequest, BreakAttachmentRequest, Delta,
    RecordIdentityEventRequest,
};
use berth_proto::core_v1;
use serde_json::json;
use tonic::{Code, Status};

use super::{Caller, status};
use crate::grpc::world::{World, bound, key, node, node_of};

fn contradicts(status: &Status, expected: &str) {
    assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
    assert_eq!(status.message(), format!("this server's cluster contradicts {expected}"));
}

async fn apply(world: &mut World, change: Change) {
    let request = ApplyRequest { deltas: vec![Delta { change: Some(change) }] };
    let applied = world.cluster.apply(request).await.unwrap().into_inner();
    assert_eq!(applied.rejections, []);
}

/// A node with the out-of-service taint, perhaps ready.
fn dead(name: &str, is_ready: bool) -> core_v1::Node {
    let status = if is_ready { "True" } else { "Unknown" };
    node_of(json!({
        "metadata": {"name": name},
        "spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]},
        "status": {"conditions": [{"type": "Ready", "status": status}]},
    }))
}

#[tokio::test]
async fn a_node_that_exists_was_not_deleted() {
    let mut world = World::start().await;
    let mut caller = Caller::of(&world, "admin");
    apply(&mut world, Change::UpsertNode(node("a", "4"))).await;
    caller.attach("a", "pod1", 0).await;
    let base = caller.break_request("a");
    let deleted = BreakAttachmentRequest { node_object_deleted: true, ..base.clone() };
    let refused = status(caller.client.break_attachment(deleted.clone()).await);
    contradicts(&refused, "`nodeObjectDeleted`: node `a` is in the cluster");
    let down =
        BreakAttachmentRequest { out_of_service_taint: true, node_ready: "False".into(), ..base };
    let refused = status(caller.client.break_attachment(down.clone()).await);
    let expected = "`outOfServiceTaint`: node `a` has no taint `node.kubernetes.io/out-of-service`";
    contradicts(&refused, expected);
    apply(&mut world, Change::UpsertNode(dead("a", true))).await;
    let refused = status(caller.client.break_attachment(down.clone()).await);
    contradicts(&refused, "`nodeReady`: node `a` is ready");
    assert_eq!(caller.journal().await.len(), 1, "only the attachment");
    apply(&mut world, Change::UpsertNode(dead("a", false))).await;
    let broken = caller.break_attachment(down).await;
    assert_eq!((&*broken.reason, broken.verified), ("Broken", Some(true)));

    caller.attach("a", "pod2", 2).await;
    apply(&mut world, Change::DeleteNode("a".into())).await;
    let broken = caller.break_attachment(deleted.clone()).await;
    assert_eq!((&*broken.reason, broken.verified), ("Broken", Some(true)));
    let again = caller.break_attachment(deleted).await;
    assert_eq!((&*again.reason, again.verified), ("NotAttached", None));
    let verified: Vec<_> = caller.journal().await.iter().map(|line| line.verified).collect();
    assert_eq!(verified, [Some(false), Some(true), Some(false), Some(true)]);
}

/// A fence is the ledger's own record, so nothing is claimed.
#[tokio::test]
async fn a_fence_needs_no_claim() {
    let mut world = World::start().await;
    let mut caller = Caller::of(&world, "admin");
    apply(&mut world, Change::UpsertNode(node("a", "4"))).await;
    caller.attach("a", "pod1", 0).await;
    let token = caller.decide("a", "storage").await;
    assert_eq!(caller.confirm("a", token).await.verified, Some(false), "nobody sees a fence");
    let deleted = BreakAttachmentRequest { node_object_deleted: true, ..caller.break_request("a") };
    let broken = caller.break_attachment(deleted).await;
    assert_eq!((&*broken.reason, broken.verified), ("Broken", None));
    let lines = caller.journal().await;
    assert_eq!(lines[3].entitlement, "FenceConfirmed");
}

#[tokio::test]
async fn a_pod_that_runs_is_not_gone() {
    let mut world = World::start().await;
    let mut caller = Caller::of(&world, "agent");
    apply(&mut world, Change::UpsertNode(node("a", "4"))).await;
    apply(&mut world, Change::UpsertPod(bound("db-0", "1", "a"))).await;
    let acquire = |uid: &str, node: &str| AcquireIdentityRequest {
        namespace: "default".into(),
        name: "db-0".into(),
        uid: uid.into(),
        node_name: node.into(),
        actor: "agent".into(),
    };
    let refused = status(caller.client.acquire_identity(acquire("u2", "")).await);
    contradicts(&refused, "`uid`: pod `default/db-0` on node `a` has the uid `uid-db-0`");
    let refused = status(caller.client.acquire_identity(acquire("uid-db-0", "b")).await);
    contradicts(&refused, "`nodeName`: pod `default/db-0` is on node `a`");
    let granted = caller.acquire("db-0", "uid-db-0", "a").await;
    assert_eq!((&*granted.outcome, granted.verified), ("Granted", Some(true)));
    let event = |r#type: &str| RecordIdentityEventRequest {
        namespace: "default".into(),
        name: "db-0".into(),
        uid: "uid-db-0".into(),
        r#type: r#type.into(),
        acknowledged: true,
        actor: "agent".into(),
        ..RecordIdentityEventRequest::default()
    };
    for r#type in ["RemovedByPodGC", "RemovedByNodeAgent"] {
        let refused = status(caller.client.record_identity_event(event(r#type)).await);
        let expected = "`type`: pod `default/db-0` of uid `uid-db-0` is in the cluster on node `a`";
        contradicts(&refused, expected);
    }
    let attached = caller.attach("a", "uid-db-0", 0).await;
    assert_eq!((attached.ok, attached.verified), (true, Some(true)));
    let detach = caller.detach_request("a", "uid-db-0", attached.token);
    let refused = status(caller.client.detach_volume(detach.clone()).await);
    contradicts(&refused, "`podGone`: the pod of uid `uid-db-0` is on node `a`");

    apply(&mut world, Change::DeletePod(key("db-0"))).await;
    let detached = caller.detach(detach).await;
    assert_eq!((&*detached.reason, detached.verified), ("Detached", Some(true)));
    let released = caller.event("db-0", "uid-db-0", "RemovedByPodGC", 0).await;
    assert_eq!((&*released.outcome, released.verified), ("Released", Some(true)));
}

/// The user has acknowledged that the pod may run, so its object is no contradiction.
#[tokio::test]
async fn a_forced_release_may_precede_the_deletion() {
    let mut world = World::start().await;
    let mut caller = Caller::of(&world, "jane");
    apply(&mut world, Change::UpsertNode(node("a", "4"))).await;
    apply(&mut world, Change::UpsertPod(bound("db-0", "1", "a"))).await;
    caller.acquire("db-0", "uid-db-0", "a").await;
    let request = RecordIdentityEventRequest {
        namespace: "default".into(),
        name: "db-0".into(),
        uid: "uid-db-0".into(),
        r#type: "ForceDeletedByUser".into(),
        acknowledged: true,
        actor: "jane".into(),
        ..RecordIdentityEventRequest::default()
    };
    let released = caller.client.record_identity_event(request).await.unwrap().into_inner();
    assert_eq!((&*released.outcome, released.verified), ("ReleasedUnsafely", Some(false)));
}

/// Without a feed everything is the caller's word, in the answer and in the journal; requests that change nothing claim
/// nothing.
#[tokio::test]
async fn without_a_feed_the_caller_is_believed() {
    let world = World::start().await;
    let mut caller = Caller::of(&world, "admin");
    assert_eq!(caller.acquire("db-0", "u1", "a").await.verified, Some(false));
    assert_eq!(caller.acquire("db-0", "u1", "a").await.verified, None);
    assert_eq!(caller.event("db-0", "u1", "NodeUnreachable", 0).await.verified, None);
    assert_eq!(caller.event("db-0", "u1", "RemovedByPodGC", 0).await.verified, Some(false));
    let attached = caller.attach("a", "pod1", 0).await;
    assert_eq!(attached.verified, Some(false));
    let deleted = BreakAttachmentRequest { node_object_deleted: true, ..caller.break_request("a") };
    assert_eq!(caller.break_attachment(deleted).await.verified, Some(false));
    caller.attach("a", "pod2", 2).await;
    let detach = caller.detach_request("a", "pod2", 0);
    assert_eq!(caller.detach(detach).await.verified, Some(false));
    let lines = caller.journal().await;
    assert_eq!(lines.len(), 6);
    assert!(lines.iter().all(|line| line.verified == Some(false)), "{lines:?}");
    // On a server without authentication the user is nobody in particular.
    assert!(lines.iter().all(|line| line.actor == "anonymous" && line.claimed_actor == "admin"));
}

#[tokio::test]
async fn a_volume_without_access_modes_is_exclusive() {
    let world = World::start().await;
    let mut caller = Caller::of(&world, "agent");
    let mut attach = async |modes: &[&str], node: &str, pod: &str| {
        let request = AttachVolumeRequest {
            volume: "v".into(),
            access_modes: modes.iter().map(|mode| (*mode).into()).collect(),
            node: node.into(),
            pod_uid: pod.into(),
            expected_version: None,
            actor: "agent".into(),
        };
        let answer = caller.client.attach_volume(request).await.unwrap().into_inner();
        (answer.reason, answer.record.unwrap().access_modes)
    };
    let once = || vec!["ReadWriteOnce".to_owned()];
    assert_eq!(attach(&[], "A", "p1").await, ("Attached".to_owned(), once()));
    assert_eq!(attach(&[], "B", "p2").await, ("HeldByOtherNode".to_owned(), once()));
    assert_eq!(attach(&[], "A", "p3").await, ("Attached".to_owned(), once()));
    assert_eq!(attach(&["ReadWriteMany"], "B", "p2").await.0, "OtherAccessModes");
    assert_eq!(attach(&["ReadWriteOnce"], "A", "p4").await.0, "Attached");
}
