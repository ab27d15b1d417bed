//! Columns of each kind, those of `-o wide` marked.

use serde_json::Value;

use super::age;
use crate::clock;
use crate::field;

/// A column, with the cell that it has for an object.
pub(super) struct Column {
    pub(super) name: &'static str,
    /// Whether only `-o wide` shows it.
    pub(super) is_wide: bool,
    pub(super) cell: fn(&Value) -> Value,
}

const fn column(name: &'static str, cell: fn(&Value) -> Value) -> Column {
    Column { name, is_wide: false, cell }
}

const fn wide(name: &'static str, cell: fn(&Value) -> Value) -> Column {
    Column { name, is_wide: true, cell }
}

const NAME: Column = column("Name", |it| field::at(it, "metadata.name").clone());
const AGE: Column = column("Age", |it| since(field::text(it, "metadata.creationTimestamp")));

/// The columns of a kind, in their order.
pub(super) fn of(kind: &str) -> &'static [Column] {
    match kind {
        "Pod" => PODS,
        "Node" => NODES,
        "Namespace" => NAMESPACES,
        "Service" => SERVICES,
        "Deployment" | "StatefulSet" | "ReplicaSet" | "ReplicationController" => WORKLOADS,
        "PodDisruptionBudget" => BUDGETS,
        "PriorityClass" => PRIORITY_CLASSES,
        "PersistentVolumeClaim" => CLAIMS,
        "Lease" => LEASES,
        "Event" => EVENTS,
        _ => &[NAME, AGE],
    }
}

const PODS: &[Column] = &[
    NAME,
    column("Ready", ready_containers),
    column("Status", |it| text_or(pod_status(it), "Unknown")),
    column("Restarts", |it| sum(it, "restartCount").to_string().into()),
    AGE,
    wide("IP", |it| or_none(field::text(it, "status.podIP"))),
    wide("Node", |it| or_none(field::text(it, "spec.nodeName"))),
    wide("Nominated Node", |it| or_none(field::text(it, "status.nominatedNodeName"))),
    wide("Readiness Gates", |it| match list(it, "spec.readinessGates").len() {
        0 => "<none>".into(),
        n => format!("0/{n}").into(),
    }),
];

const NODES: &[Column] = &[
    NAME,
    column("Status", node_status),
    column("Roles", roles),
    AGE,
    column("Version", |it| field::text(it, "status.nodeInfo.kubeletVersion").into()),
    wide("Internal-IP", |it| address(it, "InternalIP")),
    wide("External-IP", |it| address(it, "ExternalIP")),
    wide("OS-Image", |it| or_unknown(field::text(it, "status.nodeInfo.osImage"))),
    wide("Kernel-Version", |it| or_unknown(field::text(it, "status.nodeInfo.kernelVersion"))),
    wide("Container-Runtime", |it| {
        or_unknown(field::text(it, "status.nodeInfo.containerRuntimeVersion"))
    }),
];

const NAMESPACES: &[Column] =
    &[NAME, column("Status", |it| text_or(field::text(it, "status.phase"), "Active")), AGE];

const SERVICES: &[Column] = &[
    NAME,
    column("Type", |it| text_or(field::text(it, "spec.type"), "ClusterIP")),
    column("Cluster-IP", |it| or_none(field::text(it, "spec.clusterIP"))),
    column("External-IP", |_| "<none>".into()),
    column("Port(s)", ports),
    AGE,
    wide("Selector", |it| pairs(field::at(it, "spec.selector"))),
];

const WORKLOADS: &[Column] = &[
    NAME,
    column("Ready", |it| {
        format!("{}/{}", number(it, "status.readyReplicas", 0), number(it, "spec.replicas", 1))
            .into()
    }),
    column("Available", |it| number(it, "status.availableReplicas", 0).to_string().into()),
    AGE,
    wide("Selector", |it| match field::at(it, "spec.selector.matchLabels") {
        Value::Null => pairs(field::at(it, "spec.selector")),
        labels => pairs(labels),
    }),
];

const BUDGETS: &[Column] = &[
    NAME,
    column("Min Available", |it| scalar(field::at(it, "spec.minAvailable"), "N/A")),
    column("Max Unavailable", |it| scalar(field::at(it, "spec.maxUnavailable"), "N/A")),
    column("Allowed Disruptions", |it| {
        number(it, "status.disruptionsAllowed", 0).to_string().into()
    }),
    AGE,
];

const PRIORITY_CLASSES: &[Column] = &[
    NAME,
    column("Value", |it| number(it, "value", 0).to_string().into()),
    column("Global-Default", |it| {
        field::at(it, "globalDefault").as_bool().unwrap_or(false).to_string().into()
    }),
    AGE,
    column("PreemptionPolicy", |it| {
        text_or(field::text(it, "preemptionPolicy"), "PreemptLowerPriority")
    }),
];

