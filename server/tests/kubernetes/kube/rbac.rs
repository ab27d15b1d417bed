//! RBAC: the manifests grant exactly what the code asks for.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use berth_server::feed::kube::Resource;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct Manifest {
    kind: String,
    #[serde(default)]
    rules: Vec<Rule>,
}

fn manifests(name: &str) -> Vec<Manifest> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/rbac").join(name);
    let text = fs::read_to_string(path).unwrap();
    text.split("\n---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect()
}

/// (group, resource, verb) of all rules of a kind of role.
fn granted(name: &str, kind: &str) -> BTreeSet<(String, String, String)> {
    let mut granted = BTreeSet::new();
    for manifest in manifests(name).into_iter().filter(|manifest| manifest.kind == kind) {
        for Rule { api_groups, resources, verbs } in manifest.rules {
            for group in &api_groups {
                for resource in &resources {
                    for verb in &verbs {
                        let rule = (group.clone(), resource.clone(), verb.clone());
                        assert!(granted.insert(rule), "{resource} is granted twice");
                    }
                }
            }
        }
    }
    granted
}

fn rules(rules: &[(&str, &str, &[&str])]) -> BTreeSet<(String, String, String)> {
    let expand = |(group, resource, verbs): &(&str, &str, &[&str])| {
        let (group, resource) = ((*group).to_owned(), (*resource).to_owned());
        let verbs: Vec<String> = verbs.iter().map(|verb| (*verb).to_owned()).collect();
        verbs.into_iter().map(move |verb| (group.clone(), resource.clone(), verb))
    };
    rules.iter().flat_map(expand).collect()
}

#[test]
fn the_reader_may_read_what_is_watched_and_nothing_else() {
    let watched: Vec<(&str, &str, &[&str])> = Resource::ALL
        .into_iter()
        .map(|resource| (resource.group(), resource.plural(), &["list", "watch"][..]))
        .collect();
    assert_eq!(granted("reader.yaml", "ClusterRole"), rules(&watched));
    let kinds: Vec<String> =
        manifests("reader.yaml").into_iter().map(|manifest| manifest.kind).collect();
    assert_eq!(kinds, ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"]);
}

#[test]
fn the_binder_may_bind_and_look_whether_it_did() {
    let expected: [(&str, &str, &[&str]); 2] =
        [("", "pods", &["get"]), ("", "pods/binding", &["create"])];
    assert_eq!(granted("binder.yaml", "ClusterRole"), rules(&expected));
    assert!(granted("binder.yaml", "Role").is_empty());
}

#[test]
fn the_scheduler_may_also_evict_write_events_and_lead() {
    let expected: [(&str, &str, &[&str]); 3] = [
        ("", "pods", &["delete"]),
        ("", "pods/status", &["patch"]),
        ("events.k8s.io", "events", &["create", "patch"]),
    ];
    assert_eq!(granted("scheduler.yaml", "ClusterRole"), rules(&expected));
    let lease: [(&str, &str, &[&str]); 1] =
        [("coordination.k8s.io", "leases", &["create", "get", "update", "watch"])];
    assert_eq!(granted("scheduler.yaml", "Role"), rules(&lease));
}
