//! Restore: what was reserved before the process ended, assumed again as it was.

use std::sync::Arc;

use super::Cluster;
use super::extender::AssumeError;
use super::reservation::Reservation;
use super::step::Step;
use super::writer::{Writer, check_range};
use crate::model::{Pod, PodKey};
use crate::place::basis::Basis;
use crate::snapshot::bindings::Bindings;
use crate::snapshot::{AssumptionStamp, Snapshot};

impl Cluster {
    /// Assumes pods on the nodes that they were assumed on before, in one generation, whether or not they fit there
    /// now: whoever was promised the room has it. A pod whose node is missing comes onto it with the node (S-CCH-7).
    /// Returns the stamp of each.
    ///
    /// # Errors
    /// [`AssumeError`] for each pod that is not assumed: it is on a node already, another pod has its name, or its
    /// requests would overflow the node's sums.
    pub fn restore(
        &self,
        reservations: &[Reservation],
    ) -> Vec<Result<AssumptionStamp, AssumeError>> {
        let mut writer = self.writer();
        let stamp = AssumptionStamp::after(writer.draft.snapshot.generation);
        let restored: Vec<_> = reservations
            .iter()
            .map(|reservation| reservation.carry_out(&mut writer).map(|()| stamp))
            .collect();
        if restored.iter().any(Result::is_ok) {
            self.publish(&mut writer);
        }
        restored
    }

    /// The node that a pod is nominated to in memory only, with the pod. `None` where it has no nomination, or a feed
    /// reports it (S-NOMC-1).
    pub fn own_nomination(&self, pod: &PodKey) -> Option<(Pod, Arc<str>)> {
        let Snapshot { nominations, model, .. } = &*self.snapshot();
        let node = nominations.of(pod)?;
        let nominated = nominations.of_node(node).iter().find(|it| it.key() == pod)?;
        let is_own = nominated.nominated_node_name().is_none();
        is_own.then(|| (nominated.clone(), model.names().name(node)))
    }

    /// Nominates a pod as it was nominated before; returns whether it is. It is not if the pod is on a node, or another
    /// pod has its name, or it has a nomination.
    pub fn restore_nomination(&self, pod: &Pod, node: &Arc<str>) -> bool {
        let mut writer = self.writer();
        let key = pod.key();
        let is_refused = writer.node_of(key).is_some()
            || writer.knows_another(pod)
            || writer.draft.snapshot.nominations.has(key);
        if is_refused {
            return false;
        }
        let step = Step::nominate(&pod.without_node(), node, &writer.draft.snapshot);
        writer.carry_out(step);
        self.publish(&mut writer);
        true
    }
}

