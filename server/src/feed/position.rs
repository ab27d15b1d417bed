//! Position: how far a feed is. Replicas are fed one by one, and one that begins to commit has to know at least what the
//! decisions before it rested on.
//!
//! Kubernetes' resource versions of one kind can be compared (since 1.35, and in practice before), those of two kinds
//! cannot: so a position has a number for each kind. Clients that feed by `Sync` number their changes themselves.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// The kind under which a position has the number of a `Sync` stream, which counts changes of all kinds together.
pub(crate) const SYNC: &str = "Sync";

/// The newest version of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position(pub(crate) BTreeMap<String, u64>);

/// A kind of which a feed has not seen enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Behind {
    kind: String,
    reached: u64,
    wanted: u64,
}

impl fmt::Display for Behind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Behind { kind, reached, wanted } = self;
        write!(f, "the feed of {kind} is at version {reached}, and has to reach {wanted}")
    }
}

impl Position {
    /// The first kind in which this position is behind another one.
    pub(crate) fn behind(&self, wanted: &Position) -> Option<Behind> {
        let reached = |kind: &str| self.0.get(kind).copied().unwrap_or(0);
        let mut kinds = wanted.0.iter().map(|(kind, &wanted)| Behind {
            kind: kind.clone(),
            reached: reached(kind),
            wanted,
        });
        kinds.find(|it| it.reached < it.wanted)
    }

    /// Returns whether the version is newer than the known one. 0 is none.
    fn raise(&mut self, kind: &str, version: u64) -> bool {
        let is_newer = version > self.0.get(kind).copied().unwrap_or(0);
        if is_newer {
            self.0.insert(kind.to_owned(), version);
        }
        is_newer
    }
}

/// The position of a server's feed, with what is being applied and without.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    /// The newest version that the cluster may have.
    claimed: Mutex<Position>,
    /// The newest version up to which the cluster certainly has everything.
    reached: watch::Sender<Position>,
}

impl Positions {
    /// Records, before it is applied, that the cluster may have this version from now on.
    pub(crate) fn claim(&self, kind: &str, version: u64) {
        self.claims().raise(kind, version);
    }

    /// Records that the cluster has everything up to this version.
    pub(crate) fn reach(&self, kind: &str, version: u64) {
        self.reached.send_if_modified(|reached| reached.raise(kind, version));
    }

    /// Records that the history of a kind began anew: its versions go on from here.
    pub(crate) fn rewind(&self, kind: &str) {
        self.claims().0.remove(kind);
        self.reached.send_modify(|reached| {
            reached.0.remove(kind);
        });
    }

    /// The newest versions that the cluster may have.
    pub(crate) fn claimed(&self) -> Position {
        self.claims().clone()
    }

    /// The versions up to which the cluster certainly has everything, and their growth.
    pub(crate) fn reached(&self) -> watch::Receiver<Position> {
        self.reached.subscribe()
    }

    fn claims(&self) -> MutexGuard<'_, Position> {
        // Plain numbers: a panic elsewhere leaves nothing half done.
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_behind_in_the_first_kind_that_lacks_something() {
        let of = |kinds: &[(&str, u64)]| {
            let positions = Positions::default();
            kinds.iter().for_each(|(kind, version)| positions.reach(kind, *version));
            positions.reached().borrow().clone()
        };
        let reached = of(&[("Pod", 7), ("Pod", 5), ("Node", 3)]);
        assert_eq!(reached.behind(&of(&[("Pod", 7), ("Node", 2)])), None);
        assert_eq!(reached.behind(&Position::default()), None);
        let behind = reached.behind(&of(&[("Pod", 8), ("Node", 3)])).unwrap();
        let text = "the feed of Pod is at version 7, and has to reach 8";
        assert_eq!(behind.to_string(), text);
        let missing = reached.behind(&of(&[("Lease", 1)])).unwrap();
        assert_eq!((missing.reached, missing.wanted), (0, 1));
    }

    #[test]
    fn what_is_claimed_is_not_reached_yet_and_a_new_history_begins_below() {
        let positions = Positions::default();
        positions.claim("Pod", 9);
        assert!(positions.reached().borrow().behind(&positions.claimed()).is_some());
        positions.reach("Pod", 9);
        assert_eq!(positions.reached().borrow().behind(&positions.claimed()), None);
        positions.rewind("Pod");
        positions.claim("Pod", 2);
        assert_eq!(positions.claimed(), Position([("Pod".to_owned(), 2)].into()));
        assert!(positions.reached().borrow().0.is_empty());
    }
}
