//! Bodies that are bare objects of Kubernetes: which field of a request takes which kind. The schema of the request
//! says so: a field whose type is the kind takes one object of it, a list takes any number.

use berth_engine::ObjectKind;
use berth_proto::core_v1::Node;
use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::parameters::{Parameters, properties, referred};
use super::route::{DRAIN, PLACE, Route, SCALE_UP};
use crate::feed::file::Dump;

/// Name of the body in the locations of errors.
pub(super) const BODY: &str = "body";
/// Schemas of the kinds that have no list of kinds.
pub(super) const POD: &str = "io.k8s.api.core.v1.Pod";
const NODE: &str = "io.k8s.api.core.v1.Node";
/// Messages that hold a pod, as elements of a list in a request, and their field for it.
const HOLDERS: [(&str, &str); 2] = [("berth.v1.BatchEntry", "pod"), ("berth.v1.FitPod", "pod")];
/// The field of [`DRAIN`] that takes nodes by their names.
const NODE_NAMES: &str = "nodeNames";
/// The field of [`SCALE_UP`] that takes nodes as the templates of groups with their names.
const NODE_GROUPS: &str = "nodeGroups";
/// The field that asks for admission; objects that somebody hands in are admitted unless the caller says otherwise.
pub(super) const ADMIT: &str = "admit";

/// An object of the body.
struct Handed {
    /// Name of the schema of its kind.
    schema: String,
    /// Its kind.
    kind: &'static str,
    value: Value,
}

/// The place of a kind in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A field for one object.
    One(String),
    /// A list of objects.
    Many(String),
    /// A list of messages that hold an object each, in their second-named field.
    Held(String, &'static str),
    /// A list of names.
    Names(String),
    /// A list of node groups, each with a template.
    Groups(String),
}

/// Makes the request of a call that takes no workloads from the objects of a body.
///
/// # Errors
/// An object that the call has no use for, two objects where the call takes one; a bad parameter.
pub(super) fn request_of(
    route: &Route,
    dump: &Dump,
    parameters: &Parameters,
) -> Result<Map<String, Value>, Failure> {
    if let Some(kind) = dump.ignored_kinds.keys().next() {
        return Err(not_taken(route, kind));
    }
    if let Some(workload) = dump.workloads.first() {
        return Err(not_taken(route, workload.value.kind().name()));
    }
    let objects = handed(dump)?;
    if objects.is_empty() {
        return Err(Failure::invalid("the body holds no Kubernetes object"));
    }
    let schema = route.operation.request;
    let fields = properties(schema);
    let mut request = Map::new();
    for object in objects {
        put(&mut request, &fields, route, object)?;
    }
    parameters.set(&mut request, schema)?;
    Ok(request)
}

/// Whether the call takes workloads: those that decide on pods do.
pub(crate) fn takes_workloads(route: &Route) -> bool {
    let fields = properties(route.operation.request);
    fields.contains_key(ADMIT) && slots(&fields, route, POD).len() == 1
}

/// Whether the call takes a number of replicas: those that take several pods do.
pub(crate) fn takes_replicas(route: &Route) -> bool {
    let fields = properties(route.operation.request);
    let is_several = |slot: &Slot| matches!(slot, Slot::Held(..));
    takes_workloads(route)
        && (route.path == PLACE || slots(&fields, route, POD).iter().all(is_several))
}

/// The location and the reason of a refused object, without the field that the error names by itself.
pub(super) fn refused_text(text: &str, field: &str) -> String {
    text.replacen(&format!(": `{field}`: "), ": ", 1)
}

pub(super) fn not_taken(route: &Route, kind: &str) -> Failure {
    let taken = kinds(route);
    let taken: Vec<&str> = taken.iter().map(|kind| kind.name).collect();
    let path = &route.path;
    Failure::invalid(match taken.as_slice() {
        [] => format!(
            "`kind`: `{path}` takes no bare object, such as this `{kind}`: send its request as JSON"
        ),
        taken => {
            let workloads = match takes_workloads(route) {
                true => ", and workloads such as a Deployment",
                false => "",
            };
            let taken = taken.join(", ");
            format!("`kind`: `{path}` takes no `{kind}`; it takes {taken}{workloads}")
        }
    })
}

/// A kind of object that a body may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectSchema {
    /// The kind.
    pub(crate) name: &'static str,
    /// Name of its schema.
    pub(crate) schema: String,
}

