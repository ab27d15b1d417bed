use std::io::Write as _;
use std::path::{Path, PathBuf};

use berth_testing::recorded;

use super::super::{Event, Order, Trace, TraceError, expected};
use super::{GPU_MODEL_LABEL, GPU_RESOURCE, read};

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\n";
const PODS: &str =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n";

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn file(dir: &tempfile::TempDir, name: &str, text: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Reads node and pod lines below their usual headers.
fn read_text(nodes: &str, pods: &str) -> Result<Trace, String> {
    let dir = tempfile::tempdir().unwrap();
    let nodes = file(&dir, "nodes.csv", format!("{NODES}{nodes}").as_bytes());
    let pods = file(&dir, "pods.csv", format!("{PODS}{pods}").as_bytes());
    let prefix = format!("{}/", dir.path().display());
    read(&nodes, &pods).map_err(|error| error.to_string().replace(&prefix, ""))
}

fn own() -> Trace {
    read(&data("nodes.csv"), &data("pods.csv")).unwrap()
}

#[test]
fn tasks_come_by_creation_then_by_file() {
    let trace = own();
    assert_eq!(trace.nodes.len(), 5);
    let names: Vec<&str> = trace.tasks.iter().map(|task| task.name.as_str()).collect();
    let expected = [
        "web-0", "web-1", "early-0", "train-0", "train-1", "share-0", "share-1", "train-2",
        "huge-0", "train-3", "same-0", "late-0",
    ];
    assert_eq!(names, expected);
    assert_eq!(trace.tasks[11].deletion_time, None);
}

#[test]
fn departures_come_before_arrivals_of_the_same_time() {
    let trace = own();
    let events = trace.events(Order::Events);
    let position = |wanted: Event| events.iter().position(|event| *event == wanted).unwrap();
    // train-0 (3) leaves at 40, when train-3 (9) arrives; web-0 (0) at 50, when same-0 (10) comes and goes.
    assert!(position(Event::Leave(3)) < position(Event::Arrive(9)));
    assert!(position(Event::Leave(0)) < position(Event::Arrive(10)));
    assert!(position(Event::Leave(10)) < position(Event::Arrive(10)));
    assert_eq!(events.len(), 12 + 11);
    assert_eq!(trace.events(Order::Arrive), (0..12).map(Event::Arrive).collect::<Vec<_>>());
}

#[test]
fn a_row_becomes_the_object_that_the_format_describes() {
    let trace = own();
    let node = trace.nodes[2].to_wire();
    let metadata = node.metadata.unwrap();
    assert_eq!(metadata.name, "node-c");
    assert_eq!(metadata.labels["kubernetes.io/hostname"], "node-c");
    assert_eq!(metadata.labels[GPU_MODEL_LABEL], "V100");
    let allocatable = node.status.unwrap().allocatable;
    let text = |name: &str| allocatable[name].as_str().to_owned();
    assert_eq!(
        [text("cpu"), text("memory"), text("pods"), text(GPU_RESOURCE)],
        ["16", "65536Mi", "110", "4000"]
    );
    let plain = trace.nodes[0].to_wire();
    assert!(!plain.status.unwrap().allocatable.contains_key(GPU_RESOURCE));
    assert!(!plain.metadata.unwrap().labels.contains_key(GPU_MODEL_LABEL));

    let pod = trace.tasks[5].to_wire();
    let metadata = pod.metadata.unwrap();
    assert_eq!([metadata.namespace, metadata.name, metadata.uid], ["openb", "share-0", "share-0"]);
    let spec = pod.spec.unwrap();
    let requests = &spec.containers[0].resources.as_ref().unwrap().requests;
    let text = |name: &str| requests[name].as_str().to_owned();
    assert_eq!([text("cpu"), text("memory"), text(GPU_RESOURCE)], ["500m", "1024Mi", "300"]);
    let required = spec
        .affinity
        .unwrap()
        .node_affinity
        .unwrap()
        .required_during_scheduling_ignored_during_execution;
    let term = &required.unwrap().node_selector_terms[0].match_expressions[0];
    assert_eq!((term.key.as_str(), term.operator.as_str()), (GPU_MODEL_LABEL, "In"));
    assert_eq!(term.values, ["T4", "V100"]);
    assert_eq!(spec.priority, None);
    assert!(trace.tasks[0].to_wire().spec.unwrap().affinity.is_none());

    // A task without memory requests zero; without a request, kube-scheduler's default would apply.
    let bare = read_text("n,1,1,0,\n", "p,0,0,0,0,,0,1\n").unwrap();
    let spec = bare.tasks[0].to_wire().spec.unwrap();
    let requests = &spec.containers[0].resources.as_ref().unwrap().requests;
    let texts: Vec<_> =
        requests.iter().map(|(name, quantity)| (name.as_str(), quantity.as_str())).collect();
    assert_eq!(texts, [("cpu", "0"), ("memory", "0Mi")]);
}

#[test]
fn gzip_is_recognised_by_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&std::fs::read(data("pods.csv")).unwrap()).unwrap();
    let pods = file(&dir, "no-suffix", &encoder.finish().unwrap());
    assert_eq!(read(&data("nodes.csv"), &pods).unwrap(), own());
}

