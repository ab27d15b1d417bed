//! History: a cluster begins as another one was at some generation, and does what that one did after it.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Cluster;
use super::change::Change;
use super::delta::{ClusterState, Delta};
use super::known::{Known, PodPlace};
use super::reservation::Reservation;
use super::step::Step;
use super::writer::{Writer, check_range};
use crate::model::{ModelError, Object, Pod, PodKey};
use crate::place::basis::Basis;
use crate::snapshot::Generation;

/// A copy of all that a cluster holds at one generation, from which another cluster can begin.
#[derive(Debug)]
pub struct Beginning {
    writer: Writer,
}

/// A change that another cluster made and this one cannot make: it does not hold what the other one held.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedoError {
    /// The generation is not after the published one.
    #[error("generation {generation} does not follow generation {published}")]
    Order {
        /// The generation that was to be made.
        generation: Generation,
        /// The published one.
        published: Generation,
    },
    /// The pod is on a node here.
    #[error("pod `{pod}` is on node `{node}` already")]
    AlreadyPlaced {
        /// The pod.
        pod: PodKey,
        /// Its node here.
        node: Arc<str>,
    },
    /// The sums of the node would overflow.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl Cluster {
    /// A copy of what the cluster holds now. The observer has been told of every change up to here, and of none after it.
    pub fn beginning(&self) -> Beginning {
        Beginning { writer: self.writer().fork() }
    }

    /// Makes changes that another cluster made, and publishes them as the generation that they led to there. Pods, nodes
    /// and objects are compiled by this cluster.
    ///
    /// # Errors
    /// [`RedoError`]: the changes do not follow from what the cluster holds. Those before the one that failed are made.
    pub fn redo(&self, generation: Generation, changes: Vec<Change>) -> Result<(), RedoError> {
        let mut writer = self.writer();
        let published = writer.draft.snapshot.generation;
        if generation <= published {
            return Err(RedoError::Order { generation, published });
        }
        writer.draft.snapshot.generation = Generation(generation.0 - 1);
        let redone = changes.into_iter().try_for_each(|change| redo_one(&mut writer, change));
        self.publish(&mut writer);
        redone
    }
}

impl Beginning {
    /// The generation.
    pub fn generation(&self) -> Generation {
        self.writer.draft.snapshot.generation
    }

    /// The changes that make an empty cluster hold this.
    pub fn changes(&self) -> Vec<Change> {
        let state = ClusterState {
            nodes: self.writer.nodes_as_seen(),
            objects: self.objects(),
            pods: Vec::new(),
        };
        let mut changes = vec![Change::Replaced(Box::new(state))];
        let pods = self.pods();
        pods.iter().for_each(|known| self.tell_pod(known, &mut changes));
        let fences = &self.writer.draft.snapshot.fences;
        let fence = |node: &Arc<str>| Change::Fenced { node: node.clone(), is_fenced: true };
        changes.extend(fences.iter().map(fence));
        let pods: Vec<&PodKey> = pods.iter().map(|known| known.pod.key()).collect();
        changes.extend(self.writer.recollections(&pods).into_iter().map(Change::Recalled));
        changes
    }

    fn objects(&self) -> Vec<Object> {
        let mut objects: Vec<Object> = self.writer.draft.snapshot.objects.iter().cloned().collect();
        objects.sort_unstable_by(|a, b| a.key().cmp(b.key()));
        objects
    }

