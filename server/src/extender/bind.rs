//! Bind: binds the pod to its node in the API server, and assumes it in the snapshot at once. Rule: S-EXT-14.

use std::sync::Arc;
use std::time::Duration;

use berth_engine::{AssumeError, AssumedPod, Pod, PodKey};
use berth_proto::berth_v1::reserve_entry::Decision;
use berth_proto::berth_v1::{ReleaseRequest, ReserveEntry, ReserveRequest, ReservedPod};
use berth_proto::core_v1;
use serde::de::MapAccess;

use super::arguments::malformed;
use super::failure::Failure;
use super::json_object::{self, JsonObject, Text, member};
use super::shared::Extender;
use crate::apiserver::binding::{self, BindError, PodName};
use crate::clock;
use crate::escape;
use crate::service::{Access, Deadline, Decider, State};
use crate::telemetry::trace::followed;

/// Time limit for the begin of a bind. kube-scheduler waits 5 s for an extender by default; a bind that has not begun
/// by then is refused, since the pod may go elsewhere.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time to live of the reservation of a pod that is being bound: longer than a feed takes to report it.
const BIND_TTL: Duration = Duration::from_secs(300);

/// Responds with `ExtenderBindingResult`. The first bind of a pod gets it; the API server decides in the end.
pub(super) async fn bind(
    state: &Arc<State>,
    extender: &Arc<Extender>,
    access: &Access,
    body: &[u8],
) -> Result<Vec<u8>, Failure> {
    let Arguments { pod, node } = read(body)?;
    let (state, extender, access) = (state.clone(), extender.clone(), access.clone());
    let deadline = Deadline(Some(clock::now() + PATIENCE));
    // Completed even if the caller does not wait for it: a Binding that was sent may have been written.
    let binding = async move {
        match state.replicas.is_some() {
            true => reserve_and_bind(&state, &extender, &access, pod, node, deadline).await,
            false => assume_and_bind(&state, &extender, pod, node, deadline).await,
        }
    };
    let bound = tokio::spawn(followed(binding));
    bound.await.map_err(|_| Failure::Broken)??;
    Ok(b"{\"Error\":\"\"}".to_vec())
}

async fn assume_and_bind(
    state: &Arc<State>,
    extender: &Extender,
    pod: PodName,
    node: String,
    deadline: Deadline,
) -> Result<(), Failure> {
    let client = client(state)?;
    let assumed = assume(state, extender, &pod, &node, deadline).await?;
    let bound = binding::bind(&client, &pod, &node).await;
    let error = match bound {
        Ok(()) => {
            extender.recent_pods.forget(&pod.uid);
            return Ok(());
        }
        Err(error) => error,
    };
    if let Some(assumed) = assumed.filter(|_| !is_there(&error, &node)) {
        state.cluster.take_back_assumed(&assumed);
    }
    Err(not_bound(&pod, &node, &error))
}

/// Where replicas share what is reserved, the pod's room is a reservation, checked by the replica that commits, before the
/// Binding is sent: so no caller of any replica has the same room. A feed's report ends it.
async fn reserve_and_bind(
    state: &Arc<State>,
    extender: &Extender,
    access: &Access,
    pod: PodName,
    node: String,
    deadline: Deadline,
) -> Result<(), Failure> {
    let client = client(state)?;
    let decider = Decider { state, access, deadline, request_id: None };
    let (known, mut object) = known(state, &pod).ok_or_else(|| {
        let PodName { namespace, name, .. } = &pod;
        // kube-scheduler tries again.
        refused(&format!("pod `{namespace}/{name}` is not known here yet"))
    })?;
    // The profile by which its nodes were filtered.
    let profile = &extender.policies.of(&known)?.spec().scheduler_name;
    profile.clone_into(&mut object.spec.get_or_insert_default().scheduler_name);
    let reserved = ReservedPod { pod: Some(object), node_name: node.clone() };
    let entry = ReserveEntry { decision: Some(Decision::Assume(reserved)) };
    let assume_ttl_ms = Some(clock::as_millis(BIND_TTL));
    let request = ReserveRequest { entries: vec![entry], assume_ttl_ms };
    let (reserved, _) =
        decider.reserve(request).await.map_err(|error| refused(&error.to_string()))?;
    let Err(error) = binding::bind(&client, &pod, &node).await else {
        extender.recent_pods.forget(&pod.uid);
        return Ok(());
    };
    let reserved = reserved.assumed_pods.into_iter().next();
    let token = reserved.and_then(|pod| Some((pod.pod, pod.assumption?.token)));
    if let Some((key, token)) = token.filter(|_| !is_there(&error, &node)) {
        let released = decider.release(ReleaseRequest { pod: key, token, nomination: false }).await;
        if let Err(error) = released {
            // Its time to live ends it.
            tracing::debug!(%error, pod = %pod.name, "a pod that was not bound keeps its room");
        }
    }
    Err(not_bound(&pod, &node, &error))
}

/// The pod, with its object, as a feed has reported it.
fn known(state: &State, pod: &PodName) -> Option<(Pod, core_v1::Pod)> {
    let (known, _) = state.cluster.pod_named(&PodKey::new(&pod.namespace, &pod.name))?;
    let object = known.reported().filter(|_| known.uid() == &*pod.uid)?;
    Some((known, object))
}

fn client(state: &State) -> Result<kube::Client, Failure> {
    state.api_server.get().cloned().ok_or_else(|| {
        Failure::Refused(
            "this server is not connected to an API server, so it cannot bind: start it with `--kube`, or leave `bindVerb` out"
                .to_owned(),
        )
    })
}

