//! Synthetic workloads: pods to place, as replicas of deployments of several kinds.
//!
//! The pods use all features that placements read, except volumes, whose claims would be needed for each replica.

pub mod kind;

use std::str::FromStr;

use berth_proto::core_v1::Pod;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub use kind::Kind;

/// Specification of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadSpec {
    /// Number of pods.
    pub n_pods: usize,
    /// Shares of the kinds.
    pub mix: Mix,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Default for WorkloadSpec {
    fn default() -> Self {
        Self { n_pods: 10_000, mix: Mix::default(), seed: 1 }
    }
}

/// Generates pods to place in their order of arrival: replicas of one deployment mostly together, as in a rollout, with
/// other deployments in between.
///
/// Names and uids are unique within the result, and no pod has a node.
pub fn generate(spec: &WorkloadSpec) -> Vec<Pod> {
    let mut rng = ChaCha8Rng::seed_from_u64(spec.seed);
    rng.set_stream(100);
    let mut pods = Vec::with_capacity(spec.n_pods);
    while pods.len() < spec.n_pods {
        // Eight deployments roll out at the same time.
        let left = spec.n_pods - pods.len();
        let mut rollout: Vec<Pod> = (0..8)
            .flat_map(|lane| deployment(&spec.mix, pods.len() * 8 + lane, &mut rng))
            .collect();
        shuffle_nearby(&mut rollout, &mut rng);
        pods.extend(rollout.into_iter().take(left));
    }
    pods
}

/// Shuffles within windows of 64, so that replicas stay near each other.
fn shuffle_nearby(pods: &mut [Pod], rng: &mut ChaCha8Rng) {
    for window in pods.chunks_mut(64) {
        window.shuffle(rng);
    }
}

fn deployment(mix: &Mix, number: usize, rng: &mut ChaCha8Rng) -> Vec<Pod> {
    let kind = mix.draw(rng);
    let name = format!("{}-{number}", kind.name());
    let template = kind.template(&format!("team-{}", number % 20), &name, rng);
    let n_replicas = kind.replica_choices().choose(rng).copied().unwrap_or(1);
    (0..n_replicas).map(|replica| renamed(&template, &format!("{name}-{replica}"))).collect()
}

/// A copy of the pod under another name and uid.
pub fn renamed(pod: &Pod, name: &str) -> Pod {
    let mut pod = pod.clone();
    let metadata = pod.metadata.get_or_insert_default();
    metadata.name = name.to_owned();
    metadata.uid = name.to_owned();
    pod
}

/// Weights of the kinds in a workload, by deployments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mix {
    weights: Vec<(Kind, u32)>,
}

impl Mix {
    /// A mix of one kind.
    pub fn only(kind: Kind) -> Self {
        Self { weights: vec![(kind, 1)] }
    }

    fn draw(&self, rng: &mut ChaCha8Rng) -> Kind {
        let total: u32 = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut at = rng.random_range(0..total.max(1));
        for (kind, weight) in &self.weights {
            if at < *weight {
                return *kind;
            }
            at -= weight;
        }
        Kind::Web
    }
}

impl Default for Mix {
    fn default() -> Self {
        Self { weights: Kind::ALL.iter().map(|(kind, _, weight)| (*kind, *weight)).collect() }
    }
}

/// Reason why a text is not a mix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MixError {
    /// A part is not of the form `KIND=WEIGHT`.
    #[error("`{0}` is not `KIND=WEIGHT`")]
    Shape(String),
    /// No kind has this name.
    #[error("unknown kind `{0}`; known are {known}", known = known_kinds())]
    UnknownKind(String),
    /// The weight is not an integer from 0 to 1,000,000.
    #[error("weight of `{kind}` is `{weight}`; expected an integer from 0 to 1000000")]
    Weight {
        /// The kind's name.
        kind: String,
        /// Text of the weight.
        weight: String,
    },
    /// All weights are 0.
    #[error("every weight is 0")]
    Empty,
}

fn known_kinds() -> String {
    Kind::ALL.map(|(_, name, _)| format!("`{name}`")).join(", ")
}

impl FromStr for Mix {
    type Err = MixError;

