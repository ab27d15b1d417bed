//! Explanations on the wire: verdicts with what was compared, scores with what they came from, remedies as data.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_engine as engine;
use berth_proto::berth_v1 as wire;
use wire::comparison::Compared as Wire;
use wire::remedy_change::Change;

use super::{node_verdict, pod_key};

/// Number of nodes between two looks at whether the caller is still there.
const NODES_PER_CHECK: usize = 256;

/// An explanation as a response: the verdicts on the named nodes, or on all of them where none is named.
///
/// `check` is called every few hundred nodes; its error ends the conversion.
pub(crate) fn explanation<E>(
    explanation: engine::Explanation,
    node_names: &[String],
    check: impl Fn() -> Result<(), E>,
) -> Result<wire::ExplainResponse, E> {
    let engine::Explanation { decision, nodes, accounts, best: _, remedies } = explanation;
    let named: BTreeSet<&str> = node_names.iter().map(String::as_str).collect();
    let is_wanted = |node: &engine::NodeVerdict| named.is_empty() || named.contains(&*node.node);
    let mut constraints = Constraints::default();
    let mut verdicts = Vec::new();
    let told_of = nodes.into_iter().zip(accounts).filter(|(node, _)| is_wanted(node));
    for (i, (node, account)) in told_of.enumerate() {
        if i.is_multiple_of(NODES_PER_CHECK) {
            check()?;
        }
        verdicts.push(told(node, account, &mut constraints));
    }
    Ok(wire::ExplainResponse {
        decision: Some(super::decision(decision)),
        nodes: verdicts,
        remedies: remedies.into_iter().map(remedy).collect(),
        admission: None,
        spread_constraints: constraints.0.iter().map(|counts| spread_counts(counts)).collect(),
    })
}

/// The spread constraints that comparisons refer to, by position.
#[derive(Default)]
struct Constraints(Vec<Arc<engine::SpreadAccount>>);

impl Constraints {
    fn position(&mut self, account: &Arc<engine::SpreadAccount>) -> u32 {
        let known = self.0.iter().position(|known| Arc::ptr_eq(known, account));
        let at = known.unwrap_or_else(|| {
            self.0.push(account.clone());
            self.0.len() - 1
        });
        number(at)
    }
}

/// A verdict with the account of its node.
fn told(
    node: engine::NodeVerdict,
    account: engine::NodeAccount,
    constraints: &mut Constraints,
) -> wire::NodeVerdict {
    let engine::NodeAccount { shortfalls, is_sole, checks, scores } = account;
    let mut verdict = node_verdict(node);
    verdict.checks = checks.into_iter().map(|it| comparison(it, constraints)).collect();
    if let Some(rejection) = &mut verdict.rejection {
        rejection.comparisons =
            shortfalls.into_iter().map(|it| comparison(it, constraints)).collect();
        rejection.is_sole = is_sole;
    }
    for (score, account) in verdict.scores.iter_mut().zip(scores) {
        let engine::ScoreAccount { plugin, normalized, weight, basis } = account;
        debug_assert_eq!(score.plugin, plugin.name(), "scores and their accounts are in one order");
        score.basis = Some(wire::ScoreBasis { normalized, weight, lines: basis });
    }
    verdict
}

fn comparison(comparison: engine::Comparison, constraints: &mut Constraints) -> wire::Comparison {
    let (kind, subject, found) = (comparison.kind(), comparison.subject(), comparison.found());
    let engine::Comparison { plugin, is_met, compared } = comparison;
    wire::Comparison {
        plugin: plugin.name().to_owned(),
        met: is_met,
        kind,
        subject,
        found,
        compared: compared_data(compared, constraints),
    }
}

