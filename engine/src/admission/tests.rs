//! Whole pods: the plugins together, in their order.

use berth_proto::core_v1::{PersistentVolumeClaim, Pod};
use berth_proto::{core_v1, node_v1, scheduling_v1, storage_v1};

use super::*;
use crate::cluster::Cluster;
use crate::cluster::delta::Delta;
use crate::model::{ObjectKey, ObjectKind, WireObject};

macro_rules! read {
    ($type:ty, $json:expr) => {
        serde_json::from_str::<$type>($json).unwrap()
    };
}

fn feed<'a>(cluster: &Cluster, object: impl Into<WireObject<'a>>) {
    let object = cluster.compile_object(object).unwrap();
    assert!(cluster.apply(vec![Delta::UpsertObject(object)]).rejected.is_empty());
}

/// A cluster with classes `high` (9), `base` (5, the default, Never), runtime class `boxed`, and storage classes.
fn cluster() -> Cluster {
    let cluster = Cluster::new();
    for class in [
        r#"{"metadata": {"name": "high"}, "value": 9}"#,
        r#"{"metadata": {"name": "base"}, "value": 5, "globalDefault": true, "preemptionPolicy": "Never"}"#,
    ] {
        feed(&cluster, &read!(scheduling_v1::PriorityClass, class));
    }
    let boxed = r#"{"metadata": {"name": "boxed"}, "handler": "b", "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"sandbox": "yes"}, "tolerations": [
            {"key": "sandbox", "operator": "Exists"}, {"key": "a", "operator": "Equal", "value": "b"}]}}"#;
    feed(&cluster, &read!(node_v1::RuntimeClass, boxed));
    feed(
        &cluster,
        &read!(node_v1::RuntimeClass, r#"{"metadata": {"name": "plain"}, "handler": "p"}"#),
    );
    for (name, created) in [("old", "2020"), ("b-new", "2024"), ("a-new", "2024")] {
        let json = format!(
            r#"{{"metadata": {{"name": "{name}", "creationTimestamp": "{created}-01-01T00:00:00Z",
                 "annotations": {{"storageclass.kubernetes.io/is-default-class": "true"}}}}, "provisioner": "p"}}"#
        );
        feed(&cluster, &read!(storage_v1::StorageClass, &json));
    }
    cluster
}

fn admit(cluster: &Cluster, json: &str) -> Result<(Pod, Admitted), AdmissionError> {
    let mut pod = read!(Pod, json);
    let snapshot = cluster.snapshot();
    let context = AdmissionContext { snapshot: &snapshot, position: 0, n_replicas: 1 };
    let admitted = admit_pod(&mut pod, context)?;
    // A-DEF-2
    let mut again = pod.clone();
    let second = admit_pod(&mut again, context)?;
    assert_eq!((second.filled, &again), (Vec::new(), &pod));
    Ok((pod, admitted))
}

/// The fields that did not come from the API's own defaults: `field = value (source)`.
fn lines(admitted: &Admitted) -> Vec<String> {
    const USUAL: [&str; 3] = ["default", "DefaultTolerationSeconds", "ServiceAccount"];
    let unusual = admitted.filled.iter().filter(|filled| !USUAL.contains(&&*filled.source));
    unusual.map(|it| format!("{} = {} ({})", it.field, it.value, it.source)).collect()
}

fn with(spec: &str) -> String {
    format!(
        r#"{{"metadata": {{"name": "p", "namespace": "shop"}}, "spec": {{"containers": [{{"name": "c"}}]{spec}}}}}"#
    )
}

fn check(spec: &str, expected: &[&str]) {
    let (_, admitted) = admit(&cluster(), &with(spec)).unwrap();
    assert_eq!(lines(&admitted), expected, "{spec}");
    assert_eq!(admitted.warnings, []);
}

fn refusal(cluster: &Cluster, spec: &str) -> AdmissionError {
    admit(cluster, &with(spec)).unwrap_err()
}

