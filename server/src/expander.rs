//! Expander: which of the node groups that could grow is best. Rules: S-CAE-1 to S-CAE-7.
//!
//! A chain of strategies, a file each, judges cluster-autoscaler's options one after the other: each sees what the one
//! before it left, and whoever leaves a single one ends the chain. What no strategy can tell apart stays: among those
//! cluster-autoscaler draws by lot itself.

pub mod strategy;
pub(crate) mod offer;
mod options;
mod berth;
mod least_nodes;
mod least_waste;
mod most_pods;
pub mod pattern;
pub mod price;
pub mod priorities;
mod priority;
mod wire;
mod verdict;

use crate::document::ConfigError;
use crate::escape::presentable;
use crate::telemetry::{ExpanderOutcome, Metrics, StrategyCounts};
pub use options::ExpanderConfig;

use offer::Offer;
use price::Prices;
use priorities::PrioritySource;
use strategy::Strategy;
use verdict::Kept;
pub(crate) use verdict::{Verdict, World};

/// What an expander decides by; every part that a strategy of the chain needs is there.
#[derive(Debug)]
pub struct Expander {
    strategies: Vec<Strategy>,
    priorities: Option<PrioritySource>,
    prices: Option<Prices>,
}

/// One option of the answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Best {
    /// Its place among all options of the request.
    pub(crate) index: usize,
    /// What each strategy of the chain kept it for.
    pub(crate) because: Vec<String>,
}

/// Metrics of each strategy, in the order of [`Strategy::ALL`].
pub(crate) struct Judgements([StrategyCounts; Strategy::ALL.len()]);

impl Judgements {
    /// Takes the counters from a server's metrics.
    pub(crate) fn new(metrics: &Metrics) -> Judgements {
        Judgements(Strategy::ALL.map(|strategy| metrics.expander().strategy(strategy.name())))
    }
}

impl Default for Expander {
    /// The chain of the default configuration.
    fn default() -> Expander {
        let ExpanderConfig { strategies, .. } = ExpanderConfig::default();
        Expander { strategies, priorities: None, prices: None }
    }
}

impl Expander {
    /// An expander of this configuration; reads the file of priorities once, to find its mistakes at the start.
    ///
    /// # Errors
    /// [`ConfigError`] when that file cannot be read.
    pub fn new(config: &ExpanderConfig) -> Result<Expander, ConfigError> {
        let ExpanderConfig { strategies, priorities, prices } = config.clone();
        if let Some(source) = &priorities {
            source.read()?;
        }
        Ok(Expander { strategies, priorities, prices })
    }

    /// The best of `offers`, in their order: all of them where no strategy can tell, none only where there is none.
    pub(crate) fn best(
        &self,
        offers: &[Offer],
        world: &World<'_>,
        judgements: &Judgements,
    ) -> Vec<Best> {
        let all = (0..offers.len()).map(|index| Best { index, because: Vec::new() });
        let mut left: Vec<Best> = all.collect();
        for &strategy in &self.strategies {
            // As soon as one is left it wins (S-CAE-7).
            if left.len() <= 1 || world.is_over() {
                break;
            }
            let asked: Vec<(usize, &Offer)> =
                left.iter().map(|best| (best.index, &offers[best.index])).collect();
            let outcome = match self.judge(strategy, &asked, world) {
                Verdict::Kept(kept) if kept.is_empty() => {
                    tracing::error!(%strategy, "an expander strategy kept no option, which it may not; all stay");
                    ExpanderOutcome::Undecided
                }
                Verdict::Kept(kept) => {
                    let n_before = left.len();
                    left = narrowed(left, kept);
                    match left.len() < n_before {
                        true => ExpanderOutcome::Narrowed,
                        false => ExpanderOutcome::Tied,
                    }
                }
                Verdict::Undecided(reason) => {
                    // Ids and quantities are whatever the caller sent.
                    let reason = presentable(&reason);
                    tracing::warn!(%strategy, reason, "an expander strategy could not decide; all options stay");
                    ExpanderOutcome::Undecided
                }
            };
            judgements.0[strategy as usize].count(outcome);
        }
        left
    }

    fn judge(&self, strategy: Strategy, asked: &[(usize, &Offer)], world: &World<'_>) -> Verdict {
        let unset = |what: &str| Verdict::Undecided(format!("the configuration has no {what}"));
        match strategy {
            Strategy::MostPods => most_pods::judge(asked),
            Strategy::LeastNodes => least_nodes::judge(asked),
            Strategy::LeastWaste => least_waste::judge(asked, world),
            Strategy::Priority => match &self.priorities {
                Some(source) => priority::judge(source, asked),
                None => unset("priorities"),
            },
            Strategy::Price => match &self.prices {
                Some(prices) => price::judge(prices, asked, world),
                None => unset("prices"),
            },
            Strategy::Berth => berth::judge(asked, world),
        }
    }
}

/// Those of `left` that are `kept`, with what they are kept for.
fn narrowed(left: Vec<Best>, kept: Vec<Kept>) -> Vec<Best> {
    let mut kept = kept.into_iter().peekable();
    let mut narrowed = Vec::with_capacity(kept.len());
    for mut best in left {
        if let Some(Kept { because, .. }) = kept.next_if(|kept| kept.index == best.index) {
            best.because.push(because);
            narrowed.push(best);
        }
    }
    narrowed
}

#[cfg(test)]
mod tests;
