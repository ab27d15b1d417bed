//! Discovery: versions, groups, resources and probes.

use serde_json::{Value, json};

use crate::resource::{RESOURCES, Resource};
use crate::response::ApiResponse;

/// The response to a GET of a discovery path; `None` for any other path.
pub(crate) fn respond(path: &str) -> Option<ApiResponse> {
    let parts: Vec<&str> = path.trim_end_matches('/').split('/').skip(1).collect();
    match parts.as_slice() {
        ["readyz" | "livez" | "healthz", ..] => Some(ApiResponse::text("ok")),
        ["version"] => Some(ApiResponse::json(200, &version())),
        ["api"] => {
            let versions = json!({
                "kind": "APIVersions", "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
            });
            Some(ApiResponse::json(200, &versions))
        }
        ["apis"] => {
            let list = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups()});
            Some(ApiResponse::json(200, &list))
        }
        ["api", "v1"] => Some(ApiResponse::json(200, &resources("", "v1")?)),
        ["apis", name] => {
            let mut group = groups().into_iter().find(|group| group["name"] == **name)?;
            (group["kind"], group["apiVersion"]) = (json!("APIGroup"), json!("v1"));
            Some(ApiResponse::json(200, &group))
        }
        ["apis", group, version] => Some(ApiResponse::json(200, &resources(group, version)?)),
        _ => None,
    }
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": "v1.36.0-berth-fake", "gitCommit": "", "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "",
    })
}

fn groups() -> Vec<Value> {
    let mut names: Vec<_> = RESOURCES.iter().map(|row| (row.group, row.version)).collect();
    names.retain(|(group, _)| !group.is_empty());
    names.sort_unstable();
    names.dedup();
    let group = |(name, version): (&str, &str)| {
        let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
        json!({"name": name, "versions": [version], "preferredVersion": version})
    };
    names.into_iter().map(group).collect()
}

fn resources(group: &str, version: &str) -> Option<Value> {
    let rows = RESOURCES.iter().filter(|row| row.group == group && row.version == version);
    let resources: Vec<_> = rows.flat_map(entries).collect();
    if resources.is_empty() {
        return None;
    }
    let group_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources,
    }))
}

fn entries(row: &Resource) -> Vec<Value> {
    let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let mut all = vec![json!({
        "name": row.plural, "singularName": row.kind.to_lowercase(), "namespaced": row.namespaced,
        "kind": row.kind, "verbs": verbs, "shortNames": row.short_names, "categories": categories(row),
    })];
    for subresource in row.subresources {
        let (kind, verbs) = match *subresource {
            "binding" => ("Binding", json!(["create"])),
            "eviction" => ("Eviction", json!(["create"])),
            _ => (row.kind, json!(["get", "patch", "update"])),
        };
        let mut entry = json!({
            "name": format!("{}/{subresource}", row.plural), "singularName": "",
            "namespaced": row.namespaced, "kind": kind, "verbs": verbs,
        });
        if kind == "Eviction" {
            // The group of the body differs from that of the path; clients detect the support of evictions by it.
            (entry["group"], entry["version"]) = ("policy".into(), "v1".into());
        }
        all.push(entry);
    }
    all
}

/// The groups of kinds that a kind is in: `kubectl get all` lists those of `all`.
fn categories(row: &Resource) -> &'static [&'static str] {
    match row.kind {
        "Pod"
        | "Service"
        | "ReplicationController"
        | "ReplicaSet"
        | "StatefulSet"
        | "Deployment"
        | "DaemonSet" => &["all"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_in_discovery() {
        for row in &RESOURCES {
            let list = resources(row.group, row.version).unwrap();
            let names: Vec<_> =
                list["resources"].as_array().unwrap().iter().map(|r| r["name"].clone()).collect();
            assert!(names.contains(&json!(row.plural)), "{}", row.plural);
        }
        assert!(respond("/apis/apps/v2").is_none() && respond("/api/v1/pods").is_none());
        assert_eq!(groups().len(), 10);
    }
}
