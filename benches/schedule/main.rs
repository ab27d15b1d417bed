//! `berth schedule` against the fake API server, whose requests take as long as those of a recorded API server.
//!
//! - `drain`: pods of each of the baseline's workloads, all there before the scheduler: bindings a second beside those of
//!   a client that does nothing but post the same bindings, processor time, memory and requests a pod
//! - `queue`: a million waiting pods
//! - `preempt`: pods that fit only where others are evicted
//! - `takeover`: the time without a scheduler when the leader is killed, and when it is stopped
//!
//! The API server is this process; scheduler and client are processes of their own, on the same cores. It prints one
//! line a measurement, beside its budget; nothing is asserted.

mod api;
mod child;
mod client;
mod drain;
mod instance;
mod preempt;
mod queue;
mod takeover;

use std::io::Write as _;
use std::time::Duration;

use berth_benches::Workload;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `schedulerName` of the pods.
const SCHEDULER: &str = "berth";
/// Names of the measurements, by which arguments select them.
const PARTS: [&str; 4] = ["drain", "queue", "preempt", "takeover"];
/// The time after which a wait fails.
const PATIENCE: Duration = Duration::from_secs(300);

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["child", "scheduler", kubeconfig] => return instance::run(kubeconfig),
        ["child", "client", kubeconfig] => return client::run(kubeconfig),
        _ => {}
    }
    let is_known = |name: &str| {
        PARTS.contains(&name) || Workload::ALL.iter().any(|workload| workload.letter() == name)
    };
    if let Some(unknown) = arguments.iter().find(|name| !is_known(name)) {
        anyhow::bail!("`{unknown}` is neither one of {PARTS:?} nor the letter of a workload");
    }
    let is_wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|it| it == name);
    if is_wanted("drain") {
        drain::measure(&arguments)?;
    }
    if is_wanted("queue") {
        queue::measure()?;
    }
    if is_wanted("preempt") {
        preempt::measure()?;
    }
    if is_wanted("takeover") {
        takeover::measure()?;
    }
    Ok(())
}

fn say(line: &str) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

/// `n` as a floating-point number, for rates.
#[expect(clippy::cast_precision_loss, reason = "counts of pods and requests, for people")]
fn real(n: usize) -> f64 {
    n as f64
}
