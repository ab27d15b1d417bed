//! Account: what each filter compared on a node, in numbers and names, for people and programs that ask why. Placing a
//! pod never runs this.

mod affinity;
mod at;
pub(crate) mod comparison;
mod device_text;
mod devices;
mod exclusive;
mod labels;
mod limits;
mod names;
mod ports;
mod resources;
mod scores;
mod spread;
mod taints;
mod text;
mod volumes;
pub(crate) mod wording;
mod zones;

use std::sync::Arc;

use crate::filter::Filter;
use crate::plan::counted::Filtering;
use crate::plugin::Plugin;
use crate::rows::NodeRow;
use crate::snapshot::shard::Shard;
use at::{At, first_by_name};
use comparison::{Compared, Comparison, SpreadAccount};
pub(crate) use scores::basis;

/// Compares for one request; caches what several nodes share.
pub(crate) struct Accountant<'p, 'a> {
    plan: &'p Filtering<'p, 'a>,
    /// The constraints that filter, in the demand's order.
    spread: Vec<Arc<SpreadAccount>>,
    affinity: affinity::Shared,
    device_holders: devices::Holders,
    /// The first few names to which required node affinity narrows the nodes.
    narrowed_to: Vec<Arc<str>>,
}

impl<'p, 'a> Accountant<'p, 'a> {
    pub(crate) fn new(plan: &'p Filtering<'p, 'a>) -> Accountant<'p, 'a> {
        Accountant {
            plan,
            spread: spread::accounts(plan),
            affinity: affinity::Shared::of(plan),
            device_holders: devices::Holders::default(),
            narrowed_to: names::narrowed_to(plan),
        }
    }

    /// The comparisons by which a filter refuses a row: those that are not met.
    pub(crate) fn shortfalls(
        &mut self,
        filter: &Filter,
        shard: &Shard,
        row: usize,
    ) -> Vec<Comparison> {
        let mut compared = self.compare(filter, At { shard, row });
        compared.retain(|comparison| !comparison.is_met);
        compared
    }

    /// Everything that the filters compared for a row, in their order.
    pub(crate) fn checks(&mut self, shard: &Shard, row: usize) -> Vec<Comparison> {
        let at = At { shard, row };
        let mut checks = names::by_pre_filter(self.plan, &self.narrowed_to, at);
        for filter in self.plan.filters() {
            checks.extend(self.compare(filter, at));
        }
        checks
    }

    /// Why NodeAffinity's PreFilter leaves a row out (S-PF-6).
    pub(crate) fn left_out(&self, shard: &Shard, row: usize) -> Vec<Comparison> {
        let mut compared = names::by_pre_filter(self.plan, &self.narrowed_to, At { shard, row });
        compared.retain(|comparison| !comparison.is_met);
        compared
    }

    /// The pods whose nominations take the room of a row, for a row that passes without them (S-NOM-2).
    pub(crate) fn nominated(&self, plugin: Plugin, shard: &Shard, row: usize) -> Vec<Comparison> {
        let pods = self.plan.promised().on(NodeRow::new(shard.index, row)).iter();
        let pods = first_by_name(pods.map(|pod| pod.key()));
        vec![Comparison { plugin, is_met: false, compared: Compared::Nominated { pods } }]
    }

    fn compare(&mut self, filter: &Filter, at: At<'_>) -> Vec<Comparison> {
        let plan = self.plan;
        let compared = if filter.is_fence() {
            vec![(!at.shard.nodes.fenced.contains(at.row), Compared::Fence)]
        } else {
            match filter.plugin {
                Plugin::NodeUnschedulable => taints::cordon(plan, at),
                Plugin::NodeName => names::by_name(plan, at),
                Plugin::TaintToleration => taints::taints(plan, at),
                Plugin::NodeAffinity => labels::compare(plan, at),
                Plugin::NodePorts => ports::compare(plan, at),
                Plugin::NodeResourcesFit => resources::compare(plan, at),
                Plugin::VolumeRestrictions => exclusive::compare(plan, at),
                Plugin::NodeVolumeLimits => limits::compare(plan, at),
                Plugin::VolumeBinding => volumes::compare(plan, at),
                Plugin::VolumeZone => zones::compare(plan, at),
                Plugin::PodTopologySpread => spread::compare(plan, &self.spread, at),
                Plugin::InterPodAffinity => affinity::compare(plan, &mut self.affinity, at),
                Plugin::DynamicResources if !filter.scope.is_row() => devices::allocated(plan, at),
                Plugin::DynamicResources => devices::compare(plan, &mut self.device_holders, at),
                Plugin::NodeDeclaredFeatures => names::features(plan, at),
                // Plugins without a filter.
                Plugin::SchedulingGates
                | Plugin::PrioritySort
                | Plugin::DefaultPreemption
                | Plugin::NodeResourcesBalancedAllocation
                | Plugin::ImageLocality
                | Plugin::DefaultBinder => Vec::new(),
            }
        };
        let plugin = filter.plugin;
        compared
            .into_iter()
            .map(|(is_met, compared)| Comparison { plugin, is_met, compared })
            .collect()
    }
}
