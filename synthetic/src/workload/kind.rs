//! The kinds of pods that a synthetic workload mixes: a closed list, one function a kind.

use berth_proto::core_v1::{
    Affinity, NodeAffinity, Pod, PodAffinity, PodAffinityTerm, PodAntiAffinity, PodSchedulingGate,
    PreferredSchedulingTerm, WeightedPodAffinityTerm,
};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::cluster::pool::GPU_RESOURCE;
use crate::cluster::running::{AGENT_HOST_PORT, host_port};
use crate::cluster::{image, zone};
use crate::object::{
    HOSTNAME, Requests, ZONE, label_in, pod, pod_affinity_term, required_node_affinity, spread,
    toleration,
};

/// Kind of a deployment: the demands of its pods on their nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Requests only.
    Web,
    /// `nodeSelector` on `disk`.
    Ssd,
    /// Required node affinity: one of two tiers.
    Tier,
    /// Preferred node affinity: one zone more than another.
    Zone,
    /// Hard spread: evenly over the zones.
    SpreadZones,
    /// Soft spread: preferably evenly over zones and nodes.
    SpreadSoft,
    /// Required anti-affinity: no two replicas on one node.
    OnePerNode,
    /// Required affinity: all replicas in the zone of the first.
    SameZone,
    /// Preferred anti-affinity: preferably on a node without another replica.
    RatherApart,
    /// Tolerates the spot pool's `PreferNoSchedule` taint.
    Batch,
    /// Tolerates and selects the dedicated memory pool.
    Memory,
    /// Tolerates the GPU pool and requests GPUs.
    Gpu,
    /// A host port of a small range.
    HostPort,
    /// A scheduling gate holds the pods back.
    Gated,
    /// More CPU than any node has.
    TooLarge,
    /// A label that no node carries.
    NoSuchLabel,
    /// The host port that the node agents hold everywhere.
    PortTaken,
}

