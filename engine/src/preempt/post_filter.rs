//! PostFilter: its plugins in the policy's order, and the resulting nomination. Rules: S-PLG-5, S-PRE-1 to S-PRE-3,
//! S-PRE-17, S-PRE-21, S-PRE-24, S-ERR-6 to S-ERR-8.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::answer::{All, Detail, Searched};
use super::deallocation;
use super::known::Known;
use super::outcome::{GivenUp, Nomination, PostFilter, PostFilterCode};
use super::request::PreemptRequest;
use super::resolvable::Resolvable;
use super::search::{self, Stopped};
use crate::error::EngineError;
use crate::model::PodKey;
use crate::place::decision::Unschedulable;
use crate::place::promised::promised_row;
use crate::plan::Plan;
use crate::plan::counted::Filtering;
use crate::plugin::Plugin;
use crate::rows::NodeRow;

/// An attempt that found no node.
pub(super) struct Attempt<'p, 'a> {
    pub(super) plan: &'p Filtering<'p, 'a>,
    pub(super) request: &'p PreemptRequest<'p>,
    pub(super) versions: &'p Arc<AtomicU64>,
    pub(super) detail: Detail,
}

impl Attempt<'_, '_> {
    pub(super) fn run(
        &self,
        unschedulable: &Unschedulable,
        known: &mut Known,
    ) -> Result<(PostFilter, All), EngineError> {
        let mut outcome = outcome(PostFilterCode::Unschedulable, Nomination::Unchanged);
        let mut texts: Vec<String> = Vec::new();
        let mut all = All::default();
        let mut given_up = GivenUp::Nothing;
        for plugin in &self.plan.policy().spec().post_filter {
            match plugin {
                Plugin::DynamicResources if !self.has_claim_state(unschedulable) => {
                    let failed = outcome_of_error("not found".to_owned());
                    return Ok((failed, all));
                }
                Plugin::DynamicResources => {
                    let is_refused = unschedulable.pre_filter.is_some();
                    let (text, found) = deallocation::of(self.plan, is_refused);
                    texts.push(text.to_owned());
                    given_up = found;
                }
                Plugin::DefaultPreemption => {
                    let (found, candidates) = self.preempt(unschedulable, known)?;
                    if found.code != PostFilterCode::Unschedulable {
                        return Ok((PostFilter { given_up, ..found }, candidates));
                    }
                    texts.push(found.message.clone());
                    (outcome, all) = (found, candidates);
                }
                // Plugins without PostFilter.
                Plugin::SchedulingGates
                | Plugin::PrioritySort
                | Plugin::NodeUnschedulable
                | Plugin::NodeName
                | Plugin::TaintToleration
                | Plugin::NodeAffinity
                | Plugin::NodePorts
                | Plugin::NodeResourcesFit
                | Plugin::VolumeRestrictions
                | Plugin::NodeVolumeLimits
                | Plugin::VolumeBinding
                | Plugin::VolumeZone
                | Plugin::PodTopologySpread
                | Plugin::InterPodAffinity
                | Plugin::NodeResourcesBalancedAllocation
                | Plugin::ImageLocality
                | Plugin::DefaultBinder
                | Plugin::NodeDeclaredFeatures => {}
            }
        }
        outcome.message = texts.join(", ");
        outcome.given_up = given_up;
        Ok((outcome, all))
    }

    /// Whether PreFilter reached DynamicResources (S-ERR-7).
    fn has_claim_state(&self, unschedulable: &Unschedulable) -> bool {
        let order = &self.plan.policy().spec().pre_filter;
        let place_of = |plugin| order.iter().position(|other| *other == plugin);
        let Some(own) = place_of(Plugin::DynamicResources) else { return false };
        let refusing = unschedulable.pre_filter.as_ref().and_then(|(plugin, ..)| place_of(*plugin));
        refusing.is_none_or(|refusing| own <= refusing)
    }

    /// Runs DefaultPreemption.
    fn preempt(
        &self,
        unschedulable: &Unschedulable,
        known: &mut Known,
    ) -> Result<(PostFilter, All), EngineError> {
        let resolvable = match unschedulable.pre_filter {
            Some(_) => Resolvable::none(self.plan),
            None => Resolvable::find(self.plan),
        };
        if let Some(why) = ineligibility(self.plan, &resolvable) {
            let mut refused = outcome(PostFilterCode::Unschedulable, Nomination::Unchanged);
            refused.message = format!("preemption: {why}");
            return Ok((refused, All::default()));
        }
        let wanted = (self.detail, known);
        match search::search(self.plan, self.request, self.versions, &resolvable, wanted) {
            Ok(searched) => Ok(self.outcome_of_search(searched)),
            Err(Stopped::Failed(why)) => {
                Ok((outcome_of_error(format!("preemption: {why}")), All::default()))
            }
            Err(Stopped::Cancelled) => Err(EngineError::Cancelled),
        }
    }

    fn outcome_of_search(&self, searched: Searched) -> (PostFilter, All) {
        let Searched { chosen, n_candidates, n_best, why_none, all } = searched;
        let Some((row, candidate)) = chosen else {
            let mut none = outcome(PostFilterCode::Unschedulable, Nomination::Cleared);
            none.message = format!("preemption: {why_none}");
            return (none, all);
        };
        let found = PostFilter {
            code: PostFilterCode::Success,
            message: String::new(),
            nomination: Nomination::Node(candidate.node.clone()),
            chosen: Some(candidate),
            n_candidates,
            n_best,
            cleared_nominations: self.lower_nominations(row),
            given_up: GivenUp::Nothing,
        };
        (found, all)
    }

    /// Pods of lower priority that are nominated to the node (S-PRE-24).
    fn lower_nominations(&self, row: NodeRow) -> Vec<PodKey> {
        let (snapshot, pod) = (self.plan.snapshot(), self.plan.pod());
        let Some(node) = snapshot.node(row) else { return Vec::new() };
        let nominated = snapshot.nominations.of_node(node.facts().symbol).iter();
        let lower = nominated.filter(|other| other.priority() < pod.priority());
        lower.map(|other| other.key().clone()).collect()
    }
}

/// Why the pod may not preempt; `None` if it may (S-PRE-2, S-PRE-3).
fn ineligibility(plan: &Plan<'_>, resolvable: &Resolvable) -> Option<&'static str> {
    let pod = plan.pod();
    if !pod.facts().preemption.may_preempt {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    // A nominated node on which evicting pods cannot help does not make the pod ineligible.
    let row = promised_row(plan).filter(|row| resolvable.contains(*row))?;
    let pods = plan.snapshot().shards[row.shard()].pods.of(row.row());
    let is_leaving = pods.iter().any(|placed| {
        placed.pod.priority() < pod.priority() && placed.pod.facts().preemption.is_preempted
    });
    is_leaving.then_some("not eligible due to a terminating pod on the nominated node.")
}

fn outcome(code: PostFilterCode, nomination: Nomination) -> PostFilter {
    PostFilter {
        code,
        message: String::new(),
        nomination,
        chosen: None,
        n_candidates: 0,
        n_best: 0,
        cleared_nominations: Vec::new(),
        given_up: GivenUp::Nothing,
    }
}

fn outcome_of_error(message: String) -> PostFilter {
    PostFilter { message, ..outcome(PostFilterCode::Error, Nomination::Unchanged) }
}
