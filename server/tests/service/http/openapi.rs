//! The OpenAPI document over HTTP: its form, its references, and that every path in it answers.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::http::world::{JSON, ask, post, server};

/// Members of a schema that the document may use.
const SCHEMA_KEYS: [&str; 17] = [
    "$comment",
    "$ref",
    "additionalProperties",
    "anyOf",
    "description",
    "enum",
    "examples",
    "format",
    "items",
    "maxLength",
    "maximum",
    "minLength",
    "minimum",
    "properties",
    "required",
    "type",
    "const",
];
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap_or_else(|| panic!("{value}"))
}

/// Checks a schema: its members, its types, and that each reference leads to a schema of the document.
fn check_schema(schema: &Value, schemas: &Map<String, Value>) {
    if schema.is_boolean() {
        return;
    }
    for (key, value) in object(schema) {
        assert!(SCHEMA_KEYS.contains(&key.as_str()), "{key}: {schema}");
        match key.as_str() {
            "$ref" => {
                let name = value.as_str().unwrap().strip_prefix("#/components/schemas/").unwrap();
                assert!(schemas.contains_key(name), "{name}");
            }
            "type" => {
                let one = value.as_str().map(|one| vec![one]);
                let all = one.unwrap_or_else(|| {
                    value.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect()
                });
                assert!(all.iter().all(|one| TYPES.contains(one)), "{schema}");
            }
            "items" | "additionalProperties" => check_schema(value, schemas),
            "anyOf" => value.as_array().unwrap().iter().for_each(|one| check_schema(one, schemas)),
            "properties" => object(value).values().for_each(|one| check_schema(one, schemas)),
            "description" | "format" => assert!(!value.as_str().unwrap().is_empty(), "{schema}"),
            "required" | "enum" | "examples" => assert!(!value.as_array().unwrap().is_empty()),
            _ => {}
        }
    }
}

#[tokio::test]
async fn the_document_is_whole_and_its_paths_answer() {
    let server = server().await;
    let reply = ask(server.http_address(), "GET /openapi.json", "", b"").await;
    assert_eq!(reply.status, 200);
    assert!(reply.head.contains("content-type: application/json"), "{}", reply.head);
    let document = reply.json();
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    let components = &document["components"];
    let schemas = object(&components["schemas"]);
    assert!(schemas.keys().all(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')));
    schemas.values().for_each(|schema| check_schema(schema, schemas));
    assert_eq!(components["securitySchemes"]["bearer"]["scheme"], "bearer");
    let mut ids = BTreeSet::new();
    let paths = object(&document["paths"]);
    assert!(paths.len() > 70, "{}", paths.len());
    for (path, item) in paths {
        assert_eq!(object(item).keys().collect::<Vec<_>>(), ["post"], "{path}");
        let operation = &item["post"];
        assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()), "{path}");
        assert!(!operation["summary"].as_str().unwrap().is_empty(), "{path}");
        let mut names = BTreeSet::new();
        for parameter in operation["parameters"].as_array().unwrap() {
            let name = parameter["name"].as_str().unwrap();
            assert!(names.insert(name), "{path}: {name}");
            assert!(["query", "header"].contains(&parameter["in"].as_str().unwrap()), "{path}");
            assert!(!parameter["description"].as_str().unwrap().is_empty(), "{path}: {name}");
            check_schema(&parameter["schema"], schemas);
        }
        for content in object(&operation["requestBody"]["content"]).values() {
            check_schema(&content["schema"], schemas);
        }
        let result = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        check_schema(result, schemas);
        let failure = operation["responses"]["default"]["$ref"].as_str().unwrap();
        assert_eq!(failure, "#/components/responses/Error", "{path}");

        // The path answers: with a result, or with a field that the empty request lacks.
        let reply = post(&server, path, JSON, "{}").await;
        match reply.status {
            200 => assert!(reply.json().is_object(), "{path}"),
            400 => assert!(!reply.error().2.is_empty(), "{path}"),
            404 => assert_eq!(reply.error().0, "NOT_FOUND", "{path}"),
            status => panic!("{path}: {status}: {}", reply.body),
        }
    }
    check_schema(
        &components["responses"]["Error"]["content"]["application/json"]["schema"],
        schemas,
    );
}
