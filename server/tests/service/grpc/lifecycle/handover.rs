//! A volume moves from a pod on one node to its replacement on another, step by step (L-VOL-14), also when the first
//! node is cut off in between (L-VOL-15).

use super::{Caller, account};
use crate::grpc::world::World;
use berth_proto::berth_v1::{AdvanceFenceRequest, DetachVolumeRequest, LedgerRecord};

/// Steps 1 to 11 as the ledger sees them: node A holds the volume for pod 1, and pod 2 waits for it on node B. Returns
/// the token of pod 1.
async fn up_to_step_11(agent_a: &mut Caller, agent_b: &mut Caller) -> u64 {
    // 1 to 4: the volume and the first pod are created and bound. 5: the agent of the pod's node waits for the volume.
    let waiting = agent_a.may_start("A", "pod1").await;
    assert_eq!((waiting.ok, &*waiting.reason), (false, "WaitForAttach"));
    // 6: attached by compare-and-swap. 7: started.
    let attached = agent_a.attach("A", "pod1", 0).await;
    assert_eq!((attached.ok, &*attached.reason), (true, "Attached"));
    let started = agent_a.may_start("A", "pod1").await;
    assert_eq!((started.ok, started.token), (true, attached.token));
    // 8: pod 1 is deleted, but still exists.
    let request = agent_a.detach_request("A", "pod1", attached.token);
    let early = agent_a.detach(DetachVolumeRequest { pod_gone: false, ..request }).await;
    assert_eq!((early.ok, &*early.reason), (false, "PodStillExists"));
    // 9 and 10: pod 2 is created and bound to node B. 11: its agent waits for the detach.
    let waiting = agent_b.may_start("B", "pod2").await;
    assert_eq!((waiting.ok, &*waiting.reason, waiting.token), (false, "WaitForDetach", 0));
    let refused = agent_b.attach("B", "pod2", 1).await;
    assert_eq!((refused.ok, &*refused.reason, refused.token), (false, "HeldByOtherNode", 0));
    attached.token
}

#[tokio::test]
async fn the_fifteen_steps() {
    let world = World::start().await;
    let mut agent_a = Caller::of(&world, "agent/A");
    let mut agent_b = Caller::of(&world, "agent/B");
    let first = up_to_step_11(&mut agent_a, &mut agent_b).await;
    // 12: the agent of node A ends pod 1. The attachment is kept while the volume is, or may be, mounted.
    let request = agent_a.detach_request("A", "pod1", first);
    for mounted in [Some(true), None] {
        let refused = agent_a.detach(DetachVolumeRequest { mounted, ..request.clone() }).await;
        assert_eq!((refused.ok, &*refused.reason), (false, "StillMounted"));
    }
    // 13: detached by compare-and-swap.
    let detached = agent_a.detach(request).await;
    assert_eq!((detached.ok, &*detached.reason), (true, "Detached"));
    assert_eq!(detached.record.unwrap().version, 2);
    // 14: attached by compare-and-swap, which refuses a request with an older version. 15: started.
    let refused = agent_b.attach("B", "pod2", 1).await;
    assert_eq!((refused.ok, &*refused.reason), (false, "VersionConflict"));
    let attached = agent_b.attach("B", "pod2", 2).await;
    assert_eq!((attached.ok, attached.record.as_ref().unwrap().version), (true, 3));
    assert!(attached.token > first, "tokens grow");
    assert!(agent_b.may_start("B", "pod2").await.ok);
    assert_eq!(
        account(&agent_b.journal().await),
        [
            ("agent/A", "volume/pv-1", "Attached", ""),
            ("agent/A", "volume/pv-1", "Detached", "PodGoneAndUnmounted"),
            ("agent/B", "volume/pv-1", "Attached", ""),
        ]
    );
}

