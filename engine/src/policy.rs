//! Policy: one profile of a KubeSchedulerConfiguration as the engine uses it. Typed, checked once, then immutable.
//! Rules: S-PLG-1 to S-PLG-5 (order, weights), section 10.4 (arguments).

pub(crate) mod shape;

use std::hash::{Hash, Hasher};

use berth_proto::core_v1;
use rustc_hash::FxHasher;

use crate::kubernetes_version::KubernetesVersion;
use crate::model::selector::NodePreferences;
use crate::plugin::Plugin;
use shape::ShapePoint;

/// The highest Σ weight of a policy's scores: totals are 32-bit integers in the kernels, and a score is at most 100.
pub(crate) const MAX_WEIGHT_SUM: i64 = (i32::MAX / 128) as i64;

/// A checked [`PolicySpec`]. Cheap to share behind an `Arc`; two policies of one spec have one fingerprint.
#[derive(Clone, Debug)]
pub struct Policy {
    spec: PolicySpec,
    fingerprint: u64,
}

/// One profile, every list in effective order (S-CFG-6).
#[derive(Clone, Debug, PartialEq)]
pub struct PolicySpec {
    /// `spec.schedulerName` of the profile's pods.
    pub scheduler_name: String,
    /// The version of Kubernetes whose kube-scheduler is followed.
    pub kubernetes_version: KubernetesVersion,
    /// Plugins at PreEnqueue.
    pub pre_enqueue: Vec<Plugin>,
    /// Plugins at PreFilter.
    pub pre_filter: Vec<Plugin>,
    /// Plugins at Filter: the first that fails gives the reason.
    pub filter: Vec<Plugin>,
    /// Plugins at PostFilter.
    pub post_filter: Vec<Plugin>,
    /// Plugins at PreScore.
    pub pre_score: Vec<Plugin>,
    /// Plugins at Score with their weights.
    pub score: Vec<(Plugin, i64)>,
    /// `NodeAffinityArgs`.
    pub node_affinity: NodeAffinityArgs,
    /// `NodeResourcesFitArgs`.
    pub node_resources_fit: NodeResourcesFitArgs,
    /// `NodeResourcesBalancedAllocationArgs`.
    pub balanced_allocation: BalancedAllocationArgs,
    /// `PodTopologySpreadArgs`.
    pub pod_topology_spread: PodTopologySpreadArgs,
    /// `InterPodAffinityArgs`.
    pub inter_pod_affinity: InterPodAffinityArgs,
    /// `DefaultPreemptionArgs`.
    pub default_preemption: DefaultPreemptionArgs,
    /// `DynamicResourcesArgs`.
    pub dynamic_resources: DynamicResourcesArgs,
    /// `VolumeBindingArgs`.
    pub volume_binding: VolumeBindingArgs,
}

/// Arguments of VolumeBinding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeBindingArgs {
    /// Points of the score's function of utilization: at least one, with strictly increasing utilization (S-137-13).
    pub shape: Vec<ShapePoint>,
}

impl Default for VolumeBindingArgs {
    /// The emptier, the better (S-137-14).
    fn default() -> VolumeBindingArgs {
        let point = |utilization, score| ShapePoint { utilization, score };
        VolumeBindingArgs { shape: vec![point(0, 10), point(100, 0)] }
    }
}

/// Arguments of DynamicResources.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DynamicResourcesArgs {
    /// Seconds after which the conditions of an allocated device should have come (S-DRA-98).
    pub binding_timeout_seconds: i64,
}

impl Default for DynamicResourcesArgs {
    fn default() -> DynamicResourcesArgs {
        DynamicResourcesArgs { binding_timeout_seconds: 600 }
    }
}

/// Arguments of DefaultPreemption: the number of candidate nodes that are tried in a sample (S-PRE-6).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DefaultPreemptionArgs {
    /// Percentage of the nodes where evicting pods might help, 0 to 100.
    pub min_candidate_nodes_percentage: u32,
    /// Smallest number of nodes to try.
    pub min_candidate_nodes_absolute: u32,
}

