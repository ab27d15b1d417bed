//! Recent pods: those of the last filter calls. A bind only names its pod, and may come before a feed has delivered the pod.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use berth_engine::Pod;

/// Pods that are kept: more than wait for their bind at a time.
const MAX_PODS: usize = 8_192;

/// Pods by uid, the latest [`MAX_PODS`].
#[derive(Default)]
pub(super) struct RecentPods(Mutex<Latest>);

#[derive(Default)]
struct Latest {
    /// Each with the number of the call that told of it last.
    pods: HashMap<Arc<str>, (u64, Pod)>,
    /// By that number.
    uids: BTreeMap<u64, Arc<str>>,
    n_calls: u64,
}

impl RecentPods {
    pub(super) fn remember(&self, pod: &Pod) {
        if pod.uid().is_empty() {
            return;
        }
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uid: Arc<str> = pod.uid().into();
        latest.n_calls += 1;
        let number = latest.n_calls;
        if let Some((before, _)) = latest.pods.insert(uid.clone(), (number, pod.clone())) {
            latest.uids.remove(&before);
        }
        latest.uids.insert(number, uid);
        if latest.uids.len() > MAX_PODS
            && let Some((_, oldest)) = latest.uids.pop_first()
        {
            latest.pods.remove(&oldest);
        }
    }

    pub(super) fn get(&self, uid: &str) -> Option<Pod> {
        let latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        latest.pods.get(uid).map(|(_, pod)| pod.clone())
    }

    /// Nobody will ask for it again.
    pub(super) fn forget(&self, uid: &str) {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((number, _)) = latest.pods.remove(uid) {
            latest.uids.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::fixture;

    #[test]
    fn the_oldest_are_forgotten() {
        let state = fixture::state(&[]);
        let pod =
            |i: usize| state.cluster.compile_pod(&fixture::pod(&format!("p{i}"), "1", 0)).unwrap();
        let described = RecentPods::default();
        for i in 0..MAX_PODS {
            described.remember(&pod(i));
        }
        // Asked about again, it is none of the oldest.
        described.remember(&pod(0));
        described.remember(&pod(MAX_PODS));
        assert!(described.get("uid-p1").is_none());
        described.forget("uid-p2");
        described.forget("uid-p2");
        described.remember(&pod(MAX_PODS + 1));
        assert!(described.get("uid-p2").is_none());
        for i in [0, 3, MAX_PODS, MAX_PODS + 1] {
            let known = described.get(&format!("uid-p{i}")).unwrap();
            assert_eq!(*known.key().name, *format!("p{i}"));
        }
    }
}
