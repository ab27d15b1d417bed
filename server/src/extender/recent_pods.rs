//! Recent pods: the pods of the last filter calls. A bind only names its pod, and may come before a feed has sent the
//! pod.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use berth_engine::Pod;

/// Maximum number of remembered pods: more than wait for their bind at a time.
const MAX_PODS: usize = 8_192;

/// Pods by uid, the latest [`MAX_PODS`].
#[derive(Default)]
pub(super) struct RecentPods(Mutex<Latest>);

#[derive(Default)]
struct Latest {
    /// Pods by uid, each with the number of its last call.
    pods: HashMap<Arc<str>, (u64, Pod)>,
    /// Uids by that number.
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

    /// Forgets a pod that is bound.
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
        let recent = RecentPods::default();
        for i in 0..MAX_PODS {
            recent.remember(&pod(i));
        }
        // A pod that is remembered again is not among the oldest any more.
        recent.remember(&pod(0));
        recent.remember(&pod(MAX_PODS));
        assert!(recent.get("uid-p1").is_none());
        recent.forget("uid-p2");
        recent.forget("uid-p2");
        recent.remember(&pod(MAX_PODS + 1));
        assert!(recent.get("uid-p2").is_none());
        for i in [0, 3, MAX_PODS, MAX_PODS + 1] {
            let known = recent.get(&format!("uid-p{i}")).unwrap();
            assert_eq!(*known.key().name, *format!("p{i}"));
        }
    }
}