impl Default for DefaultPreemptionArgs {
    fn default() -> DefaultPreemptionArgs {
        DefaultPreemptionArgs {
            min_candidate_nodes_percentage: 10,
            min_candidate_nodes_absolute: 100,
        }
    }
}

/// Arguments of PodTopologySpread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodTopologySpreadArgs {
    /// Constraints of pods that have none of their own.
    pub defaulting: SpreadDefaulting,
}

/// Source of constraints for pods that have none (S-PTS-12).
#[derive(Clone, Debug, Default, PartialEq)]
pub enum SpreadDefaulting {
    /// kube-scheduler's own constraints: hostname with skew 3 and zone with skew 5, for scores only.
    #[default]
    System,
    /// The constraints of this list, in order; none if it is empty.
    List(Vec<DefaultConstraint>),
}

/// One default constraint. Its selector is that of the services and the controller that a pod belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultConstraint {
    /// Allowed skew, at least 1.
    pub max_skew: i32,
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// Whether the constraint filters or scores.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// Minimum number of domains, at least 1; 1 when absent (S-PTS-3).
    pub min_domains: Option<i32>,
    /// Whether `nodeAffinityPolicy` is `Honor`.
    pub honors_affinity: bool,
    /// Whether `nodeTaintsPolicy` is `Honor`.
    pub honors_taints: bool,
}

/// Effect of an unsatisfied spread constraint.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum WhenUnsatisfiable {
    /// The node is refused.
    DoNotSchedule,
    /// The node's score is lowered.
    ScheduleAnyway,
}

/// Arguments of InterPodAffinity.
#[derive(Clone, Debug, PartialEq)]
pub struct InterPodAffinityArgs {
    /// Weight that a required affinity term of a running pod adds to the score, 0 to 100.
    pub hard_pod_affinity_weight: i32,
    /// Whether pods without preferred terms are not scored at all (S-IS-1).
    pub ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for InterPodAffinityArgs {
    fn default() -> InterPodAffinityArgs {
        InterPodAffinityArgs {
            hard_pod_affinity_weight: 1,
            ignore_preferred_terms_of_existing_pods: false,
        }
    }
}

/// Arguments of NodeAffinity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeAffinityArgs {
    /// Node affinity that is added to every pod's own (S-NAF-3, S-NA-2).
    pub added_affinity: Option<core_v1::NodeAffinity>,
}

/// Arguments of NodeResourcesFit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeResourcesFitArgs {
    /// Extended resources that are never checked, by full name (S-FIT-11).
    pub ignored_resources: Vec<String>,
    /// Extended resources that are never checked, by the part of their name before `/` (S-FIT-11).
    pub ignored_resource_groups: Vec<String>,
    /// How nodes are scored.
    pub scoring: ScoringStrategy,
}

/// NodeResourcesFit's scoring strategies (S-RS-5 to S-RS-7).
#[derive(Clone, Debug, PartialEq)]
pub enum ScoringStrategy {
    /// Prefers empty nodes.
    LeastAllocated {
        /// Scored resources, in configured order.
        resources: Vec<ResourceWeight>,
    },
    /// Prefers full nodes.
    MostAllocated {
        /// Scored resources, in configured order.
        resources: Vec<ResourceWeight>,
    },
    /// Scores nodes by the configured shape.
    RequestedToCapacityRatio {
        /// Scored resources, in configured order.
        resources: Vec<ResourceWeight>,
        /// Points of the function: at least one, with strictly increasing utilization.
        shape: Vec<ShapePoint>,
    },
}

/// A resource and its weight in a score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceWeight {
    /// Resource name, for example `cpu`.
    pub name: String,
    /// The resource's weight, 1 to 100.
    pub weight: i64,
}

/// Arguments of NodeResourcesBalancedAllocation.
#[derive(Clone, Debug, PartialEq)]
pub struct BalancedAllocationArgs {
    /// Resource names, in configured order, without duplicates.
    pub resources: Vec<String>,
}

