//! Changes of pods by the writer. Rules: S-Q-1, S-CCH-1 to S-CCH-6, S-NOMC-1.

use std::sync::Arc;

use super::super::change::Change;
use super::super::known::{Known, PodPlace, is_confirmed, is_same};
use super::super::reservation::Reservation;
use super::{KnownNode, Writer, check_range, is_older};
use crate::model::kept::Source;
use crate::model::{ModelError, Pod, PodKey};
use crate::rows::NodeRow;
use crate::snapshot::bindings::Bindings;
use crate::snapshot::{AssumptionStamp, Snapshot};

/// Effect of a feed's update of a pod.
enum News {
    /// No effect: the update is repeated or outdated.
    Stale,
    /// Facts that differ only in a newer resource version.
    Renewal,
    /// The pod is new or changed.
    Change,
    /// The update is impossible: the pod is on this node (S-CCH-6).
    Contradiction(Arc<str>),
}

/// A pod as it is known before it is removed.
struct Earlier {
    pod: Pod,
    place: PodPlace,
    is_assumed: bool,
}

impl Earlier {
    fn of(known: &Known<'_>) -> Earlier {
        Earlier { pod: known.pod.clone(), place: known.place, is_assumed: known.is_assumed() }
    }
}

impl Writer {
    /// Puts a pod onto the node of a row at once (S-CCH-2). The pod must not be on a node already.
    pub(super) fn assume(&mut self, pod: &Pod, row: NodeRow, bindings: &Bindings) {
        let known = self.known(pod.key()).filter(|known| known.pod.is_same_as(pod));
        let reported = known.map(|known| known.pod.facts()).filter(|facts| facts.is_reported);
        let reported = reported.and_then(|facts| facts.kept.clone());
        if self.pods.is_elsewhere(pod.key()) {
            self.forget(pod.key());
        }
        debug_assert!(self.known(pod.key()).is_none(), "{} is on a node", pod.key());
        let Some(node) = self.draft.snapshot.node(row) else {
            return;
        };
        let mut pod = pod.on_node(node.facts().name.clone());
        if reported.is_some() {
            pod = pod.keeping(reported, Source::Feed);
        }
        self.images.touch(row, node);
        self.pods.put_on(pod.key(), row);
        let stamp = AssumptionStamp::after(self.draft.snapshot.generation);
        self.draft.add_pod(row, pod.clone(), Some(stamp));
        self.draft.assume_bindings(&pod, row, bindings);
        self.counts().n_pods += 1;
        self.counts().n_assumed += 1;
    }

    /// Assumes a pod on a node that the cluster does not have: it comes onto the node with it (S-CCH-7). The pod must not
    /// be on a node already.
    pub(in crate::cluster) fn assume_orphan(
        &mut self,
        pod: &Pod,
        node: &Arc<str>,
        bindings: &Bindings,
    ) {
        self.note(|| Change::Assumed(Box::new(Reservation::of(pod, node, bindings))));
        self.forget(pod.key());
        let pod = pod.on_node(node.clone());
        let stamp = AssumptionStamp::after(self.draft.snapshot.generation);
        self.insert_orphan(pod.clone(), node, Some(stamp));
        self.counts().n_assumed += 1;
        let symbol = self.draft.snapshot.model.names().intern(node);
        self.draft.assume_bindings_on(&pod, symbol, bindings);
    }

