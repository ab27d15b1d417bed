//! Group: pods that are placed together or not at all, identified by a label. Berth's own rule: kube-scheduler's gangs
//! are off (section 2.15), and the label's names are those that gang schedulers for Kubernetes use.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use berth_proto::meta_v1::ObjectMeta;

/// Keys by which a pod names its group, and how many of the group have to be placed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupKeys {
    /// Labels whose value is the group's name within the namespace; the first that a pod has counts. Empty for no
    /// groups.
    pub name: Vec<String>,
    /// Labels or annotations whose value is the number, in this order, labels first.
    pub min_available: Vec<String>,
}

impl Default for GroupKeys {
    /// The labels of the coscheduling plug-in, and `scheduling.kubernetes.io/pod-group`.
    fn default() -> GroupKeys {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        GroupKeys {
            name: texts(&[
                "scheduling.kubernetes.io/pod-group",
                "scheduling.x-k8s.io/pod-group",
                "pod-group.scheduling.sigs.k8s.io",
                "pod-group.scheduling.sigs.k8s.io/name",
            ]),
            min_available: texts(&[
                "scheduling.kubernetes.io/min-available",
                "pod-group.scheduling.sigs.k8s.io/min-available",
            ]),
        }
    }
}

/// Namespace and name of a group, within one profile.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupName {
    /// Namespace of the group's pods.
    pub namespace: Arc<str>,
    /// Value of the label.
    pub name: Arc<str>,
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Group of a pod, as the pod states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name of the group.
    pub name: GroupName,
    /// Number of pods that have to be placed together, at least 1.
    pub min_available: Result<usize, BadGroup>,
}

/// Error of a pod that names a group but not, or not correctly, how many of its pods are needed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadGroup {
    /// No label or annotation has the number.
    #[error(
        "pod group `{name}`: no label or annotation `{key}` says how many of its pods are to be placed together"
    )]
    Missing {
        /// The group.
        name: GroupName,
        /// The label or annotation that is missing.
        key: String,
    },
    /// The value is not a valid number.
    #[error("pod group `{name}`: `{key}: {value}` is not a number from 1 to {MAX_MEMBERS}")]
    NotANumber {
        /// The group.
        name: GroupName,
        /// The label or annotation.
        key: String,
        /// The value, truncated.
        value: String,
    },
}

/// Maximum size of a group: more pods than any cluster runs.
const MAX_MEMBERS: usize = 1_000_000;

impl GroupKeys {
    /// The group of a pod; `None` if it names none.
    #[must_use]
    pub fn group_of(&self, metadata: &ObjectMeta) -> Option<Group> {
        let labels = &metadata.labels;
        let name =
            self.name.iter().find_map(|key| labels.get(key)).filter(|name| !name.is_empty())?;
        let name =
            GroupName { namespace: metadata.namespace.as_str().into(), name: name.as_str().into() };
        let said = |from: &'_ BTreeMap<String, String>| {
            let mut keys = self.min_available.iter();
            keys.find_map(|key| Some((key.clone(), from.get(key)?.clone())))
        };
        let min_available = match said(labels).or_else(|| said(&metadata.annotations)) {
            None => {
                let key = self.min_available.first().cloned().unwrap_or_default();
                Err(BadGroup::Missing { name: name.clone(), key })
            }
            Some((key, value)) => match value.parse::<usize>() {
                Ok(n) if (1..=MAX_MEMBERS).contains(&n) => Ok(n),
                _ => {
                    let value = crate::escape::printable(&value[..value.floor_char_boundary(64)])
                        .into_owned();
                    Err(BadGroup::NotANumber { name: name.clone(), key, value })
                }
            },
        };
        Some(Group { name, min_available })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> ObjectMeta {
        let texts = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        ObjectMeta {
            namespace: "ml".to_owned(),
            labels: texts(labels),
            annotations: texts(annotations),
            ..ObjectMeta::default()
        }
    }

    const NAME: &str = "scheduling.x-k8s.io/pod-group";
    const MIN: &str = "scheduling.kubernetes.io/min-available";

    #[test]
    fn a_group_is_a_label_and_a_number() {
        let keys = GroupKeys::default();
        assert_eq!(keys.group_of(&metadata(&[], &[(MIN, "3")])), None);
        let group = keys.group_of(&metadata(&[(NAME, "train")], &[(MIN, "3")])).expect("a group");
        assert_eq!((group.name.to_string(), group.min_available), ("ml/train".to_owned(), Ok(3)));
        let both = keys.group_of(&metadata(&[(NAME, "train"), (MIN, "2")], &[(MIN, "3")]));
        assert_eq!(both.and_then(|group| group.min_available.ok()), Some(2), "labels come first");
    }

    #[test]
    fn a_group_that_does_not_say_how_many_is_told_so() {
        let keys = GroupKeys::default();
        let problem = |annotations: &[(&str, &str)]| {
            let group = keys.group_of(&metadata(&[(NAME, "train")], annotations));
            group.and_then(|group| group.min_available.err()).map(|bad| bad.to_string())
        };
        assert_eq!(
            problem(&[]).as_deref(),
            Some(
                "pod group `ml/train`: no label or annotation `scheduling.kubernetes.io/min-available` says how many of its pods are to be placed together"
            )
        );
        for bad in ["0", "-1", "many", "1000001", ""] {
            assert!(
                problem(&[(MIN, bad)]).is_some_and(|text| text.contains("not a number")),
                "{bad}"
            );
        }
    }
}
