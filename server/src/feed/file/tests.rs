use std::collections::BTreeMap;

use super::*;

fn parse_text(text: &str) -> Dump {
    parse(&Arc::from("dump"), text, UnknownFields::Warn).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> Vec<String> {
    parse_text(text).refused.iter().map(ToString::to_string).collect()
}

fn whole_error(text: &str) -> String {
    parse(&Arc::from("dump"), text, UnknownFields::Warn)
        .map(|dump| format!("{dump:?}"))
        .unwrap_err()
        .to_string()
}

/// Returns `NAME@LINE` of every node and pod.
fn places(dump: &Dump) -> Vec<String> {
    let name = |metadata: &Option<berth_proto::meta_v1::ObjectMeta>| {
        metadata.clone().unwrap_or_default().name
    };
    let nodes = dump
        .nodes
        .iter()
        .map(|node| format!("{}@{}", name(&node.value.metadata), node.location.line));
    let pods =
        dump.pods.iter().map(|pod| format!("{}@{}", name(&pod.value.metadata), pod.location.line));
    nodes.chain(pods).collect()
}

const LIST: &str = r#"{
  "apiVersion": "v1",
  "items": [
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}},
    {
      "metadata": {"name": "web-0", "namespace": "default"},
      "kind": "Pod",
      "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m", "memory": 1024}}}]}
    },
    {"kind": "Secret", "metadata": {"name": "s"}}
  ],
  "kind": "List"
}"#;

#[test]
fn a_json_list_is_read_with_the_line_of_every_item() {
    let dump = parse_text(LIST);
    assert_eq!(places(&dump), ["n1@4", "web-0@5"]);
    assert_eq!(dump.ignored_kinds, BTreeMap::from([("Secret".to_owned(), 1)]));
    assert_eq!(dump.pods[0].location.to_string(), "dump:5 (document 0, item 1)");
    let container = &dump.pods[0].value.spec.as_ref().unwrap().containers[0];
    let requests = &container.resources.as_ref().unwrap().requests;
    assert_eq!(requests["cpu"].parse().unwrap().milli_value(), 1500);
    assert_eq!(requests["memory"].parse().unwrap().value(), 1024);
}

#[test]
fn yaml_says_the_same_as_json() {
    let yaml = "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata:\n    name: n1\n\
                - metadata: {name: web-0, namespace: default}\n  kind: Pod\n  spec:\n    containers:\n    - name: c\n      \
                resources:\n        requests:\n          cpu: 1500m\n          memory: 1024\n\
                - {kind: Secret, metadata: {name: s}}\nkind: List\n";
    let (from_yaml, from_json) = (parse_text(yaml), parse_text(LIST));
    assert_eq!(places(&from_yaml), ["n1@3", "web-0@7"]);
    assert_eq!(from_yaml.ignored_kinds, from_json.ignored_kinds);
    assert_eq!(from_yaml.nodes[0].value, from_json.nodes[0].value);
    assert_eq!(from_yaml.pods[0].value, from_json.pods[0].value);
}

#[test]
fn several_documents_and_typed_lists_are_read() {
    let json = "{\"kind\":\"NodeList\",\"items\":[{\"metadata\":{\"name\":\"n1\"}}]}\n\
                {\"kind\":\"Node\",\"metadata\":{\"name\":\"n2\"}}{\"kind\":\"PodList\",\"items\":null}\n\
                {\"kind\":\"EventList\",\"items\":[{}, {}]}";
    let dump = parse_text(json);
    assert_eq!(places(&dump), ["n1@1", "n2@2"]);
    assert_eq!(dump.nodes[1].location.to_string(), "dump:2 (document 1)");
    assert_eq!(dump.ignored_kinds.values().sum::<usize>(), 2);

    let yaml = "# nodes\n---\nkind: Node\nmetadata: {name: n1}\n---\n---\nkind: List\nitems:\n- kind: Node\n  metadata: {name: n2}\n";
    assert_eq!(places(&parse_text(yaml)), ["n1@3", "n2@9"]);
}

