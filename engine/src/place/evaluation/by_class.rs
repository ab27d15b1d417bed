//! The choice by class: filters and scores that read counts of other pods are run for each class, instead of for each row.
//!
//! The first decision for a shape ranks all rows together. Later ones find most rows as they were, so that classes that are
//! kept save the work on them.

use smallvec::SmallVec;

use super::Evaluation;
use crate::census::class::Class;
use crate::filter::Scope;
use crate::place::classes::{ClassSet, MAX_CLASSES, Scored};
#[cfg(debug_assertions)]
use crate::place::ranking::Feasible;
use crate::place::ranking::Ranking;
use crate::place::shard_evaluation::Maxima;
use crate::plan::ClusterScore;
use crate::plan::counted::Scoring;
use crate::rows::NodeRow;
use crate::score::normalize::Extent;

/// The least number of shards, some 2,000 nodes: of fewer, all rows are scored sooner. In debug builds, which tests are,
/// any number.
const MIN_SHARDS: usize = if cfg!(debug_assertions) { 1 } else { 8 };

/// Debug builds rank all rows of clusters of at most this many shards again.
#[cfg(debug_assertions)]
const MAX_SHARDS_CHECKED: usize = 3;

/// The classes whose rows pass every filter.
#[derive(Clone, Debug)]
pub(crate) struct Passing {
    classes: ClassSet,
    n_rows: u32,
    /// Highest raw scores over the rows that pass the filters by row.
    maxima: Maxima,
}

impl Passing {
    /// Number of rows that pass every filter.
    pub(crate) fn n_rows(&self) -> u32 {
        self.n_rows
    }
}

impl Evaluation {
    /// The classes that pass every filter, after [`Evaluation::filter`]; `None` where rows are to be ranked together.
    pub(crate) fn passing_classes(&mut self, plan: &Scoring<'_, '_>) -> Option<Passing> {
        if !self.is_ranked || self.shards.len() < MIN_SHARDS {
            return None;
        }
        self.score(plan);
        if self.classes.get_or_insert_default().prepare(plan) {
            self.unrank_all();
        }
        if self.classes.as_ref().is_some_and(|classes| classes.are_too_many()) {
            return None;
        }
        let maxima = self.raw_maxima(plan.normalized_scores().len());
        let classes = self.classes.get_or_insert_default();
        for index in self.unranked.iter() {
            let changed = std::mem::take(&mut self.shards[index].unranked);
            let shard = &plan.snapshot().shards[index];
            let (evaluation, plain) = (&self.shards[index], &self.plain[index]);
            classes.renew(plan, &Scored { shard, evaluation, plain }, &changed);
            if classes.are_too_many() {
                return None;
            }
        }
        self.unranked.clear();
        self.is_by_shard = false;
        let mut passing = Passing { classes: ClassSet::default(), n_rows: 0, maxima };
        for class in classes.iter() {
            if passes(plan, &class) {
                passing.classes.insert(class.id);
                passing.n_rows += class.n_rows;
            }
        }
        Some(passing)
    }

    /// The first row that passes every filter.
    pub(crate) fn first_passing(&self, passing: &Passing) -> Option<NodeRow> {
        self.classes.as_ref()?.first_row(passing.classes)
    }

