//! Plugin arguments: one type per plugin that has any, with upstream's defaults (S-CFG-3, 10.4).
//!
//! Arguments of plugins that the engine does not run (dynamic resources) are decoded and checked all the same, so
//! that a file that kube-scheduler would refuse is refused here too.

use super::node_affinity;
use super::version::Version;
use crate::document::decode::{self, Cursor, Fields};
use berth_engine::{InterPodAffinityArgs, NodeAffinityArgs, ResourceWeight, ShapePoint};

pub(super) mod check;

pub(super) const SECOND_NS: i64 = 1_000_000_000;

/// The arguments of one plugin.
#[derive(Clone, Debug, PartialEq)]
pub enum PluginArgs {
    /// Arguments of DefaultPreemption.
    DefaultPreemption(DefaultPreemptionArgs),
    /// Arguments of InterPodAffinity.
    InterPodAffinity(InterPodAffinityArgs),
    /// Arguments of NodeAffinity.
    NodeAffinity(NodeAffinityArgs),
    /// Arguments of NodeResourcesFit.
    NodeResourcesFit(FitArgs),
    /// Arguments of NodeResourcesBalancedAllocation: resources and weights.
    NodeResourcesBalancedAllocation(Vec<ResourceWeight>),
    /// Arguments of PodTopologySpread.
    PodTopologySpread(PodTopologySpreadArgs),
    /// Arguments of VolumeBinding.
    VolumeBinding(VolumeBindingArgs),
    /// Arguments of DynamicResources.
    DynamicResources(DynamicResourcesArgs),
    /// Arguments of an unknown plugin, or of one without an arguments kind: kept unread, as upstream does.
    Opaque,
}

/// Number of candidates that preemption considers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultPreemptionArgs {
    /// Minimum as a percentage of the nodes.
    pub min_candidate_nodes_percentage: i32,
    /// Minimum as a number of nodes.
    pub min_candidate_nodes_absolute: i32,
}

/// Arguments of NodeResourcesFit as written; checked when the plugin is built, as upstream does (10.4).
#[derive(Clone, Debug, PartialEq)]
pub struct FitArgs {
    /// Names of ignored extended resources.
    pub ignored_resources: Vec<String>,
    /// Ignored groups of extended resources: the part of their names before `/`.
    pub ignored_resource_groups: Vec<String>,
    /// Strategy: `LeastAllocated`, `MostAllocated`, `RequestedToCapacityRatio`, or an invalid text.
    pub strategy: String,
    /// Scored resources; a weight of 0 was defaulted to 1.
    pub resources: Vec<ResourceWeight>,
    /// `requestedToCapacityRatio.shape`, if `requestedToCapacityRatio` is present.
    pub shape: Option<Vec<ShapePoint>>,
}

impl FitArgs {
    /// Arguments that ignore no resource.
    pub(super) fn scoring(
        strategy: &str,
        resources: Vec<ResourceWeight>,
        shape: Option<Vec<ShapePoint>>,
    ) -> FitArgs {
        FitArgs {
            ignored_resources: Vec::new(),
            ignored_resource_groups: Vec::new(),
            strategy: strategy.to_owned(),
            resources,
            shape,
        }
    }
}

/// Default constraints for pods that have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodTopologySpreadArgs {
    /// Type: `System` or `List`, or an invalid text.
    pub defaulting_type: String,
    /// Constraints, used if the type is `List`.
    pub default_constraints: Vec<DefaultConstraint>,
}

/// One constraint of `defaultConstraints`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultConstraint {
    /// Maximum skew, > 0.
    pub max_skew: i32,
    /// Label key of the topology.
    pub topology_key: String,
    /// Action: `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: String,
    /// Whether a selector was given, which is refused: it is derived for each pod.
    pub has_label_selector: bool,
    /// Minimum number of domains, > 0.
    pub min_domains: Option<i32>,
    /// Policy for node affinity: `Honor` or `Ignore`.
    pub node_affinity_policy: Option<String>,
    /// Policy for node taints: `Honor` or `Ignore`.
    pub node_taints_policy: Option<String>,
    /// Label keys, without effect: the derived selector replaces everything that selects.
    pub match_label_keys: Vec<String>,
}

/// Time limit for binding volumes, and how nodes are scored by storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeBindingArgs {
    /// Time limit in seconds, ≥ 0.
    pub bind_timeout_seconds: i64,
    /// The shape, if one was written, which may be empty; refused before Kubernetes 1.37 (S-137-15).
    pub shape: Option<Vec<ShapePoint>>,
}

/// Time limits of dynamic resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicResourcesArgs {
    /// Time limit of a filter call in nanoseconds, ≥ 0.
    pub filter_timeout_ns: i64,
    /// Time limit of binding in nanoseconds, ≥ 1 s.
    pub binding_timeout_ns: i64,
}

