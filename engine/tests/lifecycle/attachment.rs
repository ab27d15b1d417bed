//! Attachment records under any interleaving of operations by callers who read the record at different times: without
//! multi-attach never holders on two nodes, with `ReadWriteOncePod` never two holders, and one version per change
//! (L-VOL-1 to L-VOL-10, L-TEST-8).

use std::collections::BTreeSet;

use berth_engine::lifecycle::attachment::{
    AccessModes, Attachment, BreakEvidence, Holder, Operation, attach_sequence,
};
use berth_engine::lifecycle::fence::FenceScope;
use berth_engine::lifecycle::vocabulary::ConditionStatus;
use berth_proto::berth_v1::{
    AttachHolder, AttachOperation, AttachRecord, AttachSequenceRequest, BreakAttachmentEvidence,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::config;

const MODES: [&str; 4] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
const ACTORS: usize = 3;

/// The next step of one of several callers.
#[derive(Clone, Debug)]
enum Step {
    /// Reads the record, to act on it later.
    Read,
    /// Acts on the record as it was last read.
    Act(Action),
}

#[derive(Clone, Debug)]
enum Action {
    Attach { node: u8, pod: u8 },
    Detach { node: u8, pod: u8, pod_gone: bool, mounted: bool },
    Break { node: u8, evidence: BreakEvidence },
    MayStart { node: u8, pod: u8 },
}

fn evidence() -> impl Strategy<Value = BreakEvidence> {
    let scopes = FenceScope::WORDS.iter().map(|word| FenceScope::parse(word, "scope").unwrap());
    let scopes: Vec<_> = scopes.map(Some).chain([None, None]).collect();
    let ready = vec![
        None,
        Some(ConditionStatus::True),
        Some(ConditionStatus::False),
        Some(ConditionStatus::Unknown),
    ];
    let is_rare = || proptest::bool::weighted(0.2);
    (select(scopes), is_rare(), select(ready), is_rare()).prop_map(
        |(confirmed_fence, out_of_service_taint, node_ready, node_object_deleted)| BreakEvidence {
            confirmed_fence,
            out_of_service_taint,
            node_ready,
            node_object_deleted,
        },
    )
}

fn action() -> impl Strategy<Value = Action> {
    let place = || (0..3_u8, 0..4_u8);
    prop_oneof![
        4 => place().prop_map(|(node, pod)| Action::Attach { node, pod }),
        3 => (place(), any::<bool>(), any::<bool>()).prop_map(|((node, pod), pod_gone, mounted)| {
            Action::Detach { node, pod, pod_gone, mounted }
        }),
        2 => (0..3_u8, evidence()).prop_map(|(node, evidence)| Action::Break { node, evidence }),
        2 => place().prop_map(|(node, pod)| Action::MayStart { node, pod }),
    ]
}

/// Generates steps of callers. Half of them are reads; otherwise hardly any operation would be up to date.
fn story() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![Just(Step::Read), action().prop_map(Step::Act)];
    vec((0..ACTORS, step), 1..80)
}

fn modes() -> impl Strategy<Value = Vec<&'static str>> {
    prop_oneof![
        3 => Just(vec!["ReadWriteOnce"]),
        2 => Just(vec!["ReadWriteOncePod"]),
        2 => subsequence(MODES.to_vec(), 0..=4),
    ]
}

const NODES: [&str; 3] = ["a", "b", "c"];
const PODS: [&str; 4] = ["p0", "p1", "p2", "p3"];

fn node(number: u8) -> &'static str {
    NODES[usize::from(number)]
}

fn pod(number: u8) -> &'static str {
    PODS[usize::from(number)]
}

/// The rules as nested loops over a list, written as the specification states them.
struct Naive {
    modes: Vec<&'static str>,
    version: u64,
    holders: Vec<(&'static str, &'static str)>,
}

impl Naive {
    fn has(&self, mode: &str) -> bool {
        self.modes.contains(&mode)
    }

