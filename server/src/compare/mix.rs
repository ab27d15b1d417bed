//! Mix: what the pods that came asked for, and how much of what is idle that leaves unusable.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use berth_engine::{Cluster, NodeView};
use berth_proto::core_v1;
use rustc_hash::FxHashMap;

use super::arrivals::{Arrival, Arrivals, Event};
use crate::replay::{ReplayError, check_wanted};

/// Number of different requests that are looked at: the most frequent ones.
const MAX_REQUESTS: usize = 256;

/// The recorded arrivals as a whole.
#[derive(Debug, Default)]
pub(super) struct Mix {
    /// The first and the last moment, in microseconds since 1970.
    pub(super) from: u64,
    pub(super) until: u64,
    requests: Vec<Request>,
}

/// Amounts by resource.
type Amounts = Vec<(Arc<str>, i64)>;

/// What so many pods asked for, zeros left out.
#[derive(Debug)]
struct Request {
    amounts: Amounts,
    n_pods: u64,
}

impl Mix {
    /// That of a journal.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub(super) fn of(
        directory: &Path,
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Mix, ReplayError> {
        let (mut arrivals, cluster) = (Arrivals::of(directory)?, Cluster::new());
        let (mut from, mut until) = (None, 0);
        let mut n_pods: FxHashMap<u32, usize> = FxHashMap::default();
        let mut of_forms: Vec<(Amounts, u64)> = Vec::new();
        while let Some(moment) = arrivals.next()? {
            check_wanted(cancelled)?;
            (from, until) = (from.or(Some(moment.at)), moment.at);
            for event in moment.events {
                if let Event::Came(arrival) = event {
                    let is_there = moment.is_beginning && arrival.node.is_some();
                    let of_form = n_pods.entry(arrival.form.number).or_insert_with(|| {
                        of_forms.push((amounts(&cluster, &arrival), 0));
                        of_forms.len() - 1
                    });
                    of_forms[*of_form].1 += u64::from(!is_there);
                }
            }
        }
        let mut requests: BTreeMap<Amounts, u64> = BTreeMap::new();
        for (amounts, n) in of_forms {
            *requests.entry(amounts).or_default() += n;
        }
        Ok(Mix { from: from.unwrap_or_default(), until, requests: most_frequent(requests) })
    }

    /// The share of each resource's idle amount on nodes where a pod of the mix that asks for it does not fit, on average
    /// over these pods.
    pub(super) fn unusable(&self, nodes: &[NodeView]) -> BTreeMap<Arc<str>, f64> {
        let mut sums: BTreeMap<Arc<str>, (i128, i128)> = BTreeMap::new();
        for node in nodes {
            let idle = idle(node);
            let has_room = i64::from(node.n_pods) < node.allowed_pods;
            for Request { amounts, n_pods } in &self.requests {
                let fits = has_room && amounts.iter().all(|(name, n)| *n <= amount(&idle, name));
                for (name, _) in amounts {
                    let weighed = i128::from(amount(&idle, name)) * i128::from(*n_pods);
                    let (unusable, all) = sums.entry(name.clone()).or_default();
                    *all += weighed;
                    *unusable += if fits { 0 } else { weighed };
                }
            }
        }
        sums.into_iter().map(|(name, (unusable, all))| (name, share(unusable, all))).collect()
    }
}

/// The most frequent requests, in a fixed order.
fn most_frequent(requests: BTreeMap<Amounts, u64>) -> Vec<Request> {
    let mut requests: Vec<Request> =
        requests.into_iter().map(|(amounts, n_pods)| Request { amounts, n_pods }).collect();
    requests.retain(|it| it.n_pods > 0);
    // Stable, so that equally frequent ones stay in order.
    requests.sort_by_key(|it| std::cmp::Reverse(it.n_pods));
    requests.truncate(MAX_REQUESTS);
    requests
}

fn amounts(cluster: &Cluster, arrival: &Arrival) -> Amounts {
    let mut pod = core_v1::Pod::clone(&arrival.form.pod);
    let metadata = pod.metadata.get_or_insert_default();
    metadata.name = arrival.key.name.to_string();
    // One that cannot be compiled is placed nowhere.
    let mut amounts = cluster.compile_pod(&pod).map(|pod| pod.requests()).unwrap_or_default();
    amounts.retain(|(_, n)| *n > 0);
    amounts
}

/// What is left on a node.
fn idle(node: &NodeView) -> Amounts {
    let left = |(name, allocatable): &(Arc<str>, i64)| {
        (name.clone(), allocatable.saturating_sub(amount(&node.requested, name)).max(0))
    };
    node.allocatable.iter().map(left).collect()
}

fn amount(amounts: &[(Arc<str>, i64)], name: &Arc<str>) -> i64 {
    amounts.iter().find(|(of, _)| of == name).map_or(0, |(_, amount)| *amount)
}

/// The share that a part is of a whole; of nothing it is none.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(super) fn share(part: i128, whole: i128) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(cpu: (i64, i64), gpu: (i64, i64), n_pods: u32) -> NodeView {
        let list = |cpu, gpu| vec![("cpu".into(), cpu), ("gpu".into(), gpu)];
        NodeView {
            name: "n".into(),
            unschedulable: false,
            labels: Vec::new(),
            taints: Vec::new(),
            allocatable: list(cpu.0, gpu.0),
            requested: list(cpu.1, gpu.1),
            n_pods,
            allowed_pods: 3,
        }
    }

    fn mix(requests: &[(i64, i64, u64)]) -> Mix {
        let request = |(cpu, gpu, n_pods): &(i64, i64, u64)| {
            let mut amounts: Vec<(Arc<str>, i64)> =
                vec![("cpu".into(), *cpu), ("gpu".into(), *gpu)];
            amounts.retain(|(_, n)| *n > 0);
            Request { amounts, n_pods: *n_pods }
        };
        Mix { requests: requests.iter().map(request).collect(), ..Mix::default() }
    }

    #[test]
    fn what_is_idle_beside_a_pod_that_does_not_fit_is_unusable() {
        // Three of four pods need a core and no device; the fourth needs two cores and a device.
        let mix = mix(&[(1_000, 0, 3), (2_000, 1, 1)]);
        let one_core_left = node((4_000, 3_000), (4, 1), 1);
        let found = mix.unusable(std::slice::from_ref(&one_core_left));
        assert_eq!(found[&Arc::<str>::from("cpu")], 0.25);
        assert_eq!(found[&Arc::<str>::from("gpu")], 1.0, "all that need one need two cores, too");
        let roomy = node((8_000, 0), (4, 0), 1);
        let found = mix.unusable(&[one_core_left, roomy.clone()]);
        assert_eq!(found[&Arc::<str>::from("gpu")], 3.0 / 7.0);
        let full = NodeView { n_pods: 3, ..roomy };
        assert_eq!(mix.unusable(&[full])[&Arc::<str>::from("cpu")], 1.0, "no pod has room");
    }

    #[test]
    fn the_most_frequent_requests_are_looked_at() {
        let request =
            |n: i64| (vec![(Arc::<str>::from("cpu"), n)], u64::try_from(n % 300).unwrap());
        let found = most_frequent((0..600).map(request).collect());
        assert_eq!(found.len(), MAX_REQUESTS);
        assert_eq!((found[0].n_pods, found[0].amounts[0].1), (299, 299));
        assert!(found.iter().all(|it| it.n_pods > 0));
    }
}
