//! Adds up what was compared, a suite at a time.

use serde_json::{Value, json};

use super::case::Case;
use super::tally::{Aspect, Difference, Tallies, Tally};

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
    /// Cases replayed.
    pub n_cases: usize,
    /// Attempts compared.
    pub n_steps: usize,
    /// What was compared.
    pub tallies: Tallies,
    /// How many differences there are.
    pub n_differences: usize,
    /// The first of them, with the id of their case.
    pub differences: Vec<(String, Difference)>,
}

/// How a suite ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Everything is as recorded.
    Match,
    /// Something is not as recorded.
    Mismatch,
}

/// One case.
#[derive(Clone, Debug)]
pub struct CaseReport {
    id: String,
    /// Attempts compared.
    pub n_attempts: usize,
    /// What was compared.
    pub tallies: Tallies,
    /// Everything that differs.
    pub differences: Vec<Difference>,
}

impl CaseReport {
    /// Of a case that is about to be replayed.
    pub fn new(case: &Case) -> CaseReport {
        CaseReport {
            id: case.id.clone(),
            n_attempts: 0,
            tallies: Tallies::default(),
            differences: Vec::new(),
        }
    }
}

impl Status {
    /// As it is printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Match => "match",
            Status::Mismatch => "mismatch",
        }
    }
}

impl SuiteReport {
    /// Nothing yet.
    pub fn new(name: &str) -> SuiteReport {
        SuiteReport {
            name: name.to_owned(),
            n_cases: 0,
            n_steps: 0,
            tallies: Tallies::default(),
            n_differences: 0,
            differences: Vec::new(),
        }
    }

    /// Adds a case, keeping its differences while there are fewer than `n_differences`.
    pub fn add(&mut self, case: CaseReport, n_differences: usize) {
        self.n_cases += 1;
        self.n_steps += case.n_attempts;
        self.tallies.add(&case.tallies);
        self.n_differences += case.differences.len();
        let room = n_differences.saturating_sub(self.differences.len());
        self.differences.extend(
            case.differences.into_iter().take(room).map(|difference| (case.id.clone(), difference)),
        );
    }

    /// How it ended.
    pub fn status(&self) -> Status {
        if self.n_differences > 0 { Status::Mismatch } else { Status::Match }
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
            "cases": self.n_cases,
            "steps": self.n_steps,
            "outcomes": tally(self.tallies.of(Aspect::Outcome)),
            "rejections": tally(self.tallies.of(Aspect::Rejections)),
            "feasible": tally(self.tallies.of(Aspect::Feasible)),
            "scores": plugins,
            "totals": tally(self.tallies.of(Aspect::Totals)),
            "best": tally(self.tallies.of(Aspect::Best)),
            "messages": tally(self.tallies.of(Aspect::Messages)),
            "volumes": tally(self.tallies.of(Aspect::Volumes)),
            "preemption": {
                "wholeMessages": tally(self.tallies.of(Aspect::WholeMessages)),
                "postFilter": tally(self.tallies.of(Aspect::PostFilter)),
                "candidates": tally(self.tallies.of(Aspect::Candidates)),
                "notHelped": tally(self.tallies.of(Aspect::NotHelped)),
                "best": tally(self.tallies.of(Aspect::BestCandidates)),
                "victims": tally(self.tallies.of(Aspect::Victims)),
                "nominations": tally(self.tallies.of(Aspect::Nominations)),
            },
            "differenceCount": self.n_differences,
            "differences": differences,
        })
    }
}

impl Report {
    /// Whether everything is as recorded.
    pub fn is_match(&self) -> bool {
        self.suites.iter().all(|suite| suite.status() == Status::Match)
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let suites: Vec<Value> = self.suites.iter().map(SuiteReport::to_json).collect();
        json!({"suites": suites, "sampledEvery": self.sampled_every, "match": self.is_match()})
    }
}
