//! Binding: the volumes that a pod's claims have or could get on each row. Rules: S-VLB-1 to S-VLB-9.

use super::matching::DelayedClaim;
use crate::model::Pod;
use crate::model::intern::Symbol;
use crate::model::key::ClaimKey;
use crate::model::selector::NodeSelector;
use crate::model::storage::persistent_volume::PersistentVolume;
use crate::model::storage::persistent_volume_claim::PersistentVolumeClaim;
use crate::model::storage::storage_class::BindingMode;
use crate::model::volume::{PodClaim, PodVolumes, VolumeBindings};
use crate::prepared::volumes::lookup::{CLAIMS, not_found};
use crate::rows::{NodeRow, RowSet};
use crate::snapshot::Snapshot;
use crate::snapshot::matching::matching;
use crate::snapshot::shard::Shard;

/// Facts that VolumeBinding needs.
pub(crate) struct Binding<'a> {
    /// Why the pod as a whole is refused, or the attempt fails.
    pub(crate) refusal: Option<Refusal>,
    pub(super) snapshot: &'a Snapshot,
    /// The bound claims in spec order with their volumes; `None` where the volume does not exist.
    bound: Vec<(&'a PersistentVolumeClaim, Option<&'a PersistentVolume>)>,
    /// Claims whose driver provisions for a selected node already, in spec order.
    pub(super) selected: Vec<DelayedClaim<'a>>,
    /// The other claims that wait for their first consumer, smallest request first.
    pub(super) open: Vec<DelayedClaim<'a>>,
}

/// How VolumeBinding's PreFilter ends an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The pod is refused (S-VLB-1, S-VLB-3).
    Refused(String),
    /// The attempt fails (S-VLB-2).
    Error(String),
}

/// A claim of the pod on one row.
pub(crate) struct ClaimOnRow<'a> {
    pub(crate) claim: &'a PersistentVolumeClaim,
    pub(crate) standing: Standing<'a>,
}

