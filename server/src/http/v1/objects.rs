//! Bodies that are bare objects of Kubernetes: which field of a request takes which kind. The schema of the request
//! says so: a field whose type is the kind takes one object of it, a list takes any number.

use berth_engine::ObjectKind;
use serde_json::{Map, Value, json};

use super::expanded::{self, Made, Scene, Told};
use super::failure::Failure;
use super::parameters::{Parameters, properties, referred};
use super::route::{DRAIN, Route};
use crate::feed::file::Dump;
use crate::service::Fork;

/// Schemas of the kinds that have no list of kinds.
pub(super) const POD: &str = "io.k8s.api.core.v1.Pod";
const NODE: &str = "io.k8s.api.core.v1.Node";
/// Messages that hold a pod, as elements of a list in a request, and their field for it.
const HOLDERS: [(&str, &str); 2] = [("berth.v1.BatchEntry", "pod"), ("berth.v1.FitPod", "pod")];
/// The field of [`DRAIN`] that takes nodes by their names.
const NODE_NAMES: &str = "nodeNames";
/// The field that asks for admission; objects that somebody hands in are admitted unless the caller says otherwise.
pub(super) const ADMIT: &str = "admit";

/// A request made of objects, for a call that is not always the requested one.
pub(super) struct Composed {
    /// The call: several pods for [`PLACE`] are a batch.
    pub(super) route: &'static Route,
    /// The JSON form of its request.
    pub(super) request: Value,
    /// What the answer tells of the body.
    pub(super) told: Told,
    /// The fork with what the request supposes, if it supposes anything.
    pub(super) fork: Option<Fork>,
}

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
}

/// Makes the request of a call from the objects of a body.
///
/// # Errors
/// An object that could not be read, or that the call has no use for; two objects where the call takes one; a bad
/// parameter.
pub(super) fn compose(
    route: &'static Route,
    dump: Dump,
    parameters: &Parameters,
    scene: &Scene<'_>,
) -> Result<Composed, Failure> {
    if let Some(refused) = dump.refused.first().or(dump.misspelt_kinds.listed.first()) {
        let reason = refused_text(&refused.to_string(), &refused.field);
        return Err(Failure::field(&refused.field, reason));
    }
    if expanded::takes_workloads(route) {
        let Made { route, mut request, told, fork } =
            expanded::make(route, dump, parameters, scene)?;
        request.entry(ADMIT).or_insert(Value::Bool(true));
        return Ok(Composed { route, request: Value::Object(request), told, fork });
    }
    if let Some(kind) = dump.ignored_kinds.keys().next() {
        return Err(not_taken(route, kind));
    }
    if let Some(workload) = dump.workloads.first() {
        return Err(not_taken(route, workload.value.kind().name()));
    }
    let objects = handed(&dump)?;
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
    let told = Told::of_notes(dump.warnings.lines().collect());
    Ok(Composed { route, request: Value::Object(request), told, fork: None })
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
            let workloads = match expanded::takes_workloads(route) {
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
    };
    let list = request.entry(name.clone()).or_insert_with(|| Value::Array(Vec::new()));
    if let Some(list) = list.as_array_mut() {
        list.push(element);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use super::super::route::{PLACE, PLACE_BATCH, find};
    use crate::feed::file;
    use crate::service::Target;

    fn request(path: &str, query: &str, body: &str) -> Result<(String, Value), String> {
        let base = &|_: &str| Ok(Target::Live(Arc::default()));
        let empty = Scene { base, max_pods: 1_000, max_bytes: 1 << 20 };
        let text = |failure: Failure| failure.to_status().message().to_owned();
        let dump = file::parse(&"body".into(), body, file::UnknownFields::Refuse).unwrap();
        let parameters = Parameters::of(query).map_err(text)?;
        let composed = compose(find(path).unwrap(), dump, &parameters, &empty).map_err(text)?;
        let mut request = composed.request;
        // Admission has its own tests.
        request.as_object_mut().unwrap().remove(ADMIT);
        Ok((composed.route.path.clone(), request))
    }

    const PODS: &str = "\
        {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}}\n---\n\
        {apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {containers: [{name: c}]}}\n";
    const NODE_OBJECT: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n";

    fn pods() -> String {
        format!("# two pods\n{PODS}")
    }

    fn pod() -> String {
        pods().split("---").next().unwrap().to_owned()
    }

    fn as_json(name: &str) -> Value {
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c"}]}})
    }

    #[test]
    fn a_pod_takes_its_place_in_each_request() {
        for path in [PLACE, "/v1/explain", "/v1/preempt", "/v1/list-candidates", "/v1/headroom"] {
            let expected = (path.to_owned(), json!({"pod": as_json("a")}));
            assert_eq!(request(path, "", &pod()).unwrap(), expected);
        }
        let (path, composed) = request(PLACE, "mode=dry-run", &pods()).unwrap();
        assert_eq!(path, PLACE_BATCH);
        let entries = json!([{"pod": as_json("a")}, {"pod": as_json("b")}]);
        assert_eq!(composed, json!({"entries": entries, "mode": "PLACE_MODE_DRY_RUN"}));
        let (_, composed) = request("/v1/fit", "", &pods()).unwrap();
        assert_eq!(composed["pods"], entries);
        let (_, composed) = request("/v1/lifecycle/qos-class", "", &pod()).unwrap();
        assert_eq!(composed, json!({"pod": as_json("a")}));
    }

    #[test]
    fn other_kinds_take_theirs() {
        let (_, composed) = request(DRAIN, "mode=together", NODE_OBJECT).unwrap();
        assert_eq!(composed, json!({"nodeNames": ["n"], "mode": "DRAIN_MODE_TOGETHER"}));
        let body = format!("{}---\n{NODE_OBJECT}", pod());
        let query = "now=2026-01-01T00:00:00Z";
        let (_, composed) = request("/v1/lifecycle/ExplainPod", query, &body).unwrap();
        assert_eq!(composed["node"]["metadata"]["name"], "n");
        assert_eq!(composed["now"], "2026-01-01T00:00:00Z");
        let body = format!(
            "{}---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: b}}\n",
            pods()
        );
        let (_, composed) = request("/v1/lifecycle/pdb-status", "", &body).unwrap();
        assert_eq!(composed["pdb"]["metadata"]["name"], "b");
        assert_eq!(composed["pods"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn what_a_call_has_no_use_for_is_refused() {
        let error = |path: &str, body: &str| request(path, "", body).unwrap_err();
        assert_eq!(
            error(PLACE, NODE_OBJECT),
            "`kind`: `/v1/place` takes no `Node`; it takes Pod, and workloads such as a Deployment"
        );
        assert_eq!(
            error("/v1/explain", &pods()),
            "`kind`: `/v1/explain` takes one `Pod`, and the body holds several"
        );
        assert!(error("/v1/sessions/open", &pod()).contains("takes no bare object"));
        assert!(error(PLACE, "apiVersion: v1\nkind: Secret\n").contains("takes no `Secret`"));
        let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\n";
        assert_eq!(error(PLACE, job), "`spec`: body:1 (document 0): Job `j`: must be set");
        assert!(error("/v1/lifecycle/qos-class", job).contains("takes no `Job`"));
        assert!(error(DRAIN, job).contains("takes no `Job`; it takes Node"));
        let list = "apiVersion: v1\nkind: List\nitems: []\n";
        assert_eq!(error(PLACE, list), "the body holds no Kubernetes object");
        let bad = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {priority: high}\n";
        let text = error(PLACE, bad);
        assert!(text.starts_with("`spec.priority`: body:4 (document 0): Pod `a`: "), "{text}");
    }
}
