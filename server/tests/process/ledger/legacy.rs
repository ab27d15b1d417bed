//! Records and journal lines of a ledger from before users, claims and exclusive volumes: read as they are (L-GRANT-3 to
//! L-GRANT-5).

use std::sync::Arc;

use berth_proto::berth_v1::{
    AttachVolumeRequest, DetachVolumeRequest, GetIdentityRequest, IdentityRecord, LedgerRecord,
    ListLedgerRecordsRequest, RecordIdentityEventRequest, VolumeGrant, VolumeRecord,
};
use berth_server::ledger::{
    Blind, Call, Embedded, ForceRight, GrantError, Grants, Key, Ledger, Memory, Revision,
    Transaction,
};
use prost::Message as _;

use super::workload::call;

/// Writes what an earlier version would have written: a name, and two volumes without access modes, one of them held by
/// pods on two nodes.
fn write(ledger: &dyn Ledger) {
    let commit = |key: Key, value: Vec<u8>, outcome: &str| {
        let line = LedgerRecord {
            actor: "old-agent".into(),
            operation: "Test".into(),
            subject: key.as_str().into(),
            outcome: outcome.into(),
            ..LedgerRecord::default()
        };
        let transaction = Transaction {
            expectations: vec![(key.clone(), None)],
            writes: vec![(key, Some(value))],
            journal: Some(line.encode_to_vec()),
            term: None,
        };
        ledger.commit(transaction).unwrap();
    };
    let name = IdentityRecord {
        namespace: "default".into(),
        name: "db-0".into(),
        holder_uid: "u1".into(),
        ..IdentityRecord::default()
    };
    commit(Key::identity("default", "db-0"), name.encode_to_vec(), "Granted");
    let volume = |volume: &str, nodes: &[&str]| {
        let holder = |node: &&str| VolumeGrant {
            node: (*node).into(),
            pod_uid: format!("pod-on-{node}"),
            token: 5,
        };
        let holders: Vec<_> = nodes.iter().map(holder).collect();
        let version = holders.len() as u64;
        let record = VolumeRecord { volume: volume.into(), holders, version, ..Default::default() };
        commit(Key::volume(volume), record.encode_to_vec(), "Attached");
    };
    volume("one", &["A"]);
    volume("two", &["A", "B"]);
}

fn check(grants: &Grants) {
    let request = ListLedgerRecordsRequest::default();
    let lines = grants.list_ledger_records(&request, &call(0)).unwrap().records;
    assert_eq!(lines.len(), 3);
    for line in &lines {
        let of_line = (&*line.actor, &*line.claimed_actor, line.verified);
        assert_eq!(of_line, ("", "old-agent", None));
    }
    let attach = |volume: &str, node: &str| {
        let request = AttachVolumeRequest {
            volume: volume.into(),
            node: node.into(),
            pod_uid: format!("pod-on-{node}"),
            actor: "me".into(),
            ..AttachVolumeRequest::default()
        };
        grants.attach_volume(&request, &call(0)).unwrap()
    };
    for (volume, node, expected) in [
        ("one", "A", "AlreadyAttached"),
        ("one", "B", "HeldByOtherNode"),
        ("two", "A", "AlreadyAttached"),
        ("two", "B", "AlreadyAttached"),
        ("two", "C", "HeldByOtherNode"),
    ] {
        assert_eq!(attach(volume, node).reason, expected, "{volume} {node}");
    }
    // Once the second node has let go, the volume is exclusive like any other.
    let detach = DetachVolumeRequest {
        volume: "two".into(),
        node: "B".into(),
        pod_uid: "pod-on-B".into(),
        pod_gone: true,
        mounted: Some(false),
        actor: "me".into(),
        ..DetachVolumeRequest::default()
    };
    assert_eq!(grants.detach_volume(&detach, &call(0)).unwrap().reason, "Detached");
    assert_eq!(attach("two", "C").reason, "HeldByOtherNode");

    // Nobody owns a name that was granted before users were recorded.
    let request = GetIdentityRequest { namespace: "default".into(), name: "db-0".into() };
    let record = grants.get_identity(&request, &call(0)).unwrap().record.unwrap();
    assert_eq!((&*record.holder_uid, &*record.acquired_by), ("u1", ""));
    let force = RecordIdentityEventRequest {
        namespace: "default".into(),
        name: "db-0".into(),
        uid: "u1".into(),
        r#type: "ForceDeletedByUser".into(),
        acknowledged: true,
        actor: "me".into(),
        ..RecordIdentityEventRequest::default()
    };
    for user in ["", "jane"] {
        let by = Call { user, now: 0, witness: &Blind, force: ForceRight::Own };
        let refused = grants.record_identity_event(&force, &by).unwrap_err();
        assert_eq!(refused, GrantError::NotOwner { user: user.into() });
    }
    let released = grants.record_identity_event(&force, &call(0)).unwrap();
    assert_eq!(released.outcome, "ReleasedUnsafely");
}

#[test]
fn an_earlier_ledger_is_read_as_it_is() {
    let memory = Memory::new(Revision(10));
    write(&memory);
    check(&Grants::new(Arc::new(memory)));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger");
    write(&Embedded::open(&path, Revision(10)).unwrap());
    check(&Grants::new(Arc::new(Embedded::open(&path, Revision(99)).unwrap())));
}
