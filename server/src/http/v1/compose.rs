//! Composes the request of a call from the bare objects of a body.

use serde_json::Value;

use super::expanded::{self, Made, Scene};
use super::failure::Failure;
use super::objects::{ADMIT, refused_text, request_of, takes_workloads};
use super::parameters::Parameters;
use super::route::Route;
use super::told::Told;
use crate::feed::file::Dump;
use crate::service::Fork;

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

/// Makes the request of a call from the objects of a body.
///
/// # Errors
/// An object that could not be read, or that the call has no use for; two objects where the call takes one; the errors of
/// [`expanded::make`]; a bad parameter.
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
    if takes_workloads(route) {
        let Made { route, mut request, told, fork } =
            expanded::make(route, dump, parameters, scene)?;
        request.entry(ADMIT).or_insert(Value::Bool(true));
        return Ok(Composed { route, request: Value::Object(request), told, fork });
    }
    let request = request_of(route, &dump, parameters)?;
    let told = Told::of_notes(dump.warnings.lines().collect());
    Ok(Composed { route, request: Value::Object(request), told, fork: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    use super::super::objects::ADMIT;
    use super::super::route::{DRAIN, PLACE, PLACE_BATCH, find};
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
