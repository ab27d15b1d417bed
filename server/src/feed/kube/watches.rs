//! Watches: state of each kind's watch. Written by the watches, read by probes, metrics and `GetCluster`.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::failure::Failure;
use super::pace::Pace;
use super::resource::Resource;
use super::trouble::{self, Cause, Trouble};

/// Minimum time between two wakings of all watches because one was answered: a server that answers and fails in turn
/// is not asked without delay.
const WAKE_INTERVAL: Duration = Duration::from_secs(5);

/// All watches of a feed.
#[derive(Debug)]
pub struct Watches {
    began: Instant,
    pace: Pace,
    kinds: [Mutex<Watch>; Resource::N],
    /// Requests for a new list, by kind.
    requested: [Notify; Resource::N],
    /// Wakes the watches that wait to try again.
    woken: Notify,
    /// Time of the last waking because one of them was answered.
    woken_at: Mutex<Option<Instant>>,
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
    trouble: Option<Trouble>,
}

impl Watches {
    pub(in crate::feed) fn new(pace: Pace, now: Instant) -> Watches {
        Watches {
            began: now,
            pace,
            kinds: Resource::ALL.map(|_| Mutex::default()),
            requested: Resource::ALL.map(|_| Notify::new()),
            woken: Notify::new(),
            woken_at: Mutex::default(),
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

    /// Waits until something speaks for a new attempt before the delay is over.
    pub(super) async fn woken(&self) {
        self.woken.notified().await;
    }

    /// Lets every watch that waits try again at once.
    pub(crate) fn wake(&self) {
        self.woken.notify_waiters();
    }

    /// Records that the API server answers a watch again that it did not serve: the others need not wait any longer.
    pub(super) fn note_served(&self, now: Instant) {
        let mut woken_at = self.woken_at.lock().unwrap_or_else(PoisonError::into_inner);
        if woken_at.is_none_or(|at| now.saturating_duration_since(at) >= WAKE_INTERVAL) {
            *woken_at = Some(now);
            self.wake();
        }
    }

    /// Records that the watch is alive.
    pub(super) fn note_heard(&self, resource: Resource, now: Instant) {
        let mut watch = self.of(resource);
        watch.heard = Some(now);
        watch.trouble = None;
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

    /// Records a failure of a request with this verb.
    pub(super) fn note_failed(
        &self,
        resource: Resource,
        verb: &'static str,
        failure: Failure,
        now: Instant,
    ) {
        let mut watch = self.of(resource);
        watch.trouble = Some(Trouble::after(watch.trouble.take(), verb, failure, now));
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

    /// Report for probes: the feed's age and its troubles; an error until every kind was listed, and while one is out
    /// of sight: refused for longer than [`Pace::refusal`], or not heard of for [`Pace::silence`].
    pub(crate) fn report(&self, now: Instant) -> Result<String, String> {
        let causes: String =
            self.causes(now).iter().map(|cause| format!("; {}", cause.text)).collect();
        let missing = Resource::ALL.into_iter().filter(|kind| !self.is_listed(*kind));
        let missing: Vec<&str> = missing.map(Resource::kind).collect();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(format!(
                "the API server has not listed everything yet: waiting for {missing}{causes}"
            ));
        }
        let oldest = self.ages(now).into_iter().max_by_key(|(_, age)| *age);
        let text = oldest.map_or_else(String::new, |(resource, age)| {
            format!(
                "the API server was last heard of {:.1} s ago, about {}",
                age.as_secs_f64(),
                resource.kind()
            )
        });
        let is_blind = Resource::ALL.into_iter().any(|kind| self.is_blind(kind, now));
        let text = format!("{text}{causes}");
        if is_blind { Err(text) } else { Ok(text) }
    }

    fn is_blind(&self, resource: Resource, now: Instant) -> bool {
        let watch = self.of(resource);
        let Some(trouble) = &watch.trouble else { return false };
        let heard = watch.heard.unwrap_or(self.began);
        trouble.is_refused_for(self.pace.refusal, now)
            || now.saturating_duration_since(heard) >= self.pace.silence
    }

    /// The troubles that are worth a warning, by cause.
    pub(super) fn causes(&self, now: Instant) -> Vec<Cause> {
        let watches = Resource::ALL.map(|resource| (resource, self.of(resource).clone()));
        let troubles = watches.iter().filter_map(|(resource, watch)| {
            Some((*resource, watch.is_listed, watch.trouble.as_ref()?))
        });
        trouble::causes(troubles, self.pace.refusal, now)
    }

    /// Whether something about any kind is worth a warning.
    pub(crate) fn has_trouble(&self, now: Instant) -> bool {
        !self.causes(now).is_empty()
    }

    fn of(&self, resource: Resource) -> MutexGuard<'_, Watch> {
        // Plain values: a panic elsewhere cannot leave them half written.
        self.kinds[resource.index()].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use berth_engine::ObjectKind;

    use super::super::answer::Refusal;
    use super::*;
    use crate::clock;

    fn forbidden() -> Failure {
        Failure::Refused(Refusal { code: 403, message: "no".to_owned(), retry_after: None })
    }

    #[test]
    fn a_feed_is_as_stale_as_its_worst_kind() {
        let began = clock::now();
        let watches = Watches::new(Pace::default(), began);
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
        let watches = Watches::new(Pace::default(), now);
        let budgets = Resource::Objects(ObjectKind::PodDisruptionBudget);
        for resource in Resource::ALL {
            if resource != budgets {
                assert!(!watches.note_listed(resource, false));
            }
        }
        watches.note_failed(budgets, "list", forbidden(), now);
        assert_eq!(
            watches.report(now).unwrap_err(),
            "the API server has not listed everything yet: waiting for PodDisruptionBudget; cannot list \
             PodDisruptionBudget: the API server answered 403: no; deploy/rbac/reader.yaml has the rights that are needed"
        );
        assert!(watches.note_listed(budgets, true), "the last one completes the feed");
        assert!(!watches.note_listed(budgets, false), "once");
        for resource in Resource::ALL {
            watches.note_heard(resource, now + Duration::from_secs(1));
        }
        watches.note_heard(budgets, now);
        assert_eq!(
            watches.report(now + Duration::from_millis(1500)).unwrap(),
            "the API server was last heard of 1.5 s ago, about PodDisruptionBudget"
        );
    }

    #[test]
    fn a_feed_that_sees_nothing_of_a_kind_is_not_ready() {
        let began = clock::now();
        let pace = Pace::default();
        let at = |seconds| began + Duration::from_secs(seconds);
        let watches = Watches::new(pace, began);
        for resource in Resource::ALL {
            watches.note_heard(resource, began);
            watches.note_listed(resource, false);
        }
        watches.note_failed(Resource::Pods, "watch", forbidden(), at(20));
        let report = watches.report(at(29)).unwrap();
        assert!(!report.contains("Pod: "), "{report}");
        watches.note_failed(Resource::Pods, "watch", forbidden(), at(30));
        let report = watches.report(at(30)).unwrap_err();
        assert!(report.contains("; cannot watch Pod: the API server answered 403: no"), "{report}");
        watches.note_heard(Resource::Pods, at(31));
        assert!(watches.report(at(31)).is_ok());
        // One that is away counts as long as one that is silent.
        let away = || Failure::Unreachable("refused".to_owned());
        watches.note_failed(Resource::Nodes, "watch", away(), at(60));
        assert!(watches.report(at(149)).is_ok());
        assert!(watches.report(at(150)).is_err());
    }

    #[tokio::test]
    async fn an_answer_wakes_those_who_wait_but_not_again_and_again() {
        let watches = Watches::new(Pace::default(), clock::now());
        let now = clock::now();
        let woken = async |at| {
            let mut waiting = std::pin::pin!(watches.woken());
            tokio::select! {
                biased;
                () = &mut waiting => return true,
                () = tokio::task::yield_now() => {}
            }
            watches.note_served(at);
            tokio::select! {
                biased;
                () = &mut waiting => true,
                () = tokio::task::yield_now() => false,
            }
        };
        assert!(woken(now).await);
        assert!(!woken(now + WAKE_INTERVAL / 2).await);
        assert!(woken(now + WAKE_INTERVAL).await);
    }
}
