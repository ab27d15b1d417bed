//! Node failure: when a node counts as lost, how fast nodes of its zone may be tainted, and when its pods are evicted
//! (group `node-failure`).

mod health;
mod taint_eviction;
mod timeline;
mod toleration;
mod zone;

pub use health::node_health;
pub(crate) use taint_eviction::{Eviction, eviction_since};
pub use taint_eviction::{TaintDecision, taint_eviction};
pub use timeline::node_loss_timeline;
pub use toleration::default_tolerations;
pub(super) use toleration::{NoExecuteTolerations, effect_of};
pub use zone::{ZoneState, zone_disruption, zone_of};

use super::reading::Seconds;
use crate::model::ModelError;

/// Taint key of nodes that report themselves not ready (L-NODE-4).
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Taint key of nodes without contact (L-NODE-4).
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Default time without contact after which a node is unreachable (L-NODE-1).
const GRACE_SECONDS: i64 = 50;

/// Reads a number of seconds that is not negative; `default` if absent.
fn seconds_or(given: Option<i64>, default: Seconds, field: &str) -> Result<Seconds, ModelError> {
    match given.unwrap_or(default) {
        seconds if seconds < 0 => Err(ModelError::new(field, format!("`{seconds}` is negative"))),
        seconds => Ok(seconds),
    }
}
