//! Records of the corpus, each changed in one place: the runner has to notice and name the change.

use std::fs;

use berth_server::conformance::{self, Selection};

use super::own_corpus;

/// A suite, a text in its file and the replacement of that text; then the aspect of the difference that the runner has
/// to report, and parts of the expected and of the actual value in its report.
type Change = [&'static str; 6];

const PLACEMENT: &[Change] = &[
    [
        "fit",
        "\"NodeResourcesFit\": 56,",
        "\"NodeResourcesFit\": 57,",
        "NodeResourcesFit",
        "raw 57",
        "raw 56",
    ],
    ["fit", "\"total\": 415", "\"total\": 416", "totals", "416", "415"],
    [
        "fit",
        "3 Insufficient cpu. no new",
        "4 Insufficient cpu. no new",
        "messages",
        "4 Insufficient",
        "3 Insufficient",
    ],
    ["fit", "\"feasible\": [\"n1\"]", "\"feasible\": [\"n1\", \"n2\"]", "feasible", "n1 n2", "n1"],
    [
        "spread-soft",
        "\"PodTopologySpread\": 88,",
        "\"PodTopologySpread\": 89,",
        "PodTopologySpread",
        "weighted 89",
        "weighted 88",
    ],
    [
        "volumes",
        "\"default/local-3\": \"local-n1-big\"",
        "\"default/local-3\": \"local-n1\"",
        "volumes",
        "\"default/local-3\": \"local-n1\"",
        "\"default/local-3\": \"local-n1-big\"",
    ],
    // The engine itself chooses another node; the comparison is about the recorded one.
    [
        "volumes",
        "{\"static\": {\"default/dynamic\": \"there\"}}",
        "{\"provision\": [\"default/dynamic\"]}",
        "volumes",
        "provision: {\"default/dynamic\"}",
        "\"default/dynamic\": \"there\"",
    ],
    [
        "pod-affinity",
        "didn't match pod affinity rules",
        "disliked the pods there",
        "rejections",
        "disliked",
        "affinity rules",
    ],
    ["scoring", "\"best\": [\"a\", \"b\"]", "\"best\": [\"b\"]", "best", "b", "a b"],
    [
        "taints",
        "had untolerated taint(s)",
        "had a taint",
        "rejections",
        "had a taint",
        "untolerated",
    ],
    ["node-basics", "gates: [g1 g2]", "gates: [g2 g1]", "outcome", "[g2 g1]", "[g1 g2]"],
    [
        "node-affinity",
        "\"error\": \"not an integer\"",
        "\"viaNominatedNode\": false",
        "outcome",
        "nodes filtered",
        "an internal error",
    ],
    [
        "node-affinity",
        "terms conflict\"]",
        "terms agree\"]",
        "outcome",
        "terms agree",
        "terms conflict",
    ],
];

const PREEMPTION: &[Change] = &[
    // PostFilter's message is compared on its own and as the end of the whole message.
    [
        "preemption",
        "2 No preemption victims found for incoming pod.\", \"preemption",
        "2 Nobody to evict.\", \"preemption",
        "whole messages",
        "Nobody to evict",
        "2 No preemption victims",
    ],
    [
        "preemption",
        "\"message\": \"no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.\"",
        "\"message\": \"not found\"",
        "post filter",
        "Unschedulable: not found",
        "Unschedulable: no new claims",
    ],
    [
        "node-affinity",
        "{\"code\": \"Error\", \"message\": \"not found\"}",
        "{\"code\": \"Unschedulable\", \"message\": \"not found\"}",
        "post filter",
        "Unschedulable: not found",
        "Error: not found",
    ],
    // One candidate more, one candidate less, other victims of a candidate, another number of violations.
    [
        "preemption",
        "\"candidates\": [{\"node\": \"n1\", \"victims\": [\"default/a\"], \"pdbViolations\": 0}, ",
        "\"candidates\": [",
        "candidates",
        "1 candidates counted",
        "2 candidates counted",
    ],
    [
        "preemption",
        "[{\"node\": \"n1\", \"victims\": [\"default/a\"]",
        "[{\"node\": \"n1\", \"victims\": [\"default/b\"]",
        "candidates",
        "default/b (0 violations)",
        "default/a (0 violations)",
    ],
    [
        "preemption",
        "\"pdbViolations\": 1}",
        "\"pdbViolations\": 0}",
        "candidates",
        "default/a (0 violations)",
        "default/a (1 violations)",
    ],
    [
        "preemption",
        "\"notHelped\": {\"n1\": {",
        "\"notHelped\": {\"n3\": {",
        "not helped",
        "not tried",
        "No preemption victims",
    ],
    [
        "preemption",
        "\"best\": [\"n2\", \"n3\"]",
        "\"best\": [\"n2\"]",
        "best candidates",
        "n2",
        "n2 n3",
    ],
    // Only the best candidates and the number of all candidates are recorded.
    [
        "preemption-sequence",
        "\"candidateCount\": 2",
        "\"candidateCount\": 3",
        "candidates",
        "3 candidates counted",
        "2 candidates counted",
    ],
    // Victims are compared in order.
    [
        "preemption",
        "\"victims\": [\"default/a2\", \"default/a3\"]}",
        "\"victims\": [\"default/a3\", \"default/a2\"]}",
        "victims",
        "on n1 default/a3 default/a2",
        "on n1 default/a2 default/a3",
    ],
];

const NOMINATION: &[Change] = &[
    [
        "nominated",
        "\"clearNominations\": [\"default/equal\", \"default/high\"]",
        "\"clearNominations\": [\"default/equal\"]",
        "nominations",
        "taken from [default/equal]",
        "taken from [default/equal default/high]",
    ],
    [
        "nominated",
        "\"clearNominations\": [\"default/q\"]",
        "\"clearNominations\": []",
        "nominations",
        "nominated to n1",
        "nominated to no node",
    ],
    // A pod that could be placed elsewhere if its nominated node were not tried first.
    [
        "nominated",
        "\"feasible\": [\"n1\"], \"viaNominatedNode\": true, \"best\": [\"n1\"], \"scoringSkipped\": true, \"bind\": \"n1\"}}, {\"retry\": \"default/cordoned\"",
        "\"feasible\": [\"n1\", \"n3\"], \"best\": [\"n1\"], \"bind\": \"n1\"}}, {\"retry\": \"default/cordoned\"",
        "feasible",
        "n1 n3",
        "n1",
    ],
];

#[test]
fn a_changed_record_is_a_difference() {
    for [suite, from, to, aspect, expected, got] in [PLACEMENT, PREEMPTION, NOMINATION].concat() {
        let text = fs::read_to_string(own_corpus().join(format!("{suite}.jsonl"))).unwrap();
        assert!(text.contains(from), "{suite}: {from}");
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(format!("{suite}.jsonl")), text.replacen(from, to, 1))
            .unwrap();
        let report = conformance::run(directory.path(), &Selection::default()).unwrap();
        assert!(!report.is_match(), "{suite}: {to}");
        let found = report.suites[0].differences.iter().any(|(_, difference)| {
            difference.aspect.name() == aspect
                && difference.expected.contains(expected)
                && difference.got.contains(got)
        });
        assert!(found, "{suite}: {to}: {:#?}", report.suites[0].differences);
    }
}