    pub(super) fn upsert_pod(&mut self, pod: Pod) -> Result<(), ModelError> {
        if pod.is_terminal() {
            self.delete_pod(pod.key(), Some(pod.uid()));
            return Ok(());
        }
        if pod.uid().is_empty() && pod.node_name().is_some() {
            return Err(ModelError::new("metadata.uid", "is missing"));
        }
        let known = self.known(pod.key());
        let is_pending = known.is_some_and(|known| known.place == PodPlace::Pending);
        match known.map_or(News::Change, |known| News::of(&pod, &known)) {
            news @ (News::Stale | News::Renewal) => {
                if is_pending {
                    self.pods.set_by_nomination(pod.key(), false);
                }
                if matches!(news, News::Renewal) {
                    self.renew(pod);
                }
                return Ok(());
            }
            News::Contradiction(node) => {
                let reason = format!("changes the node of a bound pod, which is on `{node}`");
                self.counts().n_contradictions += 1;
                return Err(ModelError::new("spec.nodeName", reason));
            }
            News::Change => {}
        }
        // Bindings of an unknown pod exist only while a new listing is applied.
        let is_kept = known.is_none_or(|known| is_confirmed(&pod, &known));
        let earlier = known.map(|known| Earlier::of(&known));
        let promise = self.kept_promise(&pod);
        if earlier.is_none() {
            self.draft.clear_nomination(pod.key());
        }
        if let Some(known) = pod.node_name().and_then(|name| self.nodes.get(name)) {
            let checked = check_range(&self.draft.snapshot, known.row, &pod);
            if checked.is_err() && earlier.is_none() {
                self.draft.release_bindings(pod.key());
            }
            checked?;
        }
        let bindings = self.draft.release_bindings(pod.key()).filter(|_| is_kept);
        if let Some(earlier) = earlier {
            self.remove(&earlier);
        }
        let key = bindings.is_some().then(|| pod.key().clone());
        let promised = promise.map(|node| (pod.clone(), node));
        self.insert(pod);
        if let Some((pod, node)) = promised {
            self.draft.nominate(&pod, &node);
        }
        if let Some((key, bindings)) = key.zip(bindings) {
            self.draft.restore_bindings(&key, bindings);
        }
        Ok(())
    }

    /// Records that a pod was reported again.
    fn renew(&mut self, pod: Pod) {
        // Facts that no placement reads may differ all the same: a renewal does not invalidate placements.
        let Some(known) = self.known(pod.key()) else { return };
        let (new, old) = (pod.facts(), known.pod.facts());
        if new.resource_version == old.resource_version
            && new.is_ready == old.is_ready
            && new.controller == old.controller
            && new.kept == old.kept
        {
            return;
        }
        match known.place {
            PodPlace::OnNode(row) => self.draft.renew_pod(row, pod),
            PodPlace::Orphaned | PodPlace::Pending => {
                if let Some(elsewhere) = self.pods.elsewhere_mut(pod.key()) {
                    elsewhere.pod = pod;
                }
            }
        }
    }

    /// The nomination that the pod has in memory only: it is kept while the feed reports none, before and after
    /// (S-NOMC-1). An unknown pod has one only while a new listing is applied.
    pub(super) fn kept_promise(&self, pod: &Pod) -> Option<Arc<str>> {
        let Snapshot { nominations, model, .. } = &self.draft.snapshot;
        let node = nominations.of(pod.key())?;
        let promised = nominations.of_node(node).iter().find(|other| other.key() == pod.key())?;
        let has_none = |pod: &Pod| pod.nominated_node_name().is_none();
        let is_kept = has_none(promised)
            && has_none(pod)
            && pod.node_name().is_none()
            && promised.uid() == pod.uid();
        is_kept.then(|| model.names().name(node))
    }

    /// Nominates a pod that is on no node; an unknown pod becomes pending.
    pub(super) fn nominate(&mut self, pod: &Pod, node: &str) {
        if self.knows_another(pod) && self.pods.is_elsewhere(pod.key()) {
            self.forget(pod.key());
        }
        if self.known(pod.key()).is_none() {
            self.insert(pod.without_node().nominated_to(None));
            self.pods.set_by_nomination(pod.key(), true);
        }
        let pending = self.known(pod.key()).filter(|known| known.place == PodPlace::Pending);
        if let Some(pod) = pending.map(|known| known.pod.clone()) {
            self.draft.nominate(&pod, node);
        }
    }

