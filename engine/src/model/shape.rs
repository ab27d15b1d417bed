//! Shape: the scheduling-relevant part of a pod's spec, interned. Replicas of one workload share one shape.

use std::sync::Arc;

use berth_proto::core_v1;
use smallvec::SmallVec;

use super::ModelError;
use super::extended::ExtendedRequests;
use super::feature::FeatureSet;
use super::image;
use super::intern::{Interner, Symbol};
use super::label::Labels;
use super::pod_affinity::{PodAffinity, TermTable};
use super::port::{self, HostPorts};
use super::requests::{Options, PodRequests};
use super::resources::Resources;
use super::selector::{NodePreferences, NodeSelector};
use super::table::Table;
use super::taint::Tolerations;
use super::topology_spread::SpreadConstraints;

/// Id of a shape as long as anything refers to it; ids are never reused. Shapes that are in no table have one id.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct ShapeId(u64);

impl ShapeId {
    const APART: ShapeId = ShapeId(u64::MAX);

    /// Whether different shapes have this id, since they are in no table: nothing may be remembered by it.
    pub(crate) fn is_apart(self) -> bool {
        self == ShapeId::APART
    }
}

/// An interned spec. Two shapes of one table are equal exactly if their ids are.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) id: ShapeId,
    pub(crate) facts: ShapeFacts,
    /// Non-zero requests by name.
    pub(crate) requests: Box<[(Arc<str>, i64)]>,
}

/// Exactly those facts of a pod's spec that the rules read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ShapeFacts {
    pub(crate) scheduler_name: Arc<str>,
    pub(crate) priority: i32,
    /// Names of the scheduling gates, in spec order (S-Q-6).
    pub(crate) gates: SmallVec<[Symbol; 1]>,
    /// Request that NodeResourcesFit scores (S-RS-4).
    pub(crate) score_request: Resources,
    /// The pod's amounts on a node as long as no status differs.
    pub(crate) footprint: Footprint,
    pub(crate) tolerations: Tolerations,
    /// `spec.nodeSelector`, sorted by key symbol; `None` when absent.
    pub(crate) node_selector: Option<Box<[(Symbol, Symbol)]>>,
    pub(crate) required_affinity: Option<NodeSelector>,
    /// Preferred node affinity; `None` when no list is given, which differs from an empty one (S-NA-1).
    pub(crate) preferred_affinity: Option<NodePreferences>,
    pub(crate) host_ports: HostPorts,
    /// Normalized images of init containers, containers and image volumes; duplicates stay (S-IL-2).
    pub(crate) images: SmallVec<[Symbol; 2]>,
    /// Number of init and regular containers (S-IL-3).
    pub(crate) n_containers: u32,
    pub(crate) features: FeatureSet,
    /// Affinity to pods; `None` where the pod has none.
    pub(crate) pod_affinity: Option<Arc<PodAffinity>>,
    pub(crate) spread: SpreadConstraints,
    /// Requests for resources that devices may provide; `None` where the pod has none.
    pub(crate) extended: Option<Arc<ExtendedRequests>>,
}

/// Amounts that a pod adds to the sums of its node (S-CCH-8).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Footprint {
    pub(crate) requested: Resources,
    /// CPU with the scoring defaults for containers without requests (S-RS-3).
    pub(crate) non_zero_milli_cpu: i64,
    pub(crate) non_zero_memory: i64,
}

impl Footprint {
    /// The footprint of parsed requests, with or without the pod's status (S-FIT-5).
    pub(crate) fn of(requests: &PodRequests<'_>, use_status: bool, names: &Interner) -> Footprint {
        let options = Options { use_status, ..Options::default() };
        let non_zero = requests.total(Options { with_defaults: true, ..options }, names);
        Footprint {
            requested: requests.total(options, names),
            non_zero_milli_cpu: non_zero.milli_cpu,
            non_zero_memory: non_zero.memory,
        }
    }
}

impl ShapeFacts {
    /// Request that NodeResourcesFit checks (S-FIT-1 to S-FIT-4): the pod's amounts as long as no status differs.
    pub(crate) fn request(&self) -> &Resources {
        &self.footprint.requested
    }

