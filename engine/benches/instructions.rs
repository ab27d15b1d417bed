//! Instructions of the hot paths, counted by valgrind: a gate for speed on machines that are too noisy for times.
//!
//! ```console
//! $ cargo bench -p berth-engine --bench instructions              # compares with engine/benches/instructions.txt
//! $ cargo bench -p berth-engine --bench instructions -- --update  # writes it anew
//! ```
//!
//! A count that differs from its record by more than 3 % is an error, whether it is more or less: the record is updated
//! in the commit that changes it, which says why. Counts belong to one compiler and one set of vector instructions;
//! with others nothing is compared. valgrind has no AVX-512, so the kernels are those for AVX2.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench that cannot set its cluster up fails by panicking, and prints its figures"
)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use berth_engine::{
    BatchRequest, Cluster, ClusterState, Delta, PlaceRequest, Pod, PodKey, Policy, TieBreak,
};
use berth_proto::{EncodedPod, core_v1};
use berth_synthetic::baseline::node::node;
use berth_synthetic::baseline::pod::{existing, incoming, request};
use berth_synthetic::baseline::{Workload, object};
use prost::Message;

/// The record, in the crate's folder.
const RECORD: &str = "benches/instructions.txt";
/// By how much a count may differ from its record.
const TOLERANCE: f64 = 0.03;
/// Five shards, so that a pass over all of them is seen beside the work of one.
const N_NODES: usize = 1_280;
/// Number of nodes of a large cluster: decisions that read counts of pods are made by class there, and thousands of nodes
/// have the highest total.
const MANY_NODES: usize = 5_000;
const N_PODS: usize = 5_120;
/// Number of pods that come before those that are counted, and of these.
const N_WARM_UP: usize = 20;
const N_COUNTED: usize = 60;
/// First argument of the processes in which valgrind counts; the second is the path whose instructions are wanted.
const COUNTED: &str = "--counted";

/// Has the C library copy by vectors, however much.
const COPY_BY_VECTORS: &str = "glibc.cpu.x86_rep_movsb_threshold=0x7fffffff";

/// Workloads whose decisions are counted in a cluster of [`MANY_NODES`]: plain pods, and pods for each filter and score
/// that reads counts of other pods.
const AMONG_MANY: [Workload; 5] = [
    Workload::Basic,
    Workload::SpreadHardZone,
    Workload::SpreadSoft,
    Workload::AntiAffinityHost4000,
    Workload::PreferredAffinity,
];

/// A piece of the engine whose instructions are counted.
#[derive(Copy, Clone)]
enum HotPath {
    /// Reading pods of requests, from their bytes to what decisions read, that are like earlier ones but for their names.
    ReadLikeOthers,
    /// Reading pods of requests of which nothing came before.
    ReadNew,
    /// Deciding and assuming pods one after another.
    InTurn(Workload),
    /// Deciding and assuming pods one after another in a cluster of [`MANY_NODES`].
    AmongMany(Workload),
    /// Deciding for pods whose shapes are new.
    NewShape(Workload),
    /// One batch of replicas, assumed.
    Batch,
    /// Pods that come and go.
    Deltas,
}

impl HotPath {
    fn all() -> Vec<HotPath> {
        let mut all =
            vec![HotPath::ReadLikeOthers, HotPath::ReadNew, HotPath::Batch, HotPath::Deltas];
        all.extend(Workload::ALL.map(HotPath::InTurn));
        all.extend(AMONG_MANY.map(HotPath::AmongMany));
        all.extend(Workload::ALL.map(HotPath::NewShape));
        all
    }

    fn name(self) -> String {
        match self {
            HotPath::ReadLikeOthers => "read/like-others".to_owned(),
            HotPath::ReadNew => "read/new".to_owned(),
            HotPath::InTurn(workload) => format!("in-turn/{}", workload.name()),
            HotPath::AmongMany(workload) => format!("among-many/{}", workload.name()),
            HotPath::NewShape(workload) => format!("new-shape/{}", workload.name()),
            HotPath::Batch => "batch".to_owned(),
            HotPath::Deltas => "deltas".to_owned(),
        }
    }

