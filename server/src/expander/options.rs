//! Options of the expander.

use super::price::Prices;
use super::priorities::PrioritySource;
use super::strategy::Strategy;

/// Configuration of an expander.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpanderConfig {
    /// Strategies in order (`strategies`, default berth and then least-waste); at least one, each once.
    pub strategies: Vec<Strategy>,
    /// Priorities for `priority` (`priorities` or `prioritiesFile`); a relative path is relative to the file.
    pub priorities: Option<PrioritySource>,
    /// Prices for `price` (`prices`).
    pub prices: Option<Prices>,
}

impl Default for ExpanderConfig {
    fn default() -> ExpanderConfig {
        let strategies = vec![Strategy::Berth, Strategy::LeastWaste];
        ExpanderConfig { strategies, priorities: None, prices: None }
    }
}
