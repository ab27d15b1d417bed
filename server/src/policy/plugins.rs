//! Plugin sets: merges a profile's lists with the default one, and expands the result for each extension point.
//! Rules: S-CFG-5 (merge), S-CFG-6 (expansion and order), S-CFG-7 (errors), S-CFG-8 (weights).

use berth_engine::{Plugin, PolicySpec};
use std::collections::BTreeMap;

/// A profile's plugin lists at one extension point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginSet {
    /// Plugins to add to the default ones, or to replace them in place.
    pub enabled: Vec<PluginRef>,
    /// Plugins to remove from the default ones; `*` stands for all of them.
    pub disabled: Vec<PluginRef>,
}

/// A plugin by name, with a weight that is only used at Score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginRef {
    /// Name as written, known or not.
    pub name: String,
    /// Weight as written; absent and 0 mean 1 (S-CFG-8).
    pub weight: Option<i32>,
}

macro_rules! extension_points {
    ($($name:ident, $field:literal, $type:literal;)+) => {
        /// A place in the scheduling cycle where plugins run, or `multiPoint`, which stands for all of them.
        #[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ExtensionPoint {
            $(#[doc = concat!("`", $field, "`")] $name,)+
        }

        impl ExtensionPoint {
            /// All extension points, in the order in which kube-scheduler fills them: the first error is reported.
            pub const ALL: [ExtensionPoint; 15] = [$(ExtensionPoint::$name),+];

            /// Name of the field in `profiles[].plugins`.
            pub fn field(self) -> &'static str {
                match self { $(ExtensionPoint::$name => $field,)+ }
            }

            /// Name in error messages of the plugins of this point.
            pub fn type_name(self) -> &'static str {
                match self { $(ExtensionPoint::$name => $type,)+ }
            }
        }
    };
}

extension_points! {
    MultiPoint, "multiPoint", "Plugin";
    PreFilter, "preFilter", "PreFilterPlugin";
    Filter, "filter", "FilterPlugin";
    PostFilter, "postFilter", "PostFilterPlugin";
    Reserve, "reserve", "ReservePlugin";
    PreScore, "preScore", "PreScorePlugin";
    Score, "score", "ScorePlugin";
    PreBind, "preBind", "PreBindPlugin";
    Bind, "bind", "BindPlugin";
    PostBind, "postBind", "PostBindPlugin";
    Permit, "permit", "PermitPlugin";
    PreEnqueue, "preEnqueue", "PreEnqueuePlugin";
    QueueSort, "queueSort", "QueueSortPlugin";
    PlacementGenerate, "placementGenerate", "PlacementGeneratePlugin";
    PlacementScore, "placementScore", "PlacementScorePlugin";
}

/// The plugins of a profile at every extension point, in effective order.
#[derive(Clone, Debug)]
pub struct Expanded {
    by_point: BTreeMap<ExtensionPoint, Vec<Plugin>>,
    weights: BTreeMap<Plugin, i64>,
}

impl Expanded {
    /// The plugins at `point`, in order.
    pub fn at(&self, point: ExtensionPoint) -> &[Plugin] {
        self.by_point.get(&point).map_or(&[], Vec::as_slice)
    }

    /// The weight of a plugin at Score: at least 1, unless a negative one was written, which building refuses.
    pub fn weight(&self, plugin: Plugin) -> i64 {
        self.weights.get(&plugin).copied().unwrap_or(1)
    }

    /// Whether the plugin runs at some point, so that its arguments matter.
    pub fn is_needed(&self, plugin: Plugin) -> bool {
        self.by_point.values().any(|plugins| plugins.contains(&plugin))
    }
}

/// Reason why a profile's plugin sets cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpandError {
    /// The extension point at which the error shows.
    pub point: ExtensionPoint,
    /// Name of the plugin, if one entry is at fault.
    pub plugin: Option<String>,
    /// kube-scheduler's error message.
    pub reason: String,
}

impl ExpandError {
    /// Path of the entry at fault, below `profiles[i].plugins`: in the point's own list or, if it is not there, in that
    /// of `multiPoint`; of several entries with the name, the last.
    pub fn field(&self, sets: &BTreeMap<ExtensionPoint, PluginSet>) -> String {
        let Some(name) = &self.plugin else {
            return self.point.field().to_owned();
        };
        let entry = [self.point, ExtensionPoint::MultiPoint].into_iter().find_map(|point| {
            let index =
                sets.get(&point)?.enabled.iter().rposition(|plugin| plugin.name == *name)?;
            Some(format!("{}.enabled[{index}].name", point.field()))
        });
        entry.unwrap_or_else(|| self.point.field().to_owned())
    }
}