/// Former plugins of v1beta1 that are scoring strategies of NodeResourcesFit; the first was on by default.
pub(super) const STRATEGIES: [(&str, &str); 3] = [
    ("NodeResourcesLeastAllocated", "LeastAllocated"),
    ("NodeResourcesMostAllocated", "MostAllocated"),
    ("RequestedToCapacityRatio", "RequestedToCapacityRatio"),
];

/// The scoring strategy that a plugin of v1beta1 has become.
pub(super) fn strategy(plugin: &str) -> Option<&'static str> {
    STRATEGIES.iter().find(|(name, _)| *name == plugin).map(|(_, strategy)| *strategy)
}

/// Decodes the arguments of plugin `name`; errors are reported.
pub(super) fn decode(name: &str, args: Cursor<'_>, version: Version) -> PluginArgs {
    let read: fn(&mut Fields<'_>) -> PluginArgs = match name {
        "DefaultPreemption" => default_preemption,
        "InterPodAffinity" => inter_pod_affinity,
        "NodeAffinity" => node_affinity_args,
        "NodeResourcesFit" if version == Version::V1Beta1 => fit_without_strategy,
        "NodeResourcesFit" => fit,
        "NodeResourcesBalancedAllocation" => balanced_allocation,
        "PodTopologySpread" => spread,
        "VolumeBinding" => volume_binding,
        "DynamicResources" => dynamic_resources,
        "RequestedToCapacityRatio" if version == Version::V1Beta1 => ratio,
        name if version == Version::V1Beta1 && strategy(name).is_some() => allocated,
        _ => return PluginArgs::Opaque,
    };
    let read = args.object(|fields| {
        check_kind(name, fields, version);
        read(fields)
    });
    read.unwrap_or_else(|| default_of(name, version))
}

/// Default arguments of plugin `name`.
pub(super) fn default_of(name: &str, version: Version) -> PluginArgs {
    let empty = crate::document::tree::Document {
        line: 0,
        value: crate::document::tree::Value::Map(Vec::new()),
    };
    decode(name, crate::document::decode::Reader::default().root(&empty), version)
}

/// Checks `apiVersion` and `kind`, which may be absent but must not be wrong (S-CFG-3).
fn check_kind(name: &str, fields: &mut Fields<'_>, version: Version) {
    let api_version = fields.take("apiVersion", decode::text);
    let kind = fields.take("kind", decode::text);
    let expected = format!("{name}Args");
    let expected_version = version.api_version();
    let agree = api_version.as_ref().is_none_or(|version| version == expected_version)
        && kind.as_ref().is_none_or(|kind| *kind == expected);
    if !agree {
        fields.object().report(format!(
            "args for plugin {name} were not of type {expected_version}, kind={expected}, got {}, kind={}",
            api_version.unwrap_or_default(),
            kind.unwrap_or_default()
        ));
        fields.ignore_rest();
    }
}

fn default_preemption(fields: &mut Fields<'_>) -> PluginArgs {
    PluginArgs::DefaultPreemption(DefaultPreemptionArgs {
        min_candidate_nodes_percentage: fields
            .take("minCandidateNodesPercentage", decode::integer)
            .unwrap_or(10),
        min_candidate_nodes_absolute: fields
            .take("minCandidateNodesAbsolute", decode::integer)
            .unwrap_or(100),
    })
}

fn inter_pod_affinity(fields: &mut Fields<'_>) -> PluginArgs {
    PluginArgs::InterPodAffinity(InterPodAffinityArgs {
        hard_pod_affinity_weight: fields
            .take("hardPodAffinityWeight", decode::integer)
            .unwrap_or(1),
        ignore_preferred_terms_of_existing_pods: fields
            .take_or_default("ignorePreferredTermsOfExistingPods", decode::boolean),
    })
}

fn node_affinity_args(fields: &mut Fields<'_>) -> PluginArgs {
    let added_affinity = fields.take("addedAffinity", |value| value.object(node_affinity::decode));
    PluginArgs::NodeAffinity(NodeAffinityArgs { added_affinity })
}

fn fit(fields: &mut Fields<'_>) -> PluginArgs {
    let ignored_resources = fields.take_or_default("ignoredResources", decode::texts);
    let ignored_resource_groups = fields.take_or_default("ignoredResourceGroups", decode::texts);
    let strategy = fields.take("scoringStrategy", |strategy| {
        strategy.object(|fields| {
            let name = fields.take_or_default("type", decode::text);
            let resources = resources(fields);
            let shape = fields.take("requestedToCapacityRatio", |ratio| {
                ratio.object(|fields| fields.take_or_default("shape", shape))
            });
            (name, resources, shape)
        })
    });
    let (strategy, resources, shape) =
        strategy.unwrap_or_else(|| ("LeastAllocated".to_owned(), cpu_and_memory(), None));
    PluginArgs::NodeResourcesFit(FitArgs {
        ignored_resources,
        ignored_resource_groups,
        strategy,
        resources,
        shape,
    })
}

