//! SentPod: the pod of a request that places it. It is decoded only where none like it has been compiled before.

use berth_engine as engine;
use berth_engine::{Cluster, Policy};
use berth_proto::{EncodedPod, core_v1};

use super::convert;
use super::error::CallError;
use super::placement::cost;
use super::undecodable;
use crate::policy::Profiles;

/// A pod that is to be placed, on its way from the request to the engine.
#[derive(Debug)]
pub(crate) enum SentPod {
    /// A pod as it was sent; whether its like is known has not been looked up.
    Encoded(EncodedPod),
    /// A decoded pod: one whose like is not known, with its encoding, or one that was changed, without.
    Decoded(Box<core_v1::Pod>, Option<EncodedPod>),
    /// A compiled pod whose like came before and was small ([`cost::is_small`]), with its encoding.
    Known(engine::Pod, EncodedPod),
}

impl From<Box<core_v1::Pod>> for SentPod {
    fn from(pod: Box<core_v1::Pod>) -> SentPod {
        SentPod::Decoded(pod, None)
    }
}

impl SentPod {
    /// Looks whether a pod like it is known, and decodes it if not; `keeps_object` as in [`SentPod::compile`].
    ///
    /// # Errors
    /// The pod cannot be decoded, or its name or uid is malformed.
    pub(crate) fn recall(
        &mut self,
        cluster: &Cluster,
        keeps_object: bool,
    ) -> Result<(), CallError> {
        let SentPod::Encoded(encoded) = self else { return Ok(()) };
        *self = match cluster.recall_pod(encoded, keeps_object)? {
            Some(pod) => SentPod::Known(pod, std::mem::take(encoded)),
            None => SentPod::Decoded(decode(encoded)?, Some(std::mem::take(encoded))),
        };
        Ok(())
    }

    /// Decodes it, whether a pod like it is known or not.
    ///
    /// # Errors
    /// The pod cannot be decoded.
    pub(crate) fn decode(&mut self) -> Result<(), CallError> {
        if let SentPod::Encoded(encoded) | SentPod::Known(_, encoded) = self {
            *self = SentPod::Decoded(decode(encoded)?, Some(std::mem::take(encoded)));
        }
        Ok(())
    }

    /// The pod itself, to be changed.
    ///
    /// # Errors
    /// The pod cannot be decoded.
    pub(crate) fn decoded(self) -> Result<Box<core_v1::Pod>, CallError> {
        match self {
            SentPod::Encoded(encoded) | SentPod::Known(_, encoded) => decode(&encoded),
            SentPod::Decoded(pod, _) => Ok(pod),
        }
    }

    /// Whether deciding for the pod is known to take microseconds.
    pub(crate) fn is_small(&self) -> bool {
        match self {
            SentPod::Encoded(_) => false,
            SentPod::Decoded(pod, _) => cost::is_small(pod),
            SentPod::Known(..) => true,
        }
    }

    /// Compiles the pod, with its object if `keeps_object` is set, and finds its profile.
    ///
    /// # Errors
    /// The pod cannot be decoded, or [`convert::pod_to_place`] refuses it.
    pub(crate) fn compile<'s>(
        mut self,
        cluster: &Cluster,
        profiles: &'s Profiles,
        keeps_object: bool,
    ) -> Result<(engine::Pod, &'s Policy), CallError> {
        self.recall(cluster, keeps_object)?;
        match self {
            SentPod::Known(pod, encoded) => {
                let policy = policy_of(&pod, &encoded, profiles)?;
                Ok((pod, policy))
            }
            SentPod::Decoded(pod, Some(encoded)) if cost::is_small(&pod) => {
                convert::check_placeable(&pod)?;
                let compiled = cluster.compile_sent_pod(&pod, &encoded, keeps_object)?;
                Ok((compiled, convert::policy_of(&pod, profiles)?))
            }
            other => {
                let pod = other.decoded()?;
                convert::pod_to_place(cluster, profiles, Some(&pod), keeps_object)
            }
        }
    }
}

fn decode(encoded: &EncodedPod) -> Result<Box<core_v1::Pod>, CallError> {
    encoded.to_pod().map(Box::new).map_err(|error| {
        let text = error.to_string();
        let why = undecodable::of_decoder(&text, Some("pod"));
        why.unwrap_or_else(|| CallError::field("pod", text))
    })
}

