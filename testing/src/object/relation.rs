//! Words of a pod that relate it to other pods and to volumes.

use berth_proto::core_v1::{
    EphemeralVolumeSource, GcePersistentDiskVolumeSource, PersistentVolumeClaimVolumeSource,
    PodAffinityTerm, PodSpec, TopologySpreadConstraint, Volume, VolumeSource,
    WeightedPodAffinityTerm,
};
use berth_proto::meta_v1::{LabelSelector, LabelSelectorRequirement};

/// Takes the word if it is one of `spread=KEY,MAX_SKEW,ACTION,SELECTOR[,MIN_DOMAINS]`,
/// `near=KEY,SELECTOR[,NAMESPACES]`, `far=…`, `prefer-near=WEIGHT,KEY,SELECTOR`, `prefer-far=…`, `claim=CLAIM`,
/// `ephemeral=VOLUME`, `disk=NAME`, `read-only-disk=NAME`. `SELECTOR` and `NAMESPACES` are selectors.
pub(super) fn read(spec: &mut PodSpec, key: &str, value: &str) -> bool {
    let words: Vec<&str> = value.split(',').collect();
    match key {
        "spread" => spec.topology_spread_constraints.push(constraint(&words)),
        "near" => {
            let near = spec.affinity.get_or_insert_default().pod_affinity.get_or_insert_default();
            near.required_during_scheduling_ignored_during_execution.push(term(&words));
        }
        "far" => {
            let far =
                spec.affinity.get_or_insert_default().pod_anti_affinity.get_or_insert_default();
            far.required_during_scheduling_ignored_during_execution.push(term(&words));
        }
        "prefer-near" => {
            let near = spec.affinity.get_or_insert_default().pod_affinity.get_or_insert_default();
            near.preferred_during_scheduling_ignored_during_execution.push(weighted(&words));
        }
        "prefer-far" => {
            let far =
                spec.affinity.get_or_insert_default().pod_anti_affinity.get_or_insert_default();
            far.preferred_during_scheduling_ignored_during_execution.push(weighted(&words));
        }
        "claim" | "ephemeral" | "disk" | "read-only-disk" => spec.volumes.push(volume(key, value)),
        _ => return false,
    }
    true
}

fn constraint(words: &[&str]) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        topology_key: words[0].to_owned(),
        max_skew: words[1].parse().expect("a skew"),
        when_unsatisfiable: words[2].to_owned(),
        label_selector: selector(words[3]),
        min_domains: words.get(4).map(|n| n.parse().expect("a number of domains")),
        ..TopologySpreadConstraint::default()
    }
}

fn term(words: &[&str]) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: words[0].to_owned(),
        label_selector: selector(words[1]),
        namespace_selector: words.get(2).and_then(|text| selector(text)),
        ..PodAffinityTerm::default()
    }
}

fn weighted(words: &[&str]) -> WeightedPodAffinityTerm {
    let weight = words[0].parse().expect("a weight");
    WeightedPodAffinityTerm { weight, pod_affinity_term: Some(term(&words[1..])) }
}

/// Parses a selector: `-` is absent, `*` empty, `KEY:VALUE` an equality, `KEY:OPERATOR[:VALUE…]` an expression.
fn selector(text: &str) -> Option<LabelSelector> {
    let words: Vec<&str> = text.split(':').collect();
    let owned = |text: &str| text.to_owned();
    let mut selector = LabelSelector::default();
    match words[..] {
        ["-"] => return None,
        ["*"] => {}
        [key, operator @ ("In" | "NotIn" | "Exists" | "DoesNotExist"), ref values @ ..] => {
            selector.match_expressions.push(LabelSelectorRequirement {
                key: owned(key),
                operator: owned(operator),
                values: values.iter().map(|value| owned(value)).collect(),
            });
        }
        [key, value] => drop(selector.match_labels.insert(owned(key), owned(value))),
        _ => panic!("`{text}` is not a selector"),
    }
    Some(selector)
}

/// Builds a volume; an ephemeral one has a name, others need none.
fn volume(kind: &str, name: &str) -> Volume {
    let mut source = VolumeSource::default();
    let owned = name.to_owned();
    let disk = |read_only| {
        let pd_name = name.to_owned();
        Some(GcePersistentDiskVolumeSource { pd_name, read_only, ..Default::default() })
    };
    match kind {
        "claim" => {
            let claim =
                PersistentVolumeClaimVolumeSource { claim_name: owned, ..Default::default() };
            source.persistent_volume_claim = Some(claim);
        }
        "ephemeral" => source.ephemeral = Some(EphemeralVolumeSource::default().into()),
        "disk" => source.gce_persistent_disk = disk(false),
        _ => source.gce_persistent_disk = disk(true),
    }
    let name = if kind == "ephemeral" { name } else { "" }.to_owned();
    Volume { name, volume_source: Some(source) }
}