/// What a claim's volume allows on a row, or how the claim would get one there.
pub(crate) enum Standing<'a> {
    Reachable(&'a PersistentVolume),
    OutOfReach(&'a PersistentVolume),
    MissingVolume,
    /// A driver provisions for another node.
    SelectedElsewhere(Symbol),
    WouldBind(&'a PersistentVolume),
    WouldProvision,
    /// No volume suits, and the class has no provisioner.
    NoVolume,
    /// No volume suits, and the class provisions elsewhere.
    NotAllowed(&'a NodeSelector),
    /// No volume suits, and no report has this capacity.
    NoCapacity(i64),
}

impl Standing<'_> {
    /// Whether the claim admits the row.
    pub(crate) fn is_met(&self) -> bool {
        matches!(self, Standing::Reachable(_) | Standing::WouldBind(_) | Standing::WouldProvision)
    }
}

/// The rows that VolumeBinding refuses, by reason; a row may be in several (S-VLB-8).
#[derive(Copy, Clone, Default)]
pub(crate) struct Refused {
    pub(crate) affinity: RowSet,
    pub(crate) no_volume: RowSet,
    pub(crate) no_space: RowSet,
    pub(crate) missing: RowSet,
}

impl<'a> Binding<'a> {
    pub(super) fn find(
        snapshot: &'a Snapshot,
        pod: &'a Pod,
        volumes: &'a PodVolumes,
    ) -> Binding<'a> {
        let (bound, selected, open) = (Vec::new(), Vec::new(), Vec::new());
        let mut binding = Binding { refusal: None, snapshot, bound, selected, open };
        binding.refusal = binding.classify(pod, volumes).err();
        binding.open.sort_by_key(|delayed| delayed.claim.request.unwrap_or_default());
        binding
    }

    /// Whether VolumeBinding cannot refuse any row.
    pub(crate) fn is_empty(&self) -> bool {
        self.bound.is_empty() && !self.has_delayed()
    }

    /// Whether the pod has claims that wait for their first consumer.
    pub(crate) fn has_delayed(&self) -> bool {
        !self.selected.is_empty() || !self.open.is_empty()
    }

    /// The rows among `rows` that VolumeBinding refuses.
    ///
    /// Cost: one selector for each bound volume; for each open claim the cost of [`DelayedClaim::matched`].
    pub(crate) fn refused(&self, shard: &Shard, rows: &RowSet) -> Refused {
        let mut refused = Refused::default();
        self.refuse_bound(shard, *rows, &mut refused);
        self.refuse_delayed(shard, *rows, &mut refused);
        refused
    }

    /// The bindings, on a feasible row, of the claims that wait for their first consumer (S-VLB-9).
    pub(crate) fn bindings(&self, row: NodeRow) -> VolumeBindings {
        let mut bindings = VolumeBindings::default();
        let name = |delayed: &DelayedClaim<'_>| delayed.claim.key.name.clone();
        bindings.provisioned.extend(self.selected.iter().map(name));
        let shard = &self.snapshot.shards[row.shard()];
        let mut chosen = Vec::new();
        for delayed in &self.open {
            match delayed.volume_for(self.snapshot, shard, row.row(), &chosen) {
                Some(volume) => {
                    chosen.push(volume);
                    bindings.bound.push((name(delayed), volume.name.clone()));
                }
                None => bindings.provisioned.push(name(delayed)),
            }
        }
        // A claim that the pod names twice has its volumes in the order in which they were chosen.
        bindings.bound.sort_by(|(a, _), (b, _)| a.cmp(b));
        bindings.provisioned.sort_unstable();
        bindings
    }

    /// How each claim stands on a row, whatever the others: bound claims, then those with a selected node, then open
    /// ones in the order in which they choose volumes. Only for people who ask; [`Binding::refused`] decides.
    pub(crate) fn claims_on(&self, shard: &Shard, row: usize) -> Vec<ClaimOnRow<'a>> {
        let here: RowSet = [row].into_iter().collect();
        let mut claims =
            Vec::with_capacity(self.bound.len() + self.selected.len() + self.open.len());
        for (claim, volume) in &self.bound {
            let names = self.snapshot.model.names();
            let standing = match volume {
                None => Standing::MissingVolume,
                Some(volume) => match &volume.node_affinity {
                    Some(affinity) if matching(affinity, &shard.nodes, here, names).is_empty() => {
                        Standing::OutOfReach(volume)
                    }
                    _ => Standing::Reachable(volume),
                },
            };
            claims.push(ClaimOnRow { claim, standing });
        }
        for delayed in &self.selected {
            let elsewhere = delayed.selected_node.filter(|node| {
                shard.nodes.row_of_name.get(node).is_none_or(|selected| *selected != row)
            });
            let standing = match elsewhere {
                Some(node) => Standing::SelectedElsewhere(node),
                None => delayed.provisioning(self.snapshot, shard, here),
            };
            claims.push(ClaimOnRow { claim: delayed.claim, standing });
        }
        let mut chosen = Vec::new();
        for delayed in &self.open {
            let volume = delayed.volume_for(self.snapshot, shard, row, &chosen);
            let standing = match volume.filter(|_| delayed.has_candidates) {
                Some(volume) => {
                    chosen.push(volume);
                    Standing::WouldBind(volume)
                }
                None => delayed.provisioning(self.snapshot, shard, here),
            };
            claims.push(ClaimOnRow { claim: delayed.claim, standing });
        }
        claims
    }

    /// Classifies the pod's claims by the state of their binding (S-VLB-2), or returns why the pod cannot be placed.
    fn classify(&mut self, pod: &Pod, volumes: &PodVolumes) -> Result<(), Refusal> {
        let snapshot = self.snapshot;
        let storage = &snapshot.storage;
        let mut claims = Vec::with_capacity(volumes.claims.len());
        for claim in &volumes.claims {
            claims.push(usable(snapshot, pod, claim).map_err(Refusal::Refused)?);
        }
        let mut has_immediate = false;
        for claim in claims {
            if let Some(volume) = claim.volume.as_ref().filter(|_| claim.is_bound()) {
                self.bound.push((claim, storage.volumes.get(volume)));
                continue;
            }
            // A claim whose class does not exist counts as one with immediate binding.
            let class = storage.class(claim.class);
            match class.map(|class| (class, class.binding_mode)) {
                Some((class, None)) => {
                    let name = snapshot.model.names().name(class.name);
                    let text = format!("VolumeBindingMode not set for StorageClass \"{name}\"");
                    return Err(Refusal::Error(text));
                }
                Some((class, Some(BindingMode::WaitForFirstConsumer)))
                    if claim.volume.is_none() =>
                {
                    let delayed = DelayedClaim::find(storage, claim, class);
                    let list = match delayed.selected_node {
                        Some(_) => &mut self.selected,
                        None => &mut self.open,
                    };
                    list.push(delayed);
                }
                _ => has_immediate = true,
            }
        }
        if has_immediate {
            let text = "pod has unbound immediate PersistentVolumeClaims";
            return Err(Refusal::Refused(text.to_owned()));
        }
        Ok(())
    }

    /// Records rows that a bound claim refuses; the first problem of a row ends its check (S-VLB-4).
    fn refuse_bound(&self, shard: &Shard, mut left: RowSet, refused: &mut Refused) {
        for (_, volume) in &self.bound {
            let Some(volume) = volume else {
                refused.missing = left;
                return;
            };
            let Some(affinity) = &volume.node_affinity else { continue };
            let matched = matching(affinity, &shard.nodes, left, self.snapshot.model.names());
            refused.affinity.union(&left.without(&matched));
            left = matched;
        }
    }

    /// Records rows that a delayed claim refuses (S-VLB-5, S-VLB-7).
    fn refuse_delayed(&self, shard: &Shard, mut left: RowSet, refused: &mut Refused) {
        for node in self.selected.iter().filter_map(|delayed| delayed.selected_node) {
            let row = shard.nodes.row_of_name.get(&node).copied();
            let mut there: RowSet = row.into_iter().collect();
            there.intersect(&left);
            refused.no_volume.union(&left.without(&there));
            left = there;
        }
        if left.is_empty() {
            return;
        }
        let all = left;
        let to_provision = self.selected.iter().map(|delayed| (delayed, all));
        let to_provision = to_provision.chain(self.unmatched(shard, all));
        // The first claim that cannot be provisioned on a row gives the reason.
        for (delayed, mut rows) in to_provision {
            rows.intersect(&left);
            let placed = delayed.rows_allowed(self.snapshot, shard, rows);
            let roomy = delayed.rows_with_space(self.snapshot, shard, placed);
            refused.no_volume.union(&rows.without(&placed));
            refused.no_space.union(&placed.without(&roomy));
            left.subtract(&rows.without(&roomy));
        }
    }

    /// The open claims, smallest first, each with the rows where no volume is left for it.
    fn unmatched(&self, shard: &Shard, rows: RowSet) -> Vec<(&DelayedClaim<'a>, RowSet)> {
        let mut unmatched: Vec<_> = self.open.iter().map(|delayed| (delayed, rows)).collect();
        for (i, delayed) in self.open.iter().enumerate().filter(|(_, d)| d.has_candidates) {
            let is_rival = |other: &DelayedClaim<'_>| other.class.name == delayed.class.name;
            if self.open.iter().filter(|other| is_rival(other)).count() == 1 {
                let matched = delayed.matched(self.snapshot, shard, &rows);
                unmatched[i].1.subtract(&matched);
            } else if !self.open[..i].iter().any(is_rival) {
                self.share_out(i, shard, rows, &mut unmatched);
            }
        }
        unmatched
    }

    /// Assigns distinct volumes to the claims of one class, the first of which is `first`, row by row.
    fn share_out(
        &self,
        first: usize,
        shard: &Shard,
        rows: RowSet,
        unmatched: &mut [(&DelayedClaim<'a>, RowSet)],
    ) {
        let class = self.open[first].class.name;
        for row in rows.iter() {
            let mut chosen = Vec::new();
            for (i, delayed) in self.open.iter().enumerate() {
                if delayed.class.name != class {
                    continue;
                }
                if let Some(volume) = delayed.volume_for(self.snapshot, shard, row, &chosen) {
                    chosen.push(volume);
                    unmatched[i].1.remove(row);
                }
            }
        }
    }
}

impl Refused {
    pub(crate) fn any(&self) -> RowSet {
        let mut any = self.affinity;
        [self.no_volume, self.no_space, self.missing].iter().for_each(|rows| any.union(rows));
        any
    }
}

impl<'a> DelayedClaim<'a> {
    /// How the claim stands on a row where it gets no existing volume.
    fn provisioning(&self, snapshot: &Snapshot, shard: &Shard, here: RowSet) -> Standing<'a> {
        if self.rows_allowed(snapshot, shard, here).is_empty() {
            return match &self.class.allowed_topologies {
                Some(topologies) if self.class.provisioner.is_some() => {
                    Standing::NotAllowed(topologies)
                }
                _ => Standing::NoVolume,
            };
        }
        if self.rows_with_space(snapshot, shard, here).is_empty() {
            return Standing::NoCapacity(self.size.unwrap_or(0));
        }
        Standing::WouldProvision
    }
}

/// The claim of this name, if the pod may use it (S-VLB-1).
fn usable<'a>(
    snapshot: &'a Snapshot,
    pod: &Pod,
    claim: &PodClaim,
) -> Result<&'a PersistentVolumeClaim, String> {
    let name = &claim.key.name;
    let Some(known) = snapshot.storage.claims.get(&claim.key) else {
        return Err(if claim.is_ephemeral() {
            format!("waiting for ephemeral volume controller to create the {CLAIMS} \"{name}\"")
        } else {
            not_found(CLAIMS, name)
        });
    };
    if known.is_lost {
        let volume = known.volume.as_deref().unwrap_or_default();
        return Err(format!(
            "{CLAIMS} \"{name}\" bound to non-existent persistentvolume \"{volume}\""
        ));
    }
    if known.is_deleting {
        return Err(format!("{CLAIMS} \"{name}\" is being deleted"));
    }
    if claim.is_ephemeral() && !known.is_owned_by(pod.uid()) {
        return Err(not_owner(&claim.key, pod));
    }
    Ok(known)
}

/// The refusal for a claim of the right name that was created for another pod.
pub(super) fn not_owner(claim: &ClaimKey, pod: &Pod) -> String {
    let (claim, pod) = (format!("{}/{}", claim.namespace, claim.name), pod.key());
    format!("PVC {claim} was not created for pod {pod} (pod is not owner)")
}
