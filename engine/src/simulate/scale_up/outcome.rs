//! What a scale-up answers: plain data. Pods are named by their positions in the request.

use std::sync::Arc;

use super::request::ScaleUpLimit;
use crate::simulate::one_pass::Misfit;
use crate::snapshot::Generation;

/// What the node groups could do for the pods.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleUp {
    /// The snapshot that it was worked out on.
    pub generation: Generation,
    /// Pods that nodes of the cluster take, or have, and those nodes; by position.
    pub on_existing: Vec<(usize, Arc<str>)>,
    /// Pods that no node could take, whatever it is, and why.
    pub refused: Vec<LeftPods>,
    /// One a group, in the groups' order.
    pub options: Vec<ScaleUpOption>,
    /// Other pods that no option places, by position.
    pub unhelped: Vec<usize>,
}

/// What one group could do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScaleUpOption {
    /// Position of the group.
    pub group: usize,
    /// Added nodes that got a pod, in the order in which they were added.
    pub nodes: Vec<ScaleUpNode>,
    /// Pods that found room on a node of the cluster once others were placed (S-BIN-3), in the order of placing.
    pub on_existing: Vec<(usize, Arc<str>)>,
    /// Pods that did not, by reason.
    pub left: Vec<LeftPods>,
    /// Why there are no more nodes.
    pub stop: ScaleUpStop,
    /// What of the added nodes stays free.
    pub waste: Waste,
    /// How unevenly pods of the placed kinds lie then, for each topology key that one of their spread constraints, or of the
    /// policy's defaults, names; by key. Of several constraints of a key the largest.
    pub skews: Vec<Skew>,
    /// How many of the nodes each similar group gets, this one included: groups by position, and nodes to add. Empty where
    /// balancing is not asked for or no group is like it.
    pub split: Vec<(usize, usize)>,
}

/// A node that was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleUpNode {
    /// A name that no node of the cluster has.
    pub name: Arc<str>,
    /// Pods that it got, in the order of placing; those of the template are not among them.
    pub pods: Vec<usize>,
}

/// Pods that are left for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftPods {
    /// The reason.
    pub reason: LeftReason,
    /// The pods, by position.
    pub pods: Vec<usize>,
}

/// Why pods are left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftReason {
    /// The template node does not take them, or a new node did not.
    Misfit(Misfit),
    /// There may be no more nodes.
    Limit(ScaleUpLimit),
}

/// Why an option has no more nodes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum ScaleUpStop {
    /// Every pod has its place.
    #[default]
    AllPlaced,
    /// Nodes of this group do not help those that are left.
    NothingMoreFits,
    /// More were refused.
    Limit(ScaleUpLimit),
}

/// What of the capacity of added nodes their pods do not ask for, as fractions from 0 to 1; 0 where nothing was added. The rule of
/// cluster-autoscaler's `least-waste`, for the nodes that got a pod and the pods that came to them.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Waste {
    /// Of CPU.
    pub cpu: f64,
    /// Of memory.
    pub memory: f64,
}

impl Waste {
    /// What options are compared by.
    pub fn total(self) -> f64 {
        self.cpu + self.memory
    }
}

/// How unevenly pods lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skew {
    /// The label that names a node's domain.
    pub topology_key: Arc<str>,
    /// Pods in the fullest domain less those in the emptiest.
    pub skew: i64,
}

impl ScaleUp {
    pub(super) fn of(
        generation: Generation,
        mut on_existing: Vec<(usize, Arc<str>)>,
        refused: Vec<(usize, Misfit)>,
        pending: &[usize],
        options: Vec<ScaleUpOption>,
    ) -> ScaleUp {
        on_existing.sort_unstable_by_key(|(index, _)| *index);
        let mut by_reason = Vec::new();
        for (index, misfit) in refused {
            leave(&mut by_reason, LeftReason::Misfit(misfit), [index]);
        }
        let mut unhelped = pending.to_vec();
        unhelped.sort_unstable();
        let mut is_helped = vec![false; unhelped.last().map_or(0, |last| last + 1)];
        options.iter().flat_map(ScaleUpOption::placed).for_each(|index| is_helped[index] = true);
        unhelped.retain(|index| !is_helped[*index]);
        ScaleUp { generation, on_existing, refused: by_reason, options, unhelped }
    }
}

impl ScaleUpOption {
    /// Nodes to add.
    pub fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Pods that found a place.
    pub fn n_placed(&self) -> usize {
        self.nodes.iter().map(|node| node.pods.len()).sum::<usize>() + self.on_existing.len()
    }

    /// The largest of the skews; 0 where nothing is to be spread.
    pub fn skew(&self) -> i64 {
        self.skews.iter().map(|skew| skew.skew).max().unwrap_or(0)
    }

    /// The pods that found a place.
    pub(super) fn placed(&self) -> impl Iterator<Item = usize> + '_ {
        let on_new = self.nodes.iter().flat_map(|node| node.pods.iter().copied());
        on_new.chain(self.on_existing.iter().map(|(index, _)| *index))
    }

    /// Pods found no place.
    pub(super) fn leave(&mut self, reason: LeftReason, pods: impl IntoIterator<Item = usize>) {
        leave(&mut self.left, reason, pods);
    }

    /// Pods stand in the order of the request, whatever the order in which they were left.
    pub(super) fn sort_left(&mut self) {
        self.left.iter_mut().for_each(|left| left.pods.sort_unstable());
    }
}

/// Adds pods to those of the same reason; reasons stay sorted.
fn leave(left: &mut Vec<LeftPods>, reason: LeftReason, pods: impl IntoIterator<Item = usize>) {
    let at = match left.binary_search_by(|known| known.reason.cmp(&reason)) {
        Ok(at) => at,
        Err(at) => {
            left.insert(at, LeftPods { reason, pods: Vec::new() });
            at
        }
    };
    left[at].pods.extend(pods);
}
