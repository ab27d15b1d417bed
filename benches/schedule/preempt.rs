//! Preempt: nodes that are full of pods of low priority, and pods of high priority that fit nowhere else.

use std::time::Duration;

use serde_json::json;

use super::api::{Api, listed, small_pod};
use super::child::Child;
use super::{real, say};

const N_PREEMPTORS: usize = 500;
const VICTIMS_EACH: usize = 2;
/// Bound preemptors a second.
const BUDGET: f64 = 200.0;
/// Delays of each request in addition to the recorded ones, as an API server that is near or far has them.
const DISTANCES: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(5), Duration::from_millis(20)];

pub(crate) fn measure() -> anyhow::Result<()> {
    DISTANCES.into_iter().try_for_each(at)
}

fn at(distance: Duration) -> anyhow::Result<()> {
    let api = Api::start()?;
    for i in 0..N_PREEMPTORS {
        let node = format!("n{i}");
        api.create(
            "Node",
            json!({
                "metadata": {"name": node, "labels": {"kubernetes.io/hostname": node}},
                "status": {"allocatable": {"cpu": "4", "memory": "64Gi", "pods": "110"}},
            }),
        )?;
        for k in 0..VICTIMS_EACH {
            api.create("Pod", small_pod(&format!("low-{i}-{k}"), "2", 0, &node))?;
        }
    }
    let child = Child::start("scheduler", api.server(), "")?;
    api.create("Pod", small_pod("warm-up", "0", 0, ""))?;
    api.bound(1)?;
    api.server().faults().recorded_latency(true);
    api.server().faults().latency(distance);
    let cpu_before = child.usage().processor_time()?;
    for i in 0..N_PREEMPTORS {
        api.create("Pod", small_pod(&format!("high-{i}"), "3", 1_000, ""))?;
    }
    let elapsed = api.bound(1 + N_PREEMPTORS)?;
    let cpu =
        child.usage().processor_time()?.saturating_sub(cpu_before).div_f64(real(N_PREEMPTORS));
    api.quiet();
    let kinds = listed(&api.writes_for_each(N_PREEMPTORS));
    let rate = real(N_PREEMPTORS) / elapsed.as_secs_f64();
    say(&format!(
        "preempt: {rate:.0} preemptors/s bound (>= {BUDGET:.0}), {VICTIMS_EACH} victims each, latencies as recorded + {} ms, \
         {} us of processor a preemptor, requests a preemptor {kinds}: {}",
        distance.as_millis(),
        cpu.as_micros(),
        if rate >= BUDGET { "met" } else { "NOT met" },
    ))
}
