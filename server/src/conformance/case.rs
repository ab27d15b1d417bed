//! A recorded case as written in the corpus: a cluster, a configuration, and steps with the outcome expected of each.
//!
//! An unknown field is an error, so that nothing that was recorded is silently left uncompared.

use std::collections::{BTreeMap, BTreeSet};

use berth_engine::WireObject;
use berth_proto::core_v1::{ContainerExtendedResourceRequest, Node, Pod, PodStatus};
use berth_proto::resource_v1::{AllocationResult, DeviceRequest, ResourceClaim};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Node → plugin (or `total`) → score.
pub type Scores = BTreeMap<String, BTreeMap<String, i64>>;

/// One line of a suite.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    /// Name of the case.
    pub id: String,
    /// Name of the suite that the case belongs to.
    pub suite: String,
    /// A KubeSchedulerConfiguration as its author would write it; `None` for the defaults.
    pub config: Option<Box<RawValue>>,
    /// Objects that exist before the first step.
    pub cluster: ClusterObjects,
    /// Steps of the case, in order.
    pub steps: Vec<Step>,
    /// How much of the scores was recorded.
    #[serde(default)]
    pub score_detail: ScoreDetail,
    /// How much of the rejections was recorded.
    #[serde(default)]
    pub reject_detail: RejectDetail,
}

/// How much of the scores of a case was recorded (`scoreDetail`).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ScoreDetail {
    /// Every plugin on every feasible node, raw and weighted.
    #[default]
    Full,
    /// Only totals.
    Totals,
    /// Only the best nodes, weighted.
    Best,
}

/// How much of the rejections of a case was recorded (`rejectDetail`).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RejectDetail {
    /// Every rejected node.
    #[default]
    Full,
    /// No rejected node.
    None,
}

macro_rules! cluster_objects {
    ($($kind:ident($message:ty) {
        upsert: $upsert:ident, wakes: $wakes:ident, recorded: $recorded:ident, name: $name:literal, $($rest:tt)*
    })+) => {
        /// The objects of a case.
        #[derive(Debug, Default, Deserialize)]
        #[serde(rename_all = "camelCase", default, deny_unknown_fields)]
        pub struct ClusterObjects {
            /// Nodes.
            pub nodes: Vec<Node>,
            /// Pods, on nodes and pending.
            pub pods: Vec<Pod>,
            $(#[doc = concat!("Objects of the kind `", $name, "`.")] pub $recorded: Vec<$message>,)+
        }

        impl ClusterObjects {
            /// All objects except nodes and pods.
            pub fn others(&self) -> Vec<WireObject<'_>> {
                let mut others = Vec::new();
                $(others.extend(self.$recorded.iter().map(WireObject::$kind));)+
                others
            }
        }
    };
}

berth_engine::object_kinds!(cluster_objects);

/// One step of a case: exactly one of `pod`, `retry`, `delete`, `apply`, `remove`, `commit` and `rollback` is present.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// A pod arrives and is tried.
    pub pod: Option<Box<Pod>>,
    /// `namespace/name` of a pending pod that is tried again.
    pub retry: Option<String>,
    /// `namespace/name` of pods that disappear.
    pub delete: Option<Vec<String>>,
    /// Objects that appear just before the pod.
    pub objects: Option<Box<ClusterObjects>>,
    /// Whether the pod was in the queue already, so that PreEnqueue is not asked.
    #[serde(default)]
    pub queued: bool,
    /// Objects that are created or replaced.
    pub apply: Option<Box<ClusterObjects>>,
    /// Names of objects that disappear.
    pub remove: Option<Box<Removed>>,
    /// `namespace/name` of a pod in flight: PreBind writes its claims.
    pub commit: Option<String>,
    /// `namespace/name` of a pod in flight: it is given up and disappears.
    pub rollback: Option<String>,
    /// Action after a successful preemption.
    #[serde(default)]
    pub after: After,
    /// Node to bind to instead of one of the best; also recorded in `expect.bind`.
    pub bind_to: Option<String>,
    /// How the author of the case chose `bind_to`; does not affect the outcome.
    pub bind_pick: Option<u64>,
    /// The expected outcome; present with `pod` and `retry`.
    pub expect: Option<Box<Expect>>,
}

