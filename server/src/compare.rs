//! Compare: what would have become of recorded pods under other policies. The arrivals of a journal are taken once more, each
//! policy on a cluster of its own, and the figures of the clusters are set side by side.

mod answer;
mod arrivals;
mod figures;
mod mix;
mod outcome;
mod parting;
pub(crate) mod report;
mod trial;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use berth_engine::{
    Cluster, ConsolidateRequest, DrainRules, NodePrices, NodeRules, Policy, TieBreak,
};
use berth_proto::core_v1;
use rayon::prelude::*;

use crate::node_labels::INSTANCE_TYPE;
use crate::policy::Profiles;
use crate::replay::{ReplayError, check_wanted};
use arrivals::{Arrival, Arrivals, Event, Moment};
use figures::Terms;
pub(crate) use figures::{Figures, Prices, Sample, Usage};
use mix::Mix;
use parting::Against;
pub(crate) use parting::{Parting, Says};
pub(crate) use trial::Rule;
use trial::Trial;

/// How ties are broken in all trials.
const TIE_BREAK: TieBreak = TieBreak::Seeded(0);

/// What to compare.
#[derive(Clone, Debug, Default)]
pub(crate) struct Question {
    pub(crate) rules: Vec<Rule>,
    /// Nodes of the clusters instead of the recorded ones.
    pub(crate) nodes: Option<Vec<core_v1::Node>>,
    pub(crate) prices: Option<Prices>,
    /// Whether the pods stay, and come again and again, until none of them fits.
    pub(crate) until_full: bool,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Compared {
    /// The first and the last moment, in microseconds since 1970.
    pub(crate) span: (u64, u64),
    /// The figures under each rule.
    pub(crate) figures: Vec<Figures>,
}

impl Rule {
    /// By profiles.
    pub(crate) fn by(profiles: Profiles) -> Rule {
        Rule::By(Arc::new(profiles), TIE_BREAK)
    }
}

/// Takes the arrivals of a journal under each rule.
///
/// # Errors
/// [`ReplayError`]: what cannot be read; [`ReplayError::Cancelled`].
pub(crate) fn compare(
    directory: &Path,
    question: &Question,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Compared, ReplayError> {
    let mix = Arc::new(Mix::of(directory, cancelled)?);
    let terms = Terms { mix: mix.clone(), prices: question.prices.clone().map(Arc::new) };
    let figures = question.rules.par_iter().map(|rule| {
        let mut trial = question.trial(rule, &terms);
        let mut arrivals = Arrivals::of(directory)?;
        while let Some(moment) = arrivals.next()? {
            check_wanted(cancelled)?;
            trial.take(moment);
        }
        if question.until_full {
            fill(&mut trial, &mix, cancelled)?;
        }
        let policy = trial.profiles().and_then(|it| it.policies().next().cloned());
        let (mut figures, cluster) = trial.finish();
        let seconds = i64::try_from(figures.until() / 1_000_000).unwrap_or(i64::MAX);
        let policy = policy.unwrap_or_default();
        let prices = question.prices.as_ref();
        figures.n_emptiable = n_emptiable(&cluster, &policy, seconds, prices, cancelled);
        Ok(figures)
    });
    let figures = figures.collect::<Result<_, ReplayError>>()?;
    Ok(Compared { span: (mix.from, mix.until), figures })
}

/// Finds the first decision at which two policies part; what came before was decided by the first of them, and by both
/// alike. Returns it with the number of decisions up to it.
///
/// # Errors
/// [`ReplayError`]: what cannot be read.
pub(crate) fn bisect(
    directory: &Path,
    [first, second]: [Profiles; 2],
    nodes: Option<&[core_v1::Node]>,
) -> Result<(Option<Box<Parting>>, usize), ReplayError> {
    let question = Question { nodes: nodes.map(<[_]>::to_vec), ..Question::default() };
    let against = Against { profiles: Arc::new(second), tie_break: TIE_BREAK };
    let mut trial = question.trial(&Rule::by(first), &Terms::default()).against(against);
    let mut arrivals = Arrivals::of(directory)?;
    while let Some(moment) = arrivals.next()? {
        trial.take(moment);
        if trial.parting.is_some() {
            break;
        }
    }
    let parting = trial.parting.take();
    Ok((parting, trial.figures.n_decisions()))
}

impl Question {
    fn trial(&self, rule: &Rule, terms: &Terms) -> Trial {
        let trial = Trial::of(rule.clone(), terms.clone());
        let trial = if self.until_full { trial.filling() } else { trial };
        match &self.nodes {
            Some(nodes) => trial.with_nodes(nodes),
            None => trial,
        }
    }
}

/// Has the pods come again, as copies and at their average pace, until a round of them finds no node.
///
/// # Errors
/// [`ReplayError::Cancelled`].
fn fill(
    trial: &mut Trial,
    mix: &Mix,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<(), ReplayError> {
    let pods = trial.comers();
    let pace = mix.until.saturating_sub(mix.from) / (pods.len() as u64).max(1);
    let (mut at, mut refused) = (mix.until, HashSet::new());
    for round in 1_u64.. {
        let n_placed = trial.figures.n_placed;
        for pod in &pods {
            check_wanted(cancelled)?;
            at += pace.max(1);
            let number = pod.form.number;
            if refused.contains(&number) {
                continue;
            }
            let before = trial.figures.n_placed;
            let events = vec![Event::Came(Box::new(copy(pod, round)))];
            trial.take(Moment { at, is_beginning: false, events });
            if trial.figures.n_placed == before {
                // Nobody leaves, so it never fits again.
                refused.insert(number);
            }
        }
        if trial.figures.n_placed == n_placed {
            break;
        }
    }
    Ok(())
}

fn copy(pod: &Arrival, round: u64) -> Arrival {
    let mut copy = pod.clone();
    copy.key.name = format!("{}-{round}", pod.key.name).into();
    copy.uid = format!("{}-{round}", pod.uid).into();
    copy
}

/// Number of nodes that can go, one after the other, when their pods move.
fn n_emptiable(
    cluster: &Cluster,
    policy: &Policy,
    now: i64,
    prices: Option<&Prices>,
    cancelled: &dyn Fn() -> bool,
) -> Option<usize> {
    let request = ConsolidateRequest {
        policy,
        tie_break: TIE_BREAK,
        candidates: None,
        node_rules: NodeRules::default(),
        rules: DrainRules { move_unreplicated: true, ..DrainRules::default() },
        together: true,
        max_nodes: usize::MAX,
        prices: NodePrices { label: INSTANCE_TYPE, by_label: prices, by_node: None },
        now,
        cancelled,
    };
    cluster.consolidate(&request).ok().map(|it| it.steps.len())
}

#[cfg(test)]
mod tests;
