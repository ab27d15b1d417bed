//! Tables: the answer to `kubectl get`, which lets the server choose the columns.

mod age;
mod columns;

use http::HeaderMap;
use http::header::ACCEPT;
use serde_json::{Value, json};

use crate::list::Page;
use crate::resource::Resource;
use crate::stored::Stored;
use columns::Column;

/// Whether the client prefers a table.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let first = accept.split(',').next().unwrap_or_default();
    let is_table = |parameter: &str| parameter.trim() == "as=Table";
    first.trim().starts_with("application/json") && first.split(';').any(is_table)
}

/// The table of a list.
pub(crate) fn of_list(resource: &Resource, page: &Page) -> Value {
    table(resource, &page.metadata(), page.items.iter().map(AsRef::as_ref))
}

/// The table of one object.
pub(crate) fn of_one(resource: &Resource, object: &Stored) -> Value {
    let metadata = json!({"resourceVersion": object.version.to_string()});
    table(resource, &metadata, std::iter::once(object))
}

fn table<'s>(
    resource: &Resource,
    metadata: &Value,
    objects: impl Iterator<Item = &'s Stored>,
) -> Value {
    let columns = columns::of(resource.kind);
    let row = |object: &Stored| {
        let object = object.to_value(resource);
        let cells: Vec<Value> = columns.iter().map(|column| (column.cell)(&object)).collect();
        let partial = json!({
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"],
        });
        json!({"cells": cells, "object": partial})
    };
    let definitions: Vec<Value> = columns.iter().map(definition).collect();
    let rows: Vec<Value> = objects.map(row).collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows,
    })
}

fn definition(column: &Column) -> Value {
    let format = if column.name == "Name" { "name" } else { "" };
    json!({
        "name": column.name, "type": "string", "format": format, "description": "",
        "priority": i32::from(column.is_wide),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::PODS;

    #[test]
    fn a_table_is_given_to_who_prefers_one() {
        let wants = |accept: &'static str| {
            is_wanted(&HeaderMap::from_iter([(ACCEPT, http::HeaderValue::from_static(accept))]))
        };
        assert!(wants("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"));
        assert!(!wants("application/json") && !wants("application/json,application/json;as=Table"));
        assert!(!is_wanted(&HeaderMap::new()));
    }

    #[test]
    fn a_pod_has_the_columns_of_kubectl() {
        let pod = json!({
            "metadata": {"name": "web", "creationTimestamp": crate::clock::time(-300)},
            "spec": {"nodeName": "n1", "containers": [{"name": "c"}, {"name": "d"}]},
            "status": {"phase": "Running", "containerStatuses": [
                {"ready": true, "restartCount": 2}, {"ready": false, "restartCount": 1},
            ]},
        });
        let table = of_one(PODS, &Stored::new(PODS, 7, pod));
        let names: Vec<&str> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["name"].as_str().unwrap())
            .collect();
        assert_eq!(names[..5], ["Name", "Ready", "Status", "Restarts", "Age"]);
        let cells = table["rows"][0]["cells"].as_array().unwrap();
        assert_eq!(cells[..5], ["web", "1/2", "Running", "3", "5m"].map(Value::from));
        assert_eq!(cells[6], "n1");
        assert_eq!(table["rows"][0]["object"]["metadata"]["name"], "web");
    }
}
