use super::{AttributeValue, Device, Evaluation, Program};

fn check(source: &str, expected: Option<bool>) {
    let attributes = [("a", AttributeValue::Int(1)), ("b", AttributeValue::Version("1.2.3"))];
    let device = Device::new("d", false, attributes, [("c", "2Gi")]);
    let Evaluation { result, .. } = Program::compile(source).unwrap().evaluate(&device);
    assert_eq!(result.as_ref().ok().copied(), expected, "{source}: {result:?}");
}

/// Programs and devices are shared among the threads of a decision.
#[test]
fn programs_and_devices_are_shared_among_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Program>();
    is_shared::<Device>();
}

/// S-DRA-114: errors are absorbed in both orders, and results of macros are lists and maps.
#[test]
fn the_language() {
    for (source, expected) in [
        ("false && 1 / 0 == 1", Some(false)),
        ("1 / 0 == 1 && false", Some(false)),
        ("1 / 0 == 1 || false", None),
        ("[0, 1].exists(x, 1 / x == 1)", Some(true)),
        ("[0, 1].all(x, 1 / x == 1)", None),
        ("[0, 2].all(x, 1 / x == 1)", Some(false)),
        ("[1, 2, 3].filter(x, x > 1).map(x, x * 10) == [20, 30]", Some(true)),
        ("['a', 'b'].transformMap(i, v, v + string(i)) == {0: 'a0', 1: 'b1'}", Some(true)),
        ("{'a': 1}.transformMapEntry(k, v, {v: k})[1] == 'a'", Some(true)),
        ("[3, 1, 2].sortBy(x, -x) == [3, 2, 1]", Some(true)),
        ("cel.bind(x, 1 / 0, true)", Some(true)),
        ("optional.of(1).optMap(x, x + 1).value() == 2", Some(true)),
        ("optional.none().optFlatMap(x, optional.of(1)).hasValue()", Some(false)),
        ("[?optional.none(), ?optional.of(2)].size() == 1", Some(true)),
        ("{'a': {'b': 1}}.?a.?b.orValue(2) == 1", Some(true)),
        ("[1, 2][?5].orValue(7) == 7", Some(true)),
        ("quantity('1') == dyn(1)", None),
        ("quantity('1') != dyn(1)", Some(true)),
        ("dyn(1) == quantity('1')", Some(false)),
        ("-9223372036854775808 < 0 && --1 == 1 && !!true", Some(true)),
        ("size('\\u00e9\\x41') == 2 && b'\\xff'.size() == 1 && r'\\n'.size() == 2", Some(true)),
        ("timestamp('2024-02-29T00:00:00Z').getDayOfYear() == 59", Some(true)),
    ] {
        check(source, expected);
    }
}

/// S-DRA-115: a call of each library.
#[test]
fn the_libraries() {
    for source in [
        "'tacocat'.charAt(3) == 'o' && 'tacocat'.lastIndexOf('c') == 4 && ''.indexOf('a') == -1",
        "'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'abc'.split('') == ['a', 'b', 'c']",
        "strings.quote('a\"b') == '\"a\\\\\"b\"'",
        "sets.equivalent([1, 2], [2, 1, 1]) && !sets.intersects([1], [2])",
        "[1, 2, 2].distinct().size() == 2 && [[1], [2]].flatten() == [1, 2]",
        "[1, 2, 3].slice(1, 2) == [2] && [1, 2].reverse()[0] == 2 && [2, 1].sort()[0] == 1",
        "[1, 2].first().value() == 1 && [1, 2].last().value() == 2",
        "[1, 2].sum() == 3 && [1, 2].max() == 2 && [1, 2].isSorted() && [1, 2].indexOf(2) == 1",
        "'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1'.find('[0-9]') == '1'",
        "url('https://a:1/b?c=d').getQuery()['c'] == ['d'] && isURL('/a') && !isURL('a')",
        "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.1.1')",
        "cidr('10.1.0.0/8').masked() == cidr('10.0.0.0/8') && isIP('::1') && !isCIDR('x')",
        "!format.dns1123Label().validate('a-b').hasValue() && format.named('uuid').hasValue()",
        "quantity('1Ki').add(1).sub(quantity('1')).asInteger() == 1024",
        "semver('v1', true).major() == 1 && isSemver('1.2.3') && !isSemver('1.2')",
    ] {
        check(source, Some(true));
    }
}