/// The profile of a pod that is known: only its object tells whether it names the default scheduler, or none.
fn policy_of<'s>(
    pod: &engine::Pod,
    encoded: &EncodedPod,
    profiles: &'s Profiles,
) -> Result<&'s Policy, CallError> {
    match profiles.get(pod.scheduler_name()) {
        Some(policy) => Ok(policy),
        None => convert::policy_of(&*decode(encoded)?, profiles),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{State, fixture};
    use berth_engine::PolicySpec;
    use berth_proto::berth_v1::PlaceRequest;
    use prost::Message as _;

    /// Compiles a pod under three names; returns what it was each time, and the names of the profiles or the errors.
    fn compile(state: &State, pod: &core_v1::Pod) -> Vec<(&'static str, Result<String, String>)> {
        let compile_one = |name: &str| {
            let mut pod = pod.clone();
            pod.metadata.get_or_insert_default().name = name.to_owned();
            let mut sent = SentPod::Encoded(EncodedPod::from(&pod));
            sent.recall(&state.cluster, false).unwrap();
            let kind = match &sent {
                SentPod::Encoded(_) => "encoded",
                SentPod::Decoded(..) => "decoded",
                SentPod::Known(..) => "known",
            };
            let compiled = sent.compile(&state.cluster, &state.profiles, false);
            let profile = compiled.map(|(compiled, policy)| {
                assert_eq!(&*compiled.key().name, name);
                policy.spec().scheduler_name.to_string()
            });
            (kind, profile.map_err(|error| error.to_string()))
        };
        ["a", "b", "c"].map(compile_one).into()
    }

    fn check(state: &State, pod: &core_v1::Pod, kinds: [&str; 3], expected: Result<&str, &str>) {
        for ((kind, found), expected_kind) in compile(state, pod).into_iter().zip(kinds) {
            assert_eq!(kind, expected_kind);
            match (found, expected) {
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                (found, expected) => assert_eq!(found.as_deref().ok(), expected.ok(), "{found:?}"),
            }
        }
    }

    const KNOWN: [&str; 3] = ["decoded", "decoded", "known"];
    const UNKNOWN: [&str; 3] = ["decoded"; 3];

    #[test]
    fn the_third_of_a_kind_is_not_decoded() {
        let state = fixture::state(&[("n0", "4")]);
        check(&state, &fixture::pod("", "1", 0), KNOWN, Ok("default-scheduler"));
        let mut large = fixture::pod("", "1", 0);
        let spec = large.spec.as_mut().unwrap();
        spec.node_selector = (0..300).map(|i| (format!("k{i}"), String::new())).collect();
        check(&state, &large, UNKNOWN, Ok("default-scheduler"));
        let mut deleted = fixture::pod("", "1", 0);
        let metadata = deleted.metadata.as_mut().unwrap();
        metadata.deletion_timestamp = serde_json::from_str("\"2026-01-01T00:00:00Z\"").ok();
        check(&state, &deleted, UNKNOWN, Err("is being deleted"));
    }

    #[test]
    fn a_known_pod_has_the_profile_that_it_names() {
        let spec = PolicySpec { scheduler_name: "other".into(), ..PolicySpec::default() };
        let only = Profiles::from(vec![berth_engine::Policy::new(spec).unwrap()]);
        let state = fixture::state_of(&[("n0", "4")], only);
        let mut pod = fixture::pod("", "1", 0);
        check(&state, &pod, KNOWN, Ok("other"));
        let named = |name: &str, pod: &mut core_v1::Pod| {
            name.clone_into(&mut pod.spec.as_mut().unwrap().scheduler_name);
        };
        named("default-scheduler", &mut pod);
        check(&state, &pod, KNOWN, Err("no profile is called `default-scheduler`"));
        named("other", &mut pod);
        check(&state, &pod, KNOWN, Ok("other"));
    }

    #[test]
    fn a_pod_that_is_changed_is_decoded() {
        let state = fixture::state(&[("n0", "4")]);
        let pod = fixture::pod("", "1", 0);
        compile(&state, &pod);
        let mut sent = SentPod::Encoded(EncodedPod::from(&fixture::pod("d", "1", 0)));
        sent.recall(&state.cluster, false).unwrap();
        assert!(matches!(sent, SentPod::Known(..)));
        let mut pod = sent.decoded().unwrap();
        pod.metadata.get_or_insert_default().name = "e".to_owned();
        let (compiled, _) =
            SentPod::from(pod).compile(&state.cluster, &state.profiles, false).unwrap();
        assert_eq!(&*compiled.key().name, "e");
    }

    #[test]
    fn what_cannot_be_decoded_is_named() {
        let state = fixture::state(&[("n0", "4")]);
        let bytes = [0x0a, 5, 0x0a, 3, 0x0a, 1, 0xff];
        let request = PlaceRequest::decode(&bytes[..]).unwrap();
        let mut sent = SentPod::Encoded(request.pod.clone().unwrap());
        let expected = "the message cannot be decoded: `pod.metadata.name`: the text is not UTF-8";
        let error = sent.recall(&state.cluster, false).unwrap_err();
        assert_eq!(error.to_string(), expected);
        let again = || SentPod::Encoded(request.pod.clone().unwrap());
        let error = again().compile(&state.cluster, &state.profiles, false).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(again().decoded().unwrap_err().to_string(), expected);
    }
}
