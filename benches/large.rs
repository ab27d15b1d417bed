//! A server of a very large cluster, as a process of its own: the time from its start with a dump to ready, the memory
//! that it holds, and sixteen callers in a closed loop, of which none should be refused.
//!
//! ```console
//! $ cargo bench --bench large              # 100,000 nodes with 30 pods each: five minutes and 2 GB of disk
//! $ cargo bench --bench large -- 20000     # so many nodes
//! ```

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use berth_benches::process::Process;
use berth_benches::served::say_at;
use berth_benches::{Workload, existing, incoming, node};
use berth_client::Client;
use berth_loadgen::load::{Limit, LoadSpec, run};
use berth_proto::core_v1::Pod;
use berth_server::cli::{self, environment};
use berth_synthetic::baseline::{object, pod};
use berth_testing::ports::free_address;
use serde::Serialize;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const N_NODES: usize = 100_000;
const PODS_PER_NODE: usize = 30;
/// The workload of the cluster: it has objects of all the others.
const CLUSTER: Workload = Workload::Mixed;
/// Number of callers, and of their calls.
const N_CALLERS: usize = 16;
const N_CALLS: usize = 5_000;
/// The time after which a wait fails.
const PATIENCE: Duration = Duration::from_secs(600);

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|it| it != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let n_nodes = match arguments[..] {
        ["serve", ref options @ ..] => return serve(options),
        [] => N_NODES,
        [n] => n.parse().with_context(|| format!("`{n}` is no number of nodes"))?,
        _ => anyhow::bail!("takes nothing, or a number of nodes"),
    };
    tokio::runtime::Runtime::new()?.block_on(measure(n_nodes))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `berth serve` with these options.
fn serve(options: &[&str]) -> anyhow::Result<ExitCode> {
    let arguments = ["berth", "serve"].into_iter().chain(options.iter().copied());
    Ok(cli::run(environment::parse(&arguments.map(OsString::from).collect::<Vec<_>>())?)?)
}

async fn measure(n_nodes: usize) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let dump = folder.path().join("cluster.json");
    write_dump(&dump, n_nodes).context("cannot write the dump")?;
    let bytes = std::fs::metadata(&dump)?.len();
    let started = Instant::now();
    let server = Server::start(&dump)?;
    server.wait_until_ready()?;
    let seconds = started.elapsed().as_secs_f64();
    let budgets = if n_nodes == N_NODES { ("≤ 60 s", "≤ 3 GB") } else { ("none", "none") };
    let figure = format!("{seconds:.1} s from the start, a dump of {} MB", bytes / 1_000_000);
    say(n_nodes, "ready", &figure, budgets.0, seconds <= 60.0);
    let process = Process::of(server.process.id());
    let (resident, peak) = (process.resident_bytes()?, process.peak_bytes()?);
    let figure = format!("{} MB, at most {} MB so far", resident / 1_000_000, peak / 1_000_000);
    say(n_nodes, "resident", &figure, budgets.1, resident <= 3_000_000_000);
    let client = Client::connect(&format!("http://{}", server.grpc), 2).await?;
    for (what, workload, n_pods) in [
        ("one pod after another", Workload::Basic, 64),
        ("pods of all kinds", Workload::Mixed, 64),
        ("each pod a new shape", Workload::Basic, N_CALLS),
    ] {
        let mut pods: Vec<Pod> = (0..n_pods).map(|k| incoming(k, workload)).collect();
        if n_pods == N_CALLS {
            for (k, pod) in pods.iter_mut().enumerate() {
                pod::request(pod, "memory", format!("{}", (256 << 20) + k));
            }
        }
        let limit = Limit::Pods(N_CALLS as u64);
        let spec = LoadSpec { concurrency: N_CALLERS, limit, ..LoadSpec::default() };
        let report = run(&client, pods.into(), &spec, Arc::new(|_| ())).await?;
        let errors: Vec<_> = report
            .errors
            .iter()
            .map(|(code, errors)| (code, errors.n_pods, &errors.example))
            .collect();
        let figure = format!(
            "{} of {N_CALLS} calls carried out, {:.0} a second, p50 {:.0} µs, p99 {:.0} µs {errors:?}",
            report.n_pods,
            report.decisions_per_second,
            report.latency.p50_us,
            report.latency.p99_us,
        );
        say(n_nodes, &format!("{N_CALLERS} callers, {what}"), &figure, "all", errors.is_empty());
    }
    let resident = process.resident_bytes()?;
    let figure = format!("{} MB", resident / 1_000_000);
    say(n_nodes, "resident after the calls", &figure, budgets.1, resident <= 3_000_000_000);
    Ok(())
}

fn say(n_nodes: usize, what: &str, figure: &str, budget: &str, is_met: bool) {
    say_at("large", n_nodes, what, figure, (budget, is_met));
}

/// Writes a cluster as `kubectl get -o json` does.
fn write_dump(path: &Path, n_nodes: usize) -> anyhow::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    file.write_all(br#"{"apiVersion":"v1","kind":"List","items":["#)?;
    let mut items = Items { file, is_first: true };
    for namespace in object::namespaces() {
        items.write(r#""apiVersion":"v1","kind":"Namespace","#, &namespace)?;
    }
    for i in 0..n_nodes {
        items.write(r#""apiVersion":"v1","kind":"Node","#, &node(i, CLUSTER))?;
    }
    for j in 0..PODS_PER_NODE * n_nodes {
        items.write(r#""apiVersion":"v1","kind":"Pod","#, &existing(j, n_nodes, CLUSTER))?;
    }
    items.file.write_all(b"]}\n")?;
    Ok(items.file.flush()?)
}

/// The items of a list that is being written.
struct Items {
    file: BufWriter<File>,
    is_first: bool,
}

impl Items {
    fn write(&mut self, kind: &str, object: &impl Serialize) -> anyhow::Result<()> {
        if !std::mem::replace(&mut self.is_first, false) {
            self.file.write_all(b",")?;
        }
        let text = serde_json::to_string(object)?;
        let fields = text.strip_prefix('{').context("an object begins with a brace")?;
        write!(self.file, "{{{kind}{fields}")?;
        Ok(())
    }
}

/// A server in a process of its own, which is killed when dropped.
struct Server {
    process: Child,
    grpc: SocketAddr,
    http: SocketAddr,
}

impl Server {
    fn start(dump: &Path) -> anyhow::Result<Server> {
        let (grpc, http) = (free_address(), free_address());
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve").arg("--cluster").arg(dump);
        command.args(["--grpc-address", &grpc.to_string(), "--http-address", &http.to_string()]);
        let process = command.stderr(Stdio::null()).spawn()?;
        Ok(Server { process, grpc, http })
    }

    fn wait_until_ready(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        while !self.is_ready() {
            anyhow::ensure!(began.elapsed() < PATIENCE, "not ready within {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        let status = || -> io::Result<String> {
            let mut stream = TcpStream::connect(self.http)?;
            stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n")?;
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line)?;
            Ok(line)
        };
        status().is_ok_and(|line| line.contains(" 200 "))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
