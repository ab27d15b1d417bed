//! PreFilter: rejections of the pod as a whole, and counts over the whole cluster. Rules: S-PF-1 to S-PF-5, S-PLG-4;
//! for the hooks S-PTS-9, S-IPA-8, S-VLR-6.

use std::collections::BTreeSet;

use berth_engine::{Plugin, PolicySpec};
use berth_proto::core_v1::Pod;

use super::cluster::{NaiveCluster, NaiveNode};
use super::node_selector::narrowed_names;
use super::pod_affinity::{Required, required_terms};
use super::requests::{self, Units};
use super::topology_spread::{Hard, hard};
use super::volume_restrictions::Restrictions;
use super::volume_zone::Demand;
use super::{volume_binding, volume_restrictions, volume_zone};

/// The state of an attempt after PreFilter; `None` stands for a plugin that skips (S-PF-1).
#[derive(Clone)]
pub(crate) struct Prepared<'a> {
    pub(crate) cluster: &'a NaiveCluster,
    pub(crate) policy: &'a PolicySpec,
    pub(crate) pod: &'a Pod,
    /// Requests that NodeResourcesFit checks.
    pub(crate) request: Units,
    /// The only nodes that are filtered, `None` for all (S-PF-6).
    pub(crate) names: Option<BTreeSet<String>>,
    pub(crate) zones: Vec<Demand>,
    pub(crate) restrictions: Option<Restrictions>,
    pub(crate) spread: Option<Hard>,
    pub(crate) affinity: Option<Required>,
}

/// Reason for which no node is filtered.
pub(crate) enum Stop {
    /// `UnschedulableAndUnresolvable` (S-PF-2); a text that ends in `: ` is only the beginning of the message.
    Refused(Plugin, String),
    /// S-PF-4
    Failed,
}

pub(crate) fn pre_filter<'a>(
    cluster: &'a NaiveCluster,
    policy: &'a PolicySpec,
    pod: &'a Pod,
) -> Result<Prepared<'a>, Stop> {
    let mut prepared = Prepared {
        cluster,
        policy,
        pod,
        request: requests::to_fit(pod),
        names: None,
        zones: Vec::new(),
        restrictions: None,
        spread: None,
        affinity: None,
    };
    for plugin in &policy.pre_filter {
        let refused = |reason: String| Stop::Refused(*plugin, reason);
        match plugin {
            Plugin::NodeAffinity => {
                prepared.names = narrowed(pod);
                if prepared.names.as_ref().is_some_and(BTreeSet::is_empty) {
                    return Err(refused("pod affinity terms conflict".to_owned()));
                }
            }
            Plugin::VolumeRestrictions => {
                prepared.restrictions =
                    volume_restrictions::pre_filter(cluster, pod).map_err(refused)?;
            }
            Plugin::VolumeBinding => {
                volume_binding::pre_filter(cluster, pod).map_err(|stop| match stop {
                    volume_binding::Stop::Refused(reason) => refused(reason),
                    volume_binding::Stop::Failed => Stop::Failed,
                })?;
            }
            Plugin::VolumeZone => {
                prepared.zones = volume_zone::pre_filter(cluster, pod).map_err(refused)?;
            }
            Plugin::PodTopologySpread => {
                prepared.spread = Some(hard(cluster, policy, pod).map_err(|_| Stop::Failed)?);
            }
            Plugin::InterPodAffinity => {
                let terms = required_terms(cluster, pod);
                prepared.affinity = terms.map_err(|_| refused("parsing pod: ".to_owned()))?;
            }
            _ => {}
        }
    }
    Ok(prepared)
}

impl Prepared<'_> {
    /// Adds a pod to a node in a dry run.
    pub(crate) fn add_pod(&mut self, other: &Pod, node: &NaiveNode) {
        self.count(other, node, 1);
    }

    /// Removes a pod from a node in a dry run.
    pub(crate) fn remove_pod(&mut self, other: &Pod, node: &NaiveNode) {
        self.count(other, node, -1);
    }

    fn count(&mut self, other: &Pod, node: &NaiveNode, step: i64) {
        if let Some(restrictions) = &mut self.restrictions {
            restrictions.count(other, step);
        }
        if let Some(spread) = &mut self.spread {
            spread.count(self.pod, other, node, step);
        }
        if let Some(affinity) = &mut self.affinity {
            affinity.count(other, node, step);
        }
    }
}

/// Returns the names to which NodeAffinity's PreFilter narrows the search (S-NAF-2, S-PF-5).
fn narrowed(pod: &Pod) -> Option<BTreeSet<String>> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    narrowed_names(affinity.required_during_scheduling_ignored_during_execution.as_ref()?)
}