    /// The best of the rows that pass every filter, at least one.
    pub(crate) fn rank_by_class(
        &mut self,
        plan: &Scoring<'_, '_>,
        passing: &Passing,
    ) -> &mut Ranking {
        let known = self.classes.get_or_insert_default();
        let maxima = if passing.maxima.iter().all(|max| *max == 0) {
            passing.maxima.clone()
        } else {
            known.raw_maxima(passing.classes, passing.maxima.len())
        };
        known.set_maxima(maxima);
        let mut added = [0; MAX_CLASSES];
        if !plan.cluster_scores().is_empty() {
            let mut classes = SmallVec::<[Class<'_>; 32]>::new();
            for class in known.iter().filter(|class| passing.classes.contains(class.id)) {
                classes.push(class);
            }
            for (score, weight) in plan.cluster_scores() {
                add_scores(plan, *score, *weight, &classes, &mut added);
            }
        }
        self.best.resize(self.shards.len());
        for index in known.take_unranked(passing.classes, &added).iter() {
            let shard = &plan.snapshot().shards[index];
            let (evaluation, plain) = (&self.shards[shard.index], &self.plain[shard.index]);
            known.settle(plan, &Scored { shard, evaluation, plain });
            let (total, rows) = known.best(shard.index, passing.classes, &added);
            self.best.set(shard, total, rows);
        }
        self.best.settle();
        #[cfg(debug_assertions)]
        if self.shards.len() <= MAX_SHARDS_CHECKED {
            self.assert_as_together(plan, passing);
        }
        &mut self.best
    }

    #[cfg(debug_assertions)]
    fn assert_as_together(&self, plan: &Scoring<'_, '_>, passing: &Passing) {
        let feasible = self.feasible(plan).ok().flatten();
        let n_rows = feasible.as_ref().map(Feasible::len);
        assert_eq!(n_rows, Some(passing.n_rows), "rows that pass, by class and by row");
        let Some(feasible) = feasible else { return };
        let mut together = Ranking::default();
        self.rank_into(&mut together, plan, &feasible);
        assert_eq!(
            (self.best.total(), self.best.rows()),
            (together.total(), together.rows()),
            "ranked by class and by row"
        );
    }
}

/// Whether the rows of a class pass the filters that run in every attempt.
fn passes(plan: &Scoring<'_, '_>, class: &Class<'_>) -> bool {
    plan.filters().iter().all(|filter| match filter.scope {
        Scope::Counts(passes) => passes(plan, class),
        Scope::Row | Scope::Request => true,
    })
}

/// Adds the weighted scores of the classes that have the feasible rows.
fn add_scores(
    plan: &Scoring<'_, '_>,
    score: ClusterScore,
    weight: i32,
    classes: &[Class<'_>],
    added: &mut [i32; MAX_CLASSES],
) {
    let Some(raw) = score.by_class.and_then(|by_class| by_class(plan, classes)) else { return };
    let normalized = || raw.iter().flatten().map(|raw| i64::from(*raw));
    let (lowest, highest) = (normalized().min().unwrap_or(0), normalized().max().unwrap_or(0));
    let extent = Extent { lowest, highest };
    for (class, raw) in classes.iter().zip(&raw) {
        if let Some(raw) = raw {
            let score = score.normalize.apply(i64::from(*raw), extent) as i32;
            added[class.id % MAX_CLASSES] += weight * score;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_proto::core_v1;
    use berth_testing::object;

    use super::*;
    use crate::cluster::Cluster;
    use crate::cluster::delta::Delta;
    use crate::kernel::Kernels;
    use crate::model::PodKey;
    use crate::place::decide;
    use crate::place::decision::{Decision, Outcome};
    use crate::plan::Plan;
    use crate::plan::request::{PlaceRequest, TieBreak};
    use crate::policy::Policy;

    /// A cluster, and what is remembered of one shape.
    struct World {
        cluster: Cluster,
        shape: &'static str,
        evaluation: Evaluation,
        n_placed: usize,
    }

    fn node(i: usize, zone: &str, taint: &str) -> core_v1::Node {
        let zone = if zone.is_empty() { String::new() } else { format!("label:zone={zone}") };
        object::node(&format!(
            "n{i} cpu=8 memory=8Gi pods=110 label:kubernetes.io/hostname=n{i} {zone} {taint}"
        ))
    }

    impl World {
        fn new(shape: &'static str, n_nodes: usize) -> World {
            let world = World {
                cluster: Cluster::new(),
                shape,
                evaluation: Evaluation::default(),
                n_placed: 0,
            };
            for i in 0..n_nodes {
                world.set_node(i, ["a", "b", "c", "a", ""][i % 5]);
            }
            world
        }

        fn set_node(&self, i: usize, zone: &str) {
            let taint = ["", "taint=k=v:PreferNoSchedule"][i % 4 / 3];
            let node = self.cluster.compile_node(&node(i, zone, taint)).unwrap();
            assert_eq!(self.cluster.apply(vec![Delta::UpsertNode(node)]).rejected, []);
        }

        fn decide_with(&self, evaluation: &mut Evaluation) -> Decision {
            let text = format!("p{} {}", self.n_placed, self.shape);
            let pod = self.cluster.compile_pod(&object::pod(&text)).unwrap();
            let (policy, snapshot) = (Policy::default(), self.cluster.snapshot());
            let tie_break = TieBreak::Seeded(3);
            let request = PlaceRequest { pod: &pod, policy: &policy, tie_break, now: None };
            let mut plan = Plan::new(&snapshot, &request, Kernels::detect());
            decide(&mut plan, evaluation, tie_break).unwrap().decision
        }

        /// Decides with and without what is remembered, and puts the pod where it goes; returns the node, and whether the
        /// choice was by class.
        fn place(&mut self) -> (Option<Arc<str>>, bool) {
            let mut evaluation = std::mem::take(&mut self.evaluation);
            let decision = self.decide_with(&mut evaluation);
            self.evaluation = evaluation;
            let anew = self.decide_with(&mut Evaluation::default());
            assert_eq!(decision.outcome, anew.outcome, "{}", self.shape);
            let by_class =
                self.evaluation.classes.as_ref().is_some_and(|of| of.iter().next().is_some());
            let Outcome::Placed(placement) = decision.outcome else { return (None, by_class) };
            let text = format!("p{} {} node={}", self.n_placed, self.shape, placement.node);
            self.n_placed += 1;
            let pod = self.cluster.compile_pod(&object::pod(&text)).unwrap();
            assert_eq!(self.cluster.apply(vec![Delta::UpsertPod(pod)]).rejected, []);
            (Some(placement.node), by_class)
        }

        fn delete_pod(&self, i: usize) {
            let key = PodKey::new("default", &format!("p{i}"));
            self.cluster.apply(vec![Delta::DeletePod { key, uid: None }]);
        }
    }

    /// Decisions in turn, while pods come and go and nodes change their zone, are those that are made from nothing, whatever
    /// reads the counts.
    #[test]
    fn in_turn_as_from_nothing() {
        let shapes = [
            "cpu=100m label:app=w spread=zone,1,ScheduleAnyway,app:w",
            "cpu=100m label:app=w spread=zone,2,ScheduleAnyway,app:w \
             spread=kubernetes.io/hostname,1,ScheduleAnyway,app:w",
            "cpu=100m label:app=w spread=zone,1,DoNotSchedule,app:w",
            "cpu=100m label:app=w spread=zone,1,DoNotSchedule,app:w \
             spread=kubernetes.io/hostname,2,ScheduleAnyway,app:w",
            "cpu=100m label:app=w near=zone,app:w",
            "cpu=100m label:app=w far=kubernetes.io/hostname,app:w",
            "cpu=100m label:app=w far=zone,app:other prefer-near=10,zone,app:w \
             prefer-far=20,kubernetes.io/hostname,app:w",
            "cpu=100m label:app=w prefer-near=7,zone,app:w",
        ];
        for shape in shapes {
            // More than one shard, so that some are as they were.
            let mut world = World::new(shape, 300);
            let mut placed = Vec::new();
            for step in 0..40 {
                let (node, by_class) = world.place();
                assert_eq!(by_class, step > 0, "{shape}, step {step}");
                placed.extend(node);
                match step % 5 {
                    2 if step > 30 => (0..40).for_each(|i| world.set_node(i * 3, "c")),
                    1 if world.n_placed > 2 => world.delete_pod(world.n_placed - 2),
                    3 => world.set_node(step * 7, ["b", "", "a"][step % 3]),
                    _ => {}
                }
            }
            placed.sort_unstable();
            placed.dedup();
            assert!(placed.len() > 3, "{shape}: {placed:?}");
        }
    }

    #[test]
    fn a_single_row_and_none() {
        let mut world = World::new("label:app=w far=zone,app:w", 5);
        let nodes: Vec<_> = (0..6).map(|_| world.place().0).collect();
        assert!(nodes.iter().all(Option::is_some), "the node without a zone takes all");
        assert!(nodes[4..].iter().all(|node| node.as_deref() == Some("n4")), "{nodes:?}");
        let mut world = World::new("label:app=w far=kubernetes.io/hostname,app:w", 3);
        let nodes: Vec<_> = (0..5).map(|_| world.place()).collect();
        let n_placed = nodes.iter().filter(|(node, _)| node.is_some()).count();
        assert_eq!(n_placed, 3, "one on each node");
        assert!(nodes[1..].iter().all(|(_, by_class)| *by_class));
    }

    /// With a domain for each of many nodes there are as many classes.
    #[test]
    fn too_many_classes_are_given_up() {
        let shape = "label:app=w spread=kubernetes.io/hostname,1,DoNotSchedule,app:w";
        for (n_nodes, is_by_class) in [(MAX_CLASSES, true), (MAX_CLASSES + 1, false)] {
            let mut world = World::new(shape, n_nodes);
            let choices: Vec<_> = (0..n_nodes + 3).map(|_| world.place()).collect();
            assert!(choices.iter().all(|(node, _)| node.is_some()));
            assert!(choices[1..].iter().all(|(_, by_class)| *by_class == is_by_class));
        }
    }
}
