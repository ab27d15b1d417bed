//! Node features that a pod can require. Rules: S-NDF-1, S-NDF-2.

use berth_proto::core_v1;

/// Names of the features that decide where a pod may run; the bit of a feature in a [`FeatureSet`] is its position in
/// this list.
pub(crate) const FEATURES: [&str; 2] =
    ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"];

/// One bit for each feature of [`FEATURES`].
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct FeatureSet(pub(crate) u8);

impl FeatureSet {
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn contains(self, feature: usize) -> bool {
        self.0 & (1 << feature) != 0
    }

    /// The features that the pod requires (S-NDF-1).
    pub(crate) fn required(spec: &core_v1::PodSpec) -> FeatureSet {
        let restarts_all = spec
            .containers
            .iter()
            .chain(&spec.init_containers)
            .flat_map(|container| &container.restart_policy_rules)
            .any(|rule| rule.action == "RestartAllContainers");
        let host_network_without_host_users = spec.host_network && spec.host_users == Some(false);
        FeatureSet(u8::from(restarts_all) | u8::from(host_network_without_host_users) << 1)
    }

    /// The features that a node declares; names outside the list are ignored (S-NDF-2).
    pub(crate) fn declared(features: &[String]) -> FeatureSet {
        let bits =
            FEATURES.iter().enumerate().filter(|(_, name)| features.iter().any(|f| f == *name));
        FeatureSet(bits.fold(0, |set, (bit, _)| set | 1 << bit))
    }
}
