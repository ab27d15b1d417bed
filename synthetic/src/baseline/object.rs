//! The baseline's objects other than nodes and pods.

use berth_proto::core_v1::{Namespace, Service, ServiceSpec};
use berth_proto::meta_v1::ObjectMeta;

use super::kind::Workload;

/// Ten namespaces without labels.
pub fn namespaces() -> Vec<Namespace> {
    let named = |i| Namespace { metadata: named("", format!("ns-{i}")), ..Namespace::default() };
    (0..10).map(named).collect()
}

/// The Service of the incoming pods, for spread by the built-in defaults.
pub fn service(workload: Workload) -> Option<Service> {
    if !matches!(workload, Workload::SpreadSystemDefaults | Workload::Mixed) {
        return None;
    }
    let spec = ServiceSpec {
        selector: [("app".to_owned(), "app-7".to_owned())].into_iter().collect(),
        ..ServiceSpec::default()
    };
    Some(Service { metadata: named("ns-0", "app-7".into()), spec: Some(spec) })
}

fn named(namespace: &str, name: String) -> Option<ObjectMeta> {
    Some(ObjectMeta { namespace: namespace.into(), name, ..ObjectMeta::default() })
}
