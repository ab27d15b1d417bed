//! Sections 2.12 and 3.6: InterPodAffinity.

use berth_engine::{Outcome, Plugin, PolicySpec};
use berth_proto::core_v1;
use serde_json::json;

use super::{cluster, explain, message, scores, upsert, verdicts};

const NEAR: &str = "UU: node(s) didn't match pod affinity rules";
const FAR: &str = "U: node(s) didn't match pod anti-affinity rules";
const THEIRS: &str = "U: node(s) didn't satisfy existing pods anti-affinity rules";

fn node(name: &str, zone: &str) -> String {
    let zone = if zone.is_empty() { String::new() } else { format!("label:zone={zone}") };
    format!("{name} cpu=4 memory=8Gi pods=99 label:host={name} {zone}")
}

/// The table of section 2.12: S-IPA-1, S-IPA-3, S-IPA-4.
#[test]
fn namespace_selectors() {
    let cluster = cluster(&[&node("n1", "a")], &["e node=n1 namespace=n2 label:app=x"]);
    upsert!(
        cluster,
        core_v1::Namespace,
        json!({"metadata": {"name": "n2", "labels": {"team": "x"}}})
    );
    for (selector, expected) in [
        ("-", "ok"),
        ("*", FAR),
        ("team:x", FAR),
        ("team:y", "ok"),
        ("team:DoesNotExist", FAR),
        ("team:NotIn:x", FAR),
    ] {
        assert_eq!(
            verdicts(&cluster, &format!("p far=host,app:x,{selector}")),
            [expected],
            "{selector}"
        );
    }
    // In the other direction the selector is evaluated on the labels of the incoming pod's namespace, or on none if it
    // has no object.
    for (selector, unlabelled, labelled) in [
        ("-", "ok", "ok"),
        ("*", THEIRS, THEIRS),
        ("team:x", "ok", THEIRS),
        ("team:DoesNotExist", THEIRS, "ok"),
        ("team:NotIn:x", THEIRS, "ok"),
    ] {
        let theirs = format!("e node=n1 namespace=n2 far=host,app:x,{selector}");
        let cluster = super::cluster(&[&node("n1", "a")], &[&theirs]);
        assert_eq!(verdicts(&cluster, "p label:app=x"), [unlabelled], "{selector}");
        upsert!(
            cluster,
            core_v1::Namespace,
            json!({"metadata": {"name": "default", "labels": {"team": "x"}}})
        );
        assert_eq!(verdicts(&cluster, "p label:app=x"), [labelled], "{selector}");
    }
}

/// S-IPA-7: the order of the three checks, and the effect of a missing key on each.
#[test]
fn required_terms() {
    let nodes = [node("n1", "a"), node("n2", "a"), node("n3", "b"), node("n4", "")];
    let cluster =
        cluster(&nodes.each_ref().map(String::as_str), &["e node=n1 label:app=x far=host,app:y"]);
    assert_eq!(verdicts(&cluster, "p near=zone,app:x"), ["ok", "ok", NEAR, NEAR]);
    assert_eq!(verdicts(&cluster, "p far=zone,app:x"), [FAR, FAR, "ok", "ok"]);
    assert_eq!(verdicts(&cluster, "p label:app=y"), [THEIRS, "ok", "ok", "ok"]);
    let all = "p label:app=y near=zone,app:x far=host,app:x";
    assert_eq!(verdicts(&cluster, all), [FAR, "ok", NEAR, NEAR]);
    // S-IPA-5: a pod counts for affinity only if it matches all terms.
    assert_eq!(
        verdicts(&cluster, "p near=zone,app:x near=zone,app:Exists"),
        ["ok", "ok", NEAR, NEAR]
    );
    assert_eq!(verdicts(&cluster, "p near=zone,app:x near=zone,app:y"), [NEAR; 4]);
}

