//! Small objects written as text: a name, then `key=value` words.

mod relation;

use berth_proto::{Quantity, Time, core_v1, meta_v1};

/// Builds a node from text such as
/// `n1 cpu=4 memory=8Gi pods=10 label:zone=a taint=k=v:NoSchedule cordoned=true image=nginx:1@600Mi feature=F`; other
/// words are `status.allocatable`.
#[must_use]
pub fn node(text: &str) -> core_v1::Node {
    let (name, words) = parse(text);
    let mut metadata = meta_v1::ObjectMeta { name, ..Default::default() };
    let (mut spec, mut status) = (core_v1::NodeSpec::default(), core_v1::NodeStatus::default());
    for (key, value) in words {
        match (key, key.split_once(':')) {
            (_, Some(("label", label))) => {
                drop(metadata.labels.insert(label.to_owned(), value.to_owned()))
            }
            ("taint", _) => spec.taints.push(taint(value)),
            ("cordoned", _) => spec.unschedulable = value == "true",
            ("image", _) => status.images.push(image(value)),
            ("feature", _) => status.declared_features.push(value.to_owned()),
            _ => drop(status.allocatable.insert(key.to_owned(), Quantity::new(value))),
        }
    }
    core_v1::Node { metadata: Some(metadata), spec: Some(spec), status: Some(status) }
}

/// Builds a pod of one container from text such as
/// `p1 cpu=500m node=n1 uid=u1 port=80 phase=Failed version=3 toleration=k,Exists,, level:cpu=2 overhead:cpu=1 image=nginx gate=g named=n1 prefer=30,zone,In,a priority=5 preemption=Never namespace=n2 label:app=x started=1000 nominated=n1 terminating=true preempted=true`;
/// words about other pods and volumes are in `relation`, and all others are requests. The namespace is `default` and
/// the uid is the name unless they are given.
#[must_use]
pub fn pod(text: &str) -> core_v1::Pod {
    let (name, words) = parse(text);
    let uid = name.clone();
    let mut metadata =
        meta_v1::ObjectMeta { name, uid, namespace: "default".to_owned(), ..Default::default() };
    let (mut spec, mut status) = (core_v1::PodSpec::default(), core_v1::PodStatus::default());
    let mut container = core_v1::Container { name: "c".to_owned(), ..Default::default() };
    for (key, value) in words {
        match (key, key.split_once(':')) {
            ("node", _) => spec.node_name = value.to_owned(),
            ("uid", _) => metadata.uid = value.to_owned(),
            ("namespace", _) => metadata.namespace = value.to_owned(),
            ("terminating", _) => metadata.deletion_timestamp = Some(Time::from_unix_seconds(1)),
            (_, Some(("label", label))) => {
                drop(metadata.labels.insert(label.to_owned(), value.to_owned()));
            }
            ("version", _) => metadata.resource_version = value.to_owned(),
            ("phase", _) => status.phase = value.to_owned(),
            ("port", _) => container.ports.push(port(value)),
            ("image", _) => container.image = value.to_owned(),
            ("priority", _) => spec.priority = Some(value.parse().expect("a priority")),
            ("preemption", _) => spec.preemption_policy = Some(value.to_owned()),
            ("started", _) => {
                let seconds = value.parse().expect("seconds");
                status.start_time = Some(Time::from_unix_seconds(seconds));
            }
            ("nominated", _) => status.nominated_node_name = value.to_owned(),
            ("preempted", _) => {
                metadata.deletion_timestamp = Some(Time::from_unix_seconds(1));
                status.conditions.push(core_v1::PodCondition {
                    r#type: "DisruptionTarget".to_owned(),
                    status: "True".to_owned(),
                    reason: "PreemptionByScheduler".to_owned(),
                    ..Default::default()
                });
            }
            ("gate", _) => {
                spec.scheduling_gates.push(core_v1::PodSchedulingGate { name: value.to_owned() })
            }
            ("host-network", _) => spec.host_network = value == "true",
            ("host-users", _) => spec.host_users = Some(value == "true"),
            ("toleration", _) => spec.tolerations.push(toleration(value)),
            ("named", _) => named(&mut spec, value),
            ("prefer", _) => prefer(&mut spec, value),
            (_, Some(("level", resource))) => {
                let requests = &mut spec.resources.get_or_insert_default().requests;
                requests.insert(resource.to_owned(), Quantity::new(value));
            }
            (_, Some(("overhead", resource))) => {
                drop(spec.overhead.insert(resource.to_owned(), Quantity::new(value)));
            }
            _ if relation::read(&mut spec, key, value) => {}
            _ => {
                let requests = &mut container.resources.get_or_insert_default().requests;
                requests.insert(key.to_owned(), Quantity::new(value));
            }
        }
    }
    spec.containers = vec![container];
    core_v1::Pod { metadata: Some(metadata), spec: Some(spec), status: Some(status) }
}

