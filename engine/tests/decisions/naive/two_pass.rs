//! The two-pass filter: a pod fits beside those that are promised the node, and without them. Rules:
//! S-NOM-1 to S-NOM-3.

use std::sync::Arc;

use berth_engine::Plugin;
use berth_proto::core_v1::Pod;

use super::cluster::{NaiveNode, NaivePod};
use super::filter::{Failure, Rejection, first_failure};
use super::pod;
use super::pre_filter::Prepared;

/// Returns why the node is not feasible, `None` if it is feasible.
pub(crate) fn rejection(
    prepared: &Prepared<'_>,
    node: &NaiveNode,
) -> Result<Option<(Plugin, Rejection)>, Failure> {
    let counts = |other: &&Pod| {
        pod::priority(other) >= pod::priority(prepared.pod)
            && pod::uid(other) != pod::uid(prepared.pod)
    };
    let promised: Vec<&Pod> =
        prepared.cluster.nominations.of_node(node.name()).filter(counts).collect();
    if !promised.is_empty() {
        let (mut with_them, mut full) = (prepared.clone(), node.clone());
        for other in promised {
            full.add(Arc::new(NaivePod::new(other)));
            with_them.add_pod(other, node);
        }
        if let Some(rejection) = first_failure(&with_them, &full)? {
            return Ok(Some(rejection));
        }
    }
    first_failure(prepared, node)
}
