//! Drain: pods that all wait before the scheduler starts, bound as fast as the API server takes bindings.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use berth_benches::workload::{N_NODES, Workload, cluster, incoming};
use berth_engine::{Outcome, PlaceRequest, Policy, TieBreak};
use berth_proto::core_v1;

use super::api::{Api, listed};
use super::child::Child;
use super::{real, say};

const N_PODS: usize = 5_000;
const PODS_PER_NODE: usize = 10;
/// Requests that the API server handles at a time: about a thousand bindings a second at the recorded latency, as many
/// as a real one took on two cores.
const CAPACITY: usize = 8;
/// Share of the bare client's bindings a second, processor time a pod, and requests a pod.
const BUDGETS: (f64, Duration, f64) = (0.95, Duration::from_micros(120), 2.0);

/// A drain as measured: rate, costs and requests of the process that bound the pods.
struct Drained {
    /// Bound pods a second.
    rate: f64,
    /// Processor time of the other process for each pod.
    cpu: Duration,
    peak_mib: u64,
    /// Writes to the API server for each pod, by kind.
    requests: BTreeMap<String, f64>,
}

/// Measures each workload whose letter is among `wanted`, or all.
pub(crate) fn measure(wanted: &[String]) -> anyhow::Result<()> {
    say(&format!(
        "drain: {N_NODES} nodes, {} pods on them, latencies as recorded, {CAPACITY} requests at a time",
        N_NODES * PODS_PER_NODE
    ))?;
    let letters: Vec<&str> = Workload::ALL.iter().map(|it| it.letter()).collect();
    let is_any = !wanted.iter().any(|it| letters.contains(&it.as_str()));
    for workload in Workload::ALL {
        if is_any || wanted.iter().any(|it| it == workload.letter()) {
            measure_one(workload)?;
        }
    }
    Ok(())
}

fn measure_one(workload: Workload) -> anyhow::Result<()> {
    let (pods, bindings) = decided(workload)?;
    let client = drained("client", workload, &pods, &bindings)?;
    let berth = drained("scheduler", workload, &pods, "")?;
    let share = berth.rate / client.rate;
    let n_requests: f64 = berth.requests.values().sum();
    let is_met = share >= BUDGETS.0 && berth.cpu <= BUDGETS.1 && n_requests <= BUDGETS.2 + 0.01;
    say(&format!(
        "drain {}: {} pods, {:.0} pods/s, {:.1} % of a bare client's {:.0} (>= {:.0}), {} us of processor a pod \
         (<= {}; the client: {}), {n_requests:.2} requests a pod (<= {}: {}), {} MiB: {}",
        workload.name(),
        pods.len(),
        berth.rate,
        share * 100.0,
        client.rate,
        BUDGETS.0 * 100.0,
        berth.cpu.as_micros(),
        BUDGETS.1.as_micros(),
        client.cpu.as_micros(),
        BUDGETS.2,
        listed(&berth.requests),
        berth.peak_mib,
        if is_met { "met" } else { "NOT met" },
    ))
}

/// Incoming pods of the workload that fit, at most [`N_PODS`], and their bindings, a line each.
fn decided(workload: Workload) -> anyhow::Result<(Vec<core_v1::Pod>, String)> {
    let cluster = cluster(workload, N_NODES, PODS_PER_NODE);
    let policy = Policy::default();
    let (mut pods, mut bindings) = (Vec::new(), String::new());
    for k in 0..N_PODS {
        let pod = incoming(k, workload);
        let compiled = cluster.compile_pod(&pod)?;
        let tie_break = TieBreak::Seeded(0);
        let request = PlaceRequest { pod: &compiled, policy: &policy, tie_break, now: None };
        let Outcome::Placed(placement) = cluster.assume(&request)?.outcome else { break };
        let metadata = pod.metadata.as_ref().context("an incoming pod has a name")?;
        writeln!(bindings, "{} {} {}", metadata.namespace, metadata.name, placement.node)?;
        pods.push(pod);
    }
    Ok((pods, bindings))
}

/// Has the role bind the pods.
fn drained(
    role: &str,
    workload: Workload,
    pods: &[core_v1::Pod],
    input: &str,
) -> anyhow::Result<Drained> {
    let api = Api::of_workload(workload, PODS_PER_NODE)?;
    for pod in pods {
        api.create("Pod", pod)?;
    }
    api.server().faults().recorded_latency(true);
    api.server().faults().capacity(CAPACITY);
    let child = Child::start(role, api.server(), input)?;
    api.bound(1)?;
    let (began, n_before, cpu_before) =
        (Instant::now(), api.n_bound(), child.usage().processor_time()?);
    api.bound(pods.len())?;
    let (elapsed, cpu) =
        (began.elapsed(), child.usage().processor_time()?.saturating_sub(cpu_before));
    api.quiet();
    let n_timed = pods.len() - n_before;
    Ok(Drained {
        rate: real(n_timed) / elapsed.as_secs_f64(),
        cpu: cpu.div_f64(real(n_timed).max(1.0)),
        peak_mib: child.usage().peak_bytes()? >> 20,
        requests: api.writes_for_each(pods.len()),
    })
}
