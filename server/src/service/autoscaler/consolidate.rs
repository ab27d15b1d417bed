//! The `Consolidate` method.

use std::collections::BTreeMap;

use berth_engine as engine;
use berth_engine::{Cluster, TieBreak, UnremovableReason};
use berth_proto::berth_v1::{self as wire, ConsolidateRequest, ConsolidateResponse};

use super::drain::{
    code, compile_node_rules, compile_rules, moment, names, policy, wire_node, wire_utilization,
};
use crate::node_labels::INSTANCE_TYPE;
use crate::policy::Profiles;
use crate::service::CallError;
use crate::service::Cancel;
use crate::service::State;
use crate::service::Target;
use crate::service::convert::{self, pod_key};

/// Utilization threshold where the request has none: cluster-autoscaler's default.
const THRESHOLD: f64 = 0.5;

pub(super) fn answer(
    state: &State,
    target: &Target,
    request: ConsolidateRequest,
    cancel: &Cancel,
) -> Result<ConsolidateResponse, CallError> {
    let cancelled = || cancel.is_cancelled();
    plan(target, &state.profiles, state.tie_break, request, &cancelled)
}

/// Plans on a cluster; `configured` is the tie-breaking rule if the request has none.
pub(crate) fn plan(
    cluster: &Cluster,
    profiles: &Profiles,
    configured: TieBreak,
    request: ConsolidateRequest,
    cancelled: &dyn Fn() -> bool,
) -> Result<ConsolidateResponse, CallError> {
    let ConsolidateRequest {
        session_id: _,
        candidate_node_names,
        node_rules,
        rules,
        together,
        max_nodes,
        prices,
        now,
        tie_break,
        scheduler_name,
    } = request;
    let candidates = names("candidate_node_names", candidate_node_names)?;
    let node_rules = node_rules.unwrap_or_default();
    let recently =
        names("node_rules.recently_unremovable", node_rules.recently_unremovable.clone())?;
    let prices = prices.unwrap_or_default();
    let planned = cluster.consolidate(&engine::ConsolidateRequest {
        policy: policy(profiles, &scheduler_name)?,
        tie_break: convert::tie_break(tie_break.as_ref(), configured)?,
        candidates: (!candidates.is_empty()).then_some(&*candidates),
        node_rules: compile_node_rules(&node_rules, &recently, Some(THRESHOLD))?,
        rules: compile_rules(rules.as_ref())?,
        together,
        max_nodes: match max_nodes {
            0 => usize::MAX,
            n => usize::try_from(n).unwrap_or(usize::MAX),
        },
        prices: compile_prices(&prices)?,
        now: moment(now)?,
        cancelled,
    });
    Ok(response(planned.map_err(CallError::undecided)?))
}

fn compile_prices(prices: &wire::NodePrices) -> Result<engine::NodePrices<'_>, CallError> {
    let wire::NodePrices { label, by_label_value, by_node_name } = prices;
    check_prices("prices.by_label_value", by_label_value)?;
    check_prices("prices.by_node_name", by_node_name)?;
    Ok(engine::NodePrices {
        label: if label.is_empty() { INSTANCE_TYPE } else { label },
        by_label: Some(by_label_value),
        by_node: Some(by_node_name),
    })
}

fn check_prices(path: &str, prices: &BTreeMap<String, f64>) -> Result<(), CallError> {
    match prices.iter().find(|(_, price)| !price.is_finite() || **price < 0.0) {
        Some((name, _)) => {
            let reason = "must be a number that is not negative";
            Err(CallError::field(format!("{path}[{name}]"), reason))
        }
        None => Ok(()),
    }
}

fn response(planned: engine::Consolidation) -> ConsolidateResponse {
    let engine::Consolidation { generation, steps, kept, end, savings, disruption } = planned;
    let end = match end {
        engine::ConsolidationEnd::Exhausted => wire::ConsolidationEnd::Exhausted,
        engine::ConsolidationEnd::MaxNodes => wire::ConsolidationEnd::MaxNodes,
    };
    ConsolidateResponse {
        generation: generation.get(),
        steps: steps.into_iter().map(wire_step).collect(),
        kept: kept.into_iter().map(wire_kept).collect(),
        end: end.into(),
        savings: Some(wire_savings(savings)),
        disruption: Some(wire_disruption(disruption)),
    }
}

