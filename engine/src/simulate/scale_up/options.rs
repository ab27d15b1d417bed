//! Options: for each node group, which pods its nodes could take at all, and the estimator's result for these. Rule:
//! S-CAS-7.

use rustc_hash::FxHashSet;

use super::equivalence::{self, Classes, Group};
use super::estimator::Estimator;
use super::limiter::{Limiter, Total};
use super::outcome::{LeftReason, ScaleUpOption, ScaleUpStop, Skew, Waste};
use super::packing::PATIENCE;
use super::request::{NodeGroup, ScaleUpRequest};
use super::ring::Ring;
use super::similar::Similar;
use super::split::split;
use super::template::Template;
use super::tested::{Tested, first_alike};
use crate::error::EngineError;
use crate::model::Pod;
use crate::simulate::scene::Scene;
use crate::snapshot::Snapshot;

pub(super) struct Options<'o> {
    request: &'o ScaleUpRequest<'o>,
    classes: &'o Classes,
    /// Pods that no existing node takes, in the order in which they are packed.
    groups: Vec<Group>,
}

impl<'o> Options<'o> {
    pub(super) fn new(
        request: &'o ScaleUpRequest<'o>,
        classes: &'o Classes,
        pending: &[usize],
    ) -> Options<'o> {
        Options { request, classes, groups: equivalence::groups(request.pods, pending) }
    }

    /// Simulates one option for each node group, in their order; the scene is restored.
    pub(super) fn simulate(
        &self,
        scene: &mut Scene<'_>,
        ring: &Ring,
    ) -> Result<Vec<ScaleUpOption>, EngineError> {
        let groups = self.request.groups;
        let tested: Vec<Tested> =
            groups.iter().map(|group| self.test(group, scene)).collect::<Result<_, _>>()?;
        let alike = first_alike(&tested);
        let total = total(scene.snapshot());
        let mut options = Vec::with_capacity(groups.len());
        for (position, group) in groups.iter().enumerate() {
            self.check_patience()?;
            let similar = self.similar(position, &alike, scene);
            let quota = quota(similar.iter().map(|other| &groups[*other]).chain([group]));
            let limits = self.request.limits;
            let capacity = group.template.capacity();
            let limiter = Limiter::new(limits, quota, total, capacity, self.request.elapsed_ms);
            let mut option = self.estimate(group, &tested[position], limiter, scene, ring)?;
            option.group = position;
            if !similar.is_empty() {
                let members: Vec<usize> = [position].into_iter().chain(similar).collect();
                option.split = split(groups, &members, option.n_nodes());
            }
            options.push(option);
        }
        Ok(options)
    }

    /// Tries one pod of each class on a node of the group (S-CAS-7).
    fn test(&self, group: &NodeGroup, scene: &mut Scene<'_>) -> Result<Tested, EngineError> {
        let saved = scene.save();
        let model = scene.snapshot().model.clone();
        // Names of the added node's devices are known for as long as the template lives.
        let mut template = Template::of(group, &model)?;
        let (row, _) = template.add_to(scene)?;
        let mut tested = Tested::new(self.classes.len());
        for (turn, group) in self.groups.iter().enumerate() {
            if turn % PATIENCE == 0 {
                self.check_patience()?;
            }
            let Some(index) = group.first().copied() else { continue };
            let class = self.classes.of_pod(index);
            if tested.of(class).is_none() {
                tested.note(class, scene.why_not(&self.request.pods[index], row)?);
            }
        }
        scene.restore(saved);
        Ok(tested)
    }

    fn check_patience(&self) -> Result<(), EngineError> {
        if (self.request.cancelled)() { Err(EngineError::Cancelled) } else { Ok(()) }
    }

    fn estimate(
        &self,
        group: &NodeGroup,
        tested: &Tested,
        limiter: Limiter<'_>,
        scene: &mut Scene<'_>,
        ring: &Ring,
    ) -> Result<ScaleUpOption, EngineError> {
        let ScaleUpRequest { pods, cancelled, .. } = *self.request;
        let (mut taken, mut refused) = (Vec::new(), Vec::new());
        for pods in &self.groups {
            let first = pods.first().and_then(|pod| tested.of(self.classes.of_pod(*pod)));
            match first {
                Some(Ok(())) => taken.push(pods.clone()),
                Some(Err(misfit)) => refused.push((misfit, pods)),
                None => {}
            }
        }
        let saved = scene.save();
        let model = scene.snapshot().model.clone();
        let mut template = Template::of(group, &model)?;
        let estimator = Estimator::new(
            (pods, self.classes),
            (scene, ring.clone()),
            &mut template,
            limiter,
            cancelled,
        );
        let mut option = estimator.estimate(taken)?;
        option.waste = waste(&option, pods, group.template.capacity());
        option.skews = self.skews(&option, scene);
        scene.restore(saved);
        for (misfit, pods) in refused {
            option.leave(LeftReason::Misfit(misfit.clone()), pods.iter().copied());
        }
        option.sort_left();
        if option.stop == ScaleUpStop::AllPlaced && !option.left.is_empty() {
            option.stop = ScaleUpStop::NothingMoreFits;
        }
        Ok(option)
    }

    /// Groups, by position, that this group can be balanced with: similar groups whose nodes take the same pods.
    fn similar(&self, position: usize, alike: &[usize], scene: &mut Scene<'_>) -> Vec<usize> {
        if !self.request.balance_similar_groups {
            return Vec::new();
        }
        let groups = self.request.groups;
        let names = scene.snapshot().model.names();
        let similar = Similar::to(&groups[position], self.request.balancing_ignored_labels, names);
        let takes_the_same = |other: usize| alike[position] == alike[other];
        let others = (0..groups.len()).filter(|other| *other != position);
        others.filter(|other| takes_the_same(*other) && similar.is(&groups[*other])).collect()
    }

    /// Skews by topology key, from one pod of each class that was placed.
    fn skews(&self, option: &ScaleUpOption, scene: &mut Scene<'_>) -> Vec<Skew> {
        let mut seen = FxHashSet::default();
        let mut skews: Vec<Skew> = Vec::new();
        for index in option.placed() {
            if !seen.insert(self.classes.of_pod(index)) {
                continue;
            }
            for (key, skew) in scene.skews(&self.request.pods[index]) {
                let topology_key = scene.snapshot().model.names().name(key);
                match skews.iter_mut().find(|known| known.topology_key == topology_key) {
                    Some(known) => known.skew = known.skew.max(skew),
                    None => skews.push(Skew { topology_key, skew }),
                }
            }
        }
        skews.sort_unstable_by(|a, b| a.topology_key.cmp(&b.topology_key));
        skews
    }
}