/// Reads the arguments of a version where the score was a plugin of its own.
fn fit_without_strategy(fields: &mut Fields<'_>) -> PluginArgs {
    PluginArgs::NodeResourcesFit(FitArgs {
        ignored_resources: fields.take_or_default("ignoredResources", decode::texts),
        ignored_resource_groups: fields.take_or_default("ignoredResourceGroups", decode::texts),
        ..FitArgs::scoring("LeastAllocated", cpu_and_memory(), None)
    })
}

/// Reads the arguments of a former plugin that scores by allocation; the name of the plugin says which way.
fn allocated(fields: &mut Fields<'_>) -> PluginArgs {
    PluginArgs::NodeResourcesFit(FitArgs::scoring("LeastAllocated", resources(fields), None))
}

/// Reads the arguments of the former plugin RequestedToCapacityRatio.
fn ratio(fields: &mut Fields<'_>) -> PluginArgs {
    let resources = resources(fields);
    let shape = fields.take_or_default("shape", shape);
    let args = FitArgs::scoring("RequestedToCapacityRatio", resources, Some(shape));
    PluginArgs::NodeResourcesFit(args)
}

fn balanced_allocation(fields: &mut Fields<'_>) -> PluginArgs {
    PluginArgs::NodeResourcesBalancedAllocation(resources(fields))
}

/// Reads `resources`: absent or empty means cpu and memory; weight 0 or absent means 1.
fn resources(fields: &mut Fields<'_>) -> Vec<ResourceWeight> {
    let resource = |fields: &mut Fields<'_>| ResourceWeight {
        name: fields.take_or_default("name", decode::text),
        weight: fields.take("weight", decode::integer).filter(|weight| *weight != 0).unwrap_or(1),
    };
    let resources =
        fields.take_or_default("resources", |list| list.list(|item| item.object(resource)));
    if resources.is_empty() { cpu_and_memory() } else { resources }
}

fn cpu_and_memory() -> Vec<ResourceWeight> {
    ["cpu", "memory"].map(|name| ResourceWeight { name: name.to_owned(), weight: 1 }).to_vec()
}

fn shape(list: Cursor<'_>) -> Option<Vec<ShapePoint>> {
    list.list(|item| {
        item.object(|fields| ShapePoint {
            utilization: fields.take_or_default("utilization", decode::integer),
            score: fields.take_or_default("score", decode::integer),
        })
    })
}

fn spread(fields: &mut Fields<'_>) -> PluginArgs {
    let constraint = |fields: &mut Fields<'_>| DefaultConstraint {
        max_skew: fields.take_or_default("maxSkew", decode::integer),
        topology_key: fields.take_or_default("topologyKey", decode::text),
        when_unsatisfiable: fields.take_or_default("whenUnsatisfiable", decode::text),
        has_label_selector: fields.take("labelSelector", |_| Some(())).is_some(),
        min_domains: fields.take("minDomains", decode::integer),
        node_affinity_policy: fields.take("nodeAffinityPolicy", decode::text),
        node_taints_policy: fields.take("nodeTaintsPolicy", decode::text),
        match_label_keys: fields.take_or_default("matchLabelKeys", decode::texts),
    };
    PluginArgs::PodTopologySpread(PodTopologySpreadArgs {
        defaulting_type: fields
            .take("defaultingType", decode::text)
            .unwrap_or_else(|| "System".to_owned()),
        default_constraints: fields.take_or_default("defaultConstraints", |list| {
            list.list(|item| item.object(constraint))
        }),
    })
}

fn volume_binding(fields: &mut Fields<'_>) -> PluginArgs {
    PluginArgs::VolumeBinding(VolumeBindingArgs {
        bind_timeout_seconds: fields.take("bindTimeoutSeconds", decode::integer).unwrap_or(600),
        shape: fields.take("shape", shape),
    })
}

fn dynamic_resources(fields: &mut Fields<'_>) -> PluginArgs {
    PluginArgs::DynamicResources(DynamicResourcesArgs {
        filter_timeout_ns: fields
            .take("filterTimeout", decode::nanoseconds)
            .unwrap_or(10 * SECOND_NS),
        binding_timeout_ns: fields
            .take("bindingTimeout", decode::nanoseconds)
            .unwrap_or(600 * SECOND_NS),
    })
}
