//! Outcome: the result of a scale-up, plain data. Pods are named by their positions in the request.

use std::sync::Arc;

use super::request::ScaleUpLimit;
use crate::simulate::one_pass::Misfit;
use crate::snapshot::Generation;

/// Options by which node groups could grow for the pods.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaleUp {
    /// The snapshot that the scale-up was simulated on.
    pub generation: Generation,
    /// Pods that existing nodes take or already have, by position, with the node.
    pub on_existing: Vec<(usize, Arc<str>)>,
    /// Pods that no node could take, and why.
    pub refused: Vec<LeftPods>,
    /// One option for each group, in the groups' order.
    pub options: Vec<ScaleUpOption>,
    /// Pods other than those above that no option places, by position.
    pub unhelped: Vec<usize>,
}

/// Result for one group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScaleUpOption {
    /// Position of the group.
    pub group: usize,
    /// Added nodes that got a pod, in the order in which they were added.
    pub nodes: Vec<ScaleUpNode>,
    /// Pods that found room on an existing node once others were placed (S-BIN-3), in the order of placing.
    pub on_existing: Vec<(usize, Arc<str>)>,
    /// Pods that were not placed, by reason.
    pub left: Vec<LeftPods>,
    /// Why no more nodes were added.
    pub stop: ScaleUpStop,
    /// Fractions of the added nodes' capacity that stay free.
    pub waste: Waste,
    /// Skew of the placed kinds of pods after the scale-up, for each topology key that one of their spread constraints,
    /// or of the policy's defaults, names; by key. Where several constraints have the same key, the largest skew.
    pub skews: Vec<Skew>,
    /// How many of the nodes each similar group gets, this one included: groups by position, and nodes to add. Empty
    /// where balancing is off or no group is similar.
    pub split: Vec<(usize, usize)>,
}

/// A node that was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleUpNode {
    /// A name that no existing node has.
    pub name: Arc<str>,
    /// Pods placed on the node, in order; the template's pods are not listed.
    pub pods: Vec<usize>,
}

/// Pods that were not placed, with a common reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftPods {
    /// Why the pods were not placed.
    pub reason: LeftReason,
    /// The pods, by position.
    pub pods: Vec<usize>,
}

/// Why pods were not placed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftReason {
    /// The template node, or a new node, refuses the pods.
    Misfit(Misfit),
    /// A limit forbids more nodes.
    Limit(ScaleUpLimit),
}

/// Why an option has no more nodes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum ScaleUpStop {
    /// Every pod was placed.
    #[default]
    AllPlaced,
    /// More nodes of this group do not help the remaining pods.
    NothingMoreFits,
    /// A limit was reached.
    Limit(ScaleUpLimit),
}

/// Fractions from 0 to 1 of the added nodes' capacity that their pods do not request; 0 where no node was added.
/// Computed like cluster-autoscaler's `least-waste`, over the nodes that got a pod and the pods placed on them.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Waste {
    /// Wasted fraction of CPU.
    pub cpu: f64,
    /// Wasted fraction of memory.
    pub memory: f64,
}

impl Waste {
    /// The sum by which options are compared.
    pub fn total(self) -> f64 {
        self.cpu + self.memory
    }
}

/// How unevenly pods are spread over the domains of a topology key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skew {
    /// The label that names a node's domain.
    pub topology_key: Arc<str>,
    /// Number of pods in the fullest domain less that in the emptiest.
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
    /// Number of nodes to add.
    pub fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Number of pods that were placed.
    pub fn n_placed(&self) -> usize {
        self.nodes.iter().map(|node| node.pods.len()).sum::<usize>() + self.on_existing.len()
    }

    /// The largest of the skews; 0 where nothing is spread.
    pub fn skew(&self) -> i64 {
        self.skews.iter().map(|skew| skew.skew).max().unwrap_or(0)
    }

    /// Positions of the pods that were placed.
    pub(super) fn placed(&self) -> impl Iterator<Item = usize> + '_ {
        let on_new = self.nodes.iter().flat_map(|node| node.pods.iter().copied());
        on_new.chain(self.on_existing.iter().map(|(index, _)| *index))
    }

    /// Records pods that were not placed.
    pub(super) fn leave(&mut self, reason: LeftReason, pods: impl IntoIterator<Item = usize>) {
        leave(&mut self.left, reason, pods);
    }

    /// Sorts the pods of each reason into the order of the request.
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