/// Action that follows a successful preemption.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum After {
    /// The victims are removed and the pod is bound at once.
    #[default]
    Bind,
    /// The victims become terminating and the pod stays pending, nominated.
    Nominate,
    /// Nothing is changed.
    None,
    /// The pod is bound, and its claims are in flight until `commit` or `rollback`.
    Inflight,
    /// PreBind does its work, then something later fails. The pod disappears.
    BindFails,
    /// Reserve does its work, then something later fails. Nothing is written, and the pod disappears.
    ReserveFails,
}

/// Names of objects that disappear.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Removed {
    /// Claims for devices, `namespace/name`.
    pub resource_claims: Vec<String>,
    /// Slices of devices.
    pub resource_slices: Vec<String>,
    /// Classes of devices.
    pub device_classes: Vec<String>,
}

/// The recorded outcome of one attempt.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Expect {
    /// Rejection by PreEnqueue, before any attempt.
    pub preenqueue: Option<Refusal>,
    /// Rejection by PreFilter, of all nodes at once.
    pub prefilter: Option<Refusal>,
    /// The attempt ended in an internal error; the text is informative.
    pub error: Option<String>,
    /// Node → why it is not feasible.
    pub rejected: BTreeMap<String, Refusal>,
    /// Names of the nodes that pass, sorted.
    pub feasible: Vec<String>,
    /// True if the nominated node passed and no other node was filtered.
    pub via_nominated_node: bool,
    /// Scores before normalisation and weight.
    pub raw: Option<Scores>,
    /// Scores after normalisation and weight, with `total`.
    pub scores: Option<Scores>,
    /// True if one node alone is feasible, so that an attempt scores nothing; `scores` then holds what scoring would
    /// give.
    pub scoring_skipped: bool,
    /// Every node of the highest total, sorted.
    pub best: Option<Vec<String>>,
    /// Text of the PodScheduled condition, including the part that PostFilter adds.
    pub message: Option<String>,
    /// Outcome of PostFilter.
    pub preemption: Option<Preemption>,
    /// Node that the pod is bound to afterwards.
    pub bind: Option<String>,
    /// Pods removed before the bind.
    pub evict: Vec<String>,
    /// Pods that become terminating.
    pub terminate: Vec<String>,
    /// Node that the pod is nominated to.
    pub nominate: Option<String>,
    /// Pending pods that lose their nomination.
    pub clear_nominations: Vec<String>,
    /// Effects of the bind on the pod's claims.
    pub volumes: Volumes,
    /// Node → claim → its allocation there.
    pub allocations: Option<BTreeMap<String, BTreeMap<String, AllocationResult>>>,
    /// Node → what the claim for extended resources asks for there.
    pub extended: BTreeMap<String, ExtendedRequests>,
    /// Claims as they are after the step, if it wrote them.
    pub claims: Vec<ResourceClaim>,
    /// Claims that the step deleted, `namespace/name`.
    pub claims_deleted: Vec<String>,
    /// Claims as PreBind wrote them, before Unreserve.
    pub reserved: Vec<ResourceClaim>,
    /// Claims in flight after the step, `namespace/name`.
    pub in_flight: Vec<String>,
    /// What PreBind writes into the pod's status.
    pub pod_status: Option<Box<PodStatus>>,
    /// Conditions of devices that PreBind waits for.
    pub waits: Vec<Wait>,
    /// How PreBind failed.
    pub pre_bind: Option<PreBind>,
    /// Claims, `namespace/name`, of which PostFilter may deallocate any one.
    pub deallocate: Vec<String>,
}

/// What the claim for a pod's extended resources asks for on a node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExtendedRequests {
    /// Its requests.
    pub requests: Vec<DeviceRequest>,
    /// Which request provides which resource to which container.
    pub mappings: Vec<ContainerExtendedResourceRequest>,
}

/// Conditions of an allocated device that PreBind waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// `namespace/name` of the claim.
    pub claim: String,
    /// Driver of the device.
    pub driver: String,
    /// Pool of the device.
    pub pool: String,
    /// Name of the device.
    pub device: String,
    /// Conditions still to come.
    pub conditions: Vec<String>,
}

/// A failure of PreBind; its text is informative.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreBind {
    /// The error.
    pub error: String,
}

/// Effects of a bind on the pod's unbound claims, each named `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Volumes {
    /// Claim → the persistent volume that it gets.
    #[serde(rename = "static")]
    pub bound: BTreeMap<String, String>,
    /// Claims for which a volume is provisioned.
    pub provision: BTreeSet<String>,
}

