use serde_json::json;

use super::*;

/// The paths at which the answer is not as expected.
fn paths(function: &str, expect: &Value, answer: &Value) -> Vec<String> {
    let comparison = compare(function, expect.as_object().unwrap(), answer);
    comparison.unequal.into_iter().map(|unequal| unequal.path).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "`json!` reads better without a reference")]
fn check(expect: Value, answer: Value, unequal: &[&str]) {
    assert_eq!(paths("Evict", &expect, &answer), unequal, "{expect} of {answer}");
}

/// L-GEN-6 (2): every expected key is compared, and no other.
#[test]
fn objects_match_in_part() {
    check(json!({"a": {"b": 1}}), json!({"a": {"b": 1, "c": 2}, "d": 3}), &[]);
    check(json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 2}}), &["a.b", "a.c"]);
    check(json!({"a": {"b": 1}}), json!({"a": 1}), &["a"]);
    check(json!({"a": {"b": 1}}), json!({}), &["a"]);
    check(json!({"a": {}}), json!({}), &[]);
    check(json!({"a": {}}), json!({"a": {"b": 1}}), &[]);
    check(json!({"a": {}}), json!({"a": []}), &["a"]);
    check(json!({"a": {"b": null}}), json!({}), &["a"]);
    check(json!({"a": 1}), json!("not an object"), &[""]);
    check(json!({"a/b": {"c": 1}}), json!({"a/b": {"c": 2}}), &[r#"["a/b"].c"#]);
}

/// Berth's JSON includes fields that are `false`, `0` or an empty list.
#[test]
fn false_and_zero_and_empty_lists_are_written() {
    for value in [json!(false), json!(0), json!([])] {
        check(json!({"a": value}), json!({"a": value}), &[]);
        check(json!({"a": value}), json!({}), &["a"]);
        check(json!({"a": value}), json!({"a": null}), &["a"]);
    }
    check(json!({"a": ""}), json!({}), &[]);
    check(json!({"a": ""}), json!({"a": "x"}), &["a"]);
    check(json!({"a": "x"}), json!({}), &["a"]);
    check(json!({"a": false}), json!({"a": 0}), &["a"]);
    check(json!({"a": true}), json!({"a": false}), &["a"]);
}

/// L-GEN-6 (3): lists are compared element by element, in order, elements in part.
#[test]
fn lists_match_exactly_and_in_order() {
    check(json!({"a": ["x", "y"]}), json!({"a": ["x", "y"]}), &[]);
    check(json!({"a": ["x", "y"]}), json!({"a": ["y", "x"]}), &["a[0]", "a[1]"]);
    check(json!({"a": ["x"]}), json!({"a": ["x", "y"]}), &["a"]);
    check(json!({"a": ["x", "y"]}), json!({"a": ["x"]}), &["a"]);
    check(json!({"a": []}), json!({"a": ["x"]}), &["a"]);
    check(json!({"a": [{"b": 1}]}), json!({"a": [{"b": 1, "c": 2}]}), &[]);
    check(json!({"a": [{"b": 1}, {"b": 2}]}), json!({"a": [{"b": 1}, {"b": 3}]}), &["a[1].b"]);
    check(
        json!({"containersToKill": ["x", "y"]}),
        json!({"containersToKill": ["y", "x"]}),
        &["containersToKill[0]", "containersToKill[1]"],
    );
}

#[test]
fn only_the_lists_that_are_sets_match_in_any_order() {
    let expect = json!({"containersToKill": [{"name": "a"}, {"name": "b", "reason": "R"}]});
    let answer = |list: Value| json!({ "containersToKill": list });
    let check = |list: Value, unequal: &[&str]| {
        assert_eq!(paths("PlanContainers", &expect, &answer(list)), unequal);
    };
    check(json!([{"name": "b", "reason": "R"}, {"name": "a", "reason": ""}]), &[]);
    check(json!([{"name": "b", "reason": "S"}, {"name": "a"}]), &["containersToKill"]);
    check(json!([{"name": "a"}, {"name": "a"}]), &["containersToKill"]);
    check(json!([{"name": "a"}]), &["containersToKill"]);
    let all = ["blockedBy", "partitionedBlockers", "resolutions"];
    for list in all {
        let (expect, answer) = (json!({list: ["x", "y"]}), json!({list: ["y", "x"]}));
        assert!(paths("NamespaceDeletion", &expect, &answer).is_empty());
        assert_eq!(paths("Evict", &expect, &answer).len(), 2);
        assert_eq!(paths("NamespaceDeletion", &expect, &json!({list: ["x", "x"]})), [list]);
        assert_eq!(paths("NamespaceDeletion", &expect, &json!({})), [list]);
    }
    // A list of the same name elsewhere in the answer is not a set.
    let (expect, answer) =
        (json!({"a": {"blockedBy": ["x", "y"]}}), json!({"a": {"blockedBy": ["y", "x"]}}));
    assert_eq!(paths("NamespaceDeletion", &expect, &answer).len(), 2);
}

/// An element that fits two expected ones is paired with the one that nothing else fits.
#[test]
fn sets_are_paired_up_whatever_the_order() {
    let expect = json!({"containersToKill": [{}, {"name": "a"}, {"name": "a", "reason": "R"}]});
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let all = [
            json!({"name": "a", "reason": "R"}),
            json!({"name": "a", "reason": "S"}),
            json!({"name": "b", "reason": "R"}),
        ];
        let list: Vec<&Value> = order.iter().map(|&index| &all[index]).collect();
        let answer = json!({ "containersToKill": list });
        assert!(paths("PlanContainers", &expect, &answer).is_empty(), "{answer}");
    }
}