#[tokio::test]
async fn a_partition_after_step_11_waits_for_the_fence() {
    let world = World::start().await;
    let mut agent_a = Caller::of(&world, "agent/A");
    let mut agent_b = Caller::of(&world, "agent/B");
    let mut controller = Caller::of(&world, "fencing-controller");
    let first = up_to_step_11(&mut agent_a, &mut agent_b).await;
    // Node A is cut off: step 12 does not happen, and only a fence can give pod 2 the volume.
    let refused = |reason: &str| assert_eq!(reason, "FenceRequired");
    refused(&controller.break_attachment(controller.break_request("A")).await.reason);
    let token = controller.decide("A", "storage").await;
    refused(&controller.break_attachment(controller.break_request("A")).await.reason);
    let accepted = controller.fence(controller.fence_request("A", "FenceAccepted")).await;
    assert_eq!((&*accepted.outcome, &*accepted.record.unwrap().state), ("Ok", "Fencing"));
    refused(&controller.break_attachment(controller.break_request("A")).await.reason);
    assert_eq!(agent_b.attach("B", "pod2", 1).await.reason, "HeldByOtherNode");
    assert_eq!(agent_b.may_start("B", "pod2").await.reason, "WaitForDetach");
    // A fence of another node does not count.
    let other = controller.decide("C", "compute").await;
    assert_eq!(controller.confirm("C", other).await.outcome, "Ok");
    refused(&controller.break_attachment(controller.break_request("A")).await.reason);

    assert_eq!(controller.confirm("A", token).await.record.unwrap().state, "Fenced");
    // Replaces steps 12 and 13.
    let broken = controller.break_attachment(controller.break_request("A")).await;
    assert_eq!((broken.ok, &*broken.reason), (true, "Broken"));
    let record = broken.record.unwrap();
    assert_eq!((record.version, record.holders.len()), (2, 0));
    // 14 and 15.
    let attached = agent_b.attach("B", "pod2", 2).await;
    assert!(attached.ok && attached.token > first);
    assert!(agent_b.may_start("B", "pod2").await.ok);

    // The agent of node A returns and acts on its old knowledge: pod 1 no longer holds anything (L-VOL-6).
    let late = agent_a.detach(agent_a.detach_request("A", "pod1", first)).await;
    assert_eq!((late.ok, &*late.reason), (true, "NotAttached"));
    let wrong = agent_b.detach(agent_b.detach_request("B", "pod2", first)).await;
    assert_eq!((wrong.ok, &*wrong.reason), (false, "StaleToken"));
    assert_eq!(agent_a.may_start("A", "pod1").await.reason, "WaitForDetach");
    let storage = agent_a.check("volume", "pv-1", first).await;
    assert_eq!((storage.current, &*storage.reason), (false, "StaleToken"));
    let storage = agent_a.check("volume", "pv-1", attached.token).await;
    assert_eq!((storage.current, &*storage.pod_uid, &*storage.node_name), (true, "pod2", "B"));
    assert_eq!(late.record.unwrap().holders[0].pod_uid, "pod2", "nothing has changed");

    let lines = agent_a.journal().await;
    assert_eq!(
        account(&lines)[1..],
        [
            ("fencing-controller", "fence/A", "Fencing", ""),
            ("fencing-controller", "fence/C", "Fencing", ""),
            ("fencing-controller", "fence/C", "Fenced", ""),
            ("fencing-controller", "fence/A", "Fenced", ""),
            ("fencing-controller", "volume/pv-1", "Broken", "FenceConfirmed"),
            ("agent/B", "volume/pv-1", "Attached", ""),
        ]
    );
    assert_eq!((lines[5].fence_token, &*lines[5].fence_scope), (token, "storage"));
    assert_eq!((lines[1].fence_token, lines[1].revision), (token, token));
}

