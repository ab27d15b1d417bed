//! The workloads of the baseline.

/// Number of nodes of the baseline.
pub const N_NODES: usize = 5000;

/// One workload of the baseline, by the features of its nodes, existing pods and incoming pods besides resources.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Resources only.
    Basic,
    /// Incoming: a node selector and required node affinity that one node in five matches.
    NodeAffinity,
    /// A quarter of the nodes has a hard taint, which every second incoming pod tolerates; another quarter a soft one.
    Taints,
    /// Incoming: hard spread over zones with a maximum skew of 1.
    SpreadHardZone,
    /// Incoming: soft spread over zones and nodes.
    SpreadSoft,
    /// Incoming: pods of a Service, so that the built-in default constraints apply.
    SpreadSystemDefaults,
    /// Incoming pods, and existing pods on a fifth of the nodes: required anti-affinity, no two on one node.
    AntiAffinityHost1000,
    /// Required anti-affinity, with existing pods on four fifths of the nodes.
    AntiAffinityHost4000,
    /// Incoming: required affinity to an application, which runs in one zone.
    AffinityZone,
    /// Incoming pods and every tenth existing pod: preferred affinity to the application's zone, and preferred
    /// anti-affinity to each other by node.
    PreferredAffinity,
    /// All features in one cluster.
    Mixed,
}

impl Workload {
    /// Every workload, in the baseline's order.
    pub const ALL: [Workload; 11] = [
        Workload::Basic,
        Workload::NodeAffinity,
        Workload::Taints,
        Workload::SpreadHardZone,
        Workload::SpreadSoft,
        Workload::SpreadSystemDefaults,
        Workload::AntiAffinityHost1000,
        Workload::AntiAffinityHost4000,
        Workload::AffinityZone,
        Workload::PreferredAffinity,
        Workload::Mixed,
    ];

    /// The workload's name in the baseline.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Basic => "a-basic",
            Workload::NodeAffinity => "b-nodeaffinity",
            Workload::Taints => "c-taints",
            Workload::SpreadHardZone => "d-spread-hard-zone",
            Workload::SpreadSoft => "e1-spread-soft",
            Workload::SpreadSystemDefaults => "e2-spread-system-defaults",
            Workload::AntiAffinityHost1000 => "f1-antiaffinity-host-1000",
            Workload::AntiAffinityHost4000 => "f2-antiaffinity-host-4000",
            Workload::AffinityZone => "g-affinity-zone",
            Workload::PreferredAffinity => "h-preferred-affinity",
            Workload::Mixed => "j-mixed",
        }
    }

    /// The workload's name in the recorded decisions: the part of its name before the first dash.
    pub fn letter(self) -> &'static str {
        self.name().split('-').next().unwrap_or_default()
    }

    /// Number of workloads from which the incoming pods are taken alternately.
    pub fn n_kinds(self) -> usize {
        if self == Workload::Mixed { 10 } else { 1 }
    }
}