    /// The known pods, each list of them that decisions read in its order: those of a node, those that wait for a node,
    /// those that are nominated to one, those with volumes that are bound in memory. The latter come last of all, so that
    /// their nodes may have another order.
    fn pods(&self) -> Vec<Known<'_>> {
        let snapshot = &self.writer.draft.snapshot;
        let rank = |pods: Vec<&'_ PodKey>| -> FxHashMap<PodKey, usize> {
            pods.into_iter().cloned().zip(1..).collect()
        };
        let bound = rank(snapshot.storage.assumed_in_order());
        let orphans = rank(self.writer.orphans_in_order());
        let nominated = snapshot.nominations.iter().flat_map(|(_, pods)| pods);
        let nominated = rank(nominated.map(Pod::key).collect());
        let place = |known: &Known<'_>| {
            let key = known.pod.key();
            let place = match known.place {
                PodPlace::OnNode(row) => (0, row.index(), None),
                PodPlace::Orphaned => {
                    (1, orphans.get(key).copied().unwrap_or(0), Some(key.clone()))
                }
                PodPlace::Pending => {
                    (2, nominated.get(key).copied().unwrap_or(0), Some(key.clone()))
                }
            };
            (bound.get(key).copied().unwrap_or(0), place)
        };
        let mut pods: Vec<Known<'_>> = self.writer.known_pods().collect();
        // Stable: the pods of a node stay in their order.
        pods.sort_by_cached_key(place);
        pods
    }

    /// The changes that make a pod known as it is.
    fn tell_pod(&self, known: &Known<'_>, changes: &mut Vec<Change>) {
        let pod = known.pod;
        if known.place == PodPlace::Pending {
            self.tell_nomination(pod, changes);
            return;
        }
        let bindings = self.writer.draft.bindings_of(pod.key());
        if known.is_assumed() || bindings.is_some() {
            if pod.facts().is_reported {
                changes.push(Change::Delta(Delta::UpsertPod(pod.without_node())));
            }
            let node = pod.facts().node_name.clone().unwrap_or_default();
            let (pod, bindings) = (pod.without_node(), bindings.unwrap_or_default());
            changes.push(Change::Assumed(Box::new(Reservation::of(&pod, &node, &bindings))));
        }
        if !known.is_assumed() {
            changes.push(Change::Delta(Delta::UpsertPod(pod.clone())));
        }
    }

    /// The changes that make a pending pod known, with the nomination that it has: its status may name another node, or one
    /// although it has none.
    fn tell_nomination(&self, pod: &Pod, changes: &mut Vec<Change>) {
        let (key, snapshot) = (pod.key(), &self.writer.draft.snapshot);
        let nominated = |node| Change::Nominated { pod: pod.clone(), node };
        let held = snapshot.nominations.of(key).map(|node| snapshot.model.names().name(node));
        let is_reported = !self.writer.is_by_nomination(key);
        if is_reported {
            changes.push(Change::Delta(Delta::UpsertPod(pod.clone())));
        }
        match held {
            Some(node) if is_reported && pod.nominated_node_name() == Some(&*node) => {}
            Some(node) => changes.push(nominated(node)),
            None if is_reported && pod.nominated_node_name().is_none() => {}
            None => {
                if !is_reported {
                    // Its nomination, by which it is known, was cleared since.
                    changes.push(nominated(Arc::default()));
                }
                changes.push(Change::NominationCleared { pod: key.clone() });
            }
        }
    }
}

fn redo_one(writer: &mut Writer, change: Change) -> Result<(), RedoError> {
    match change {
        // A delta that this cluster rejects was rejected by the one that it follows, too.
        Change::Delta(delta) => drop(writer.apply(delta)),
        Change::Replaced(state) => drop(writer.replace(*state)),
        Change::Assumed(reservation) => assume(writer, &reservation)?,
        Change::Nominated { pod, node } => {
            let step = Step::nominate(&pod.without_node(), &node, &writer.draft.snapshot);
            writer.carry_out(step);
        }
        Change::NominationCleared { pod } => clear_nomination(writer, pod),
        Change::TakenBack { pod, uid } => writer.take_back(&pod, &uid),
        Change::Fenced { node, is_fenced } => drop(writer.set_fenced(&node, is_fenced)),
        Change::Recalled(recollection) => writer.recall(&recollection),
    }
    Ok(())
}

fn assume(writer: &mut Writer, reservation: &Reservation) -> Result<(), RedoError> {
    let (pod, node) = (reservation.pod.without_node(), reservation.node.clone());
    if let Some(node) = writer.node_of(pod.key()) {
        return Err(RedoError::AlreadyPlaced { pod: pod.key().clone(), node });
    }
    let bindings = reservation.bindings();
    let Some(row) = writer.draft.snapshot.row_named(&node) else {
        writer.assume_orphan(&pod, &node, &bindings);
        return Ok(());
    };
    check_range(&writer.draft.snapshot, row, &pod)?;
    let basis = Basis::of_nomination(&pod, Some(row));
    writer.carry_out(Step::Assume { pod, node, row, bindings, basis });
    Ok(())
}

fn clear_nomination(writer: &mut Writer, pod: PodKey) {
    // A change has no node and nobody who made it: only sessions read those of a step.
    let (node, by) = (Arc::default(), pod.clone());
    writer.carry_out(Step::Clear { pod, node, basis: Basis::WHOLE, by });
}

#[cfg(test)]
mod tests;