/// A name is handled like a volume: a holder that is cut off keeps it until the ledger's own record confirms the fence.
#[tokio::test]
async fn a_name_is_released_by_the_ledgers_fence_alone() {
    let world = World::start().await;
    let mut controller = Caller::of(&world, "statefulset-controller");
    let first = controller.acquire("db-0", "u1", "").await;
    assert_eq!((&*first.outcome, first.token > 0), ("Granted", true));
    let fenced = |answer: berth_proto::berth_v1::RecordIdentityEventResponse| {
        assert_eq!(answer.record.unwrap().holder_uid, "u1");
        (answer.outcome, answer.message)
    };
    let why = |message: &str| ("NotReleased".to_owned(), message.to_owned());
    assert_eq!(
        fenced(controller.event("db-0", "u1", "RemovedAfterFence", 0).await),
        why("the holder's node is not recorded, so no fence can cover it")
    );
    // The pod has been bound: the controller reports its node, and the holder keeps its grant.
    let bound = controller.acquire("db-0", "u1", "n1").await;
    assert_eq!((&*bound.outcome, bound.token), ("AlreadyHeld", first.token));
    assert_eq!(controller.acquire("db-0", "u1", "n2").await.outcome, "OtherNode");
    assert_eq!(controller.acquire("db-0", "u2", "n2").await.outcome, "HeldByOther");
    assert_eq!(
        fenced(controller.event("db-0", "u1", "RemovedAfterFence", 0).await),
        why("no fence of node `n1` is recorded")
    );
    for event in ["DeletionRequested", "NodeUnreachable", "NodeObjectDeleted", "PhaseTerminal"] {
        let message = format!("`{event}` does not end the pod");
        assert_eq!(fenced(controller.event("db-0", "u1", event, 0).await), why(&message));
    }
    let storage = controller.decide("n1", "storage").await;
    controller.confirm("n1", storage).await;
    assert_eq!(
        fenced(controller.event("db-0", "u1", "RemovedAfterFence", 0).await),
        why(
            "the fence of node `n1`, scope `storage`, is `Fenced`, which does not let pods be removed"
        )
    );
    let returned = AdvanceFenceRequest {
        rebooted: true,
        no_leftover_processes: true,
        ..controller.fence_request("n1", "NodeReturned")
    };
    assert_eq!(controller.fence(returned.clone()).await.outcome, "Ok");
    let compute = controller.decide("n1", "compute").await;
    assert!(compute > storage);
    // A late confirmation of the first fence does not confirm the second.
    assert_eq!(controller.confirm("n1", storage).await.outcome, "StaleToken");
    controller.confirm("n1", compute).await;
    assert_eq!(controller.event("db-0", "u1", "RemovedAfterFence", 1).await.outcome, "StaleToken");
    assert_eq!(controller.event("db-0", "u0", "RemovedAfterFence", 0).await.outcome, "StaleUID");
    let released = controller.event("db-0", "u1", "RemovedAfterFence", first.token).await;
    assert_eq!((&*released.outcome, &*released.message), ("Released", ""));
    assert!(!controller.check("identity", "db-0", first.token).await.current);

    let lines = controller.journal().await;
    let release = lines.iter().find(|line| line.outcome == "Released").unwrap();
    assert_eq!((&*release.entitlement, release.fence_token), ("FenceConfirmed", compute));
    assert_eq!((&*release.pod_uid, &*release.node_name), ("u1", "n1"));
    assert!(!release.is_unsafe && release.time.is_some());
}

fn returned(caller: &Caller, node: &str) -> AdvanceFenceRequest {
    AdvanceFenceRequest {
        rebooted: true,
        no_leftover_processes: true,
        ..caller.fence_request(node, "NodeReturned")
    }
}

/// From the decision to fence a node until its return (L-FENCE-7, L-FENCE-12) nothing is granted on it. A confirmed
/// fence covers everything that the node holds; a renewal covers a grant whose node became known too late.
#[tokio::test]
async fn nothing_is_granted_on_a_node_that_is_fenced() {
    let world = World::start().await;
    let mut controller = Caller::of(&world, "controller");
    assert_eq!(controller.attach("n1", "pod1", 0).await.reason, "Attached");
    let nodeless = controller.acquire("db-0", "u1", "").await;
    let token = controller.decide("n1", "compute").await;
    for state in ["Fencing", "Fenced"] {
        let refused = controller.attach("n1", "pod2", 1).await;
        assert_eq!(
            (refused.ok, &*refused.reason, refused.token),
            (false, "NodeFenced", 0),
            "{state}"
        );
        let again = controller.attach("n1", "pod1", 1).await;
        assert_eq!((again.ok, &*again.reason), (true, "AlreadyAttached"));
        let refused = controller.may_start("n1", "pod1").await;
        assert_eq!(
            (refused.ok, &*refused.reason, refused.token),
            (false, "NodeFenced", 0),
            "{state}"
        );
        let refused = controller.acquire("db-1", "u2", "n1").await;
        assert_eq!((&*refused.outcome, refused.token), ("NodeFenced", 0), "{state}");
        assert_eq!(refused.record.unwrap().holder_uid, "");
        controller.confirm("n1", token).await;
    }
    // This records the node but grants nothing. It is unknown whether the pod was started before the fence.
    let again = controller.acquire("db-0", "u1", "n1").await;
    assert_eq!((&*again.outcome, again.token), ("AlreadyHeld", nodeless.token));
    let refused = controller.event("db-0", "u1", "RemovedAfterFence", 0).await;
    assert_eq!(refused.outcome, "NotReleased");
    assert!(
        refused.message.ends_with("before that node was told: renew the decision"),
        "{refused:?}"
    );

    let renew = AdvanceFenceRequest {
        scope: "compute".into(),
        token,
        ..controller.fence_request("n1", "Decide")
    };
    let unmeant = AdvanceFenceRequest { token: 0, ..renew.clone() };
    assert_eq!(controller.fence(unmeant).await.outcome, "InvalidState");
    let renewed = controller.fence(renew.clone()).await;
    let renewal = renewed.record.unwrap().renewal.unwrap();
    assert!(renewal.token > token && controller.check("fence", "n1", renewal.token).await.current);
    assert_eq!(controller.fence(renew).await.outcome, "StaleToken");
    assert_eq!(controller.fence(returned(&controller, "n1")).await.outcome, "FenceInFlight");
    // The confirmed fence stays in force meanwhile: the volume is broken off, but the name is not released yet.
    assert_eq!(controller.break_attachment(controller.break_request("n1")).await.reason, "Broken");
    let early = controller.event("db-0", "u1", "RemovedAfterFence", 0).await;
    assert_eq!(early.outcome, "NotReleased");
    assert_eq!(controller.confirm("n1", token).await.outcome, "StaleToken");
    let confirmed = controller.confirm("n1", renewal.token).await.record.unwrap();
    assert_eq!((confirmed.token, confirmed.renewal), (renewal.token, None));
    assert_eq!(controller.event("db-0", "u1", "RemovedAfterFence", 0).await.outcome, "Released");

    assert_eq!(controller.fence(returned(&controller, "n1")).await.outcome, "Ok");
    assert_eq!(controller.attach("n1", "pod2", 2).await.reason, "Attached");
    assert_eq!(controller.acquire("db-1", "u2", "n1").await.outcome, "Granted");
}