fn parse(text: &str) -> (String, impl Iterator<Item = (&str, &str)>) {
    let mut words = text.split(' ').filter(|word| !word.is_empty());
    let name = words.next().expect("a name").to_owned();
    (name, words.map(|word| word.split_once('=').expect("key=value")))
}

/// Parses `KEY=VALUE:EFFECT`.
fn taint(text: &str) -> core_v1::Taint {
    let (pair, effect) = text.rsplit_once(':').expect("an effect");
    let (key, value) = pair.split_once('=').expect("a value, perhaps empty");
    core_v1::Taint {
        key: key.to_owned(),
        value: value.to_owned(),
        effect: effect.to_owned(),
        ..Default::default()
    }
}

/// Parses `NAME@SIZE`, with the size in MiB.
fn image(text: &str) -> core_v1::ContainerImage {
    let (name, mebibytes) = text.rsplit_once('@').expect("a size");
    let mebibytes: i64 =
        mebibytes.strip_suffix("Mi").and_then(|n| n.parse().ok()).expect("a size in Mi");
    core_v1::ContainerImage { names: vec![name.to_owned()], size_bytes: mebibytes << 20 }
}

/// Parses `PORT`, `IP/PORT` or `IP/PORT/PROTOCOL`.
fn port(text: &str) -> core_v1::ContainerPort {
    let words: Vec<&str> = text.split('/').collect();
    let (ip, port, protocol) = match words[..] {
        [port] => ("", port, ""),
        [ip, port] => (ip, port, ""),
        [ip, port, protocol] => (ip, port, protocol),
        _ => panic!("`{text}` is not a port"),
    };
    core_v1::ContainerPort {
        host_ip: ip.to_owned(),
        host_port: port.parse().expect("a port"),
        protocol: protocol.to_owned(),
        ..Default::default()
    }
}

/// Parses `KEY,OPERATOR,VALUE,EFFECT`.
fn toleration(text: &str) -> core_v1::Toleration {
    let [key, operator, value, effect] = text.split(',').collect::<Vec<_>>()[..] else {
        panic!("`{text}` is not a toleration");
    };
    core_v1::Toleration {
        key: key.to_owned(),
        operator: operator.to_owned(),
        value: value.to_owned(),
        effect: effect.to_owned(),
        ..Default::default()
    }
}

/// Adds `metadata.name In NODE` to the one required term.
fn named(spec: &mut core_v1::PodSpec, node: &str) {
    let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    let required =
        affinity.required_during_scheduling_ignored_during_execution.get_or_insert_default();
    if required.node_selector_terms.is_empty() {
        required.node_selector_terms.push(core_v1::NodeSelectorTerm::default());
    }
    let requirement = core_v1::NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: vec![node.to_owned()],
    };
    required.node_selector_terms[0].match_fields.push(requirement);
}

/// Parses `WEIGHT,KEY,OPERATOR,VALUE…`.
fn prefer(spec: &mut core_v1::PodSpec, text: &str) {
    let words: Vec<&str> = text.split(',').collect();
    let requirement = core_v1::NodeSelectorRequirement {
        key: words[1].to_owned(),
        operator: words[2].to_owned(),
        values: words[3..].iter().map(|value| (*value).to_owned()).collect(),
    };
    let affinity = spec.affinity.get_or_insert_default().node_affinity.get_or_insert_default();
    affinity.preferred_during_scheduling_ignored_during_execution.push(
        core_v1::PreferredSchedulingTerm {
            weight: words[0].parse().expect("a weight"),
            preference: Some(core_v1::NodeSelectorTerm {
                match_expressions: vec![requirement],
                ..Default::default()
            }),
        },
    );
}
