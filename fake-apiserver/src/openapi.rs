//! OpenAPI v3 documents, as far as kubectl reads them before it writes: which kinds the server validates itself.

use serde_json::{Map, Value, json};

use crate::resource::{RESOURCES, Resource};
use crate::response::ApiResponse;

/// The response to a GET below `/openapi/v3`; `None` for any other path.
pub(crate) fn respond(path: &str) -> Option<ApiResponse> {
    match path.strip_prefix("/openapi/v3")? {
        "" | "/" => Some(ApiResponse::json(200, &json!({"paths": versions()}))),
        path => document(path.strip_prefix('/')?).map(|it| ApiResponse::json(200, &it)),
    }
}

/// The path of a group's version, without its first slash: `api/v1`, `apis/apps/v1`.
fn path_of(row: &Resource) -> String {
    let prefix = if row.group.is_empty() { "api" } else { "apis" };
    format!("{prefix}/{}", row.api_version())
}

fn versions() -> Map<String, Value> {
    let version = |row: &Resource| {
        let path = path_of(row);
        let url = format!("/openapi/v3/{path}?hash=1");
        (path, json!({"serverRelativeURL": url}))
    };
    RESOURCES.iter().map(version).collect()
}

/// The document of a group's version: the path of each kind with its PATCH, whose parameters kubectl looks at.
fn document(path: &str) -> Option<Value> {
    let rows = RESOURCES.iter().filter(|row| path_of(row) == path);
    let paths: Map<String, Value> = rows.map(|row| (object_path(row), operations(row))).collect();
    let info = json!({"title": "Kubernetes", "version": "v1.36.0"});
    (!paths.is_empty()).then(|| json!({"openapi": "3.0.0", "info": info, "paths": paths}))
}

fn object_path(row: &Resource) -> String {
    let namespace = if row.namespaced { "namespaces/{namespace}/" } else { "" };
    format!("/{}/{namespace}{}/{{name}}", path_of(row), row.plural)
}

fn operations(row: &Resource) -> Value {
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
    let parameters = ["dryRun", "fieldManager", "fieldValidation"].map(parameter);
    json!({"patch": {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {"group": row.group, "version": row.version, "kind": row.kind},
        "parameters": parameters, "responses": {"200": {"description": "OK"}},
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_path_in_a_document() {
        let versions = versions();
        for row in &RESOURCES {
            let path = path_of(row);
            assert!(versions.contains_key(&path), "{path}");
            let patch = document(&path).unwrap()["paths"][object_path(row)]["patch"].clone();
            assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], row.kind);
        }
        assert!(document("apis/apps/v2").is_none() && respond("/openapi/v2").is_none());
    }
}