/// Power off after a cut of the storage (L-FENCE-10): the wider scope counts once it is confirmed, and a failed attempt
/// leaves the earlier fence in force (L-FENCE-12: the node is still fenced).
#[tokio::test]
async fn a_fence_may_be_widened_and_everything_it_entitles_to_is_recorded() {
    let world = World::start().await;
    let mut controller = Caller::of(&world, "controller");
    let storage = controller.decide("n1", "storage").await;
    controller.confirm("n1", storage).await;
    let ask = |controller: &Caller, r#type| controller.fence_request("n1", r#type);
    let further = |controller: &Caller, scope: &str| AdvanceFenceRequest {
        scope: scope.into(),
        token: storage,
        ..controller.fence_request("n1", "Decide")
    };
    let narrower = controller.fence(further(&controller, "network")).await;
    assert_eq!(narrower.outcome, "RefusedScope");
    let mut renewals = Vec::new();
    for end in ["FenceFailed", "FenceConfirmed"] {
        let decided = controller.fence(further(&controller, "compute")).await;
        assert_eq!(decided.outcome, "Ok", "{decided:?}");
        let token = decided.record.unwrap().renewal.unwrap().token;
        renewals.push(token);
        assert_eq!(controller.fence(ask(&controller, "RemovePod")).await.outcome, "RefusedScope");
        let request = AdvanceFenceRequest { token, ..ask(&controller, end) };
        assert_eq!(controller.fence(request).await.outcome, "Ok");
        let unclean = controller.fence(ask(&controller, "NodeReturned")).await;
        assert_eq!(unclean.outcome, "RefusedStillFenced");
    }
    // L-TEST-10: actions that leave the state unchanged are recorded too.
    for r#type in ["RemovePod", "ReleaseIdentity", "BreakAttachment", "BreakAttachment"] {
        assert_eq!(controller.fence(ask(&controller, r#type)).await.outcome, "Ok");
    }
    let [failed, compute] = renewals[..] else { panic!("{renewals:?}") };
    let lines = controller.journal().await;
    let said = lines.iter().map(|line| {
        let LedgerRecord { outcome, entitlement, fence_token, fence_scope, .. } = line;
        (outcome.as_str(), entitlement.as_str(), *fence_token, fence_scope.as_str())
    });
    assert_eq!(
        said.collect::<Vec<_>>(),
        [
            ("Fencing", "", storage, "storage"),
            ("Fenced", "", storage, "storage"),
            ("Fencing", "", failed, "compute"),
            ("Detected", "", failed, "compute"),
            ("Fencing", "", compute, "compute"),
            ("Fenced", "", compute, "compute"),
            ("RemovePod", "FenceConfirmed", compute, "compute"),
            ("ReleaseIdentity", "FenceConfirmed", compute, "compute"),
            ("AttachmentsBroken", "FenceConfirmed", compute, "compute"),
            ("AttachmentsBroken", "FenceConfirmed", compute, "compute"),
        ]
    );
}