impl Kind {
    /// Every kind with its name on the command line and its weight in the default mix.
    pub const ALL: [(Kind, &'static str, u32); 17] = [
        (Kind::Web, "web", 440),
        (Kind::Ssd, "ssd", 110),
        (Kind::Tier, "tier", 90),
        (Kind::Zone, "zone", 100),
        (Kind::SpreadZones, "spread-zones", 60),
        (Kind::SpreadSoft, "spread-soft", 60),
        (Kind::OnePerNode, "one-per-node", 40),
        (Kind::SameZone, "same-zone", 30),
        (Kind::RatherApart, "rather-apart", 50),
        (Kind::Batch, "batch", 140),
        (Kind::Memory, "memory", 40),
        (Kind::Gpu, "gpu", 30),
        (Kind::HostPort, "host-port", 20),
        (Kind::Gated, "gated", 20),
        (Kind::TooLarge, "too-large", 30),
        (Kind::NoSuchLabel, "no-such-label", 30),
        (Kind::PortTaken, "port-taken", 30),
    ];

    /// The kind's name on the command line and in deployments' names.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _, _)| *kind == self).map_or("", |(_, name, _)| name)
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, own, _)| *own == name).map(|(kind, _, _)| *kind)
    }

    /// Numbers of replicas to choose from. Kinds that fit no node have few, so that a run shows several causes instead
    /// of one cause fifty times.
    pub fn replica_choices(self) -> &'static [usize] {
        match self {
            Kind::Web
            | Kind::Ssd
            | Kind::Tier
            | Kind::Zone
            | Kind::SpreadZones
            | Kind::SpreadSoft
            | Kind::OnePerNode
            | Kind::SameZone
            | Kind::RatherApart
            | Kind::Batch
            | Kind::Memory
            | Kind::Gpu
            | Kind::HostPort => &[1, 2, 3, 3, 5, 10, 20, 50],
            Kind::Gated | Kind::TooLarge | Kind::NoSuchLabel | Kind::PortTaken => &[1, 2, 3],
        }
    }

    /// The pod template of a new deployment, named `name` in `namespace`.
    pub fn template(self, namespace: &str, name: &str, rng: &mut ChaCha8Rng) -> Pod {
        let image = image::name(rng.random_range(0..100));
        let mut template = pod(namespace, name, name, &image, self.requests(rng));
        template.metadata.get_or_insert_default().labels.insert("app".to_owned(), name.to_owned());
        self.constrain(&mut template, rng);
        self.relate(&mut template, name);
        template
    }

    fn requests(self, rng: &mut ChaCha8Rng) -> Requests<'static> {
        let mut any = |choices: &[i64]| choices.choose(rng).copied().unwrap_or(100);
        match self {
            Kind::Web
            | Kind::Ssd
            | Kind::Tier
            | Kind::Zone
            | Kind::SpreadZones
            | Kind::SpreadSoft
            | Kind::OnePerNode
            | Kind::SameZone
            | Kind::RatherApart
            | Kind::HostPort
            | Kind::Gated
            | Kind::NoSuchLabel
            | Kind::PortTaken => Requests {
                cpu_milli: any(&[100, 200, 250, 500, 1000]),
                memory_mib: any(&[128, 256, 512, 1024]),
                extended: None,
            },
            Kind::Batch => Requests {
                cpu_milli: any(&[500, 1000, 2000]),
                memory_mib: any(&[512, 2048, 4096]),
                extended: None,
            },
            Kind::Memory => Requests {
                cpu_milli: any(&[500, 1000]),
                memory_mib: any(&[8192, 16384, 32768]),
                extended: None,
            },
            Kind::Gpu => Requests {
                cpu_milli: any(&[1000, 2000, 4000]),
                memory_mib: any(&[4096, 16384]),
                extended: Some((GPU_RESOURCE, any(&[1, 1, 1, 2, 4]))),
            },
            Kind::TooLarge => {
                Requests { cpu_milli: any(&[96_000, 500_000]), memory_mib: 1024, extended: None }
            }
        }
    }

    fn constrain(self, template: &mut Pod, rng: &mut ChaCha8Rng) {
        let spec = template.spec.get_or_insert_default();
        let mut select =
            |key: &str, value: &str| spec.node_selector.insert(key.to_owned(), value.to_owned());
        match self {
            Kind::Web
            | Kind::TooLarge
            | Kind::SpreadZones
            | Kind::SpreadSoft
            | Kind::OnePerNode
            | Kind::SameZone
            | Kind::RatherApart => {}
            Kind::Ssd => drop(select("disk", "ssd")),
            Kind::NoSuchLabel => drop(select("hardware", "quantum")),
            Kind::Memory => {
                select("pool", "memory");
                spec.tolerations = vec![toleration("dedicated", "memory", "NoSchedule")];
            }
            Kind::Tier => {
                let tiers: Vec<String> =
                    ["a", "b", "c", "d", "e"].sample(rng, 2).map(|tier| tier.to_string()).collect();
                spec.affinity = Some(required_node_affinity(label_in("tier", tiers)));
            }
            Kind::Zone => {
                spec.affinity =
                    Some(prefers_zone(rng.random_range(0..3), rng.random_range(1..=100)))
            }
            Kind::Batch => spec.tolerations = vec![toleration("spot", "true", "PreferNoSchedule")],
            Kind::Gpu => spec.tolerations = vec![toleration(GPU_RESOURCE, "present", "NoSchedule")],
            Kind::Gated => {
                spec.scheduling_gates =
                    vec![PodSchedulingGate { name: "example.com/quota".to_owned() }]
            }
            Kind::HostPort => add_host_port(template, rng.random_range(8080..8090)),
            Kind::PortTaken => add_host_port(template, AGENT_HOST_PORT),
        }
    }

    /// Adds the kind's constraints between its own replicas.
    fn relate(self, template: &mut Pod, app: &str) {
        let spec = template.spec.get_or_insert_default();
        match self {
            Kind::SpreadZones => {
                spec.topology_spread_constraints = vec![spread(ZONE, "DoNotSchedule", app)];
            }
            Kind::SpreadSoft => {
                spec.topology_spread_constraints =
                    [ZONE, HOSTNAME].map(|key| spread(key, "ScheduleAnyway", app)).into();
            }
            Kind::OnePerNode => {
                let apart = pod_affinity_term(HOSTNAME, app);
                spec.affinity = Some(anti_affinity(vec![apart], Vec::new()));
            }
            Kind::SameZone => spec.affinity = Some(affinity(pod_affinity_term(ZONE, app))),
            Kind::RatherApart => {
                let apart = pod_affinity_term(HOSTNAME, app);
                spec.affinity = Some(anti_affinity(Vec::new(), vec![apart]));
            }
            Kind::Web
            | Kind::Ssd
            | Kind::Tier
            | Kind::Zone
            | Kind::Batch
            | Kind::Memory
            | Kind::Gpu
            | Kind::HostPort
            | Kind::Gated
            | Kind::TooLarge
            | Kind::NoSuchLabel
            | Kind::PortTaken => {}
        }
    }
}

fn affinity(term: PodAffinityTerm) -> Affinity {
    let required_during_scheduling_ignored_during_execution = vec![term];
    Affinity {
        pod_affinity: Some(PodAffinity {
            required_during_scheduling_ignored_during_execution,
            ..PodAffinity::default()
        }),
        ..Affinity::default()
    }
}

fn anti_affinity(required: Vec<PodAffinityTerm>, preferred: Vec<PodAffinityTerm>) -> Affinity {
    let weighted = |term| WeightedPodAffinityTerm { weight: 100, pod_affinity_term: Some(term) };
    Affinity {
        pod_anti_affinity: Some(PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: required,
            preferred_during_scheduling_ignored_during_execution: preferred
                .into_iter()
                .map(weighted)
                .collect(),
        }),
        ..Affinity::default()
    }
}

fn prefers_zone(number: usize, weight: i32) -> Affinity {
    let preference = Some(label_in(ZONE, [zone(number)]));
    Affinity {
        node_affinity: Some(NodeAffinity {
            preferred_during_scheduling_ignored_during_execution: vec![PreferredSchedulingTerm {
                weight,
                preference,
            }],
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    }
}

fn add_host_port(template: &mut Pod, port: i32) {
    if let Some(container) = template.spec.as_mut().and_then(|spec| spec.containers.first_mut()) {
        container.ports.push(host_port(port));
    }
}
