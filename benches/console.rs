//! The console at 5,000 and 50,000 nodes, in headless Chromium beside the server: the first paint, the bytes that it loads,
//! the longest frame while 1,000 changes a second arrive; and what ten open consoles cost the server and its callers.
//!
//! ```console
//! $ cargo bench --bench console                      # or: -- pages, -- cost
//! ```
//!
//! The server is this process, so that its time on cores can be told from the browser's.

use std::env;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use berth_benches::process::Process;
use berth_benches::served::{Failure, load, median, say_at, start_of};
use berth_benches::{N_NODES, Workload, existing};
use berth_client::Client;
use berth_engine::Delta;
use berth_loadgen::load::{Arrival, Limit, LoadSpec};
use berth_server::runtime::{Server, ServerOptions};
use berth_testing::browser::Browser;
use serde_json::Value;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Set in the processes that read events as a console does: the address to read from.
const READER: &str = "BENCH_CONSOLE_READER";
/// Sizes of the cluster, with the time that a frame may take.
const SIZES: [(usize, f64); 2] = [(N_NODES, 16.0), (50_000, 33.0)];
const CHANGES_PER_SECOND: usize = 1_000;
/// Number of batches a second in which changes are applied.
const BATCHES_PER_SECOND: usize = 100;
const N_CONSOLES: usize = 10;
const N_ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(10);
/// Calls a second of the caller beside the consoles.
const CALLS_PER_SECOND: f64 = 500.0;

