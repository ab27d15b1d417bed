//! Which of two pods of one node is to be kept rather. Rules: S-PRE-10, S-PRE-11.

use std::sync::Arc;

use berth_proto::core_v1::Pod;

use super::cluster::NaivePod;
use super::{pod, sort};

/// Sorts by falling importance, as kube-scheduler's sort does it: up to a dozen equal pods keep their order, but of two pods
/// without a start time the latter comes first.
pub(crate) fn sort(pods: &mut [Arc<NaivePod>]) {
    sort::sort(pods, |a, b| is_more_important(&a.pod, &b.pod));
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
