//! Claims: what requests say of pods and nodes, compared with what this server has seen of the cluster. Rules:
//! L-GRANT-1, L-GRANT-2.
//!
//! Only claims that a change rests on are compared, so a request that changes nothing is answered without.

use berth_engine::lifecycle::attachment::BreakEntitlement;
use berth_engine::{NodeSighting, PodSighting};

/// Witness: what a server has seen of the cluster that its feed describes.
pub trait Witness: Send + Sync {
    /// The pod of this name.
    fn pod(&self, namespace: &str, name: &str) -> Sight<PodSighting>;

    /// The pod of this uid on a node; unknown unless the cluster has the node.
    fn pod_on(&self, node: &str, uid: &str) -> Sight<PodSighting>;

    /// The node of this name.
    fn node(&self, name: &str) -> Sight<NodeSighting>;
}

/// An object as a server has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight<Seen> {
    /// The cluster has the object.
    Present(Seen),
    /// The cluster does not have it.
    Absent,
    /// The server has no opinion: it has no feed, or has not heard of its feed for too long.
    Unknown,
}

impl<Seen> Sight<Seen> {
    /// The sight of an object that a current cluster has or does not have.
    pub fn of(seen: Option<Seen>) -> Sight<Seen> {
        seen.map_or(Sight::Absent, Sight::Present)
    }
}

/// A witness that has seen nothing, so that every claim is the caller's word.
#[derive(Copy, Clone, Debug)]
pub struct Blind;

impl Witness for Blind {
    fn pod(&self, _: &str, _: &str) -> Sight<PodSighting> {
        Sight::Unknown
    }

    fn pod_on(&self, _: &str, _: &str) -> Sight<PodSighting> {
        Sight::Unknown
    }

    fn node(&self, _: &str) -> Sight<NodeSighting> {
        Sight::Unknown
    }
}

/// A claim that this server's cluster contradicts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this server's cluster contradicts `{field}`: {reason}")]
pub struct Contradiction {
    /// Field of the request with the claim.
    pub field: &'static str,
    /// The fact that contradicts it.
    pub reason: String,
}

/// Whether the claim is confirmed, or an error if it is contradicted.
type Checked = Result<bool, Contradiction>;

/// Checks that the pod of this uid has this name and, if `node` is not empty, runs there.
pub(super) fn is_held(
    witness: &dyn Witness,
    (namespace, name, uid): (&str, &str, &str),
    node: &str,
) -> Checked {
    let Sight::Present(pod) = witness.pod(namespace, name) else { return Ok(false) };
    if pod.is_assumed {
        return Ok(false);
    }
    match &pod.node {
        Some(on) if *pod.uid != *uid => {
            let reason =
                format!("pod `{namespace}/{name}` on node `{on}` has the uid `{}`", pod.uid);
            contradicted("uid", reason)
        }
        Some(on) if !node.is_empty() && **on != *node => {
            contradicted("nodeName", format!("pod `{namespace}/{name}` is on node `{on}`"))
        }
        Some(_) => Ok(true),
        None => Ok(*pod.uid == *uid && node.is_empty()),
    }
}

/// Checks that the pod of this name and uid no longer exists.
pub(super) fn is_gone(
    witness: &dyn Witness,
    (namespace, name, uid): (&str, &str, &str),
) -> Checked {
    match witness.pod(namespace, name) {
        Sight::Present(pod) if *pod.uid != *uid => Ok(!pod.is_assumed),
        Sight::Present(pod) if pod.is_assumed => Ok(false),
        Sight::Present(pod) => {
            let place = pod.node.map_or(" and pending".to_owned(), |on| format!(" on node `{on}`"));
            let reason =
                format!("pod `{namespace}/{name}` of uid `{uid}` is in the cluster{place}");
            contradicted("type", reason)
        }
        Sight::Absent => Ok(true),
        Sight::Unknown => Ok(false),
    }
}

/// Checks that the pod of this uid is on the node. A server that has not seen the pod yet contradicts nothing.
pub(super) fn is_on(witness: &dyn Witness, node: &str, uid: &str) -> bool {
    matches!(witness.pod_on(node, uid), Sight::Present(pod) if !pod.is_assumed)
}

/// Checks that the pod of this uid is no longer on the node.
pub(super) fn has_left(witness: &dyn Witness, node: &str, uid: &str) -> Checked {
    match witness.pod_on(node, uid) {
        Sight::Present(pod) if pod.is_assumed => Ok(false),
        Sight::Present(_) => {
            contradicted("podGone", format!("the pod of uid `{uid}` is on node `{node}`"))
        }
        Sight::Absent => Ok(true),
        Sight::Unknown => Ok(false),
    }
}

/// Checks the claims that entitle to a break; `None` for a fence, which is the ledger's own record.
pub(super) fn breaks(
    witness: &dyn Witness,
    node: &str,
    entitlement: BreakEntitlement,
) -> Result<Option<bool>, Contradiction> {
    match (entitlement, witness.node(node)) {
        (BreakEntitlement::FenceConfirmed, _) => Ok(None),
        (_, Sight::Unknown) => Ok(Some(false)),
        (BreakEntitlement::NodeObjectDeleted, Sight::Absent) => Ok(Some(true)),
        (BreakEntitlement::NodeObjectDeleted, Sight::Present(_)) => {
            contradicted("nodeObjectDeleted", format!("node `{node}` is in the cluster"))
        }
        (BreakEntitlement::NodeOutOfService, Sight::Absent) => Ok(Some(false)),
        (BreakEntitlement::NodeOutOfService, Sight::Present(seen)) if !seen.is_out_of_service => {
            let reason = format!("node `{node}` has no taint `node.kubernetes.io/out-of-service`");
            contradicted("outOfServiceTaint", reason)
        }
        (BreakEntitlement::NodeOutOfService, Sight::Present(seen)) if seen.is_ready => {
            contradicted("nodeReady", format!("node `{node}` is ready"))
        }
        (BreakEntitlement::NodeOutOfService, Sight::Present(_)) => Ok(Some(true)),
    }
}

