//! Eligibility: which nodes are considered for removal. Rules: S-SD-1, S-SD-2.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::outcome::{NodeUtilization, UnremovableReason};
use super::rule::is_long_terminating;
use crate::model::Pod;
use crate::model::resources::Resource;
use crate::rows::NodeRow;
use crate::simulate::utilization::{Share, utilization};
use crate::snapshot::Snapshot;

/// Rules on which nodes may go whatever their pods are. By default all but those that are annotated to stay or are
/// being removed.
#[derive(Copy, Clone, Debug, Default)]
pub struct NodeRules<'a> {
    /// Whether nodes whose annotation disables scale-down may go too.
    pub ignore_scale_down_disabled: bool,
    /// The label whose value names a node's group; a node without the label has no group, and stays.
    pub node_group_label: Option<&'a str>,
    /// Whether nodes that are not ready stay; a node without a Ready condition is not ready.
    pub keep_unready: bool,
    /// Nodes with this utilization or more stay; 1.0 is full.
    pub utilization_threshold: Option<f64>,
    /// Whether requests of DaemonSets' pods are deducted from a node's capacity instead of counted as used.
    pub skip_daemon_pods: bool,
    /// Whether requests of mirror pods are deducted from a node's capacity instead of counted as used.
    pub skip_mirror_pods: bool,
    /// The resource, such as `nvidia.com/gpu`, that alone determines the utilization of nodes that have it.
    pub gpu_resource: Option<&'a str>,
    /// Names of nodes whose last removal attempt failed.
    pub recently_unremovable: &'a [Arc<str>],
}

/// Why a node stays: reason and message.
pub(crate) type Refusal = (UnremovableReason, String);

/// The utilization of the node of a row; `None` where it has none of a resource that it is measured by.
pub(crate) fn measured(
    snapshot: &Snapshot,
    row: NodeRow,
    rules: &NodeRules<'_>,
    now: i64,
) -> Option<NodeUtilization> {
    let names = snapshot.model.names();
    let gpu = rules.gpu_resource.and_then(|name| Resource::from_name(name, names));
    let share = |pod: &Pod| {
        let facts = &pod.facts().drainability;
        if is_long_terminating(pod, now) {
            Share::Ignored
        } else if (rules.skip_daemon_pods && facts.is_daemon)
            || (rules.skip_mirror_pods && facts.is_mirror)
        {
            Share::Skipped
        } else {
            Share::Counted
        }
    };
    let found = utilization(snapshot, row, gpu, share).ok()?;
    let resource = match found.resource {
        Resource::Cpu => "cpu".into(),
        Resource::Memory => "memory".into(),
        Resource::EphemeralStorage => "ephemeral-storage".into(),
        Resource::Scalar(name) => names.name(name),
    };
    Some(NodeUtilization { ratio: found.ratio, resource })
}

/// Names of nodes whose last removal attempt failed.
pub(crate) type Recently<'r> = FxHashSet<&'r str>;

impl<'r> NodeRules<'r> {
    /// The set of nodes whose last removal attempt failed.
    pub(crate) fn recently(&self) -> Recently<'r> {
        self.recently_unremovable.iter().map(|name| &**name).collect()
    }
}

/// Why the node of a row stays whatever its pods are: the first rule that applies (S-SD-1).
pub(crate) fn refused(
    snapshot: &Snapshot,
    row: NodeRow,
    rules: &NodeRules<'_>,
    recently: &Recently<'_>,
    utilization: Option<&NodeUtilization>,
) -> Option<Refusal> {
    use UnremovableReason as Reason;
    let facts = snapshot.node(row)?.facts();
    let refuse = |reason, message: &str| Some((reason, message.to_owned()));
    if facts.removal.is_under_way {
        return refuse(Reason::CurrentlyBeingDeleted, "is being removed already");
    }
    if facts.removal.is_disabled && !rules.ignore_scale_down_disabled {
        let message = "is annotated `cluster-autoscaler.kubernetes.io/scale-down-disabled: true`";
        return refuse(Reason::ScaleDownDisabledAnnotation, message);
    }
    if let Some(label) = rules.node_group_label
        && node_group(snapshot, row, label).is_none()
    {
        return refuse(Reason::NotAutoscaled, &format!("has no label `{label}`"));
    }
    if rules.keep_unready && !facts.removal.is_ready {
        return refuse(Reason::ScaleDownUnreadyDisabled, "is not ready");
    }
    if let Some(threshold) = rules.utilization_threshold {
        match utilization {
            None => {
                let message = "has no cpu or no memory, so that its utilisation cannot be computed";
                return refuse(Reason::UnexpectedError, message);
            }
            Some(NodeUtilization { ratio, resource }) if *ratio >= threshold => {
                let message = format!("{resource} is requested to {ratio:.3}, of {threshold:.3}");
                return refuse(Reason::NotUnderutilized, &message);
            }
            Some(_) => {}
        }
    }
    if recently.contains(&*facts.name) {
        return refuse(Reason::RecentlyUnremovable, "could not go when it was last tried");
    }
    None
}

/// The node group of a node, by the value of a label.
pub(crate) fn node_group(snapshot: &Snapshot, row: NodeRow, label: &str) -> Option<Arc<str>> {
    let names = snapshot.model.names();
    let key = names.get(label)?;
    let labels = &snapshot.node(row)?.facts().labels;
    let value = crate::model::label_selector::value_of(labels, key)?;
    Some(names.name(value))
}
