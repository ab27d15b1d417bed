//! Random clusters, pods and policies over one small vocabulary.

mod affinity;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod policy;
mod quantity;

use std::fmt;

use berth_proto::core_v1;

/// Shown as one line of JSON, so that a failing case can be read.
#[derive(Clone)]
pub(crate) struct Json<T>(pub(crate) T);

impl fmt::Debug for Json<core_v1::Node> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.0).expect("nodes have a JSON form"))
    }
}

impl fmt::Debug for Json<core_v1::Pod> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.0).expect("pods have a JSON form"))
    }
}
