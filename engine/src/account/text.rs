//! Comparisons as text: a kind, what the pod asks for, and what the node has. Nothing else words them.

use std::fmt::Display;

use super::comparison::{
    ClaimStanding, Compared, Comparison, LabelSource, ResourceHolder, SpreadAccount,
};
use super::wording::{Rounding, amount_text, expression};
use crate::model::PodKey;

impl Comparison {
    /// A word or two for what is compared: `cpu`, `taint`, `nodeSelector`.
    pub fn kind(&self) -> String {
        match &self.compared {
            Compared::Resource { resource, .. } => resource.to_string(),
            Compared::HostPort { .. } => "host port".into(),
            Compared::Taint { .. } => "taint".into(),
            Compared::Cordon => "cordoned".into(),
            Compared::Fence => "fenced".into(),
            Compared::NodeName { .. } => "node name".into(),
            Compared::Label { source, .. }
            | Compared::Field { source, .. }
            | Compared::NoTerm { source } => match source {
                LabelSource::NodeSelector => "nodeSelector".into(),
                LabelSource::NodeAffinity { .. } => "nodeAffinity".into(),
                LabelSource::AddedAffinity => "addedAffinity".into(),
            },
            Compared::Spread { .. } => "spread".into(),
            Compared::Affinity { .. } => "podAffinity".into(),
            Compared::AntiAffinity { .. } => "podAntiAffinity".into(),
            Compared::ExistingAntiAffinity { .. } => "others' anti-affinity".into(),
            Compared::Disk { .. } => "disk".into(),
            Compared::ExclusiveClaim { .. }
            | Compared::UnknownClaim { .. }
            | Compared::Claim { .. } => "claim".into(),
            Compared::NeededDriver { .. } => "CSI driver".into(),
            Compared::VolumeLimit { .. } => "volume limit".into(),
            Compared::VolumeZone { .. } => "volume zone".into(),
            Compared::Devices(_) | Compared::DevicesTogether => "devices".into(),
            Compared::DeviceConstraint { .. } => "constraint".into(),
            Compared::InvalidDevicePool { .. } => "device pool".into(),
            Compared::AllocatedClaim { .. } | Compared::LeftoverClaim => "device claim".into(),
            Compared::NoDeviceClass { .. } => "extended resource".into(),
            Compared::Feature { .. } => "feature".into(),
            Compared::Nominated { .. } => "nominated pods".into(),
        }
    }

    /// What the pod asks for, in words that are equal for all nodes; empty where the kind says it all.
    pub fn subject(&self) -> String {
        match &self.compared {
            Compared::Resource { resource, asked, .. } => {
                format!("asks {}", amount_text(resource, *asked, Rounding::Up))
            }
            Compared::HostPort { port, protocol, ip, .. } => match &**ip {
                "0.0.0.0" => format!("{port}/{protocol}"),
                ip => format!("{port}/{protocol} on {ip}"),
            },
            Compared::NodeName { asked } => format!("wants {}", asked.join(", ")),
            Compared::Label { key, operator, values, .. } => expression(key, operator, values),
            Compared::Field { operator, value, .. } => {
                let value =
                    value.clone().unwrap_or_else(|| "a field that nodes do not have".into());
                expression("metadata.name", operator, &[value])
            }
            Compared::NoTerm { .. } => "has no valid term, so no node matches".into(),
            Compared::Spread { constraint, .. } => constraint.text(),
            Compared::Affinity { topology_key, selector, .. } => {
                format!("needs {selector} in its {topology_key}")
            }
            Compared::AntiAffinity { topology_key, selector, .. } => {
                format!("no {selector} in its {topology_key}")
            }
            Compared::ExistingAntiAffinity { topology_key, .. } => {
                format!("of pods in its {topology_key}")
            }
            Compared::Disk { disk, .. } => disk.to_string(),
            Compared::ExclusiveClaim { claim, .. } => format!("{claim} is ReadWriteOncePod"),
            Compared::UnknownClaim { why } => why.to_string(),
            Compared::NeededDriver { driver } => driver.to_string(),
            Compared::VolumeLimit { driver, asked, .. } => format!("{driver}, {asked} more"),
            Compared::Claim { claim, class, .. } if class.is_empty() => claim.to_string(),
            Compared::Claim { claim, class, .. } => format!("{claim} of class {class}"),
            Compared::VolumeZone { claim, key, values, .. } => {
                format!("{claim} is in {key} {}", values.join(" or "))
            }
            Compared::Devices(account) => account.subject(),
            Compared::DeviceConstraint { claim, constraint, asked, .. } => {
                format!("claim {claim}: {constraint} of {asked} devices")
            }
            Compared::DevicesTogether => "for all requests together".into(),
            Compared::InvalidDevicePool { driver, pool } => format!("{driver}/{pool}"),
            Compared::AllocatedClaim { claim, .. } => format!("{claim} is allocated"),
            Compared::LeftoverClaim => "for extended resources is left from before".into(),
            Compared::NoDeviceClass { resource } => resource.to_string(),
            Compared::Feature { name } => (*name).to_owned(),
            Compared::Taint { .. }
            | Compared::Cordon
            | Compared::Fence
            | Compared::Nominated { .. } => String::new(),
        }
    }