fn compared_data(compared: engine::Compared, constraints: &mut Constraints) -> Option<Wire> {
    use engine::Compared;
    Some(match compared {
        Compared::Cordon
        | Compared::Fence
        | Compared::NoTerm { .. }
        | Compared::UnknownClaim { .. }
        | Compared::DevicesTogether
        | Compared::InvalidDevicePool { .. }
        | Compared::AllocatedClaim { .. }
        | Compared::LeftoverClaim
        | Compared::NoDeviceClass { .. } => return None,
        Compared::Resource { resource, asked, free, allocatable, holders, n_holders } => {
            let (resource, holders) = (resource.to_string(), holders_of(&holders));
            let fields =
                wire::ResourceComparison { resource, asked, free, allocatable, holders, n_holders };
            Wire::Resource(fields)
        }
        Compared::HostPort { port, protocol, ip, holders } => {
            let (protocol, ip, holders) = (protocol.to_string(), ip.to_string(), keys(&holders));
            Wire::HostPort(wire::HostPortComparison { port, protocol, ip, holders })
        }
        Compared::Taint { key, value, effect } => {
            let (key, value, effect) = (key.to_string(), value.to_string(), effect.to_owned());
            Wire::Taint(wire::TaintComparison { key, value, effect })
        }
        Compared::NodeName { asked } => {
            Wire::NodeName(wire::NodeNameComparison { asked: texts(&asked) })
        }
        Compared::Label { source, key, operator, values, found } => {
            label(source, &key, operator, texts(&values), found)
        }
        Compared::Field { source, operator, value } => {
            let values = value.iter().map(ToString::to_string).collect();
            label(source, "metadata.name", operator, values, None)
        }
        Compared::Spread { constraint, domain, n_pods, skew } => {
            let (constraint, domain) = (constraints.position(&constraint), text(domain));
            Wire::Spread(wire::SpreadComparison { constraint, domain, n_pods, skew })
        }
        Compared::Affinity { term, topology_key, selector: _, domain, n_pods, n_anywhere } => {
            let of = affinity(wire::AffinityKind::Affinity, &topology_key, domain, n_pods);
            Wire::Affinity(wire::AffinityComparison { term: number(term), n_anywhere, ..of })
        }
        Compared::AntiAffinity { term, topology_key, selector: _, domain, n_pods, pods } => {
            let of = affinity(wire::AffinityKind::AntiAffinity, &topology_key, domain, n_pods);
            let (term, pods) = (number(term), keys(&pods));
            Wire::Affinity(wire::AffinityComparison { term, pods, ..of })
        }
        Compared::ExistingAntiAffinity { topology_key, domain, n_terms, pods } => {
            let kind = wire::AffinityKind::AntiAffinityOfOthers;
            let of = affinity(kind, &topology_key, domain, n_terms);
            Wire::Affinity(wire::AffinityComparison { pods: keys(&pods), ..of })
        }
        Compared::Devices(account) => Wire::Devices(device_data(*account)),
        Compared::DeviceConstraint { claim, constraint, asked, found } => {
            let (claim, constraint) = (claim.to_string(), constraint.to_string());
            let fields = wire::DeviceConstraintComparison { claim, constraint, asked, found };
            Wire::DeviceConstraint(fields)
        }
        Compared::Disk { .. }
        | Compared::ExclusiveClaim { .. }
        | Compared::NeededDriver { .. }
        | Compared::VolumeLimit { .. }
        | Compared::Claim { .. }
        | Compared::VolumeZone { .. } => return volume_data(compared),
        Compared::Feature { name } => Wire::Feature(name.to_owned()),
        Compared::Nominated { pods } => {
            Wire::NominatedPods(wire::NominatedPods { pods: keys(&pods) })
        }
    })
}

/// Comparisons about volumes.
fn volume_data(compared: engine::Compared) -> Option<Wire> {
    use engine::Compared;
    Some(match compared {
        Compared::Disk { disk, pods } => volume_use(disk.to_string(), String::new(), &pods),
        Compared::ExclusiveClaim { claim, pods } => {
            volume_use(String::new(), claim.to_string(), &pods)
        }
        Compared::NeededDriver { driver } => Wire::NeededDriver(driver.to_string()),
        Compared::VolumeLimit { driver, asked, in_use, limit, holders } => {
            let (driver, holders) = (driver.to_string(), holders_of(&holders));
            Wire::VolumeLimit(wire::VolumeLimitComparison { driver, asked, in_use, limit, holders })
        }
        Compared::Claim { claim, class, standing } => {
            Wire::Claim(claim_data(&claim, &class, standing))
        }
        Compared::VolumeZone { claim, key, values, found } => {
            let (claim, key) = (claim.to_string(), key.to_string());
            let (values, found) = (texts(&values), text(found));
            Wire::VolumeZone(wire::VolumeZoneComparison { claim, key, values, found })
        }
        _ => return None,
    })
}

