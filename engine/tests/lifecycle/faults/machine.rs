//! The real state: machines, their processes and mounts, and the effects of fences. Only the invariants see all of it.

use std::collections::{BTreeMap, BTreeSet};

use berth_engine::lifecycle::fence::FenceScope;
use berth_proto::core_v1::{Node, NodeCondition, NodeSpec, NodeStatus};
use berth_proto::meta_v1::ObjectMeta;

use super::store::Store;

#[derive(Default)]
pub(super) struct Machine {
    pub(super) name: String,
    pub(super) is_on: bool,
    /// Whether the machine is lost for good.
    pub(super) is_destroyed: bool,
    /// Whether the control plane and the node cannot reach each other.
    pub(super) is_cut: bool,
    pub(super) is_network_fenced: bool,
    pub(super) is_storage_fenced: bool,
    pub(super) rebooted_since_fence: bool,
    /// `None` while the agent is down.
    pub(super) agent: Option<Agent>,
    /// Processes by the uid of their pod.
    pub(super) processes: BTreeMap<String, Process>,
}

/// The memory of a node agent.
#[derive(Default)]
pub(super) struct Agent {
    pub(super) view: Option<Store>,
    /// Whether the agent has seen since its start that its node is in service. Only then does it start pods.
    pub(super) is_admitted: bool,
    /// A pod that the agent ends on its own initiative.
    pub(super) evicting: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    pub(super) pod_name: String,
    pub(super) is_running: bool,
    pub(super) is_signalled: bool,
    pub(super) exit_code: i32,
    pub(super) restarts: i32,
    pub(super) mounts: BTreeSet<String>,
}

impl Machine {
    pub(super) fn new(name: &str) -> Machine {
        let agent = Some(Agent::default());
        Machine { name: name.to_owned(), is_on: true, agent, ..Machine::default() }
    }

    pub(super) fn node(&self) -> Node {
        let ready = NodeCondition {
            r#type: "Ready".to_owned(),
            status: "True".to_owned(),
            ..NodeCondition::default()
        };
        Node {
            metadata: Some(ObjectMeta { name: self.name.clone(), ..ObjectMeta::default() }),
            spec: Some(NodeSpec::default()),
            status: Some(NodeStatus { conditions: vec![ready], ..NodeStatus::default() }),
        }
    }

    /// Whether its agent can talk to the control plane.
    pub(super) fn is_in_contact(&self) -> bool {
        self.is_on && !self.is_cut && !self.is_network_fenced
    }

    /// Whether processes of the machine can still affect others.
    pub(super) fn is_live(&self) -> bool {
        self.is_on && !(self.is_network_fenced && self.is_storage_fenced)
    }

    /// Whether volumes mounted on the machine can still be written to.
    pub(super) fn reaches_storage(&self) -> bool {
        self.is_on && !self.is_storage_fenced
    }

    pub(super) fn power_off(&mut self) {
        self.is_on = false;
        self.agent = None;
        self.processes.clear();
    }

    pub(super) fn boot(&mut self) {
        if !self.is_on && !self.is_destroyed {
            self.is_on = true;
            self.rebooted_since_fence = true;
            self.agent = Some(Agent::default());
        }
    }

    fn fence(&mut self, scope: FenceScope) {
        self.rebooted_since_fence = false;
        match scope {
            FenceScope::Compute => self.power_off(),
            FenceScope::Storage => self.is_storage_fenced = true,
            FenceScope::Network => self.is_network_fenced = true,
            FenceScope::NetworkAndStorage => {
                self.is_network_fenced = true;
                self.is_storage_fenced = true;
            }
        }
    }
}

/// The mechanism that carries out a fence some time after the request, or reports that it failed.
#[derive(Default)]
pub(super) struct Mechanism {
    /// By node and the version of the fence that made the request.
    pub(super) attempts: BTreeMap<(String, u64), Attempt>,
}

#[derive(Copy, Clone, Debug)]
pub(super) struct Attempt {
    pub(super) scope: FenceScope,
    pub(super) progress: Progress,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Accepted,
    Done,
    Failed,
}

impl Mechanism {
    /// Completes one of the accepted requests. A fence that is reported as failed may have worked; one that is reported
    /// as done has.
    pub(super) fn step(&mut self, machines: &mut [Machine], pick: usize) {
        let open = self.attempts.iter_mut();
        let mut open: Vec<_> =
            open.filter(|(_, attempt)| attempt.progress == Progress::Accepted).collect();
        if open.is_empty() {
            return;
        }
        let at = pick % open.len();
        let ((name, _), attempt) = &mut open[at];
        let machine = machines.iter_mut().find(|machine| machine.name == *name).unwrap();
        let (works, is_reported) = match pick % 7 {
            0 => (false, false),
            1 => (true, false),
            _ => (true, true),
        };
        if works {
            machine.fence(attempt.scope);
        }
        attempt.progress = if is_reported { Progress::Done } else { Progress::Failed };
    }
}