    /// Compiles the relevant facts of `spec`; errors name the field.
    ///
    /// The pod's namespace and labels are part of the shape only where terms or constraints refer to them.
    pub(crate) fn compile(
        spec: &core_v1::PodSpec,
        requests: &PodRequests<'_>,
        (namespace, labels): (Symbol, &Labels),
        names: &Interner,
        terms: &TermTable,
    ) -> Result<ShapeFacts, ModelError> {
        let node_affinity = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
        let required = node_affinity
            .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
        let preferred =
            node_affinity.map(|a| &a.preferred_during_scheduling_ignored_during_execution);
        let score_options =
            Options { with_defaults: true, skip_pod_level: true, ..Options::default() };
        let scheduler_name =
            if spec.scheduler_name.is_empty() { "default-scheduler" } else { &spec.scheduler_name };
        let footprint = Footprint::of(requests, false, names);
        Ok(ShapeFacts {
            scheduler_name: scheduler_name.into(),
            priority: spec.priority.unwrap_or(0),
            gates: spec.scheduling_gates.iter().map(|gate| names.intern(&gate.name)).collect(),
            score_request: requests.total(score_options, names),
            footprint,
            tolerations: Tolerations::compile(&spec.tolerations, names)?,
            node_selector: compile_node_selector(spec, names),
            required_affinity: required.map(|selector| NodeSelector::compile(selector, names)),
            preferred_affinity: preferred
                .filter(|terms| !terms.is_empty())
                .map(|terms| NodePreferences::compile(terms, names))
                .transpose()
                .map_err(|error| error.under("spec.affinity.nodeAffinity"))?,
            host_ports: port::compile(spec, names)?,
            images: compile_images(spec, names),
            n_containers: u32::try_from(spec.containers.len() + spec.init_containers.len())
                .unwrap_or(u32::MAX),
            features: FeatureSet::required(spec),
            pod_affinity: spec
                .affinity
                .as_ref()
                .and_then(|affinity| PodAffinity::compile(affinity, namespace, names, terms))
                .map(Arc::new),
            spread: SpreadConstraints::compile(&spec.topology_spread_constraints, labels, names)?,
            extended: ExtendedRequests::compile(spec, names),
        })
    }
}

fn compile_node_selector(
    spec: &core_v1::PodSpec,
    names: &Interner,
) -> Option<Box<[(Symbol, Symbol)]>> {
    if spec.node_selector.is_empty() {
        return None;
    }
    let mut pairs: Vec<_> = spec
        .node_selector
        .iter()
        .map(|(key, value)| (names.intern(key), names.intern(value)))
        .collect();
    pairs.sort_unstable();
    Some(pairs.into())
}

fn compile_images(spec: &core_v1::PodSpec, names: &Interner) -> SmallVec<[Symbol; 2]> {
    let containers = spec.init_containers.iter().chain(&spec.containers).map(|c| c.image.as_str());
    let volumes = spec
        .volumes
        .iter()
        .filter_map(|volume| volume.volume_source.as_ref()?.image.as_ref())
        .map(|source| source.reference.as_str());
    let mut images: SmallVec<[Symbol; 2]> =
        containers.chain(volumes).map(|name| names.intern(&image::normalized(name))).collect();
    images.sort_unstable();
    images
}

/// Interned shapes of all pods.
pub(crate) type ShapeTable = Table<ShapeFacts, Shape>;

impl Shape {
    /// A shape that is in no table, so that no evaluation of it is remembered.
    pub(crate) fn apart(facts: ShapeFacts, names: &Interner) -> Shape {
        Shape::new(ShapeId::APART.0, facts, names)
    }

    pub(crate) fn new(id: u64, facts: ShapeFacts, names: &Interner) -> Shape {
        let requests = facts.request().listed(names).into();
        Shape { id: ShapeId(id), facts, requests }
    }
}

#[cfg(test)]
mod tests {
    use berth_proto::{Quantity, core_v1, meta_v1};

    use crate::model::table::SWEEP_MINIMUM;
    use crate::model::{Model, Pod};

    fn pod(model: &Model, memory: usize) -> Pod {
        let mut resources = core_v1::ResourceRequirements::default();
        resources.requests.insert("memory".into(), Quantity::new(memory.to_string()));
        let container =
            core_v1::Container { resources: Some(resources), ..core_v1::Container::default() };
        let metadata = meta_v1::ObjectMeta { name: "p".into(), ..Default::default() };
        let spec = core_v1::PodSpec { containers: vec![container], ..Default::default() };
        let pod = core_v1::Pod { metadata: Some(metadata), spec: Some(spec), status: None };
        Pod::compile(&pod, model).unwrap()
    }

    #[test]
    fn replicas_share_a_shape_and_unused_shapes_are_forgotten() {
        let model = Model::new();
        let kept = pod(&model, 1);
        for memory in 0..3 * SWEEP_MINIMUM {
            pod(&model, 10 + memory);
            assert!(model.shapes().len() <= SWEEP_MINIMUM);
        }
        assert!(std::sync::Arc::ptr_eq(kept.shape(), pod(&model, 1).shape()));
        let held: Vec<Pod> = (0..2 * SWEEP_MINIMUM).map(|i| pod(&model, 1_000_000 + i)).collect();
        assert!(model.shapes().len() >= held.len());
    }
}