/// A contradictory or invalid policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {reason}")]
pub struct PolicyError {
    /// Path in the profile, for example `pluginConfig[NodeResourcesFit].scoringStrategy.resources[0].weight`.
    pub field: String,
    /// Description of what is wrong with the field.
    pub reason: String,
}

impl Policy {
    /// Checks the parts that the rules depend on: weights, shapes, and that an added affinity parses (S-NAF-8).
    pub fn new(spec: PolicySpec) -> Result<Policy, PolicyError> {
        check_weights(&spec.score)?;
        check_scoring(&spec.node_resources_fit.scoring)?;
        check_unique(&spec.balanced_allocation.resources)?;
        check_spread(&spec.pod_topology_spread.defaulting)?;
        check_affinity(&spec.inter_pod_affinity)?;
        check_shape(&spec.volume_binding.shape, "pluginConfig[VolumeBinding].shape")?;
        if let Some(added) = &spec.node_affinity.added_affinity {
            NodePreferences::check_added(added).map_err(|error| PolicyError {
                field: format!("pluginConfig[NodeAffinity].addedAffinity.{}", error.field),
                reason: error.reason,
            })?;
        }
        let fingerprint = fingerprint(&spec);
        Ok(Policy { spec, fingerprint })
    }

    /// kube-scheduler's default profile of a version, for pods of `scheduler_name`.
    pub fn of_version(scheduler_name: &str, kubernetes_version: KubernetesVersion) -> Policy {
        let scheduler_name = scheduler_name.to_owned();
        let spec = PolicySpec { scheduler_name, kubernetes_version, ..PolicySpec::default() };
        let fingerprint = fingerprint(&spec);
        Policy { spec, fingerprint }
    }

    /// The spec of the policy.
    pub fn spec(&self) -> &PolicySpec {
        &self.spec
    }

    /// Identifies the policy in remembered evaluations; equal specs have equal fingerprints.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The weight of a score plugin, `None` when it is not enabled.
    pub fn weight(&self, plugin: Plugin) -> Option<i64> {
        self.spec.score.iter().find(|(p, _)| *p == plugin).map(|(_, weight)| *weight)
    }
}

impl Default for Policy {
    /// kube-scheduler's default profile.
    fn default() -> Policy {
        let spec = PolicySpec::default();
        let fingerprint = fingerprint(&spec);
        Policy { spec, fingerprint }
    }
}

impl Default for PolicySpec {
    /// The default profile, of v1.36 as of v1.37 (S-PLG-1 to S-PLG-5, S-137-1).
    fn default() -> PolicySpec {
        use Plugin::*;
        PolicySpec {
            scheduler_name: "default-scheduler".into(),
            kubernetes_version: KubernetesVersion::default(),
            pre_enqueue: vec![SchedulingGates, DynamicResources, DefaultPreemption],
            pre_filter: vec![
                NodeAffinity,
                NodePorts,
                NodeResourcesFit,
                VolumeRestrictions,
                NodeVolumeLimits,
                VolumeBinding,
                VolumeZone,
                PodTopologySpread,
                InterPodAffinity,
                DynamicResources,
                NodeDeclaredFeatures,
            ],
            filter: vec![
                NodeUnschedulable,
                NodeName,
                TaintToleration,
                NodeAffinity,
                NodePorts,
                NodeResourcesFit,
                VolumeRestrictions,
                NodeVolumeLimits,
                VolumeBinding,
                VolumeZone,
                PodTopologySpread,
                InterPodAffinity,
                DynamicResources,
                NodeDeclaredFeatures,
            ],
            post_filter: vec![DynamicResources, DefaultPreemption],
            pre_score: vec![
                TaintToleration,
                NodeAffinity,
                NodeResourcesFit,
                VolumeBinding,
                PodTopologySpread,
                InterPodAffinity,
                NodeResourcesBalancedAllocation,
            ],
            score: vec![
                (TaintToleration, 3),
                (NodeAffinity, 2),
                (NodeResourcesFit, 1),
                (VolumeBinding, 1),
                (PodTopologySpread, 2),
                (InterPodAffinity, 2),
                (DynamicResources, 2),
                (NodeResourcesBalancedAllocation, 1),
                (ImageLocality, 1),
            ],
            node_affinity: NodeAffinityArgs::default(),
            node_resources_fit: NodeResourcesFitArgs::default(),
            balanced_allocation: BalancedAllocationArgs::default(),
            pod_topology_spread: PodTopologySpreadArgs::default(),
            inter_pod_affinity: InterPodAffinityArgs::default(),
            default_preemption: DefaultPreemptionArgs::default(),
            dynamic_resources: DynamicResourcesArgs::default(),
            volume_binding: VolumeBindingArgs::default(),
        }
    }
}

