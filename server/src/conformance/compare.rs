//! Compares the engine's results for one step with the record.

mod devices;
mod preemption;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use berth_engine::{
    CandidateList, Decision, EngineError, Explanation, NodeVerdict, Outcome, Placement, Plugin,
    PreBind, PreBindError, Preemption, StatusCode, Unschedulable, Verdict,
};

use berth_proto::resource_v1::ResourceClaim;

use super::case::{Case, Expect, Refusal, RejectDetail, ScoreDetail, Scores, Volumes};
use super::report::CaseReport;
use super::tally::{Aspect, Place};

/// Results of the engine for one pod.
#[derive(Debug)]
pub struct EngineResults {
    /// The decision with its full explanation.
    pub explained: Result<Explanation, EngineError>,
    /// The plain decision, ties broken by name.
    pub placed: Result<Decision, EngineError>,
    /// The attempt that may evict, ties broken by name.
    pub attempted: Result<Preemption, EngineError>,
    /// The evicting attempt with every candidate, where PostFilter runs in the record or in the engine.
    pub candidates: Option<Result<CandidateList, EngineError>>,
    /// The node that the pod was nominated to before.
    pub nominated_to: Option<String>,
    /// Effects on the pod's claims if it is placed on the node that the record binds it to; `None` when the record has
    /// no such node, or the engine does not place the pod there.
    pub volumes: Option<Volumes>,
    /// What PreBind writes if the pod is placed on the node that the record binds it to, or why it fails; `None` where
    /// the record has no such node.
    pub pre_bind: Option<Result<PreBind, PreBindError>>,
    /// The claims that change when the reservations are taken back; empty where nothing fails after PreBind.
    pub unreserved: Vec<ResourceClaim>,
}

/// Compares `results` with `expect`; counts the comparisons and adds every difference to the report.
pub fn compare(
    case: &Case,
    step: usize,
    expect: &Expect,
    results: &EngineResults,
    report: &mut CaseReport,
) {
    let mut comparison = Comparison { step, report };
    let outcome = comparison.outcome(expect, results);
    if let (true, Ok(explained)) = (outcome, &results.explained) {
        comparison.nodes(case, expect, explained);
        comparison.best(expect, explained, &results.placed);
        comparison.message(expect, explained);
        comparison.volumes(expect, results.volumes.as_ref());
        comparison.preemption(case, expect, results);
        comparison.devices(expect, explained, results);
    }
}

struct Comparison<'a> {
    step: usize,
    report: &'a mut CaseReport,
}

