//! Expander: chooses the best of the node groups that could grow. Rules: S-CAE-1 to S-CAE-7.
//!
//! A chain of strategies, one file each, judges cluster-autoscaler's options one after the other: each gets the options
//! that the previous one kept, and the chain ends once a single option is left. If several are left at the end,
//! cluster-autoscaler itself chooses among them at random.

pub mod strategy;
pub(crate) mod node_group_option;
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

use node_group_option::NodeGroupOption;
use price::Prices;
use priorities::PrioritySource;
use strategy::Strategy;
use verdict::Kept;
pub(crate) use verdict::{Verdict, World};

/// Chooses among options by its strategies; it has every setting that a strategy of the chain needs.
#[derive(Debug)]
pub struct Expander {
    strategies: Vec<Strategy>,
    priorities: Option<PrioritySource>,
    prices: Option<Prices>,
}

/// One option of the response.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Best {
    /// Index among all options of the request.
    pub(crate) index: usize,
    /// Reasons for which each strategy of the chain kept the option.
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
    /// Expander with the chain of the default configuration.
    fn default() -> Expander {
        let ExpanderConfig { strategies, .. } = ExpanderConfig::default();
        Expander { strategies, priorities: None, prices: None }
    }
}

impl Expander {
    /// Creates an expander with this configuration; reads the file of priorities once, to find its errors at the start.
    ///
    /// # Errors
    /// [`ConfigError`] if that file cannot be read.
    pub fn new(config: &ExpanderConfig) -> Result<Expander, ConfigError> {
        let ExpanderConfig { strategies, priorities, prices } = config.clone();
        if let Some(source) = &priorities {
            source.read()?;
        }
        Ok(Expander { strategies, priorities, prices })
    }

    /// The best of `options`, in their order: all of them if no strategy can decide; never empty unless `options` is.
    pub(crate) fn best(
        &self,
        options: &[NodeGroupOption],
        world: &World<'_>,
        judgements: &Judgements,
    ) -> Vec<Best> {
        let all = (0..options.len()).map(|index| Best { index, because: Vec::new() });
        let mut left: Vec<Best> = all.collect();
        for &strategy in &self.strategies {
            // An option that is the only one left wins (S-CAE-7).
            if left.len() <= 1 || world.is_over() {
                break;
            }
            let remaining: Vec<(usize, &NodeGroupOption)> =
                left.iter().map(|best| (best.index, &options[best.index])).collect();
            let outcome = match self.judge(strategy, &remaining, world) {
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
                    // Ids and quantities come from the caller.
                    let reason = presentable(&reason);
                    tracing::warn!(%strategy, reason, "an expander strategy could not decide; all options stay");
                    ExpanderOutcome::Undecided
                }
            };
            judgements.0[strategy as usize].count(outcome);
        }
        left
    }

    fn judge(
        &self,
        strategy: Strategy,
        options: &[(usize, &NodeGroupOption)],
        world: &World<'_>,
    ) -> Verdict {
        let unset = |what: &str| Verdict::Undecided(format!("the configuration has no {what}"));
        match strategy {
            Strategy::MostPods => most_pods::judge(options),
            Strategy::LeastNodes => least_nodes::judge(options),
            Strategy::LeastWaste => least_waste::judge(options, world),
            Strategy::Priority => match &self.priorities {
                Some(source) => priority::judge(source, options),
                None => unset("priorities"),
            },
            Strategy::Price => match &self.prices {
                Some(prices) => price::judge(prices, options, world),
                None => unset("prices"),
            },
            Strategy::Berth => berth::judge(options, world),
        }
    }
}

/// The options of `left` that are in `kept`, with the reasons.
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