/// L-GEN-6 (4).
#[test]
fn null_is_absent_null_or_empty() {
    for nothing in [json!({}), json!({"a": null}), json!({"a": ""}), json!({"a": {}})] {
        check(json!({"a": null}), nothing, &[]);
    }
    for something in [json!(0), json!(false), json!([]), json!("x"), json!({"b": null})] {
        check(json!({"a": null}), json!({"a": something}), &["a"]);
    }
}

/// L-GEN-6 (5).
#[test]
fn conditions_are_keyed_by_type_and_null_is_not_there_at_all() {
    let expect = json!({"conditions": {"Ready": {"status": "True"}, "Initialized": null}});
    let check = |conditions: Value, unequal: &[&str]| {
        assert_eq!(paths("Evict", &expect, &json!({ "conditions": conditions })), unequal);
    };
    check(json!({"Ready": {"status": "True", "reason": "R"}, "Other": {}}), &[]);
    check(json!({"Ready": {"status": "False"}}), &["conditions.Ready.status"]);
    check(json!({}), &["conditions.Ready"]);
    check(json!({"Ready": {"status": "True"}, "Initialized": {}}), &["conditions.Initialized"]);
    check(json!({"Ready": {"status": "True"}, "Initialized": null}), &["conditions.Initialized"]);
    check(json!([{"type": "Ready", "status": "True"}]), &["conditions"]);
    let none = json!({"conditions": {"Ready": null}});
    assert!(paths("Evict", &none, &json!({})).is_empty());
}

/// L-GEN-6 (6).
#[test]
fn numbers_and_instants_compare_by_value() {
    check(json!({"a": 1}), json!({"a": 1.0}), &[]);
    check(json!({"a": 1}), json!({"a": 2}), &["a"]);
    check(json!({"a": 1}), json!({"a": "1"}), &["a"]);
    check(json!({"a": i64::MAX}), json!({"a": i64::MAX - 1}), &["a"]);
    check(json!({"rate": 0.1}), json!({"rate": 0.100_000_9}), &[]);
    check(json!({"rate": 0.1}), json!({"rate": 0.100_001_1}), &["rate"]);
    check(json!({"rate": 0}), json!({"rate": 0.01}), &["rate"]);
    let noon = json!({"at": "2026-01-10T12:00:00Z"});
    check(noon.clone(), json!({"at": "2026-01-10T13:00:00+01:00"}), &[]);
    check(noon.clone(), json!({"at": "2026-01-10T12:00:01Z"}), &["at"]);
    check(noon.clone(), json!({"at": "noon"}), &["at"]);
    check(noon, json!({}), &["at"]);
    check(json!({"a": "x"}), json!({"a": "X"}), &["a"]);
}

/// L-GEN-6 (7).
#[test]
fn disrupted_pods_match_as_a_whole() {
    let expect = json!({"disruptedPods": {"p": "2026-01-10T12:00:00Z"}});
    check(expect.clone(), json!({"disruptedPods": {"p": "2026-01-10T13:00:00+01:00"}}), &[]);
    for other in [
        json!({"disruptedPods": {"p": "2026-01-10T12:00:00Z", "q": "2026-01-10T12:00:00Z"}}),
        json!({"disruptedPods": {"p": "2026-01-10T12:00:01Z"}}),
        json!({"disruptedPods": {"q": "2026-01-10T12:00:00Z"}}),
        json!({"disruptedPods": {}}),
        json!({"disruptedPods": ["p"]}),
        json!({}),
    ] {
        check(expect.clone(), other, &["disruptedPods"]);
    }
    check(json!({"disruptedPods": {}}), json!({}), &[]);
    check(json!({"disruptedPods": {}}), json!({"disruptedPods": {"p": null}}), &["disruptedPods"]);
}

#[test]
fn differences_are_listed_and_equal_values_counted() {
    let expect = json!({"a": 1, "b": [true, "x"], "c": [], "d": {}});
    let comparison =
        compare("Evict", expect.as_object().unwrap(), &json!({"a": 2, "b": [true, "x"]}));
    assert_eq!(comparison.n_equal, 3);
    let [a, c] = &comparison.unequal[..] else { panic!("{comparison:?}") };
    assert_eq!((a.path.as_str(), a.expected.as_str(), a.answered.as_str()), ("a", "1", "2"));
    assert_eq!((c.path.as_str(), c.expected.as_str(), c.answered.as_str()), ("c", "[]", "nothing"));
}