#[test]
fn yaml_scalars_keep_their_meaning() {
    let yaml = "kind: Pod\nmetadata:\n  name: \"123\"\n  labels: {zone: no, on: \"true\", version: \"1.10\"}\n  \
                annotations: {note: \"a\\nb \\\"c\\\" \\u0001\"}\nspec: {priority: -5, hostNetwork: true, nodeName: null}\n";
    let pod = &parse_text(yaml).pods[0].value;
    let metadata = pod.metadata.as_ref().unwrap();
    assert_eq!(metadata.name, "123");
    assert_eq!(metadata.labels["zone"], "no");
    assert_eq!(metadata.labels["on"], "true");
    assert_eq!(metadata.labels["version"], "1.10");
    assert_eq!(metadata.annotations["note"], "a\nb \"c\" \u{1}");
    let spec = pod.spec.as_ref().unwrap();
    assert_eq!((spec.priority, spec.host_network, spec.node_name.as_str()), (Some(-5), true, ""));
}

#[test]
fn a_bad_item_is_refused_alone_with_line_and_field() {
    let json = "{\"kind\":\"List\",\"items\":[\n{\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\"}},\n\
                {\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"namespace\":\"ns\"},\n \"spec\":{\"containers\":[{\"ports\":7}]}},\n\
                {\"metadata\":{\"name\":\"x\"}},\n7,\n{\"kind\":5},\n{\"kind\":\"List\",\"items\":[]},\n\
                {\"kind\":\"Node\",\"metadata\":{\"name\":\"n2\"}}]}";
    assert_eq!(places(&parse_text(json)), ["n1@2", "n2@9"]);
    let refused = refused(json);
    assert_eq!(refused.len(), 5, "{refused:#?}");
    assert_eq!(
        refused[0],
        "dump:4 (document 0, item 1): Pod `ns/p`: `spec.containers[0].ports`: invalid type: integer `7`, expected a list"
    );
    assert_eq!(refused[1], "dump:5 (document 0, item 2): object `x`: `kind`: must be set");
    assert!(
        refused[2]
            .starts_with("dump:6 (document 0, item 3): object: `kind`: invalid type: integer `7`"),
        "{refused:#?}"
    );
    assert!(
        refused[3]
            .starts_with("dump:7 (document 0, item 4): object: `kind`: invalid type: integer `5`"),
        "{refused:#?}"
    );
    assert_eq!(
        refused[4],
        "dump:8 (document 0, item 5): List: `kind`: a list inside a list is not read"
    );
}

#[test]
fn a_yaml_key_given_twice_refuses_its_item() {
    let yaml = "kind: List\nitems:\n- kind: Pod\n  metadata: {name: p, namespace: ns, labels: {a: x, a: y}}\n\
                - kind: Pod\n  metadata: {name: q, namespace: ns}\n  spec:\n    containers:\n    - name: c\n      name: d\n\
                - kind: Node\n  metadata: {name: n1}\n";
    assert_eq!(places(&parse_text(yaml)), ["n1@11"]);
    assert_eq!(
        refused(yaml),
        [
            "dump:3 (document 0, item 0): Pod `ns/p`: `metadata.labels.a`: the key is given twice",
            "dump:5 (document 0, item 1): Pod `ns/q`: `spec.containers[0].name`: the key is given twice",
        ]
    );
}

#[test]
fn whole_file_errors_name_line_and_column() {
    assert_eq!(whole_error(" \n"), "`dump` holds no Kubernetes object");
    assert_eq!(
        whole_error("{\"kind\":\"List\",\n\"items\":[{\"kind\":\"Node\""),
        "dump:2:24: the text ends inside a value; the file is probably cut off"
    );
    assert_eq!(whole_error("[1]"), "dump:1:1: expected a Kubernetes object or list");
    assert_eq!(
        whole_error(
            "{\"kind\":\"List\",\n \"items\":[{\"kind\":\"Pod\",\n\"spec\":{\"a\":\"\\q\"}}]}"
        ),
        "dump:3:15: invalid escape"
    );
    assert_eq!(whole_error("{\"kind\":\"Foo\",\n \"x\": \"\\q\"}"), "dump:2:9: invalid escape");
    assert!(
        whole_error("{\"kind\":\"List\",\"items\":{}}")
            .contains("`items` of a list must be an array")
    );
    let text = whole_error("kind: Node\nmetadata: {name: n1\nspec: {}\n");
    assert!(text.starts_with("dump:"), "{text}");
    assert_eq!(whole_error("just words\n"), "dump:1:1: expected a Kubernetes object or list");
    let deep = format!("kind: Pod\nspec: {}{}\n", "[".repeat(100), "]".repeat(100));
    assert!(
        whole_error(&deep).ends_with(": nested more than 64 levels deep"),
        "{}",
        whole_error(&deep)
    );
}