/// Reason why a pod or a node was refused.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Refusal {
    /// The plugin that refused; empty when a PreFilter result left the node out.
    #[serde(default)]
    pub plugin: String,
    /// `Unschedulable` or `UnschedulableAndUnresolvable`.
    pub code: String,
    /// Reasons, sorted.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// True if a PreFilter result left the node out.
    #[serde(default)]
    pub pre_filter_result: bool,
}

/// The recorded outcome of PostFilter.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Preemption {
    /// `Success`, `Unschedulable` or `Error`.
    pub code: String,
    /// Text of the status; empty after a success.
    pub message: String,
    /// Nodes on which evicting pods helps; only the best ones where the scores were not recorded in full.
    pub candidates: Vec<Candidate>,
    /// Number of candidates, where not all of them were recorded.
    pub candidate_count: Option<usize>,
    /// Node → status of its dry run, for nodes on which evicting does not help.
    pub not_helped: BTreeMap<String, Refusal>,
    /// Names of the candidates that are equal up to the last criterion, sorted.
    pub best: Vec<String>,
    /// The candidate of `best` that the case goes on with.
    pub chosen: Option<String>,
    /// Victims on the chosen candidate.
    pub victims: Vec<String>,
}

/// A recorded candidate.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Candidate {
    /// Node name.
    pub node: String,
    /// `namespace/name` of the pods to evict, the most important first.
    pub victims: Vec<String>,
    /// Number of victims that a disruption budget would protect.
    pub pdb_violations: usize,
}

impl Expect {
    /// The message without what PostFilter appended to it (S-ERR-5 to S-ERR-7).
    pub fn message_before_post_filter(&self) -> Option<&str> {
        let message = self.message.as_deref()?;
        let post_filter =
            self.preemption.as_ref().map_or("", |preemption| preemption.message.as_str());
        match message.strip_suffix(post_filter) {
            Some(head) if !post_filter.is_empty() => Some(head.trim_end_matches(' ')),
            _ => Some(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_post_filter_text_is_cut_off() {
        let expect = |message: &str, post_filter: &str| Expect {
            message: Some(message.to_owned()),
            preemption: Some(Preemption {
                message: post_filter.to_owned(),
                ..Preemption::default()
            }),
            ..Expect::default()
        };
        let both = expect("0/1 nodes are available: 1 Insufficient cpu. not found", "not found");
        assert_eq!(
            both.message_before_post_filter(),
            Some("0/1 nodes are available: 1 Insufficient cpu.")
        );
        let alone = expect("0/1 nodes are available: 1 Insufficient cpu.", "");
        assert_eq!(
            alone.message_before_post_filter(),
            Some("0/1 nodes are available: 1 Insufficient cpu.")
        );
        assert_eq!(Expect::default().message_before_post_filter(), None);
    }

    #[test]
    fn a_step_is_read_as_recorded() {
        let step: Step = serde_json::from_str(
            r#"{"retry": "a/b", "after": "nominate", "expect": {"rejected": {"n": {"code": "Unschedulable", "plugin": "",
                "reasons": [], "preFilterResult": true}}, "bind": null, "feasible": []}}"#,
        )
        .unwrap();
        let expect = step.expect.unwrap();
        assert_eq!((step.retry.as_deref(), step.after), (Some("a/b"), After::Nominate));
        assert!(expect.rejected["n"].pre_filter_result);
        assert_eq!(expect.bind, None);
    }
    #[test]
    fn unknown_fields_are_errors() {
        let read = |text: &str| serde_json::from_str::<Step>(text).map(drop);
        assert!(read(r#"{"retry": "a/b", "expect": {"preemption": {"code": "Success"}}}"#).is_ok());
        for unknown in [
            r#"{"retry": "a/b", "pick": 3}"#,
            r#"{"retry": "a/b", "after": "evict"}"#,
            r#"{"retry": "a/b", "expect": {"feasable": []}}"#,
            r#"{"retry": "a/b", "expect": {"preemption": {"candidates": [{"node": "n", "victims": [], "pdbs": 1}]}}}"#,
        ] {
            assert!(read(unknown).is_err(), "{unknown}");
        }
        assert!(serde_json::from_str::<ClusterObjects>(r#"{"podGroups": []}"#).is_err());
    }
}
