//! kube-scheduler's extender calls at 5,000 nodes, over HTTP on loopback: filter and prioritize by names, and with
//! whole nodes.
//!
//! `server-time` is the server's own time for a pair of calls, from the complete request to the complete response, JSON
//! included; the other times are those of the caller. Every pod is new and has one of two shapes. The list of names
//! starts at a different node each time, as kube-scheduler's does. Between two pairs a pod is placed.

use std::io::{BufRead, BufReader, Error, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use berth_benches::{N_NODES, Workload, existing, incoming, node, objects};
use berth_engine::{ClusterState, Delta};
use berth_server::runtime::{Server, ServerOptions};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Numbers of images in a node's status: a few, for the 2 KB of recorded objects, and the 50 that a kubelet reports.
const N_IMAGES: [usize; 2] = [8, 50];

type Failure = Box<dyn std::error::Error>;

fn extender(criterion: &mut Criterion) {
    let Ok(runtime) = Runtime::new() else { return eprintln!("skipped: no runtime") };
    for workload in [Workload::Basic, Workload::Mixed] {
        let mut caller = match runtime.block_on(start(workload)).and_then(Caller::new) {
            Ok(caller) => caller,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let mut group =
            criterion.benchmark_group(format!("extender/5000-nodes/{}", workload.name()));
        group.sample_size(20);
        group.bench_function("names/filter-and-prioritize/server-time", |bencher| {
            bencher.iter_custom(|n| or_stop(caller.server_time(n)));
        });
        group.bench_function("names/filter-and-prioritize/round-trip", |bencher| {
            bencher.iter_custom(|n| or_stop(caller.by_names(n)));
        });
        if workload == Workload::Basic {
            for n_images in N_IMAGES {
                let body = caller.whole_nodes(n_images);
                group.throughput(Throughput::Bytes(body.len() as u64));
                group.bench_function(format!("whole-nodes-{n_images}-images/filter"), |bencher| {
                    bencher.iter_custom(|n| or_stop(caller.send(n, &body)));
                });
            }
        }
        group.finish();
        runtime.block_on(caller.server.shutdown());
    }
}

/// Ends the bench with the error.
fn or_stop(times: Result<Duration, Failure>) -> Duration {
    times.unwrap_or_else(|error| {
        eprintln!("stopped: {error}");
        std::process::exit(1)
    })
}

/// A server with the cluster of a workload.
async fn start(workload: Workload) -> Result<(Server, Workload), Failure> {
    let server = Server::start(ServerOptions::default()).await?;
    let cluster = server.cluster();
    let nodes = (0..N_NODES).map(|i| cluster.compile_node(&node(i, workload)));
    let pods = (0..30 * N_NODES).map(|j| cluster.compile_pod(&existing(j, N_NODES, workload)));
    let state = ClusterState {
        nodes: nodes.collect::<Result<_, _>>()?,
        objects: objects(cluster, workload),
        pods: pods.collect::<Result<_, _>>()?,
    };
    cluster.replace(state);
    server.freshness().note_applied();
    Ok((server, workload))
}

/// The calls of kube-scheduler, over one connection.
struct Caller {
    server: Server,
    workload: Workload,
    names: Vec<String>,
    connection: BufReader<TcpStream>,
    n_pods: usize,
    answer: Vec<u8>,
}

impl Caller {
    fn new((server, workload): (Server, Workload)) -> Result<Caller, Failure> {
        let connection = TcpStream::connect(server.http_address())?;
        connection.set_nodelay(true)?;
        let nodes = server.cluster().snapshot().nodes();
        let names = nodes.into_iter().map(|node| node.name.to_string()).collect();
        let (connection, n_pods) = (BufReader::with_capacity(1 << 20, connection), 0);
        Ok(Caller { server, workload, names, connection, n_pods, answer: Vec::new() })
    }

    fn next_pod(&mut self) -> berth_proto::core_v1::Pod {
        self.n_pods += 1;
        incoming(self.n_pods, self.workload)
    }

    /// Places another pod, and returns the next request by names.
    fn request(&mut self) -> Result<String, Failure> {
        let pod = self.next_pod();
        let at = self.n_pods * 7919 % self.names.len();
        self.names.rotate_left(self.n_pods % 13);
        let mut placed = existing(self.n_pods, N_NODES, self.workload);
        let metadata = placed.metadata.get_or_insert_default();
        (metadata.name, metadata.uid) =
            (format!("placed-{}", self.n_pods), format!("placed-{}", self.n_pods));
        placed.spec.get_or_insert_default().node_name.clone_from(&self.names[at]);
        let cluster = self.server.cluster();
        let placed = cluster.compile_pod(&placed)?;
        let key = placed.key().clone();
        cluster.apply(vec![Delta::UpsertPod(placed)]);
        cluster.apply(vec![Delta::DeletePod { key, uid: None }]);
        Ok(json!({"Pod": pod, "Nodes": null, "NodeNames": self.names}).to_string())
    }

    /// Calls filter, then prioritize with the same nodes.
    fn pair(&mut self) -> Result<Duration, Failure> {
        let request = self.request()?;
        let started = Instant::now();
        self.post("filter", request.as_bytes())?;
        self.post("prioritize", request.as_bytes())?;
        Ok(started.elapsed())
    }

    fn by_names(&mut self, n: u64) -> Result<Duration, Failure> {
        (0..n).map(|_| self.pair()).sum()
    }

    fn server_time(&mut self, n: u64) -> Result<Duration, Failure> {
        let before = counted(self.server.http_address())?;
        self.by_names(n)?;
        Ok(Duration::from_secs_f64(counted(self.server.http_address())? - before))
    }

    fn send(&mut self, n: u64, body: &[u8]) -> Result<Duration, Failure> {
        let started = Instant::now();
        for _ in 0..n {
            self.post("filter", body)?;
        }
        Ok(started.elapsed())
    }

    /// A request with all nodes as complete objects.
    fn whole_nodes(&mut self, n_images: usize) -> Vec<u8> {
        let pod = self.next_pod();
        let image = |i: usize| {
            let digest = format!("{i:064x}");
            json!({
                "names": [format!("registry.example/team/image-{i}@sha256:{digest}"), format!("registry.example/team/image-{i}:v1")],
                "sizeBytes": 1_000_000 + i,
            })
        };
        let images: Vec<Value> = (0..n_images).map(image).collect();
        let nodes: Vec<Value> = (0..N_NODES)
            .map(|i| {
                let mut object = serde_json::to_value(node(i, self.workload)).unwrap_or_default();
                object["status"]["images"] = images.clone().into();
                object
            })
            .collect();
        json!({"Pod": pod, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": null})
            .to_string()
            .into_bytes()
    }

    fn post(&mut self, verb: &str, body: &[u8]) -> Result<(), Failure> {
        let head = format!(
            "POST /extender/{verb} HTTP/1.1\r\nHost: berth\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let stream = self.connection.get_mut();
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let (mut length, mut line) = (0, String::new());
        let mut is_ok = None;
        loop {
            line.clear();
            self.connection.read_line(&mut line)?;
            is_ok.get_or_insert_with(|| line.contains(" 200 "));
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        self.answer.resize(length, 0);
        self.connection.read_exact(&mut self.answer)?;
        let has_error = self.answer.starts_with(b"{\"Error\"");
        if is_ok != Some(true) || has_error {
            return Err(Error::other(String::from_utf8_lossy(&self.answer).into_owned()).into());
        }
        Ok(())
    }
}

/// Total time of extender calls in seconds, from the server's metrics.
fn counted(address: SocketAddr) -> Result<f64, Failure> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: berth\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let sums = text.lines().filter(|line| line.starts_with("berth_extender_duration_seconds_sum"));
    sums.map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<f64>()?)).sum()
}

criterion_group!(benches, extender);
criterion_main!(benches);
