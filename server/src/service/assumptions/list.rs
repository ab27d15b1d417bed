//! Lists what is assumed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_engine::PodStanding;
use berth_proto::berth_v1 as wire;

use super::Assumptions;
use super::table::Entry;
use crate::clock;

/// An assumed pod in a list.
pub(crate) struct Listed {
    pub(crate) standing: PodStanding,
    /// Token, user, age and time left; `None` for a pod that the server assumed on its own account.
    pub(crate) held: Option<ListedHold>,
}

pub(crate) struct ListedHold {
    pub(crate) assumption: wire::Assumption,
    pub(crate) user: Arc<str>,
    pub(crate) age: Duration,
}

impl Assumptions {
    /// All assumed pods of the live cluster whose assumptions are not over, by namespace and name. Where they are kept, each
    /// is listed once it is written: another server may give the token of one that never is.
    pub(crate) fn list(&self, now: Instant) -> Vec<Listed> {
        let assumed = self.cluster.assumed_pods();
        let table = self.table();
        let listed = |standing: PodStanding| {
            let entry = table.get(standing.pod.key());
            let entry = entry.filter(|entry| Some(entry.stamp) == standing.stamp);
            let is_kept = self.are_kept();
            if entry.is_some_and(|entry| entry.is_over || is_kept && !entry.is_recorded) {
                return None;
            }
            let held = entry.map(|entry| ListedHold {
                assumption: entry.assumption(now),
                user: entry.user.clone(),
                age: now.saturating_duration_since(entry.since),
            });
            Some(Listed { standing, held })
        };
        assumed.into_iter().filter_map(listed).collect()
    }
}

impl Entry {
    fn assumption(&self, now: Instant) -> wire::Assumption {
        let left = self.until.map(|until| until.saturating_duration_since(now));
        assumption(self.token, left)
    }
}

/// An assumption in wire form.
pub(crate) fn assumption(token: u64, time_left: Option<Duration>) -> wire::Assumption {
    wire::Assumption { token, time_left_ms: time_left.map(clock::as_millis) }
}
