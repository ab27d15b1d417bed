//! Watches: state of each kind's watch. Written by the watches, read by probes, metrics and `GetCluster`.

use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::resource::Resource;

/// All watches of a feed.
#[derive(Debug)]
pub struct Watches {
    began: Instant,
    kinds: [Mutex<Watch>; Resource::N],
    /// Requests for a new list, by kind.
    requested: [Notify; Resource::N],
}

#[derive(Clone, Debug, Default)]
struct Watch {
    /// Whether the first whole list is in the cluster, or the server does not have the kind.
    is_listed: bool,
    /// Whether the server does not have the kind.
    is_absent: bool,
    /// Time of the last event, bookmark or whole list.
    heard: Option<Instant>,
    /// The current trouble.
    trouble: Option<String>,
}

impl Watches {
    pub(in crate::feed) fn new(now: Instant) -> Watches {
        Watches {
            began: now,
            kinds: Resource::ALL.map(|_| Mutex::default()),
            requested: Resource::ALL.map(|_| Notify::new()),
        }
    }

    /// Makes the kind's watch list anew, now: whatever it is doing or waiting for, it begins again.
    pub(crate) fn ask_for_list(&self, resource: Resource) {
        self.requested[resource.index()].notify_one();
    }

    /// Waits until a list of the kind is requested.
    pub(super) async fn list_requested(&self, resource: Resource) {
        self.requested[resource.index()].notified().await;
    }

    /// Records that the watch is alive. Returns the trouble that it had until now.
    pub(super) fn note_heard(&self, resource: Resource, now: Instant) -> Option<String> {
        let mut watch = self.of(resource);
        watch.heard = Some(now);
        watch.trouble.take()
    }

    /// Records that the kind's first list is in the cluster, or that there will be none. Returns whether this completes
    /// the feed.
    pub(super) fn note_listed(&self, resource: Resource, is_absent: bool) -> bool {
        let was_listed = {
            let mut watch = self.of(resource);
            watch.is_absent = is_absent;
            std::mem::replace(&mut watch.is_listed, true)
        };
        !was_listed && self.is_complete()
    }

    /// Records a trouble. Returns whether it is new.
    pub(super) fn note_trouble(&self, resource: Resource, trouble: String) -> bool {
        self.of(resource).trouble.replace(trouble.clone()) != Some(trouble)
    }

    pub(super) fn is_listed(&self, resource: Resource) -> bool {
        self.of(resource).is_listed
    }

    pub(super) fn is_absent(&self, resource: Resource) -> bool {
        self.of(resource).is_absent
    }

    fn is_complete(&self) -> bool {
        Resource::ALL.into_iter().all(|resource| self.is_listed(resource))
    }

    /// By kind, the time since its watch was last known to be alive, or else since the start. Kinds that the server
    /// does not have are left out.
    pub(crate) fn ages(&self, now: Instant) -> Vec<(Resource, Duration)> {
        let age = |resource| {
            let watch = self.of(resource);
            let heard = watch.heard.unwrap_or(self.began);
            (!watch.is_absent).then(|| (resource, now.saturating_duration_since(heard)))
        };
        Resource::ALL.into_iter().filter_map(age).collect()
    }

    /// Time since the last event of the kind that is silent for longest.
    pub(crate) fn staleness(&self, now: Instant) -> Duration {
        self.ages(now).into_iter().map(|(_, age)| age).max().unwrap_or_default()
    }

    /// Report for probes: the feed's age and its troubles; an error until every kind was listed.
    pub(crate) fn report(&self, now: Instant) -> Result<String, String> {
        let (mut missing, mut troubles) = (Vec::new(), String::new());
        for resource in Resource::ALL {
            let Watch { is_listed, trouble, .. } = self.of(resource).clone();
            if !is_listed {
                missing.push(resource.kind());
            }
            if let Some(trouble) = trouble {
                // Writing to a string does not fail.
                let _ = write!(troubles, "; {}: {trouble}", resource.kind());
            }
        }
        if missing.is_empty() {
            let oldest = self.ages(now).into_iter().max_by_key(|(_, age)| *age);
            let text = oldest.map_or_else(String::new, |(resource, age)| {
                format!(
                    "the API server was last heard of {:.1} s ago, about {}",
                    age.as_secs_f64(),
                    resource.kind()
                )
            });
            return Ok(format!("{text}{troubles}"));
        }
        Err(format!(
            "the API server has not listed everything yet: waiting for {}{troubles}",
            missing.join(", ")
        ))
    }

    /// Whether the last request for any kind failed.
    pub(crate) fn has_trouble(&self) -> bool {
        Resource::ALL.into_iter().any(|resource| self.of(resource).trouble.is_some())
    }

    fn of(&self, resource: Resource) -> MutexGuard<'_, Watch> {
        // Plain values: a panic elsewhere cannot leave them half written.
        self.kinds[resource.index()].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use berth_engine::ObjectKind;

    use super::*;
    use crate::clock;

    #[test]
    fn a_feed_is_as_stale_as_its_worst_kind() {
        let began = clock::now();
        let watches = Watches::new(began);
        let at = |seconds| began + Duration::from_secs(seconds);
        for resource in Resource::ALL {
            watches.note_heard(resource, at(10));
        }
        watches.note_heard(Resource::Pods, at(12));
        assert_eq!(watches.staleness(at(13)), Duration::from_secs(3));
        watches.note_heard(Resource::Nodes, at(5));
        assert_eq!(watches.staleness(at(13)), Duration::from_secs(8));
    }

    #[test]
    fn probes_name_what_is_missing_and_what_is_wrong() {
        let now = clock::now();
        let watches = Watches::new(now);
        let budgets = Resource::Objects(ObjectKind::PodDisruptionBudget);
        for resource in Resource::ALL {
            if resource != budgets {
                assert!(!watches.note_listed(resource, false));
            }
        }
        assert!(watches.note_trouble(budgets, "it is forbidden".to_owned()));
        assert!(!watches.note_trouble(budgets, "it is forbidden".to_owned()));
        assert_eq!(
            watches.report(now).unwrap_err(),
            "the API server has not listed everything yet: waiting for PodDisruptionBudget; PodDisruptionBudget: it is forbidden"
        );
        assert!(watches.note_listed(budgets, true), "the last one completes the feed");
        assert!(!watches.note_listed(budgets, false), "once");
        for resource in Resource::ALL {
            drop(watches.note_heard(resource, now + Duration::from_secs(1)));
        }
        assert_eq!(
            watches.note_heard(budgets, now),
            None,
            "it is forgotten once the kind is heard"
        );
        assert_eq!(
            watches.report(now + Duration::from_millis(1500)).unwrap(),
            "the API server was last heard of 1.5 s ago, about PodDisruptionBudget"
        );
    }
}
