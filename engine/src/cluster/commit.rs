//! Commit: applies a session's placements and nominations to its cluster, all of them or none.

use std::sync::Arc;

use super::Cluster;
use super::record::Session;
use super::step::Step;
use super::writer::Writer;
use crate::model::device::assigned::AssignedDevices;
use crate::model::volume::VolumeBindings;
use crate::model::{Pod, PodKey};
use crate::place::basis::{Ground, Touched};
use crate::snapshot::{AssumptionStamp, Generation, Snapshot};

/// Result of a commit.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// The published generation that holds the whole commit.
    pub generation: Generation,
    /// Number of pods that were assumed.
    pub n_assumed: usize,
    /// The pods that were nominated, with their uids, in the order of their decisions.
    pub nominated: Vec<(PodKey, Arc<str>)>,
    /// The pods that were assumed, in the order of their decisions.
    pub assumed: Vec<CommittedPod>,
    /// Stamp of their assumptions.
    pub stamp: AssumptionStamp,
}

/// A pod that a commit assumed.
#[derive(Clone, Debug, PartialEq)]
pub struct CommittedPod {
    /// The pod.
    pub key: PodKey,
    /// The pod's uid.
    pub uid: Arc<str>,
    /// The pod's node.
    pub node: Arc<str>,
    /// Volume bindings of the pod's claims on this node.
    pub volumes: VolumeBindings,
    /// Devices that the node gives to the pod's claims; `None` where nothing is allocated.
    pub devices: Option<Arc<AssignedDevices>>,
}

/// Why nothing of a session was committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The session was not forked from this cluster.
    #[error("the session is not a fork of this cluster")]
    NotAFork,
    /// The session was committed before.
    #[error("the session was committed already")]
    AlreadyCommitted,
    /// A decision rests on a supposition of the session: a delta applied to the session changed its basis.
    #[error("pod `{pod}` on node `{node}` rests on {ground}, which a delta of the session changed")]
    Hypothetical {
        /// The pod.
        pod: PodKey,
        /// The node on which the pod was placed or to which it was nominated.
        node: Arc<str>,
        /// The part of the basis that was changed.
        ground: Ground,
    },
    /// A decision rests on a state that has changed in the cluster.
    #[error(
        "pod `{pod}` on node `{node}` rests on {ground}, which changed since the session was opened"
    )]
    Changed {
        /// The pod.
        pod: PodKey,
        /// The node on which the pod was placed or to which it was nominated.
        node: Arc<str>,
        /// The part of the basis that changed.
        ground: Ground,
    },
    /// A pod got its node in the meantime (S-CCH-2).
    #[error("pod `{pod}` is on node `{node}` already")]
    AlreadyPlaced {
        /// The pod.
        pod: PodKey,
        /// The pod's node.
        node: Arc<str>,
    },
}

/// A decision of a session, to be carried out by another server.
#[derive(Clone, Debug)]
pub enum Planned {
    /// The pod is placed on the node.
    Assume {
        /// The pod, without a node.
        pod: Pod,
        /// The node.
        node: Arc<str>,
    },
    /// The pod is nominated to the node.
    Nominate {
        /// The pod, without a node.
        pod: Pod,
        /// The node.
        node: Arc<str>,
    },
    /// The pod's nomination is cleared.
    Clear {
        /// The pod.
        pod: PodKey,
    },
}

impl Planned {
    fn of(step: &Step) -> Planned {
        match step {
            Step::Assume { pod, node, .. } => {
                Planned::Assume { pod: pod.without_node(), node: node.clone() }
            }
            Step::Nominate { pod, node, .. } => {
                Planned::Nominate { pod: pod.without_node(), node: node.clone() }
            }
            Step::Clear { pod, .. } => Planned::Clear { pod: pod.clone() },
        }
    }
}

impl Cluster {
    /// Applies the decisions of a fork of this cluster: pods placed on it are assumed, and its nominations are made.
    ///
    /// The commit is applied as a whole in one generation. It is refused if the basis of a decision (its row, the terms
    /// of pods, nominations, namespaces, services and controllers always; volumes and other nodes where its filters
    /// read those; disruption budgets where pods are evicted) changed since the fork was made, or was changed on the
    /// fork by a delta, and if the pod no longer exists. Deltas of the fork are never applied here.
    pub fn commit(&self, fork: &Cluster) -> Result<Committed, CommitError> {
        let base = fork.is_fork_of(self).ok_or(CommitError::NotAFork)?;
        // The fork is locked before its origin. No other code locks both, so a deadlock is impossible.
        let mut decided = fork.writer();
        let mut writer = self.writer();
        let session = checked(base, &mut decided, &writer)?;
        session.is_committed = true;
        let steps: Vec<&Step> = session.steps().collect();
        Ok(self.carry_out(&mut writer, steps))
    }