impl Default for ScoringStrategy {
    fn default() -> ScoringStrategy {
        ScoringStrategy::LeastAllocated {
            resources: ["cpu", "memory"]
                .map(|name| ResourceWeight { name: name.into(), weight: 1 })
                .into(),
        }
    }
}

impl Default for BalancedAllocationArgs {
    fn default() -> BalancedAllocationArgs {
        BalancedAllocationArgs { resources: vec!["cpu".into(), "memory".into()] }
    }
}

impl ScoringStrategy {
    /// The scored resources, in configured order.
    pub fn resources(&self) -> &[ResourceWeight] {
        match self {
            ScoringStrategy::LeastAllocated { resources }
            | ScoringStrategy::MostAllocated { resources }
            | ScoringStrategy::RequestedToCapacityRatio { resources, .. } => resources,
        }
    }
}

fn error(field: impl Into<String>, reason: impl Into<String>) -> PolicyError {
    PolicyError { field: field.into(), reason: reason.into() }
}

fn check_weights(score: &[(Plugin, i64)]) -> Result<(), PolicyError> {
    let mut sum = 0_i64;
    for (i, (plugin, weight)) in score.iter().enumerate() {
        if *weight <= 0 {
            return Err(error(
                format!("plugins.score[{plugin}].weight"),
                format!("must be positive, is {weight}"),
            ));
        }
        if score[..i].iter().any(|(earlier, _)| earlier == plugin) {
            return Err(error(format!("plugins.score[{plugin}]"), "is listed twice"));
        }
        sum = sum.saturating_add(*weight);
    }
    if sum > MAX_WEIGHT_SUM {
        return Err(error(
            "plugins.score",
            format!("the weights add up to {sum}, more than {MAX_WEIGHT_SUM}"),
        ));
    }
    Ok(())
}

fn check_scoring(scoring: &ScoringStrategy) -> Result<(), PolicyError> {
    const FIELD: &str = "pluginConfig[NodeResourcesFit].scoringStrategy";
    for (i, resource) in scoring.resources().iter().enumerate() {
        if !(1..=100).contains(&resource.weight) {
            let reason =
                format!("resource weight of {} not in valid range (0, 100]", resource.name);
            return Err(error(format!("{FIELD}.resources[{i}].weight"), reason));
        }
    }
    match scoring {
        ScoringStrategy::RequestedToCapacityRatio { shape, .. } => {
            check_shape(shape, &format!("{FIELD}.requestedToCapacityRatio.shape"))
        }
        ScoringStrategy::LeastAllocated { .. } | ScoringStrategy::MostAllocated { .. } => Ok(()),
    }
}

fn check_shape(shape: &[ShapePoint], field: &str) -> Result<(), PolicyError> {
    if shape.is_empty() {
        return Err(error(field, "at least one point must be specified"));
    }
    for (i, point) in shape.iter().enumerate() {
        if !(0..=100).contains(&point.utilization) || !(0..=10).contains(&point.score) {
            return Err(error(
                format!("{field}[{i}]"),
                "utilization must be 0 to 100 and score 0 to 10",
            ));
        }
        if i > 0 && shape[i - 1].utilization >= point.utilization {
            return Err(error(format!("{field}[{i}].utilization"), "must be strictly increasing"));
        }
    }
    Ok(())
}

