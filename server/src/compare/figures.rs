//! Figures: what is measured of a trial, over its time.
//!
//! All amounts are in the units of the engine: `cpu` in milli-units, everything else in whole ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_engine::{NodeView, Snapshot};

use super::mix::{Mix, share};
use crate::node_labels::{INSTANCE_TYPE, ZONE};

/// Number of times at which a trial is looked at.
const N_SAMPLES: u64 = 120;

/// Prices of nodes per hour, by the value of their label `node.kubernetes.io/instance-type`.
pub(crate) type Prices = BTreeMap<String, f64>;

/// What the figures of a trial are computed with.
#[derive(Clone, Debug, Default)]
pub(super) struct Terms {
    pub(super) mix: Arc<Mix>,
    pub(super) prices: Option<Arc<Prices>>,
}

/// What a trial tells of itself, besides its cluster.
#[derive(Copy, Clone)]
pub(super) struct Standing<'a> {
    pub(super) n_waiting: usize,
    /// Number of pods on each node that has any, without those of DaemonSets.
    pub(super) busy: &'a BTreeMap<Arc<str>, u32>,
}

/// The figures of a trial.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    terms: Terms,
    /// Number of pods that came.
    pub(crate) n_came: u64,
    /// Number of times that a pod got a node.
    pub(crate) n_placed: u64,
    /// Number of pods that wait at the end.
    pub(crate) n_left: u64,
    /// Evicted pods by priority.
    pub(crate) evictions: BTreeMap<i32, u64>,
    /// For how long pods have waited, in microseconds: those that got a node and those that wait still.
    waits: Vec<u64>,
    /// How long decisions took.
    decisions: Vec<Duration>,
    /// What the cluster was like when a pod waited for the first time.
    pub(crate) first_refused: Option<Sample>,
    pub(crate) samples: Vec<Sample>,
    /// Number of nodes that could be emptied at the end, and what that would save an hour.
    pub(crate) n_emptiable: Option<usize>,
    next: u64,
    until: u64,
}

/// What a cluster is like at one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// In microseconds since 1970.
    pub(crate) at: u64,
    pub(crate) n_waiting: usize,
    /// Number of nodes with pods other than those of DaemonSets.
    pub(crate) n_busy: usize,
    /// Price an hour of these, if their prices are known.
    pub(crate) price: Option<f64>,
    pub(crate) resources: BTreeMap<Arc<str>, Usage>,
}

/// How a resource is used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) allocatable: i128,
    pub(crate) requested: i128,
    /// Standard deviation over the nodes of the share that is requested.
    pub(crate) imbalance: f64,
    /// Largest difference between two zones' shares that are requested.
    pub(crate) zone_skew: f64,
    /// Share of what is idle that a pod of the recorded mix cannot use, on average.
    pub(crate) fragmentation: f64,
}

impl Usage {
    /// The share that is requested.
    pub(crate) fn share(&self) -> f64 {
        share(self.requested, self.allocatable)
    }
}

impl Figures {
    pub(super) fn of(terms: Terms) -> Figures {
        let next = terms.mix.from;
        Figures { terms, next, ..Figures::default() }
    }

    pub(super) fn until(&self) -> u64 {
        self.until
    }

    pub(super) fn count_placed(&mut self, waited: u64) {
        self.n_placed += 1;
        self.waits.push(waited);
    }

    pub(super) fn count_left(&mut self, waited: u64) {
        self.n_left += 1;
        self.waits.push(waited);
    }

    pub(super) fn count_eviction(&mut self, priority: i32) {
        *self.evictions.entry(priority).or_default() += 1;
    }

    pub(super) fn count_decision(&mut self, took: Duration) {
        self.decisions.push(took);
    }

    /// Looks at the cluster before the moment that comes now, if it is time: it is as it has been since the last one.
    pub(super) fn look_before(
        &mut self,
        at: u64,
        snapshot: impl FnOnce() -> Arc<Snapshot>,
        it: Standing<'_>,
    ) {
        if at >= self.next && self.until > 0 {
            let step = self.terms.mix.until.saturating_sub(self.terms.mix.from) / N_SAMPLES;
            self.next = at + step.max(1);
            let sample = self.look(&snapshot(), it);
            self.samples.push(sample);
        }
    }

    /// Notes that a moment is over.
    pub(super) fn note(
        &mut self,
        at: u64,
        snapshot: impl FnOnce() -> Arc<Snapshot>,
        it: Standing<'_>,
    ) {
        self.until = self.until.max(at);
        if self.first_refused.is_none() && it.n_waiting > 0 {
            self.first_refused = Some(self.look(&snapshot(), it));
        }
    }

    /// Looks at the cluster at the end.
    pub(super) fn end(&mut self, snapshot: &Snapshot, it: Standing<'_>) {
        if self.samples.last().is_some_and(|last| last.at == self.until) {
            self.samples.pop();
        }
        let sample = self.look(snapshot, it);
        self.samples.push(sample);
        self.waits.sort_unstable();
        self.decisions.sort_unstable();
    }

    fn look(&self, snapshot: &Snapshot, it: Standing<'_>) -> Sample {
        let nodes = snapshot.nodes();
        let mut resources = usage(&nodes);
        for (name, idle) in self.terms.mix.unusable(&nodes) {
            if let Some(usage) = resources.get_mut(&name) {
                usage.fragmentation = idle;
            }
        }
        let is_busy = |node: &&NodeView| it.busy.contains_key(&node.name);
        let busy: Vec<&NodeView> = nodes.iter().filter(is_busy).collect();
        let price = |prices: &Arc<Prices>| {
            busy.iter().filter_map(|node| prices.get(label(node, INSTANCE_TYPE)?)).sum()
        };
        Sample {
            at: self.until,
            n_waiting: it.n_waiting,
            n_busy: busy.len(),
            price: self.terms.prices.as_ref().map(price),
            resources,
        }
    }