    fn run(self) {
        match self {
            HotPath::ReadLikeOthers => read(|_| incoming(0, Workload::Mixed)),
            HotPath::ReadNew => read(|k| distinct(k, Workload::Mixed)),
            HotPath::InTurn(workload) => in_turn(workload, N_NODES),
            HotPath::AmongMany(workload) => in_turn(workload, MANY_NODES),
            HotPath::NewShape(workload) => new_shapes(workload),
            HotPath::Batch => batch(),
            HotPath::Deltas => deltas(),
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [option, wanted] = arguments.as_slice()
        && option == COUNTED
    {
        let is_wanted = |path: &HotPath| path.name() == *wanted;
        HotPath::all().into_iter().find(is_wanted).into_iter().for_each(HotPath::run);
        return ExitCode::SUCCESS;
    }
    let updates = arguments.iter().any(|argument| argument == "--update");
    match check(updates) {
        Ok(is_good) => ExitCode::from(u8::from(!is_good)),
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Counts everything, and compares it with the record or writes that. Returns whether every count agrees.
fn check(updates: bool) -> Result<bool, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(RECORD);
    let of_record = |error| format!("{}: {error}", path.display());
    let machine = machine()?;
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    let is_comparable = known.lines().next() == Some(machine.as_str());
    if !is_comparable && !updates {
        println!("instructions: nothing is compared: this is `{machine}`, unlike the record");
        return Ok(true);
    }
    let recorded = |name: &str| {
        let mut lines = known.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(of, _)| *of == name)?.1.trim().parse::<u64>().ok()
    };
    let (mut is_good, mut text) = (true, format!("{machine}\n"));
    for hot_path in HotPath::all() {
        let name = hot_path.name();
        let count = counted(&name)?;
        let was = recorded(&name).filter(|_| is_comparable);
        let change = was.map(|was| count as f64 / was as f64 - 1.0);
        let agrees = change.is_some_and(|change| change.abs() <= TOLERANCE);
        is_good &= agrees;
        let verdict = match change {
            Some(change) if agrees => format!("{:+.1} %, met", 100.0 * change),
            Some(change) => {
                format!("{:+.1} %, more than {:.0} %", 100.0 * change, 100.0 * TOLERANCE)
            }
            None => "not recorded".to_owned(),
        };
        println!("instructions/{name}: {count}; {verdict}");
        // Writing to a `String` cannot fail.
        writeln!(text, "{name} {count}").ok();
    }
    if updates {
        std::fs::write(&path, text).map_err(of_record)?;
        println!("instructions: {} is written", path.display());
    }
    Ok(is_good || updates)
}

/// The compiler and the vector instructions with which counts can be compared, as the record's first line has them.
fn machine() -> Result<String, String> {
    let compiler = Command::new("rustc").arg("--version").output();
    let compiler = compiler.map_err(|error| format!("rustc: {error}"))?;
    #[cfg(target_arch = "x86_64")]
    let vectors = if is_x86_feature_detected!("avx2") { "AVX2" } else { "SSE2" };
    #[cfg(not(target_arch = "x86_64"))]
    let vectors = std::env::consts::ARCH;
    Ok(format!("{}, {vectors}", String::from_utf8_lossy(&compiler.stdout).trim()))
}

/// Number of instructions of one path for each of its pods, counted in a process of its own.
fn counted(name: &str) -> Result<u64, String> {
    let failed = |error: String| format!("valgrind of {name}: {error}");
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let output = std::env::temp_dir().join(format!("berth-instructions-{}", std::process::id()));
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*measured*"])
        .arg(format!("--callgrind-out-file={}", output.display()))
        .arg(program)
        .args([COUNTED, name])
        // With one thread, nothing depends on who comes first. A copy by one instruction would count once for each
        // byte.
        .envs([("RAYON_NUM_THREADS", "1"), ("GLIBC_TUNABLES", COPY_BY_VECTORS)])
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !run.status.success() {
        return Err(failed(String::from_utf8_lossy(&run.stderr).into_owned()));
    }
    let profile = std::fs::read_to_string(&output).map_err(|error| failed(error.to_string()))?;
    std::fs::remove_file(&output).map_err(|error| failed(error.to_string()))?;
    let total = profile.lines().find_map(|line| line.strip_prefix("totals: ")?.parse::<u64>().ok());
    match total {
        Some(total) if total > 0 => Ok(total / N_COUNTED as u64),
        _ => Err(failed("nothing was counted".to_owned())),
    }
}

/// Runs what is counted: valgrind knows this function by its name.
#[inline(never)]
fn measured(work: &mut dyn FnMut()) {
    work();
}

/// A cluster of the baseline.
fn cluster(workload: Workload, n_nodes: usize) -> Arc<Cluster> {
    let cluster = Cluster::new();
    let compiled = |pod| cluster.compile_pod(&pod).expect("the baseline's pods are valid");
    let mut objects = Vec::new();
    for namespace in object::namespaces() {
        objects.push(cluster.compile_object(&namespace).expect("namespaces are valid"));
    }
    if let Some(service) = object::service(workload) {
        objects.push(cluster.compile_object(&service).expect("services are valid"));
    }
    let nodes = (0..n_nodes).map(|i| cluster.compile_node(&node(i, workload)));
    let state = ClusterState {
        nodes: nodes.collect::<Result<_, _>>().expect("the baseline's nodes are valid"),
        objects,
        pods: (0..N_PODS).map(|j| compiled(existing(j, n_nodes, workload))).collect(),
    };
    assert!(cluster.replace(state).rejected.is_empty(), "the baseline is valid");
    Arc::new(cluster)
}

/// Incoming pod `k` with a shape of its own.
fn distinct(k: usize, workload: Workload) -> core_v1::Pod {
    let mut pod = incoming(k, workload);
    request(&mut pod, "memory", format!("{}", (256 << 20) + k));
    pod
}

fn asked<'a>(pod: &'a Pod, policy: &'a Policy) -> PlaceRequest<'a> {
    PlaceRequest { pod, policy, tie_break: TieBreak::Seeded(0), now: None }
}

fn read(pod: impl Fn(usize) -> core_v1::Pod) {
    let cluster = Cluster::new();
    let sent: Vec<_> = (0..N_WARM_UP + N_COUNTED).map(|k| pod(k).encode_to_vec()).collect();
    let read = |bytes: &Vec<u8>| {
        let encoded = EncodedPod::decode(&**bytes).expect("it is a pod");
        let known = cluster.recall_pod(&encoded, false).expect("its name is valid");
        let compile = || {
            let pod = encoded.to_pod().expect("it is a pod");
            cluster.compile_sent_pod(&pod, &encoded, false).expect("it is valid")
        };
        drop(black_box(known.unwrap_or_else(compile)));
    };
    sent.iter().take(N_WARM_UP).for_each(read);
    measured(&mut || sent.iter().skip(N_WARM_UP).for_each(read));
}

fn in_turn(workload: Workload, n_nodes: usize) {
    let (cluster, policy) = (cluster(workload, n_nodes), Policy::default());
    let pods = (0..N_WARM_UP + N_COUNTED).map(|k| cluster.compile_pod(&incoming(k, workload)));
    let pods: Vec<Pod> = pods.collect::<Result<_, _>>().expect("the baseline's pods are valid");
    let assume =
        |pod| drop(black_box(cluster.assume(&asked(pod, &policy)).expect("it is decided")));
    pods.iter().take(N_WARM_UP).for_each(assume);
    measured(&mut || pods.iter().skip(N_WARM_UP).for_each(assume));
}

fn new_shapes(workload: Workload) {
    let (cluster, policy) = (cluster(workload, N_NODES), Policy::default());
    let pods = (0..N_COUNTED).map(|k| cluster.compile_pod(&distinct(k, workload)));
    let pods: Vec<Pod> = pods.collect::<Result<_, _>>().expect("the baseline's pods are valid");
    measured(&mut || {
        for pod in &pods {
            drop(black_box(cluster.place(&asked(pod, &policy)).expect("it is decided")));
        }
    });
}

fn batch() {
    let (cluster, policy) = (cluster(Workload::Basic, N_NODES), Policy::default());
    let model = cluster.compile_pod(&incoming(0, Workload::Basic)).expect("it is valid");
    let replica = |k: usize| {
        let name = format!("replica-{k}");
        model.with_identity(PodKey::new("default", &name), &name)
    };
    let pods: Vec<Pod> = (0..N_COUNTED).map(replica).collect();
    measured(&mut || {
        let outcome = cluster.place_batch(&BatchRequest {
            pods: &pods,
            policy: &policy,
            tie_break: TieBreak::Seeded(0),
            assume: true,
            gang: None,
            now: None,
            cancelled: &|| false,
        });
        drop(black_box(outcome));
    });
}

fn deltas() {
    let workload = Workload::AntiAffinityHost4000;
    let cluster = cluster(workload, N_NODES);
    let coming = |k: usize| {
        let mut pod = existing(k, N_NODES, workload);
        let metadata = pod.metadata.get_or_insert_default();
        metadata.name = format!("coming-{k}");
        metadata.uid.clone_from(&metadata.name);
        cluster.compile_pod(&pod).expect("the baseline's pods are valid")
    };
    let pods: Vec<Pod> = (0..N_COUNTED).map(coming).collect();
    let come: Vec<_> = pods.iter().map(|pod| Delta::UpsertPod(pod.clone())).collect();
    let go =
        pods.iter().map(|pod| Delta::DeletePod { key: pod.key().clone(), uid: None }).collect();
    let mut deltas = vec![come, go];
    measured(&mut || {
        for deltas in deltas.drain(..) {
            assert!(cluster.apply(deltas).rejected.is_empty(), "they are valid");
        }
    });
}
