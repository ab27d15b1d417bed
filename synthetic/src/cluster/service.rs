//! The Services of a synthetic cluster, one for each application, and their namespaces.

use std::collections::BTreeSet;

use berth_proto::core_v1::{Namespace, Pod, Service};
use berth_proto::meta_v1::ObjectMeta;

use crate::object::{namespace, service};

/// Adds the namespace of each pod and the Service of each application, the value of the label `app`, that are not among
/// the given ones; in the order of their names.
pub fn add_of(pods: &[Pod], namespaces: &mut Vec<Namespace>, services: &mut Vec<Service>) {
    let metadata: Vec<&ObjectMeta> = pods.iter().filter_map(|pod| pod.metadata.as_ref()).collect();
    let wanted: BTreeSet<&str> = metadata.iter().map(|it| it.namespace.as_str()).collect();
    let there: BTreeSet<String> = namespaces.iter().map(|it| name_of(&it.metadata).1).collect();
    let missing = wanted.into_iter().filter(|name| !there.contains(*name));
    namespaces.extend(missing.map(namespace));

    let wanted: BTreeSet<(String, String)> = metadata
        .iter()
        .filter_map(|it| Some((it.namespace.clone(), it.labels.get("app")?.clone())))
        .collect();
    let there: BTreeSet<_> = services.iter().map(|it| name_of(&it.metadata)).collect();
    services.extend(wanted.difference(&there).map(|(namespace, app)| service(namespace, app)));
}

fn name_of(metadata: &Option<ObjectMeta>) -> (String, String) {
    metadata.as_ref().map_or_else(Default::default, |it| (it.namespace.clone(), it.name.clone()))
}

#[cfg(test)]
mod tests {
    use super::{add_of, name_of};
    use crate::cluster::running::label_app;
    use crate::object::{Requests, pod};

    #[test]
    fn each_namespace_and_application_is_added_once() {
        let running = |namespace: &str, name: &str, app: &str| {
            let mut pod = pod(namespace, name, name, "image", Requests::default());
            label_app(&mut pod, app);
            pod
        };
        let (mut namespaces, mut services) = (Vec::new(), Vec::new());
        let first = [running("b", "0", "web"), running("a", "1", "web"), running("b", "2", "web")];
        add_of(&first, &mut namespaces, &mut services);
        let second = [running("b", "3", "web"), running("b", "4", "db"), running("c", "5", "db")];
        add_of(&second, &mut namespaces, &mut services);
        let names: Vec<_> = namespaces.iter().map(|it| name_of(&it.metadata).1).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let names: Vec<_> = services.iter().map(|it| name_of(&it.metadata)).collect();
        let expected = [("a", "web"), ("b", "web"), ("b", "db"), ("c", "db")];
        assert_eq!(names, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
        for service in &services {
            let selector = &service.spec.as_ref().unwrap().selector;
            assert_eq!(selector["app"], name_of(&service.metadata).1);
        }
    }
}
