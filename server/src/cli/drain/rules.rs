//! Flags on which nodes are kept, and which pods must not be moved, with cluster-autoscaler's rules.

use berth_proto::berth_v1::{DrainRules, NodeRules};

/// Rules for nodes that are kept whatever their pods.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct NodeArgs {
    /// Also empty nodes annotated `cluster-autoscaler.kubernetes.io/scale-down-disabled: true`
    #[arg(long)]
    ignore_scale_down_disabled: bool,
    /// Keep nodes without this label: they belong to no node group
    #[arg(long, value_name = "LABEL", default_value = "", hide_default_value = true)]
    node_group_label: String,
    /// Keep nodes that are not ready
    #[arg(long)]
    keep_unready: bool,
    /// Keep nodes with at least this utilization, for example 0.5
    #[arg(long, value_name = "RATIO", allow_negative_numbers = true, value_parser = parse_ratio)]
    threshold: Option<f64>,
}

/// Rules for pods that must not be moved.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct PodArgs {
    /// Also move pods that no controller would recreate
    #[arg(long)]
    force: bool,
    /// Also move pods with hostPath volumes and emptyDirs on disk; their contents are lost
    #[arg(long)]
    delete_local_data: bool,
    /// Also move pods annotated `cluster-autoscaler.kubernetes.io/safe-to-evict: false`
    #[arg(long)]
    ignore_safe_to_evict: bool,
    /// Also move young pods of kube-system that no disruption budget covers
    #[arg(long)]
    move_system_pods: bool,
    /// Age in seconds up to which such pods are young [default: 3600]
    #[arg(long, value_name = "SECONDS", conflicts_with = "move_system_pods", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(0..))]
    system_pod_timeout: Option<i64>,
    /// Move pods only if the cluster knows their ReplicationController, ReplicaSet or StatefulSet
    #[arg(long)]
    require_controllers: bool,
    /// Keep pods whose ReplicaSet or ReplicationController is to have fewer pods
    #[arg(long, value_name = "N", requires = "require_controllers", default_value_t = 0, hide_default_value = true, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(0..))]
    min_replicas: i32,
}

fn parse_ratio(text: &str) -> Result<f64, String> {
    let ratio: Option<f64> = text.parse().ok();
    let is_ratio = |ratio: &f64| ratio.is_finite() && *ratio >= 0.0;
    ratio.filter(is_ratio).ok_or_else(|| "expected a number from 0, such as 0.5".to_owned())
}

impl NodeArgs {
    /// The rules for a request.
    pub(in crate::cli) fn to_wire(&self) -> NodeRules {
        NodeRules {
            ignore_scale_down_disabled: self.ignore_scale_down_disabled,
            node_group_label: self.node_group_label.clone(),
            keep_unready: self.keep_unready,
            utilization_threshold: self.threshold,
            ..NodeRules::default()
        }
    }
}

impl PodArgs {
    /// The rules for a request.
    pub(in crate::cli) fn to_wire(&self) -> DrainRules {
        DrainRules {
            move_unreplicated: self.force,
            move_system_pods: self.move_system_pods,
            system_pod_timeout_seconds: self.system_pod_timeout,
            move_local_storage: self.delete_local_data,
            move_not_safe_to_evict: self.ignore_safe_to_evict,
            require_controllers: self.require_controllers,
            min_replicas: self.min_replicas,
        }
    }
}
