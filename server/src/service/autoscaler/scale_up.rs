//! The `SimulateScaleUp` method: which new nodes of which groups would take the pods that fit nowhere now.

use std::sync::Arc;
use std::time::Instant;

use berth_engine::{self as engine, Cluster, EngineError, ModelError, Pod, PodKey, Policy};
use berth_proto::berth_v1::{self as wire, SimulateScaleUpRequest, SimulateScaleUpResponse};

use super::drain::compile_hint;
use crate::clock;
use crate::policy::Profiles;
use crate::service::CallError;
use crate::service::Cancel;
use crate::service::State;
use crate::service::Target;
use crate::service::admission;
use crate::service::convert;
use crate::service::placement::entries::{self, Compiled, Entry};
use crate::service::unset;

/// Number of nodes that an option adds where the request has none, and its maximum.
const MAX_NODES: u32 = 100_000;
/// Maximum number of node groups in a request: the largest autoscalers have some hundreds.
const MAX_GROUPS: usize = 1_000;
/// Maximum length of a group's name in bytes; it is repeated in every similar group of the response.
const MAX_ID: usize = 512;
/// Maximum of pods times node groups: each option has a result for every pod.
const MAX_CASES: u64 = 10_000_000;
/// Maximum number of pods that come with a template; a node holds some hundred.
const MAX_TEMPLATE_PODS: usize = 1_000;
/// Most ResourceSlices of a group's template.
const MAX_TEMPLATE_SLICES: usize = 100;

pub(super) fn answer(
    state: &State,
    target: &Target,
    request: SimulateScaleUpRequest,
    cancel: &Cancel,
) -> Result<SimulateScaleUpResponse, CallError> {
    let n_asked = request.entries.iter().map(|entry| u64::from(entry.replicas.max(1))).sum::<u64>();
    let limit = state.limits.max_pods_per_request;
    if usize::try_from(n_asked).map_or(true, |n_asked| n_asked > limit) {
        let reason = format!("asks for {n_asked} pods, more than the limit of {limit}");
        return Err(CallError::field("entries", reason));
    }
    let n_groups = request.node_groups.len();
    if n_asked.saturating_mul(n_groups as u64) > MAX_CASES {
        let reason = format!(
            "has {n_groups} node groups for {n_asked} pods: pods times node groups may be {MAX_CASES}; ask for fewer at a time"
        );
        return Err(CallError::field("node_groups", reason));
    }
    simulate(target, &state.profiles, request, &|| cancel.is_cancelled())
}

/// Simulates on a cluster.
pub(crate) fn simulate(
    cluster: &Cluster,
    profiles: &Profiles,
    request: SimulateScaleUpRequest,
    cancelled: &dyn Fn() -> bool,
) -> Result<SimulateScaleUpResponse, CallError> {
    let SimulateScaleUpRequest {
        session_id: _,
        entries,
        node_groups,
        limits,
        balance_similar_groups,
        balancing_ignored_labels,
        hints,
        admit,
    } = request;
    let groups = groups(cluster, node_groups)?;
    let limits = compile_limits(limits.unwrap_or_default())?;
    let entries = entries.into_iter().map(Entry::from).collect();
    let (compiled, admissions) = admission::compile(cluster, profiles, entries, admit, false);
    let pods = Pods::of(compiled)?;
    // Never read if there are no pods.
    let unread = Policy::default();
    let policy = pods.policy.unwrap_or(&unread);
    let hints: Vec<(PodKey, Arc<str>)> = hints
        .into_iter()
        .enumerate()
        .map(|(index, wire::ScaleUpHint { pod, node_name })| compile_hint(index, pod, node_name))
        .collect::<Result<_, _>>()?;
    let began: Instant = clock::now();
    let answer = cluster.simulate_scale_up(&engine::ScaleUpRequest {
        pods: &pods.pods,
        policy,
        groups: &groups,
        limits,
        balance_similar_groups,
        balancing_ignored_labels: &balancing_ignored_labels,
        hints: &hints,
        elapsed_ms: &|| clock::as_millis(clock::now() - began),
        cancelled,
    });
    let answer = answer.map_err(|error| match error {
        EngineError::Model(ModelError { field, reason }) => match field.as_str() {
            "metadata.name" => CallError::field("entries", reason),
            "template_pods" => CallError::field("node_groups[].template_pods", reason),
            _ => CallError::field(field, reason),
        },
        error => CallError::undecided(error),
    })?;
    Ok(SimulateScaleUpResponse { admissions, ..response(answer, &pods, &groups) })
}

