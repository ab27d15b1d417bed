//! PreparedVolumes: a pod's volumes looked up in the cluster, once for each request, for the four plugins that read
//! them.

pub(crate) mod binding;
pub(crate) mod limits;
mod lookup;
mod matching;
pub(crate) mod restrictions;
pub(crate) mod storage_use;
pub(crate) mod zones;

use crate::model::Pod;
use crate::model::volume::VolumeBindings;
use crate::plugin::Plugin;
use crate::policy::Policy;
use crate::rows::NodeRow;
use crate::snapshot::Snapshot;
use binding::Binding;
use limits::Limits;
use restrictions::Restrictions;
use zones::Zones;

/// A pod's volumes looked up in a snapshot; `None` where the pod has no relevant ones.
pub(crate) struct PreparedVolumes<'a>(Option<Box<Found<'a>>>);

/// Facts that each plugin needs.
pub(crate) struct Found<'a> {
    pub(crate) restrictions: Restrictions,
    pub(crate) limits: Limits,
    pub(crate) binding: Binding<'a>,
    pub(crate) zones: Zones<'a>,
    /// Whether the policy has VolumeBinding: only that plugin reserves volumes.
    pub(crate) binds: bool,
    storage_version: u64,
}

impl<'a> PreparedVolumes<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        pod: &'a Pod,
        policy: &Policy,
    ) -> PreparedVolumes<'a> {
        PreparedVolumes(pod.volumes().map(|volumes| {
            Box::new(Found {
                restrictions: Restrictions::find(&snapshot.storage, volumes),
                limits: Limits::find(&snapshot.storage, pod, volumes, policy),
                binding: Binding::find(snapshot, pod, volumes),
                zones: Zones::find(snapshot, volumes),
                binds: policy.spec().filter.contains(&Plugin::VolumeBinding),
                storage_version: snapshot.storage.version,
            })
        }))
    }

    /// The facts; `None` for a pod without relevant volumes.
    pub(crate) fn found(&self) -> Option<&Found<'a>> {
        self.0.as_deref()
    }

    /// The bindings of the pod's unbound claims on a feasible row (S-VLB-9).
    pub(crate) fn bindings(&self, row: NodeRow) -> VolumeBindings {
        let found = self.found().filter(|found| found.binds);
        found.map_or_else(VolumeBindings::default, |found| found.binding.bindings(row))
    }

    /// The version of the storage, if the decision depends on more of it than the chosen row: volumes that another pod
    /// may take, or claims that only one pod may use.
    pub(crate) fn storage_version(&self) -> Option<u64> {
        let found = self.found()?;
        let is_shared = found.binding.has_delayed() || !found.restrictions.exclusive.is_empty();
        is_shared.then_some(found.storage_version)
    }
}