/// The kinds that a call takes as bare objects.
pub(crate) fn kinds(route: &Route) -> Vec<ObjectSchema> {
    let fields = properties(route.operation.request);
    known_kinds().filter(|kind| slots(&fields, route, &kind.schema).len() == 1).collect()
}

/// All kinds that a body may have.
fn known_kinds() -> impl Iterator<Item = ObjectSchema> {
    let own = [("Pod", POD.to_owned()), ("Node", NODE.to_owned())];
    let others = ObjectKind::ALL
        .into_iter()
        .map(|kind| (kind.name(), schema_of(kind.name(), kind.api_version())));
    own.into_iter().chain(others).map(|(name, schema)| ObjectSchema { name, schema })
}

/// Name of the schema of a kind, such as `io.k8s.api.policy.v1.PodDisruptionBudget`.
fn schema_of(kind: &str, api_version: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    let group = group.split('.').next().unwrap_or_default();
    format!("io.k8s.api.{group}.{version}.{kind}")
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of `map_err`")]
pub(super) fn unwritable(error: serde_json::Error) -> Failure {
    Failure::invalid(error.to_string())
}

fn handed(dump: &Dump) -> Result<Vec<Handed>, Failure> {
    let mut objects = Vec::new();
    for node in &dump.nodes {
        let value = serde_json::to_value(&node.value).map_err(unwritable)?;
        objects.push(Handed { schema: NODE.to_owned(), kind: "Node", value });
    }
    for pod in &dump.pods {
        let value = serde_json::to_value(&pod.value).map_err(unwritable)?;
        objects.push(Handed { schema: POD.to_owned(), kind: "Pod", value });
    }
    for object in &dump.objects {
        let kind = object.value.as_wire().kind();
        let value = object.value.to_json().map_err(unwritable)?;
        let schema = schema_of(kind.name(), kind.api_version());
        objects.push(Handed { schema, kind: kind.name(), value });
    }
    Ok(objects)
}

/// The places of a request that take objects of a kind. Where there are several, a bare object could mean any.
pub(super) fn slots(fields: &Map<String, Value>, route: &Route, schema: &str) -> Vec<Slot> {
    if route.path == DRAIN && schema == NODE {
        return vec![Slot::Names(NODE_NAMES.to_owned())];
    }
    if route.path == SCALE_UP && schema == NODE {
        return vec![Slot::Groups(NODE_GROUPS.to_owned())];
    }
    let slot = |(name, property): (&String, &Value)| {
        if referred(property) == Some(schema) {
            return Some(Slot::One(name.clone()));
        }
        let element = referred(property.get("items")?)?;
        if element == schema {
            return Some(Slot::Many(name.clone()));
        }
        let holder = HOLDERS.iter().find(|(holder, _)| *holder == element)?;
        (schema == POD).then(|| Slot::Held(name.clone(), holder.1))
    };
    fields.iter().filter_map(slot).collect()
}

/// Puts a node into its place.
///
/// # Errors
/// A call that takes none.
pub(super) fn put_node(
    request: &mut Map<String, Value>,
    route: &Route,
    node: &Node,
) -> Result<(), Failure> {
    let fields = properties(route.operation.request);
    let value = serde_json::to_value(node).map_err(unwritable)?;
    put(request, &fields, route, Handed { schema: NODE.to_owned(), kind: "Node", value })
}

/// Puts an object into the place of its kind.
fn put(
    request: &mut Map<String, Value>,
    fields: &Map<String, Value>,
    route: &Route,
    object: Handed,
) -> Result<(), Failure> {
    let Handed { schema, kind, value } = object;
    let slots = slots(fields, route, &schema);
    let [slot] = slots.as_slice() else { return Err(not_taken(route, kind)) };
    let (name, element) = match slot {
        Slot::One(name) => {
            return match request.insert(name.clone(), value) {
                None => Ok(()),
                Some(_) => Err(Failure::invalid(format!(
                    "`kind`: `{}` takes one `{kind}`, and the body holds several",
                    route.path
                ))),
            };
        }
        Slot::Many(name) => (name, value),
        Slot::Held(name, field) => (name, json!({*field: value})),
        Slot::Names(name) => (name, value["metadata"]["name"].clone()),
        Slot::Groups(name) => {
            let id = value["metadata"]["name"].clone();
            (name, json!({"id": id, "template": value}))
        }
    };
    let list = request.entry(name.clone()).or_insert_with(|| Value::Array(Vec::new()));
    if let Some(list) = list.as_array_mut() {
        list.push(element);
    }
    Ok(())
}