/// Whether the pod is on the node in spite of the error.
fn is_there(error: &BindError, node: &str) -> bool {
    matches!(error, BindError::AlreadyBound { node: on } if on == node)
}

fn not_bound(pod: &PodName, node: &str, error: &BindError) -> Failure {
    let PodName { namespace, name, .. } = pod;
    refused(&format!("pod `{namespace}/{name}` was not bound to node `{node}`: {error}"))
}

fn refused(text: &str) -> Failure {
    Failure::Refused(escape::printable(text).into_owned())
}

/// Assumes the pod; returns `None` if the pod's requests are not known. Runs off the reactor, since a long write may
/// hold the lock; and not at all once the deadline has passed.
async fn assume(
    state: &Arc<State>,
    extender: &Extender,
    pod: &PodName,
    node: &str,
    deadline: Deadline,
) -> Result<Option<AssumedPod>, Failure> {
    let key = PodKey::new(&pod.namespace, &pod.name);
    let remembered = extender.recent_pods.get(&pod.uid);
    let (uid, node, cluster) = (pod.uid.clone(), node.to_owned(), state.cluster.clone());
    let assuming = state
        .pool
        .run(deadline, move |_| cluster.assume_on(&key, &uid, &node, remembered.as_ref()));
    match assuming.await? {
        Ok(assumed) => Ok(Some(assumed)),
        Err(AssumeError::UnknownPod { pod }) => {
            let pod = pod.to_string();
            tracing::warn!(
                pod = %escape::printable(&pod),
                "a pod is bound that no feed and no filter call has sent; the snapshot has it once a feed sends it"
            );
            Ok(None)
        }
        Err(
            error @ (AssumeError::AlreadyPlaced { .. }
            | AssumeError::AnotherPod { .. }
            | AssumeError::UnknownNode { .. }
            | AssumeError::Model(_)),
        ) => Err(Failure::Refused(escape::printable(&error.to_string()).into_owned())),
    }
}

struct Arguments {
    pod: PodName,
    node: String,
}

fn read(body: &[u8]) -> Result<Arguments, Failure> {
    let Written { name, namespace, uid, node } =
        json_object::read(body).map_err(|error| malformed(&error))?;
    let fields =
        [("PodName", &name), ("PodNamespace", &namespace), ("PodUID", &uid), ("Node", &node)];
    if let Some((field, _)) = fields.iter().find(|(_, value)| value.is_empty()) {
        return Err(Failure::Invalid(format!("`{field}`: must be set")));
    }
    Ok(Arguments {
        pod: PodName { namespace: namespace.into(), name: name.into(), uid: uid.into() },
        node,
    })
}

/// The request, `ExtenderBindingArgs`.
#[derive(Default)]
struct Written {
    name: String,
    namespace: String,
    uid: String,
    node: String,
}

impl<'de> JsonObject<'de> for Written {
    fn take<A: MapAccess<'de>>(&mut self, key: &str, value: &mut A) -> Result<bool, A::Error> {
        let fields = [
            ("PodName", &mut self.name),
            ("PodNamespace", &mut self.namespace),
            ("PodUID", &mut self.uid),
            ("Node", &mut self.node),
        ];
        let field = fields.into_iter().find(|(name, _)| key.eq_ignore_ascii_case(name));
        let Some((name, field)) = field else { return Ok(false) };
        *field = member(name, value, Text)?.into_owned();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::fixture;

    /// The caller no longer waits, so the pod may be on its way elsewhere.
    #[tokio::test]
    async fn a_bind_that_begins_too_late_assumes_nothing() {
        let state = fixture::state(&[("n0", "4")]);
        let extender = Extender::of(&state.profiles);
        let pod = state.cluster.compile_pod(&fixture::pod("p", "1", 0)).unwrap();
        extender.recent_pods.remember(&pod);
        let name = PodName {
            namespace: pod.key().namespace.clone(),
            name: pod.key().name.clone(),
            uid: pod.uid().into(),
        };
        let late = Deadline(Some(clock::now()));
        assert!(matches!(
            assume(&state, &extender, &name, "n0", late).await,
            Err(Failure::Busy { .. })
        ));
        assert_eq!(state.cluster.snapshot().n_assumed(), 0);
        let early = Deadline(Some(clock::now() + PATIENCE));
        assert!(matches!(assume(&state, &extender, &name, "n0", early).await, Ok(Some(_))));
        assert_eq!(state.cluster.snapshot().n_assumed(), 1);
    }

    #[test]
    fn every_field_is_needed_and_in_any_case() {
        let whole = r#"{"podname":"p","PODNAMESPACE":"ns","PodUID":"u","Node":"n","Extra":1}"#;
        let Arguments { pod, node } = read(whole.as_bytes()).unwrap();
        assert_eq!((&*pod.name, &*pod.namespace, &*pod.uid, &*node), ("p", "ns", "u", "n"));
        let check = |body: &str, expected: &str| {
            let Err(Failure::Invalid(text)) = read(body.as_bytes()) else { panic!("{body}") };
            assert!(text.contains(expected), "{text}");
        };
        check("", "EOF");
        check("null", "`PodName`: must be set");
        check(r#"{"PodName":"p","PodNamespace":null}"#, "`PodNamespace`: must be set");
        check(r#"{"PodName":"p","PodNamespace":"ns","PodUID":""}"#, "`PodUID`: must be set");
        check(r#"{"PodName":"p","PodNamespace":"ns","PodUID":"u"}"#, "`Node`: must be set");
        check(r#"{"PodName":7}"#, "`PodName`: ");
    }
}
