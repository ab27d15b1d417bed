//! The baseline's objects other than nodes and pods.

use berth_engine::{Cluster, Object};
use berth_proto::core_v1::{Namespace, Service, ServiceSpec};
use berth_proto::meta_v1::ObjectMeta;

use super::{Workload, compiled_object};

/// Ten namespaces without labels, and for spread by the built-in defaults the Service of the incoming pods.
pub fn objects(cluster: &Cluster, workload: Workload) -> Vec<Object> {
    let named = |namespace: &str, name: String| {
        Some(ObjectMeta { namespace: namespace.into(), name, ..ObjectMeta::default() })
    };
    let mut objects: Vec<Object> = (0..10)
        .map(|i| Namespace { metadata: named("", format!("ns-{i}")), ..Namespace::default() })
        .map(|namespace| compiled_object(cluster, &namespace))
        .collect();
    if matches!(workload, Workload::SpreadSystemDefaults | Workload::Mixed) {
        let spec = ServiceSpec {
            selector: [("app".to_owned(), "app-7".to_owned())].into_iter().collect(),
            ..ServiceSpec::default()
        };
        let service = Service { metadata: named("ns-0", "app-7".into()), spec: Some(spec) };
        objects.push(compiled_object(cluster, &service));
    }
    objects
}
