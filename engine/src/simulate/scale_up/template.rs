//! Template: the nodes that a group would add, one after another. Rule: S-CAS-6.

use std::sync::Arc;

use super::request::NodeGroup;
use super::template_slice::TemplateSlice;
use crate::error::EngineError;
use crate::hash::hash_name;
use crate::model::intern::Symbol;
use crate::model::resources::MAX_SUM;
use crate::model::{Model, ModelError, Node, Pod, PodKey};
use crate::rows::NodeRow;
use crate::simulate::scene::Scene;

/// Keys of taints that new or leaving nodes carry temporarily: copies of a template do not get them.
const PASSING_TAINTS: [&str; 11] = [
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.cloudprovider.kubernetes.io/shutdown",
    "node.cloudprovider.kubernetes.io/uninitialized",
];

/// Prefixes of the keys of further such taints.
const PASSING_PREFIXES: [&str; 3] = [
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
];

/// A group's node, ready to be added any number of times.
#[derive(Debug)]
pub(super) struct Template<'g> {
    pub(super) node: Node,
    pods: &'g [Pod],
    slices: &'g [TemplateSlice],
    /// Name of the group's node.
    name: Arc<str>,
    model: Arc<Model>,
    /// The model for slices, whose names are forgotten with the template.
    lent: Model,
    /// Number of the next name to try.
    n_names: usize,
}

impl<'g> Template<'g> {
    /// Fails where the requests of the group's own pods overflow a node's sums.
    pub(super) fn of(
        group: &'g NodeGroup,
        model: &Arc<Model>,
    ) -> Result<Template<'g>, EngineError> {
        check_sums(group)?;
        let names = model.names();
        let is_passing = |key: Symbol| {
            let key = names.name(key);
            PASSING_TAINTS.contains(&&*key)
                || PASSING_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
                || group.startup_taints.contains(&key)
        };
        let node = group.template.changed(|facts| {
            let kept = facts.taints.iter().filter(|taint| !is_passing(taint.key));
            facts.taints = kept.copied().collect();
        });
        Ok(Template {
            node,
            pods: &group.template_pods,
            slices: &group.template_slices,
            name: group.template.facts().name.clone(),
            model: model.clone(),
            lent: model.lending(),
            n_names: 0,
        })
    }

    /// Adds a copy of the node with its devices and pods, under an unused name; returns its row and name.
    pub(super) fn add_to(
        &mut self,
        scene: &mut Scene<'_>,
    ) -> Result<(NodeRow, Arc<str>), EngineError> {
        let symbol = self.next_name(scene)?;
        let name = self.model.names().name(symbol);
        let node = self.node.changed(|facts| {
            facts.name = name.clone();
            facts.symbol = symbol;
            facts.name_hash = hash_name(&name);
            let others = facts.labels.iter().filter(|(key, _)| *key != Symbol::HOSTNAME);
            let hostname = (Symbol::HOSTNAME, symbol);
            let mut labels: Vec<_> = others.copied().chain([hostname]).collect();
            labels.sort_unstable();
            facts.labels = labels.into();
        });
        let row = scene.add_node(&node);
        for (i, slice) in self.slices.iter().enumerate() {
            scene.upsert_object(&slice.of_node((&name, &self.name), i, &self.lent)?);
        }
        for pod in self.pods {
            let key = PodKey::new(&pod.key().namespace, &format!("{}-{name}", pod.key().name));
            scene.put(&pod.with_identity(key, ""), row);
        }
        Ok((row, name))
    }

    /// The next unused name. Names are shared by all groups and requests, because interned names are kept forever.
    fn next_name(&mut self, scene: &mut Scene<'_>) -> Result<Symbol, EngineError> {
        loop {
            self.model.check_room()?;
            let name = self.model.names().intern(&format!("template-node-{}", self.n_names));
            self.n_names += 1;
            if scene.snapshot().row_of(name).is_none() {
                return Ok(name);
            }
        }
    }
}

fn check_sums(group: &NodeGroup) -> Result<(), EngineError> {
    let footprints = || group.template_pods.iter().map(Pod::footprint);
    let sums = [
        footprints().map(|f| i128::from(f.requested.milli_cpu.max(f.non_zero_milli_cpu))).sum(),
        footprints().map(|f| i128::from(f.requested.memory.max(f.non_zero_memory))).sum(),
        footprints().map(|f| i128::from(f.requested.ephemeral_storage)).sum(),
        footprints().flat_map(|f| &f.requested.scalars).map(|(_, n)| i128::from(*n)).sum::<i128>(),
    ];
    if sums.iter().all(|sum| *sum <= i128::from(MAX_SUM)) {
        return Ok(());
    }
    let reason = format!("those of node group `{}` take more than 2^62 together", group.id);
    Err(ModelError::new("template_pods", reason).into())
}