    /// Reads `web=8,gpu=2`; a kind that is not named has weight 0, one named twice has the later weight.
    fn from_str(text: &str) -> Result<Self, MixError> {
        let mut weights: Vec<(Kind, u32)> = Vec::new();
        for part in text.split(',') {
            let (name, weight) =
                part.trim().split_once('=').ok_or_else(|| MixError::Shape(part.to_owned()))?;
            let kind =
                Kind::from_name(name).ok_or_else(|| MixError::UnknownKind(name.to_owned()))?;
            let weight =
                weight.parse().ok().filter(|weight| *weight <= 1_000_000).ok_or_else(|| {
                    MixError::Weight { kind: name.to_owned(), weight: weight.to_owned() }
                })?;
            weights.retain(|(own, _)| *own != kind);
            weights.push((kind, weight));
        }
        if weights.iter().all(|(_, weight)| *weight == 0) {
            return Err(MixError::Empty);
        }
        Ok(Self { weights })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use berth_proto::core_v1::PodSpec;
    use berth_proto::meta_v1::LabelSelector;

    use super::{Kind, Mix, MixError, WorkloadSpec, generate};

    fn spec(n_pods: usize, seed: u64) -> WorkloadSpec {
        WorkloadSpec { n_pods, seed, ..WorkloadSpec::default() }
    }

    #[test]
    fn same_seed_same_pods_and_other_seed_other_pods() {
        assert_eq!(generate(&spec(500, 7)), generate(&spec(500, 7)));
        assert_ne!(generate(&spec(500, 7)), generate(&spec(500, 8)));
    }

    #[test]
    fn names_are_unique_and_nothing_is_bound() {
        let pods = generate(&spec(5_000, 1));
        assert_eq!(pods.len(), 5_000);
        let names: BTreeSet<_> = pods
            .iter()
            .map(|pod| pod.metadata.as_ref().map(|m| (m.namespace.clone(), m.name.clone())))
            .collect();
        assert_eq!(names.len(), 5_000);
        for spec in pods.iter().filter_map(|pod| pod.spec.as_ref()) {
            assert_eq!(spec.node_name, "");
            assert!(spec.volumes.is_empty());
        }
    }

    #[test]
    fn default_mix_draws_every_kind() {
        let pods = generate(&spec(40_000, 3));
        for (kind, name, _) in Kind::ALL {
            let prefix = format!("{name}-");
            let count = pods
                .iter()
                .filter(|pod| {
                    pod.metadata.as_ref().is_some_and(|metadata| metadata.name.starts_with(&prefix))
                })
                .count();
            assert!(count > 0, "{kind:?} is missing");
        }
    }

    #[test]
    fn replicas_relate_to_their_own_deployment_and_to_no_other() {
        for kind in [
            Kind::SpreadZones,
            Kind::SpreadSoft,
            Kind::OnePerNode,
            Kind::SameZone,
            Kind::RatherApart,
        ] {
            for pod in generate(&WorkloadSpec { n_pods: 40, seed: 9, mix: Mix::only(kind) }) {
                let app = BTreeMap::from([(
                    "app",
                    pod.metadata.as_ref().unwrap().labels["app"].as_str(),
                )]);
                let spec = pod.spec.as_ref().unwrap();
                let selectors = selectors(spec);
                assert!(!selectors.is_empty(), "{kind:?} relates to nothing");
                for selector in selectors {
                    let labels: BTreeMap<&str, &str> = selector
                        .match_labels
                        .iter()
                        .map(|(k, v)| (k.as_str(), v.as_str()))
                        .collect();
                    assert_eq!(labels, app, "{kind:?}");
                }
            }
        }
    }

    fn selectors(spec: &PodSpec) -> Vec<&LabelSelector> {
        let affinity = spec.affinity.as_ref();
        let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
        let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        let required = near
            .into_iter()
            .flat_map(|near| &near.required_during_scheduling_ignored_during_execution)
            .chain(
                apart
                    .into_iter()
                    .flat_map(|apart| &apart.required_during_scheduling_ignored_during_execution),
            );
        let preferred = apart
            .into_iter()
            .flat_map(|apart| &apart.preferred_during_scheduling_ignored_during_execution)
            .filter_map(|weighted| weighted.pod_affinity_term.as_ref());
        let constraints =
            spec.topology_spread_constraints.iter().filter_map(|it| it.label_selector.as_ref());
        required
            .chain(preferred)
            .filter_map(|term| term.label_selector.as_ref())
            .chain(constraints)
            .collect()
    }

    #[test]
    fn mix_is_read_and_bad_ones_are_named() {
        assert_eq!("gpu=3".parse(), Ok(Mix { weights: vec![(Kind::Gpu, 3)] }));
        assert_eq!("gpu=3, gpu=1".parse(), Ok(Mix::only(Kind::Gpu)));
        assert_eq!("gpu".parse::<Mix>(), Err(MixError::Shape("gpu".to_owned())));
        assert_eq!("cpu=1".parse::<Mix>(), Err(MixError::UnknownKind("cpu".to_owned())));
        assert_eq!("gpu=0".parse::<Mix>(), Err(MixError::Empty));
        assert!(matches!("gpu=-1".parse::<Mix>(), Err(MixError::Weight { .. })));
        assert!(matches!("gpu=9999999".parse::<Mix>(), Err(MixError::Weight { .. })));
    }
}
