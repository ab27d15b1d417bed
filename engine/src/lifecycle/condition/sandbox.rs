//! `PodReadyToStartContainers`: whether a pod's sandbox is ready, with its network (L-COND-6).

use berth_proto::berth_v1::PodSandbox;

use crate::lifecycle::word::words;
use crate::model::ModelError;

words! {
    /// State of a sandbox in the container runtime.
    enum SandboxState {
        /// The sandbox is ready.
        Ready = "Ready",
        /// The sandbox is not ready.
        NotReady = "NotReady",
    }

    /// Network of a sandbox.
    enum NetworkMode {
        /// The sandbox has a network of its own.
        Pod = "Pod",
        /// The sandbox uses the node's network.
        Node = "Node",
    }
}

/// One sandbox of a pod.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SandboxView<'a> {
    /// State of the sandbox.
    pub state: SandboxState,
    /// Address of the sandbox; empty while it has none.
    pub ip: &'a str,
    /// Network of the sandbox.
    pub network_mode: NetworkMode,
}

impl<'a> SandboxView<'a> {
    /// Reads a sandbox from the wire. An absent network mode is the default of the runtime interface, `Pod`.
    ///
    /// # Errors
    /// [`ModelError`] at `state` or `networkMode` for an unknown word.
    pub fn read(sandbox: &'a PodSandbox) -> Result<SandboxView<'a>, ModelError> {
        Ok(SandboxView {
            state: SandboxState::parse(&sandbox.state, "state")?,
            ip: &sandbox.ip,
            network_mode: NetworkMode::parse_or(
                &sandbox.network_mode,
                NetworkMode::Pod,
                "networkMode",
            )?,
        })
    }
}

/// Whether containers can be started in the newest sandbox, the first of the list: it is the only ready one, its
/// network fits the pod, and it has an address unless it uses the node's network (L-COND-6).
pub(super) fn is_ready_to_start(host_network: bool, sandboxes: &[SandboxView<'_>]) -> bool {
    let Some((newest, older)) = sandboxes.split_first() else { return false };
    let is_ready = |sandbox: &SandboxView<'_>| sandbox.state == SandboxState::Ready;
    let (network_mode, needs_address) = match host_network {
        true => (NetworkMode::Node, false),
        false => (NetworkMode::Pod, true),
    };
    is_ready(newest)
        && !older.iter().any(is_ready)
        && newest.network_mode == network_mode
        && !(needs_address && newest.ip.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L-COND-6: each requirement in turn.
    #[test]
    fn one_ready_sandbox_that_fits() {
        let up = SandboxView {
            state: SandboxState::Ready,
            ip: "10.1.0.7",
            network_mode: NetworkMode::Pod,
        };
        let down = SandboxView { state: SandboxState::NotReady, ..up };
        let on_node = SandboxView { network_mode: NetworkMode::Node, ..up };
        let without_address = SandboxView { ip: "", ..up };
        let check = |sandboxes: &[SandboxView<'_>]| is_ready_to_start(false, sandboxes);
        assert!(check(&[up]));
        assert!(check(&[up, down]));
        assert!(!check(&[]));
        assert!(!check(&[down]));
        assert!(!check(&[down, up]));
        assert!(!check(&[up, up]));
        assert!(!check(&[on_node]));
        assert!(!check(&[without_address]));
        assert!(!is_ready_to_start(true, &[up]));
        assert!(is_ready_to_start(true, &[SandboxView { ip: "", ..on_node }]));
    }

    #[test]
    fn words_are_checked() {
        let read = |state: &str, network_mode: &str| {
            let sandbox = PodSandbox {
                state: state.to_owned(),
                ip: String::new(),
                network_mode: network_mode.to_owned(),
            };
            SandboxView::read(&sandbox).map(|view| view.network_mode).map_err(|e| e.to_string())
        };
        assert_eq!(read("Ready", ""), Ok(NetworkMode::Pod));
        assert_eq!(
            read("ready", "").unwrap_err(),
            "`state`: unknown value `ready`: not one of `Ready`, `NotReady`"
        );
        assert_eq!(
            read("Ready", "Host").unwrap_err(),
            "`networkMode`: unknown value `Host`: not one of `Pod`, `Node`"
        );
    }
}
