//! Ports: state of NodePorts on one node. Rules: S-PRT-3 to S-PRT-5.

use smallvec::SmallVec;

use crate::filter::Refusal;
use crate::filter::reason::Reason;
use crate::model::Pod;
use crate::model::port::HostPort;
use crate::prepared::Prepared;
use crate::snapshot::shard::Shard;

/// The used ports that conflict with wanted ones: a set, not a count (S-PRT-5).
pub(super) struct Ports(SmallVec<[HostPort; 4]>);

pub(super) fn applies(prepared: &Prepared<'_>) -> bool {
    !prepared.shape().host_ports.is_empty()
}

impl Ports {
    pub(super) fn on(prepared: &Prepared<'_>, shard: &Shard, row: usize) -> Ports {
        let used = shard.usage.ports.iter().filter(|(_, rows)| rows.contains(row));
        Ports(used.map(|(port, _)| *port).filter(|port| conflicts(prepared, port)).collect())
    }

    pub(super) fn change(&mut self, prepared: &Prepared<'_>, pod: &Pod, by: i64) {
        for port in pod.shape().facts.host_ports.iter().filter(|port| conflicts(prepared, port)) {
            self.0.retain(|known| known != port);
            if by > 0 {
                self.0.push(*port);
            }
        }
    }

    pub(super) fn are_free(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn refusal(&self) -> Option<Refusal> {
        (!self.are_free()).then(|| Refusal::of(Reason::NodePorts))
    }
}

fn conflicts(prepared: &Prepared<'_>, used: &HostPort) -> bool {
    prepared.shape().host_ports.iter().any(|wanted| used.conflicts_with(wanted))
}