/// Merges a profile's sets with the default ones and expands them (S-CFG-5, S-CFG-6).
///
/// The error is the first that kube-scheduler would return: an unknown plugin, one at a point that it does not
/// implement, one twice at a point, not exactly one queue sort plugin, or no bind plugin (S-CFG-7).
pub fn expand(
    scheduler_name: &str,
    sets: &BTreeMap<ExtensionPoint, PluginSet>,
) -> Result<Expanded, ExpandError> {
    let none = PluginSet::default();
    let custom = |point| sets.get(&point).unwrap_or(&none);
    let multi_point = merge(default_multi_point(), custom(ExtensionPoint::MultiPoint));
    let mut by_point = BTreeMap::new();
    for point in points() {
        let specific = specific_plugins(point, &merge(Vec::new(), custom(point)))?;
        by_point.insert(point, specific);
    }
    for point in points() {
        let specific = by_point.remove(&point).unwrap_or_default();
        by_point.insert(
            point,
            with_multi_point(point, &specific, &multi_point, &custom(point).disabled)?,
        );
    }
    let count = |point| by_point.get(&point).map_or(0, Vec::len);
    if count(ExtensionPoint::QueueSort) != 1 {
        let reason = format!(
            "only one queue sort plugin required for profile with scheduler name \"{scheduler_name}\", but got {}",
            count(ExtensionPoint::QueueSort)
        );
        return Err(ExpandError { point: ExtensionPoint::QueueSort, plugin: None, reason });
    }
    if count(ExtensionPoint::Bind) == 0 {
        let reason = format!(
            "at least one bind plugin is needed for profile with scheduler name \"{scheduler_name}\""
        );
        return Err(ExpandError { point: ExtensionPoint::Bind, plugin: None, reason });
    }
    let mut weights = BTreeMap::new();
    // Score entries come first: the weight given there wins over multiPoint's (S-CFG-8).
    for entry in custom(ExtensionPoint::Score).enabled.iter().chain(&multi_point) {
        if let Some(plugin) = Plugin::from_name(&entry.name) {
            let weight = entry.weight.filter(|weight| *weight != 0).unwrap_or(1);
            weights.entry(plugin).or_insert(i64::from(weight));
        }
    }
    Ok(Expanded { by_point, weights })
}

/// The default list with the default score weights (S-PLG-1).
fn default_multi_point() -> Vec<PluginRef> {
    let scores = PolicySpec::default().score;
    let weight = |plugin| {
        scores
            .iter()
            .find(|(scored, _)| *scored == plugin)
            .and_then(|(_, w)| i32::try_from(*w).ok())
    };
    Plugin::ALL
        .into_iter()
        .map(|plugin| PluginRef { name: plugin.name().to_owned(), weight: weight(plugin) })
        .collect()
}

/// Merges the lists: the defaults without the disabled ones, with custom entries in place of defaults of their name,
/// then the other custom entries (S-CFG-5). Of two custom entries with a default's name the last replaces it and the
/// first is appended.
fn merge(defaults: Vec<PluginRef>, custom: &PluginSet) -> Vec<PluginRef> {
    let disabled = |name: &str| custom.disabled.iter().any(|plugin| plugin.name == name);
    let mut replaced = vec![false; custom.enabled.len()];
    let mut merged = Vec::new();
    if !disabled("*") {
        for default in defaults {
            if disabled(&default.name) {
                continue;
            }
            match custom.enabled.iter().rposition(|plugin| plugin.name == default.name) {
                Some(index) => {
                    replaced[index] = true;
                    merged.push(custom.enabled[index].clone());
                }
                None => merged.push(default),
            }
        }
    }
    merged.extend(
        custom
            .enabled
            .iter()
            .zip(&replaced)
            .filter(|(_, replaced)| !**replaced)
            .map(|(p, _)| p.clone()),
    );
    merged
}

