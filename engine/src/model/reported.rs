//! Reported: a pod as a feed reported it, kept beside its facts for questions that name it. No decision reads it.

use std::sync::Arc;

use berth_proto::core_v1;
use prost::Message as _;

/// The annotation in which kubectl repeats a whole object; no question reads it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A pod as it was reported, encoded: a fraction of the message's size in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ReportedPod(Arc<[u8]>);

impl ReportedPod {
    pub(crate) fn of(pod: &core_v1::Pod) -> ReportedPod {
        let repeats = |metadata: &berth_proto::meta_v1::ObjectMeta| {
            metadata.annotations.contains_key(LAST_APPLIED)
        };
        if !pod.metadata.as_ref().is_some_and(repeats) {
            return ReportedPod(pod.encode_to_vec().into());
        }
        let mut pod = pod.clone();
        if let Some(metadata) = &mut pod.metadata {
            metadata.annotations.remove(LAST_APPLIED);
        }
        ReportedPod(pod.encode_to_vec().into())
    }

    /// The pod; `None` for bytes that are none, which [`ReportedPod::of`] never makes.
    pub(crate) fn decode(&self) -> Option<core_v1::Pod> {
        core_v1::Pod::decode(&*self.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_kept_without_what_kubectl_repeats() {
        let mut pod: core_v1::Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "annotations": {"a": "b"}},
            "spec": {"containers": [{"name": "c"}]},
            "status": {"phase": "Pending"},
        }))
        .unwrap();
        assert_eq!(ReportedPod::of(&pod).decode().as_ref(), Some(&pod));
        let kept = pod.clone();
        let annotations = &mut pod.metadata.as_mut().unwrap().annotations;
        annotations.insert(LAST_APPLIED.to_owned(), "{}".to_owned());
        assert_eq!(ReportedPod::of(&pod).decode(), Some(kept));
    }
}
