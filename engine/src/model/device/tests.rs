//! Tests of compiling: what is kept of objects that no API server would store, and what is refused.

use berth_proto::resource_v1;
use serde_json::{Value, json};

use super::claim::ResourceClaim;
use super::class::DeviceClass;
use super::constraint::ConstraintRule;
use super::published::AttributeValue;
use super::request::AllocationMode;
use super::slice::ResourceSlice;
use super::template::ResourceClaimTemplate;
use super::toleration::{DeviceTaintEffect, TolerationOperator};
use crate::model::object::Compile;
use crate::model::{Model, ModelError, ObjectKey, ObjectKind};

fn compile<T: Compile>(kind: ObjectKind, object: &T, json: &Value) -> Result<T::Facts, ModelError> {
    let metadata = serde_json::from_value(json["metadata"].clone()).unwrap();
    object.compile(&metadata, &ObjectKey::new(kind, "shop", "x"), &Model::new())
}

fn claim(json: &Value) -> Result<ResourceClaim, ModelError> {
    let claim: resource_v1::ResourceClaim = serde_json::from_value(json.clone()).unwrap();
    compile(ObjectKind::ResourceClaim, &claim, json)
}

fn slice(spec: &Value) -> Result<ResourceSlice, ModelError> {
    let json = json!({"metadata": {}, "spec": spec});
    let slice: resource_v1::ResourceSlice = serde_json::from_value(json.clone()).unwrap();
    compile(ObjectKind::ResourceSlice, &slice, &json)
}

fn class(json: &Value) -> Result<DeviceClass, ModelError> {
    let class: resource_v1::DeviceClass = serde_json::from_value(json.clone()).unwrap();
    compile(ObjectKind::DeviceClass, &class, json)
}

fn template(json: &Value) -> Result<ResourceClaimTemplate, ModelError> {
    let template: resource_v1::ResourceClaimTemplate =
        serde_json::from_value(json.clone()).unwrap();
    compile(ObjectKind::ResourceClaimTemplate, &template, json)
}

/// Every object of the recorded cases compiles, also those that no API server would store.
#[test]
fn every_recorded_object_compiles() {
    let Some(folder) = berth_testing::recorded::find("conformance-dra") else { return };
    for suite in ["basic", "binding", "extended", "odd", "partitionable", "selectors"] {
        let path = folder.join(format!("dra-{suite}.jsonl.gz"));
        for line in berth_testing::recorded::text(&path).unwrap().lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let cluster = &case["cluster"];
            let of = |list: &str| cluster[list].as_array().cloned().unwrap_or_default();
            of("deviceClasses").into_iter().for_each(|json| drop(class(&json).unwrap()));
            of("resourceClaims").into_iter().for_each(|json| drop(claim(&json).unwrap()));
            of("resourceSlices").into_iter().for_each(|json| drop(slice(&json["spec"]).unwrap()));
        }
    }
}

#[test]
fn odd_claims_keep_what_is_odd() {
    let odd = claim(&json!({"metadata": {}, "spec": {"devices": {
        "requests": [
            {"name": "a", "exactly": {"allocationMode": "Some", "count": -1, "selectors": [{}, {"cel": {}}],
                "tolerations": [{"operator": "Like"}, {}, {"operator": "Exists"}]}},
            {"name": "b"},
            {"exactly": {"allocationMode": "All"}, "firstAvailable": [{"name": "s", "allocationMode": "ExactCount"}]}],
        "constraints": [{}, {"matchAttribute": "m", "distinctAttribute": "d"}, {"distinctAttribute": ""}]}}}));
    let odd = odd.unwrap();
    let [a, b, c] = odd.shape.requests() else { panic!("{:?}", odd.shape) };
    let exactly = a.exactly.as_ref().unwrap();
    assert_eq!(exactly.mode, AllocationMode::Unknown("Some".into()));
    assert_eq!((exactly.count, &*exactly.class), (-1, ""));
    // The empty expression does not compile, which counts only once a device is looked at.
    let compiles =
        exactly.selectors.iter().map(|selector| selector.0.as_ref().map(|s| s.program.is_ok()));
    assert_eq!(compiles.collect::<Vec<_>>(), [None, Some(false)]);
    let operators = exactly.tolerations.iter().map(|toleration| toleration.operator.clone());
    let expected =
        [TolerationOperator::Unknown, TolerationOperator::Equal, TolerationOperator::Exists];
    assert_eq!(operators.collect::<Vec<_>>(), expected);
    assert!(b.exactly.is_none() && b.first_available.is_empty());
    assert_eq!(c.exactly.as_ref().unwrap().mode, AllocationMode::All);
    assert_eq!(c.first_available[0].demand.mode, AllocationMode::ExactCount);
    let rules: Vec<_> =
        odd.shape.constraints().iter().map(|constraint| constraint.rule.clone()).collect();
    let match_m = ConstraintRule::Match("m".into());
    assert_eq!(rules, [ConstraintRule::Unknown, match_m, ConstraintRule::Distinct("".into())]);
    assert!(claim(&json!({"metadata": {}})).unwrap().shape.requests().is_empty());
    assert!(class(&json!({"metadata": {}})).unwrap().selectors.is_empty());
    assert!(template(&json!({"metadata": {}})).is_ok());
}