fn contradicted<Answer>(field: &'static str, reason: String) -> Result<Answer, Contradiction> {
    Err(Contradiction { field, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A witness that has seen one pod and one node.
    struct Saw {
        pod: Sight<PodSighting>,
        node: Sight<NodeSighting>,
    }

    impl Witness for Saw {
        fn pod(&self, _: &str, _: &str) -> Sight<PodSighting> {
            self.pod.clone()
        }

        fn pod_on(&self, _: &str, _: &str) -> Sight<PodSighting> {
            self.pod.clone()
        }

        fn node(&self, _: &str) -> Sight<NodeSighting> {
            self.node.clone()
        }
    }

    fn saw(pod: &Sight<(&str, Option<&str>, bool)>) -> Saw {
        let pod = match *pod {
            Sight::Present((uid, node, is_assumed)) => {
                let (uid, node) = (uid.into(), node.map(Into::into));
                Sight::Present(PodSighting { uid, node, is_assumed })
            }
            Sight::Absent => Sight::Absent,
            Sight::Unknown => Sight::Unknown,
        };
        Saw { pod, node: Sight::Unknown }
    }

    fn field<Answer: std::fmt::Debug>(refused: Result<Answer, Contradiction>) -> &'static str {
        refused.unwrap_err().field
    }

    const POD: (&str, &str, &str) = ("shop", "db-0", "u1");

    /// L-GRANT-1, L-GRANT-2.
    #[test]
    fn what_is_said_of_pods() {
        let on_a = saw(&Sight::Present(("u1", Some("a"), false)));
        assert!(is_held(&on_a, POD, "a").unwrap());
        assert!(is_held(&on_a, POD, "").unwrap());
        assert_eq!(field(is_held(&on_a, POD, "b")), "nodeName");
        assert_eq!(field(is_gone(&on_a, POD)), "type");
        assert_eq!(field(has_left(&on_a, "a", "u1")), "podGone");
        assert!(is_on(&on_a, "a", "u1"));
        let error = is_gone(&on_a, POD).unwrap_err().to_string();
        let expected = "this server's cluster contradicts `type`: pod `shop/db-0` of uid `u1` is in the cluster on node `a`";
        assert_eq!(error, expected);
        let other = saw(&Sight::Present(("u2", Some("a"), false)));
        assert_eq!(field(is_held(&other, POD, "")), "uid");
        assert!(is_gone(&other, POD).unwrap());
        let pending = saw(&Sight::Present(("u1", None, false)));
        assert_eq!(
            [is_held(&pending, POD, "").unwrap(), is_held(&pending, POD, "a").unwrap()],
            [true, false]
        );
        assert_eq!(field(is_gone(&pending, POD)), "type");
        let successor = saw(&Sight::Present(("u2", None, false)));
        assert!(!is_held(&successor, POD, "").unwrap());
        // No feed has confirmed an assumed pod.
        for uid in ["u1", "u2"] {
            let assumed = saw(&Sight::Present((uid, Some("a"), true)));
            assert!(!is_held(&assumed, POD, "b").unwrap());
            assert!(!is_gone(&assumed, POD).unwrap());
            assert!(!has_left(&assumed, "a", "u1").unwrap());
            assert!(!is_on(&assumed, "a", "u1"));
        }
        for (pod, is_proof) in [(Sight::Absent, true), (Sight::Unknown, false)] {
            let saw = saw(&pod);
            assert!(!is_held(&saw, POD, "a").unwrap());
            assert_eq!(is_gone(&saw, POD).unwrap(), is_proof);
            assert_eq!(has_left(&saw, "a", "u1").unwrap(), is_proof);
            assert!(!is_on(&saw, "a", "u1"));
        }
        assert!(!is_gone(&Blind, POD).unwrap());
    }

    /// L-GRANT-1, L-GRANT-2.
    #[test]
    fn what_is_said_of_nodes() {
        use BreakEntitlement::{FenceConfirmed, NodeObjectDeleted, NodeOutOfService};
        let node = |is_ready, is_out_of_service| {
            let node = Sight::Present(NodeSighting { is_ready, is_out_of_service });
            Saw { pod: Sight::Unknown, node }
        };
        let gone = Saw { pod: Sight::Unknown, node: Sight::Absent };
        for witness in [&node(true, false) as &dyn Witness, &gone, &Blind] {
            assert_eq!(breaks(witness, "a", FenceConfirmed).unwrap(), None);
        }
        assert_eq!(breaks(&Blind, "a", NodeObjectDeleted).unwrap(), Some(false));
        assert_eq!(breaks(&Blind, "a", NodeOutOfService).unwrap(), Some(false));
        assert_eq!(breaks(&gone, "a", NodeObjectDeleted).unwrap(), Some(true));
        assert_eq!(breaks(&gone, "a", NodeOutOfService).unwrap(), Some(false));
        assert_eq!(field(breaks(&node(false, true), "a", NodeObjectDeleted)), "nodeObjectDeleted");
        assert_eq!(field(breaks(&node(false, false), "a", NodeOutOfService)), "outOfServiceTaint");
        assert_eq!(field(breaks(&node(true, true), "a", NodeOutOfService)), "nodeReady");
        assert_eq!(breaks(&node(false, true), "a", NodeOutOfService).unwrap(), Some(true));
    }
}
