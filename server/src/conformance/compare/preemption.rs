//! Compares PostFilter with its record: whether it runs, its status and text, every candidate with its victims, the
//! choice and the nominations.

use std::collections::{BTreeMap, BTreeSet};

use berth_engine::{
    Candidate, CandidateList, NodeVerdict, Nomination, Outcome, PostFilter, PostFilterCode,
    Preemption, Verdict,
};

use super::{Comparison, EngineResults, describe, ending, message_of, refusal, sorted};
use crate::conformance::case::{self, After, Case, Expect, Refusal, ScoreDetail};
use crate::conformance::tally::Aspect;

impl Comparison<'_> {
    /// Compares the evicting attempt; the ending of the plain attempt was already compared with the record.
    pub(super) fn preemption(&mut self, case: &Case, expect: &Expect, results: &EngineResults) {
        if !self.agreement(results) {
            return;
        }
        let Ok(attempt) = &results.attempted else { return };
        if let Some(message) = &expect.message {
            let got = message_of(&attempt.decision);
            self.check(Aspect::WholeMessages, None, message.as_str(), got, str::to_owned);
        }
        if expect.feasible.is_empty() {
            self.post_filter(expect.preemption.as_ref(), attempt.post_filter.as_ref());
        }
        let (Some(expected), Some(got)) = (&expect.preemption, &attempt.post_filter) else {
            return;
        };
        self.nominations(case, expect, expected, got, results.nominated_to.as_deref());
        if let Some(Ok(list)) = &results.candidates {
            self.candidates(case.score_detail, expected, got, list);
            if case.score_detail == ScoreDetail::Full {
                self.not_helped(&expected.not_helped, &list.not_helped);
            }
            self.best_candidates(expected, got, list);
        }
        self.victims(expected, got.chosen.as_ref());
    }

    /// Whether the attempt that may evict has the outcome of the plain attempt, and its list of candidates agrees with
    /// it.
    fn agreement(&mut self, results: &EngineResults) -> bool {
        let placed = ending(results.placed.as_ref()).to_string();
        let attempted = ending(results.attempted.as_ref().map(|attempt| &attempt.decision));
        if placed != attempted.to_string() {
            return self.check(
                Aspect::Outcome,
                None,
                &placed,
                &attempted.to_string(),
                Clone::clone,
            );
        }
        let (Ok(placed), Ok(attempt)) = (&results.placed, &results.attempted) else { return true };
        // PostFilter adds to the message and to nothing else (S-ERR-5).
        let mut decision = attempt.decision.clone();
        if let (Some(_), Outcome::Unschedulable(recorded)) =
            (&attempt.post_filter, &mut decision.outcome)
        {
            message_of(placed).clone_into(&mut recorded.message);
        }
        if decision != *placed {
            let text = |decision: &_| format!("{decision:?}");
            return self.check(Aspect::Outcome, None, placed, &decision, text);
        }
        let Some(listed) = &results.candidates else { return true };
        let listed = listed.as_ref().map(|list| &list.preemption);
        let equal = listed.is_ok_and(|listed| listed == attempt);
        if !equal {
            let text = |attempt: &Result<&Preemption, _>| format!("{attempt:?}");
            self.check(Aspect::PostFilter, None, &Ok(attempt), &listed, text);
        }
        equal
    }

    fn post_filter(&mut self, expected: Option<&case::Preemption>, got: Option<&PostFilter>) {
        let expected = expected.map(|expected| (expected.code.as_str(), expected.message.as_str()));
        let got = got.map(|got| (code(got.code), got.message.as_str()));
        self.check(Aspect::PostFilter, None, &expected, &got, |ending| match ending {
            None => "does not run".to_owned(),
            Some((code, "")) => (*code).to_owned(),
            Some((code, message)) => format!("{code}: {message}"),
        });
    }

    fn candidates(
        &mut self,
        detail: ScoreDetail,
        expected: &case::Preemption,
        got: &PostFilter,
        list: &CandidateList,
    ) {
        let n_expected = expected.candidate_count.unwrap_or(expected.candidates.len());
        let n_got = usize::try_from(got.n_candidates).unwrap_or(usize::MAX);
        if n_expected + n_got + list.candidates.len() > 0 {
            let (expected, got) = ((n_expected, n_expected), (n_got, list.candidates.len()));
            self.check(Aspect::Candidates, None, &expected, &got, |(counted, listed)| {
                format!("{counted} candidates counted, {listed} listed")
            });
        }
        let wanted: BTreeMap<&str, _> =
            expected.candidates.iter().map(|c| (c.node.as_str(), account(c))).collect();
        let got: BTreeMap<&str, _> =
            list.candidates.iter().map(|c| (&*c.node, account(&recorded(c)))).collect();
        let nodes: BTreeSet<&str> = match detail {
            ScoreDetail::Full => wanted.keys().chain(got.keys()).copied().collect(),
            ScoreDetail::Totals | ScoreDetail::Best => wanted.keys().copied().collect(),
        };
        let no_candidate = || "no candidate".to_owned();
        for node in nodes {
            let (wanted, got) = (wanted.get(node), got.get(node));
            self.check(Aspect::Candidates, Some(node), &wanted, &got, |account| {
                account.map_or_else(no_candidate, Clone::clone)
            });
        }
    }

    fn not_helped(&mut self, expected: &BTreeMap<String, Refusal>, got: &[NodeVerdict]) {
        let got: BTreeMap<&str, Refusal> = got
            .iter()
            .map(|NodeVerdict { node, verdict }| (&**node, dry_run_status(verdict)))
            .collect();
        let nodes: BTreeSet<&str> =
            expected.keys().map(String::as_str).chain(got.keys().copied()).collect();
        for node in nodes {
            let expected = expected.get(node).cloned().map(sorted);
            self.check(
                Aspect::NotHelped,
                Some(node),
                &expected,
                &got.get(node).cloned(),
                |refusal| {
                    refusal.as_ref().map_or_else(|| "not tried, or helped".to_owned(), describe)
                },
            );
        }
    }

    /// Compares `best` with the record, and the choice: of several, the first by name, as the tie rule of the replay
    /// demands.
    fn best_candidates(
        &mut self,
        expected: &case::Preemption,
        got: &PostFilter,
        list: &CandidateList,
    ) {
        let best: Vec<String> = list.best.iter().map(ToString::to_string).collect();
        if expected.best.is_empty() && best.is_empty() {
            return;
        }
        if expected.best != best {
            let names = |names: &Vec<String>| names.join(" ");
            self.check(Aspect::BestCandidates, None, &expected.best, &best, names);
            return;
        }
        let n_best = usize::try_from(got.n_best).unwrap_or(usize::MAX);
        let chosen = got.chosen.as_ref().map(|candidate| candidate.node.to_string());
        let expected = (expected.best.first().cloned(), expected.best.len());
        self.check(Aspect::BestCandidates, None, &expected, &(chosen, n_best), |(node, n)| {
            format!("{} of {n}", node.as_deref().unwrap_or("nothing"))
        });
    }

    fn victims(&mut self, expected: &case::Preemption, got: Option<&Candidate>) {
        let got = got.map(recorded);
        if expected.chosen.is_none() && got.is_none() {
            return;
        }
        let got = got.map(|candidate| (candidate.node, candidate.victims));
        let expected = expected.chosen.clone().map(|node| (node, expected.victims.clone()));
        self.check(Aspect::Victims, None, &expected, &got, |chosen| match chosen {
            None => "nobody".to_owned(),
            Some((node, victims)) => format!("on {node} {}", victims.join(" ")),
        });
    }

    /// Compares the nominations, as far as the case records them: those that others lose where the case goes on with
    /// the pod nominated, and the pod's own where it stays pending, which only a retried pod can have.
    fn nominations(
        &mut self,
        case: &Case,
        expect: &Expect,
        expected: &case::Preemption,
        got: &PostFilter,
        nominated_to: Option<&str>,
    ) {
        let Some(step) = case.steps.get(self.step) else { return };
        let loses_own =
            step.retry.as_ref().is_some_and(|name| expect.clear_nominations.contains(name));
        let nomination = match &got.nomination {
            Nomination::Unchanged => nominated_to,
            Nomination::Cleared => None,
            Nomination::Node(node) => Some(&**node),
        };
        let expected_nomination = match &expected.chosen {
            Some(node) => Some(node.as_str()),
            None if loses_own => None,
            None if step.retry.is_none() => nomination,
            None => nominated_to,
        };
        let mut others: Vec<String> =
            expect.clear_nominations.iter().filter(|name| !is_own(step, name)).cloned().collect();
        let mut cleared: Vec<String> = match step.after {
            After::Nominate => got.cleared_nominations.iter().map(ToString::to_string).collect(),
            After::Bind
            | After::None
            | After::Inflight
            | After::BindFails
            | After::ReserveFails => others.clone(),
        };
        others.sort();
        cleared.sort();
        let (expected, got) = ((expected_nomination, others), (nomination, cleared));
        self.check(Aspect::Nominations, None, &expected, &got, |(node, cleared)| {
            let node = node.unwrap_or("no node");
            format!("nominated to {node}; taken from [{}]", cleared.join(" "))
        });
    }
}

