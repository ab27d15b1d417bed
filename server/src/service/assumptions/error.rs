//! AssumptionError: why a call about an assumption was refused.

use std::sync::Arc;

use berth_engine::PodKey;

/// Why a call about an assumption was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssumptionError {
    /// The pod is on no node.
    #[error("pod `{pod}` is on no node: its assumption has expired, or was released or deleted")]
    Over {
        /// The pod.
        pod: PodKey,
    },
    /// The pod is assumed, but under another token.
    #[error("pod `{pod}` is not assumed under token {token}, but under another")]
    OtherToken {
        /// The pod.
        pod: PodKey,
        /// The token in the request.
        token: u64,
    },
    /// Another pod of the name is on a node, or nominated to one.
    #[error("pod `{pod}` has uid `{known}`, not `{requested}`")]
    OtherPod {
        /// The name of both.
        pod: PodKey,
        /// The uid of that pod.
        known: Arc<str>,
        /// The uid in the request.
        requested: String,
    },
    /// A feed has reported the pod on its node, so that it is not assumed any more.
    #[error("a feed has reported pod `{pod}` on node `{node}`: only a feed removes it")]
    Reported {
        /// The pod.
        pod: PodKey,
        /// The pod's node.
        node: Arc<str>,
    },
}
