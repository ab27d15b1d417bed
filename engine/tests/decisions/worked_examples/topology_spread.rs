//! Sections 2.11 and 3.7: PodTopologySpread.

use berth_engine::{
    Cluster, DefaultConstraint, EngineError, Outcome, Plugin, PolicySpec, SpreadDefaulting,
    WhenUnsatisfiable,
};
use berth_proto::{apps_v1, core_v1};
use serde_json::json;

use super::{cluster, explain, scores, upsert, upsert_node, verdicts};

const ZONE: &str = "topology.kubernetes.io/zone";
const SKEWED: &str = "U: node(s) didn't match pod topology spread constraints";
const NO_KEY: &str =
    "UU: node(s) didn't match pod topology spread constraints (missing required label)";

/// Returns zones a = {n1, n2} and b = {n3, n4}, and n5 without a zone; n1, n2 and n3 have 2, 1 and 1 pods.
fn zones() -> Cluster {
    let node = |name: &str, zone: &str| {
        let zone = if zone.is_empty() { String::new() } else { format!("label:{ZONE}={zone}") };
        format!("{name} cpu=4 memory=8Gi pods=99 label:kubernetes.io/hostname={name} {zone}")
    };
    let nodes = [("n1", "a"), ("n2", "a"), ("n3", "b"), ("n4", "b"), ("n5", "")];
    let nodes = nodes.map(|(name, zone)| node(name, zone));
    let pods = ["n1", "n1", "n2", "n3"].iter().enumerate();
    let pods: Vec<String> = pods.map(|(i, node)| format!("e{i} node={node} label:app=x")).collect();
    cluster(
        &nodes.each_ref().map(String::as_str),
        &pods.iter().map(String::as_str).collect::<Vec<_>>(),
    )
}

fn hard(selector: &str) -> String {
    format!("p label:app=x spread={ZONE},1,DoNotSchedule,{selector}")
}

/// The table of section 2.11: S-PTS-2 to S-PTS-7.
#[test]
fn hard_constraints() {
    let cluster = zones();
    assert_eq!(verdicts(&cluster, &hard("app:x")), [SKEWED, SKEWED, "ok", "ok", NO_KEY]);
    let few_domains = format!("{},3", hard("app:x"));
    assert_eq!(verdicts(&cluster, &few_domains), [SKEWED, SKEWED, SKEWED, SKEWED, NO_KEY]);
    for selector in ["*", "-"] {
        let all_zones = ["ok", "ok", "ok", "ok", NO_KEY];
        assert_eq!(verdicts(&cluster, &hard(selector)), all_zones, "{selector}");
    }
    // Pods of another namespace, terminating pods, and labels that the incoming pod lacks do not count.
    let elsewhere = format!("{} namespace=other", hard("app:x"));
    assert_eq!(verdicts(&cluster, &elsewhere), ["ok", "ok", "ok", "ok", NO_KEY]);
    let not_self = format!("p spread={ZONE},2,DoNotSchedule,app:x");
    assert_eq!(verdicts(&cluster, &not_self), ["ok", "ok", "ok", "ok", NO_KEY]);
    let terminating =
        ["e0", "e1"].map(|name| format!("{name} node=n1 label:app=x terminating=true"));
    let deltas = terminating.iter().map(|text| {
        berth_engine::Delta::UpsertPod(
            cluster.compile_pod(&berth_testing::object::pod(text)).unwrap(),
        )
    });
    cluster.apply(deltas.collect());
    assert_eq!(verdicts(&cluster, &hard("app:x")), ["ok", "ok", "ok", "ok", NO_KEY]);
}

/// S-PTS-4, S-PTS-8: the nodes that are counted are not the nodes that are filtered.
#[test]
fn inclusion_policies() {
    let cluster = zones();
    let with_policies = |affinity: &str, taints: &str, tolerates: bool| {
        let mut pod = berth_testing::object::pod(&hard("app:x"));
        let spec = pod.spec.get_or_insert_default();
        let constraint = &mut spec.topology_spread_constraints[0];
        constraint.node_affinity_policy = Some(affinity.to_owned());
        constraint.node_taints_policy = Some(taints.to_owned());
        spec.node_selector.insert(ZONE.to_owned(), "a".to_owned());
        if tolerates {
            spec.tolerations =
                vec![core_v1::Toleration { operator: "Exists".to_owned(), ..Default::default() }];
        }
        pod
    };
    let is_feasible = |pod: &core_v1::Pod| {
        let pod = cluster.compile_pod(pod).unwrap();
        let request = berth_engine::PlaceRequest {
            pod: &pod,
            policy: &berth_engine::Policy::default(),
            tie_break: berth_engine::TieBreak::Lexicographic,
            now: None,
        };
        matches!(cluster.place(&request).unwrap().outcome, Outcome::Placed(_))
    };
    // Zone a is the only domain, so there is no skew.
    assert!(is_feasible(&with_policies("Honor", "Ignore", false)));
    assert!(!is_feasible(&with_policies("Ignore", "Ignore", false)));
    // Zone b is not counted any more once its nodes are tainted and taints are honoured.
    for name in ["n3", "n4"] {
        let text = format!("{name} cpu=4 memory=8Gi pods=99 label:{ZONE}=b taint=k=v:NoSchedule");
        cluster.apply(vec![upsert_node(&cluster, &text)]);
    }
    assert!(!is_feasible(&with_policies("Ignore", "Ignore", false)));
    assert!(is_feasible(&with_policies("Ignore", "Honor", false)));
    assert!(!is_feasible(&with_policies("Ignore", "Honor", true)));
}