/// S-DRA-12
#[test]
fn a_claim_belongs_to_its_controller_by_uid() {
    let owned = claim(&json!({"metadata": {"ownerReferences": [
        {"uid": "1", "kind": "Pod"}, {"uid": "2", "kind": "Job", "controller": true}]}}));
    let owned = owned.unwrap();
    assert!(owned.is_owned_by("2") && !owned.is_owned_by("1") && !owned.is_owned_by(""));
}

#[test]
fn a_claim_is_kept_as_it_was_fed() {
    let json = json!({"metadata": {"uid": "7", "finalizers": ["f"], "resourceVersion": "12"},
        "spec": {"devices": {"config": [{"requests": ["r"], "opaque": {"driver": "d", "parameters": {"b": 1, "a": []}}}]}},
        "status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
            "devices": [{"driver": "d", "pool": "p", "device": "0", "conditions": [
                {"type": "Ready", "status": "True", "reason": "R", "message": "m"}, {"type": "Bad", "status": "Unknown"}]}],
            "allocation": {"allocationTimestamp": "1970-01-01T00:00:09Z",
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "Is"}]}]}}}});
    let claim = claim(&json).unwrap();
    let written = serde_json::to_value(&*claim.object).unwrap();
    assert_eq!(written["metadata"]["finalizers"], json!(["f"]));
    let config =
        json!({"requests": ["r"], "opaque": {"driver": "d", "parameters": {"b": 1, "a": []}}});
    assert_eq!(written["spec"]["devices"]["config"][0], config);
    assert_eq!(*claim.reserved_for, ["u".into()]);
    let conditions: Vec<_> =
        claim.devices[0].conditions.iter().map(|c| (&*c.name, c.is_true)).collect();
    assert_eq!(conditions, [("Ready", true), ("Bad", false)]);
    let allocation = claim.allocation.unwrap();
    assert_eq!(allocation.allocated_at, Some(9));
    let invalid = allocation.node_selector.unwrap().invalid.clone().unwrap();
    assert!(invalid.contains("nodeSelectorTerms[0].matchFields[0].operator"), "{invalid}");
}

