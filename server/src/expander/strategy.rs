//! Names of the strategies, as in cluster-autoscaler's `--expander`.

use std::fmt;

/// A rule that compares options; each has a file in this directory.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The option that places most pods.
    MostPods,
    /// The option that adds fewest nodes.
    LeastNodes,
    /// The option that leaves least of its CPU and memory idle.
    LeastWaste,
    /// The option whose group has the highest priority in the operator's list.
    Priority,
    /// The option that costs least.
    Price,
    /// The option with the best result when its pods are placed.
    Berth,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Strategy; 6] = [
        Strategy::MostPods,
        Strategy::LeastNodes,
        Strategy::LeastWaste,
        Strategy::Priority,
        Strategy::Price,
        Strategy::Berth,
    ];

    /// Name of the strategy in flags, files and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Strategy::MostPods => "most-pods",
            Strategy::LeastNodes => "least-nodes",
            Strategy::LeastWaste => "least-waste",
            Strategy::Priority => "priority",
            Strategy::Price => "price",
            Strategy::Berth => "berth",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Parses the name of a strategy.
///
/// # Errors
/// An unknown name, with the names that exist.
pub fn parse(text: &str) -> Result<Strategy, String> {
    if let Some(strategy) = Strategy::ALL.into_iter().find(|strategy| strategy.name() == text) {
        return Ok(strategy);
    }
    let names: Vec<String> = Strategy::ALL.iter().map(|strategy| format!("`{strategy}`")).collect();
    let names = names.join(", ");
    Err(match text {
        "random" => format!(
            "`random` is not one of {names}: leave it out, cluster-autoscaler draws by lot among all that are left"
        ),
        "grpc" => format!("`grpc` is not one of {names}: it is how cluster-autoscaler calls Berth"),
        _ => format!("`{text}` is not one of {names}"),
    })
}

/// The first strategy that occurs twice in `chain`, which is not allowed (S-CAE-7).
#[must_use]
pub fn repeated(chain: &[Strategy]) -> Option<Strategy> {
    let mut rest = chain;
    while let Some((&first, later)) = rest.split_first() {
        if later.contains(&first) {
            return Some(first);
        }
        rest = later;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_explained() {
        for strategy in Strategy::ALL {
            assert_eq!(parse(strategy.name()), Ok(strategy));
        }
        for (bad, hint) in [("random", "leave it out"), ("grpc", "calls Berth"), ("", "one of")] {
            let error = parse(bad).unwrap_err();
            assert!(error.contains(hint) && error.contains("`least-waste`"), "{error}");
        }
    }

    #[test]
    fn a_name_may_appear_once() {
        use Strategy::{Berth, LeastWaste, Price};
        assert_eq!(repeated(&[Berth, LeastWaste, Price]), None);
        assert_eq!(repeated(&[Berth, Price, LeastWaste, Price]), Some(Price));
    }
}