/// The pods of a request, replicas expanded, without those that are malformed.
struct Pods<'s> {
    pods: Vec<Pod>,
    /// Position of each pod in the request.
    positions: Vec<u32>,
    /// Positions of malformed pods, with their errors.
    errors: Vec<(u32, CallError)>,
    /// Policy of the pods; `None` if there are none.
    policy: Option<&'s Policy>,
}

impl<'s> Pods<'s> {
    fn of(compiled: Vec<Compiled<'s>>) -> Result<Pods<'s>, CallError> {
        if let Some(at) = entries::other_profile(&compiled) {
            let reason = "is of another profile than those before it: ask for each by itself";
            return Err(CallError::field(format!("entries[{at}].pod.spec.schedulerName"), reason));
        }
        let mut pods =
            Pods { pods: Vec::new(), positions: Vec::new(), errors: Vec::new(), policy: None };
        let mut next = 0;
        for (compiled, replicas) in compiled {
            let positions = next..next + replicas.max(1);
            next = positions.end;
            match compiled {
                Ok((pod, policy)) => {
                    pods.policy = Some(policy);
                    entries::add_replicas(pod, replicas, &mut pods.pods);
                    pods.positions.extend(positions);
                }
                Err(error) => pods.errors.extend(positions.map(|at| (at, error.clone()))),
            }
        }
        Ok(pods)
    }

    /// Positions in the request of pods given by their index in the engine's list.
    fn positions(&self, pods: impl IntoIterator<Item = usize>) -> Vec<u32> {
        pods.into_iter().filter_map(|pod| self.positions.get(pod).copied()).collect()
    }

    fn placements(&self, placed: Vec<(usize, Arc<str>)>) -> Vec<wire::ScaleUpPlacement> {
        let placement = |(pod, node): (usize, Arc<str>)| {
            let index = self.positions.get(pod).copied()?;
            Some(wire::ScaleUpPlacement { index, node_name: node.to_string() })
        };
        placed.into_iter().filter_map(placement).collect()
    }
}

fn groups(
    cluster: &Cluster,
    groups: Vec<wire::NodeGroup>,
) -> Result<Vec<engine::NodeGroup>, CallError> {
    if groups.len() > MAX_GROUPS {
        let reason = format!("has {} node groups, more than {MAX_GROUPS}", groups.len());
        return Err(CallError::field("node_groups", reason));
    }
    let mut compiled: Vec<engine::NodeGroup> = Vec::with_capacity(groups.len());
    for (i, group) in groups.into_iter().enumerate() {
        let at = format!("node_groups[{i}]");
        let group = compile_group(cluster, group, &at)?;
        if group.id.is_empty() {
            return Err(CallError::field(format!("{at}.id"), "must be set"));
        }
        if group.id.len() > MAX_ID {
            let reason = format!("is longer than {MAX_ID} bytes");
            return Err(CallError::field(format!("{at}.id"), reason));
        }
        if compiled.iter().any(|known| known.id == group.id) {
            return Err(CallError::field(format!("{at}.id"), "stands in the request twice"));
        }
        compiled.push(group);
    }
    Ok(compiled)
}

fn compile_group(
    cluster: &Cluster,
    group: wire::NodeGroup,
    at: &str,
) -> Result<engine::NodeGroup, CallError> {
    let wire::NodeGroup {
        id,
        template,
        template_pods,
        size,
        max_size,
        startup_taints,
        template_slices,
    } = group;
    let under = |field: String, error: ModelError| {
        CallError::field(format!("{at}.{field}.{}", error.field), error.reason)
    };
    let template =
        template.ok_or_else(|| CallError::field(format!("{at}.template"), "must be set"))?;
    if template_pods.len() > MAX_TEMPLATE_PODS {
        let reason = format!("has {} pods, more than {MAX_TEMPLATE_PODS}", template_pods.len());
        return Err(CallError::field(format!("{at}.template_pods"), reason));
    }
    if template_slices.len() > MAX_TEMPLATE_SLICES {
        let reason =
            format!("has {} slices, more than {MAX_TEMPLATE_SLICES}", template_slices.len());
        return Err(CallError::field(format!("{at}.template_slices"), reason));
    }
    let name = template.metadata.as_ref().map_or("", |metadata| &metadata.name);
    let slices = template_slices.iter().enumerate().map(|(i, slice)| {
        let under = |error| under(format!("template_slices[{i}]"), error);
        cluster.check_template_slice(slice, name).map_err(under)
    });
    let pods = template_pods.iter().enumerate().map(|(i, pod)| {
        let under = |error| under(format!("template_pods[{i}]"), error);
        unset::check_pod(pod).map_err(under)?;
        cluster.compile_pod(pod).map_err(under)
    });
    unset::check_node(&template).map_err(|error| under("template".to_owned(), error))?;
    Ok(engine::NodeGroup {
        template: cluster
            .compile_template(&template)
            .map_err(|error| under("template".to_owned(), error))?,
        template_pods: pods.collect::<Result<_, _>>()?,
        template_slices: slices.collect::<Result<_, _>>()?,
        id: id.into(),
        size: size as usize,
        max_size: max_size.map(|size| size as usize),
        startup_taints: startup_taints.into_iter().map(Into::into).collect(),
    })
}

fn compile_limits(limits: wire::ScaleUpLimits) -> Result<engine::ScaleUpLimits, CallError> {
    let wire::ScaleUpLimits { nodes, total_nodes, milli_cpu, memory_bytes, duration_ms } = limits;
    if nodes.is_some_and(|nodes| nodes > MAX_NODES) {
        return Err(CallError::field("limits.nodes", format!("is more than {MAX_NODES}")));
    }
    for (field, amount) in [("milli_cpu", milli_cpu), ("memory_bytes", memory_bytes)] {
        if amount.is_some_and(i64::is_negative) {
            return Err(CallError::field(format!("limits.{field}"), "is negative"));
        }
    }
    Ok(engine::ScaleUpLimits {
        nodes: Some(nodes.unwrap_or(MAX_NODES) as usize),
        total_nodes: total_nodes.map(|nodes| nodes as usize),
        milli_cpu,
        memory: memory_bytes,
        duration_ms: duration_ms.map(u64::from),
    })
}

fn response(
    answer: engine::ScaleUp,
    pods: &Pods<'_>,
    groups: &[engine::NodeGroup],
) -> SimulateScaleUpResponse {
    let engine::ScaleUp { generation, on_existing, refused, options, unhelped } = answer;
    let error = |(index, error): &(u32, CallError)| wire::ScaleUpError {
        index: *index,
        error: Some(error.to_place_error()),
    };
    SimulateScaleUpResponse {
        generation: generation.get(),
        existing: pods.placements(on_existing),
        refused: refused.into_iter().map(|left| wire_left(left, pods)).collect(),
        options: options.into_iter().map(|option| wire_option(option, pods, groups)).collect(),
        unhelped: pods.positions(unhelped),
        errors: pods.errors.iter().map(error).collect(),
        admissions: Vec::new(),
    }
}

fn wire_option(
    option: engine::ScaleUpOption,
    pods: &Pods<'_>,
    groups: &[engine::NodeGroup],
) -> wire::ScaleUpOption {
    let (n_nodes, n_placed) = (option.n_nodes(), option.n_placed());
    let engine::ScaleUpOption { group, nodes, on_existing, left, stop, waste, skews, split } =
        option;
    let id = |group: usize| groups.get(group).map_or_else(String::new, |g| g.id.to_string());
    let (stop, limit) = match stop {
        engine::ScaleUpStop::AllPlaced => (wire::ScaleUpStop::AllPlaced, None),
        engine::ScaleUpStop::NothingMoreFits => (wire::ScaleUpStop::NothingMoreFits, None),
        engine::ScaleUpStop::Limit(limit) => (wire::ScaleUpStop::Limit, Some(limit)),
    };
    let node = |node: engine::ScaleUpNode| wire::ScaleUpNode {
        node_name: node.name.to_string(),
        pods: pods.positions(node.pods),
    };
    let skew = |skew: engine::Skew| wire::ScaleUpSkew {
        topology_key: skew.topology_key.to_string(),
        skew: skew.skew,
    };
    let share = |(group, n_nodes): (usize, usize)| wire::ScaleUpShare {
        node_group_id: id(group),
        n_nodes: convert::saturate(n_nodes),
    };
    wire::ScaleUpOption {
        node_group_id: id(group),
        n_nodes: convert::saturate(n_nodes),
        n_placed: convert::saturate(n_placed),
        nodes: nodes.into_iter().map(node).collect(),
        existing: pods.placements(on_existing),
        left: left.into_iter().map(|left| wire_left(left, pods)).collect(),
        stop: stop.into(),
        limit: limit.map_or(wire::ScaleUpLimit::Unspecified, wire_limit).into(),
        waste_cpu: waste.cpu,
        waste_memory: waste.memory,
        skews: skews.into_iter().map(skew).collect(),
        split: split.into_iter().map(share).collect(),
    }
}

fn wire_left(left: engine::LeftPods, pods: &Pods<'_>) -> wire::ScaleUpLeft {
    use wire::scale_up_left::Reason;
    let reason = match left.reason {
        engine::LeftReason::Misfit(engine::Misfit { plugin, code, reasons }) => {
            Reason::Rejection(wire::NodeRejection {
                plugin: plugin.name().to_owned(),
                code: code.as_str().to_owned(),
                reasons: reasons.to_vec(),
                ..wire::NodeRejection::default()
            })
        }
        engine::LeftReason::Limit(limit) => Reason::Limit(wire_limit(limit).into()),
    };
    wire::ScaleUpLeft { pods: pods.positions(left.pods), reason: Some(reason) }
}

fn wire_limit(limit: engine::ScaleUpLimit) -> wire::ScaleUpLimit {
    match limit {
        engine::ScaleUpLimit::Nodes => wire::ScaleUpLimit::Nodes,
        engine::ScaleUpLimit::Duration => wire::ScaleUpLimit::Duration,
        engine::ScaleUpLimit::TotalNodes => wire::ScaleUpLimit::TotalNodes,
        engine::ScaleUpLimit::Cpu => wire::ScaleUpLimit::Cpu,
        engine::ScaleUpLimit::Memory => wire::ScaleUpLimit::Memory,
        engine::ScaleUpLimit::GroupSize => wire::ScaleUpLimit::GroupSize,
    }
}

#[cfg(test)]
mod tests {
    use berth_proto::core_v1;
    use serde_json::json;