#[test]
fn a_key_of_the_frame_given_twice_spoils_the_file() {
    let twice = |key: &str, place: &str| format!("dump:{place}: `{key}` is given twice");
    let check =
        |text: &str, key: &str, place: &str| assert_eq!(whole_error(text), twice(key, place));
    check("{\"kind\":\"Node\",\n\"kind\":\"Pod\"}", "kind", "2:1");
    check("{\"apiVersion\":\"v1\",\"apiVersion\":\"v1\",\"kind\":\"Node\"}", "apiVersion", "1:20");
    check("{\"items\":[],\"kind\":\"List\",\n \"items\":[]}", "items", "2:2");
    for yaml in ["kind: List\nitems: []\nitems: []\n", "kind: Node\nmetadata: {}\nkind: Pod\n"] {
        let error = whole_error(yaml);
        assert!(error.starts_with("dump:") && error.ends_with("` is given twice"), "{error}");
    }
}

#[test]
fn inside_an_object_the_last_of_two_keys_wins() {
    let json = "{\"kind\":\"List\",\"items\":[{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"name\":\"b\"},\"kind\":\"Node\"}]}";
    let dump = parse_text(json);
    assert_eq!((places(&dump), dump.pods.len()), (vec!["b@1".to_owned()], 0), "W-JS-8");
}

#[test]
fn items_without_a_kind_are_a_torn_file() {
    for text in [
        "{\"apiVersion\":\"v1\",\"items\":[{\"kind\":\"Node\"}]}",
        "apiVersion: v1\nitems:\n- kind: Node\n",
    ] {
        assert_eq!(
            whole_error(text),
            "dump:1:1: holds `items` but no `kind`; the file is probably cut off"
        );
    }
}

#[test]
fn other_versions_and_groups_are_not_taken_for_v1() {
    let json = "{\"kind\":\"List\",\"items\":[{\"kind\":\"Node\",\"apiVersion\":\"v2\",\"metadata\":{\"name\":\"a\"}},\n\
                {\"kind\":\"Node\",\"apiVersion\":\"config.example.com/v1\"},{\"kind\":\"Node\",\"metadata\":{\"name\":\"b\"}}]}\n\
                {\"kind\":\"PodList\",\"apiVersion\":\"v3\",\"items\":[{\"metadata\":{\"name\":\"p\"}}]}";
    let dump = parse_text(json);
    assert_eq!(places(&dump), ["b@2"]);
    assert_eq!(
        dump.ignored_kinds,
        BTreeMap::from([("Node (config.example.com/v1)".to_owned(), 1)])
    );
    assert_eq!(
        refused(json),
        [
            "dump:1 (document 0, item 0): Node `a`: `apiVersion`: `v2` is not read; a `Node` is of `v1`",
            "dump:3 (document 1, item 0): Pod `p`: `apiVersion`: `v3` is not read; a `Pod` is of `v1`",
        ]
    );
    assert_eq!(
        refused("apiVersion: v2\nkind: Node\nmetadata: {name: a}\n"),
        ["dump:1 (document 0): Node `a`: `apiVersion`: `v2` is not read; a `Node` is of `v1`"]
    );
}

