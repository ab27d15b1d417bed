//! Host ports that a pod claims. Rules: S-PRT-1, S-PRT-2.

use berth_proto::core_v1;
use smallvec::SmallVec;

use super::ModelError;
use super::intern::{Interner, Symbol};

/// A host port that a pod claims on its node.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct HostPort {
    pub(crate) protocol: Symbol,
    pub(crate) port: i32,
    pub(crate) ip: Symbol,
}

impl HostPort {
    /// Whether two claims exclude each other on one node (S-PRT-3). `::` is an ordinary address.
    pub(crate) fn conflicts_with(&self, other: &HostPort) -> bool {
        let overlaps =
            self.ip == other.ip || self.ip == Symbol::ANY_IP || other.ip == Symbol::ANY_IP;
        overlaps && self.port == other.port && self.protocol == other.protocol
    }
}

/// A pod's host ports, sorted, without duplicates.
pub(crate) type HostPorts = SmallVec<[HostPort; 1]>;

/// Compiles the ports of regular containers and of sidecars (S-PRT-1), with defaults filled in (S-PRT-2). An invalid
/// port number is an error at its field.
pub(crate) fn compile(spec: &core_v1::PodSpec, names: &Interner) -> Result<HostPorts, ModelError> {
    for (list, field) in
        [(&spec.containers, "containers"), (&spec.init_containers, "initContainers")]
    {
        for (i, container) in list.iter().enumerate() {
            for (j, port) in container.ports.iter().enumerate() {
                if !(0..=65535).contains(&port.host_port) {
                    let field = format!("spec.{field}[{i}].ports[{j}].hostPort");
                    let reason = format!("{} is not in the range 0 to 65535", port.host_port);
                    return Err(ModelError::new(field, reason));
                }
            }
        }
    }
    let sidecars =
        spec.init_containers.iter().filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let mut ports: HostPorts = spec
        .containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| &container.ports)
        .filter(|port| port.host_port > 0)
        .map(|port| HostPort {
            protocol: names.intern(if port.protocol.is_empty() { "TCP" } else { &port.protocol }),
            port: port.host_port,
            ip: if port.host_ip.is_empty() { Symbol::ANY_IP } else { names.intern(&port.host_ip) },
        })
        .collect();
    ports.sort_unstable();
    ports.dedup();
    Ok(ports)
}
