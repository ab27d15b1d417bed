//! Accounts of devices: which request falls short, by which selector or constraint, and who holds the devices.

use berth_engine::{Cluster, Compared, Delta, Policy};
use berth_proto::{core_v1, resource_v1};
use serde_json::{Value, json};

use super::explain;

/// Enters an object of a type.
macro_rules! upsert {
    ($cluster:expr, $kind:ident, $value:expr $(,)?) => {{
        let object: resource_v1::$kind = serde_json::from_value($value).unwrap();
        let object = $cluster.compile_object(&object).unwrap();
        assert_eq!($cluster.apply(vec![Delta::UpsertObject(object)]).rejected, []);
    }};
}

/// A node with devices `d0` and so on, each with its model and its numa node.
fn cluster(devices: &[(&str, i64)]) -> Cluster {
    let cluster = Cluster::new();
    let node: core_v1::Node = serde_json::from_value(json!({"metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "8", "pods": "9"}}}))
    .unwrap();
    let node = cluster.compile_node(&node).unwrap();
    assert_eq!(cluster.apply(vec![Delta::UpsertNode(node)]).rejected, []);
    upsert!(
        cluster,
        DeviceClass,
        json!({"metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'acme.io'"}}]}}),
    );
    let device = |(i, (model, numa)): (usize, &(&str, i64))| {
        json!({"name": format!("d{i}"), "attributes": {
            "model": {"string": model}, "numa": {"int": numa}}})
    };
    let devices: Vec<Value> = devices.iter().enumerate().map(device).collect();
    upsert!(
        cluster,
        ResourceSlice,
        json!({"metadata": {"name": "s"},
        "spec": {"driver": "acme.io", "nodeName": "n", "devices": devices,
            "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}}}),
    );
    cluster
}

fn upsert_claim(cluster: &Cluster, name: &str, spec: &Value, held: &[&str]) {
    let results: Vec<Value> = held
        .iter()
        .map(|device| json!({"request": "r", "driver": "acme.io", "pool": "n", "device": device}))
        .collect();
    let status = match held {
        [] => json!({}),
        _ => json!({"allocation": {"devices": {"results": results}}}),
    };
    upsert!(
        cluster,
        ResourceClaim,
        json!({
        "metadata": {"namespace": "default", "name": name, "uid": name},
        "spec": {"devices": spec}, "status": status}),
    );
}

fn one(count: i64) -> Value {
    let model = "device.attributes['acme.io'].model == 'big'";
    json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count,
        "selectors": [{"cel": {"expression": model}}]})
}

/// The comparisons of DynamicResources for a pod with the claim `mine` on the node, each with whether it is met.
fn compared(cluster: &Cluster) -> Vec<(bool, String)> {
    let pod: core_v1::Pod = serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": "p", "uid": "p"},
        "spec": {"containers": [], "resourceClaims": [{"name": "c", "resourceClaimName": "mine"}]}})).unwrap();
    let explanation = explain(cluster, &pod, &Policy::default()).unwrap();
    let checks = explanation.accounts[0].checks.iter();
    let of_plugin = checks.filter(|check| check.plugin.name() == "DynamicResources");
    of_plugin.map(|check| (check.is_met, check.text())).collect()
}

#[test]
fn the_selector_and_the_holder_are_named() {
    let cluster = cluster(&[("big", 0), ("big", 0), ("small", 1), ("big", 1)]);
    upsert_claim(
        &cluster,
        "other",
        &json!({"requests": [{"name": "r", "exactly": one(1)}]}),
        &["d1"],
    );
    upsert_claim(&cluster, "mine", &json!({"requests": [{"name": "r", "exactly": one(3)}]}), &[]);
    let text = "devices claim mine, request r: 3 of class gpu: 4 of the class, 3 selected by \
                `device.attributes['acme.io'].model == 'big'`, 2 free; d1 is held by default/other";
    assert_eq!(compared(&cluster), [(false, text.to_owned())]);
    upsert_claim(&cluster, "mine", &json!({"requests": [{"name": "r", "exactly": one(2)}]}), &[]);
    assert_eq!(compared(&cluster), [(true, text.replace("3 of class", "2 of class"))]);
}

