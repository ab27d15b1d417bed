//! Binding: binds a pod to a node, finally. The API server decides: it accepts one Binding of a pod and no second.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::core::{Request, Status};
use kube::{Api, Resource as _};

use super::call::{CallFailure, call, write};
use super::leadership::Mandate;
use crate::telemetry::trace::outgoing;

/// Identity of a pod: its name and its uid.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodName {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// `metadata.uid`, sent as a precondition; empty takes whatever pod has the name.
    pub uid: Arc<str>,
}

/// Reason why a pod is not bound to its node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// The pod has a node already; a second Binding is refused even if it names the same node.
    #[error("the pod is bound to node `{node}` already")]
    AlreadyBound {
        /// Node of the pod.
        node: String,
    },
    /// The pod does not exist any more, or another one has its name.
    #[error("the pod is gone")]
    Gone,
    /// The API server refused: the pod is gated or being deleted, the role may not bind, too many requests; or
    /// the server has an error (a code of 500 and more). The pod is unchanged.
    #[error("the API server refused the binding with {code}: {message}")]
    Refused {
        /// HTTP status.
        code: u16,
        /// Message of the server, safe to show.
        message: String,
    },
    /// The API server answered neither the binding nor the read of the pod afterwards, so the pod may be bound or not.
    #[error("whether the pod is bound is not known: {reason}")]
    Unreachable {
        /// The error, safe to show.
        reason: String,
    },
}

