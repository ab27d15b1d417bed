//! Named: the pod of a request that has either the pod itself or the key of a pod of the cluster.

use berth_engine::{Cluster, Delta, Pod, PodKey};
use berth_proto::berth_v1 as wire;
use berth_proto::core_v1;

use super::error::CallError;

/// A pod that a question is about, and the cluster to ask.
pub(crate) struct Asked<'c> {
    pub(crate) pod: core_v1::Pod,
    given: &'c Cluster,
    /// The cluster without the pod, if it is on a node there.
    apart: Option<Box<Cluster>>,
}

impl Asked<'_> {
    /// The cluster to ask: one that has the pod on no node.
    pub(crate) fn cluster(&self) -> &Cluster {
        self.apart.as_deref().unwrap_or(self.given)
    }
}

/// A pod of the cluster as a feed reported it.
pub(crate) struct Known {
    pub(crate) pod: core_v1::Pod,
    pub(crate) facts: Pod,
    pub(crate) is_assumed: bool,
}

/// The pod of a question about its placement. One that is named by its key and on a node is asked about as if it were
/// pending.
///
/// # Errors
/// Both a pod and a key, neither of them, a key without a name, an unknown pod.
pub(crate) fn to_place<'c>(
    cluster: &'c Cluster,
    pod: Option<core_v1::Pod>,
    key: Option<&wire::PodKey>,
) -> Result<Asked<'c>, CallError> {
    let Some(key) = one_of(pod.is_some(), key)? else {
        let pod = pod.ok_or_else(neither)?;
        return Ok(Asked { pod, given: cluster, apart: None });
    };
    let Known { mut pod, facts, .. } = known(cluster, key)?;
    let mut apart = None;
    if facts.node_name().is_some() {
        pod.spec.get_or_insert_default().node_name.clear();
        let fork = cluster.fork();
        fork.apply(vec![Delta::DeletePod { key: facts.key().clone(), uid: None }]);
        apart = Some(Box::new(fork));
    }
    Ok(Asked { pod, given: cluster, apart })
}

/// The pod of a question, as it was given or as the cluster has it.
///
/// # Errors
/// The errors of [`to_place`].
pub(crate) fn as_it_is(
    cluster: &Cluster,
    pod: Option<core_v1::Pod>,
    key: Option<&wire::PodKey>,
) -> Result<core_v1::Pod, CallError> {
    match one_of(pod.is_some(), key)? {
        Some(key) => Ok(known(cluster, key)?.pod),
        None => pod.ok_or_else(neither),
    }
}

/// The key of a request, unless it has a pod.
///
/// # Errors
/// Both a pod and a key.
pub(crate) fn one_of(
    has_pod: bool,
    key: Option<&wire::PodKey>,
) -> Result<Option<&wire::PodKey>, CallError> {
    if has_pod && key.is_some() {
        let reason = "excludes `pod`: exactly one of `pod` and `key` must be set";
        return Err(CallError::field("key", reason));
    }
    Ok(key)
}

fn neither() -> CallError {
    CallError::field("pod", "must be set, or `key`: exactly one of `pod` and `key`")
}

/// The pod of this key.
///
/// # Errors
/// A key without a name, an unknown pod, one of another uid, one that no feed has reported.
pub(crate) fn known(cluster: &Cluster, key: &wire::PodKey) -> Result<Known, CallError> {
    if key.name.is_empty() {
        return Err(CallError::field("key.name", "must not be empty"));
    }
    // An empty namespace means `default`, as in the metadata of a pod.
    let namespace = if key.namespace.is_empty() { "default" } else { &key.namespace };
    let name = PodKey::new(namespace, &key.name);
    let missing = |reason| CallError::NoSuchPod { pod: name.to_string(), reason };
    let (facts, is_assumed) = cluster
        .pod_named(&name)
        .ok_or_else(|| missing("the cluster has no pod of this name, or it has ended"))?;
    if !key.uid.is_empty() && key.uid != facts.uid() {
        return Err(missing("the pod of this name has another uid"));
    }
    let pod = facts.reported();
    let pod = pod.ok_or_else(|| missing("it was placed here, and no feed has reported it yet"))?;
    Ok(Known { pod, facts, is_assumed })
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use crate::service::fixture;

    fn key(name: &str, uid: &str) -> wire::PodKey {
        wire::PodKey { namespace: String::new(), name: name.to_owned(), uid: uid.to_owned() }
    }

    #[test]
    fn a_pod_on_a_node_is_asked_about_as_if_it_were_pending() {
        let state = fixture::state(&[("n0", "4")]);
        fixture::run(&state.cluster, &fixture::pod("p", "3", 0), "n0");
        let asked = to_place(&state.cluster, None, Some(&key("p", "uid-p"))).unwrap();
        assert_eq!(asked.pod.spec.as_ref().unwrap().node_name, "");
        assert_eq!(asked.cluster().snapshot().n_pods(), 0);
        assert_eq!(state.cluster.snapshot().n_pods(), 1, "the cluster itself stays as it is");
        let pod = as_it_is(&state.cluster, None, Some(&key("p", ""))).unwrap();
        assert_eq!(pod.spec.unwrap().node_name, "n0");
    }

    #[test]
    fn a_question_has_a_pod_or_the_key_of_a_known_one() {
        let state = fixture::state(&[("n0", "4")]);
        let pod = fixture::pod("p", "1", 0);
        fixture::run(&state.cluster, &pod, "n0");
        let check = |pod, key: Option<wire::PodKey>, code, text: &str| {
            let error = to_place(&state.cluster, pod, key.as_ref()).err().unwrap();
            assert_eq!(error.code(), code, "{error}");
            assert!(error.to_string().contains(text), "{error}");
        };
        let both = "exactly one of `pod` and `key`";
        check(Some(pod), Some(key("p", "")), Code::InvalidArgument, both);
        check(None, None, Code::InvalidArgument, both);
        check(None, Some(key("", "")), Code::InvalidArgument, "`key.name`");
        check(None, Some(key("q", "")), Code::NotFound, "pod `default/q` not found");
        check(None, Some(key("p", "other")), Code::NotFound, "another uid");
    }
}