    use super::*;
    use crate::service::fixture;
    use crate::service::{CancelOnDrop, Deadline};

    fn ask(
        state: &State,
        request: SimulateScaleUpRequest,
    ) -> Result<SimulateScaleUpResponse, CallError> {
        let caller = CancelOnDrop::new(Deadline(None));
        answer(state, &state.target_of("").unwrap(), request, &caller.token())
    }

    fn group(id: &str, cpu: &str) -> wire::NodeGroup {
        let template: core_v1::Node = serde_json::from_value(json!({
            "metadata": {"name": "template"},
            "status": {
                "capacity": {"cpu": "10", "memory": "8Gi"},
                "allocatable": {"cpu": cpu, "memory": "7Gi", "pods": "10"},
            },
        }))
        .unwrap();
        wire::NodeGroup { id: id.to_owned(), template: Some(template), ..Default::default() }
    }

    fn request() -> SimulateScaleUpRequest {
        let mut malformed = fixture::pod("bad", "1", 0);
        malformed.metadata.as_mut().unwrap().name = "No Name".to_owned();
        let entries = vec![
            fixture::entry(&fixture::pod("web", "3", 0), 2),
            fixture::entry(&malformed, 2),
            fixture::entry(&fixture::pod("db", "2", 0), 3),
            fixture::entry(&fixture::pod("huge", "64", 0), 1),
        ];
        let node_groups = vec![group("small", "4"), group("large", "9")];
        SimulateScaleUpRequest { entries, node_groups, ..Default::default() }
    }

