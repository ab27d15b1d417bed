//! Tests of S-CFG-5 to S-CFG-8, one table each. Sets are written as `POINT: +Enabled=WEIGHT -Disabled`.

use super::*;

fn sets(text: &str) -> BTreeMap<ExtensionPoint, PluginSet> {
    let mut sets: BTreeMap<ExtensionPoint, PluginSet> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (field, plugins) = line.trim().split_once(':').expect("POINT: …");
        let point = ExtensionPoint::ALL
            .into_iter()
            .find(|point| point.field() == field)
            .expect("a known point");
        for plugin in plugins.split_whitespace() {
            let (name, weight) = plugin[1..].split_once('=').unwrap_or((&plugin[1..], ""));
            let plugin_ref = PluginRef { name: name.to_owned(), weight: weight.parse().ok() };
            let set = sets.entry(point).or_default();
            if plugin.starts_with('+') {
                set.enabled.push(plugin_ref)
            } else {
                set.disabled.push(plugin_ref)
            }
        }
    }
    sets
}

fn check(text: &str, point: ExtensionPoint, expected: &str) {
    let expanded = expand("s", &sets(text)).unwrap();
    let got: Vec<&str> = expanded.at(point).iter().map(|plugin| plugin.name()).collect();
    assert_eq!(got.join(" "), expected, "{text}");
}

fn check_error(text: &str, expected: &str) {
    assert_eq!(expand("s", &sets(text)).unwrap_err().reason, expected, "{text}");
}

#[test]
fn the_default_lists_are_those_of_the_engine() {
    let expanded = expand("s", &BTreeMap::new()).unwrap();
    let spec = PolicySpec::default();
    assert_eq!(expanded.at(ExtensionPoint::PreEnqueue), spec.pre_enqueue);
    assert_eq!(expanded.at(ExtensionPoint::PreFilter), spec.pre_filter);
    assert_eq!(expanded.at(ExtensionPoint::Filter), spec.filter);
    assert_eq!(expanded.at(ExtensionPoint::PostFilter), spec.post_filter);
    assert_eq!(expanded.at(ExtensionPoint::PreScore), spec.pre_score);
    let score: Vec<(Plugin, i64)> = expanded
        .at(ExtensionPoint::Score)
        .iter()
        .map(|plugin| (*plugin, expanded.weight(*plugin)))
        .collect();
    assert_eq!(score, spec.score);
    assert_eq!(
        expanded.at(ExtensionPoint::Reserve),
        [Plugin::VolumeBinding, Plugin::DynamicResources]
    );
    assert_eq!(expanded.at(ExtensionPoint::QueueSort), [Plugin::PrioritySort]);
    assert_eq!(expanded.at(ExtensionPoint::Bind), [Plugin::DefaultBinder]);
}

#[test]
fn multi_point_merges_with_the_defaults() {
    let least = "+PrioritySort +DefaultBinder";
    // Everything is disabled: only the enabled plugins remain, in the order written (S-CFG-5).
    check(
        &format!("multiPoint: -* +NodeName +NodeUnschedulable {least}"),
        ExtensionPoint::Filter,
        "NodeName NodeUnschedulable",
    );
    // A default's name is replaced in place, so the order stays; its weight is the new one.
    let text = "multiPoint: +ImageLocality=7 +TaintToleration=9";
    check(
        text,
        ExtensionPoint::Score,
        "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity \
         DynamicResources NodeResourcesBalancedAllocation ImageLocality",
    );
    let expanded = expand("s", &sets(text)).unwrap();
    assert_eq!(expanded.weight(Plugin::ImageLocality), 7);
    assert_eq!(expanded.weight(Plugin::TaintToleration), 9);
    // Disabled and enabled again: appended, not in place.
    check(
        "multiPoint: -NodeUnschedulable -NodeName +NodeUnschedulable\npreFilter: -*",
        ExtensionPoint::Filter,
        "TaintToleration NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding \
         VolumeZone PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures NodeUnschedulable",
    );
}