/// The first table of section 3.7: S-TS-1 to S-TS-8.
#[test]
fn soft_constraints() {
    let pod = format!(
        "p label:app=x spread={ZONE},1,ScheduleAnyway,app:x \
         spread=kubernetes.io/hostname,2,ScheduleAnyway,app:x"
    );
    let scores = scores(&zones(), &pod, Plugin::PodTopologySpread, PolicySpec::default());
    assert_eq!(scores, [(9, 44), (7, 88), (4, 154), (2, 200), (0, 0)]);
}

/// The second table: pods that a service selects are spread by default (S-PTS-12).
#[test]
fn system_defaults() {
    let cluster = zones();
    let spread = |pod: &str, spec| scores(&cluster, pod, Plugin::PodTopologySpread, spec);
    assert_eq!(spread("p label:app=x", PolicySpec::default()), [], "no service, no constraints");
    upsert!(
        cluster,
        core_v1::Service,
        json!({
            "metadata": {"name": "s", "namespace": "default"}, "spec": {"selector": {"app": "x"}},
        })
    );
    let expected = [(15, 26), (13, 52), (10, 92), (8, 120), (2, 200)];
    assert_eq!(spread("p label:app=x", PolicySpec::default()), expected);
    assert_eq!(spread("p label:app=y", PolicySpec::default()), [], "another's service");
    // A constraint of either kind replaces all defaults.
    assert_eq!(spread(&hard("-"), PolicySpec::default()), []);
}

/// S-PTS-12: configured defaults also filter, for pods of services and controllers.
#[test]
fn configured_defaults() {
    let cluster = zones();
    let mut spec = PolicySpec::default();
    spec.pod_topology_spread.defaulting = SpreadDefaulting::List(vec![DefaultConstraint {
        max_skew: 1,
        topology_key: ZONE.to_owned(),
        when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
        min_domains: None,
        honors_affinity: true,
        honors_taints: false,
    }]);
    let mut pod = berth_testing::object::pod("p label:app=x");
    pod.metadata.get_or_insert_default().owner_references = vec![
        serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "controller": true,
        }))
        .unwrap(),
    ];
    let n_feasible = || {
        let pod = cluster.compile_pod(&pod).unwrap();
        let policy = berth_engine::Policy::new(spec.clone()).unwrap();
        let tie_break = berth_engine::TieBreak::Lexicographic;
        let request =
            berth_engine::PlaceRequest { pod: &pod, policy: &policy, tie_break, now: None };
        match cluster.place(&request).unwrap().outcome {
            Outcome::Placed(placement) => placement.n_feasible,
            outcome => panic!("{outcome:?}"),
        }
    };
    assert_eq!(n_feasible(), 5, "nobody knows the replica set");
    upsert!(
        cluster,
        apps_v1::ReplicaSet,
        json!({
            "metadata": {"name": "r", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "x"}}},
        })
    );
    assert_eq!(n_feasible(), 2);
    upsert!(
        cluster,
        apps_v1::ReplicaSet,
        json!({
            "metadata": {"name": "r", "namespace": "default"},
            "spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "in", "values": ["x"]}]}},
        })
    );
    assert_eq!(n_feasible(), 5, "a selector that does not parse selects nothing");
}

/// S-PTS-1, S-CYC-6, W-SEL-6: a selector that does not parse fails an attempt that evaluates it.
#[test]
fn unparsable_selectors() {
    let explained = |action: &str| {
        let pod = format!("p spread={ZONE},1,{action},app:In");
        explain(&zones(), &pod, PolicySpec::default())
    };
    for action in ["DoNotSchedule", "ScheduleAnyway"] {
        let error = explained(action).unwrap_err();
        assert!(matches!(error, EngineError::SchedulerError { .. }), "{error}");
    }
    let alone = cluster(&["n1 cpu=4 memory=8Gi pods=9"], &[]);
    let soft = format!("p spread={ZONE},1,ScheduleAnyway,app:In");
    assert_eq!(verdicts(&alone, &soft), ["ok"], "a single node is not scored");
    let both = format!("p spread={ZONE},1,ScheduleAnyway,app:In spread={ZONE},1,DoNotSchedule,-");
    assert_eq!(verdicts(&alone, &both), [NO_KEY]);
}