    /// What the node has instead, or what stands in the way there.
    pub fn found(&self) -> String {
        match &self.compared {
            Compared::Resource { resource, free, allocatable, holders, n_holders, .. } => {
                let amount = |amount| amount_text(resource, amount, Rounding::Down);
                let free = format!("{} free of {}", amount(*free), amount(*allocatable));
                with(free, "held by", &holders_text(resource, holders, *n_holders))
            }
            Compared::HostPort { holders, .. } => {
                let held = if self.is_met { "free" } else { "taken" };
                with(held.to_owned(), "by", &pods_text(holders))
            }
            Compared::Taint { key, value, effect } if value.is_empty() => format!("{key}:{effect}"),
            Compared::Taint { key, value, effect } => format!("{key}={value}:{effect}"),
            Compared::Cordon | Compared::Fence => if self.is_met { "no" } else { "" }.to_owned(),
            Compared::NodeName { .. }
            | Compared::Field { .. }
            | Compared::NoTerm { .. }
            | Compared::UnknownClaim { .. } => String::new(),
            Compared::Label { found, .. } | Compared::VolumeZone { found, .. } => {
                found.as_deref().unwrap_or("no such label").to_owned()
            }
            Compared::Spread { domain, skew, .. } => match domain {
                Some(domain) => format!("{domain} would be at skew {skew}"),
                None => "no such label".into(),
            },
            Compared::Affinity { domain, n_pods, n_anywhere, .. } => {
                let elsewhere =
                    if *n_pods == 0 && *n_anywhere == 0 { ", nor any other" } else { "" };
                in_domain(domain.as_deref(), &format!("{}{elsewhere}", counted(*n_pods)))
            }
            Compared::AntiAffinity { domain, n_pods, pods, .. } => {
                let text = with(counted(*n_pods), "as", &pods_text(pods));
                in_domain(domain.as_deref(), &text)
            }
            Compared::ExistingAntiAffinity { domain, n_terms, pods, .. } => {
                let text = with(counted(*n_terms), "as", &pods_text(pods));
                in_domain(domain.as_deref(), &text)
            }
            Compared::Disk { pods, .. } | Compared::ExclusiveClaim { pods, .. } => {
                let used = if self.is_met { "not in use" } else { "in use" };
                with(used.to_owned(), "by", &pods_text(pods))
            }
            Compared::VolumeLimit { in_use, limit, holders, .. } => {
                let limit =
                    limit.map_or_else(|| "any number".to_owned(), |limit| limit.to_string());
                let used = format!("{in_use} of {limit} in use");
                with(used, "most by", &holders_text("volumes", holders, holders.len() as u32))
            }
            Compared::NeededDriver { .. } => {
                if self.is_met { "installed" } else { "not installed" }.to_owned()
            }
            Compared::Claim { standing, .. } => standing.text(),
            Compared::Devices(account) => account.found(),
            Compared::DeviceConstraint { found, .. } => format!("at most {found} go together"),
            Compared::DevicesTogether => "no choice satisfies all of them".into(),
            Compared::InvalidDevicePool { .. } => "its slices contradict each other".into(),
            Compared::AllocatedClaim { needs, .. } if needs.is_empty() => {
                if self.is_met { "usable" } else { "its devices are not ready" }.to_owned()
            }
            Compared::AllocatedClaim { needs, .. } => format!("usable on {needs}"),
            Compared::LeftoverClaim => String::new(),
            Compared::NoDeviceClass { .. } => "neither the node nor a class provides it".into(),
            Compared::Feature { .. } => {
                if self.is_met { "declared" } else { "not declared" }.to_owned()
            }
            Compared::Nominated { pods } => pods_text(pods),
        }
    }