fn check_spread(defaulting: &SpreadDefaulting) -> Result<(), PolicyError> {
    let SpreadDefaulting::List(constraints) = defaulting else {
        return Ok(());
    };
    for (i, constraint) in constraints.iter().enumerate() {
        let field =
            |name| format!("pluginConfig[PodTopologySpread].defaultConstraints[{i}].{name}");
        let min_domains = constraint.min_domains.unwrap_or(1);
        for (name, value) in [("maxSkew", constraint.max_skew), ("minDomains", min_domains)] {
            if value <= 0 {
                return Err(error(field(name), format!("{value} is not greater than 0")));
            }
        }
    }
    Ok(())
}

fn check_affinity(args: &InterPodAffinityArgs) -> Result<(), PolicyError> {
    if (0..=100).contains(&args.hard_pod_affinity_weight) {
        return Ok(());
    }
    let field = "pluginConfig[InterPodAffinity].hardPodAffinityWeight";
    Err(error(field, "not in valid range [0, 100]"))
}

fn check_unique(resources: &[String]) -> Result<(), PolicyError> {
    for (i, name) in resources.iter().enumerate() {
        if resources[..i].contains(name) {
            let field =
                format!("pluginConfig[NodeResourcesBalancedAllocation].resources[{i}].name");
            return Err(error(field, format!("`{name}` is listed twice")));
        }
    }
    Ok(())
}

/// A hash of the spec's debug text, which contains every field.
fn fingerprint(spec: &PolicySpec) -> u64 {
    let mut hasher = FxHasher::default();
    format!("{spec:?}").hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut PolicySpec), field: &str) {
        let mut spec = PolicySpec::default();
        change(&mut spec);
        let error = Policy::new(spec).expect_err("must be refused");
        assert_eq!(error.field, field, "{error}");
    }

    #[test]
    fn the_default_spec_is_valid() {
        let policy = Policy::new(PolicySpec::default()).unwrap();
        assert_eq!(policy.fingerprint(), Policy::default().fingerprint());
        assert_eq!(policy.weight(Plugin::TaintToleration), Some(3));
        assert_eq!(policy.weight(Plugin::NodePorts), None);
    }

    #[test]
    fn impossible_specs_are_refused() {
        check(|s| s.score[0].1 = 0, "plugins.score[TaintToleration].weight");
        check(|s| s.score[1].0 = Plugin::TaintToleration, "plugins.score[TaintToleration]");
        check(|s| s.score[0].1 = i64::from(i32::MAX), "plugins.score");
        check(
            |s| s.balanced_allocation.resources = vec!["cpu".into(), "cpu".into()],
            "pluginConfig[NodeResourcesBalancedAllocation].resources[1].name",
        );
        check(
            |s| {
                s.node_resources_fit.scoring = ScoringStrategy::LeastAllocated {
                    resources: vec![ResourceWeight { name: "cpu".into(), weight: 101 }],
                };
            },
            "pluginConfig[NodeResourcesFit].scoringStrategy.resources[0].weight",
        );
        check(
            |s| s.inter_pod_affinity.hard_pod_affinity_weight = 101,
            "pluginConfig[InterPodAffinity].hardPodAffinityWeight",
        );
        check(
            |s| {
                s.pod_topology_spread.defaulting =
                    SpreadDefaulting::List(vec![DefaultConstraint {
                        max_skew: 0,
                        topology_key: "zone".into(),
                        when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
                        min_domains: None,
                        honors_affinity: true,
                        honors_taints: false,
                    }]);
            },
            "pluginConfig[PodTopologySpread].defaultConstraints[0].maxSkew",
        );
        let point = |utilization, score| ShapePoint { utilization, score };
        for (shape, at) in [
            (vec![], "shape"),
            (vec![point(0, 11)], "shape[0]"),
            (vec![point(5, 1), point(5, 2)], "shape[1].utilization"),
        ] {
            let field = format!(
                "pluginConfig[NodeResourcesFit].scoringStrategy.requestedToCapacityRatio.{at}"
            );
            check(
                |s| {
                    let resources = Vec::new();
                    s.node_resources_fit.scoring =
                        ScoringStrategy::RequestedToCapacityRatio { resources, shape };
                },
                &field,
            );
        }
    }
}
