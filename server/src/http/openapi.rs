//! `/openapi.json`: the OpenAPI document of the calls below `/v1`, made from the descriptors of the RPCs and the table
//! of routes. Like gRPC's reflection, it is for everybody: it tells nothing about a cluster.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use berth_engine::workload::WorkloadKind;
use berth_proto::access::METHODS;
use berth_proto::openapi;
use serde_json::{Map, Value, json};

use super::v1::parameters::{self, LENIENT, PRETTY, REPLICAS, TIMEOUT};
use super::v1::route::{self, PLACE, PLACE_BATCH, Route};
use super::v1::{REQUEST_ID, kinds, takes_replicas, takes_workloads};

/// Path of the document.
pub(super) const PATH: &str = "/openapi.json";

/// Name of the schema of workloads.
const WORKLOAD: &str = "Workload";

static DOCUMENT: LazyLock<String> = LazyLock::new(|| document().to_string());

pub(super) async fn get() -> Response {
    let mut response = Response::new(Body::from(DOCUMENT.as_str()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn document() -> Value {
    let paths: Map<String, Value> =
        route::all().map(|route| (route.path.clone(), json!({"post": operation(route)}))).collect();
    let mut schemas = BTreeMap::from([
        ("Error".to_owned(), error_schema()),
        (WORKLOAD.to_owned(), workload_schema()),
    ]);
    for route in route::all() {
        collect(route.operation.request, &mut schemas);
        collect(route.operation.response, &mut schemas);
        kinds(route).iter().for_each(|kind| collect(&kind.schema, &mut schemas));
    }
    for route in route::all() {
        if let Some(response) = schemas.get_mut(route.operation.response) {
            add_told(response, takes_workloads(route));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Berth",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "The deciding calls of Berth, a placement service for Kubernetes, in JSON. Objects of \
                Kubernetes are in Kubernetes' own JSON. `null` is an absent field. A whole number may be a string, \
                and a value of an enum its number. Unknown fields are errors.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {"Error": {
                "description": "The call failed. The status is that of `error.code` in google.rpc's mapping; 413 for \
                    a body that is too large, 415 for a type that is not read.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
                "headers": {"Retry-After": {
                    "description": "Seconds before a retry, for 429.",
                    "schema": {"type": "integer", "minimum": 1},
                }},
            }},
            "securitySchemes": {"bearer": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token of the server's token file. A client certificate is accepted as well, and a \
                    server on loopback may need neither.",
            }},
        },
        "security": [{"bearer": []}, {}],
    })
}

fn operation(route: &Route) -> Value {
    let operation = route.operation;
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let mut bodies = vec![reference(operation.request)];
    bodies.extend(kinds(route).iter().map(|kind| reference(&kind.schema)));
    if takes_workloads(route) {
        bodies.push(reference(WORKLOAD));
    }
    let mut results = vec![reference(operation.response)];
    if route.path == PLACE {
        results.extend(route::find(PLACE_BATCH).map(|batch| reference(batch.operation.response)));
    }
    let (body, result) = (any_of(bodies), any_of(results));
    let method = METHODS.iter().find(|method| method.path == operation.path);
    let role = method.map(|method| format!("{:?}", method.role).to_lowercase()).unwrap_or_default();
    let condition = method.map(|method| method.condition).filter(|text| !text.is_empty());
    let condition = condition.map(|text| format!("; {text}")).unwrap_or_default();
    let description = format!("{}\n\nRole: `{role}`{condition}.", operation.description);
    let summary = operation.description.split_inclusive(". ").next().unwrap_or_default().trim();
    let (service, name) =
        operation.path.trim_start_matches('/').split_once('/').unwrap_or_default();
    let service = service.trim_start_matches("berth.v1.");
    json!({
        "operationId": format!("{service}_{name}"),
        "tags": [service],
        "summary": summary,
        "description": description,
        "parameters": query(route),
        "requestBody": {
            "description": body_description(route),
            "content": {"application/json": {"schema": body}, "application/yaml": {"schema": body}},
        },
        "responses": {
            "200": {
                "description": "The response.",
                "content": {"application/json": {"schema": result}},
            },
            "default": {"$ref": "#/components/responses/Error"},
        },
    })
}

fn any_of(mut schemas: Vec<Value>) -> Value {
    match schemas.len() {
        1 => schemas.swap_remove(0),
        _ => json!({"anyOf": schemas}),
    }
}

fn body_description(route: &Route) -> String {
    let mut kinds: Vec<&str> = kinds(route).iter().map(|kind| kind.name).collect();
    if takes_workloads(route) {
        kinds.extend(WorkloadKind::ALL.map(WorkloadKind::name));
    }
    match (kinds.as_slice(), route.path == PLACE) {
        ([], _) => "The request.".to_owned(),
        (kinds, is_place) => {
            let several = if is_place { " Several pods are a batch." } else { "" };
            format!(
                "The request; or bare objects of Kubernetes, each with its `kind`, one or a List or several YAML \
                documents, of the kinds {}, with the options as query parameters.{several}",
                kinds.join(", ")
            )
        }
    }
}

