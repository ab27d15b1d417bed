//! Reasons why a request for removal is refused, or entitlements to it.

use crate::lifecycle::word::words;

words! {
    /// Why a request is refused, or what entitles to it.
    enum RemovalReason {
        /// The pod's UID is missing from a forcing request, or the request has another one.
        UidMismatch = "UIDMismatch",
        /// The actor is the agent of another node.
        NotOwnNode = "NotOwnNode",
        /// The pod's deletion has not been requested.
        NotBeingDeleted = "NotBeingDeleted",
        /// The pod's processes may still run.
        ProcessesNotConfirmedDead = "ProcessesNotConfirmedDead",
        /// The pod's terminal phase has not been published yet.
        PhaseNotTerminal = "PhaseNotTerminal",
        /// The user has not acknowledged the possible loss of data.
        AcknowledgementRequired = "AcknowledgementRequired",
        /// A controller requested more than a graceful deletion.
        ControllerMayOnlySignal = "ControllerMayOnlySignal",
        /// The pod garbage collector can only remove pods, not signal their deletion.
        CollectorMayOnlyForce = "CollectorMayOnlyForce",
        /// The node object has not been missing for long enough.
        QuarantineNotElapsed = "QuarantineNotElapsed",
        /// The node object exists, or its absence is not confirmed.
        NodeExists = "NodeExists",
        /// A graceful deletion begins or goes on.
        GracefulDelete = "GracefulDelete",
        /// The agent has seen the processes end.
        ProcessesConfirmedDead = "ProcessesConfirmedDead",
        /// The user has acknowledged the possible loss of data.
        AcknowledgedForceDelete = "AcknowledgedForceDelete",
        /// The pod was never bound, so it never had a process.
        NeverBound = "NeverBound",
        /// The pod's phase is terminal, so no process is left.
        TerminalPhase = "TerminalPhase",
        /// The deletion of the node object declares the node gone for good.
        NodeObjectDeleted = "NodeObjectDeleted",
        /// An administrator has declared the node's processes dead.
        NodeOutOfService = "NodeOutOfService",
    }
}