    /// Begins a commit of a fork of this cluster that another server carries out: checks it like [`Cluster::commit`],
    /// and returns its decisions in order. Until [`Cluster::abandon_commit`] the fork counts as committed.
    ///
    /// # Errors
    /// [`CommitError`]; then the fork is as it was.
    pub fn begin_commit(&self, fork: &Cluster) -> Result<Vec<Planned>, CommitError> {
        let base = fork.is_fork_of(self).ok_or(CommitError::NotAFork)?;
        let mut decided = fork.writer();
        let session = checked(base, &mut decided, &self.writer())?;
        session.is_committed = true;
        Ok(session.steps().map(Planned::of).collect())
    }

    /// Takes back the beginning of a commit of this fork, which was not carried out.
    pub fn abandon_commit(&self) {
        if let Some(session) = self.writer().session.as_mut() {
            session.is_committed = false;
        }
    }

    /// Carries out steps in one generation.
    pub(super) fn carry_out<'s>(
        &self,
        writer: &mut Writer,
        steps: impl IntoIterator<Item = &'s Step> + Clone,
    ) -> Committed {
        let stamp = AssumptionStamp::after(writer.draft.snapshot.generation);
        let (mut assumed, mut nominated) = (Vec::new(), Vec::new());
        for step in steps.clone() {
            match step {
                Step::Assume { pod, node, bindings, .. } => assumed.push(CommittedPod {
                    key: pod.key().clone(),
                    uid: pod.facts().uid.clone(),
                    node: node.clone(),
                    volumes: bindings.volumes.clone(),
                    devices: bindings.devices.clone(),
                }),
                Step::Nominate { pod, .. } => {
                    nominated.push((pod.key().clone(), pod.facts().uid.clone()));
                }
                Step::Clear { .. } => {}
            }
            writer.carry_out(step.clone());
        }
        let is_upheld = |step: &Step| !matches!(step, Step::Assume { .. }) || writer.upholds(step);
        debug_assert!(steps.into_iter().all(is_upheld), "every pod of a commit is on its node");
        let (generation, n_assumed) = (self.publish(writer), assumed.len());
        Committed { generation, n_assumed, nominated, assumed, stamp }
    }
}

/// The session of a fork of `base`, if all its decisions may be applied to the newest state.
fn checked<'s>(
    base: &Snapshot,
    decided: &'s mut Writer,
    writer: &Writer,
) -> Result<&'s mut Session, CommitError> {
    let session = decided.session.as_mut().ok_or(CommitError::NotAFork)?;
    if session.is_committed {
        return Err(CommitError::AlreadyCommitted);
    }
    for (step, was_pending) in session.recorded() {
        check(step, base, &session.touched, writer)?;
        let gone = step.placed().filter(|pod| *was_pending && !writer.knows(pod));
        if let Some(pod) = gone {
            return Err(changed(pod.key(), step, Ground::Pod));
        }
    }
    Ok(session)
}

/// Checks whether a step decided on a fork of `base` may be applied to the newest state.
pub(super) fn check(
    step: &Step,
    base: &Snapshot,
    touched: &Touched,
    writer: &Writer,
) -> Result<(), CommitError> {
    let pod = step.pod();
    if let Some(placed) = step.placed() {
        if let Some(node) = writer.node_of(pod) {
            return Err(CommitError::AlreadyPlaced { pod: pod.clone(), node });
        }
        if writer.knows_another(placed) {
            return Err(changed(pod, step, Ground::Pod));
        }
    }
    let (basis, node) = (step.basis(), step.node());
    if let Some(ground) = basis.touched(touched) {
        return Err(CommitError::Hypothetical { pod: pod.clone(), node: node.clone(), ground });
    }
    if let Some(ground) = step.changed(base, &writer.draft.snapshot) {
        return Err(changed(pod, step, ground));
    }
    Ok(())
}

fn changed(pod: &PodKey, step: &Step, ground: Ground) -> CommitError {
    CommitError::Changed { pod: pod.clone(), node: step.node().clone(), ground }
}