fn main() -> ExitCode {
    if let Some(address) = env::var_os(READER) {
        return read_events(&address.to_string_lossy());
    }
    let outcome = tokio::runtime::Runtime::new()
        .map_err(Failure::from)
        .and_then(|runtime| runtime.block_on(measure()));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("console: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure() -> Result<(), Failure> {
    let asked: Vec<String> = env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    let is_wanted = |name: &str| asked.is_empty() || asked.iter().any(|it| it == name);
    if is_wanted("cost") {
        cost().await?;
    }
    if is_wanted("pages") {
        for (n_nodes, budget) in SIZES {
            pages(n_nodes, budget).await?;
        }
    }
    Ok(())
}

fn say(n_nodes: usize, what: &str, figure: &str, budget: &str, is_met: bool) {
    say_at("console", n_nodes, what, figure, (budget, is_met));
}

/// First paint, bytes and frames of the view that shows all nodes.
async fn pages(n_nodes: usize, budget: f64) -> Result<(), Failure> {
    let Some(browser) = Browser::start().await else {
        return Err("needs chromium and chromedriver on the path".into());
    };
    let server = start_of(ServerOptions::default(), n_nodes).await?;
    let url = format!("http://{}/", server.http_address());
    let (mut paints, mut nodes, mut bytes) = (Vec::new(), Vec::new(), 0.0);
    for view in ["", "#/nodes"] {
        for _ in 0..N_ROUNDS {
            browser.open(&format!("{url}{view}")).await;
            browser.settle().await;
            let paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0";
            paints.push(number(&browser.read(paint).await));
        }
    }
    let paint = paints.iter().copied().fold(0.0, f64::max);
    let figure =
        format!("{:.0} ms, at most {paint:.0} ms of {}", median(paints.clone()), paints.len());
    say(n_nodes, "first paint", &figure, "≤ 1,000 ms", paint <= 1_000.0);
    for _ in 0..N_ROUNDS {
        browser.open(&format!("{url}#/nodes")).await;
        browser
            .wait_for("Number(document.querySelector('canvas[data-frames]')?.dataset.frames) > 0")
            .await;
        nodes.push(number(&browser.read("performance.now()").await));
        let loaded = "performance.getEntriesByType('navigation').concat(performance.getEntriesByType('resource'))\
            .reduce((sum, it) => sum + it.transferSize, 0)";
        bytes = number(&browser.read(loaded).await);
    }
    let figure = format!("{:.0} ms after the request", median(nodes));
    say(n_nodes, "all nodes drawn", &figure, "none", true);
    let figure = format!("{:.0} KB", bytes / 1_000.0);
    say(n_nodes, "loaded with all nodes", &figure, "≤ 600 KB at 5,000 nodes", bytes <= 600e3);
    let changes = Changes::begin(&server, n_nodes);
    let mut longest = Vec::new();
    for _ in 0..N_ROUNDS {
        tokio::time::sleep(ROUND / 2).await;
        let frame = browser
            .read("document.querySelector('canvas[data-frames]').dataset.longestFrame")
            .await;
        longest.push(frame.as_str().unwrap_or_default().parse::<f64>()?);
    }
    let n_changes = changes.end();
    let most = longest.iter().copied().fold(0.0, f64::max);
    let figure = format!(
        "{most:.1} ms at most, {:.1} in the median of {N_ROUNDS} looks; {n_changes} changes",
        median(longest)
    );
    say(n_nodes, "longest frame", &figure, &format!("≤ {budget} ms"), most <= budget);
    server.shutdown().await;
    Ok(())
}

/// Measures what ten open consoles cost the server, and a caller of `Place`, while the cluster changes.
async fn cost() -> Result<(), Failure> {
    let server = start_of(ServerOptions::default(), N_NODES).await?;
    let client = Client::connect(&format!("http://{}", server.grpc_address()), 2).await?;
    let changes = Changes::begin(&server, N_NODES);
    let spec = LoadSpec {
        arrival: Arrival::Open { pods_per_second: CALLS_PER_SECOND },
        limit: Limit::Duration(ROUND),
        ..LoadSpec::default()
    };
    // The readers need the cores, too. So the caller is also beside readers of another server, which changes alike.
    let other = start_of(ServerOptions::default(), N_NODES).await?;
    let other_changes = Changes::begin(&other, N_NODES);
    let (mut shares, mut ratios, mut of_other) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..N_ROUNDS {
        let alone = taken(&client, &spec).await?;
        let beside_other = beside(&other, &client, &spec).await?;
        let beside = beside(&server, &client, &spec).await?;
        eprintln!(
            "console/round {round}: {:.1} % of a core and p99 {:.0} µs alone, {:.1} % and {:.0} µs beside {N_CONSOLES} \
             consoles, {:.0} µs beside those of another server",
            100.0 * alone.0,
            alone.1,
            100.0 * beside.0,
            beside.1,
            beside_other.1
        );
        shares.push(beside.0 - alone.0);
        ratios.push(beside.1 / alone.1);
        of_other.push(beside.1 / beside_other.1);
    }
    changes.end();
    other_changes.end();
    other.shutdown().await;
    let share = 100.0 * median(shares);
    let figure =
        format!("{share:.1} % of a core for {N_CONSOLES} consoles, {CHANGES_PER_SECOND} changes/s");
    say(N_NODES, "server's cost", &figure, "≤ 3 %", share <= 3.0);
    let ratio = median(of_other);
    say(
        N_NODES,
        "Place p99 beside them",
        &format!(
            "{ratio:.2} × that beside consoles of another server, {:.2} × that without any",
            median(ratios)
        ),
        "≤ 1.10 × the first",
        ratio <= 1.1,
    );
    server.shutdown().await;
    Ok(())
}

/// The share of a core and the p99 of a load on one server while ten consoles of a server, the same or another, are open.
async fn beside(server: &Server, client: &Client, spec: &LoadSpec) -> Result<(f64, f64), Failure> {
    let consoles = (0..N_CONSOLES).map(|_| Reader::start(server)).collect::<Result<Vec<_>, _>>()?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let taken = taken(client, spec).await;
    drop(consoles);
    taken
}

/// This process's share of a core during a load, and the load's p99 in µs.
async fn taken(client: &Client, spec: &LoadSpec) -> Result<(f64, f64), Failure> {
    let (began, before) = (Instant::now(), Process::own().processor_time()?);
    let report = load(client, spec.clone()).await?;
    let share =
        (Process::own().processor_time()? - before).as_secs_f64() / began.elapsed().as_secs_f64();
    Ok((share, report.latency.p99_us))
}

/// Changes that arrive without an end.
struct Changes {
    is_over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<usize>,
}

impl Changes {
    fn begin(server: &Server, n_nodes: usize) -> Changes {
        let (is_over, cluster) = (Arc::new(AtomicBool::new(false)), server.cluster().clone());
        let stop = is_over.clone();
        let thread = std::thread::spawn(move || {
            let (began, mut n) = (Instant::now(), 0);
            while !stop.load(Ordering::Relaxed) {
                let batch = (0..CHANGES_PER_SECOND / BATCHES_PER_SECOND).filter_map(|_| {
                    // A new pod at every even change, which the next one deletes, on nodes all over the cluster.
                    let pod =
                        existing(n_nodes * 40 + n / 2 * 7_919 % n_nodes, n_nodes, Workload::Basic);
                    let pod = cluster.compile_pod(&pod).ok()?;
                    n += 1;
                    Some(if n % 2 == 1 {
                        Delta::UpsertPod(pod)
                    } else {
                        Delta::DeletePod { key: pod.key().clone(), uid: None }
                    })
                });
                let batch = batch.collect();
                drop(cluster.apply(batch));
                let due = Duration::from_secs_f64(n as f64 / CHANGES_PER_SECOND as f64);
                std::thread::sleep(due.saturating_sub(began.elapsed()));
            }
            n
        });
        Changes { is_over, thread }
    }

    /// Number of the changes.
    fn end(self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// A process that reads events as a console does.
struct Reader(Child);

impl Reader {
    fn start(server: &Server) -> Result<Reader, Failure> {
        let mut command = Command::new(env::current_exe()?);
        Ok(Reader(command.env(READER, server.http_address().to_string()).spawn()?))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn read_events(address: &str) -> ExitCode {
    let read = || -> std::io::Result<()> {
        let mut connection = TcpStream::connect(address)?;
        let request = format!("GET /console/events HTTP/1.1\r\nHost: {address}\r\n\r\n");
        connection.write_all(request.as_bytes())?;
        let mut bytes = [0; 64 << 10];
        while connection.read(&mut bytes)? > 0 {}
        Ok(())
    };
    match read() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("console: a reader ends: {error}");
            ExitCode::FAILURE
        }
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}
