//! Leadership: which of several instances may write now. `lease` decides it; everything that writes asks it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Whether this instance leads. Clones share their state.
#[derive(Clone, Debug)]
pub struct Leadership(pub(super) watch::Receiver<Term>);

/// Knowledge of which instance leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Term {
    /// This instance leads, whatever happens.
    Always,
    /// This instance leads until then; the number identifies its term.
    Held { until: Instant, number: u64 },
    /// This instance does not lead.
    Elsewhere {
        /// The other instance that leads, if it is known.
        holder: Option<Arc<str>>,
        /// Reason why this instance could not lead if there were no other.
        trouble: Option<Arc<str>>,
    },
}

impl Term {
    /// Knowledge before the first answer of the API server.
    pub(super) const UNKNOWN: Term = Term::Elsewhere { holder: None, trouble: None };

    pub(super) fn holder(&self) -> Option<&Arc<str>> {
        match self {
            Term::Always | Term::Held { .. } => None,
            Term::Elsewhere { holder, .. } => holder.as_ref(),
        }
    }
}

impl Leadership {
    /// Leadership of an instance that is alone.
    #[must_use]
    pub fn always() -> Leadership {
        Leadership(watch::channel(Term::Always).1)
    }

    /// Whether this instance may act at `now`.
    #[must_use]
    pub fn is_held(&self, now: Instant) -> bool {
        match *self.0.borrow() {
            Term::Always => true,
            Term::Held { until, .. } => now < until,
            Term::Elsewhere { .. } => false,
        }
    }

    /// Permission to write for as long as this term lasts; `None` if this instance does not lead at `now`.
    #[must_use]
    pub fn mandate(&self, now: Instant) -> Option<Mandate> {
        let number = match *self.0.borrow() {
            Term::Always => 0,
            Term::Held { until, number } if now < until => number,
            Term::Held { .. } | Term::Elsewhere { .. } => return None,
        };
        Some(Mandate { leadership: self.clone(), number })
    }

    /// The other instance that leads; `None` if it is unknown or this instance leads.
    #[must_use]
    pub fn holder(&self) -> Option<Arc<str>> {
        self.0.borrow().holder().cloned()
    }

    /// Reason why this instance could not lead even if no other did: the Lease has been out of its reach for longer
    /// than a leader goes on without it.
    #[must_use]
    pub fn trouble(&self) -> Option<Arc<str>> {
        match &*self.0.borrow() {
            Term::Always | Term::Held { .. } => None,
            Term::Elsewhere { trouble, .. } => trouble.clone(),
        }
    }

    /// Waits until the state changes.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The election has ended: the last state holds for good.
            std::future::pending().await
        }
    }
}

/// Permission to write: a decision of one term of a leadership is written in that term or not at all, since in between
/// another instance may have decided otherwise.
#[derive(Clone, Debug)]
pub struct Mandate {
    leadership: Leadership,
    number: u64,
}

impl Mandate {
    /// Permission of an instance that is alone, or for writes that need no leadership.
    #[must_use]
    pub fn unlimited() -> Mandate {
        Mandate { leadership: Leadership::always(), number: 0 }
    }

    #[cfg(test)]
    pub(super) fn until(until: Instant) -> Mandate {
        let term = Term::Held { until, number: 1 };
        Mandate { leadership: Leadership(watch::channel(term).1), number: 1 }
    }

    /// Number of the term.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How long the mandate lasts at least; `None` if it is over.
    #[must_use]
    pub fn left(&self, now: Instant) -> Option<Duration> {
        match *self.leadership.0.borrow() {
            Term::Always => Some(Duration::MAX),
            Term::Held { until, number } if number == self.number => {
                until.checked_duration_since(now).filter(|left| !left.is_zero())
            }
            Term::Held { .. } | Term::Elsewhere { .. } => None,
        }
    }

    /// Whether the mandate still lasts.
    #[must_use]
    pub fn is_held(&self, now: Instant) -> bool {
        self.left(now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_mandate_is_of_one_term() {
        let now = clock::now();
        let held = |number| Term::Held { until: now + Duration::from_secs(1), number };
        let (terms, term) = watch::channel(held(1));
        let leadership = Leadership(term);
        let mandate = leadership.mandate(now).expect("a leader");
        assert_eq!(mandate.left(now), Some(Duration::from_secs(1)));
        assert!(!mandate.is_held(now + Duration::from_secs(1)), "it has run out");
        terms.send_replace(held(2));
        assert!(leadership.is_held(now) && !mandate.is_held(now), "that is another term");
        assert!(Mandate::unlimited().is_held(now));
    }
}