    /// The whole comparison on one line.
    pub fn text(&self) -> String {
        let (kind, subject, found) = (self.kind(), self.subject(), self.found());
        let head = if subject.is_empty() { kind } else { format!("{kind} {subject}") };
        if found.is_empty() { head } else { format!("{head}: {found}") }
    }
}

impl SpreadAccount {
    /// The constraint with its counts: `zone at most 1 apart: a 1, b 2`.
    fn text(&self) -> String {
        let listed: Vec<String> =
            self.domains.iter().map(|(domain, n)| format!("{domain} {n}")).collect();
        let more = match self.n_domains - listed.len() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let few = if (self.n_domains as i64) < self.min_domains {
            format!(
                "; minDomains {} is more than {}, so the minimum is 0",
                self.min_domains, self.n_domains
            )
        } else {
            String::new()
        };
        let counts =
            if listed.is_empty() { "no domain counts".to_owned() } else { listed.join(", ") };
        format!("{} at most {} apart: {counts}{more}{few}", self.topology_key, self.max_skew)
    }
}

impl ClaimStanding {
    fn text(&self) -> String {
        match self {
            ClaimStanding::Reachable { volume } => format!("volume {volume} can be used here"),
            ClaimStanding::OutOfReach { volume, needs } => {
                format!("volume {volume} needs a node with {needs}")
            }
            ClaimStanding::MissingVolume { volume } => format!("volume {volume} does not exist"),
            ClaimStanding::SelectedElsewhere { node } => {
                format!("its volume is being made for {node}")
            }
            ClaimStanding::WouldBind { volume } => format!("volume {volume} would be bound"),
            ClaimStanding::WouldProvision => "a volume would be provisioned".into(),
            ClaimStanding::NoVolume => "no free volume suits, and the class makes none".into(),
            ClaimStanding::NotAllowed { needs } => {
                format!("no free volume suits, and the class makes some only on nodes with {needs}")
            }
            ClaimStanding::NoCapacity { asked } => {
                let asked = amount_text("memory", *asked, Rounding::Up);
                format!("no free volume suits, and no storage here has {asked} left")
            }
        }
    }
}

fn in_domain(domain: Option<&str>, what: &str) -> String {
    match domain {
        Some(domain) => format!("{domain} has {what}"),
        None => "no such label".to_owned(),
    }
}

fn counted(n: i64) -> String {
    if n == 0 { "none".to_owned() } else { n.to_string() }
}

fn with(text: String, how: &str, what: &str) -> String {
    if what.is_empty() { text } else { format!("{text}, {how} {what}") }
}

fn holders_text(resource: &str, holders: &[ResourceHolder], n_holders: u32) -> String {
    let one = |holder: &ResourceHolder| {
        format!("{} {}", holder.pod, amount_text(resource, holder.amount, Rounding::Up))
    };
    let text = listed(holders.iter().map(one));
    match n_holders as usize - holders.len().min(n_holders as usize) {
        0 => text,
        _ if text.is_empty() => text,
        n => format!("{text} and {n} more"),
    }
}

