//! The words that more than one decision group uses.

use super::word::words;

words! {
    /// `status.phase` (L-PHASE-1), in the order in which a pod goes through them; `Unknown` stands outside that order.
    enum PodPhase {
        /// Not everything has started yet.
        Pending = "Pending",
        /// At least one container runs, or will again.
        Running = "Running",
        /// Every container ended well, for good.
        Succeeded = "Succeeded",
        /// Every container ended, at least one badly.
        Failed = "Failed",
        /// Contact is lost. Never stored by Berth.
        Unknown = "Unknown",
    }

    /// `restartPolicy` of a pod or a container (L-RESTART-1, L-RESTART-5).
    enum RestartPolicy {
        /// Whatever the exit code.
        Always = "Always",
        /// After a non-zero exit code.
        OnFailure = "OnFailure",
        /// Not at all.
        Never = "Never",
    }

    /// Status of a condition (L-COND-19).
    enum ConditionStatus {
        /// It holds.
        True = "True",
        /// It does not hold.
        False = "False",
        /// Nobody knows.
        Unknown = "Unknown",
    }

    /// What part a container has in its pod.
    enum ContainerKind {
        /// One of `spec.containers`.
        Regular = "regular",
        /// One of `spec.initContainers` that ends before the next one starts.
        Init = "init",
        /// One of `spec.initContainers` whose own restart policy is `Always`.
        Sidecar = "sidecar",
        /// One of `spec.ephemeralContainers`.
        Ephemeral = "ephemeral",
    }

    /// What is asked of the API server.
    enum AdmissionOperation {
        /// The object is new.
        Create = "Create",
        /// The object is stored in another form.
        Update = "Update",
    }

    /// What the container runtime says of a container.
    enum RuntimeState {
        /// Made, not started.
        Created = "Created",
        /// Its process runs.
        Running = "Running",
        /// Its process has ended.
        Exited = "Exited",
        /// The runtime lost track of it.
        Unknown = "Unknown",
    }

    /// What a controller promises of the pods it owns.
    enum ControllerKind {
        /// A replica set; deployments are built on it.
        ReplicaSet = "ReplicaSet",
        /// The older form of a replica set.
        ReplicationController = "ReplicationController",
        /// Replica sets over time.
        Deployment = "Deployment",
        /// Named pods, at most one of each name.
        StatefulSet = "StatefulSet",
        /// A pod a node.
        DaemonSet = "DaemonSet",
        /// Pods that run to completion.
        Job = "Job",
        /// Nobody owns the pod.
        None = "None",
    }
}

impl PodPhase {
    /// Succeeded or Failed: never left again (L-PHASE-8).
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, PodPhase::Succeeded | PodPhase::Failed)
    }
}
