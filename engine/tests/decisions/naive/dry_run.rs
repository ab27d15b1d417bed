//! The dry run of an eviction on a copy of one node: removes all pods of lower priority, then adds back those that fit.
//! Rules: S-PRE-8, S-PRE-9, S-PRE-14, S-PRE-15.

use std::sync::Arc;

use berth_engine::{Plugin, StatusCode};
use berth_proto::core_v1::Pod;

use super::cluster::{NaiveNode, NaivePod};
use super::filter::{Failure, Rejection};
use super::pre_filter::Prepared;
use super::{budgets, importance, pod, two_pass};

/// A node on which evicting pods helps.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) node: String,
    /// The most important first.
    pub(crate) victims: Vec<Pod>,
    pub(crate) n_pdb_violations: u32,
}

/// The status of a node that is not helped, with the plugin that gave it.
pub(crate) type NotHelped = (Option<Plugin>, Rejection);

/// The node during the dry run, and the counts of the whole cluster with it.
pub(super) struct Scene<'a> {
    pub(super) prepared: Prepared<'a>,
    pub(super) node: NaiveNode,
}

impl Scene<'_> {
    fn put_back(&mut self, pod: &Arc<NaivePod>) {
        self.node.add(pod.clone());
        self.prepared.add_pod(&pod.pod, &self.node);
    }

    pub(super) fn take_out(&mut self, pod: &Arc<NaivePod>) {
        self.node.remove(pod::namespace(&pod.pod), pod::name(&pod.pod));
        self.prepared.remove_pod(&pod.pod, &self.node);
    }

    pub(super) fn rejection(&self) -> Result<Option<(Plugin, Rejection)>, Failure> {
        two_pass::rejection(&self.prepared, &self.node)
    }
}

pub(crate) fn dry_run(
    prepared: &Prepared<'_>,
    node: &NaiveNode,
) -> Result<Result<Candidate, NotHelped>, Failure> {
    let is_lower = |other: &&Arc<NaivePod>| pod::priority(&other.pod) < pod::priority(prepared.pod);
    let mut potential: Vec<Arc<NaivePod>> = node.pods.iter().filter(is_lower).cloned().collect();
    if potential.is_empty() {
        let reasons = vec!["No preemption victims found for incoming pod".to_owned()];
        let code = StatusCode::UnschedulableAndUnresolvable;
        return Ok(Err((None, Rejection { code, reasons })));
    }
    let mut scene = Scene { prepared: prepared.clone(), node: node.clone() };
    for pod in &potential {
        scene.take_out(pod);
    }
    if let Some((plugin, rejection)) = scene.rejection()? {
        return Ok(Err((Some(plugin), rejection)));
    }
    importance::sort(&mut potential);
    let (violating, others) = budgets::split(&prepared.cluster.objects, &potential);
    let mut victims = not_reprieved(&mut scene, &violating)?;
    let n_pdb_violations = u32::try_from(victims.len()).expect("few");
    victims.extend(not_reprieved(&mut scene, &others)?);
    if !violating.is_empty() && !others.is_empty() {
        importance::sort(&mut victims);
    }
    if victims.is_empty() {
        // `expected at least one victim pod on node "N"`
        return Err(Failure);
    }
    let victims = victims.iter().map(|victim| victim.pod.clone()).collect();
    Ok(Ok(Candidate { node: node.name().to_owned(), victims, n_pdb_violations }))
}

/// Puts back one pod after another and returns the victims: those with which the incoming pod no longer fits
/// (S-PRE-14).
fn not_reprieved(
    scene: &mut Scene<'_>,
    group: &[Arc<NaivePod>],
) -> Result<Vec<Arc<NaivePod>>, Failure> {
    let mut victims = Vec::new();
    for pod in group {
        scene.put_back(pod);
        if scene.rejection()?.is_some() {
            scene.take_out(pod);
            victims.push(pod.clone());
        }
    }
    Ok(victims)
}
