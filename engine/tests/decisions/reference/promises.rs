//! Pending pods and their nominations: the twin's steps about preemption and nominations (S-NOM-4, S-NOMC-1,
//! S-PRE-21 to S-PRE-24).

use berth_engine::{
    Delta, Nomination, PodKey, Policy, PostFilter, PostFilterCode, PreemptOptions, PreemptRequest,
    TieBreak,
};
use berth_proto::core_v1;

use super::twin::Twin;
use crate::naive::pod::{name, namespace, nominated_node};
use crate::random::importance::{Leaving, urgent};

/// The change that is made after an outcome.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    Nothing,
    /// The victims begin to terminate, and the pod stays pending.
    Nominate,
    /// The victims are deleted, and the pod is bound to the chosen node.
    Evict,
}

impl Twin {
    pub(super) fn preempt(
        &mut self,
        template: usize,
        seed: Option<u64>,
        effect: Effect,
        policy: &Policy,
    ) {
        let mut pod = self.next_pod(template);
        if effect == Effect::Nominate {
            // A pending pod has no node.
            pod.spec.get_or_insert_default().node_name.clear();
        }
        if !template.is_multiple_of(3) {
            pod = urgent(pod);
        }
        self.publish();
        self.check(&pod, policy);
        let Some(post_filter) = self.post_filter(&pod, seed, policy) else {
            return;
        };
        let Some(chosen) = post_filter.chosen.clone().filter(|_| effect != Effect::Nothing) else {
            return;
        };
        let victims = chosen.victims.iter().map(|victim| victim.pod.clone());
        for victim in victims.collect::<Vec<_>>() {
            let at = self.pods.iter().position(|pod| key(pod) == victim);
            let at = at.expect("victims are on nodes");
            match effect {
                Effect::Nominate => self.terminate(at, Leaving::Preempted),
                _ => self.delete_pod(at),
            }
        }
        match effect {
            Effect::Nominate => self.carry_out(&pod, &post_filter),
            _ => self.bind(pod, &chosen.node),
        }
    }

    pub(super) fn promise(&mut self, template: usize, node: usize, in_memory: bool) {
        // Some nominations are to a node that does not exist.
        let node = self.node_name(node).filter(|_| !template.is_multiple_of(17));
        let node = node.unwrap_or_else(|| "node-of-nowhere".to_owned());
        let mut pod = self.next_pod(template);
        pod.spec.get_or_insert_default().node_name.clear();
        if in_memory {
            self.publish();
            let promised = promise_of(Nomination::Node(node.into()));
            self.carry_out(&pod, &promised);
        } else {
            pod.status.get_or_insert_default().nominated_node_name = node.clone();
            self.naive.nominations.add(&pod, &node);
            self.deltas.push(Delta::UpsertPod(self.compile(&pod)));
            self.pending.push(pod);
        }
    }

    pub(super) fn retry(&mut self, pending: usize, policy: &Policy) {
        let Some(pod) = self.pending.get(pending % self.pending.len().max(1)).cloned() else {
            return;
        };
        self.publish();
        self.check(&pod, policy);
        if let Some(post_filter) = self.post_filter(&pod, None, policy) {
            self.carry_out(&pod, &post_filter);
        }
    }

    /// Repeats a pending pod. A nomination that is only in memory stays if the feed has none before and after; the pod
    /// moves to the end of its list.
    pub(super) fn repeat_pending(&mut self, pending: usize, node: Option<usize>) {
        let Some(known) = self.pending.get(pending % self.pending.len().max(1)).cloned() else {
            return;
        };
        let node = node.and_then(|node| self.node_name(node)).unwrap_or_default();
        let mut pod = known.clone();
        pod.status.get_or_insert_default().nominated_node_name = node;
        let kept = self.naive.nominations.node_of(namespace(&pod), name(&pod)).map(str::to_owned);
        let kept = kept.filter(|_| nominated_node(&known).is_none());
        let promised = nominated_node(&pod).map(str::to_owned).or(kept);
        self.naive.nominations.remove(namespace(&pod), name(&pod));
        if let Some(node) = promised {
            self.naive.nominations.add(&pod, &node);
        }
        self.deltas.push(Delta::UpsertPod(self.compile(&pod)));
        self.remember(pod);
    }

    pub(super) fn bind_pending(&mut self, pending: usize, node: usize) {
        let Some(node) = self.node_name(node).filter(|_| !self.pending.is_empty()) else {
            return;
        };
        let pod = self.pending.swap_remove(pending % self.pending.len());
        self.bind(pod, &node);
    }

    pub(super) fn delete_pending(&mut self, pending: usize) {
        if self.pending.is_empty() {
            return;
        }
        let pod = self.pending.swap_remove(pending % self.pending.len());
        self.naive.delete_pod(namespace(&pod), name(&pod));
        self.deltas.push(Delta::DeletePod { key: key(&pod), uid: None });
    }

    fn post_filter(
        &self,
        pod: &core_v1::Pod,
        seed: Option<u64>,
        policy: &Policy,
    ) -> Option<PostFilter> {
        let pod = self.compile(pod);
        let tie_break = seed.map_or(TieBreak::Lexicographic, TieBreak::Seeded);
        let options = PreemptOptions::default();
        let request = PreemptRequest {
            pod: &pod,
            policy,
            tie_break,
            options,
            cancelled: &|| false,
            now: None,
        };
        let preemption = self.engine.preempt(&request);
        let preemption = preemption.ok()?;
        let post_filter = preemption.post_filter?;
        assert_eq!(post_filter.chosen.is_some(), post_filter.code == PostFilterCode::Success);
        Some(post_filter)
    }

    /// Applies the nominations of an attempt to both clusters.
    fn carry_out(&mut self, pod: &core_v1::Pod, post_filter: &PostFilter) {
        self.engine.nominate(&self.compile(pod), post_filter).unwrap();
        let cleared = post_filter.cleared_nominations.clone();
        for key in cleared {
            self.clear_nomination(&key);
        }
        match &post_filter.nomination {
            Nomination::Unchanged => {}
            Nomination::Cleared => self.clear_nomination(&key(pod)),
            Nomination::Node(node) => {
                let known = self.pending.iter().find(|known| key(known) == key(pod)).cloned();
                let waiting = known.unwrap_or_else(|| without_nomination(pod));
                self.naive.nominations.add(&waiting, node);
                self.remember(waiting);
            }
        }
    }

    fn clear_nomination(&mut self, of: &PodKey) {
        self.naive.nominations.remove(&of.namespace, &of.name);
        if let Some(pod) = self.pending.iter_mut().find(|pod| key(pod) == *of) {
            *pod = without_nomination(pod);
        }
    }

    fn remember(&mut self, pod: core_v1::Pod) {
        match self.pending.iter_mut().find(|known| key(known) == key(&pod)) {
            Some(known) => *known = pod,
            None => self.pending.push(pod),
        }
    }
}

/// Returns an outcome that contains only a nomination.
pub(crate) fn promise_of(nomination: Nomination) -> PostFilter {
    PostFilter {
        code: PostFilterCode::Success,
        message: String::new(),
        nomination,
        chosen: None,
        n_candidates: 0,
        n_best: 0,
        cleared_nominations: Vec::new(),
        given_up: Default::default(),
    }
}

fn without_nomination(pod: &core_v1::Pod) -> core_v1::Pod {
    let mut pod = pod.clone();
    pod.status.get_or_insert_default().nominated_node_name.clear();
    pod
}

fn key(pod: &core_v1::Pod) -> PodKey {
    PodKey::new(namespace(pod), name(pod))
}
