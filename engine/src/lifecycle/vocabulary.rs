//! Words that several decision groups use.

use super::word::words;

words! {
    /// `status.phase` (L-PHASE-1), in the order in which a pod passes through the phases; `Unknown` is outside that
    /// order.
    enum PodPhase {
        /// Some containers have never started.
        Pending = "Pending",
        /// At least one container runs or will be restarted.
        Running = "Running",
        /// Every container has ended with success, for good.
        Succeeded = "Succeeded",
        /// Every container has ended for good, at least one with a failure.
        Failed = "Failed",
        /// Contact with the node is lost. Berth never stores this phase.
        Unknown = "Unknown",
    }

    /// `restartPolicy` of a pod or a container (L-RESTART-1, L-RESTART-5).
    enum RestartPolicy {
        /// Restart after any exit code.
        Always = "Always",
        /// Restart after a non-zero exit code.
        OnFailure = "OnFailure",
        /// No restart.
        Never = "Never",
    }

    /// Status of a condition (L-COND-19).
    enum ConditionStatus {
        /// The condition holds.
        True = "True",
        /// The condition does not hold.
        False = "False",
        /// Too little is known.
        Unknown = "Unknown",
    }

    /// Kind of a container within its pod.
    enum ContainerKind {
        /// An app container: an entry of `spec.containers`.
        Regular = "regular",
        /// An ordinary init container: an entry of `spec.initContainers` that ends before the next one starts.
        Init = "init",
        /// An entry of `spec.initContainers` whose own restart policy is `Always`.
        Sidecar = "sidecar",
        /// An entry of `spec.ephemeralContainers`.
        Ephemeral = "ephemeral",
    }

    /// Operation of a request to the API server.
    enum AdmissionOperation {
        /// Creation of an object.
        Create = "Create",
        /// Update of a stored object.
        Update = "Update",
    }

    /// State of a container in the container runtime.
    enum RuntimeState {
        /// The container was created and not started.
        Created = "Created",
        /// The container's process runs.
        Running = "Running",
        /// The container's process has ended.
        Exited = "Exited",
        /// The runtime lost track of the container.
        Unknown = "Unknown",
    }

    /// Kind of the controller that owns a pod.
    enum ControllerKind {
        /// A number of interchangeable pods; deployments are built on it.
        ReplicaSet = "ReplicaSet",
        /// The predecessor of the replica set.
        ReplicationController = "ReplicationController",
        /// A sequence of replica sets.
        Deployment = "Deployment",
        /// Named pods, at most one of each name.
        StatefulSet = "StatefulSet",
        /// One pod on each node.
        DaemonSet = "DaemonSet",
        /// Pods that run to completion.
        Job = "Job",
        /// No controller owns the pod.
        None = "None",
    }
}

impl PodPhase {
    /// Whether the phase is final: Succeeded or Failed (L-PHASE-8).
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, PodPhase::Succeeded | PodPhase::Failed)
    }
}