fn pods_text(pods: &[PodKey]) -> String {
    listed(pods.iter())
}

fn listed(items: impl Iterator<Item = impl Display>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::plugin::Plugin;

    fn text_of(plugin: Plugin, is_met: bool, compared: Compared) -> String {
        Comparison { plugin, is_met, compared }.text()
    }

    fn spread(domains: &[(&str, i64)], n_domains: usize, min_domains: i64) -> Compared {
        let domains = domains.iter().map(|(domain, n)| (Arc::from(*domain), *n)).collect();
        let constraint = SpreadAccount {
            constraint: Some(0),
            topology_key: "zone".into(),
            max_skew: 1,
            min_domains,
            minimum: 0,
            counts_itself: true,
            n_domains,
            domains,
        };
        Compared::Spread {
            constraint: constraint.into(),
            domain: Some("a".into()),
            n_pods: 1,
            skew: 2,
        }
    }

    #[test]
    fn numbers_in_words() {
        let holder = |name: &str, amount| ResourceHolder { pod: PodKey::new("ml", name), amount };
        let gpu = Compared::Resource {
            resource: "nvidia.com/gpu".into(),
            asked: 2,
            free: 1,
            allocatable: 4,
            holders: vec![holder("serve", 2), holder("eval", 1)],
            n_holders: 2,
        };
        let expected = "nvidia.com/gpu asks 2: 1 free of 4, held by ml/serve 2, ml/eval 1";
        assert_eq!(text_of(Plugin::NodeResourcesFit, false, gpu), expected);
        let memory = Compared::Resource {
            resource: "memory".into(),
            asked: (3 << 30) + 1,
            free: 3 << 30,
            allocatable: 8 << 30,
            holders: vec![holder("a", 5 << 30)],
            n_holders: 9,
        };
        let expected = "memory asks 3.1Gi: 3Gi free of 8Gi, held by ml/a 5Gi and 8 more";
        assert_eq!(text_of(Plugin::NodeResourcesFit, false, memory), expected);
        let expected = "spread zone at most 1 apart: a 1, b 1; minDomains 5 is more than 2, so the minimum is 0: \
                        a would be at skew 2";
        let few = spread(&[("a", 1), ("b", 1)], 2, 5);
        assert_eq!(text_of(Plugin::PodTopologySpread, false, few), expected);
        let expected = "spread zone at most 1 apart: b 0 and 8 more: a would be at skew 2";
        let many = spread(&[("b", 0)], 9, 1);
        assert_eq!(text_of(Plugin::PodTopologySpread, false, many), expected);
    }

    #[test]
    fn requirements_in_words() {
        let label = |operator, values: &[&str], found: Option<&str>| Compared::Label {
            source: LabelSource::NodeSelector,
            key: "pool".into(),
            operator,
            values: values.iter().map(|value| Arc::from(*value)).collect(),
            found: found.map(Into::into),
        };
        for (compared, expected) in [
            (label("In", &["memory"], Some("gpu")), "nodeSelector pool=memory: gpu"),
            (label("In", &["a", "b"], None), "nodeSelector pool in (a,b): no such label"),
            (label("NotIn", &["a"], Some("a")), "nodeSelector pool!=a: a"),
            (label("Gt", &["5"], Some("3")), "nodeSelector pool>5: 3"),
            (label("DoesNotExist", &[], Some("3")), "nodeSelector !pool: 3"),
        ] {
            assert_eq!(text_of(Plugin::NodeAffinity, false, compared), expected);
        }
        let taint = Compared::Taint { key: "gpu".into(), value: "".into(), effect: "NoSchedule" };
        assert_eq!(text_of(Plugin::TaintToleration, false, taint), "taint: gpu:NoSchedule");
        assert_eq!(text_of(Plugin::NodeUnschedulable, false, Compared::Cordon), "cordoned");
    }
}