/// A-PRIO-1
#[test]
fn priorities_follow_from_the_class() {
    check(
        "",
        &[
            "spec.priority = 5 (PriorityClass base)",
            "spec.preemptionPolicy = Never (PriorityClass base)",
            "spec.priorityClassName = base (PriorityClass base)",
        ],
    );
    check(
        r#", "priorityClassName": "high", "priority": 9"#,
        &["spec.preemptionPolicy = PreemptLowerPriority (PriorityClass high)"],
    );
    let (pod, _) = admit(&Cluster::new(), &with("")).unwrap();
    let spec = pod.spec.unwrap();
    assert_eq!((spec.priority, &*spec.priority_class_name), (Some(0), ""));
}

/// A-PRIO-2
#[test]
fn unknown_classes_are_refused_and_the_systems_are_known() {
    let error = refusal(&cluster(), r#", "priorityClassName": "gone""#);
    let reason = "`spec.priorityClassName`: no PriorityClass with name gone was found";
    assert_eq!(error.to_string(), reason);
    assert_eq!(error.missing, Some(ObjectKey::new(ObjectKind::PriorityClass, "", "gone")));
    check(
        r#", "priorityClassName": "system-node-critical""#,
        &[
            "spec.priority = 2000001000 (PriorityClass system-node-critical)",
            "spec.preemptionPolicy = PreemptLowerPriority (PriorityClass system-node-critical)",
        ],
    );
}

/// A-PRIO-3
#[test]
fn values_that_differ_from_the_class_are_refused() {
    let error = refusal(&cluster(), r#", "priorityClassName": "high", "priority": 8"#);
    assert_eq!(error.field, "spec.priority");
    assert_eq!(
        error.reason,
        "the integer value of priority (8) must not be provided in pod spec; priority admission controller computed 9 from the given PriorityClass name"
    );
    let policy = r#", "priorityClassName": "high", "preemptionPolicy": "Never""#;
    let error = refusal(&cluster(), policy);
    assert_eq!((error.field.as_str(), error.missing), ("spec.preemptionPolicy", None));
}

/// A-PRIO-4
#[test]
fn a_priority_without_a_class_is_kept_with_a_warning() {
    let (pod, admitted) = admit(&cluster(), &with(r#", "priority": 77"#)).unwrap();
    let spec = pod.spec.unwrap();
    assert_eq!((spec.priority, &*spec.priority_class_name), (Some(77), ""));
    assert_eq!(spec.preemption_policy.as_deref(), Some("PreemptLowerPriority"));
    let [warning] = &admitted.warnings[..] else { panic!("{admitted:?}") };
    assert!(warning.message.contains("priority (77)"), "{warning:?}");
}

/// A-DEF-4: a nomination stays.
#[test]
fn the_status_stays() {
    let json = with("").replace(r#""spec":"#, r#""status": {"nominatedNodeName": "n"}, "spec":"#);
    let (pod, _) = admit(&cluster(), &json).unwrap();
    assert_eq!(pod.status.unwrap().nominated_node_name, "n");
}

/// A-DEF-3: a stored pod gets no class, and a warning if its class has changed.
#[test]
fn stored_pods_stay() {
    let json = |priority: i32, class: &str| {
        format!(
            r#"{{"metadata": {{"name": "p", "resourceVersion": "7"}}, "spec": {{
                "priority": {priority}, "priorityClassName": "{class}", "runtimeClassName": "gone"}}}}"#
        )
    };
    let (_, admitted) = admit(&cluster(), &json(3, "gone")).unwrap();
    assert_eq!((lines(&admitted), admitted.warnings), (Vec::new(), Vec::new()));
    let (_, admitted) = admit(&cluster(), &json(3, "high")).unwrap();
    assert_eq!(
        admitted.warnings[0].message,
        "the pod was admitted with priority 3 and keeps it; its PriorityClass has 9"
    );
}

const CLASSED: &str =
    r#", "priorityClassName": "high", "priority": 9, "preemptionPolicy": "PreemptLowerPriority""#;

/// A-RTC-1, A-RTC-3, A-RTC-4
#[test]
fn runtime_classes() {
    let spec = format!(
        r#"{CLASSED}, "runtimeClassName": "boxed", "nodeSelector": {{"disk": "ssd"}},
           "tolerations": [{{"key": "sandbox", "operator": "Equal", "value": "x", "effect": "NoSchedule"}}]"#
    );
    check(
        &spec,
        &[
            "spec.overhead[cpu] = 250m (RuntimeClass boxed)",
            "spec.nodeSelector[sandbox] = yes (RuntimeClass boxed)",
            "spec.tolerations[2] = sandbox: (RuntimeClass boxed)",
            "spec.tolerations[3] = a=b: (RuntimeClass boxed)",
        ],
    );
    let error = refusal(&cluster(), r#", "runtimeClassName": "gone""#);
    assert_eq!(
        error.to_string(),
        "`spec.runtimeClassName`: pod rejected: RuntimeClass \"gone\" not found"
    );
    let selector = r#", "runtimeClassName": "boxed", "nodeSelector": {"sandbox": "no"}"#;
    assert_eq!(
        refusal(&cluster(), selector).reason,
        "conflict: runtimeClass.scheduling.nodeSelector[sandbox] = yes; pod.spec.nodeSelector[sandbox] = no"
    );
}

/// A-RTC-2
#[test]
fn overheads_must_be_those_of_the_class() {
    let of = |class: &str, cpu: &str| {
        let name = if class.is_empty() {
            String::new()
        } else {
            format!(r#", "runtimeClassName": "{class}""#)
        };
        let json = with(&format!(r#"{name}, "overhead": {{"cpu": "{cpu}"}}"#));
        admit(&cluster(), &json).map_or_else(|error| error.reason, |_| "ok".to_owned())
    };
    assert_eq!(of("boxed", "0.25"), "ok");
    let mismatch = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
    assert_eq!(of("boxed", "1"), mismatch);
    let without =
        "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
    assert_eq!((of("plain", "1"), of("", "1")), (without.to_owned(), without.to_owned()));
}

fn limited(limits: &str) -> Cluster {
    let cluster = cluster();
    let json = format!(
        r#"{{"metadata": {{"name": "bounds", "namespace": "shop"}}, "spec": {{"limits": {limits}}}}}"#
    );
    feed(&cluster, &read!(core_v1::LimitRange, &json));
    cluster
}

fn resources(list: &str) -> String {
    format!(
        r#"{{"metadata": {{"name": "p", "namespace": "shop"}}, "spec": {{"priorityClassName": "high", "priority": 9,
            "preemptionPolicy": "Never", "containers": [{{"name": "c", "resources": {list}}}]}}}}"#
    )
    .replace(r#""preemptionPolicy": "Never", "#, "")
}

/// A-LIM-2
#[test]
fn limit_ranges_fill_in_what_containers_lack() {
    let cluster = limited(
        r#"[{"type": "Container", "default": {"cpu": "2", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"}}]"#,
    );
    let (pod, admitted) = admit(&cluster, &resources(r#"{"limits": {"memory": "3Gi"}}"#)).unwrap();
    let from_range: Vec<String> =
        lines(&admitted).into_iter().filter(|line| line.contains("LimitRange")).collect();
    let annotation =
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c";
    assert_eq!(
        from_range,
        [
            "spec.containers[0].resources.limits[cpu] = 2 (LimitRange shop/bounds)".to_owned(),
            "spec.containers[0].resources.requests[cpu] = 500m (LimitRange shop/bounds)".to_owned(),
            format!(
                "metadata.annotations[kubernetes.io/limit-ranger] = {annotation} (LimitRange shop/bounds)"
            ),
        ]
    );
    let requests = &pod.spec.unwrap().containers[0].resources.clone().unwrap().requests;
    assert_eq!(requests["memory"].as_str(), "3Gi", "a limit of the pod's own is its request");
}

/// A-LIM-3, A-LIM-4, A-LIM-5
#[test]
fn limit_ranges_bound_containers_and_pods() {
    let of = |limits: &str, list: &str| {
        let admitted = admit(&limited(limits), &resources(list));
        admitted.map_or_else(|error| error.to_string(), |_| "ok".to_owned())
    };
    let at = "spec.containers[0].resources";
    let between = r#"[{"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "4"}}]"#;
    assert_eq!(of(between, "{}"), "ok", "the bounds are the defaults");
    assert_eq!(
        of(between, r#"{"requests": {"cpu": "500m"}}"#),
        format!("`{at}.requests[cpu]`: minimum cpu usage per Container is 1, but request is 500m")
    );
    assert_eq!(
        of(between, r#"{"limits": {"cpu": "5"}}"#),
        format!("`{at}.limits[cpu]`: maximum cpu usage per Container is 4, but limit is 5")
    );
    let of_pods = r#"[{"type": "Pod", "max": {"memory": "1Gi"}}]"#;
    assert_eq!(
        of(of_pods, "{}"),
        "`spec.resources.limits[memory]`: maximum memory usage per Pod is 1Gi. No limit is specified"
    );
    assert_eq!(
        of(of_pods, r#"{"limits": {"memory": "2Gi"}}"#),
        "`spec.resources.limits[memory]`: maximum memory usage per Pod is 1Gi, but limit is 2Gi"
    );
    let ratio = r#"[{"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}]"#;
    assert_eq!(of(ratio, r#"{"limits": {"cpu": "4"}, "requests": {"cpu": "2"}}"#), "ok");
    assert_eq!(
        of(ratio, r#"{"limits": {"cpu": "4"}, "requests": {"cpu": "1"}}"#),
        format!(
            "`{at}.limits[cpu]`: cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000"
        )
    );
    assert_eq!(
        of(ratio, "{}"),
        format!(
            "`{at}.requests[cpu]`: cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"
        )
    );
}

/// A-SC-1, A-LIM-6
#[test]
fn claims() {
    let cluster = limited(
        r#"[{"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "4Gi"}}]"#,
    );
    let admit = |spec: &str| {
        let json =
            format!(r#"{{"metadata": {{"name": "d", "namespace": "shop"}}, "spec": {{{spec}}}}}"#);
        let mut claim = read!(PersistentVolumeClaim, &json);
        let admitted = admit_claim(&mut claim, &cluster.snapshot());
        let class = claim.spec.unwrap().storage_class_name.unwrap_or_default();
        admitted.map_or_else(|error| error.to_string(), |_| class)
    };
    let sized = |size: &str| format!(r#""resources": {{"requests": {{"storage": "{size}"}}}}"#);
    assert_eq!(admit(&sized("1Gi")), "a-new");
    assert_eq!(admit(&format!(r#"{}, "storageClassName": """#, sized("4Gi"))), "");
    assert_eq!(
        admit(&sized("5Gi")),
        "`spec.resources.requests[storage]`: maximum storage usage per PersistentVolumeClaim is 4Gi, but request is 5Gi"
    );
    assert!(admit(&sized("1Mi")).contains("but request is 1Mi"));
}

/// A-QUO-4
#[test]
fn the_pods_of_a_request_charge_quotas_together() {
    let cluster = cluster();
    let json = r#"{"metadata": {"name": "q", "namespace": "shop"},
        "spec": {"hard": {"requests.cpu": "4"}}, "status": {"hard": {"requests.cpu": "4"}, "used": {"requests.cpu": "1"}}}"#;
    feed(&cluster, &read!(core_v1::ResourceQuota, json));
    let snapshot = cluster.snapshot();
    let mut charged = Charged::default();
    let mut warnings = |cpu: &str, n_replicas: u32| -> Vec<String> {
        let mut pod = read!(Pod, &resources(&format!(r#"{{"requests": {{"cpu": "{cpu}"}}}}"#)));
        let context = AdmissionContext { snapshot: &snapshot, position: 0, n_replicas };
        let admitted = admit_next(&mut pod, context, &mut charged).unwrap();
        admitted.warnings.into_iter().map(|warning| warning.message).collect()
    };
    assert_eq!(warnings("1", 1), Vec::<String>::new());
    assert_eq!(
        warnings("1500m", 2),
        [
            "exceeded quota: q, requested: requests.cpu=3, used: requests.cpu=2, limited: requests.cpu=4"
        ]
    );
    // One of the two copies is charged.
    assert_eq!(warnings("500m", 1), Vec::<String>::new());
    assert_eq!(
        warnings("100m", 1),
        [
            "exceeded quota: q, requested: requests.cpu=100m, used: requests.cpu=4, limited: requests.cpu=4"
        ]
    );
}

/// A-QUO-1, A-QUO-3
#[test]
fn quotas_warn() {
    let of = |quota: &str, list: &str, n_replicas: u32| -> Vec<String> {
        let cluster = cluster();
        let json = format!(r#"{{"metadata": {{"name": "q", "namespace": "shop"}}, {quota}}}"#);
        feed(&cluster, &read!(core_v1::ResourceQuota, &json));
        let mut pod = read!(Pod, &resources(list));
        let snapshot = cluster.snapshot();
        let context = AdmissionContext { snapshot: &snapshot, position: 0, n_replicas };
        let warnings = admit_pod(&mut pod, context).unwrap().warnings;
        warnings.into_iter().map(|warning| warning.message).collect()
    };
    let hard = r#""spec": {"hard": {"pods": "3", "requests.cpu": "4", "limits.memory": "1Gi"}},
        "status": {"hard": {"pods": "3", "requests.cpu": "4", "limits.memory": "1Gi"}, "used": {"pods": "2", "requests.cpu": "3"}}"#;
    let list = r#"{"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}"#;
    assert_eq!(of(hard, list, 1), Vec::<String>::new());
    assert_eq!(
        of(hard, list, 2),
        [
            "exceeded quota: q, requested: limits.memory=2Gi, used: limits.memory=0, limited: limits.memory=1Gi",
            "exceeded quota: q, requested: pods=2, used: pods=2, limited: pods=3",
            "exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=3, limited: requests.cpu=4",
        ]
    );
    let hard = r#""spec": {"hard": {"limits.cpu": "4", "requests.x.io/gpu": "1"}}"#;
    assert_eq!(
        of(hard, r#"{"limits": {"x.io/gpu": "2"}}"#, 1),
        [
            "failed quota: q: must specify limits.cpu for: c",
            "exceeded quota: q, requested: requests.x.io/gpu=2, used: requests.x.io/gpu=0, limited: requests.x.io/gpu=1",
        ]
    );
}

/// A-QUO-2
#[test]
fn scopes_say_which_pods_count() {
    let counts = |scope: &str, spec: &str| {
        let cluster = cluster();
        let json = format!(
            r#"{{"metadata": {{"name": "q", "namespace": "shop"}}, "spec": {{"hard": {{"pods": "0"}}, {scope}}}}}"#
        );
        feed(&cluster, &read!(core_v1::ResourceQuota, &json));
        let (_, admitted) = admit(&cluster, &with(spec)).unwrap();
        !admitted.warnings.is_empty()
    };
    let scope = |name: &str| format!(r#""scopes": ["{name}"]"#);
    assert!(counts(&scope("BestEffort"), "") && !counts(&scope("NotBestEffort"), ""));
    let deadline = r#", "activeDeadlineSeconds": 5"#;
    assert!(counts(&scope("Terminating"), deadline) && !counts(&scope("Terminating"), ""));
    assert!(counts(&scope("NotTerminating"), "") && !counts(&scope("NotTerminating"), deadline));
    let class = |operator: &str, values: &str| {
        format!(
            r#""scopeSelector": {{"matchExpressions": [{{"scopeName": "PriorityClass", "operator": "{operator}", "values": {values}}}]}}"#
        )
    };
    assert!(counts(&class("In", r#"["base"]"#), "") && !counts(&class("In", r#"["high"]"#), ""));
    assert!(counts(&class("NotIn", r#"["high"]"#), "") && counts(&class("Exists", "[]"), ""));
    let term = r#", "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "z", "namespaceSelector": {}}]}}"#;
    let crossing = scope("CrossNamespacePodAffinity");
    assert!(counts(&crossing, term) && !counts(&crossing, ""));
}

/// A-DEF-1: pod-level requests are made before the limit range, and again when the pod is read.
#[test]
fn the_defaults_are_applied_again_at_the_end() {
    let cluster = limited(r#"[{"type": "Container", "defaultRequest": {"memory": "1Gi"}}]"#);
    let (pod, _) = admit(&cluster, &with(r#", "resources": {"limits": {"cpu": "4"}}"#)).unwrap();
    let requests = pod.spec.unwrap().resources.unwrap().requests;
    assert_eq!(requests["memory"].as_str(), "1Gi");
}