/// One object of each kind reaches the engine.
#[test]
fn every_kind_that_placements_depend_on_is_read() {
    let items: Vec<String> = berth_engine::ObjectKind::ALL
        .iter()
        .map(|kind| {
            let version = kind.api_version();
            format!(
                r#"{{"apiVersion": "{version}", "kind": "{kind}", "metadata": {{"name": "x"}}}}"#
            )
        })
        .collect();
    let dump = parse_text(&format!(r#"{{"kind": "List", "items": [{}]}}"#, items.join(",\n")));
    let kinds: Vec<_> = dump.objects.iter().map(|object| object.value.as_wire().kind()).collect();
    assert_eq!(kinds, berth_engine::ObjectKind::ALL);
    assert_eq!((dump.refused.len(), dump.ignored_kinds.len()), (0, 0));
    for (index, object) in dump.objects.iter().enumerate() {
        assert_eq!(object.location.line, index as u64 + 1);
        assert_eq!(object.value.as_wire().metadata().unwrap().name, "x");
    }
}

#[test]
fn a_kind_is_known_by_its_group() {
    let yaml = "kind: CSINodeList\napiVersion: storage.k8s.io/v1\nitems:\n- metadata: {name: a}\n\
                ---\napiVersion: serving.knative.dev/v1\nkind: Service\n---\napiVersion: extensions/v1beta1\nkind: ReplicaSet\n\
                ---\napiVersion: storage.k8s.io/v1beta1\nkind: StorageClass\nmetadata: {name: old}\n\
                ---\napiVersion: apps/v1\nkind: StatefulSet\nmetadata: {namespace: d, name: s}\nspec: {replicas: many}\n\
                ---\napiVersion: v1\nkind: List\nitems:\n- kind: ReplicaSet\n  metadata: {name: r}\n";
    let dump = parse_text(yaml);
    let names: Vec<_> = dump
        .objects
        .iter()
        .map(|object| format!("{}@{}", object.value.as_wire().kind(), object.location.line))
        .collect();
    assert_eq!(names, ["CSINode@4", "ReplicaSet@24"]);
    assert_eq!(
        dump.ignored_kinds.keys().collect::<Vec<_>>(),
        ["ReplicaSet (extensions/v1beta1)", "Service (serving.knative.dev/v1)"]
    );
    assert_eq!(
        refused(yaml),
        [
            "dump:12 (document 3): StorageClass `old`: `apiVersion`: `storage.k8s.io/v1beta1` is not read; a `StorageClass` is of `storage.k8s.io/v1`",
            "dump:19 (document 4): StatefulSet `d/s`: `spec.replicas`: invalid type: string \"many\", expected a 32-bit integer",
        ]
    );
}

#[test]
fn a_list_may_say_its_kind_after_its_items() {
    let json = "{\"items\":[{\"metadata\":{\"name\":\"a\"}},\n{\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\"}}],\"kind\":\"NodeList\"}";
    assert_eq!(places(&parse_text(json)), ["a@1", "p@2"]);
    assert_eq!(
        whole_error("{\"items\":[],\"kind\":\"Pod\"}"),
        "dump:1:1: `items` stands in a `Pod`, which is no list"
    );
}

/// Texts longer than a batch, with escapes and brackets at every possible end of a chunk.
#[test]
fn long_lists_are_cut_at_any_byte() {
    let mut text = String::from("{\"kind\":\"List\",\"items\":[\n");
    let n_items = 12_000;
    for index in 0..n_items {
        let note = "\\\\\\\"]}{[ж".repeat(100 + index % 7);
        let separator = if index == 0 { "" } else { ",\n" };
        text.push_str(&format!(
            "{separator}{{\"kind\":\"Pod\",\"metadata\":{{\"name\":\"p{index}\",\"annotations\":{{\"a\":\"{note}\"}}}}}}"
        ));
    }
    text.push_str("]}");
    assert!(text.len() > 10 << 20);
    let dump = parse_text(&text);
    assert_eq!((dump.pods.len(), dump.refused.len()), (n_items, 0));
    for (index, pod) in dump.pods.iter().enumerate() {
        assert_eq!(pod.value.metadata.as_ref().unwrap().name, format!("p{index}"));
        assert_eq!((pod.location.line, pod.location.item), (index as u64 + 2, Some(index)));
    }
}

#[test]
fn yaml_cannot_grow_without_bound() {
    let mut bomb = String::from("kind: Pod\nmetadata:\n  name: p\na: &a [x,x,x,x,x,x,x,x,x,x]\n");
    for (level, previous) in
        ["b", "c", "d", "e", "f", "g", "h"].iter().zip(["a", "b", "c", "d", "e", "f", "g"])
    {
        let aliases = vec![format!("*{previous}"); 10].join(",");
        bomb.push_str(&format!("{level}: &{level} [{aliases}]\n"));
    }
    let error = whole_error(&bomb);
    assert!(error.starts_with("dump:"), "{error}");

    let deep = format!("kind: Pod\nspec: {}{}\n", "[".repeat(5_000), "]".repeat(5_000));
    assert!(whole_error(&deep).starts_with("dump:"));

    let big = "x".repeat(1 << 20);
    let text = format!("kind: Pod\na: &a {big}\nb: [{}]\n", vec!["*a"; 1000].join(","));
    assert!(whole_error(&text).starts_with("dump:"));
}

#[test]
fn deep_json_is_refused_without_harm() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let unknown = format!("{{\"kind\":\"Pod\",\"metadata\":{{\"name\":\"p\"}},\"x\":{deep}}}");
    assert_eq!(parse_text(&unknown).pods.len() + parse_text(&unknown).refused.len(), 1);
    let known = format!(
        "{{\"kind\":\"Pod\",\"metadata\":{{\"name\":\"p\"}},\"spec\":{{\"containers\":{deep}}}}}"
    );
    assert_eq!(refused(&known).len(), 1);
}

/// Cuts, repeats and overwrites pieces of real text, some thousand times, by a fixed sequence.
#[test]
fn mutated_dumps_never_panic() {
    let yaml = "kind: List\nitems:\n- kind: Pod\n  metadata: {name: p, labels: {a: &x b}}\n  spec: {nodeName: *x}\n";
    let pieces = [
        "{", "}", "[", "]", "\"", ":", ",", "\n", "&x ", "*x", "- ", "---\n", "null", "1e999",
        "\\u12", "é", "\t", "#", "!!",
    ];
    let mut random = 88_172_645_463_325_252_u64;
    let mut next = |n: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % n as u64).unwrap()
    };
    let mut n_errors = 0;
    for round in 0..4_000 {
        let mut text: Vec<char> = if round % 2 == 0 { LIST } else { yaml }.chars().collect();
        for _ in 0..=next(4) {
            let (from, to) = (next(text.len()), next(text.len()));
            let (from, to) = (from.min(to), from.max(to).min(from + 12));
            text.splice(from..to.max(from), pieces[next(pieces.len())].chars());
        }
        n_errors += usize::from(
            parse(&Arc::from("dump"), &String::from_iter(text), UnknownFields::Warn).is_err(),
        );
    }
    assert!((100..4_000).contains(&n_errors), "{n_errors} of 4000 were errors");
}

