//! Roles that depend on the fields of a request, beyond the minimum role of its method.

use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    AcquireIdentityRequest, AdvanceFenceRequest, BatchEntry, Gang, ListLedgerRecordsRequest,
    PlaceBatchRequest, PlaceError, PlaceMode, PlaceStreamRequest, PodKey, PreemptRequest,
    RecordIdentityEventRequest, SessionServiceCommitRequest, SessionServiceOpenRequest,
    place_result,
};
use berth_server::auth::Role;
use berth_server::runtime::{ForceDeletion, ServerOptions};
use tonic::{Code, Status};

use crate::roles::world::{TOKENS, World, bound, by, check_denied, node, pod};

#[tokio::test]
async fn to_assume_takes_a_scheduler() {
    let world = World::with_nodes().await;
    for has in [Role::Reader, Role::Feeder, Role::Lifecycle] {
        let status = world.place(has.name(), "p", PlaceMode::Assume, "").await.unwrap_err();
        check_denied(&status, has.name(), Role::Scheduler);
        assert!(world.place(has.name(), "p", PlaceMode::DryRun, "").await.is_ok());
    }
    assert_eq!(world.server.cluster().snapshot().n_assumed(), 0);
    assert!(world.place("scheduler", "a", PlaceMode::Assume, "").await.is_ok());
    assert!(world.place("admin", "b", PlaceMode::Assume, "").await.is_ok());
    assert_eq!(world.server.cluster().snapshot().n_assumed(), 2);
}

fn batch(name: &str, mode: PlaceMode, gang: Option<Gang>) -> PlaceBatchRequest {
    let entries = vec![BatchEntry { pod: Some(pod(name).into()), replicas: 1 }];
    PlaceBatchRequest { entries, mode: mode as i32, gang, ..PlaceBatchRequest::default() }
}

#[tokio::test]
async fn to_assume_a_batch_or_a_gang_takes_a_scheduler() {
    let world = World::with_nodes().await;
    for gang in [None, Some(Gang::default())] {
        let name = if gang.is_some() { "gang" } else { "batch" };
        let request = |mode| batch(name, mode, gang);
        let mut client = world.placement();
        let denied = client.place_batch(by("reader", request(PlaceMode::Assume))).await;
        check_denied(&denied.unwrap_err(), "reader", Role::Scheduler);
        assert!(client.place_batch(by("reader", request(PlaceMode::DryRun))).await.is_ok());
        assert!(client.place_batch(by("scheduler", request(PlaceMode::Assume))).await.is_ok());
    }
    assert_eq!(world.server.cluster().snapshot().n_assumed(), 2);
}

/// Each message of a stream is authorized on its own.
#[tokio::test]
async fn a_stream_is_authorized_message_by_message() {
    let world = World::with_nodes().await;
    let request = |sequence, mode: PlaceMode| PlaceStreamRequest {
        sequence,
        entries: vec![BatchEntry { pod: Some(pod("p").into()), replicas: 1 }],
        mode: mode as i32,
        ..PlaceStreamRequest::default()
    };
    let requests = [
        request(1, PlaceMode::DryRun),
        request(2, PlaceMode::Assume),
        request(3, PlaceMode::DryRun),
    ];
    let stream = by("reader", tokio_stream::iter(requests));
    let mut answers = world.placement().place_stream(stream).await.unwrap().into_inner();
    let mut errors = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        let result = answer.results[0].result.as_ref().unwrap();
        errors.push(match result {
            place_result::Result::Decision(_) => None,
            place_result::Result::Error(error) => Some(error.clone()),
        });
    }
    let denied = PlaceError {
        code: Code::PermissionDenied as i32,
        message: "permission denied: user `reader` needs the role `scheduler`".to_owned(),
        field: String::new(),
    };
    assert_eq!(errors, [None, Some(denied), None]);
    assert_eq!(world.server.cluster().snapshot().n_assumed(), 0);
}