    /// Positions in a response are those of the request, malformed pods counted.
    #[test]
    fn a_scale_up_by_positions() {
        let state = fixture::state(&[("n0", "4")]);
        let answer = ask(&state, request()).unwrap();
        assert_eq!(answer.generation, state.cluster.snapshot().generation().get());
        let existing: Vec<(u32, &str)> =
            answer.existing.iter().map(|it| (it.index, it.node_name.as_str())).collect();
        assert_eq!(existing, [(0, "n0")]);
        let errors: Vec<u32> = answer.errors.iter().map(|error| error.index).collect();
        assert_eq!((errors, answer.unhelped.as_slice()), (vec![2, 3], &[7][..]));
        assert_eq!(answer.errors[0].error.as_ref().unwrap().field, "metadata.name");
        let [small, large] = &answer.options[..] else { panic!("{answer:?}") };
        let pods = |option: &wire::ScaleUpOption| -> Vec<Vec<u32>> {
            option.nodes.iter().map(|node| node.pods.clone()).collect()
        };
        assert_eq!(pods(small), [vec![1], vec![4, 5], vec![6]]);
        assert_eq!(pods(large), [vec![1, 4, 5, 6]]);
        assert_eq!((large.n_nodes, large.n_placed, large.node_group_id.as_str()), (1, 4, "large"));
        assert_eq!(large.stop(), wire::ScaleUpStop::NothingMoreFits);
        assert!((large.waste_cpu - 0.1).abs() < 1e-12, "of the capacity: {}", large.waste_cpu);
        let [left] = &large.left[..] else { panic!("{large:?}") };
        let Some(wire::scale_up_left::Reason::Rejection(why)) = &left.reason else {
            panic!("{left:?}")
        };
        assert_eq!((left.pods.as_slice(), why.plugin.as_str()), (&[7][..], "NodeResourcesFit"));
        assert_eq!(why.code, "UnschedulableAndUnresolvable", "more than such a node ever has");
        assert_eq!(why.reasons, ["Insufficient cpu"]);
    }