#[test]
fn arbitrary_text_never_panics() {
    for text in [
        "{",
        "}",
        "{\"kind\":",
        "\u{0}",
        "- - -",
        "? :",
        "&a *a",
        "%YAML 9",
        "\"",
        "{\"kind\":\"Pod\",\"kind\":\"Node\"}",
        "---",
        "!!x y",
    ] {
        drop(parse(&Arc::from("dump"), text, UnknownFields::Warn));
    }
}

/// A reload of the wrong file must not empty the cluster; an empty list stands for an empty cluster.
#[test]
fn files_without_anything_that_is_read_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secrets.yaml");
    let load = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let outcome = load_files(
            &berth_engine::Cluster::new(),
            std::slice::from_ref(&path),
            UnknownFields::Refuse,
        );
        outcome.map(|report| report.n_taken).map_err(|error| error.to_string())
    };
    let shown = path.display();
    let expected = format!(
        "nothing in `{shown}` is of a kind that is read; there are only others, such as `Secret`"
    );
    assert_eq!(load("kind: Secret\nmetadata: {name: s}\n"), Err(expected));
    assert_eq!(load("kind: List\nitems: []\n"), Ok(0));
    assert_eq!(load("kind: Secret\n---\nkind: Node\nmetadata: {name: n}\n"), Ok(1));
    // Refused object by object, as usual.
    assert_eq!(load("kind: Secret\n---\nkind: Node\nmetadata: {name: 7}\n"), Ok(0));
}

/// The refusals of a text that is read strictly.
fn refused_strictly(text: &str) -> Vec<String> {
    let dump = parse(&Arc::from("dump"), text, UnknownFields::Refuse).unwrap();
    dump.refused.iter().map(ToString::to_string).collect()
}