fn points() -> impl Iterator<Item = ExtensionPoint> {
    ExtensionPoint::ALL.into_iter().filter(|point| *point != ExtensionPoint::MultiPoint)
}

fn blame(point: ExtensionPoint, name: &str, reason: String) -> ExpandError {
    ExpandError { point, plugin: Some(name.to_owned()), reason }
}

fn known(point: ExtensionPoint, name: &str) -> Result<Plugin, ExpandError> {
    Plugin::from_name(name).ok_or_else(|| {
        blame(point, name, format!("{} \"{name}\" does not exist", point.type_name()))
    })
}

fn twice(point: ExtensionPoint, plugin: Plugin) -> ExpandError {
    let reason = format!("plugin \"{plugin}\" already registered as \"{}\"", point.type_name());
    blame(point, plugin.name(), reason)
}

/// The plugins that a profile enables at `point` itself, checked.
fn specific_plugins(
    point: ExtensionPoint,
    enabled: &[PluginRef],
) -> Result<Vec<Plugin>, ExpandError> {
    let mut plugins = Vec::with_capacity(enabled.len());
    for entry in enabled {
        let plugin = known(point, &entry.name)?;
        if !implements(plugin, point) {
            let reason =
                format!("plugin \"{plugin}\" does not extend {} plugin", point.type_name());
            return Err(blame(point, &entry.name, reason));
        }
        if plugins.contains(&plugin) {
            return Err(twice(point, plugin));
        }
        plugins.push(plugin);
    }
    Ok(plugins)
}

/// Adds the plugins of multiPoint (S-CFG-6): overriding entries in their own order, then those of multiPoint, then the
/// rest of the specific list.
fn with_multi_point(
    point: ExtensionPoint,
    specific: &[Plugin],
    multi_point: &[PluginRef],
    disabled: &[PluginRef],
) -> Result<Vec<Plugin>, ExpandError> {
    let is_disabled = |name: &str| disabled.iter().any(|plugin| plugin.name == name);
    if is_disabled("*") {
        return Ok(specific.to_vec());
    }
    let mut overriding = Vec::new();
    let mut added = Vec::new();
    for entry in multi_point {
        let plugin = known(point, &entry.name)?;
        if !implements(plugin, point) || is_disabled(&entry.name) {
            continue;
        }
        if specific.contains(&plugin) {
            overriding.push(plugin);
        } else if added.contains(&plugin) {
            return Err(twice(point, plugin));
        } else {
            added.push(plugin);
        }
    }
    let (first, last): (Vec<Plugin>, Vec<Plugin>) =
        specific.iter().partition(|plugin| overriding.contains(plugin));
    Ok(first.into_iter().chain(added).chain(last).collect())
}

/// Whether the plugin implements the extension point (1.3, with Reserve, PreBind and Bind from S-CYC-8).
fn implements(plugin: Plugin, point: ExtensionPoint) -> bool {
    use ExtensionPoint::{
        Bind, Filter, PostFilter, PreBind, PreEnqueue, PreFilter, PreScore, QueueSort, Reserve,
        Score,
    };
    let points: &[ExtensionPoint] = match plugin {
        Plugin::SchedulingGates => &[PreEnqueue],
        Plugin::PrioritySort => &[QueueSort],
        Plugin::NodeUnschedulable | Plugin::NodeName => &[Filter],
        Plugin::TaintToleration => &[Filter, PreScore, Score],
        Plugin::NodeAffinity
        | Plugin::NodeResourcesFit
        | Plugin::PodTopologySpread
        | Plugin::InterPodAffinity => &[PreFilter, Filter, PreScore, Score],
        Plugin::NodePorts
        | Plugin::VolumeRestrictions
        | Plugin::NodeVolumeLimits
        | Plugin::VolumeZone
        | Plugin::NodeDeclaredFeatures => &[PreFilter, Filter],
        Plugin::VolumeBinding => &[PreFilter, Filter, Reserve, PreBind, PreScore, Score],
        Plugin::DynamicResources => {
            &[PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind]
        }
        Plugin::DefaultPreemption => &[PreEnqueue, PostFilter],
        Plugin::NodeResourcesBalancedAllocation => &[PreScore, Score],
        Plugin::ImageLocality => &[Score],
        Plugin::DefaultBinder => &[Bind],
    };
    points.contains(&point)
}

#[cfg(test)]
mod tests;
