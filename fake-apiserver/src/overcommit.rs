//! Overcommitted nodes, recounted from the objects in exact arithmetic.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_proto::{Amount, Quantity};
use serde_json::Value;

use crate::field;
use crate::stored::Stored;

type Amounts = BTreeMap<String, Amount>;

/// A line for each resource of each overcommitted node, in the order of names.
pub(crate) fn overcommitted(nodes: Vec<Arc<Stored>>, pods: Vec<Arc<Stored>>) -> Vec<String> {
    let mut used: BTreeMap<String, Amounts> = BTreeMap::new();
    for pod in pods {
        let pod = pod.to_plain();
        let node = field::text(&pod, "spec.nodeName");
        if !node.is_empty() && !matches!(field::text(&pod, "status.phase"), "Succeeded" | "Failed")
        {
            let used = used.entry(node.to_owned()).or_default();
            add(used, &requests(&pod));
            add(used, &Amounts::from([("pods".to_owned(), Amount::from_value(1))]));
        }
    }
    let mut lines = Vec::new();
    for node in nodes {
        let node = node.to_plain();
        let name = field::text(&node, "metadata.name");
        let has = amounts(field::at(&node, "status.allocatable"));
        for (resource, amount) in used.get(name).into_iter().flatten() {
            let of = has.get(resource).copied().unwrap_or(Amount::ZERO);
            if *amount > of {
                lines.push(format!("{name}: {} of {} {resource}", shown(*amount), shown(of)));
            }
        }
    }
    lines
}

/// Requests of a pod: the greater of the sum of containers and sidecars and the maximum during initialisation, plus the
/// overhead (KEP 753). Pod-level amounts replace the sums (KEP 2837).
fn requests(pod: &Value) -> Amounts {
    let of = |container: &Value| amounts(field::at(container, "resources.requests"));
    let containers = |list| field::at(pod, list).as_array().into_iter().flatten();
    let mut total = Amounts::new();
    for container in containers("spec.containers") {
        add(&mut total, &of(container));
    }
    let mut beside = Amounts::new();
    let mut starting = Amounts::new();
    for container in containers("spec.initContainers") {
        let mut needs = of(container);
        if container["restartPolicy"] == "Always" {
            add(&mut beside, &needs);
            needs = beside.clone();
        } else {
            add(&mut needs, &beside);
        }
        raise(&mut starting, &needs);
    }
    add(&mut total, &beside);
    raise(&mut total, &starting);
    total.extend(amounts(field::at(pod, "spec.resources.requests")));
    add(&mut total, &amounts(field::at(pod, "spec.overhead")));
    total
}

/// Parses quantities; an invalid one counts as zero, because a server would have refused it.
fn amounts(list: &Value) -> Amounts {
    let parse = |(name, value): (&String, &Value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some((name.clone(), Quantity::new(text).parse().ok()?))
    };
    list.as_object().into_iter().flatten().filter_map(parse).collect()
}

fn add(sum: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        *sum.entry(name.clone()).or_default() += *amount;
    }
}

fn raise(most: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let known = most.entry(name.clone()).or_default();
        *known = (*known).max(*amount);
    }
}

fn shown(amount: Amount) -> String {
    match amount.milli_value() {
        milli if milli % 1_000 == 0 => (milli / 1_000).to_string(),
        milli => format!("{milli}m"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::options::Options;
    use crate::store::Store;

    fn store(pods: &[Value]) -> Store {
        let store = Store::new(&Options::default());
        let allocatable = json!({"cpu": "2", "memory": "1Gi", "pods": "3"});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": allocatable}});
        store.create(node).unwrap();
        for (i, pod) in pods.iter().enumerate() {
            let mut pod = pod.clone();
            pod["apiVersion"] = json!("v1");
            pod["kind"] = json!("Pod");
            pod["metadata"] = json!({"name": format!("p{i}"), "namespace": "d"});
            store.create(pod).unwrap();
        }
        store
    }

    fn pod(cpu: &str) -> Value {
        json!({"spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}})
    }

    #[test]
    fn a_node_may_be_full_but_no_fuller() {
        assert!(store(&[pod("1500m"), pod("500m")]).overcommitted().is_empty());
        assert_eq!(store(&[pod("1500m"), pod("501m")]).overcommitted(), ["n: 2001m of 2 cpu"]);
        let four = [pod("0"), pod("0"), pod("0"), pod("0")];
        assert_eq!(store(&four).overcommitted(), ["n: 4 of 3 pods"]);
    }

    #[test]
    fn finished_and_unbound_pods_do_not_count() {
        let mut finished = pod("2");
        finished["status"] = json!({"phase": "Succeeded"});
        let mut pending = pod("2");
        pending["spec"].as_object_mut().unwrap().remove("nodeName");
        assert!(store(&[pod("2"), finished, pending]).overcommitted().is_empty());
    }

    #[test]
    fn init_containers_sidecars_overhead_and_pod_amounts_count() {
        let mut init = pod("1");
        init["spec"]["initContainers"] = json!([
            {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
            {"name": "i", "resources": {"requests": {"cpu": "1600m"}}},
        ]);
        assert_eq!(store(&[init.clone()]).overcommitted(), ["n: 2100m of 2 cpu"]);
        init["spec"]["resources"] = json!({"requests": {"cpu": "1"}});
        init["spec"]["overhead"] = json!({"cpu": "1001m", "example.com/gpu": 1});
        let lines = store(&[init]).overcommitted();
        assert_eq!(lines, ["n: 2001m of 2 cpu", "n: 1 of 0 example.com/gpu"]);
    }
}