#[test]
fn a_bad_field_is_named_by_file_line_and_column() {
    let node = "n,1,1,0,\n";
    let pod = "p,1,1,0,0,,0,1\n";
    assert!(read_text(node, pod).is_ok());
    for (nodes, pods, message) in [
        (
            "n,x,1,0,\n",
            pod,
            "`nodes.csv` line 2: column `cpu_milli`: `x` is not an integer from 0 to 1000000000",
        ),
        (
            "n,1,1,0,\nm,1,-1,0,\n",
            pod,
            "`nodes.csv` line 3: column `memory_mib`: `-1` is not an integer from 0 to 1000000000",
        ),
        (
            "n,1,1,2000000000,\n",
            pod,
            "`nodes.csv` line 2: column `gpu`: `2000000000` is not an integer from 0 to 1000000000",
        ),
        ("n,1,1,0,\nn,1,1,0,\n", pod, "`nodes.csv` line 3: column `sn`: `n` occurs twice"),
        (",1,1,0,\n", pod, "`nodes.csv` line 2: column `sn`: is empty"),
        ("n,1,1\n", pod, "`nodes.csv` line 2: 3 fields where the header has 5"),
        (node, "p,1,1,0,0,,,1\n", "`pods.csv` line 2: column `creation_time`: is empty"),
        (
            node,
            "p,1,1,0,0,,0,later\n",
            "`pods.csv` line 2: column `deletion_time`: `later` is not a 64-bit integer",
        ),
        (
            node,
            "p,1,1,0,0,T4||P100,0,1\n",
            "`pods.csv` line 2: column `gpu_spec`: names an empty model",
        ),
        (
            node,
            "p,1.5,1,0,0,,0,1\n",
            "`pods.csv` line 2: column `cpu_milli`: `1.5` is not an integer from 0 to 1000000000",
        ),
        (
            node,
            "p,1,1,0,0,,0,1\np,1,1,0,0,,0,1\n",
            "`pods.csv` line 3: column `name`: `p` occurs twice",
        ),
    ] {
        assert_eq!(read_text(nodes, pods).unwrap_err(), message);
    }
}

#[test]
fn files_that_are_no_table_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("absent.csv");
    assert!(
        matches!(read(&missing, &data("pods.csv")), Err(TraceError::Read { path, .. }) if path == missing)
    );
    let error = read(&data("pods.csv"), &data("pods.csv")).unwrap_err();
    assert!(matches!(error, TraceError::MissingColumn { column: "sn", .. }), "{error}");
    let empty = file(&dir, "empty.csv", b"");
    assert!(matches!(
        read(&empty, &data("pods.csv")),
        Err(TraceError::MissingColumn { column: "sn", .. })
    ));
    let binary = file(&dir, "binary.csv", b"sn,cpu_milli,memory_mib,gpu,model\n\xff\xfe,1,1,0,\n");
    let error = read(&binary, &data("pods.csv")).unwrap_err().to_string();
    assert!(error.ends_with("line 2: is not UTF-8"), "{error}");
    let torn = file(&dir, "torn.csv.gz", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1]);
    assert!(matches!(read(&torn, &data("pods.csv")), Err(TraceError::Read { .. })));
}

#[test]
fn recorded_answers_are_read_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    let read = |text: &str| {
        expected::read(&file(
            &dir,
            "expected.csv",
            format!("pod,node,total,feasible,best\n{text}").as_bytes(),
        ))
    };
    let rows = read("a,n,467,3,2\nb,,,0,0\n").unwrap();
    assert_eq!(
        (rows[0].node.as_deref(), rows[0].total, rows[0].n_feasible, rows[0].n_best),
        (Some("n"), Some(467), 3, 2)
    );
    assert_eq!(
        (rows[1].node.as_deref(), rows[1].total, rows[1].n_feasible, rows[1].n_best),
        (None, None, 0, 0)
    );
    for (bad, column) in
        [("a,n,,1,1\n", "`total`"), ("a,,3,1,1\n", "`total`"), ("a,n,1,1,1\na,n,1,1,1\n", "`pod`")]
    {
        let error = read(bad).unwrap_err().to_string();
        assert!(error.contains(column), "{error}");
    }
}

/// The production trace, if present, has the sizes of its description.
#[test]
fn the_whole_trace_is_read() {
    let Some(folder) = recorded::find("data/openb") else { return };
    let nodes = folder.join("openb_node_list_all_node.csv.gz");
    let trace = read(&nodes, &folder.join("openb_pod_list_default.csv.gz")).unwrap();
    assert_eq!((trace.nodes.len(), trace.tasks.len()), (1_523, 8_152));
    let recorded = expected::read(&folder.join("expected-default-arrive.csv.gz")).unwrap();
    assert_eq!(recorded.iter().filter(|answer| answer.node.is_some()).count(), 8_104);
    let in_order = trace.tasks.iter().zip(&recorded).all(|(task, answer)| task.name == answer.pod);
    assert!(in_order, "tasks are not in the recorded order");
    // The recorded placements themselves overcommit nothing: recount and order of events agree with the recording.
    for (order, file) in
        [(Order::Arrive, "expected-default-arrive"), (Order::Events, "expected-default-events")]
    {
        let recorded = expected::read(&folder.join(format!("{file}.csv.gz"))).unwrap();
        let recount = super::super::recount::Recount::of(&trace, order, &recorded);
        assert!(recount.is_clean(), "{recount:?}");
        assert_eq!(recount.n_instants, 8_152);
    }
}