impl Comparison<'_> {
    fn check<T: PartialEq + ?Sized>(
        &mut self,
        aspect: Aspect,
        node: Option<&str>,
        expected: &T,
        got: &T,
        text: impl Fn(&T) -> String,
    ) -> bool {
        let equal = expected == got;
        let place = || Place::Step { step: self.step, node: node.map(str::to_owned) };
        self.report.note(aspect, equal, place, || (text(expected), text(got)));
        equal
    }

    /// Compares the endings. Returns true if they agree and nodes were filtered, or rejected as a whole, so that there
    /// is more to compare.
    fn outcome(&mut self, expect: &Expect, results: &EngineResults) -> bool {
        let expected = expected_ending(expect);
        let explained = ending(results.explained.as_ref().map(|explanation| &explanation.decision));
        let placed = ending(results.placed.as_ref());
        let text = |ending: &Ending| ending.to_string();
        let equal = self.check(Aspect::Outcome, None, &expected, &explained, text)
            && (placed == explained
                || self.check(Aspect::Outcome, None, &explained, &placed, text));
        equal && matches!(expected, Ending::Filtered | Ending::PreFilter(_))
    }

    fn nodes(&mut self, case: &Case, expect: &Expect, explained: &Explanation) {
        let mut feasible = Vec::new();
        let mut rejected = BTreeMap::new();
        for NodeVerdict { node, verdict } in &explained.nodes {
            match verdict {
                Verdict::Feasible { .. } => feasible.push(node.to_string()),
                Verdict::Rejected { plugin, code, reasons } => {
                    rejected.insert(node.to_string(), refusal(*plugin, *code, reasons));
                }
            }
        }
        feasible.sort();
        self.check(Aspect::Feasible, None, &expect.feasible, &feasible, |names| names.join(" "));
        if case.reject_detail == RejectDetail::Full
            && expect.prefilter.is_none()
            && !expect.via_nominated_node
        {
            let nodes: BTreeSet<&String> = expect.rejected.keys().chain(rejected.keys()).collect();
            for node in nodes {
                let expected = expect.rejected.get(node).cloned().map(sorted);
                self.check(
                    Aspect::Rejections,
                    Some(node),
                    &expected,
                    &rejected.get(node).cloned(),
                    |refusal| refusal.as_ref().map_or_else(|| "not rejected".to_owned(), describe),
                );
            }
        }
        if let Some(scores) = &expect.scores {
            self.scores(case.score_detail, scores, expect.raw.as_ref(), explained);
        }
    }

    fn scores(
        &mut self,
        detail: ScoreDetail,
        expected: &Scores,
        raw: Option<&Scores>,
        explained: &Explanation,
    ) {
        for NodeVerdict { node, verdict } in &explained.nodes {
            let Verdict::Feasible { scores, total, .. } = verdict else {
                continue;
            };
            let Some(weighted) = expected.get(node.as_ref()) else {
                if detail != ScoreDetail::Best {
                    self.check(Aspect::Totals, Some(node), &None, &Some(*total), number);
                }
                continue;
            };
            self.check(
                Aspect::Totals,
                Some(node),
                &weighted.get("total").copied(),
                &Some(*total),
                number,
            );
            if detail == ScoreDetail::Totals {
                continue;
            }
            for plugin in Plugin::ALL {
                let expected_raw = raw.map(|raw| {
                    raw.get(node.as_ref()).and_then(|raw| raw.get(plugin.name())).copied()
                });
                let expected =
                    weighted.get(plugin.name()).map(|weighted| (expected_raw.flatten(), *weighted));
                let got = scores.iter().find(|score| score.plugin == plugin);
                let got = got.map(|score| (expected_raw.map(|_| score.raw), score.weighted));
                if expected.is_some() || got.is_some() {
                    self.check(Aspect::Score(plugin), Some(node), &expected, &got, describe_score);
                }
            }
        }
    }

    fn best(
        &mut self,
        expect: &Expect,
        explained: &Explanation,
        placed: &Result<Decision, EngineError>,
    ) {
        let Some(expected) = &expect.best else { return };
        let mut best: Vec<String> = explained.best.iter().map(ToString::to_string).collect();
        best.sort();
        let equal = expected == &best;
        let chosen = placed.as_ref().ok().and_then(|decision| match &decision.outcome {
            Outcome::Placed(placement) => Some(chosen(placement)),
            Outcome::Unschedulable(_) | Outcome::Gated { .. } => None,
        });
        // One feasible node is not scored, so there is no total to give (S-CYC-6).
        let total = expected
            .first()
            .and_then(|node| expect.scores.as_ref()?.get(node)?.get("total"))
            .copied();
        let expected_choice = expected.first().map(|node| Choice {
            node: node.clone(),
            total: total.filter(|_| expect.feasible.len() > 1),
            n_feasible: expect.feasible.len(),
            n_best: expected.len(),
        });
        if equal {
            self.check(Aspect::Best, None, &expected_choice, &chosen, |choice| {
                choice.as_ref().map_or_else(|| "nothing".to_owned(), |choice| format!("{choice:?}"))
            });
        } else {
            self.check(Aspect::Best, None, expected, &best, |names| names.join(" "));
        }
    }

    fn message(&mut self, expect: &Expect, explained: &Explanation) {
        let Some(expected) = expect.message_before_post_filter() else {
            return;
        };
        let got = message_of(&explained.decision);
        self.check(Aspect::Messages, None, expected, got, str::to_owned);
    }

    fn volumes(&mut self, expect: &Expect, got: Option<&Volumes>) {
        // Most pods have no claim: comparing empty with empty would only inflate the count.
        let is_empty = |volumes: &Volumes| *volumes == Volumes::default();
        if is_empty(&expect.volumes) && got.is_none_or(is_empty) {
            return;
        }
        let expected = Some(&expect.volumes);
        self.check(Aspect::Volumes, expect.bind.as_deref(), &expected, &got, |volumes| {
            volumes.map_or_else(|| "not placed there".to_owned(), |volumes| format!("{volumes:?}"))
        });
    }
}