/// The nodes of a cluster and their capacity.
fn total(snapshot: &Snapshot) -> Total {
    let mut total = Total::default();
    for shard in &snapshot.shards {
        for row in shard.nodes.rows.iter() {
            let capacity = shard.nodes.node(row).map(|node| node.capacity());
            total = total.with(capacity.unwrap_or_default());
        }
    }
    total
}

/// Number of nodes that groups may still add together; `None` where one of them has no limit.
fn quota<'g>(groups: impl Iterator<Item = &'g NodeGroup>) -> Option<usize> {
    let left = groups.map(|group| Some(group.max_size?.saturating_sub(group.size)));
    left.sum()
}

/// Waste as in cluster-autoscaler's `least-waste`, computed over the nodes that got a pod and the pods on them.
fn waste(option: &ScaleUpOption, pods: &[Pod], (milli_cpu, memory): (i64, i64)) -> Waste {
    let placed = || option.nodes.iter().flat_map(|node| &node.pods).map(|pod| &pods[*pod]);
    let requested =
        |amount: fn(&Pod) -> i64| placed().map(|pod| i128::from(amount(pod))).sum::<i128>();
    let wasted = |capacity: i64, requested: i128| {
        let capacity = i128::from(capacity) * option.nodes.len() as i128;
        if capacity == 0 { 0.0 } else { (capacity - requested) as f64 / capacity as f64 }
    };
    Waste {
        cpu: wasted(milli_cpu, requested(|pod| pod.footprint().requested.milli_cpu)),
        memory: wasted(memory, requested(|pod| pod.footprint().requested.memory)),
    }
}
