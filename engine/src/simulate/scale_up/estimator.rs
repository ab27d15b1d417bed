//! Estimator: how many template nodes pods need, packed one after another. Rules: S-BIN-1 to S-BIN-4.

use super::equivalence::{Classes, Group};
use super::limiter::Limiter;
use super::outcome::{LeftReason, ScaleUpNode, ScaleUpOption, ScaleUpStop};
use super::packing::PATIENCE;
use super::ring::Ring;
use super::template::Template;
use crate::error::EngineError;
use crate::filter::reason::Reason;
use crate::model::intern::Symbol;
use crate::model::{Node, Pod};
use crate::plugin::Plugin;
use crate::rows::NodeRow;
use crate::simulate::one_pass::Misfit;
use crate::simulate::scene::Scene;

/// One estimation; it works on a scene.
pub(super) struct Estimator<'e, 'a> {
    pub(super) pods: &'e [Pod],
    pub(super) classes: &'e Classes,
    pub(super) scene: &'e mut Scene<'a>,
    pub(super) template: &'e mut Template<'e>,
    pub(super) ring: Ring,
    pub(super) limiter: Limiter<'e>,
    pub(super) cancelled: &'e dyn Fn() -> bool,
    /// For each class, how many of the nodes added first refuse it from then on.
    refusing: Vec<usize>,
    /// For each class, whether added pods can only close nodes for it; computed when first needed.
    only_loses: Vec<Option<bool>>,
    rows: Vec<NodeRow>,
    option: ScaleUpOption,
    n_asked: usize,
}

impl<'e, 'a> Estimator<'e, 'a> {
    pub(super) fn new(
        (pods, classes): (&'e [Pod], &'e Classes),
        (scene, ring): (&'e mut Scene<'a>, Ring),
        template: &'e mut Template<'e>,
        limiter: Limiter<'e>,
        cancelled: &'e dyn Fn() -> bool,
    ) -> Estimator<'e, 'a> {
        Estimator {
            refusing: vec![0; classes.len()],
            only_loses: vec![None; classes.len()],
            rows: Vec::new(),
            option: ScaleUpOption::default(),
            n_asked: 0,
            pods,
            classes,
            scene,
            template,
            ring,
            limiter,
            cancelled,
        }
    }

    /// Packs groups; placed pods and added nodes stay on the scene. Nodes that stayed empty are not in the result
    /// (S-BIN-4).
    pub(super) fn estimate(mut self, groups: Vec<Group>) -> Result<ScaleUpOption, EngineError> {
        for group in ordered(groups, self.pods, &self.template.node) {
            self.pack(&group)?;
        }
        let mut option = self.option;
        option.nodes.retain(|node| !node.pods.is_empty());
        option.stop = match self.limiter.refused() {
            _ if option.left.is_empty() => ScaleUpStop::AllPlaced,
            Some(limit) => ScaleUpStop::Limit(limit),
            None => ScaleUpStop::NothingMoreFits,
        };
        Ok(option)
    }

    fn pack(&mut self, group: &[usize]) -> Result<(), EngineError> {
        let mut n_placed = 0;
        while n_placed < group.len() && self.put_on_added(group[n_placed])? {
            n_placed += 1;
        }
        for (at, index) in group.iter().enumerate().skip(n_placed) {
            if let Err(reason) = self.put_on_new(*index)? {
                self.option.leave(reason, group[at..].iter().copied());
                break;
            }
        }
        Ok(())
    }