#[tokio::test]
async fn to_promise_a_node_takes_a_scheduler() {
    let world = World::with_nodes().await;
    let preempt = async |user: &str, nominate| -> Result<(), Status> {
        let request = PreemptRequest { pod: Some(pod("p")), nominate, ..PreemptRequest::default() };
        world.preemption().preempt(by(user, request)).await.map(|_| ())
    };
    check_denied(&preempt("reader", true).await.unwrap_err(), "reader", Role::Scheduler);
    assert!(preempt("reader", false).await.is_ok());
    assert!(preempt("scheduler", true).await.is_ok());
}

fn delete(name: &str) -> Change {
    let uid = format!("uid-{name}");
    Change::DeletePod(PodKey { namespace: "default".to_owned(), name: name.to_owned(), uid })
}

#[tokio::test]
async fn a_scheduler_gives_back_what_it_assumed_and_changes_nothing_else() {
    let world = World::with_nodes().await;
    world.feed([Change::UpsertPod(bound("bound", "n0")), Change::UpsertPod(pod("waits"))]).await;
    for name in ["a", "b"] {
        world.place("scheduler", name, PlaceMode::Assume, "").await.unwrap();
    }
    let upsert = || Change::UpsertNode(node("n2"));
    for changes in [vec![], vec![upsert()], vec![delete("a"), upsert()]] {
        let status = world.apply("scheduler", changes).await.unwrap_err();
        check_denied(&status, "scheduler", Role::Feeder);
    }
    for user in [Role::Reader, Role::Lifecycle] {
        let status = world.apply(user.name(), [delete("a")]).await.unwrap_err();
        check_denied(&status, user.name(), Role::Scheduler);
    }
    let snapshot = || world.server.cluster().snapshot();
    assert_eq!((snapshot().n_assumed(), snapshot().n_nodes()), (2, 2));
    let changes = [delete("bound"), delete("a"), delete("waits"), delete("unknown")];
    let answer = world.apply("scheduler", changes).await.unwrap();
    let refused: Vec<_> = answer.rejections.iter().map(|refused| refused.index).collect();
    assert_eq!(refused, [0, 2]);
    let refused = &answer.rejections[0];
    assert_eq!(refused.object, "Pod `default/bound`");
    assert!(refused.reason.contains("without the role `feeder`"), "{refused:?}");
    assert_eq!(answer.generation, snapshot().generation().get());
    assert_eq!((snapshot().n_pods(), snapshot().n_assumed(), snapshot().n_pending()), (2, 1, 1));
    // A feeder may delete all of them.
    world.feed([delete("bound"), delete("b"), delete("waits")]).await;
    assert_eq!((snapshot().n_pods(), snapshot().n_pending()), (0, 0));
}

#[tokio::test]
async fn to_commit_a_session_takes_a_scheduler() {
    let world = World::with_nodes().await;
    for (user, is_allowed) in [("reader", false), ("feeder", false), ("scheduler", true)] {
        let open = by(user, SessionServiceOpenRequest {});
        let session_id = world.session().open(open).await.unwrap().into_inner().session_id;
        // Every caller may assume pods in a session of its own.
        world.place(user, user, PlaceMode::Assume, &session_id).await.unwrap();
        let commit = by(user, SessionServiceCommitRequest { session_id, ..Default::default() });
        let committed = world.session().commit(commit).await;
        match is_allowed {
            true => assert_eq!(committed.unwrap().into_inner().n_assumed_pods, 1),
            false => check_denied(&committed.unwrap_err(), user, Role::Scheduler),
        }
    }
    assert_eq!(world.server.cluster().snapshot().n_assumed(), 1);
}

