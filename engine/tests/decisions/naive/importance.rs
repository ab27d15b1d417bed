//! The order in which pods of one node are spared from eviction. Rules: S-PRE-10, S-PRE-11.

use std::sync::Arc;

use berth_engine::upstream_sort;
use berth_proto::core_v1::Pod;

use super::cluster::NaivePod;
use super::pod;

/// Sorts pods by falling importance with the sort of kube-scheduler: up to a dozen equal pods keep their order, but of
/// two pods without a start time the latter comes first.
pub(crate) fn sort(pods: &mut [Arc<NaivePod>]) {
    let mut positions: Vec<u32> = (0..).take(pods.len()).collect();
    let pod = |position: u32| &pods[position as usize];
    upstream_sort(&mut positions, |a, b| is_more_important(&pod(a).pod, &pod(b).pod));
    let sorted: Vec<_> = positions.into_iter().map(|position| pod(position).clone()).collect();
    pods.clone_from_slice(&sorted);
}

fn is_more_important(a: &Pod, b: &Pod) -> bool {
    if pod::priority(a) != pod::priority(b) {
        return pod::priority(a) > pod::priority(b);
    }
    match (pod::start_time(a), pod::start_time(b)) {
        (Some(a), Some(b)) => a < b,
        // A missing start time is the time of the comparison, and the first argument's is taken first.
        (Some(_), None) | (None, None) => true,
        (None, Some(_)) => false,
    }
}
