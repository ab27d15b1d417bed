//! Scale-up: which nodes of which groups would take the pods that fit nowhere now, computed like cluster-autoscaler:
//! pods that fit onto existing nodes are packed there first; then, for each node group on a copy of its own, the
//! estimator adds as many template nodes as it needs. Rules: S-CAS-4 to S-CAS-8, S-BIN-1 to S-BIN-4.

mod equivalence;
mod estimator;
mod limiter;
mod options;
mod outcome;
mod packing;
mod request;
mod ring;
mod similar;
mod split;
mod template;
mod template_slice;
mod tested;

use berth_proto::resource_v1;
use rustc_hash::FxHashSet;

use super::scene::Scene;
use crate::cluster::Cluster;
use crate::error::EngineError;
use crate::model::{ModelError, Pod};
use crate::simulate::one_pass::Misfit;
use equivalence::Classes;
use options::Options;
pub use outcome::{
    LeftPods, LeftReason, ScaleUp, ScaleUpNode, ScaleUpOption, ScaleUpStop, Skew, Waste,
};
use packing::Packing;
pub use request::{NodeGroup, OptionRequest, ScaleUpLimit, ScaleUpLimits, ScaleUpRequest};
use ring::Ring;
pub use template_slice::TemplateSlice;

impl Cluster {
    /// Checks a ResourceSlice of the node group's template with this name; errors name the field.
    pub fn check_template_slice(
        &self,
        slice: &resource_v1::ResourceSlice,
        template: &str,
    ) -> Result<TemplateSlice, ModelError> {
        TemplateSlice::check(slice, template, &self.snapshot().model.lending())
    }

    /// Simulates what each node group could do for pending pods on the cluster as it is now; the cluster is not
    /// changed. The result depends on the generation and the request only (S-CAS-8).
    ///
    /// Pods that existing nodes take are put there first and justify no node (S-CAS-4). Each group is then simulated
    /// independently. Cost: for each group a few steps per pod and node, provided that many pods are alike.
    ///
    /// # Errors
    /// [`EngineError::Model`] for a pod name that is in the request twice, and for template pods whose sums overflow;
    /// [`EngineError::Cancelled`].
    pub fn simulate_scale_up(&self, request: &ScaleUpRequest<'_>) -> Result<ScaleUp, EngineError> {
        let pods = request.pods;
        check_names(pods)?;
        let (snapshot, held) = self.held_now(pods);
        let mut scene = Scene::of(self, &snapshot, request.policy);
        let mut ring = Ring::of(scene.snapshot());
        let classes = Classes::of(pods);
        let refusals = refusals(pods, &classes, &mut scene);
        let (mut on_existing, mut pending) = (Vec::new(), Vec::new());
        let mut refused = Vec::new();
        for (index, held) in held.into_iter().enumerate() {
            match (held, &refusals[classes.of_pod(index)]) {
                (Some(node), _) => on_existing.push((index, node)),
                (None, Some(misfit)) => refused.push((index, misfit.clone())),
                (None, None) => pending.push(index),
            }
        }
        let mut packing = Packing::new(request, &classes, &mut scene, &mut ring);
        let pending = packing.pack(pending, &mut on_existing)?;
        let options = Options::new(request, &classes, &pending).simulate(&mut scene, &ring)?;
        Ok(ScaleUp::of(snapshot.generation(), on_existing, refused, &pending, options))
    }

    /// Simulates one option of an autoscaler: the placement of its pods on new nodes of one group. Existing nodes are
    /// not packed first, since the autoscaler did that; positions refer to the request's pods. The autoscaler's list
    /// may be some seconds old: a pod that has a node by now is neither placed nor left.
    ///
    /// # Errors
    /// Errors of [`Cluster::simulate_scale_up`].
    pub fn simulate_option(
        &self,
        request: &OptionRequest<'_>,
    ) -> Result<ScaleUpOption, EngineError> {
        let OptionRequest { pods, policy, group, max_nodes, cancelled } = *request;
        check_names(pods)?;
        let (snapshot, held) = self.held_now(pods);
        let mut scene = Scene::of(self, &snapshot, policy);
        let ring = Ring::of(scene.snapshot());
        let classes = Classes::of(pods);
        let refusals = refusals(pods, &classes, &mut scene);
        let is_refused = |index: &usize| refusals[classes.of_pod(*index)].is_some();
        let waiting = (0..pods.len()).filter(|index| held[*index].is_none());
        let (refused, pending): (Vec<usize>, Vec<usize>) = waiting.partition(is_refused);
        let limits = ScaleUpLimits { nodes: max_nodes, ..ScaleUpLimits::default() };
        let groups = std::slice::from_ref(group);
        let request =
            ScaleUpRequest { limits, ..ScaleUpRequest::new(pods, policy, groups, cancelled) };
        let options = Options::new(&request, &classes, &pending).simulate(&mut scene, &ring)?;
        let mut option = options.into_iter().next().unwrap_or_default();
        for index in refused {
            if let Some(misfit) = &refusals[classes.of_pod(index)] {
                option.leave(LeftReason::Misfit(misfit.clone()), [index]);
            }
        }
        option.sort_left();
        Ok(option)
    }
}

/// Why the pods of each class are in no option: held back by gates, refused on any node, or in error.
fn refusals(pods: &[Pod], classes: &Classes, scene: &mut Scene<'_>) -> Vec<Option<Misfit>> {
    classes.samples().iter().map(|sample| scene.refusal(&pods[*sample])).collect()
}

/// Checks that no pod name is listed twice: a scene holds one pod of a name.
fn check_names(pods: &[Pod]) -> Result<(), EngineError> {
    let mut seen = FxHashSet::default();
    seen.reserve(pods.len());
    match pods.iter().find(|pod| !seen.insert(pod.key())) {
        None => Ok(()),
        Some(pod) => {
            let reason = format!("`{}` stands in the request twice", pod.key());
            Err(ModelError::new("metadata.name", reason).into())
        }
    }
}
