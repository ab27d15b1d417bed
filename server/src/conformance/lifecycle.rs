//! Worked examples of lifecycle decisions: runs each example on its function and compares the answer with the expected
//! one.
//!
//! [`example`] is the form of the file, [`matching`] has the rules of the comparison (L-GEN-6).

pub mod example;
pub mod matching;

use std::path::Path;

use rayon::prelude::*;

use self::example::Example;
use super::error::ConformanceError;
use super::report::{CaseReport, Corpus, Report, SuiteReport};
use super::selection::{Selection, all_known};
use super::tally::{Aspect, Difference, Place};
use crate::lifecycle::FUNCTIONS;

/// Runs the examples of a file, group by group in the order of the groups; a group is a suite of the report.
///
/// Errors: a file that is not an array of examples, a selected group that has no example.
pub(super) fn run(path: &Path, selection: &Selection) -> Result<Report, ConformanceError> {
    let examples = example::read(path)?;
    let groups = groups_of(&examples);
    all_known(&selection.suites, &groups, path)?;
    let suites = groups
        .into_iter()
        .filter(|group| selection.is_wanted(group))
        .map(|group| run_group(group, &examples, selection))
        .collect();
    Ok(Report { corpus: Corpus::Lifecycle, sampled_every: selection.every.max(1), suites })
}

/// The groups of these examples, in the order in which the specification lists the functions.
fn groups_of(examples: &[Example]) -> Vec<&'static str> {
    let mut groups: Vec<&'static str> = FUNCTIONS.iter().map(|function| function.group).collect();
    groups.dedup();
    groups.retain(|group| examples.iter().any(|example| example.function.group == *group));
    groups
}

fn run_group(group: &str, examples: &[Example], selection: &Selection) -> SuiteReport {
    let of_group: Vec<&Example> = examples
        .iter()
        .filter(|example| example.function.group == group)
        .step_by(selection.every.max(1))
        .collect();
    let cases: Vec<CaseReport> = of_group.par_iter().map(|example| check(example)).collect();
    let mut suite = SuiteReport::new(group);
    for case in cases {
        suite.add(case, selection.n_differences);
    }
    suite
}

/// Runs one example. An error of the function is a difference, since no example expects one. An input field that the
/// function does not know is one as well, since the function would ignore it.
fn check(example: &Example) -> CaseReport {
    let mut report = CaseReport::new(&example.id);
    report.n_attempts = 1;
    let difference = |aspect, path, expected, got| {
        let function = example.function.name;
        let place = Place::Answer { function, requirements: example.requirement.clone(), path };
        Difference { place, aspect, expected, got }
    };
    let answer = example.function.decide(&example.input);
    if let Err(error) = example.function.check_fields(&example.expect) {
        // Expected to be absent, it would be so in every answer.
        report.tallies.count(Aspect::Fields, false);
        let expected = "fields that an answer may have".to_owned();
        report.differences.push(difference(Aspect::Fields, String::new(), expected, error));
    }
    report.tallies.count(Aspect::Answers, answer.is_ok());
    match answer {
        Err(error) => report.differences.push(difference(
            Aspect::Answers,
            String::new(),
            "an answer".to_owned(),
            format!("error: {error}"),
        )),
        Ok(answer) => {
            let found = matching::compare(example.function.name, &example.expect, &answer);
            for _ in 0..found.n_equal {
                report.tallies.count(Aspect::Fields, true);
            }
            for unequal in found.unequal {
                report.tallies.count(Aspect::Fields, false);
                let (path, expected, got) = (unequal.path, unequal.expected, unequal.answered);
                report.differences.push(difference(Aspect::Fields, path, expected, got));
            }
        }
    }
    report
}