#[tokio::test]
async fn to_use_force_takes_an_administrator() {
    let world = World::start().await;
    let identity = |r#type: &str, acknowledged| RecordIdentityEventRequest {
        namespace: "default".to_owned(),
        name: "db-0".to_owned(),
        uid: "u".to_owned(),
        r#type: r#type.to_owned(),
        acknowledged,
        token: 0,
        actor: "test".to_owned(),
    };
    let mut client = world.lifecycle();
    let acquire = AcquireIdentityRequest {
        namespace: "default".to_owned(),
        name: "db-0".to_owned(),
        uid: "u".to_owned(),
        actor: "test".to_owned(),
        ..AcquireIdentityRequest::default()
    };
    client.acquire_identity(by("lifecycle", acquire)).await.unwrap();
    for acknowledged in [true, false] {
        let forced = by("lifecycle", identity("ForceDeletedByUser", acknowledged));
        let status = client.record_identity_event(forced).await.unwrap_err();
        check_denied(&status, "lifecycle", Role::Admin);
    }
    let request = by("lifecycle", identity("NodeUnreachable", false));
    assert_eq!(
        client.record_identity_event(request).await.unwrap().into_inner().outcome,
        "NotReleased"
    );
    let forced = by("admin", identity("ForceDeletedByUser", true));
    let released = client.record_identity_event(forced).await.unwrap().into_inner();
    assert_eq!(released.outcome, "ReleasedUnsafely");

    let fence = |r#type: &str, scope: &str| AdvanceFenceRequest {
        node_name: "n0".to_owned(),
        r#type: r#type.to_owned(),
        scope: scope.to_owned(),
        actor: "test".to_owned(),
        ..AdvanceFenceRequest::default()
    };
    let broken = by("lifecycle", fence("BreakAttachment", ""));
    check_denied(&client.advance_fence(broken).await.unwrap_err(), "lifecycle", Role::Admin);
    let decided = by("lifecycle", fence("Decide", "compute"));
    assert_eq!(client.advance_fence(decided).await.unwrap().into_inner().outcome, "Ok");
    assert!(client.advance_fence(by("admin", fence("BreakAttachment", ""))).await.is_ok());
}

/// L-GRANT-5, L-GRANT-3: with `forceDeletion: owner` the user who acquired a name may release it by force, and nobody
/// else of the role. The journal names users, whatever actor they claim to be.
#[tokio::test]
async fn by_policy_the_owner_may_use_force() {
    let world = World::with(|options, directory| {
        let tokens = format!("{TOKENS}token-of-mate,mate,9,berth:lifecycle\n");
        std::fs::write(directory.path().join("tokens.csv"), tokens).unwrap();
        ServerOptions { force_deletion: ForceDeletion::Owner, ..options }
    })
    .await;
    let mut client = world.lifecycle();
    let acquire = AcquireIdentityRequest {
        namespace: "default".to_owned(),
        name: "db-0".to_owned(),
        uid: "u".to_owned(),
        actor: "admin".to_owned(),
        ..AcquireIdentityRequest::default()
    };
    let force = |acknowledged| RecordIdentityEventRequest {
        namespace: "default".to_owned(),
        name: "db-0".to_owned(),
        uid: "u".to_owned(),
        r#type: "ForceDeletedByUser".to_owned(),
        acknowledged,
        token: 0,
        actor: "admin".to_owned(),
    };
    let granted = client.acquire_identity(by("lifecycle", acquire.clone())).await.unwrap();
    assert_eq!(granted.into_inner().record.unwrap().acquired_by, "lifecycle");
    // Another user who reports the node does not become the owner.
    let node = AcquireIdentityRequest { node_name: "n1".to_owned(), ..acquire.clone() };
    let held = client.acquire_identity(by("mate", node)).await.unwrap().into_inner();
    assert_eq!(held.record.unwrap().acquired_by, "lifecycle");
    let refused = client.record_identity_event(by("mate", force(true))).await.unwrap_err();
    check_denied(&refused, "mate", Role::Admin);
    let asked = client.record_identity_event(by("lifecycle", force(false))).await.unwrap();
    assert_eq!(asked.into_inner().outcome, "NotReleased", "not acknowledged");
    let released = client.record_identity_event(by("lifecycle", force(true))).await.unwrap();
    assert_eq!(released.into_inner().outcome, "ReleasedUnsafely");
    client.acquire_identity(by("mate", acquire)).await.unwrap();
    let released = client.record_identity_event(by("admin", force(true))).await.unwrap();
    assert_eq!(released.into_inner().outcome, "ReleasedUnsafely", "admin may always");

    let listed = client.list_ledger_records(by("reader", ListLedgerRecordsRequest::default()));
    let lines = listed.await.unwrap().into_inner().records;
    let actors: Vec<&str> = lines.iter().map(|line| &*line.actor).collect();
    assert_eq!(actors, ["lifecycle", "mate", "lifecycle", "mate", "admin"]);
    assert!(lines.iter().all(|line| line.claimed_actor == "admin"));
}