#[test]
fn a_constraint_says_how_many_go_together() {
    let cluster = cluster(&[("big", 0), ("big", 0), ("small", 1), ("big", 1)]);
    let requests = json!([{"name": "r", "exactly": one(3)}]);
    let of_constraint = |constraint: Value| {
        let spec = json!({"requests": requests, "constraints": [constraint]});
        upsert_claim(&cluster, "mine", &spec, &[]);
        let compared = compared(&cluster);
        assert!(compared[0].0, "there are three devices: {compared:?}");
        compared[1].clone()
    };
    let text =
        "constraint claim mine: matchAttribute acme.io/numa of 3 devices: at most 2 go together";
    assert_eq!(of_constraint(json!({"matchAttribute": "acme.io/numa"})), (false, text.to_owned()));
    let (is_met, _) = of_constraint(json!({"matchAttribute": "acme.io/model"}));
    assert!(is_met);
}

/// Each alternative has a comparison of its own, and one of them is enough.
#[test]
fn one_alternative_is_enough() {
    let cluster = cluster(&[("big", 0), ("small", 0)]);
    let any = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2});
    let alternative = |name: &str, of: &Value| {
        let mut alternative = of.clone();
        alternative["name"] = json!(name);
        alternative
    };
    let request = |last: Value| json!({"requests": [{"name": "r", "firstAvailable": [alternative("a", &one(2)), last]}]});
    upsert_claim(&cluster, "mine", &request(alternative("b", &any)), &[]);
    let met: Vec<bool> = compared(&cluster).into_iter().map(|(is_met, _)| is_met).collect();
    assert_eq!(met, [true, true]);
    upsert_claim(&cluster, "mine", &request(alternative("b", &one(3))), &[]);
    let unmet = compared(&cluster);
    assert!(unmet.iter().all(|(is_met, _)| !is_met), "{unmet:?}");
    assert!(
        unmet[1].1.starts_with("devices claim mine, request r/b: 3 of class gpu: "),
        "{unmet:?}"
    );
}

/// Two requests that fit one by one compete for one device.
#[test]
fn requests_that_fit_alone_may_not_fit_together() {
    let cluster = cluster(&[("big", 0)]);
    let requests = json!([{"name": "a", "exactly": one(1)}, {"name": "b", "exactly": one(1)}]);
    upsert_claim(&cluster, "mine", &json!({"requests": requests}), &[]);
    let compared = compared(&cluster);
    let met: Vec<bool> = compared.iter().map(|(is_met, _)| *is_met).collect();
    assert_eq!(met, [true, true, false]);
    assert_eq!(compared[2].1, "devices for all requests together: no choice satisfies all of them");
}

/// A claim that is allocated for another node says which nodes it needs.
#[test]
fn an_allocated_claim_says_where_it_is_usable() {
    let cluster = cluster(&[("big", 0)]);
    upsert!(
        cluster,
        ResourceClaim,
        json!({
        "metadata": {"namespace": "default", "name": "mine", "uid": "mine"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": one(1)}]}},
        "status": {"allocation": {
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["m"]}]}]},
            "devices": {"results": [
                {"request": "r", "driver": "acme.io", "pool": "m", "device": "d0"}]}}}}),
    );
    let text = "device claim mine is allocated: usable on metadata.name=m";
    assert_eq!(compared(&cluster), [(false, text.to_owned())]);
    let pod: core_v1::Pod = serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": "p", "uid": "p"},
        "spec": {"containers": [], "resourceClaims": [{"name": "c", "resourceClaimName": "mine"}]}})).unwrap();
    let explanation = explain(&cluster, &pod, &Policy::default()).unwrap();
    let shortfalls = &explanation.accounts[0].shortfalls;
    assert!(matches!(shortfalls[0].compared, Compared::AllocatedClaim { .. }), "{shortfalls:?}");
}