/// Kind of outcome of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ending {
    Gated(Refusal),
    PreFilter(Refusal),
    /// An internal error; its text is informative only.
    Error,
    Filtered,
    /// The engine returned an error; no record expects this.
    NoAnswer(String),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Gated(refusal) => write!(f, "held back by {}", describe(refusal)),
            Ending::PreFilter(refusal) => write!(f, "rejected as a whole by {}", describe(refusal)),
            Ending::Error => f.write_str("an internal error"),
            Ending::Filtered => f.write_str("nodes filtered"),
            Ending::NoAnswer(error) => write!(f, "no answer: {error}"),
        }
    }
}

fn expected_ending(expect: &Expect) -> Ending {
    if let Some(refusal) = &expect.preenqueue {
        Ending::Gated(sorted(refusal.clone()))
    } else if expect.error.is_some() {
        Ending::Error
    } else if let Some(refusal) = &expect.prefilter {
        Ending::PreFilter(sorted(refusal.clone()))
    } else {
        Ending::Filtered
    }
}

fn ending(decision: Result<&Decision, &EngineError>) -> Ending {
    match decision {
        Err(EngineError::SchedulerError { .. }) => Ending::Error,
        Err(error) => Ending::NoAnswer(error.to_string()),
        Ok(decision) => match &decision.outcome {
            // PreEnqueue has one code for holding back (S-Q-6).
            Outcome::Gated { plugin, reasons } => Ending::Gated(refusal(
                Some(*plugin),
                StatusCode::UnschedulableAndUnresolvable,
                reasons,
            )),
            Outcome::Unschedulable(Unschedulable {
                pre_filter: Some((plugin, code, reasons)),
                ..
            }) => Ending::PreFilter(refusal(Some(*plugin), *code, reasons)),
            Outcome::Unschedulable(_) | Outcome::Placed(_) => Ending::Filtered,
        },
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Choice {
    node: String,
    total: Option<i64>,
    n_feasible: usize,
    n_best: usize,
}

fn chosen(placement: &Placement) -> Choice {
    Choice {
        node: placement.node.to_string(),
        total: placement.total,
        n_feasible: usize::try_from(placement.n_feasible).unwrap_or(usize::MAX),
        n_best: usize::try_from(placement.n_best).unwrap_or(usize::MAX),
    }
}

fn message_of(decision: &Decision) -> &str {
    match &decision.outcome {
        Outcome::Unschedulable(unschedulable) => &unschedulable.message,
        Outcome::Placed(_) | Outcome::Gated { .. } => "",
    }
}

fn refusal(plugin: Option<Plugin>, code: StatusCode, reasons: &[String]) -> Refusal {
    sorted(Refusal {
        plugin: plugin.map_or("", Plugin::name).to_owned(),
        code: code.as_str().to_owned(),
        reasons: reasons.to_vec(),
        pre_filter_result: plugin.is_none(),
    })
}

fn sorted(mut refusal: Refusal) -> Refusal {
    refusal.reasons.sort();
    refusal.reasons.dedup();
    refusal
}

fn describe(refusal: &Refusal) -> String {
    let plugin = if refusal.pre_filter_result { "a PreFilter result" } else { &refusal.plugin };
    format!("{plugin} {}: {}", refusal.code, refusal.reasons.join(", "))
}

fn describe_score(score: &Option<(Option<i64>, i64)>) -> String {
    match score {
        None => "no score".to_owned(),
        Some((None, weighted)) => format!("weighted {weighted}"),
        Some((Some(raw), weighted)) => format!("raw {raw}, weighted {weighted}"),
    }
}

fn number(total: &Option<i64>) -> String {
    total.map_or_else(|| "no total".to_owned(), |total| total.to_string())
}