    /// Clears a pod's nomination, whoever made it.
    pub(super) fn clear_nomination(&mut self, key: &PodKey) {
        self.draft.clear_nomination(key);
        if let Some(elsewhere) = self.pods.elsewhere_mut(key)
            && elsewhere.pod.nominated_node_name().is_some()
        {
            elsewhere.pod = elsewhere.pod.nominated_to(None);
        }
    }

    /// Adds an unknown pod.
    fn insert(&mut self, pod: Pod) {
        let Some(name) = pod.facts().node_name.clone() else {
            if let Some(node) = pod.nominated_node_name() {
                self.draft.nominate(&pod, node);
            }
            self.counts().n_pending += 1;
            return self.pods.put_elsewhere(pod, None);
        };
        match self.nodes.get(&name) {
            Some(&KnownNode { row, .. }) => {
                self.pods.put_on(pod.key(), row);
                self.draft.add_pod(row, pod, None);
                self.touch_images(row);
                self.counts().n_pods += 1;
            }
            None => self.insert_orphan(pod, &name, None),
        }
    }

    /// Adds an unknown pod on a node that the cluster does not have.
    fn insert_orphan(&mut self, pod: Pod, node: &Arc<str>, assumed: Option<AssumptionStamp>) {
        match self.orphans.get_mut(node) {
            Some(keys) => keys.push(pod.key().clone()),
            None => drop(self.orphans.insert(node.clone(), vec![pod.key().clone()])),
        }
        self.counts().n_orphaned += 1;
        self.pods.put_elsewhere(pod, assumed);
    }

    pub(super) fn delete_pod(&mut self, key: &PodKey, uid: Option<&str>) {
        let is_it =
            |known: Known<'_>| uid.is_none_or(|uid| uid.is_empty() || uid == known.pod.uid());
        if let Some(known) = self.known(key).filter(|known| is_it(*known)) {
            self.remove(&Earlier::of(&known));
        }
    }

    /// Removes the pod of this name, wherever it is.
    pub(super) fn forget(&mut self, key: &PodKey) {
        if let Some(known) = self.known(key) {
            self.remove(&Earlier::of(&known));
        }
    }

    /// Removes a pod that is known.
    fn remove(&mut self, Earlier { pod, place, is_assumed }: &Earlier) {
        let key = pod.key();
        self.draft.release_bindings(key);
        if *is_assumed {
            self.counts().n_assumed -= 1;
        }
        match *place {
            PodPlace::OnNode(row) => {
                self.pods.take_off(key);
                self.draft.remove_pod(row, pod);
                self.touch_images(row);
                self.counts().n_pods -= 1;
            }
            PodPlace::Orphaned => {
                self.pods.take_elsewhere(key);
                self.counts().n_orphaned -= 1;
                if let Some(name) = pod.node_name()
                    && let Some(keys) = self.orphans.get_mut(name)
                {
                    keys.retain(|other| other != key);
                    if keys.is_empty() {
                        self.orphans.remove(name);
                    }
                }
            }
            PodPlace::Pending => {
                self.pods.take_elsewhere(key);
                self.draft.clear_nomination(key);
                self.counts().n_pending -= 1;
            }
        }
    }
}

impl News {
    fn of(pod: &Pod, known: &Known<'_>) -> News {
        if is_older(pod.facts().resource_version, known.pod.facts().resource_version) {
            return News::Stale;
        }
        if is_same(pod, known) {
            return News::Renewal;
        }
        let is_same_pod = known.pod.uid() == pod.uid();
        match &known.pod.facts().node_name {
            // An update from before the pod got its node, which it never loses.
            Some(_) if is_same_pod && pod.node_name().is_none() => News::Stale,
            // A bound pod does not change its node (S-CCH-6); an assumed one may be bound elsewhere (S-CCH-3).
            Some(node)
                if is_same_pod && !known.is_assumed() && pod.node_name() != Some(&**node) =>
            {
                News::Contradiction(node.clone())
            }
            _ => News::Change,
        }
    }
}