fn device_data(account: engine::DeviceAccount) -> wire::DeviceComparison {
    let holder = |holder: &engine::DeviceHolder| wire::DeviceHolder {
        device: holder.device.to_string(),
        claim: holder.claim.to_string(),
    };
    wire::DeviceComparison {
        claim: account.claim.to_string(),
        request: account.request.to_string(),
        device_class: account.class.to_string(),
        asked: account.asked,
        seen: account.n_seen,
        of_class: account.n_of_class,
        selected: account.n_selected,
        with_capacity: account.n_with_capacity,
        tolerated: account.n_tolerated,
        drawable: account.n_drawable,
        left: account.n_left,
        selector: text(account.selector).unwrap_or_default(),
        holders: account.holders.iter().map(holder).collect(),
    }
}

fn label(
    source: engine::LabelSource,
    key: &str,
    operator: &str,
    values: Vec<String>,
    found: Option<Arc<str>>,
) -> Wire {
    Wire::Label(wire::LabelComparison {
        key: key.to_owned(),
        operator: operator.to_owned(),
        values,
        found: text(found),
        term: term_of(source),
    })
}

fn affinity(
    kind: wire::AffinityKind,
    topology_key: &str,
    domain: Option<Arc<str>>,
    n_pods: i64,
) -> wire::AffinityComparison {
    wire::AffinityComparison {
        kind: kind.into(),
        topology_key: topology_key.to_owned(),
        domain: text(domain),
        n_pods,
        ..wire::AffinityComparison::default()
    }
}

fn volume_use(disk: String, claim: String, pods: &[engine::PodKey]) -> Wire {
    Wire::VolumeUse(wire::VolumeUseComparison { disk, claim, pods: keys(pods) })
}

fn claim_data(claim: &str, class: &str, standing: engine::ClaimStanding) -> wire::ClaimComparison {
    use engine::ClaimStanding as Standing;
    use wire::ClaimState as State;
    let mut data = wire::ClaimComparison {
        claim: claim.to_owned(),
        storage_class: class.to_owned(),
        ..wire::ClaimComparison::default()
    };
    let state = match standing {
        Standing::Reachable { volume } => {
            data.volume = volume.to_string();
            State::Reachable
        }
        Standing::OutOfReach { volume, needs } => {
            data.volume = volume.to_string();
            data.needs = needs.to_string();
            State::OutOfReach
        }
        Standing::MissingVolume { volume } => {
            data.volume = volume.to_string();
            State::MissingVolume
        }
        Standing::SelectedElsewhere { node } => {
            data.selected_node = node.to_string();
            State::SelectedElsewhere
        }
        Standing::WouldBind { volume } => {
            data.volume = volume.to_string();
            State::WouldBind
        }
        Standing::WouldProvision => State::WouldProvision,
        Standing::NoVolume => State::NoVolume,
        Standing::NotAllowed { needs } => {
            data.needs = needs.to_string();
            State::NotAllowed
        }
        Standing::NoCapacity { asked } => {
            data.asked_bytes = asked;
            State::NoCapacity
        }
    };
    data.state = state.into();
    data
}

fn spread_counts(account: &engine::SpreadAccount) -> wire::SpreadConstraintCounts {
    let engine::SpreadAccount {
        constraint,
        topology_key,
        max_skew,
        min_domains,
        minimum,
        counts_itself,
        n_domains,
        domains,
    } = account;
    let count = |(domain, n_pods): &(Arc<str>, i64)| wire::DomainCount {
        domain: domain.to_string(),
        n_pods: *n_pods,
    };
    wire::SpreadConstraintCounts {
        position: constraint.map(number),
        topology_key: topology_key.to_string(),
        max_skew: *max_skew,
        min_domains: *min_domains,
        minimum: *minimum,
        counts_itself: *counts_itself,
        n_domains: number(*n_domains),
        domains: domains.iter().map(count).collect(),
    }
}