    #[test]
    fn limits_and_similar_groups_are_reported() {
        let state = fixture::state(&[("n0", "0")]);
        let limits = wire::ScaleUpLimits { nodes: Some(2), ..Default::default() };
        let node_groups = vec![group("a", "4"), group("b", "4")];
        let request = SimulateScaleUpRequest {
            limits: Some(limits),
            node_groups,
            balance_similar_groups: true,
            ..request()
        };
        let answer = ask(&state, request).unwrap();
        let option = &answer.options[1];
        assert_eq!(
            (option.stop(), option.limit()),
            (wire::ScaleUpStop::Limit, wire::ScaleUpLimit::Nodes)
        );
        let split: Vec<(&str, u32)> =
            option.split.iter().map(|it| (it.node_group_id.as_str(), it.n_nodes)).collect();
        assert_eq!(split, [("a", 1), ("b", 1)]);
        let reasons: Vec<bool> = option
            .left
            .iter()
            .map(|left| matches!(left.reason, Some(wire::scale_up_left::Reason::Limit(_))))
            .collect();
        assert!(reasons.contains(&true) && reasons.contains(&false));
    }

    #[test]
    fn errors_name_the_field() {
        let state = fixture::state(&[("n0", "4")]);
        let check = |change: fn(&mut SimulateScaleUpRequest), field: &str| {
            let mut request = request();
            change(&mut request);
            assert_eq!(ask(&state, request).unwrap_err().to_place_error().field, field);
        };
        check(|request| request.node_groups[1].template = None, "node_groups[1].template");
        check(|request| request.node_groups[1].id.clear(), "node_groups[1].id");
        check(|request| request.node_groups[1].id = "small".to_owned(), "node_groups[1].id");
        check(
            |request| {
                let node = request.node_groups[0].template.as_mut().unwrap();
                node.metadata.as_mut().unwrap().name.clear();
            },
            "node_groups[0].template.metadata.name",
        );
        check(
            |request| {
                let mut pod = fixture::pod("p", "1", 0);
                pod.spec = None;
                request.node_groups[0].template_pods = vec![fixture::pod("o", "1", 0), pod];
            },
            "node_groups[0].template_pods[1].spec",
        );
        check(
            |request| {
                let memory_bytes = Some(-1);
                request.limits = Some(wire::ScaleUpLimits { memory_bytes, ..Default::default() });
            },
            "limits.memory_bytes",
        );
        check(
            |request| {
                let nodes = Some(MAX_NODES + 1);
                request.limits = Some(wire::ScaleUpLimits { nodes, ..Default::default() });
            },
            "limits.nodes",
        );
        check(|request| request.entries[0].replicas = 1_000_000, "entries");
        check(|request| request.hints = vec![wire::ScaleUpHint::default()], "hints[0].pod.name");
        check(|request| request.node_groups[0].id = "g".repeat(MAX_ID + 1), "node_groups[0].id");
        // Each number alone is within its bound.
        check(
            |request| {
                request.entries[0].replicas = 20_000;
                let group = request.node_groups[0].clone();
                request.node_groups = vec![group; 501];
            },
            "node_groups",
        );
        check(
            |request| {
                let again = request.entries[0].clone();
                request.entries.push(again);
            },
            "entries",
        );
    }
}