fn wire_step(step: engine::ConsolidationStep) -> wire::ConsolidationStep {
    let engine::ConsolidationStep { drain, savings, disruption } = step;
    wire::ConsolidationStep {
        drain: Some(wire_node(drain)),
        savings: Some(wire_savings(savings)),
        disruption: Some(wire_disruption(disruption)),
    }
}

fn wire_savings(savings: engine::Savings) -> wire::Savings {
    let engine::Savings { milli_cpu, memory, price_per_hour } = savings;
    wire::Savings { milli_cpu, memory_bytes: memory, price_per_hour }
}

fn wire_disruption(disruption: engine::Disruption) -> wire::Disruption {
    let engine::Disruption { n_moved, n_without_controller, n_under_budget, n_ended } = disruption;
    wire::Disruption { n_moved, n_without_controller, n_under_budget, n_ended }
}

fn wire_kept(kept: engine::KeptNode) -> wire::KeptNode {
    let engine::KeptNode { node, utilization, reason, message, blocking_pod } = kept;
    wire::KeptNode {
        node_name: node.to_string(),
        utilization: utilization.map(wire_utilization),
        reason: reason.as_str().to_owned(),
        code: code(UnremovableReason::ALL, &reason),
        message,
        blocking_pod: blocking_pod.map(|pod| pod_key(&pod, "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::fixture;

    fn ask(state: &State, request: ConsolidateRequest) -> Result<ConsolidateResponse, CallError> {
        let target = state.target_of("").unwrap();
        let caller = crate::service::CancelOnDrop::new(crate::service::Deadline(None));
        answer(state, &target, request, &caller.token())
    }

    /// The expensive node is removed first although it is the fuller one, and the response says why each node is
    /// removable.
    #[test]
    fn prices_decide_which_node_is_removed_first() {
        let state = fixture::state(&[("n0", "4"), ("n1", "4"), ("n2", "4")]);
        for (name, node, cpu) in [("a", "n0", "1"), ("b", "n1", "500m"), ("c", "n2", "3")] {
            fixture::run(&state.cluster, &fixture::pod(name, cpu, 0), node);
        }
        let rules = wire::DrainRules { move_unreplicated: true, ..wire::DrainRules::default() };
        let by_node_name = [("n0", 0.5), ("n1", 0.25)].map(|(n, price)| (n.to_owned(), price));
        let prices = wire::NodePrices {
            by_node_name: by_node_name.into_iter().collect(),
            ..wire::NodePrices::default()
        };
        let node_rules = wire::NodeRules { utilization_threshold: Some(0.7), ..Default::default() };
        let request = ConsolidateRequest {
            rules: Some(rules),
            prices: Some(prices),
            node_rules: Some(node_rules),
            max_nodes: 1,
            ..ConsolidateRequest::default()
        };
        let answer = ask(&state, request.clone()).unwrap();
        let [step] = answer.steps.as_slice() else { panic!("{answer:?}") };
        let drain = step.drain.as_ref().unwrap();
        assert_eq!((&*drain.node_name, &*drain.pods[0].node_name), ("n0", "n2"));
        assert_eq!(answer.end(), wire::ConsolidationEnd::MaxNodes);
        assert_eq!(step.savings.unwrap().price_per_hour, Some(0.5));
        assert_eq!(answer.disruption.unwrap().n_without_controller, 1);
        let kept: Vec<_> =
            answer.kept.iter().map(|kept| (&*kept.node_name, &*kept.reason, kept.code)).collect();
        assert_eq!(kept, [("n2", "NotUnderutilized", 11)]);
        let answer = ask(&state, ConsolidateRequest { max_nodes: 0, ..request }).unwrap();
        assert_eq!(answer.steps.len(), 1, "n2 is full then: {answer:?}");
        assert_eq!(answer.end(), wire::ConsolidationEnd::Exhausted);
    }

    #[test]
    fn a_price_is_a_number() {
        let state = fixture::state(&[("n0", "4")]);
        for price in [-0.5, f64::NAN, f64::INFINITY] {
            let by_label_value = [("m5.large".to_owned(), price)].into_iter().collect();
            let prices = wire::NodePrices { by_label_value, ..wire::NodePrices::default() };
            let request =
                ConsolidateRequest { prices: Some(prices), ..ConsolidateRequest::default() };
            assert_eq!(
                ask(&state, request).unwrap_err().to_string(),
                "`prices.by_label_value[m5.large]`: must be a number that is not negative"
            );
        }
    }
}
