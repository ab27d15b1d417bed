//! Reads a recorded KubeSchedulerConfiguration into one profile, merged in the simplest way.
//! Rules: S-CFG-5, S-CFG-6, S-CFG-8, section 10.4.

use berth_engine::{
    DefaultConstraint, Plugin, PolicySpec, ResourceWeight, ScoringStrategy, ShapePoint,
    SpreadDefaulting, WhenUnsatisfiable,
};
use serde_json::Value;

/// Plugins in order, each with its configured weight.
type Plugins = Vec<(Plugin, i64)>;

pub(crate) fn spec(config: &Value) -> PolicySpec {
    let defaults = PolicySpec::default();
    if config.is_null() {
        return defaults;
    }
    let profile = &config["profiles"][0];
    let given = &profile["plugins"];
    let multi_point = merged(&default_plugins(), &given["multiPoint"]);
    let at =
        |point: &str, implementing: &[Plugin]| expanded(&multi_point, &given[point], implementing);
    let plain = |point: &str, implementing: &[Plugin]| {
        at(point, implementing).into_iter().map(|(plugin, _)| plugin).collect::<Vec<_>>()
    };
    let scoring: Vec<Plugin> = defaults.score.iter().map(|(plugin, _)| *plugin).collect();
    let score = at("score", &scoring).into_iter().map(|(plugin, weight)| (plugin, weight.max(1)));
    let mut spec = PolicySpec {
        pre_enqueue: plain("preEnqueue", &defaults.pre_enqueue),
        pre_filter: plain("preFilter", &defaults.pre_filter),
        filter: plain("filter", &defaults.filter),
        post_filter: plain("postFilter", &defaults.post_filter),
        pre_score: plain("preScore", &defaults.pre_score),
        score: score.collect(),
        ..defaults
    };
    for config in list(&profile["pluginConfig"]) {
        args(&mut spec, config["name"].as_str().expect("a name"), &config["args"]);
    }
    spec
}

/// Returns every plugin with its default weight, 0 if it has none.
fn default_plugins() -> Plugins {
    let weights = PolicySpec::default().score;
    let weight = |plugin: Plugin| weights.iter().find(|(p, _)| *p == plugin).map_or(0, |(_, w)| *w);
    Plugin::ALL.into_iter().map(|plugin| (plugin, weight(plugin))).collect()
}

/// S-CFG-5
fn merged(defaults: &Plugins, given: &Value) -> Plugins {
    let (enabled, disabled) = (enabled(given), disabled(given));
    let is_disabled = |plugin: Plugin| disabled.contains(&"*") || disabled.contains(&plugin.name());
    let kept: Plugins =
        defaults.iter().filter(|(plugin, _)| !is_disabled(*plugin)).copied().collect();
    let given_weight =
        |plugin: Plugin| enabled.iter().find(|(p, _)| *p == plugin).map(|(_, weight)| *weight);
    let mut merged: Plugins = kept
        .iter()
        .map(|(plugin, weight)| (*plugin, given_weight(*plugin).unwrap_or(*weight)))
        .collect();
    merged.extend(enabled.iter().filter(|(plugin, _)| !kept.iter().any(|(p, _)| p == plugin)));
    merged
}

/// S-CFG-6
fn expanded(multi_point: &Plugins, given: &Value, implementing: &[Plugin]) -> Plugins {
    let (enabled, disabled) = (enabled(given), disabled(given));
    let is_in = |plugins: &Plugins, plugin: Plugin| plugins.iter().any(|(p, _)| *p == plugin);
    let is_disabled = |plugin: Plugin| disabled.contains(&"*") || disabled.contains(&plugin.name());
    let (first, last): (Plugins, Plugins) =
        enabled.iter().copied().partition(|(plugin, _)| is_in(multi_point, *plugin));
    let middle = multi_point.iter().filter(|(plugin, _)| {
        implementing.contains(plugin) && !is_disabled(*plugin) && !is_in(&enabled, *plugin)
    });
    first.into_iter().chain(middle.copied()).chain(last).collect()
}

fn enabled(given: &Value) -> Plugins {
    let of = |entry: &Value| (plugin(&entry["name"]), entry["weight"].as_i64().unwrap_or(0));
    list(&given["enabled"]).iter().map(of).collect()
}