    fn obstacle(&self, node: &str, pod: &str) -> Option<&'static str> {
        let multi = self.modes.is_empty() || self.has("ReadWriteMany") || self.has("ReadOnlyMany");
        let one_pod = self.has("ReadWriteOncePod");
        if one_pod && self.holders.iter().any(|holder| holder.1 != pod) {
            Some("HeldByOtherPod")
        } else if (one_pod || !multi) && self.holders.iter().any(|holder| holder.0 != node) {
            Some("HeldByOtherNode")
        } else {
            None
        }
    }

    fn run(&mut self, action: &Action, seen: u64) -> &'static str {
        if let Action::MayStart { node: n, pod: p } = *action {
            return match self.obstacle(node(n), pod(p)) {
                _ if self.holders.contains(&(node(n), pod(p))) => "MayStart",
                Some(_) => "WaitForDetach",
                None => "WaitForAttach",
            };
        }
        if seen != self.version {
            return "VersionConflict";
        }
        let (reason, holders) = self.changed(action);
        if let Some(holders) = holders {
            self.holders = holders;
            self.version += 1;
        }
        reason
    }

    /// Returns the reason, and the holders after a change.
    fn changed(
        &self,
        action: &Action,
    ) -> (&'static str, Option<Vec<(&'static str, &'static str)>>) {
        let without = |gone: &dyn Fn(&(&str, &str)) -> bool| {
            Some(self.holders.iter().copied().filter(|holder| !gone(holder)).collect())
        };
        match *action {
            Action::Attach { node: n, pod: p } => {
                let new = (node(n), pod(p));
                if self.holders.contains(&new) {
                    return ("AlreadyAttached", None);
                }
                match self.obstacle(new.0, new.1) {
                    Some(obstacle) => (obstacle, None),
                    None => ("Attached", Some([&self.holders[..], &[new]].concat())),
                }
            }
            Action::Detach { node: n, pod: p, pod_gone, mounted } => {
                let old = (node(n), pod(p));
                match (self.holders.contains(&old), pod_gone, mounted) {
                    (false, ..) => ("NotAttached", None),
                    (true, false, _) => ("PodStillExists", None),
                    (true, true, true) => ("StillMounted", None),
                    (true, true, false) => ("Detached", without(&|holder| *holder == old)),
                }
            }
            Action::Break { node: n, evidence } => {
                if self.holders.iter().all(|holder| holder.0 != node(n)) {
                    ("NotAttached", None)
                } else if may_break(&evidence) {
                    ("Broken", without(&|holder| holder.0 == node(n)))
                } else {
                    ("FenceRequired", None)
                }
            }
            Action::MayStart { .. } => unreachable!("answered before"),
        }
    }
}

/// Whether the evidence allows a break, in the words of L-VOL-10.
fn may_break(evidence: &BreakEvidence) -> bool {
    let fence = evidence.confirmed_fence.map(FenceScope::word);
    let is_down =
        matches!(evidence.node_ready, Some(ConditionStatus::False | ConditionStatus::Unknown));
    matches!(fence, Some("compute" | "storage" | "network+storage"))
        || (evidence.out_of_service_taint && is_down)
        || evidence.node_object_deleted
}

fn run(record: &mut Attachment, action: &Action, expected_version: u64) -> (bool, &'static str) {
    let outcome = match *action {
        Action::MayStart { node: n, pod: p } => record.may_start(node(n), pod(p)),
        Action::Attach { node: n, pod: p } => {
            record.apply(&Operation::Attach { node: node(n), pod_uid: pod(p), expected_version })
        }
        Action::Detach { node: n, pod: p, pod_gone, mounted } => record.apply(&Operation::Detach {
            node: node(n),
            pod_uid: pod(p),
            expected_version,
            pod_gone,
            mounted,
        }),
        Action::Break { node: n, evidence } => {
            record.apply(&Operation::BreakAttachment { node: node(n), expected_version, evidence })
        }
    };
    (outcome.ok, outcome.reason.word())
}

/// L-TEST-8.
fn check_holders(modes: &[&str], holders: &[Holder]) {
    let nodes: BTreeSet<&str> = holders.iter().map(|holder| &*holder.node).collect();
    if modes.contains(&"ReadWriteOncePod") {
        assert!(holders.len() <= 1, "{modes:?}: {holders:?}");
    }
    if modes == ["ReadWriteOnce"] {
        assert!(nodes.len() <= 1, "{modes:?}: {holders:?}");
    }
}

fn wire(action: &Action, expected_version: u64) -> AttachOperation {
    let blank = |op: &str, n: u8| AttachOperation {
        op: op.to_owned(),
        node: node(n).to_owned(),
        expected_version: Some(expected_version),
        ..AttachOperation::default()
    };
    match *action {
        Action::Attach { node, pod: p } => {
            AttachOperation { pod_uid: pod(p).to_owned(), ..blank("Attach", node) }
        }
        Action::MayStart { node, pod: p } => {
            AttachOperation { pod_uid: pod(p).to_owned(), ..blank("MayStart", node) }
        }
        Action::Detach { node, pod: p, pod_gone, mounted } => AttachOperation {
            pod_uid: pod(p).to_owned(),
            pod_gone,
            mounted: Some(mounted),
            ..blank("Detach", node)
        },
        Action::Break { node, evidence } => {
            let word = |confirmed| if confirmed { "Confirmed" } else { "Accepted" };
            let scope = evidence.confirmed_fence.map_or("compute", FenceScope::word);
            let ready = evidence.node_ready.map_or("", ConditionStatus::word);
            let evidence = BreakAttachmentEvidence {
                fence: word(evidence.confirmed_fence.is_some()).to_owned(),
                scope: scope.to_owned(),
                out_of_service_taint: evidence.out_of_service_taint,
                node_ready: ready.to_owned(),
                node_object_deleted: evidence.node_object_deleted,
                unhealthy_for_seconds: Some(1_000_000),
            };
            AttachOperation { evidence: Some(evidence), ..blank("BreakAttachment", node) }
        }
    }
}

