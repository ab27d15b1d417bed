//! Kept: a pod's object, kept beside its facts: as a feed reported it, for questions that name it; as a request brought
//! it, for records of what was reserved. No decision reads it.
//!
//! The pods of a workload differ in names, times and addresses only. What a feed reported is therefore kept as the
//! difference from the first pod of its controller, which takes a fraction of its encoding; what requests brought is kept
//! once for all pods that differ in name and uid only.

use std::borrow::Cow;
use std::sync::Arc;

use berth_proto::core_v1;
use berth_proto::meta_v1::ObjectMeta;
use lz4_flex::block;
use prost::Message;

use super::nameless::{put_field, repeats, without_repetition};
use super::table::{Table, table_bytes};

/// The first pod, encoded, of each number of pods that are probably alike.
pub(crate) type PatternTable = Table<u64, Box<[u8]>>;

/// Encoded pods of requests.
pub(crate) type RequestedTable = Table<Box<[u8]>, Box<[u8]>>;

/// Where an object is from.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Feed,
    Request,
}

/// A pod's object. Its name and uid may be another pod's, or missing: they are facts of the pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum KeptPod {
    /// The compressed difference of its encoding from that of another pod.
    Difference { pattern: Arc<Box<[u8]>>, difference: Arc<[u8]> },
    /// Its encoding without name and uid, one for all pods that have it.
    Shared(Arc<Box<[u8]>>),
}

impl KeptPod {
    /// Keeps a pod as its difference; those of one `kin` are probably alike.
    pub(crate) fn difference(pod: &core_v1::Pod, kin: u64, patterns: &PatternTable) -> KeptPod {
        let encoded = match pod.metadata.as_ref().filter(|it| repeats(it)) {
            Some(metadata) => encode_with(Some(without_repetition(metadata)), pod),
            None => pod.encode_to_vec(),
        };
        let pattern = patterns.intern(kin, None, |_, _| (encoded.as_slice().into(), encoded.len()));
        let difference = block::compress_prepend_size_with_dict(&encoded, &pattern).into();
        KeptPod::Difference { pattern, difference }
    }

    /// Keeps a pod, of this encoding without name and uid, once for all that have it.
    pub(crate) fn shared(nameless: &[u8], known: &RequestedTable) -> KeptPod {
        let encoded: Box<[u8]> = nameless.into();
        let n_bytes = table_bytes(0) + 2 * encoded.len();
        KeptPod::Shared(known.intern(encoded, None, |_, encoded| (encoded, n_bytes)))
    }

    /// The encoding, if others may have the same.
    pub(crate) fn shared_encoding(&self) -> Option<&Arc<Box<[u8]>>> {
        match self {
            KeptPod::Shared(encoded) => Some(encoded),
            KeptPod::Difference { .. } => None,
        }
    }

    /// Whether both are copies of one, without looking at what they are.
    pub(crate) fn is_the_same_as(&self, other: &KeptPod) -> bool {
        match (self, other) {
            (KeptPod::Shared(one), KeptPod::Shared(other)) => Arc::ptr_eq(one, other),
            (
                KeptPod::Difference { difference: one, .. },
                KeptPod::Difference { difference: other, .. },
            ) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// The object; `None` for bytes that are none, which are never kept.
    pub(crate) fn decode(&self) -> Option<core_v1::Pod> {
        core_v1::Pod::decode(self.encoded()?.as_ref()).ok()
    }

    /// The object's encoding; `None` for bytes that are none, which are never kept.
    pub(crate) fn encoded(&self) -> Option<Cow<'_, [u8]>> {
        match self {
            KeptPod::Difference { pattern, difference } => {
                let encoded = block::decompress_size_prepended_with_dict(difference, pattern);
                encoded.ok().map(Cow::Owned)
            }
            KeptPod::Shared(encoded) => Some(Cow::Borrowed(encoded)),
        }
    }
}

/// Encodes a pod with this metadata in place of its own.
fn encode_with(metadata: Option<ObjectMeta>, pod: &core_v1::Pod) -> Vec<u8> {
    // The encodings of a message's parts, one after the other, are that of the whole: so nothing else is copied.
    let core_v1::Pod { metadata: _, spec, status } = pod;
    let mut encoded = core_v1::Pod { metadata, spec: None, status: None }.encode_to_vec();
    put_field(2, spec.as_ref(), &mut encoded);
    put_field(3, status.as_ref(), &mut encoded);
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::nameless::Nameless;

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

    /// `pod` without name and uid.
    fn unnamed(mut pod: core_v1::Pod) -> core_v1::Pod {
        if let Some(metadata) = &mut pod.metadata {
            metadata.name.clear();
            metadata.uid.clear();
        }
        pod
    }

    #[test]
    fn a_pod_is_kept_without_what_kubectl_repeats() {
        let patterns = PatternTable::default();
        let kept = pod("web-0", &serde_json::json!({}));
        let mut reported = kept.clone();
        let annotations = &mut reported.metadata.as_mut().unwrap().annotations;
        let repeated = "kubectl.kubernetes.io/last-applied-configuration".to_owned();
        annotations.insert(repeated, "{}".to_owned());
        assert_eq!(KeptPod::difference(&reported, 1, &patterns).decode(), Some(kept.clone()));
        let shared = KeptPod::shared(Nameless::of(&reported).encoded(), &RequestedTable::default());
        assert_eq!(shared.decode(), Some(unnamed(kept)));
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
            assert_eq!(KeptPod::difference(pod, kin, &patterns).decode().as_ref(), Some(pod));
        }
        assert_eq!(patterns.len(), 2);
        let kept = KeptPod::difference(&others[1], 1, &patterns);
        let KeptPod::Difference { difference, .. } = kept else { panic!("it is a difference") };
        let size = difference.len();
        assert!(4 * size < others[1].encoded_len(), "{size} of {}", others[1].encoded_len());
    }

    #[test]
    fn requested_pods_that_are_alike_share_what_is_kept() {
        let known = RequestedTable::default();
        let json = serde_json::json!({});
        let [one, other] = ["web-1", "web-2"].map(|name| pod(name, &json));
        let third = pod("web-3", &serde_json::json!({"status": {"phase": "Running"}}));
        let kept = |pod| KeptPod::shared(Nameless::of(pod).encoded(), &known);
        assert!(kept(&one).is_the_same_as(&kept(&other)));
        assert!(!kept(&one).is_the_same_as(&kept(&third)));
        assert_eq!(kept(&third).decode(), Some(unnamed(third)));
        assert_eq!(known.len(), 2);
    }
}
