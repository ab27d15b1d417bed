//! Why a request for removal is refused, or what entitles to it.

use crate::lifecycle::word::words;

words! {
    /// Why a request is refused, or what entitles to it.
    enum RemovalReason {
        /// A forcing request without the pod's UID, or any with another one.
        UidMismatch = "UIDMismatch",
        /// The agent of another node.
        NotOwnNode = "NotOwnNode",
        /// Nobody has asked for the pod's deletion.
        NotBeingDeleted = "NotBeingDeleted",
        /// Its processes may still run.
        ProcessesNotConfirmedDead = "ProcessesNotConfirmedDead",
        /// How it ended has not been published yet.
        PhaseNotTerminal = "PhaseNotTerminal",
        /// The person has not said that the loss of data is acceptable.
        AcknowledgementRequired = "AcknowledgementRequired",
        /// A controller asked for more than a graceful deletion.
        ControllerMayOnlySignal = "ControllerMayOnlySignal",
        /// The collector of pods removes or leaves alone; it has nothing to signal.
        CollectorMayOnlyForce = "CollectorMayOnlyForce",
        /// The node object has not been missed for long enough.
        QuarantineNotElapsed = "QuarantineNotElapsed",
        /// The node is there, or nobody may say otherwise.
        NodeExists = "NodeExists",
        /// The pod is asked to end.
        GracefulDelete = "GracefulDelete",
        /// The agent has seen the processes end.
        ProcessesConfirmedDead = "ProcessesConfirmedDead",
        /// A person takes the risk.
        AcknowledgedForceDelete = "AcknowledgedForceDelete",
        /// There never was a process.
        NeverBound = "NeverBound",
        /// There is no process any longer.
        TerminalPhase = "TerminalPhase",
        /// The cluster has declared the node gone for good.
        NodeObjectDeleted = "NodeObjectDeleted",
        /// An administrator has declared the node's processes dead.
        NodeOutOfService = "NodeOutOfService",
    }
}