#[test]
fn specific_points_override_multi_point() {
    let base = "multiPoint: -* +NodeUnschedulable +NodeName +NodePorts +TaintToleration +PrioritySort +DefaultBinder\n";
    // Part 1: specific plugins that multiPoint has too, in their own order; part 2: the rest of multiPoint (S-CFG-6).
    check(
        &format!("{base}filter: +TaintToleration +NodeName"),
        ExtensionPoint::Filter,
        "TaintToleration NodeName NodeUnschedulable NodePorts",
    );
    // Part 3: specific plugins that multiPoint does not have.
    check(
        &format!("{base}filter: +NodeAffinity +NodePorts"),
        ExtensionPoint::Filter,
        "NodePorts NodeUnschedulable NodeName TaintToleration NodeAffinity",
    );
    // Disabled at the point: neither expanded nor overriding, but still in the specific list.
    check(
        &format!("{base}filter: -NodeName -NodePorts +NodePorts"),
        ExtensionPoint::Filter,
        "NodeUnschedulable TaintToleration NodePorts",
    );
    check(&format!("{base}filter: -* +NodePorts"), ExtensionPoint::Filter, "NodePorts");
    check(&format!("{base}filter: -*"), ExtensionPoint::Filter, "");
    check(&format!("{base}filter: -*"), ExtensionPoint::PreFilter, "NodePorts");
}

#[test]
fn weights_come_from_score_then_from_multi_point_and_are_never_0() {
    let expanded =
        expand("s", &sets("multiPoint: +NodeAffinity=5 +ImageLocality=0\nscore: +NodeAffinity=8"))
            .unwrap();
    assert_eq!(expanded.weight(Plugin::NodeAffinity), 8);
    assert_eq!(expanded.weight(Plugin::ImageLocality), 1);
    assert_eq!(expanded.weight(Plugin::VolumeBinding), 1);
    let expanded = expand("s", &sets("multiPoint: +NodeAffinity=5\nscore: +NodeAffinity")).unwrap();
    assert_eq!(
        expanded.weight(Plugin::NodeAffinity),
        1,
        "an entry at Score without a weight means 1"
    );
}

#[test]
fn errors_at_build() {
    check_error("filter: +Nope", "FilterPlugin \"Nope\" does not exist");
    check_error("multiPoint: +Nope", "PreFilterPlugin \"Nope\" does not exist");
    check_error("score: +NodeName", "plugin \"NodeName\" does not extend ScorePlugin plugin");
    check_error("permit: +NodeName", "plugin \"NodeName\" does not extend PermitPlugin plugin");
    check_error(
        "filter: +NodeName +NodeName",
        "plugin \"NodeName\" already registered as \"FilterPlugin\"",
    );
    check_error(
        "multiPoint: +NodeName +NodeName",
        "plugin \"NodeName\" already registered as \"FilterPlugin\"",
    );
    check_error(
        "queueSort: -*",
        "only one queue sort plugin required for profile with scheduler name \"s\", but got 0",
    );
    check_error(
        "bind: -*",
        "at least one bind plugin is needed for profile with scheduler name \"s\"",
    );
}

#[test]
fn errors_name_the_entry() {
    let check = |text: &str, expected: &str| {
        let sets = sets(text);
        assert_eq!(expand("s", &sets).unwrap_err().field(&sets), expected, "{text}");
    };
    check("filter: +NodeName +Nope", "filter.enabled[1].name");
    check("multiPoint: +NodeName +Nope", "multiPoint.enabled[1].name");
    check("score: +ImageLocality +NodeName", "score.enabled[1].name");
    check("filter: +NodeName +NodePorts +NodeName", "filter.enabled[2].name");
    check("multiPoint: +NodeName +NodeName", "multiPoint.enabled[1].name");
    check("bind: -*", "bind");
}

#[test]
fn a_plugin_of_no_use_at_any_point_is_not_needed() {
    let expanded = expand("s", &sets("multiPoint: -NodeResourcesFit")).unwrap();
    assert!(!expanded.is_needed(Plugin::NodeResourcesFit));
    assert!(expanded.is_needed(Plugin::NodeName));
}
