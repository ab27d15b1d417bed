//! The automatic kubelet: sets bound pods to Running and removes marked pods
//! ([`Store::set_auto_kubelet`](crate::Store::set_auto_kubelet)).

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::clock::time;
use crate::condition::set_condition;
use crate::field;
use crate::resource::PODS;
use crate::store::State;

impl State {
    pub(crate) fn set_auto_kubelet(&mut self, on: bool) {
        self.kubelet.is_on = on;
        self.kubelet.due.clear();
        if on {
            let keys: Vec<_> = self.collection(PODS).objects().keys().cloned().collect();
            keys.iter().for_each(|key| self.kubelet_update(key));
        }
    }

    /// Runs or terminates the pod at `key`, as its kubelet would.
    pub(crate) fn kubelet_update(&mut self, key: &str) {
        if !self.kubelet.is_on {
            return;
        }
        let Some(stored) = self.stored(PODS, key) else { return };
        let pod = stored.to_plain();
        if field::text(&pod, "spec.nodeName").is_empty() {
            return;
        }
        if !field::at(&pod, "metadata.deletionTimestamp").is_null() {
            self.terminate(key, &pod);
        } else if field::text(&pod, "status.phase") == "Pending" {
            self.run(key, pod);
        }
    }

    fn run(&mut self, key: &str, mut pod: Value) {
        pod["status"]["phase"] = "Running".into();
        pod["status"]["startTime"] = time(0).into();
        for name in ["PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"] {
            set_condition(&mut pod, json!({"type": name, "status": "True", "lastProbeTime": null}));
        }
        self.put(PODS, key, pod);
    }

    /// Removes a marked pod, or schedules its removal.
    fn terminate(&mut self, key: &str, pod: &Value) {
        let grace_seconds = pod["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
        // The product is finite, because both factors are, and limited.
        let seconds = (grace_seconds as f64 * self.kubelet.grace_scale).min(86_400.0);
        if seconds > 0.0 {
            let when = Instant::now() + Duration::from_secs_f64(seconds);
            let uid = field::text(pod, "metadata.uid").to_owned();
            self.kubelet.due.push(Reverse((when, key.to_owned(), uid)));
            return;
        }
        // A deletion with grace period 0 ends the pod; only a finalizer can still hold it.
        self.delete_now(key);
    }

    fn delete_now(&mut self, key: &str) {
        if let Some(stored) = self.stored(PODS, key)
            && stored.to_plain()["metadata"]["deletionGracePeriodSeconds"] != 0
        {
            self.delete(PODS, key, &json!({"gracePeriodSeconds": 0})).ok();
        }
    }

    /// Removes the pods whose grace period is over.
    pub(crate) fn kubelet_tick(&mut self) {
        while let Some(Reverse((when, _, _))) = self.kubelet.due.peek()
            && *when <= Instant::now()
            && let Some(Reverse((_, key, uid))) = self.kubelet.due.pop()
        {
            let is_same = self
                .stored(PODS, &key)
                .is_some_and(|stored| field::text(&stored.to_plain(), "metadata.uid") == uid);
            if is_same {
                self.delete_now(&key);
            }
        }
    }
}