impl Reservation {
    fn carry_out(&self, writer: &mut Writer) -> Result<(), AssumeError> {
        let key = self.pod.key();
        if let Some(known) = writer.known(key).filter(|known| known.pod.uid() != self.pod.uid()) {
            let (pod, known) = (key.clone(), known.pod.facts().uid.clone());
            return Err(AssumeError::AnotherPod { pod, known, requested: self.pod.uid().into() });
        }
        if let Some(node) = writer.node_of(key) {
            return Err(AssumeError::AlreadyPlaced { pod: key.clone(), node });
        }
        let pod = self.pod.without_node();
        let bindings = Bindings { volumes: self.volumes.clone(), devices: self.devices.clone() };
        let snapshot = &writer.draft.snapshot;
        let Some(row) = snapshot.row_named(&self.node) else {
            writer.assume_orphan(&pod, &self.node, &bindings);
            return Ok(());
        };
        check_range(snapshot, row, &pod)?;
        let (node, basis) = (self.node.clone(), Basis::of_nomination(&pod, Some(row)));
        writer.carry_out(Step::Assume { pod, node, row, bindings, basis });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::delta::Delta;
    use crate::model::volume::VolumeBindings;

    fn node(cluster: &Cluster, name: &str) -> Delta {
        let node = json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}});
        Delta::UpsertNode(cluster.compile_node(&serde_json::from_value(node).unwrap()).unwrap())
    }

    fn pod(cluster: &Cluster, name: &str, uid: &str, node: &str) -> Pod {
        let pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": uid},
            "spec": {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": "3"}}}]},
        });
        cluster.compile_kept_pod(&serde_json::from_value(pod).unwrap()).unwrap()
    }

    fn reservation(cluster: &Cluster, name: &str, node: &str) -> Reservation {
        let pod = pod(cluster, name, &format!("uid-{name}"), "");
        let (volumes, devices) = (VolumeBindings::default(), None);
        Reservation { pod, node: node.into(), volumes, devices }
    }

    fn counts(cluster: &Cluster) -> (usize, usize, usize) {
        let snapshot = cluster.snapshot();
        (snapshot.n_pods(), snapshot.n_assumed(), snapshot.n_pending())
    }

    /// S-CCH-7
    #[test]
    fn pods_come_back_to_nodes_that_are_there_or_will_be() {
        let cluster = Cluster::new();
        cluster.apply(vec![node(&cluster, "n0")]);
        cluster.apply(vec![Delta::UpsertPod(pod(&cluster, "a", "uid-a", ""))]);
        let both = [reservation(&cluster, "a", "n0"), reservation(&cluster, "b", "n1")];
        let stamps: Vec<_> = cluster.restore(&both).into_iter().map(Result::unwrap).collect();
        assert_eq!(counts(&cluster), (1, 2, 0));
        cluster.apply(vec![node(&cluster, "n1")]);
        assert_eq!(counts(&cluster), (2, 2, 0));
        let standings = cluster.standing_of(&both.each_ref().map(|it| it.pod.key().clone()));
        for ((standing, expected), stamp) in standings.iter().flatten().zip(&both).zip(&stamps) {
            assert_eq!((&standing.node, standing.stamp), (&expected.node, Some(*stamp)));
        }
        assert_eq!(
            standings[1].as_ref().unwrap().pod.object().unwrap().spec.unwrap().node_name,
            "n1"
        );
        // They are ended like any other, before their node comes too.
        let late = reservation(&cluster, "c", "n2");
        let stamp = cluster.restore(std::slice::from_ref(&late))[0].clone().unwrap();
        assert_eq!(cluster.end_assumptions(&[(late.pod.key().clone(), stamp)]), [true]);
        cluster.apply(vec![node(&cluster, "n2")]);
        assert_eq!(counts(&cluster), (2, 2, 0));
    }

    /// S-NOMC-1
    #[test]
    fn nominations_come_back_unless_the_feed_knows_better() {
        let cluster = Cluster::new();
        cluster.apply(vec![node(&cluster, "n0")]);
        let known = ["a", "bound"].map(|name| {
            let node = if name == "bound" { "n0" } else { "" };
            Delta::UpsertPod(pod(&cluster, name, &format!("uid-{name}"), node))
        });
        cluster.apply(known.into());
        let restore = |name: &str, uid: &str| {
            cluster.restore_nomination(&pod(&cluster, name, uid, ""), &"n0".into())
        };
        assert!(restore("a", "uid-a") && restore("b", "uid-b"));
        assert!(!restore("a", "uid-a") && !restore("a", "other") && !restore("bound", "uid-bound"));
        for name in ["a", "b"] {
            let (pod, node) = cluster.own_nomination(&PodKey::new("default", name)).unwrap();
            assert_eq!((pod.key().name.as_ref(), &*node), (name, "n0"));
            assert!(pod.object().is_some());
        }
        assert!(cluster.own_nomination(&PodKey::new("default", "bound")).is_none());
    }

    #[test]
    fn what_the_feed_knows_better_is_not_restored() {
        let cluster = Cluster::new();
        let known = [pod(&cluster, "bound", "uid-bound", "n0"), pod(&cluster, "new", "other", "")];
        cluster.apply(vec![node(&cluster, "n0")]);
        cluster.apply(known.map(Delta::UpsertPod).into());
        let before = (counts(&cluster), cluster.snapshot().generation());
        let late = [reservation(&cluster, "bound", "n1"), reservation(&cluster, "new", "n0")];
        let refused: Vec<_> = cluster.restore(&late).into_iter().map(Result::unwrap_err).collect();
        let bound = PodKey::new("default", "bound");
        assert_eq!(refused[0], AssumeError::AlreadyPlaced { pod: bound, node: "n0".into() });
        assert!(
            matches!(&refused[1], AssumeError::AnotherPod { known, .. } if **known == *"other")
        );
        assert_eq!((counts(&cluster), cluster.snapshot().generation()), before);
    }
}