fn warnings(text: &str) -> Vec<String> {
    parse_text(text).warnings.lines().collect()
}

/// W-JS-12.
#[test]
fn unknown_fields_are_named_with_line_path_and_nearest_name() {
    let yaml = "kind: List\napiVersion: v1\nitems:\n- kind: Pod\n  metadata: {name: p}\n  spec:\n    nodeSelctor: {a: b}\n    \
                containers:\n    - name: c\n      env:\n      - {name: A, valeu: x}\n- kind: Node\n  metadata: {name: n}\n";
    let expected = [
        "dump:7 (document 0, item 0): Pod `p`: `spec.nodeSelctor`: unknown field; did you mean `nodeSelector`?; line 11: \
         `spec.containers[0].env[0].valeu`: unknown field; did you mean `value`?",
    ];
    assert_eq!(refused_strictly(yaml), expected);
    assert_eq!(warnings(yaml), expected);
    assert_eq!((parse_text(yaml).pods.len(), parse_text(yaml).nodes.len()), (1, 1));
    let json = "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n{\"apiVersion\": \"v1\", \"kind\": \"Pod\",\n\
                \"metadata\": {\"name\": \"p\",\n \"lables\": {}}, \"spec\": {\"containers\": [{\"name\": \"c\"}]}}]}\n\
                {\"kind\": \"Service\", \"apiVersion\": \"v1\", \"metadata\": {\"name\": \"s\"},\n\"spec\": {\"Selector\": {}}}";
    assert_eq!(
        refused_strictly(json),
        [
            "dump:4 (document 0, item 0): Pod `p`: `metadata.lables`: unknown field; did you mean `labels`?",
            "dump:6 (document 1): Service `s`: `spec.Selector`: unknown field; did you mean `selector`?",
        ]
    );
}