    /// Puts a pod on a node added earlier, if one takes it (S-BIN-2).
    fn put_on_added(&mut self, index: usize) -> Result<bool, EngineError> {
        self.check_cancelled()?;
        let (pod, class) = (&self.pods[index], self.classes.of_pod(index));
        let candidates = self.ring.added(self.refusing[class]);
        match self.scene.first_fit(pod, candidates)? {
            Some(row) => self.put(index, row),
            None => {
                if self.only_loses(class, pod) {
                    self.refusing[class] = self.rows.len();
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Puts a pod on a new node (S-BIN-3), or returns why neither it nor the rest of its group is placed.
    fn put_on_new(&mut self, index: usize) -> Result<Result<(), LeftReason>, EngineError> {
        self.check_cancelled()?;
        let pod = &self.pods[index];
        if let Some(newest) = self.rows.last().copied() {
            if self.newest_takes(index, newest)? {
                self.put(index, newest);
                return Ok(Ok(()));
            }
            if let Some(row) = self.elsewhere(pod, newest)? {
                self.put(index, row);
                return Ok(Ok(()));
            }
            if self.option.nodes.last().is_some_and(|node| node.pods.is_empty()) {
                return Ok(Err(self.misfit(pod, newest)?));
            }
        }
        if let Err(limit) = self.limiter.admit() {
            return Ok(Err(LeftReason::Limit(limit)));
        }
        let (row, name) = self.template.add_to(self.scene)?;
        self.rows.push(row);
        self.ring.push(row);
        self.option.nodes.push(ScaleUpNode { name, pods: Vec::new() });
        if self.scene.fits(pod, row)? {
            self.put(index, row);
            return Ok(Ok(()));
        }
        Ok(Err(self.misfit(pod, row)?))
    }

    fn newest_takes(&mut self, index: usize, newest: NodeRow) -> Result<bool, EngineError> {
        let class = self.classes.of_pod(index);
        if self.refusing[class] == self.rows.len() {
            return Ok(false);
        }
        let pod = &self.pods[index];
        let takes = self.scene.fits(pod, newest)?;
        if !takes && self.refusing[class] + 1 == self.rows.len() && self.only_loses(class, pod) {
            self.refusing[class] += 1;
        }
        Ok(takes)
    }

    /// Another node, existing or added, for a pod that is spread by hostname and that the newest node refuses because
    /// of skew: another new node could not take it either.
    fn elsewhere(&mut self, pod: &Pod, newest: NodeRow) -> Result<Option<NodeRow>, EngineError> {
        let mut constraints = pod.shape().facts.spread.list.iter();
        if !constraints.any(|constraint| constraint.topology_key == Symbol::HOSTNAME) {
            return Ok(None);
        }
        if !self.scene.is_refused_for(pod, newest, Reason::PodTopologySpread)? {
            return Ok(None);
        }
        let others = self.ring.all().filter(|row| *row != newest);
        self.scene.first_fit(pod, others)
    }

    fn put(&mut self, index: usize, row: NodeRow) {
        self.scene.put(&self.pods[index], row);
        self.ring.found(row);
        match self.ring.place_among_added(row) {
            Some(added) => self.option.nodes[added].pods.push(index),
            None => {
                let node =
                    self.scene.node(row).map_or_else(|| "".into(), |n| n.facts().name.clone());
                self.option.on_existing.push((index, node));
            }
        }
    }

    fn misfit(&mut self, pod: &Pod, row: NodeRow) -> Result<LeftReason, EngineError> {
        let misfit = self.scene.why_not(pod, row)?;
        // A node that refuses always gives a reason.
        let none = || Misfit {
            plugin: Plugin::NodeResourcesFit,
            code: crate::plugin::StatusCode::Unschedulable,
            reasons: [].into(),
        };
        Ok(LeftReason::Misfit(misfit.unwrap_or_else(none)))
    }

    fn only_loses(&mut self, class: usize, pod: &Pod) -> bool {
        *self.only_loses[class].get_or_insert_with(|| self.scene.only_loses(pod))
    }

    fn check_cancelled(&mut self) -> Result<(), EngineError> {
        self.n_asked += 1;
        if self.n_asked.is_multiple_of(PATIENCE) && (self.cancelled)() {
            return Err(EngineError::Cancelled);
        }
        Ok(())
    }
}

/// The groups by how much of the template one of their pods requests, largest first; equal ones keep their order
/// (S-BIN-1).
fn ordered(groups: Vec<Group>, pods: &[Pod], template: &Node) -> Vec<Group> {
    let mut scored: Vec<(f64, Group)> = groups
        .into_iter()
        .map(|group| (group.first().map_or(0.0, |pod| score(&pods[*pod], template)), group))
        .collect();
    scored.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    scored.into_iter().map(|(_, group)| group).collect()
}

fn score(pod: &Pod, template: &Node) -> f64 {
    let (requested, room) = (pod.shape().facts.request(), &template.facts().allocatable);
    let share =
        |requested: i64, room: i64| if room > 0 { requested as f64 / room as f64 } else { 0.0 };
    share(requested.milli_cpu, room.milli_cpu) + share(requested.memory, room.memory)
}