#[test]
fn a_slice_keeps_devices_in_order_with_their_attributes() {
    let slice = slice(
        &json!({"driver": "d", "pool": {"name": "p", "generation": 3, "resourceSliceCount": 2},
        "nodeName": "", "perDeviceNodeSelection": true, "devices": [
            {"name": "z", "nodeName": "n1", "bindsToNode": true, "allowMultipleAllocations": true,
                "attributes": {"v": {"version": "1.x"}, "i": {"int": 0}, "b": {"bool": false}, "s": {"string": ""}, "n": {}},
                "capacity": {"memory": {"value": "1Gi", "requestPolicy": {"default": "1", "validValues": ["1", "2"],
                    "validRange": {"min": "-1", "step": "500m"}}}},
                "taints": [{"key": "k", "effect": "NoSchedule"}, {"effect": "None"}]},
            {"name": "a", "consumesCounters": [{"counterSet": "c", "counters": {"n": {"value": "2"}}}]}]}),
    );
    let slice = slice.unwrap();
    assert_eq!((slice.key.generation, slice.slice_count, slice.is_per_device), (3, 2, true));
    assert_eq!(slice.nodes.node, None, "an empty name is none");
    let names: Vec<&str> = slice.devices.iter().map(|device| &*device.name).collect();
    assert_eq!(names, ["z", "a"]);
    let z = &slice.devices[0];
    assert!(z.binds_to_node && z.is_shareable && z.nodes.node.is_some());
    let values: Vec<_> =
        z.attributes.iter().map(|(name, value)| (&**name, value.clone())).collect();
    let expected = [
        ("b", AttributeValue::Bool(false)),
        ("i", AttributeValue::Int(0)),
        ("n", AttributeValue::Unknown),
        ("s", AttributeValue::String("".into())),
        ("v", AttributeValue::Version("1.x".into())),
    ];
    assert_eq!(values, expected);
    let policy = z.capacities[0].1.policy.as_ref().unwrap();
    assert_eq!(policy.valid_values.len(), 2);
    let range = policy.valid_range.as_ref().unwrap();
    assert!(range.min.as_ref().unwrap().value.is_negative() && range.max.is_none());
    let effects: Vec<_> = z.taints.iter().map(|taint| taint.effect.clone()).collect();
    assert_eq!(effects, [DeviceTaintEffect::NoSchedule, DeviceTaintEffect::Other("None".into())]);
    assert_eq!(slice.devices[1].consumes[0].counters[0].1.notation.as_str(), "2");
}

#[test]
fn a_quantity_that_does_not_parse_is_refused_with_its_field() {
    let refused = |spec: Value| slice(&spec).unwrap_err().field;
    let device = |device: Value| refused(json!({"devices": [{}, device]}));
    assert_eq!(
        device(json!({"capacity": {"memory": {"value": "much"}}})),
        "spec.devices[1].capacity[memory].value"
    );
    let policy =
        |policy: Value| json!({"capacity": {"m": {"value": "1", "requestPolicy": policy}}});
    for (part, field) in [
        (json!({"default": "x"}), "default"),
        (json!({"validValues": ["1", "x"]}), "validValues[1]"),
        (json!({"validRange": {"max": "x"}}), "validRange.max"),
    ] {
        let expected = format!("spec.devices[1].capacity[m].requestPolicy.{field}");
        assert_eq!(device(policy(part)), expected);
    }
    assert_eq!(
        device(json!({"consumesCounters": [{"counters": {"n": {"value": "x"}}}]})),
        "spec.devices[1].consumesCounters[0].counters[n].value"
    );
    assert_eq!(
        refused(json!({"sharedCounters": [{"counters": {"n": {"value": "x"}}}]})),
        "spec.sharedCounters[0].counters[n].value"
    );
    let devices = json!({"requests": [
        {}, {"firstAvailable": [{"capacity": {"requests": {"memory": "x"}}}]}]});
    let field = "devices.requests[1].firstAvailable[0].capacity.requests[memory]";
    let error = claim(&json!({"metadata": {}, "spec": {"devices": devices}})).unwrap_err();
    assert_eq!(error.field, format!("spec.{field}"));
    let error =
        template(&json!({"metadata": {}, "spec": {"spec": {"devices": devices}}})).unwrap_err();
    assert_eq!(error.field, format!("spec.spec.{field}"));
    let status =
        json!({"allocation": {"devices": {"results": [{"consumedCapacity": {"m": "x"}}]}}});
    let error = claim(&json!({"metadata": {}, "status": status})).unwrap_err();
    assert_eq!(error.field, "status.allocation.devices.results[0].consumedCapacity[m]");
    let no_spec = resource_v1::ResourceSlice::default();
    let error = compile(ObjectKind::ResourceSlice, &no_spec, &json!({"metadata": {}}));
    assert_eq!(error.unwrap_err().field, "spec");
}