/// The parameters of a call.
fn query(route: &Route) -> Vec<Value> {
    let parameter = |place: &str, name: &str, description: &str, schema: Value| json!({"name": name, "in": place, "description": description, "schema": schema});
    let mut listed = vec![
        parameter(
            "query",
            TIMEOUT,
            "Time limit of the call: a number of seconds, or a duration such as `500ms`.",
            json!({"type": "string", "examples": ["5", "500ms"]}),
        ),
        parameter(
            "query",
            PRETTY,
            "Write the response with line breaks.",
            json!({"type": "boolean"}),
        ),
        parameter(
            "query",
            LENIENT,
            "Take objects with fields that Kubernetes does not know, or pods without containers, with a remark in \
             `notes`, instead of refusing them.",
            json!({"type": "boolean"}),
        ),
        parameter(
            "header",
            REQUEST_ID,
            "Name of the request: a request that changes something and is sent again with its name happens once.",
            json!({"type": "string", "minLength": 1, "maxLength": 128}),
        ),
    ];
    if kinds(route).is_empty() {
        return listed;
    }
    if takes_replicas(route) {
        listed.push(parameter(
            "query",
            REPLICAS,
            "Number of pods of each workload, instead of its own, and of copies of each pod. Option of a body of bare \
             objects.",
            json!({"type": "integer", "minimum": 1}),
        ));
    }
    for field in parameters::settable(route.operation.request) {
        let mut schema = field.schema;
        let described = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        let described = described.as_ref().and_then(Value::as_str).unwrap_or_default();
        let note = "Option of a body of bare objects.";
        let description = [described, note].join(" ").trim().to_owned();
        listed.push(parameter("query", &field.name, &description, schema));
    }
    listed
}

/// A workload, of which only what all have is described: the fields are those of Kubernetes' API.
fn workload_schema() -> Value {
    let versions: std::collections::BTreeSet<&str> =
        WorkloadKind::ALL.iter().map(|kind| kind.api_version()).collect();
    json!({
        "type": "object",
        "description": "A workload of Kubernetes, whose pods the call is about.",
        "required": ["kind"],
        "properties": {
            "apiVersion": {"type": "string", "enum": versions},
            "kind": {"type": "string", "enum": WorkloadKind::ALL.map(WorkloadKind::name)},
            "metadata": {"type": "object", "description": "Metadata, with a name."},
            "spec": {"type": "object", "description": "Specification, with a template of the pods."},
        },
    })
}

/// Adds what an answer tells of its body besides the response.
fn add_told(response: &mut Value, of_pods: bool) {
    let texts = |description: &str| json!({"type": "array", "items": {"type": "string"}, "description": description});
    let pods = "Names of the pods, in the order of the request; only for several pods, and for those of workloads.";
    let notes = "Remarks on the body, a sentence each.";
    if let Some(properties) = response.get_mut("properties").and_then(Value::as_object_mut) {
        if of_pods {
            properties.insert("pods".to_owned(), texts(pods));
        }
        properties.insert("notes".to_owned(), texts(notes));
    }
}

fn error_schema() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    json!({
        "type": "object",
        "required": ["error"],
        "properties": {"error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": text("Name of a `google.rpc.Code`, such as `INVALID_ARGUMENT`."),
                "message": text("The error in words."),
                "field": text("Path of the bad field, or name of the bad query parameter."),
                "reason": text("Reason of `google.rpc.ErrorInfo`, such as `ROLE_MISSING`."),
                "metadata": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                    "description": "Metadata of `google.rpc.ErrorInfo`.",
                },
            },
        }},
    })
}

/// Adds the schema with this name, and every schema that it refers to.
fn collect(name: &str, schemas: &mut BTreeMap<String, Value>) {
    if schemas.contains_key(name) {
        return;
    }
    let schema = openapi::schema(name).and_then(|text| serde_json::from_str(text).ok());
    let schema: Value = schema.unwrap_or_default();
    let mut names = Vec::new();
    references(&schema, &mut names);
    schemas.insert(name.to_owned(), schema);
    names.iter().for_each(|name| collect(name, schemas));
}

fn references(schema: &Value, names: &mut Vec<String>) {
    names.extend(parameters::referred(schema).map(str::to_owned));
    match schema {
        Value::Object(members) => members.values().for_each(|member| references(member, names)),
        Value::Array(elements) => elements.iter().for_each(|element| references(element, names)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_to_a_schema() {
        let document = document();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let mut names = Vec::new();
        references(&document, &mut names);
        assert!(names.len() > 500, "{}", names.len());
        for name in &names {
            assert!(schemas.get(name).is_some_and(Value::is_object), "{name}");
        }
        // No schema is there for nothing.
        for name in schemas.keys() {
            assert!(names.contains(name), "{name}");
        }
        let pod = &schemas["io.k8s.api.core.v1.PodSpec"];
        assert_eq!(pod["properties"]["priority"]["type"], "integer");
        assert!(
            pod["properties"]["priority"]["description"].as_str().unwrap().contains("API server")
        );
        // A volume's source is not a level of its own in JSON.
        let volume = &schemas["io.k8s.api.core.v1.Volume"]["properties"];
        assert!(volume["emptyDir"].is_object() && volume["volumeSource"].is_null(), "{volume}");
    }

    #[test]
    fn every_route_is_a_path_with_its_own_id() {
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.len(), route::all().count());
        let ids: std::collections::BTreeSet<&str> =
            paths.values().map(|path| path["post"]["operationId"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), paths.len());
        let place = &paths["/v1/place"]["post"];
        assert_eq!(
            place["summary"],
            "Decides for one pod, and reserves its resources if the mode is PLACE_MODE_ASSUME."
        );
        assert!(
            place["description"]
                .as_str()
                .unwrap()
                .ends_with("Role: `reader`; `scheduler` to `ASSUME` in the live cluster.")
        );
        let names: Vec<&str> = place["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        for name in ["timeout", "pretty", "mode", "tieBreak.rule", "tieBreak.seed", "sessionId"] {
            assert!(names.contains(&name), "{name}");
        }
    }
}
