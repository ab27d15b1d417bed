//! Dumps: `kubectl get -o json|yaml`, split into objects and loaded into a cluster.

use std::collections::{BTreeMap, BTreeSet};

use berth_engine::Cluster;
use berth_engine::workload::{DaemonNode, ExpandOptions, WorkloadKind};
use berth_server::feed::file::{self, Dump, UnknownFields};

use crate::work::bounded;
use crate::world;

/// A dump is read, written as JSON and read again, with buffers of a megabyte for any input.
const BYTES_EACH: u64 = 16 << 10;

/// Checks the bytes as the text of a dump.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let name = "dump".into();
    let parse = || file::parse(&name, text, UnknownFields::Warn);
    let read = bounded(text.len() + (64 << 10), BYTES_EACH, parse);
    let dump = match read {
        Ok(dump) => dump,
        Err(error) => {
            let text = error.to_string();
            return assert!(
                text.contains("dump") && text.len() < (data.len() << 2) + 4096,
                "{text}"
            );
        }
    };
    let n_lines = n_lines(text);
    for refused in
        dump.refused.iter().chain(&dump.warnings.listed).chain(&dump.misspelt_kinds.listed)
    {
        assert!(!refused.field.is_empty() || !refused.reason.is_empty(), "{refused}");
        assert!((1..=n_lines).contains(&refused.location.line), "{refused}");
    }
    check_again(&dump);
    check_strict(&dump, &file::parse(&name, text, UnknownFields::Refuse).unwrap());
    expand(&dump);
    // Loading replaces all objects of the fork by those of the dump.
    world::within(|world| load(&world.cluster.fork(), dump));
}

/// The number of lines; YAML has more line breaks than `\n`.
pub(crate) fn n_lines(text: &str) -> u64 {
    text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count() as u64
}

/// Checks that objects that are written as JSON are equal when they are read again.
fn check_again(dump: &Dump) {
    let mut texts = Vec::new();
    let mut write = |kind: &str, json: serde_json::Result<String>| {
        // A time after the year 9999 has no JSON form.
        let Ok(json) = json else { return false };
        let comma = if json == "{}" { "" } else { "," };
        texts.push(format!("{{\"kind\":\"{kind}\"{comma}{}", &json[1..]));
        true
    };
    let is_whole = dump.nodes.iter().all(|node| write("Node", serde_json::to_string(&node.value)))
        && dump.pods.iter().all(|pod| write("Pod", serde_json::to_string(&pod.value)));
    if texts.is_empty() || !is_whole {
        return;
    }
    let list = format!("{{\"kind\":\"List\",\"items\":[{}]}}", texts.join(","));
    let again = file::parse(&"again".into(), &list, UnknownFields::Warn).unwrap();
    assert!(again.refused.is_empty(), "{:?}", again.refused);
    let json = |dump: &Dump| {
        let nodes = dump.nodes.iter().map(|node| serde_json::to_string(&node.value).unwrap());
        let pods = dump.pods.iter().map(|pod| serde_json::to_string(&pod.value).unwrap());
        nodes.chain(pods).collect::<Vec<_>>()
    };
    assert_eq!(json(&again), json(dump), "{list}");
}

/// Checks that reading strictly refuses the objects that were warned of, and changes no other.
fn check_strict(dump: &Dump, strict: &Dump) {
    let n_warned = |dump: &Dump| dump.warnings.listed.len() + dump.warnings.n_more;
    assert!(strict.nodes.iter().all(|node| dump.nodes.contains(node)));
    assert!(strict.pods.iter().all(|pod| dump.pods.contains(pod)));
    // An object of an older version has a warning besides.
    assert!(strict.refused.len() - dump.refused.len() + n_warned(strict) <= n_warned(dump));
    assert_eq!(strict.refused.len() == dump.refused.len(), n_warned(strict) == n_warned(dump));
}

/// Checks that workloads are expanded into pods with names of their own, or refused with a field and a reason.
fn expand(dump: &Dump) {
    let nodes = [DaemonNode::listed("n", BTreeMap::new(), ["k=v:NoSchedule"])];
    for workload in &dump.workloads {
        let is_daemon = workload.value.kind() == WorkloadKind::DaemonSet;
        let options = ExpandOptions { replicas: (!is_daemon).then_some(3), nodes: &nodes };
        match workload.value.expand(&options) {
            Ok(expansion) => {
                let pods = expansion.pods.iter().filter_map(|pod| pod.metadata.as_ref());
                let names: BTreeSet<&str> = pods.map(|metadata| metadata.name.as_str()).collect();
                assert_eq!(names.len(), expansion.pods.len(), "{expansion:?}");
            }
            Err(error) => assert!(!error.field.is_empty() && !error.reason.is_empty(), "{error}"),
        }
    }
}

fn load(cluster: &Cluster, dump: Dump) {
    let n_refused = dump.refused.len();
    let n_objects = dump.nodes.len() + dump.pods.len() + dump.objects.len();
    let report = file::load(cluster, dump);
    assert_eq!(report.n_taken + report.refused.len(), n_objects + n_refused, "{report}");
    for refused in &report.refused[n_refused..] {
        assert!(!refused.field.is_empty() && !refused.reason.is_empty(), "{refused}");
    }
    let snapshot = cluster.snapshot();
    let n_pods = snapshot.n_pods() + snapshot.n_pending() + snapshot.n_orphaned();
    assert!(snapshot.n_nodes() + n_pods <= n_objects, "{report}");
}
