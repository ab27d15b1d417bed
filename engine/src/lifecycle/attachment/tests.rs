use super::{AccessModes, Attachment, BreakEvidence, Holder, Operation, attach_sequence};
use crate::lifecycle::fence::FenceScope;
use berth_proto::berth_v1::{
    AttachHolder, AttachOperation, AttachRecord, AttachSequenceRequest, BreakAttachmentEvidence,
};

fn holder(node: &str, pod_uid: &str) -> Holder {
    Holder { node: node.to_owned(), pod_uid: pod_uid.to_owned() }
}

fn record(mode: &str, holders: &[(&str, &str)]) -> Attachment {
    let modes = AccessModes::parse(&[mode]).unwrap();
    let holders = holders.iter().map(|(node, pod_uid)| holder(node, pod_uid));
    Attachment::new(modes, 7, holders).unwrap()
}

/// Runs an operation; returns its reason, and the version and number of holders after it.
fn run(record: &mut Attachment, operation: &Operation<'_>) -> (&'static str, u64, usize) {
    let outcome = record.apply(operation);
    (outcome.reason.word(), record.version(), record.holders().len())
}

fn attach<'a>(node: &'a str, pod_uid: &'a str, expected_version: u64) -> Operation<'a> {
    Operation::Attach { node, pod_uid, expected_version }
}

#[test]
fn the_version_is_checked_first() {
    // L-VOL-2, L-VOL-6: an operation that would change nothing conflicts too.
    let mut volume = record("ReadWriteOnce", &[("a", "p1")]);
    assert_eq!(run(&mut volume, &attach("a", "p1", 6)), ("VersionConflict", 7, 1));
    assert_eq!(run(&mut volume, &attach("a", "p1", 8)), ("VersionConflict", 7, 1));
    assert_eq!(run(&mut volume, &attach("a", "p1", 7)), ("AlreadyAttached", 7, 1));
    let detach = |expected_version| Operation::Detach {
        node: "b",
        pod_uid: "p1",
        expected_version,
        pod_gone: false,
        mounted: true,
    };
    assert_eq!(run(&mut volume, &detach(6)), ("VersionConflict", 7, 1));
    assert_eq!(run(&mut volume, &detach(7)), ("NotAttached", 7, 1));
}

#[test]
fn a_break_removes_all_of_a_node_and_nothing_else() {
    // L-VOL-10, L-VOL-6
    let mut volume = record("ReadWriteMany", &[("a", "p1"), ("b", "p2"), ("a", "p3")]);
    let evidence =
        BreakEvidence { confirmed_fence: Some(FenceScope::Storage), ..BreakEvidence::default() };
    let broken =
        |node, expected_version| Operation::BreakAttachment { node, expected_version, evidence };
    assert_eq!(run(&mut volume, &broken("a", 7)), ("Broken", 8, 1));
    assert_eq!(volume.holders(), [holder("b", "p2")]);
    assert_eq!(run(&mut volume, &broken("a", 8)), ("NotAttached", 8, 1));
    let unentitled = Operation::BreakAttachment {
        node: "b",
        expected_version: 8,
        evidence: BreakEvidence::default(),
    };
    assert_eq!(run(&mut volume, &unentitled), ("FenceRequired", 8, 1));
}

#[test]
fn one_pod_means_one_holder() {
    // L-VOL-4 before L-VOL-3, and the same pod is not on two nodes.
    let mut volume = record("ReadWriteOncePod", &[("a", "p1")]);
    assert_eq!(run(&mut volume, &attach("b", "p2", 7)).0, "HeldByOtherPod");
    assert_eq!(run(&mut volume, &attach("b", "p1", 7)).0, "HeldByOtherNode");
    let modes = AccessModes::parse(&["ReadWriteOncePod", "ReadWriteMany"]).unwrap();
    let mut volume = Attachment::new(modes, 7, [holder("a", "p1")]).unwrap();
    assert_eq!(run(&mut volume, &attach("b", "p1", 7)).0, "HeldByOtherNode");
    assert_eq!(run(&mut volume, &attach("a", "p2", 7)).0, "HeldByOtherPod");
}

#[test]
fn only_a_needed_detach_is_waited_for() {
    // L-VOL-7, L-VOL-12
    let waits =
        |mode, node, pod_uid| record(mode, &[("a", "p1")]).may_start(node, pod_uid).reason.word();
    assert_eq!(waits("ReadWriteOnce", "a", "p1"), "MayStart");
    assert_eq!(waits("ReadWriteOnce", "a", "p2"), "WaitForAttach");
    assert_eq!(waits("ReadWriteOnce", "b", "p2"), "WaitForDetach");
    assert_eq!(waits("ReadWriteOncePod", "a", "p2"), "WaitForDetach");
    assert_eq!(waits("ReadWriteMany", "b", "p2"), "WaitForAttach");
}

#[test]
fn holders_keep_the_order_in_which_they_came() {
    let mut volume = record("ReadWriteMany", &[("z", "p9"), ("a", "p1")]);
    run(&mut volume, &attach("m", "p5", 7));
    assert_eq!(volume.holders(), [holder("z", "p9"), holder("a", "p1"), holder("m", "p5")]);
}