/// S-IPA-7: the first pod of a series needs no other pod, as long as none matches anywhere; S-IPA-9: on nodes that have
/// the key.
#[test]
fn first_of_a_series() {
    let nodes = [node("n1", "a"), node("n2", "")];
    let nodes = nodes.each_ref().map(String::as_str);
    let first = "p label:app=x near=zone,app:x";
    assert_eq!(verdicts(&cluster(&nodes, &[]), first), ["ok", NEAR]);
    assert_eq!(verdicts(&cluster(&nodes, &[]), "p near=zone,app:x"), [NEAR, NEAR]);
    assert_eq!(verdicts(&cluster(&nodes, &["e node=n2 label:app=x"]), first), ["ok", NEAR]);
    let elsewhere = [node("n1", "a"), node("n2", "b")];
    let elsewhere = cluster(&elsewhere.each_ref().map(String::as_str), &["e node=n2 label:app=x"]);
    assert_eq!(verdicts(&elsewhere, first), [NEAR, "ok"]);
}

/// S-IPA-6, W-SEL-6: a term that does not parse refuses its own pod; in an existing pod its whole list is ignored.
#[test]
fn unparsable_terms() {
    let nodes = [node("n1", "a")];
    let nodes = nodes.each_ref().map(String::as_str);
    let own = message(&cluster(&nodes, &[]), "p prefer-far=1,host,app:In");
    assert!(own.starts_with("0/1 nodes are available: parsing pod: "), "{own}");
    let outcome = explain(&cluster(&nodes, &[]), "p far=host,app:In", PolicySpec::default());
    let Outcome::Unschedulable(unschedulable) = outcome.unwrap().decision.outcome else { panic!() };
    assert_eq!(unschedulable.pre_filter.map(|(plugin, ..)| plugin), Some(Plugin::InterPodAffinity));
    let theirs = "e node=n1 far=host,app:x far=host,app:In prefer-far=5,host,app:x";
    assert_eq!(verdicts(&cluster(&nodes, &[theirs]), "p label:app=x"), ["ok"]);
    let both = [node("n1", "a"), node("n2", "a")];
    let both = cluster(&both.each_ref().map(String::as_str), &[theirs]);
    let scores = scores(&both, "p label:app=x", Plugin::InterPodAffinity, PolicySpec::default());
    assert_eq!(scores, [(-5, 0), (0, 200)], "the preferred list is another one");
}

/// The example of section 3.6: S-IS-2 to S-IS-6.
#[test]
fn preferred_terms() {
    let nodes = [node("n1", "a"), node("n2", "b"), node("n3", "b")];
    let nodes = nodes.each_ref().map(String::as_str);
    let pods =
        ["a node=n1 label:app=x", "b node=n1 label:app=x", "c node=n3 label:app=x near=host,app:y"];
    let cluster = cluster(&nodes, &pods);
    let pod = "p label:app=y prefer-near=10,zone,app:x";
    let of = |pod: &str, spec| scores(&cluster, pod, Plugin::InterPodAffinity, spec);
    assert_eq!(of(pod, PolicySpec::default()), [(20, 200), (10, 0), (11, 20)]);
    let mut spec = PolicySpec::default();
    spec.inter_pod_affinity.hard_pod_affinity_weight = 0;
    assert_eq!(of(pod, spec.clone()), [(20, 200), (10, 0), (10, 0)]);
    // S-IS-1, S-IS-4
    assert_eq!(of("p label:app=y", PolicySpec::default()), [(0, 0), (0, 0), (1, 200)]);
    assert_eq!(of("p label:app=y", spec.clone()), [], "nothing was accumulated");
    spec.inter_pod_affinity.hard_pod_affinity_weight = 1;
    spec.inter_pod_affinity.ignore_preferred_terms_of_existing_pods = true;
    assert_eq!(of("p label:app=y", spec.clone()), []);
    assert_eq!(of(pod, spec), [(20, 200), (10, 0), (11, 20)]);
    assert_eq!(
        of("p prefer-far=3,zone,app:x", PolicySpec::default()),
        [(-6, 0), (-3, 200), (-3, 200)]
    );
}
