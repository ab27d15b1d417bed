//! A kubelet that does no work: bound pods run, marked pods go ([`Store::set_auto_kubelet`](crate::Store::set_auto_kubelet)).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::resource::PODS;
use crate::store::{State, field, time};
use crate::write::set_condition;

pub(crate) struct Kubelet {
    is_on: bool,
    grace_scale: f64,
    /// Pods to remove: when, key and uid.
    due: BinaryHeap<Reverse<(Instant, String, String)>>,
}

impl Kubelet {
    pub(crate) fn new(grace_scale: f64) -> Kubelet {
        Kubelet { is_on: false, grace_scale: grace_scale.max(0.0), due: BinaryHeap::new() }
    }
}

impl State {
    pub(crate) fn set_auto_kubelet(&mut self, on: bool) {
        self.kubelet.is_on = on;
        self.kubelet.due.clear();
        if on {
            let keys: Vec<_> = self.shelf(PODS).objects().keys().cloned().collect();
            keys.iter().for_each(|key| self.kubelet_sees(key));
        }
    }

    /// Does for the pod at `key` what its kubelet would do next.
    pub(crate) fn kubelet_sees(&mut self, key: &str) {
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

    /// Removes a marked pod, or notes when to.
    fn terminate(&mut self, key: &str, pod: &Value) {
        let asked = pod["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
        // The product is finite: both factors are, and the conversion is bounded.
        let seconds = (asked as f64 * self.kubelet.grace_scale).min(86_400.0);
        if seconds > 0.0 {
            let when = Instant::now() + Duration::from_secs_f64(seconds);
            let uid = field::text(pod, "metadata.uid").to_owned();
            self.kubelet.due.push(Reverse((when, key.to_owned(), uid)));
            return;
        }
        // The deletion with grace period 0 that ends a pod; what still holds it is a finalizer.
        self.delete_now(key);
    }

    fn delete_now(&mut self, key: &str) {
        if let Some(stored) = self.stored(PODS, key)
            && stored.to_plain()["metadata"]["deletionGracePeriodSeconds"] != 0
        {
            self.delete(PODS, key, &json!({"gracePeriodSeconds": 0})).ok();
        }
    }

    /// Removes the pods whose time is up.
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