/// A candidate in the recorded form.
fn recorded(candidate: &Candidate) -> case::Candidate {
    case::Candidate {
        node: candidate.node.to_string(),
        victims: candidate.victims.iter().map(|victim| victim.pod.to_string()).collect(),
        pdb_violations: usize::try_from(candidate.n_pdb_violations).unwrap_or(usize::MAX),
    }
}

fn account(candidate: &case::Candidate) -> String {
    let case::Candidate { node: _, victims, pdb_violations } = candidate;
    format!("{} ({pdb_violations} violations)", victims.join(" "))
}

/// Unlike a node that PreFilter left out, one without lower pods has no plugin and is no less tried.
fn dry_run_status(verdict: &Verdict) -> Refusal {
    match verdict {
        Verdict::Rejected { plugin, code, reasons } => {
            Refusal { pre_filter_result: false, ..refusal(*plugin, *code, reasons) }
        }
        Verdict::Feasible { .. } => Refusal {
            plugin: String::new(),
            code: "Success".to_owned(),
            reasons: Vec::new(),
            pre_filter_result: false,
        },
    }
}

fn is_own(step: &case::Step, name: &str) -> bool {
    step.retry.as_deref() == Some(name)
}

fn code(code: PostFilterCode) -> &'static str {
    match code {
        PostFilterCode::Success => "Success",
        PostFilterCode::Unschedulable => "Unschedulable",
        PostFilterCode::Error => "Error",
    }
}
