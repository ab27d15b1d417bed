//! NodePorts: the pod's host ports, with the pods that hold them. Rule: S-PRT-3.

use super::at::{At, Judged, pods_on};
use super::comparison::Compared;
use crate::model::port::HostPort;
use crate::plan::counted::Filtering;

pub(super) fn compare(plan: &Filtering<'_, '_>, at: At<'_>) -> Vec<Judged> {
    let names = plan.names();
    let judge = |wanted: &HostPort| {
        let used = at.shard.usage.ports.iter();
        let mut taken =
            used.filter(|(used, rows)| used.conflicts_with(wanted) && rows.contains(at.row));
        let is_met = taken.next().is_none();
        let holders = if is_met {
            Vec::new()
        } else {
            let holds = |held: &HostPort| held.conflicts_with(wanted);
            pods_on(at, |pod| pod.shape().facts.host_ports.iter().any(holds))
        };
        let (protocol, ip) = (names.name(wanted.protocol), names.name(wanted.ip));
        (is_met, Compared::HostPort { port: wanted.port, protocol, ip, holders })
    };
    plan.shape().host_ports.iter().map(judge).collect()
}