/// Number of times that the Binding is sent before its outcome is reported as unknown.
const N_TRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Binds the pod to the node.
///
/// When an answer is lost the pod is read: if it is on that very node, that is success; if it is on none, the same
/// Binding is sent again, which is safe, since the server accepts at most one. Without an answer the call ends after
/// three tries.
///
/// # Errors
/// [`BindError`]; the pod may be bound nevertheless after `Unreachable` alone.
pub async fn bind(client: &kube::Client, pod: &PodName, node: &str) -> Result<(), BindError> {
    let mandate = Mandate::unlimited();
    let mut is_lost = false;
    let mut pause = FIRST_PAUSE;
    for _ in 1..N_TRIES {
        match bind_once(client, &mandate, pod, node, is_lost).await {
            Err(BindError::Unreachable { .. }) => is_lost = true,
            Err(BindError::Refused { code: 500.., .. }) => {}
            decided => return decided,
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    bind_once(client, &mandate, pod, node, is_lost).await
}

/// Sends the Binding once. Any doubt is resolved by reading the pod: after a lost answer, and after any refusal if
/// `is_lost` says that the answer to an earlier Binding of the same pod to the same node was lost.
///
/// # Errors
/// [`BindError`]; the pod may be bound nevertheless after `Unreachable` alone.
pub async fn bind_once(
    client: &kube::Client,
    mandate: &Mandate,
    pod: &PodName,
    node: &str,
    mut is_lost: bool,
) -> Result<(), BindError> {
    let sent = match post(client, mandate, pod, node).await {
        Ok(()) => return Ok(()),
        Err(failure) => failure,
    };
    let refused = match &sent {
        CallFailure::Refused { code: 404, .. } => return Err(BindError::Gone),
        CallFailure::Refused { code, message, .. } => Some((*code, message.clone())),
        CallFailure::Unknown { code, reason } => {
            is_lost = true;
            code.map(|code| (code, reason.clone()))
        }
        CallFailure::Overtaken => None,
    };
    match refused {
        Some((code, message)) if !is_lost && code != 409 => {
            return Err(BindError::Refused { code, message });
        }
        _ => {}
    }
    match (assignment_of(client, pod).await, refused) {
        (Ok(Assignment::On(on)), _) if is_lost && on == node => Ok(()),
        (Ok(Assignment::On(node)), _) => Err(BindError::AlreadyBound { node }),
        (Ok(Assignment::Gone), _) => Err(BindError::Gone),
        (Ok(Assignment::Pending), Some((code, message))) => {
            Err(BindError::Refused { code, message })
        }
        // Without an answer the Binding may still be on its way.
        (Ok(Assignment::Pending), None) => Err(BindError::Unreachable { reason: sent.to_string() }),
        (Err(failure), _) => Err(BindError::Unreachable { reason: failure.to_string() }),
    }
}

async fn post(
    client: &kube::Client,
    mandate: &Mandate,
    pod: &PodName,
    node: &str,
) -> Result<(), CallFailure> {
    let binding = Binding {
        metadata: ObjectMeta {
            namespace: Some(pod.namespace.to_string()),
            name: Some(pod.name.to_string()),
            uid: Some(pod.uid.to_string()).filter(|uid| !uid.is_empty()),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    };
    let mut span = outgoing("POST pods/binding");
    let answer = async {
        let body = serde_json::to_vec(&binding).map_err(kube::Error::SerdeError)?;
        let pods = Request::new(Pod::url_path(&(), Some(&pod.namespace)));
        let built = pods.create_subresource("binding", &pod.name, &PostParams::default(), body);
        let mut request = built.map_err(kube::Error::BuildRequest)?;
        if let Some(span) = &span {
            span.inject(request.headers_mut());
        }
        client.request::<Status>(request).await
    };
    let sent = write(mandate, answer).await;
    if let (Err(_), Some(span)) = (&sent, &mut span) {
        span.fail();
    }
    sent.map(drop)
}

/// Placement of a pod with a given uid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// The pod is on this node.
    On(String),
    /// The pod is on no node.
    Pending,
    /// The pod does not exist.
    Gone,
}

/// Reads the placement of a pod, which needs no leadership.
///
/// # Errors
/// [`CallFailure`].
pub async fn assignment_of(
    client: &kube::Client,
    pod: &PodName,
) -> Result<Assignment, CallFailure> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let found = match call(api.get(&pod.name)).await {
        Ok(found) => found,
        Err(CallFailure::Refused { code: 404, .. }) => return Ok(Assignment::Gone),
        Err(failure) => return Err(failure),
    };
    if !pod.uid.is_empty() && found.metadata.uid.as_deref() != Some(&*pod.uid) {
        return Ok(Assignment::Gone);
    }
    let node = found.spec.and_then(|spec| spec.node_name).filter(|node| !node.is_empty());
    Ok(node.map_or(Assignment::Pending, Assignment::On))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::scripted;

    /// A client with scripted answers, in this order: the method, the status (0: the connection is cut), the body.
    fn scripted(script: &'static [(&'static str, u16, &'static str)]) -> kube::Client {
        let mut steps = script.iter();
        scripted::client(move |request| {
            let &(method, status, body) = steps.next().expect("no more requests");
            assert_eq!(request.method(), method);
            async move {
                if status == 0 {
                    return Err(std::io::Error::other("cut"));
                }
                let body = match body {
                    "" => format!(
                        r#"{{"kind":"Status","status":"Failure","code":{status},"message":"no","reason":"r"}}"#
                    ),
                    node => format!(
                        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","namespace":"d","uid":"u"}},"spec":{{{node}"containers":[]}}}}"#
                    ),
                };
                let body = kube::client::Body::from(body.into_bytes());
                Ok(http::Response::builder().status(status).body(body).expect("a response"))
            }
        })
    }

    const PENDING: &str = " ";
    const ON_N: &str = r#""nodeName":"n","#;

    async fn bound(script: &'static [(&'static str, u16, &'static str)]) -> Result<(), BindError> {
        let pod = PodName { namespace: "d".into(), name: "p".into(), uid: "u".into() };
        bind(&scripted(script), &pod, "n").await
    }

    #[tokio::test]
    async fn a_refusal_after_a_lost_answer_is_no_proof() {
        let lost =
            bound(&[("POST", 0, ""), ("GET", 503, ""), ("POST", 403, ""), ("GET", 200, ON_N)]);
        assert_eq!(lost.await, Ok(()));
        let unread = bound(&[
            ("POST", 0, ""),
            ("GET", 503, ""),
            ("POST", 403, ""),
            ("GET", 503, ""),
            ("POST", 403, ""),
            ("GET", 503, ""),
        ]);
        assert!(matches!(unread.await, Err(BindError::Unreachable { .. })));
        let pending =
            bound(&[("POST", 0, ""), ("GET", 503, ""), ("POST", 403, ""), ("GET", 200, PENDING)]);
        assert!(matches!(pending.await, Err(BindError::Refused { code: 403, .. })));
        let plain = bound(&[("POST", 403, "")]);
        assert!(matches!(plain.await, Err(BindError::Refused { code: 403, .. })), "it is proof");
    }

    #[tokio::test]
    async fn trouble_and_a_pod_that_is_not_bound_is_a_refusal_in_the_end() {
        let outcome = bound(&[
            ("POST", 500, ""),
            ("GET", 200, PENDING),
            ("POST", 500, ""),
            ("GET", 200, PENDING),
            ("POST", 500, ""),
            ("GET", 200, PENDING),
        ]);
        assert!(matches!(outcome.await, Err(BindError::Refused { code: 500, .. })));
    }

    #[tokio::test]
    async fn nothing_is_sent_without_a_mandate() {
        let client = scripted(&[("GET", 200, PENDING)]);
        let pod = PodName { namespace: "d".into(), name: "p".into(), uid: "u".into() };
        let over = Mandate::until(crate::clock::now());
        let outcome = bind_once(&client, &over, &pod, "n", false).await;
        assert!(matches!(outcome, Err(BindError::Unreachable { .. })), "{outcome:?}");
    }

    #[tokio::test]
    async fn a_binding_for_a_traced_call_belongs_to_its_trace() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let client = scripted::client(move |request| {
            let parent = request.headers().get("traceparent").and_then(|it| it.to_str().ok());
            let parent = parent.unwrap_or_default().to_owned();
            let is_ours = parent.starts_with(&format!("00-{trace}-"))
                && parent.ends_with("-01")
                && !parent.contains("00f067aa0ba902b7");
            let status = if is_ours { 201 } else { 403 };
            async move {
                let body = format!(r#"{{"kind":"Status","apiVersion":"v1","code":{status}}}"#);
                let body = kube::client::Body::from(body.into_bytes());
                Ok(http::Response::builder().status(status).body(body).expect("a response"))
            }
        });
        let pod = PodName { namespace: "d".into(), name: "p".into(), uid: "u".into() };
        let mut headers = http::HeaderMap::new();
        let parent = format!("00-{trace}-00f067aa0ba902b7-01");
        headers.insert("traceparent", parent.parse().unwrap());
        let span = crate::telemetry::trace::Tracer::off().begin(&headers, "bind").unwrap();
        assert_eq!(span.scope().carry(bind(&client, &pod, "n")).await, Ok(()));
        assert!(matches!(
            bind(&client, &pod, "n").await,
            Err(BindError::Refused { code: 403, .. })
        ));
    }
}