/// A remedy with its changes as data.
pub(crate) fn remedy(remedy: engine::Remedy) -> wire::Remedy {
    let engine::Remedy { change, changes, n_nodes, examples } = remedy;
    wire::Remedy {
        change,
        n_nodes,
        example_node_names: texts(&examples),
        changes: changes
            .into_iter()
            .map(|change| wire::RemedyChange { change: Some(change_data(change)) })
            .collect(),
    }
}

fn change_data(change: engine::RemedyChange) -> Change {
    use engine::RemedyChange as Engine;
    use wire::change_spread::Change as Spread;
    let nodes = |nodes: &[Arc<str>]| wire::RemedyNodes { node_names: texts(nodes) };
    let spread = |constraint, change| {
        let change = Some(change);
        Change::ChangeSpread(wire::ChangeSpread { constraint: number(constraint), change })
    };
    match change {
        Engine::Uncordon { nodes: names } => Change::Uncordon(nodes(&names)),
        Engine::ClearTaint { key, nodes: names } => {
            Change::ClearTaint(wire::ClearTaint { key: key.to_string(), node_names: texts(&names) })
        }
        Engine::LiftFence { nodes: names } => Change::LiftFence(nodes(&names)),
        Engine::AllowPod { nodes: names } => Change::AllowPod(nodes(&names)),
        Engine::Tolerate { key, value, effect } => Change::Tolerate(wire::AddToleration {
            key: key.to_string(),
            value: value.to_string(),
            effect: effect.unwrap_or_default().to_owned(),
        }),
        Engine::DropNodeSelector { key, value } => {
            Change::DropNodeSelector(wire::DropNodeSelector {
                key: key.to_string(),
                value: value.to_string(),
            })
        }
        Engine::DropNodeRequirement { key, operator, values } => {
            Change::DropNodeRequirement(wire::DropNodeRequirement {
                key: key.to_string(),
                operator: operator.to_owned(),
                values: texts(&values),
            })
        }
        Engine::DropNodeConstraints { node_selector, node_affinity } => {
            Change::DropNodeConstraints(wire::DropNodeConstraints { node_selector, node_affinity })
        }
        Engine::RaiseMaxSkew { constraint, max_skew } => {
            spread(constraint, Spread::MaxSkew(max_skew))
        }
        Engine::LowerMinDomains { constraint, min_domains } => {
            spread(constraint, Spread::MinDomains(min_domains))
        }
        Engine::SoftenSpread { constraint } => spread(constraint, Spread::ScheduleAnyway(true)),
        Engine::RequestLess { resource, amount } => {
            Change::RequestLess(wire::RequestLess { resource: resource.to_string(), amount })
        }
        Engine::DropPodAffinity { term } => Change::DropPodAffinity(number(term)),
        Engine::DropPodAntiAffinity { term } => Change::DropPodAntiAffinity(number(term)),
        Engine::DropHostPort { port, protocol, ip } => Change::DropHostPort(wire::DropHostPort {
            port,
            protocol: protocol.to_string(),
            ip: ip.to_string(),
        }),
        Engine::ProvideVolume { claim } => Change::ProvideVolume(claim.to_string()),
        Engine::RemovePod { pod, node } => Change::RemovePod(wire::RemovePod {
            pod: Some(pod_key(&pod, "")),
            node_name: node.to_string(),
        }),
        Engine::AddNode { like, name } => {
            Change::AddNode(wire::AddNode { like: like.to_string(), name: name.to_string() })
        }
    }
}

/// The position of a requirement's term; `None` where it is not one of several.
fn term_of(source: engine::LabelSource) -> Option<u32> {
    match source {
        engine::LabelSource::NodeAffinity { term, .. } => Some(number(term)),
        engine::LabelSource::NodeSelector | engine::LabelSource::AddedAffinity => None,
    }
}

fn holders_of(holders: &[engine::ResourceHolder]) -> Vec<wire::Holder> {
    let holder = |holder: &engine::ResourceHolder| wire::Holder {
        pod: Some(pod_key(&holder.pod, "")),
        amount: holder.amount,
    };
    holders.iter().map(holder).collect()
}

fn keys(pods: &[engine::PodKey]) -> Vec<wire::PodKey> {
    pods.iter().map(|pod| pod_key(pod, "")).collect()
}

fn texts(texts: &[Arc<str>]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

fn text(text: Option<Arc<str>>) -> Option<String> {
    text.map(|text| text.to_string())
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