#[test]
fn known_fields_that_are_not_read_are_no_fault() {
    let yaml = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  managedFields: [{manager: m, fieldsV1: {\"f:x\": {}}}]\n  \
                annotations: {any/thing: x}\nspec:\n  dnsConfig: {options: [{name: ndots, value: \"2\"}]}\n  \
                containers:\n  - {name: c, stdin: true, securityContext: {capabilities: {drop: [ALL]}},\n     \
                env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]}\n";
    assert!(refused_strictly(yaml).is_empty(), "{:?}", refused_strictly(yaml));
    assert!(warnings(yaml).is_empty());
}

#[test]
fn a_pod_without_containers_is_a_fault() {
    for yaml in ["kind: Pod\nmetadata: {name: p}\n", "kind: Pod\nmetadata: {name: p}\nspec: {}\n"] {
        let expected = [
            "dump:1 (document 0): Pod `p`: `spec.containers`: required; a pod has at least one container",
        ];
        assert_eq!(refused_strictly(yaml), expected);
        assert_eq!(warnings(yaml), expected);
    }
}

#[test]
fn other_fields_of_a_list_are_faults() {
    let expected = ["dump:2 (document 0): List: `item`: unknown field; did you mean `items`?"];
    for text in [
        "kind: List\nitem: []\nmetadata: {resourceVersion: \"\"}\n",
        "{\"kind\": \"List\",\n\"item\": []}",
    ] {
        assert_eq!(refused_strictly(text), expected);
        assert_eq!(warnings(text), expected);
    }
    assert!(
        refused_strictly("{\"metadata\": {}, \"kind\": \"PodList\", \"items\": []}").is_empty()
    );
}

#[test]
fn kinds_that_cannot_be_are_listed_apart() {
    let yaml = "kind: Nod\nmetadata: {name: n}\n---\nkind: Secret\n---\napiVersion: example.com/v1\nkind: Nod\n---\n\
                apiVersion: apps/v1\nkind: Pod\nmetadata: {name: p}\n---\nkind: PodsList\napiVersion: v1\nitems:\n- metadata: {name: q}\n";
    let dump = parse_text(yaml);
    let misspelt: Vec<String> = dump.misspelt_kinds.lines().collect();
    assert_eq!(
        misspelt,
        [
            "dump:1 (document 0): Nod `n`: `kind`: unknown kind `Nod`; did you mean `Node`?",
            "dump:9 (document 3): Pod `p`: `kind`: `apps/v1` has no `Pod`; a `Pod` is of `v1`",
            "dump:16 (document 4, item 0): Pods `q`: `kind`: unknown kind `Pods`; did you mean `Pod`?",
        ]
    );
    assert_eq!(
        dump.ignored_kinds.into_iter().collect::<Vec<_>>(),
        [("Nod", 2), ("Pod (apps/v1)", 1), ("Pods", 1), ("Secret", 1)]
            .map(|(kind, n)| (kind.to_owned(), n))
    );
    assert!(dump.refused.is_empty() && dump.warnings.is_empty());
}

/// W-JS-13.
#[test]
fn an_older_version_is_read_with_a_warning_and_its_meaning() {
    let budget = |version: &str, selector: &str| {
        let text = format!(
            "apiVersion: policy/{version}\nkind: PodDisruptionBudget\nmetadata: {{name: b, namespace: d}}\nspec: {{{selector}}}\n"
        );
        let dump = parse(&Arc::from("dump"), &text, UnknownFields::Refuse).unwrap();
        let WrittenObject::PodDisruptionBudget(budget) = dump.objects[0].value.clone() else {
            panic!()
        };
        (budget.spec.unwrap().selector.is_some(), dump.warnings.lines().collect::<Vec<_>>())
    };
    let warning = "dump:1 (document 0): PodDisruptionBudget `d/b`: `apiVersion`: `policy/v1beta1` is an older version, \
                   read as `policy/v1`";
    assert_eq!(budget("v1", "selector: {}"), (true, Vec::new()));
    // An empty selector of v1beta1 matches nothing, which in v1 no selector does.
    assert_eq!(budget("v1beta1", "selector: {}"), (false, vec![warning.to_owned()]));
    let labels = "selector: {matchLabels: {a: b}}";
    assert_eq!(budget("v1beta1", labels), (true, vec![warning.to_owned()]));
}

/// W-JS-13: v1beta2 has the shape of v1; that of v1beta1 differs.
#[test]
fn devices_of_v1beta2_are_read_and_those_of_v1beta1_refused() {
    for kind in ["DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate"] {
        let text = |version: &str| {
            format!(
                r#"{{"apiVersion": "resource.k8s.io/{version}", "kind": "{kind}", "metadata": {{"name": "x"}}}}"#
            )
        };
        let older = parse_text(&text("v1beta2"));
        assert_eq!((older.objects.len(), older.warnings.lines().count()), (1, 1), "{kind}");
        let expected = format!(
            "dump:1 (document 0): {kind} `x`: `apiVersion`: `resource.k8s.io/v1beta1` is not read; a `{kind}` is of \
             `resource.k8s.io/v1`"
        );
        assert_eq!(refused(&text("v1beta1")), [expected]);
    }
}

#[test]
fn flow_style_is_yaml_when_it_is_not_json() {
    let names = |text: &str| places(&parse_text(text));
    assert_eq!(names("{kind: Node, metadata: {name: a}}\n"), ["a@1"]);
    assert_eq!(names("\u{feff}{\"kind\": \"Node\", metadata: {name: a},}\n"), ["a@1"]);
    assert_eq!(
        names(
            "{\n  # one\n  kind: Node, metadata: {name: a}}\n---\n# two\n{kind: Node, metadata: {name: b}}\n"
        ),
        ["a@1", "b@6"]
    );
    assert_eq!(
        names(
            "{\"kind\": \"Node\", \"metadata\": {\"name\": \"a\"}}\n---\n{\"kind\": \"Node\", \"metadata\": {\"name\": \"b\"}}\n"
        ),
        ["a@1", "b@3"]
    );
    assert_eq!(names("--- # first\n{kind: Node, metadata: {name: a}}\n...\n--- # none\n"), ["a@2"]);
    // What is neither has the error of JSON.
    assert!(whole_error("{\"kind\": \"Node\"").contains("the text ends inside a value"));
}

#[test]
fn tabs_have_an_error_of_their_own() {
    assert_eq!(
        whole_error("kind: Pod\nspec:\n\tcontainers: []\n"),
        "dump:3:1: the line is indented with a tab, YAML allows only spaces there"
    );
}
