//! The compared aspects, how often each was equal, and one difference.

use std::collections::BTreeMap;

use berth_engine::Plugin;

/// Aspect of a decision that is compared.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aspect {
    /// How an attempt ends: held back, rejected as a whole, in error, or with nodes filtered; and that every call that
    /// decides gives that ending. One a step.
    Outcome,
    /// A node's rejection: plugin, code and set of reasons. One a node.
    Rejections,
    /// The set of feasible nodes. One a step.
    Feasible,
    /// A plugin's raw and weighted score of a node. One a node and plugin.
    Score(Plugin),
    /// A node's total. One a node.
    Totals,
    /// The set of nodes with the highest total, and that the plain decision takes the first of them. One a step.
    Best,
    /// kube-scheduler's text when nothing is feasible, as the plain decision gives it: up to PostFilter's part. One a
    /// step.
    Messages,
    /// kube-scheduler's text including PostFilter's part, as the attempt that may evict gives it. One a step.
    WholeMessages,
    /// PostFilter's status and its own text, or that it does not run. One a step in which nothing is feasible.
    PostFilter,
    /// How many nodes are candidates, one a step with any; and each candidate's victims in order and its violations,
    /// one a candidate.
    Candidates,
    /// Status of the dry run of a node that is no candidate. One a node.
    NotHelped,
    /// The candidates that are equal up to the last criterion, and that the first of them is chosen. One a step with
    /// any.
    BestCandidates,
    /// The victims on the chosen node, in order. One a step with any.
    Victims,
    /// Node that the pod is nominated to afterwards, and the pods that lose a nomination. One a step in which
    /// PostFilter runs.
    Nominations,
    /// Effects on the pod's unbound claims on the node of the record. One a step in which there is any.
    Volumes,
    /// The devices that a node gives to each claim. One a feasible node of a step in which any are recorded.
    Allocations,
    /// What the claim for extended resources asks for on a node. One a node.
    ExtendedRequests,
    /// Claims as PreBind writes them, or that it fails. One a step in which it writes.
    Reservations,
    /// Conditions of devices that PreBind waits for. One a step in which it writes.
    Waits,
    /// Claims of which PostFilter may deallocate or delete one. One a step in which PostFilter runs.
    Deallocations,
    /// Whether an expression compiles, and its verdict on a device. One for each of these.
    Verdicts,
    /// The cost of an evaluation, where it does not depend on the order of a map.
    Costs,
    /// Which change wakes a pod that DynamicResources rejected. One an event by the engine, and two by the queue.
    Hints,
    /// Whether a lifecycle function answers instead of refusing its request; one check for each example.
    Answers,
    /// A value in the answer of a lifecycle function. One a value that an example expects.
    Fields,
}

impl Aspect {
    /// Name of the aspect in reports.
    pub fn name(self) -> &'static str {
        match self {
            Aspect::Outcome => "outcome",
            Aspect::Rejections => "rejections",
            Aspect::Feasible => "feasible",
            Aspect::Score(plugin) => plugin.name(),
            Aspect::Totals => "totals",
            Aspect::Best => "best",
            Aspect::Messages => "messages",
            Aspect::WholeMessages => "whole messages",
            Aspect::PostFilter => "post filter",
            Aspect::Candidates => "candidates",
            Aspect::NotHelped => "not helped",
            Aspect::BestCandidates => "best candidates",
            Aspect::Victims => "victims",
            Aspect::Nominations => "nominations",
            Aspect::Volumes => "volumes",
            Aspect::Allocations => "allocations",
            Aspect::ExtendedRequests => "extended requests",
            Aspect::Reservations => "reservations",
            Aspect::Waits => "waits",
            Aspect::Deallocations => "deallocations",
            Aspect::Verdicts => "verdicts",
            Aspect::Costs => "costs",
            Aspect::Hints => "hints",
            Aspect::Answers => "answers",
            Aspect::Fields => "fields",
        }
    }
}

/// How often an aspect was compared and how often it was equal.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of equal comparisons.
    pub matched: u64,
    /// Number of all comparisons.
    pub compared: u64,
}

/// Tallies by aspect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tallies(pub BTreeMap<Aspect, Tally>);

impl Tallies {
    /// Counts of one aspect.
    pub fn of(&self, aspect: Aspect) -> Tally {
        self.0.get(&aspect).copied().unwrap_or_default()
    }

    /// Counts of every plugin's scores together.
    pub fn scores(&self) -> Tally {
        let mut sum = Tally::default();
        for (aspect, tally) in &self.0 {
            if matches!(aspect, Aspect::Score(_)) {
                sum.matched += tally.matched;
                sum.compared += tally.compared;
            }
        }
        sum
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Tallies) {
        for (aspect, tally) in &other.0 {
            let sum = self.0.entry(*aspect).or_default();
            sum.matched += tally.matched;
            sum.compared += tally.compared;
        }
    }

    pub(super) fn count(&mut self, aspect: Aspect, equal: bool) {
        let tally = self.0.entry(aspect).or_default();
        tally.compared += 1;
        tally.matched += u64::from(equal);
    }
}

/// One difference from the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Location of the difference in its case.
    pub place: Place,
    /// The aspect that differs.
    pub aspect: Aspect,
    /// The recorded value.
    pub expected: String,
    /// The engine's value.
    pub got: String,
}

/// Location of a difference in a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A step of a recorded case.
    Step {
        /// Index of the step, from 0.
        step: usize,
        /// The node, if the difference is about one node.
        node: Option<String>,
    },
    /// The answer to a lifecycle example.
    Answer {
        /// Name of the lifecycle function.
        function: &'static str,
        /// Ids of the requirements that the example covers.
        requirements: Vec<String>,
        /// The value's path in the answer; empty for the answer itself.
        path: String,
    },
}
