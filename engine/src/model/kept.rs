//! Kept: a pod's object, kept beside its facts: as a feed reported it, for questions that name it; as a request brought
//! it, for records of what was reserved. No decision reads it.
//!
//! The pods of a workload differ in names, times and addresses only. Each is therefore kept as its difference from the
//! first one of its controller, which takes a fraction of its encoding.

use std::sync::Arc;

use berth_proto::core_v1;
use lz4_flex::block;
use prost::Message as _;

use super::table::Table;

/// The annotation in which kubectl repeats a whole object; no question reads it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The first pod, encoded, of each number of pods that are probably alike.
pub(crate) type PatternTable = Table<u64, Box<[u8]>>;

/// Where an object is from.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Feed,
    Request,
}

/// A pod's object: the compressed difference of its encoding from that of another pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeptPod {
    pattern: Arc<Box<[u8]>>,
    difference: Arc<[u8]>,
}

impl KeptPod {
    /// Keeps a pod; those of one `kin` are probably alike.
    pub(crate) fn of(pod: &core_v1::Pod, kin: u64, patterns: &PatternTable) -> KeptPod {
        let metadata = pod.metadata.as_ref();
        let repeats = metadata.is_some_and(|it| it.annotations.contains_key(LAST_APPLIED));
        let encoded = if repeats { without_repetition(pod) } else { pod.encode_to_vec() };
        let pattern = patterns.intern(kin, None, |_, _| (encoded.as_slice().into(), encoded.len()));
        let difference = block::compress_prepend_size_with_dict(&encoded, &pattern).into();
        KeptPod { pattern, difference }
    }

    /// Whether both are copies of one, without looking at what they are.
    pub(crate) fn is_the_same_as(&self, other: &KeptPod) -> bool {
        Arc::ptr_eq(&self.difference, &other.difference)
    }

    /// The pod; `None` for bytes that are none, which [`KeptPod::of`] never makes.
    pub(crate) fn decode(&self) -> Option<core_v1::Pod> {
        let encoded = block::decompress_size_prepended_with_dict(&self.difference, &self.pattern);
        core_v1::Pod::decode(encoded.ok()?.as_slice()).ok()
    }
}

fn without_repetition(pod: &core_v1::Pod) -> Vec<u8> {
    let mut pod = pod.clone();
    if let Some(metadata) = &mut pod.metadata {
        metadata.annotations.remove(LAST_APPLIED);
    }
    pod.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, extra: &serde_json::Value) -> core_v1::Pod {
        let owner = serde_json::json!({"kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true});
        let mut object = serde_json::json!({
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid of {name}"),
                "annotations": {"a": "b"}, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
                "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]},
            "status": {"phase": "Pending"},
        });
        for (key, value) in extra.as_object().into_iter().flatten() {
            object[key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_pod_is_kept_without_what_kubectl_repeats() {
        let patterns = PatternTable::default();
        let kept = pod("web-0", &serde_json::json!({}));
        let mut reported = kept.clone();
        let annotations = &mut reported.metadata.as_mut().unwrap().annotations;
        annotations.insert(LAST_APPLIED.to_owned(), "{}".to_owned());
        assert_eq!(KeptPod::of(&reported, 1, &patterns).decode(), Some(kept));
    }

    #[test]
    fn pods_of_a_workload_are_kept_as_differences() {
        let patterns = PatternTable::default();
        let others = ["web-1", "web-2"].map(|name| pod(name, &serde_json::json!({})));
        let ended =
            pod("web-3", &serde_json::json!({"status": {"phase": "Failed", "reason": "Evicted"}}));
        let bare = pod("bare", &serde_json::json!({"metadata": {"name": "bare"}}));
        let empty = core_v1::Pod::default();
        for (kin, pod) in [(1, &others[0]), (1, &others[1]), (1, &ended), (1, &bare), (2, &empty)] {
            assert_eq!(KeptPod::of(pod, kin, &patterns).decode().as_ref(), Some(pod));
        }
        assert_eq!(patterns.len(), 2);
        let size = KeptPod::of(&others[1], 1, &patterns).difference.len();
        assert!(4 * size < others[1].encoded_len(), "{size} of {}", others[1].encoded_len());
    }
}