fn disabled(given: &Value) -> Vec<&str> {
    list(&given["disabled"]).iter().map(|entry| entry["name"].as_str().expect("a name")).collect()
}

fn plugin(name: &Value) -> Plugin {
    let name = name.as_str().expect("a name");
    Plugin::from_name(name).unwrap_or_else(|| panic!("`{name}` is a plugin"))
}

/// Section 10.4
fn args(spec: &mut PolicySpec, plugin: &str, args: &Value) {
    match plugin {
        "NodeAffinity" => {
            let added = args.get("addedAffinity").cloned();
            spec.node_affinity.added_affinity =
                added.map(|added| serde_json::from_value(added).expect("a node affinity"));
        }
        "NodeResourcesFit" => {
            let names = |field: &str| list(&args[field]).iter().map(text).collect::<Vec<_>>();
            spec.node_resources_fit.ignored_resources = names("ignoredResources");
            spec.node_resources_fit.ignored_resource_groups = names("ignoredResourceGroups");
            spec.node_resources_fit.scoring = scoring(&args["scoringStrategy"]);
        }
        "NodeResourcesBalancedAllocation" => {
            let resources = list(&args["resources"]).iter().map(|resource| text(&resource["name"]));
            spec.balanced_allocation.resources = resources.collect();
        }
        "PodTopologySpread" => {
            let list = list(&args["defaultConstraints"]).iter().map(default_constraint).collect();
            spec.pod_topology_spread.defaulting = match args["defaultingType"].as_str() {
                Some("List") => SpreadDefaulting::List(list),
                _ => SpreadDefaulting::System,
            };
        }
        "InterPodAffinity" => {
            let args_of = &mut spec.inter_pod_affinity;
            if let Some(weight) = args["hardPodAffinityWeight"].as_i64() {
                args_of.hard_pod_affinity_weight = i32::try_from(weight).expect("a weight");
            }
            args_of.ignore_preferred_terms_of_existing_pods =
                args["ignorePreferredTermsOfExistingPods"].as_bool().unwrap_or(false);
        }
        other => panic!("arguments of `{other}` are not read here"),
    }
}

fn default_constraint(constraint: &Value) -> DefaultConstraint {
    let number = |field: &str| constraint[field].as_i64().map(|n| i32::try_from(n).expect("small"));
    DefaultConstraint {
        max_skew: number("maxSkew").expect("a skew"),
        topology_key: text(&constraint["topologyKey"]),
        when_unsatisfiable: match constraint["whenUnsatisfiable"].as_str() {
            Some("DoNotSchedule") => WhenUnsatisfiable::DoNotSchedule,
            Some("ScheduleAnyway") => WhenUnsatisfiable::ScheduleAnyway,
            other => panic!("`{other:?}` is not an action"),
        },
        min_domains: number("minDomains"),
        honors_affinity: constraint["nodeAffinityPolicy"].as_str() != Some("Ignore"),
        honors_taints: constraint["nodeTaintsPolicy"].as_str() == Some("Honor"),
    }
}

fn scoring(strategy: &Value) -> ScoringStrategy {
    let weighted = |resource: &Value| ResourceWeight {
        name: text(&resource["name"]),
        weight: resource["weight"].as_i64().unwrap_or(0).max(1),
    };
    let mut resources: Vec<_> = list(&strategy["resources"]).iter().map(weighted).collect();
    if resources.is_empty() {
        let default = |name: &str| ResourceWeight { name: name.to_owned(), weight: 1 };
        resources = vec![default("cpu"), default("memory")];
    }
    let point = |point: &Value| ShapePoint {
        utilization: point["utilization"].as_i64().unwrap_or(0),
        score: point["score"].as_i64().unwrap_or(0),
    };
    match strategy["type"].as_str() {
        Some("MostAllocated") => ScoringStrategy::MostAllocated { resources },
        Some("RequestedToCapacityRatio") => {
            let shape = list(&strategy["requestedToCapacityRatio"]["shape"]).iter().map(point);
            ScoringStrategy::RequestedToCapacityRatio { resources, shape: shape.collect() }
        }
        _ => ScoringStrategy::LeastAllocated { resources },
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}
