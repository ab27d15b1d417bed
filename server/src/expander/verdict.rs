//! Verdict: the result of one strategy, and the context that it judges in.

use std::time::Instant;

use berth_engine::Cluster;

use crate::clock;
use crate::policy::Profiles;

/// Context of strategies besides the options.
pub(crate) struct World<'a> {
    /// The current cluster, or the reason why it is not known.
    pub(crate) cluster: Result<&'a Cluster, String>,
    pub(crate) profiles: &'a Profiles,
    /// True once the caller is gone.
    pub(crate) is_cancelled: &'a (dyn Fn() -> bool + Sync),
    /// Time from which on a strategy that takes long leaves the decision to the next one.
    pub(crate) patience: Instant,
    /// Time from which on every strategy leaves all options as they are, so that the response is sent in time.
    pub(crate) last_call: Instant,
}

impl World<'_> {
    /// Whether a strategy that is not finished should give up.
    pub(crate) fn is_out_of_time(&self) -> bool {
        (self.is_cancelled)() || clock::now() >= self.patience
    }

    /// Whether the response has to be sent now.
    pub(crate) fn is_over(&self) -> bool {
        (self.is_cancelled)() || clock::now() >= self.last_call
    }
}

/// An option that a strategy keeps.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    /// Index among all options of the request.
    pub(crate) index: usize,
    /// Reason, in a few words without line breaks.
    pub(crate) because: String,
}

/// Result of a strategy for the options that it got.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The options that are kept, at least one, in their order.
    Kept(Vec<Kept>),
    /// The reason why the strategy cannot decide: all options stay (S-CAE-6).
    Undecided(String),
}

/// Keeps all options that share the least score, ties included. Undecided if none has a score.
///
/// Scores are compared exactly; a NaN counts as no score.
pub(crate) fn least<S: PartialOrd>(
    scored: impl IntoIterator<Item = (usize, S)>,
    unscored: &str,
    because: impl Fn(&S) -> String,
) -> Verdict {
    let mut best: Vec<(usize, S)> = Vec::new();
    for (index, score) in scored {
        if score.partial_cmp(&score).is_none() {
            continue;
        }
        match best.first() {
            Some((_, least)) if score > *least => {}
            Some((_, least)) if score == *least => best.push((index, score)),
            Some(_) | None => best = vec![(index, score)],
        }
    }
    if best.is_empty() {
        return Verdict::Undecided(unscored.to_owned());
    }
    let kept = |(index, score): &(usize, S)| Kept { index: *index, because: because(score) };
    Verdict::Kept(best.iter().map(kept).collect())
}
