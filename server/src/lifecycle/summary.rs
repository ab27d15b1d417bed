//! One-line summaries of the decision functions.

/// Names of functions with their summaries, in the order of [`super::FUNCTIONS`].
pub(super) const SUMMARIES: &[(&str, &str)] = &[
    ("ExplainPod", "where a pod is in its life, what happened, what happens next and when"),
    ("DerivePodPhase", "which phase a pod is in, may be published, and is to be shown"),
    ("CheckPhaseTransition", "whether a pod may go from one phase to another"),
    ("DeriveConditions", "a pod's conditions, from its container statuses and sandboxes"),
    ("SetSchedulingCondition", "PodScheduled after an attempt to schedule the pod"),
    ("MarkDisruption", "DisruptionTarget of a pod that is about to be disrupted"),
    ("ExpireDisruption", "whether a disruption that never came is taken back"),
    ("MarkPodNotReadyOnNode", "Ready of a pod whose node is not"),
    ("AllContainersRestarting", "whether all containers of a pod are being restarted in place"),
    ("ValidateConditionType", "whether a readiness gate may name this condition type"),
    ("DeriveContainerState", "a container's state, last state and restart count"),
    ("CheckContainerTransition", "whether a container may go from one state to another"),
    ("ContainerEndEvent", "which events to write about a container that has ended"),
    ("DecideRestart", "whether a container is restarted after its last run, and who says so"),
    ("PlanContainers", "which containers of a pod to start and to kill now"),
    ("BackoffSchedule", "when each restart of a crashing container may happen"),
    ("ValidateRestartRules", "whether a container's own restart policy and rules are allowed"),
    ("ControllerRestartPolicy", "whether a controller's pods may have this restart policy"),
    ("SameBackoffHistory", "whether two containers share one history of back-off"),
    ("EvaluateProbe", "what the raw outcome of one probe means"),
    ("ProbeTimeline", "a probe's result after each of its runs, and when it kills"),
    ("DeriveStartedReady", "whether a container counts as started and as ready"),
    ("DefaultProbe", "a probe with its defaults filled in"),
    ("ValidateProbe", "whether a probe is allowed"),
    ("ApplyDelete", "what a delete request does to a pod"),
    ("EffectiveNodeGrace", "the grace period that the node applies"),
    ("TerminationPlan", "when each container is signalled and killed"),
    ("RestartDuringTermination", "the same after the node agent was restarted meanwhile"),
    ("ShortenDuringTermination", "the same after the grace period was shortened meanwhile"),
    ("ContainerKillGrace", "the grace period of a single container that is killed"),
    ("EndpointConditions", "whether a pod is an endpoint: ready, serving, terminating"),
    ("CountReplicas", "how many pods a controller creates or deletes"),
    ("AuthorizeRemoval", "whether this actor may remove this pod, and with what effect"),
    ("IdentityLock", "who holds a name, over a sequence of events"),
    ("ReplacementDecision", "whether a controller may create a replacement now"),
    ("NamespaceDeletion", "whether a namespace can go, and which pods hold it up"),
    ("PartitionCondition", "how a pod on an unreachable node is shown"),
    ("DecideFence", "whether to fence a node that was lost"),
    ("FenceSequence", "what a fence permits, over a sequence of events"),
    ("AttachSequence", "where a volume is attached, over a sequence of operations"),
    ("MultiAttachAllowed", "whether a volume may be attached to several nodes"),
    ("CheckSharedVolumes", "which volumes several pods of one controller may write at once"),
    ("NodeHealth", "a node's Ready condition and taint, by its last heartbeat"),
    ("ZoneDisruption", "each zone's state and how fast its nodes are evicted"),
    ("TaintEviction", "whether and when a node's NoExecute taints evict a pod"),
    ("DefaultTolerations", "the tolerations with which a pod is admitted"),
    ("ZoneOf", "the region and zone of a node, by its labels"),
    ("NodeLossTimeline", "what happens to a pod, and when, after its node is lost"),
    ("PodGC", "which pods one run of pod garbage collection removes, in order"),
    ("QoSClass", "a pod's class of service"),
    ("RankForEviction", "in which order a node under pressure evicts its pods"),
    ("AdmitPod", "a pod's priority and preemption policy at admission"),
    ("AdmitPriorityClass", "whether a PriorityClass may be stored"),
    ("PriorityClassChange", "what a changed PriorityClass means to pods"),
    ("SchedulingReadiness", "whether a pod may be scheduled, or which gates hold it"),
    ("CheckGateUpdate", "whether a pod's scheduling gates may be changed so"),
    ("Bind", "whether a pod may be bound to a node"),
    ("CheckTolerationUpdate", "whether a pod's tolerations may be changed so"),
    ("SameIncarnation", "whether two names stand for one pod or for two of one name"),
    ("CreatePod", "whether a pod of this name may be created"),
    ("ValidatePDB", "whether a PodDisruptionBudget is allowed"),
    ("PDBStatus", "a budget's figures: healthy, desired, expected, allowed"),
    ("Evict", "the answer to an eviction request"),
    ("ReleaseClaims", "which claims for devices are freed by the pods that have ended"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::FUNCTIONS;

    #[test]
    fn every_function_has_its_line() {
        let names: Vec<&str> = SUMMARIES.iter().map(|(name, _)| *name).collect();
        let known: Vec<&str> = FUNCTIONS.iter().map(|function| function.name).collect();
        assert_eq!(names, known);
    }
}