proptest! {
    #![proptest_config(config(2000, 52))]

    #[test]
    fn no_interleaving_gives_a_volume_to_two(modes in modes(), story in story()) {
        let mut record = Attachment::new(AccessModes::parse(&modes).unwrap(), 0, []).unwrap();
        let mut naive = Naive { modes: modes.clone(), version: 0, holders: Vec::new() };
        let mut seen = [0; ACTORS];
        for (actor, step) in &story {
            let Step::Act(action) = step else {
                seen[*actor] = record.version();
                continue;
            };
            let before = record.clone();
            let (ok, reason) = run(&mut record, action, seen[*actor]);
            prop_assert_eq!(reason, naive.run(action, seen[*actor]), "{:?} to {:?}", action, before);
            let holders = record.holders();
            let expected: Vec<_> = naive.holders.clone();
            let found: Vec<_> = holders.iter().map(|holder| (&*holder.node, &*holder.pod_uid)).collect();
            prop_assert_eq!(found, expected);
            check_holders(&modes, &holders);
            // L-VOL-1: the version grows exactly if there is a change.
            let grown = record.version() - before.version();
            prop_assert_eq!(grown, u64::from(holders != before.holders()));
            prop_assert!(ok || record == before, "{reason} changed {before:?}");
        }
    }

    /// The request function gives the same result as the record, operation by operation, wherever the sequence is
    /// split.
    #[test]
    fn a_sequence_may_be_cut_anywhere(modes in modes(), story in story(), cut in 0..80_usize) {
        let mut record = Attachment::new(AccessModes::parse(&modes).unwrap(), 0, []).unwrap();
        let (mut seen, mut operations, mut expected) = ([0; ACTORS], Vec::new(), Vec::new());
        for (actor, step) in &story {
            match step {
                Step::Read => seen[*actor] = record.version(),
                Step::Act(action) => {
                    operations.push(wire(action, seen[*actor]));
                    let (ok, reason) = run(&mut record, action, seen[*actor]);
                    expected.push((ok, reason.to_owned(), record.version()));
                }
            }
        }
        let blank = AttachRecord {
            access_modes: modes.iter().map(|mode| (*mode).to_owned()).collect(),
            ..AttachRecord::default()
        };
        let sequence = |record: AttachRecord, operations: &[AttachOperation]| {
            let request = AttachSequenceRequest {
                record: Some(record),
                operations: operations.to_vec(),
            };
            let answer = attach_sequence(&request).unwrap();
            let results = answer.results.into_iter();
            let results = results.map(|result| (result.ok, result.reason, result.version));
            (results.collect::<Vec<_>>(), answer.record.unwrap())
        };
        let (first, second) = operations.split_at(cut.min(operations.len()));
        let (mut results, between) = sequence(blank, first);
        let (rest, end) = sequence(between, second);
        results.extend(rest);
        prop_assert_eq!(results, expected);
        prop_assert_eq!(end.version, record.version());
        let holder = |Holder { node, pod_uid }| AttachHolder { node, pod_uid };
        prop_assert_eq!(end.holders, record.holders().into_iter().map(holder).collect::<Vec<_>>());
    }
}

/// A hundred thousand holders and as many operations take seconds, not hours, in a debug build.
#[test]
fn long_sequences_are_not_quadratic() {
    let n = 100_000_u64;
    let holders = (0..n).map(|i| AttachHolder { node: format!("n{i}"), pod_uid: format!("u{i}") });
    let record = AttachRecord {
        access_modes: vec!["ReadWriteMany".to_owned()],
        holders: holders.collect(),
        ..AttachRecord::default()
    };
    let detach = |i: u64| AttachOperation {
        op: "Detach".to_owned(),
        node: format!("n{i}"),
        pod_uid: format!("u{i}"),
        expected_version: Some(i),
        pod_gone: true,
        mounted: Some(false),
        ..AttachOperation::default()
    };
    let request =
        AttachSequenceRequest { record: Some(record), operations: (0..n).map(detach).collect() };
    let end = attach_sequence(&request).unwrap().record.unwrap();
    assert_eq!((end.version, end.holders.len()), (n, 0));
}
