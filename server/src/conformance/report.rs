//! Sums of the comparisons, by suite.

use serde_json::{Value, json};

use super::tally::{Aspect, Difference, Place, Tallies, Tally};

/// Kind of corpus that was run.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Corpus {
    /// Recorded scheduling decisions, one suite per file.
    Decisions,
    /// Worked examples of lifecycle decisions, one suite per group.
    Lifecycle,
}

/// Report of the whole run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Kind of corpus that was run.
    pub corpus: Corpus,
    /// Every n-th case was replayed; 1 means all.
    pub sampled_every: usize,
    /// Suites in name order, or groups in the order of the specification.
    pub suites: Vec<SuiteReport>,
}

/// Report of one suite.
#[derive(Clone, Debug)]
pub struct SuiteReport {
    /// Name of the suite.
    pub name: String,
    /// Cases replayed.
    pub n_cases: usize,
    /// Attempts compared.
    pub n_steps: usize,
    /// Counts of comparisons.
    pub tallies: Tallies,
    /// Number of differences.
    pub n_differences: usize,
    /// The first differences, with the id of their case.
    pub differences: Vec<(String, Difference)>,
}

/// Result of a suite.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Everything is as recorded.
    Match,
    /// Something is not as recorded.
    Mismatch,
}

/// Report of one case.
#[derive(Clone, Debug)]
pub struct CaseReport {
    id: String,
    /// Attempts compared.
    pub n_attempts: usize,
    /// Counts of comparisons.
    pub tallies: Tallies,
    /// All differences.
    pub differences: Vec<Difference>,
}

impl CaseReport {
    /// Empty report of a case that is about to be replayed.
    pub fn new(id: &str) -> CaseReport {
        CaseReport {
            id: id.to_owned(),
            n_attempts: 0,
            tallies: Tallies::default(),
            differences: Vec::new(),
        }
    }

    /// Notes one comparison; `texts` has what was expected and what was got, for the difference if there is one.
    pub(super) fn note(
        &mut self,
        aspect: Aspect,
        is_equal: bool,
        place: impl FnOnce() -> Place,
        texts: impl FnOnce() -> (String, String),
    ) {
        self.tallies.count(aspect, is_equal);
        if !is_equal {
            let (expected, got) = texts();
            self.differences.push(Difference { place: place(), aspect, expected, got });
        }
    }
}

impl Status {
    /// The status as it is printed.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Match => "match",
            Status::Mismatch => "mismatch",
        }
    }
}

impl SuiteReport {
    /// Empty report of a suite.
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

    /// Whether the suite has differences.
    pub fn status(&self) -> Status {
        if self.n_differences > 0 { Status::Mismatch } else { Status::Match }
    }

    fn to_json(&self, corpus: Corpus) -> Value {
        let mut json = match corpus {
            Corpus::Decisions => self.decisions(),
            Corpus::Lifecycle => self.answers(),
        };
        let differences: Vec<Value> =
            self.differences.iter().map(|(case, difference)| difference.to_json(case)).collect();
        if let Value::Object(json) = &mut json {
            json.insert("suite".to_owned(), json!(self.name));
            json.insert("status".to_owned(), json!(self.status().as_str()));
            json.insert("cases".to_owned(), json!(self.n_cases));
            json.insert("differenceCount".to_owned(), json!(self.n_differences));
            json.insert("differences".to_owned(), Value::Array(differences));
        }
        json
    }

    fn tally(&self, aspect: Aspect) -> Value {
        self.tallies.of(aspect).to_json()
    }

    fn answers(&self) -> Value {
        json!({"answers": self.tally(Aspect::Answers), "fields": self.tally(Aspect::Fields)})
    }

    fn decisions(&self) -> Value {
        let plugins: serde_json::Map<String, Value> = self
            .tallies
            .0
            .iter()
            .filter(|(aspect, _)| matches!(aspect, Aspect::Score(_)))
            .map(|(aspect, counts)| (aspect.name().to_owned(), counts.to_json()))
            .collect();
        json!({
            "steps": self.n_steps,
            "outcomes": self.tally(Aspect::Outcome),
            "rejections": self.tally(Aspect::Rejections),
            "feasible": self.tally(Aspect::Feasible),
            "scores": plugins,
            "totals": self.tally(Aspect::Totals),
            "best": self.tally(Aspect::Best),
            "messages": self.tally(Aspect::Messages),
            "volumes": self.tally(Aspect::Volumes),
            "preemption": {
                "wholeMessages": self.tally(Aspect::WholeMessages),
                "postFilter": self.tally(Aspect::PostFilter),
                "candidates": self.tally(Aspect::Candidates),
                "notHelped": self.tally(Aspect::NotHelped),
                "best": self.tally(Aspect::BestCandidates),
                "victims": self.tally(Aspect::Victims),
                "nominations": self.tally(Aspect::Nominations),
            },
        })
    }
}

impl Tally {
    fn to_json(self) -> Value {
        json!({"matched": self.matched, "compared": self.compared})
    }
}

impl Difference {
    fn to_json(&self, case: &str) -> Value {
        let aspect = self.aspect.name();
        let (expected, got) = (&self.expected, &self.got);
        match &self.place {
            Place::Step { step, node } => json!({
                "case": case,
                "step": step,
                "aspect": aspect,
                "node": node,
                "expected": expected,
                "got": got,
            }),
            Place::Answer { function, requirements, path } => json!({
                "case": case,
                "function": function,
                "requirements": requirements,
                "aspect": aspect,
                "path": path,
                "expected": expected,
                "got": got,
            }),
        }
    }
}

impl Report {
    /// Whether everything is as recorded.
    pub fn is_match(&self) -> bool {
        self.suites.iter().all(|suite| suite.status() == Status::Match)
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let suites: Vec<Value> =
            self.suites.iter().map(|suite| suite.to_json(self.corpus)).collect();
        json!({"suites": suites, "sampledEvery": self.sampled_every, "match": self.is_match()})
    }
}
