//! Verdict: the result of one strategy, and what it may look at.

use std::time::Instant;

use berth_engine::Cluster;

use crate::clock;
use crate::policy::Profiles;

/// What strategies may look at besides the options.
pub(crate) struct World<'a> {
    /// The cluster as it is now, or why nobody can say how it is.
    pub(crate) cluster: Result<&'a Cluster, String>,
    pub(crate) profiles: &'a Profiles,
    /// Nobody waits for the answer any more.
    pub(crate) is_cancelled: &'a (dyn Fn() -> bool + Sync),
    /// From then on a strategy that takes its time leaves the decision to the next one.
    pub(crate) patience: Instant,
    /// From then on every strategy leaves all options as they are: what was decided until then is to go back in time.
    pub(crate) last_call: Instant,
}

impl World<'_> {
    /// Whether a strategy that is not done yet had better give up.
    pub(crate) fn is_out_of_time(&self) -> bool {
        (self.is_cancelled)() || clock::now() >= self.patience
    }

    /// Whether the answer has to be sent now.
    pub(crate) fn is_over(&self) -> bool {
        (self.is_cancelled)() || clock::now() >= self.last_call
    }
}

/// An option that a strategy keeps.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    /// Its place among all options of the request.
    pub(crate) index: usize,
    /// By what, in a few words without line breaks.
    pub(crate) because: String,
}

/// What a strategy makes of the options that it is given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// At least one of them, in their order.
    Kept(Vec<Kept>),
    /// It cannot tell them apart, and why not: all of them stay (S-CAE-6).
    Undecided(String),
}

/// All options that share the least score; ties are all kept. Undecided when none has a score.
///
/// Scores are compared exactly; one that compares with nothing (NaN) counts as none.
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