const CLAIMS: &[Column] = &[
    NAME,
    column("Status", |it| text_or(field::text(it, "status.phase"), "Pending")),
    column("Volume", |it| field::text(it, "spec.volumeName").into()),
    column("Capacity", |it| scalar(field::at(it, "status.capacity.storage"), "")),
    column("Access Modes", |it| words(&list(it, "spec.accessModes"))),
    column("StorageClass", |it| field::text(it, "spec.storageClassName").into()),
    AGE,
];

const LEASES: &[Column] =
    &[NAME, column("Holder", |it| field::text(it, "spec.holderIdentity").into()), AGE];

const EVENTS: &[Column] = &[
    column("Last Seen", |it| {
        let times =
            ["series.lastObservedTime", "deprecatedLastTimestamp", "lastTimestamp", "eventTime"];
        let time = times.iter().map(|path| field::text(it, path)).find(|time| !time.is_empty());
        since(time.unwrap_or_default())
    }),
    column("Type", |it| field::text(it, "type").into()),
    column("Reason", |it| field::text(it, "reason").into()),
    column("Object", |it| {
        let of = ["regarding", "involvedObject"].into_iter().find(|name| it[name].is_object());
        let object = of.map_or(&Value::Null, |name| &it[name]);
        let kind = field::text(object, "kind").to_lowercase();
        format!("{kind}/{}", field::text(object, "name")).into()
    }),
    column("Message", |it| match field::text(it, "note") {
        "" => field::text(it, "message").into(),
        note => note.into(),
    }),
];

fn list<'v>(object: &'v Value, path: &str) -> Vec<&'v Value> {
    field::at(object, path).as_array().map(|values| values.iter().collect()).unwrap_or_default()
}

fn number(object: &Value, path: &str, absent: i64) -> i64 {
    field::at(object, path).as_i64().unwrap_or(absent)
}

fn scalar(value: &Value, absent: &str) -> Value {
    match value {
        Value::Null => absent.into(),
        Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    }
}

fn text_or(text: &str, absent: &str) -> Value {
    if text.is_empty() { absent.into() } else { text.into() }
}

fn or_none(text: &str) -> Value {
    text_or(text, "<none>")
}

fn or_unknown(text: &str) -> Value {
    text_or(text, "<unknown>")
}

fn words(values: &[&Value]) -> Value {
    values.iter().filter_map(|value| value.as_str()).collect::<Vec<_>>().join(",").into()
}

fn pairs(labels: &Value) -> Value {
    let pair = |(key, value): (&String, &Value)| Some(format!("{key}={}", value.as_str()?));
    let pairs = labels.as_object().map(|labels| labels.iter().filter_map(pair).collect::<Vec<_>>());
    or_none(&pairs.unwrap_or_default().join(","))
}

fn since(time: &str) -> Value {
    match clock::seconds_since(time) {
        Some(seconds) => age::text(seconds).into(),
        None => "<unknown>".into(),
    }
}

fn sum(pod: &Value, of: &str) -> i64 {
    list(pod, "status.containerStatuses").iter().map(|it| number(it, of, 0)).sum()
}

fn ready_containers(pod: &Value) -> Value {
    let statuses = list(pod, "status.containerStatuses");
    let n_ready = statuses.iter().filter(|it| it["ready"] == true).count();
    format!("{n_ready}/{}", list(pod, "spec.containers").len()).into()
}

fn pod_status(pod: &Value) -> &str {
    let has_reason = field::text(pod, "status.reason");
    if !field::at(pod, "metadata.deletionTimestamp").is_null() {
        return "Terminating";
    }
    let is_gated = list(pod, "status.conditions")
        .iter()
        .any(|it| it["type"] == "PodScheduled" && it["reason"] == "SchedulingGated");
    match (is_gated, has_reason) {
        (true, _) => "SchedulingGated",
        (false, "") => field::text(pod, "status.phase"),
        (false, reason) => reason,
    }
}

fn node_status(node: &Value) -> Value {
    let ready = list(node, "status.conditions").into_iter().find(|it| it["type"] == "Ready");
    let ready = match ready.map(|it| field::text(it, "status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let is_cordoned = field::at(node, "spec.unschedulable").as_bool().unwrap_or(false);
    if is_cordoned { format!("{ready},SchedulingDisabled").into() } else { ready.into() }
}

fn roles(node: &Value) -> Value {
    let labels = field::at(node, "metadata.labels").as_object();
    let role = |key: &String| key.strip_prefix("node-role.kubernetes.io/").map(str::to_owned);
    let roles: Vec<String> =
        labels.map(|labels| labels.keys().filter_map(role).collect()).unwrap_or_default();
    or_none(&roles.join(","))
}

fn address(node: &Value, r#type: &str) -> Value {
    let addresses = list(node, "status.addresses");
    let address = addresses.into_iter().find(|it| it["type"] == r#type);
    or_none(address.map_or("", |it| field::text(it, "address")))
}

fn ports(service: &Value) -> Value {
    let port = |it: &&Value| {
        let protocol = text_or(field::text(it, "protocol"), "TCP");
        format!("{}/{}", number(it, "port", 0), protocol.as_str().unwrap_or_default())
    };
    let ports: Vec<String> = list(service, "spec.ports").iter().map(port).collect();
    or_none(&ports.join(","))
}