    /// The wait that so many of a hundred pods do not exceed.
    pub(crate) fn wait(&self, percent: usize) -> Duration {
        Duration::from_micros(percentile(&self.waits, percent).unwrap_or_default())
    }

    /// All waits together.
    pub(crate) fn waited(&self) -> Duration {
        Duration::from_micros(self.waits.iter().sum())
    }

    /// The time that so many of a hundred decisions do not exceed.
    pub(crate) fn decision(&self, percent: usize) -> Duration {
        percentile(&self.decisions, percent).unwrap_or_default()
    }

    /// Number of decisions.
    pub(crate) fn n_decisions(&self) -> usize {
        self.decisions.len()
    }

    /// The average over time of a figure of the samples, each of which holds until the next one.
    pub(crate) fn average(&self, figure: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        let (mut sum, mut time) = (0.0, 0.0);
        for pair in self.samples.windows(2) {
            let lasted = as_f64(pair[1].at.saturating_sub(pair[0].at));
            if let Some(figure) = figure(&pair[0]) {
                (sum, time) = (sum + figure * lasted, time + lasted);
            }
        }
        match time > 0.0 {
            true => Some(sum / time),
            false => figure(self.samples.last()?),
        }
    }

    /// Cost of the busy nodes, if their prices are known.
    pub(crate) fn cost(&self) -> Option<f64> {
        let (first, last) = (self.samples.first()?.at, self.samples.last()?.at);
        let hours = as_f64(last.saturating_sub(first)) / 3.6e9;
        Some(self.average(|sample| sample.price)? * hours)
    }
}

fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// How each resource that nodes have is used.
fn usage(nodes: &[NodeView]) -> BTreeMap<Arc<str>, Usage> {
    let mut resources: BTreeMap<Arc<str>, (Usage, Vec<f64>)> = BTreeMap::new();
    let mut zones: BTreeMap<(Arc<str>, &str), (i128, i128)> = BTreeMap::new();
    for node in nodes {
        let zone = label(node, ZONE);
        for (name, allocatable) in &node.allocatable {
            let (allocatable, requested) = (i128::from(*allocatable), requested(node, name));
            let (usage, shares) = resources.entry(name.clone()).or_default();
            usage.allocatable += allocatable;
            usage.requested += requested;
            shares.push(share(requested, allocatable));
            if let Some(zone) = zone {
                let sums = zones.entry((name.clone(), zone)).or_default();
                *sums = (sums.0 + requested, sums.1 + allocatable);
            }
        }
    }
    let with_spread = |(name, (mut usage, shares)): (Arc<str>, (Usage, Vec<f64>))| {
        usage.imbalance = deviation(&shares);
        let of_zones = zones.iter().filter(|((of, _), _)| *of == name);
        let shares = of_zones.map(|(_, (requested, allocatable))| share(*requested, *allocatable));
        let (least, most) = shares
            .fold((f64::MAX, 0.0_f64), |(least, most), share| (least.min(share), most.max(share)));
        usage.zone_skew = (most - least).max(0.0);
        (name, usage)
    };
    resources.into_iter().map(with_spread).collect()
}

fn requested(node: &NodeView, name: &Arc<str>) -> i128 {
    node.requested.iter().find(|(of, _)| of == name).map_or(0, |(_, amount)| i128::from(*amount))
}

fn label<'n>(node: &'n NodeView, key: &str) -> Option<&'n str> {
    node.labels.iter().find(|(of, _)| **of == *key).map(|(_, value)| &**value)
}

/// Standard deviation.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn deviation(values: &[f64]) -> f64 {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt()
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn as_f64(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, zone: &str, cpu: i64, used: i64) -> NodeView {
        NodeView {
            name: name.into(),
            unschedulable: false,
            labels: vec![(ZONE.into(), zone.into())],
            taints: Vec::new(),
            allocatable: vec![("cpu".into(), cpu)],
            requested: vec![("cpu".into(), used)],
            n_pods: 1,
            allowed_pods: 10,
        }
    }

    #[test]
    fn a_resource_is_summed_over_nodes_and_compared_between_zones() {
        let nodes = [node("a", "x", 100, 100), node("b", "x", 100, 50), node("c", "y", 200, 50)];
        let usage = &usage(&nodes)[&Arc::<str>::from("cpu")];
        assert_eq!((usage.allocatable, usage.requested, usage.share()), (400, 200, 0.5));
        assert!((usage.zone_skew - 0.5).abs() < 1e-9, "three quarters of x and a quarter of y");
        let expected = 0.311_804_782;
        assert!((usage.imbalance - expected).abs() < 1e-6, "{}", usage.imbalance);
    }

    #[test]
    fn an_average_weighs_each_sample_by_the_time_until_the_next() {
        let sample = |at, n_waiting| Sample { at, n_waiting, ..Sample::default() };
        let samples = vec![sample(0, 1), sample(10, 3), sample(40, 100)];
        let figures = Figures { samples, ..Figures::default() };
        let average = figures.average(|sample| Some(if sample.n_waiting == 1 { 1.0 } else { 3.0 }));
        let average = average.unwrap();
        assert!((average - (1.0 * 10.0 + 3.0 * 30.0) / 40.0).abs() < 1e-9);
    }

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let values: Vec<u32> = (1..=10).collect();
        let found = [0, 50, 99, 100].map(|percent| percentile(&values, percent));
        assert_eq!(found, [Some(1), Some(5), Some(10), Some(10)]);
        assert_eq!(percentile::<u32>(&[], 50), None);
    }
}
