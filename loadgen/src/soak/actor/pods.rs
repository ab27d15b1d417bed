//! [`ActorPods`]: the pods that an actor keeps for a while, and confirms, ends or deletes one by one.

use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{Decision, decision};
use berth_proto::core_v1::Pod;
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use crate::soak::model::{Key, key, wire_key};
use crate::soak::world::World;

/// The pods of one actor, up to a limit.
#[derive(Debug)]
pub(super) struct ActorPods {
    keys: Vec<Key>,
    max_pods: usize,
}

impl ActorPods {
    pub(super) fn new(max_pods: usize) -> ActorPods {
        ActorPods { keys: Vec::new(), max_pods }
    }

    pub(super) fn is_full(&self) -> bool {
        self.keys.len() >= self.max_pods
    }

    /// Adds a pod that the model contains.
    pub(super) fn add(&mut self, pod: &Pod) {
        self.keys.push(key(pod));
    }

    /// Checks the decision for `pod`, counts it, and adds an assumed pod to the model and to the actor's pods.
    pub(super) fn record(&mut self, world: &World, pod: &Pod, decision: &Decision, assume: bool) {
        let named = decision.pod.clone().unwrap_or_default();
        if (named.namespace, named.name.clone()) != key(pod) {
            world.differs(format!("the response for {:?} names `{}`", key(pod), named.name));
        }
        match &decision.outcome {
            Some(decision::Outcome::Placement(placement)) => {
                if placement.assumed != assume {
                    world.differs(format!("{:?}: assumed is not {assume}", key(pod)));
                }
                if placement.assumed {
                    world.model().assume(pod, &placement.node_name);
                    self.keys.push(key(pod));
                    world.count("pods assumed", 1);
                } else {
                    world.count("pods placed, dry", 1);
                }
            }
            Some(decision::Outcome::Unschedulable(_)) => world.count("pods that fit nowhere", 1),
            Some(decision::Outcome::Gated(_)) => world.count("pods gated", 1),
            None => world.differs(format!("{:?}: a decision without an outcome", key(pod))),
        }
    }

    /// Updates a random pod: confirms or releases an assumed pod, ends or deletes another.
    pub(super) async fn update_one(&mut self, world: &World, rng: &mut ChaCha8Rng) {
        if self.keys.is_empty() {
            return;
        }
        let at = rng.random_range(0..self.keys.len());
        let Some(known) = world.model().pods.get(&self.keys[at]).cloned() else {
            self.keys.swap_remove(at);
            return;
        };
        let _open = world.feed.read().await;
        if known.assumed && rng.random_bool(0.5) {
            if world.apply(vec![Change::UpsertPod(known.pod.clone())]).await {
                world.model().upsert(known.pod);
                world.count("pods confirmed", 1);
            }
            return;
        }
        let key = self.keys.swap_remove(at);
        let ends = !known.assumed && rng.random_bool(0.3);
        let change = if ends {
            let mut ended = known.pod;
            ended.status.get_or_insert_default().phase = "Succeeded".to_owned();
            Change::UpsertPod(ended)
        } else {
            Change::DeletePod(wire_key(&key))
        };
        if world.apply(vec![change]).await {
            world.model().pods.remove(&key);
            world.count(if known.assumed { "pods released" } else { "pods ended" }, 1);
        }
    }
}