#[test]
fn a_record_that_contradicts_itself_is_refused() {
    // L-VOL-3, L-VOL-4
    let made = |mode: &str, version, holders: &[(&str, &str)]| {
        let holders = holders.iter().map(|(node, pod_uid)| holder(node, pod_uid));
        let modes = AccessModes::parse(&[mode]).unwrap();
        Attachment::new(modes, version, holders).unwrap_err().to_string()
    };
    assert_eq!(
        made("ReadWriteOnce", 1, &[("a", "p1"), ("b", "p2")]),
        "`holders[1]`: contradicts `accessModes`: HeldByOtherNode"
    );
    assert_eq!(
        made("ReadWriteOncePod", 1, &[("a", "p1"), ("a", "p2")]),
        "`holders[1]`: contradicts `accessModes`: HeldByOtherPod"
    );
    assert_eq!(
        made("ReadWriteOnce", 1, &[("a", "p1"), ("a", "p1")]),
        "`holders[1]`: pod `p1` holds it on node `a` already"
    );
    assert_eq!(made("ReadWriteOnce", 1, &[("", "p1")]), "`holders[0].node`: required");
    assert_eq!(made("ReadWriteOnce", 1, &[("a", "")]), "`holders[0].podUID`: required");
    assert_eq!(
        made("ReadWriteOnce", u64::MAX, &[]),
        "`version`: `18446744073709551615` is above 9223372036854775807"
    );
}

fn request(operation: AttachOperation) -> AttachSequenceRequest {
    let record = AttachRecord {
        access_modes: vec!["ReadWriteOnce".to_owned()],
        version: 1,
        holders: vec![AttachHolder { node: "a".to_owned(), pod_uid: "p1".to_owned() }],
        ..AttachRecord::default()
    };
    AttachSequenceRequest { record: Some(record), operations: vec![operation] }
}

fn operation(op: &str) -> AttachOperation {
    AttachOperation {
        op: op.to_owned(),
        node: "a".to_owned(),
        pod_uid: "p1".to_owned(),
        expected_version: Some(1),
        ..AttachOperation::default()
    }
}

#[test]
fn a_missing_fact_prevents_a_change() {
    // L-GEN-4 for L-VOL-8 and L-VOL-10.
    let reason = |operation| {
        let answer = attach_sequence(&request(operation)).unwrap();
        answer.results.into_iter().map(|result| result.reason).collect::<String>()
    };
    assert_eq!(reason(operation("Detach")), "PodStillExists");
    let gone = AttachOperation { pod_gone: true, ..operation("Detach") };
    assert_eq!(reason(gone), "StillMounted");
    assert_eq!(reason(operation("BreakAttachment")), "FenceRequired");
    let without_scope = BreakAttachmentEvidence {
        fence: "Confirmed".to_owned(),
        ..BreakAttachmentEvidence::default()
    };
    let evidence = Some(without_scope);
    let operation = AttachOperation { evidence, ..operation("BreakAttachment") };
    assert_eq!(reason(operation), "FenceRequired");
}

#[test]
fn errors_name_the_field() {
    let error = |operation| attach_sequence(&request(operation)).unwrap_err().to_string();
    assert_eq!(
        error(operation("Mount")),
        "`operations[0].op`: unknown value `Mount`: not one of `Attach`, `Detach`, `BreakAttachment`, `MayStart`"
    );
    let nowhere = AttachOperation { node: String::new(), ..operation("Attach") };
    assert_eq!(error(nowhere), "`operations[0].node`: required");
    let no_uid = AttachOperation { pod_uid: String::new(), ..operation("MayStart") };
    assert_eq!(error(no_uid), "`operations[0].podUID`: required");
    let blind = AttachOperation { expected_version: None, ..operation("Attach") };
    assert_eq!(error(blind), "`operations[0].expectedVersion`: required");
    let with =
        |evidence| AttachOperation { evidence: Some(evidence), ..operation("BreakAttachment") };
    let half = BreakAttachmentEvidence { fence: "Half".to_owned(), ..Default::default() };
    assert_eq!(
        error(with(half)),
        "`operations[0].evidence.fence`: unknown value `Half`: not one of `Accepted`, `Confirmed`"
    );
    let negative =
        BreakAttachmentEvidence { unhealthy_for_seconds: Some(-1), ..Default::default() };
    assert_eq!(
        error(with(negative)),
        "`operations[0].evidence.unhealthyForSeconds`: must not be negative"
    );
    let mut twice = request(operation("MayStart"));
    twice
        .record
        .as_mut()
        .unwrap()
        .holders
        .push(AttachHolder { node: "b".to_owned(), pod_uid: "p2".to_owned() });
    assert_eq!(
        attach_sequence(&twice).unwrap_err().to_string(),
        "`record.holders[1]`: contradicts `accessModes`: HeldByOtherNode"
    );
    let nothing = AttachSequenceRequest::default();
    assert_eq!(attach_sequence(&nothing).unwrap_err().to_string(), "`record`: required");
}
