//! Adds up what was compared, a suite at a time.

use serde_json::{Value, json};

use super::case::Case;
use super::coverage;
use super::tally::{Aspect, Difference, Tallies, Tally};

/// What a reader must know to read the numbers.
pub const NOTES: [&str; 2] = [
    "messages are compared up to PostFilter's text, and `preemption` not at all: preemption is not built yet",
    "suites whose plugins are not built yet are not covered; those of their cases that are within reach are replayed \
     and counted apart",
];

/// The whole run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Every n-th case was replayed; 1 means all.
    pub sampled_every: usize,
    /// In name order.
    pub suites: Vec<SuiteReport>,
}

/// One suite.
#[derive(Clone, Debug)]
pub struct SuiteReport {
    /// Its name.
    pub name: String,
    /// Cases read.
    pub n_cases: usize,
    /// Cases replayed.
    pub n_covered_cases: usize,
    /// Attempts compared.
    pub n_steps: usize,
    /// What was compared.
    pub tallies: Tallies,
    /// How many differences there are.
    pub n_differences: usize,
    /// The first of them, with the id of their case.
    pub differences: Vec<(String, Difference)>,
    /// Why the first case that was not replayed was not.
    pub not_covered: Option<String>,
}

/// How a suite ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Every case was replayed and everything is as recorded.
    Match,
    /// Something that was replayed is not as recorded.
    Mismatch,
    /// Not every case can be replayed yet; those that can are as recorded.
    NotCovered,
}

/// One case.
#[derive(Clone, Debug)]
pub struct CaseReport {
    id: String,
    not_covered: Option<String>,
    /// Attempts compared.
    pub n_attempts: usize,
    /// What was compared.
    pub tallies: Tallies,
    /// Everything that differs.
    pub differences: Vec<Difference>,
}

impl CaseReport {
    /// Of a case that is being replayed.
    pub fn covered(case: &Case) -> CaseReport {
        let (tallies, differences) = (Tallies::default(), Vec::new());
        CaseReport { id: case.id.clone(), not_covered: None, n_attempts: 0, tallies, differences }
    }

    /// Of a case that is not, for this reason.
    pub fn not_covered(case: &Case, reason: String) -> CaseReport {
        CaseReport { not_covered: Some(reason), ..CaseReport::covered(case) }
    }
}

impl Status {
    /// As it is printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Match => "match",
            Status::Mismatch => "mismatch",
            Status::NotCovered => "not covered",
        }
    }
}

impl SuiteReport {
    /// Nothing yet.
    pub fn new(name: &str) -> SuiteReport {
        let unbuilt = coverage::unbuilt_of_suite(name);
        let names: Vec<&str> = unbuilt.iter().map(|plugin| plugin.name()).collect();
        SuiteReport {
            name: name.to_owned(),
            n_cases: 0,
            n_covered_cases: 0,
            n_steps: 0,
            tallies: Tallies::default(),
            n_differences: 0,
            differences: Vec::new(),
            not_covered: (!names.is_empty()).then(|| format!("needs {}", names.join(", "))),
        }
    }

    /// Adds a case, keeping its differences while there are fewer than `n_differences`.
    pub fn add(&mut self, case: CaseReport, n_differences: usize) {
        self.n_cases += 1;
        if let Some(reason) = case.not_covered {
            self.not_covered.get_or_insert_with(|| format!("{}: {reason}", case.id));
            return;
        }
        self.n_covered_cases += 1;
        self.n_steps += case.n_attempts;
        self.tallies.add(&case.tallies);
        self.n_differences += case.differences.len();
        let room = n_differences.saturating_sub(self.differences.len());
        self.differences.extend(
            case.differences.into_iter().take(room).map(|difference| (case.id.clone(), difference)),
        );
    }

    /// How it ended; a difference weighs more than missing coverage.
    pub fn status(&self) -> Status {
        if self.n_differences > 0 {
            Status::Mismatch
        } else if self.not_covered.is_some() {
            Status::NotCovered
        } else {
            Status::Match
        }
    }

    fn to_json(&self) -> Value {
        let tally = |tally: Tally| json!({"matched": tally.matched, "compared": tally.compared});
        let plugins: serde_json::Map<String, Value> = self
            .tallies
            .0
            .iter()
            .filter(|(aspect, _)| matches!(aspect, Aspect::Score(_)))
            .map(|(aspect, counts)| (aspect.name().to_owned(), tally(*counts)))
            .collect();
        let differences: Vec<Value> = self
            .differences
            .iter()
            .map(|(case, difference)| {
                json!({
                    "case": case,
                    "step": difference.step,
                    "aspect": difference.aspect.name(),
                    "node": difference.node,
                    "expected": difference.expected,
                    "got": difference.got,
                })
            })
            .collect();
        json!({
            "suite": self.name,
            "status": self.status().as_str(),
            "notCovered": self.not_covered,
            "cases": self.n_cases,
            "coveredCases": self.n_covered_cases,
            "steps": self.n_steps,
            "outcomes": tally(self.tallies.of(Aspect::Outcome)),
            "rejections": tally(self.tallies.of(Aspect::Rejections)),
            "feasible": tally(self.tallies.of(Aspect::Feasible)),
            "scores": plugins,
            "totals": tally(self.tallies.of(Aspect::Totals)),
            "best": tally(self.tallies.of(Aspect::Best)),
            "messages": tally(self.tallies.of(Aspect::Messages)),
            "differenceCount": self.n_differences,
            "differences": differences,
        })
    }
}

impl Report {
    /// Whether everything that was replayed is as recorded, and something was replayed.
    pub fn is_match(&self) -> bool {
        self.suites.iter().all(|suite| suite.status() != Status::Mismatch)
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let suites: Vec<Value> = self.suites.iter().map(SuiteReport::to_json).collect();
        json!({"suites": suites, "sampledEvery": self.sampled_every, "match": self.is_match(), "notes": NOTES})
    }
}
