//! Reports of measurements, as text, JSON or a page.

pub mod html;
pub mod made;
pub mod number;
pub mod overload;
pub mod replay;
pub mod svg;
pub mod table;

use std::collections::BTreeMap;
use std::time::Duration;

use berth_client::Mode;
use berth_client::outcome::{ErrorCount, PendingPods};
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::load::tally::Tally;
use crate::load::timeline::{Slice, Timeline};
use crate::load::{Arrival, LoadSpec, Release};
use made::Made;

/// Report of one load run; `-o json` prints its serialised form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadReport {
    /// The RPC that placed the pods.
    pub mode: Mode,
    /// `closed` or `open`.
    pub arrival: &'static str,
    /// Intended pods a second of an open loop.
    pub rate_pods_per_second: Option<f64>,
    /// Whether the pods were assumed.
    pub assume: bool,
    /// Connections to the server.
    pub n_connections: usize,
    /// Limit of requests in flight.
    pub concurrency: usize,
    /// Pods a request.
    pub batch_size: usize,
    /// Seconds from the first request to the last answer, warm-up not counted.
    pub elapsed_seconds: f64,
    /// Whether a signal ended the run before its limit.
    pub interrupted: bool,
    /// Requests made, failed ones included.
    pub n_requests: u64,
    /// Pods answered with a decision: placed, unschedulable or gated.
    pub n_pods: u64,
    /// Pods with a node.
    pub n_placed: u64,
    /// Pods that fit no node.
    pub n_unschedulable: u64,
    /// Pods held back by a scheduling gate.
    pub n_gated: u64,
    /// Pods without a decision.
    pub n_errors: u64,
    /// Errors by gRPC code.
    pub errors: BTreeMap<String, ErrorCount>,
    /// Assumed pods that were deleted after the run.
    pub n_released: usize,
    /// Reason why assumed pods could not be deleted; the server still holds them.
    pub release_failure: Option<String>,
    /// Decisions (placed, unschedulable or gated) a second.
    pub decisions_per_second: f64,
    /// Time from the intended start of a request to its response; requests that failed with UNAVAILABLE have none.
    pub latency: Latency,
    /// Time from the sending of a request to its response; equal to `latency` in a closed loop.
    pub service_time: Latency,
    /// Unschedulable pods for which at least one node gave this reason.
    pub pending_by_reason: BTreeMap<String, u64>,
    /// The first few different messages of unschedulable pods.
    pub pending_examples: Vec<PendingPods>,
    /// The first few different messages of gated pods: the plugin and the gates.
    pub gated_examples: Vec<PendingPods>,
    /// The run in slices of equal length; the last one is partial.
    pub over_time: Vec<Moment>,
    /// When, where and how the report was made.
    pub made: Made,
}

/// A slice of the time of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Moment {
    /// Its start in seconds since the start of the run.
    pub from_seconds: f64,
    /// Its length in seconds.
    pub seconds: f64,
    /// Pods decided in it.
    pub n_pods: u64,
    /// The median latency of the requests answered in it; 0 without requests.
    pub p50_us: f64,
    /// Their 99th percentile.
    pub p99_us: f64,
    /// Their maximum.
    pub max_us: f64,
}

/// A distribution of times, in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// Number of measured times.
    pub n: u64,
    /// The mean.
    pub mean_us: f64,
    /// The minimum.
    pub min_us: f64,
    /// The median.
    pub p50_us: f64,
    /// The 90th percentile.
    pub p90_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// The maximum.
    pub max_us: f64,
    /// Points of the percentile curve, denser towards 100 %.
    pub curve: Vec<CurvePoint>,
}

/// `percentile` % of the times are at most `us` microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CurvePoint {
    /// From 0 to 100.
    pub percentile: f64,
    /// Microseconds.
    pub us: f64,
}

impl LoadReport {
    pub(crate) fn new(
        spec: &LoadSpec,
        n_connections: usize,
        elapsed: Duration,
        tally: Tally,
        release: Release,
    ) -> Self {
        let rate = match spec.arrival {
            Arrival::Closed => None,
            Arrival::Open { pods_per_second } => Some(pods_per_second),
        };
        let elapsed_seconds = elapsed.as_secs_f64();
        let Tally { outcomes, timeline, latency, service_time, .. } = tally;
        Self {
            mode: spec.mode,
            arrival: if rate.is_some() { "open" } else { "closed" },
            rate_pods_per_second: rate,
            assume: spec.options.mode == berth_proto::berth_v1::PlaceMode::Assume,
            n_connections,
            concurrency: spec.concurrency,
            batch_size: spec.batch_size,
            elapsed_seconds,
            interrupted: false,
            n_requests: outcomes.n_requests,
            n_pods: outcomes.n_pods,
            n_placed: outcomes.n_placed,
            n_unschedulable: outcomes.n_unschedulable,
            n_gated: outcomes.n_gated,
            n_errors: outcomes.n_errors(),
            errors: outcomes.errors,
            n_released: release.n_released,
            release_failure: release.failure,
            decisions_per_second: if elapsed_seconds > 0.0 {
                outcomes.n_pods as f64 / elapsed_seconds
            } else {
                0.0
            },
            latency: Latency::of(&latency),
            service_time: Latency::of(&service_time),
            pending_by_reason: outcomes.pending_by_reason,
            pending_examples: outcomes.pending_examples,
            gated_examples: outcomes.gated_examples,
            over_time: over_time(&timeline, elapsed_seconds),
            made: Made::now(),
        }
    }
}

/// The slices of a timeline; those after the last decision, up to the end of the run, are empty.
fn over_time(timeline: &Timeline, elapsed_seconds: f64) -> Vec<Moment> {
    let length = timeline.slice_length().as_secs_f64();
    let empty = Moment {
        from_seconds: 0.0,
        seconds: length,
        n_pods: 0,
        p50_us: 0.0,
        p99_us: 0.0,
        max_us: 0.0,
    };
    let of = |slice: &Slice| Moment {
        n_pods: slice.n_pods,
        p50_us: microseconds(slice.latency.value_at_quantile(0.5)),
        p99_us: microseconds(slice.latency.value_at_quantile(0.99)),
        max_us: microseconds(slice.latency.max()),
        ..empty
    };
    // The cast saturates.
    let n_slices = ((elapsed_seconds / length).ceil() as usize).max(timeline.slices().len());
    let slices = timeline.slices().iter().map(of).chain(std::iter::repeat(empty));
    let slices = slices.take(n_slices).enumerate().map(|(index, moment)| {
        let from_seconds = index as f64 * length;
        let seconds = (elapsed_seconds - from_seconds).clamp(0.0, length);
        Moment { from_seconds, seconds, ..moment }
    });
    slices.collect()
}

impl Latency {
    /// The distribution of a histogram of nanoseconds.
    pub fn of(nanoseconds: &Histogram<u64>) -> Self {
        let at = |quantile| microseconds(nanoseconds.value_at_quantile(quantile));
        let empty = nanoseconds.is_empty();
        let curve = if empty { Vec::new() } else { curve(nanoseconds) };
        Self {
            n: nanoseconds.len(),
            mean_us: nanoseconds.mean() / 1000.0,
            min_us: microseconds(nanoseconds.min()),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: microseconds(nanoseconds.max()),
            curve,
        }
    }
}

/// Four points for each halving of the distance to 100 %, as far as the number of samples distinguishes them.
fn curve(nanoseconds: &Histogram<u64>) -> Vec<CurvePoint> {
    nanoseconds
        .iter_quantiles(4)
        .map(|step| CurvePoint {
            percentile: step.quantile_iterated_to() * 100.0,
            us: microseconds(step.value_iterated_to().min(nanoseconds.max())),
        })
        .collect()
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use berth_client::Mode;
    use berth_client::outcome::{ErrorCount, PendingPods};
    use hdrhistogram::Histogram;

    use super::{Latency, LoadReport, Moment, over_time};
    use crate::load::timeline::Timeline;
    use crate::report::made::Made;

    /// An example report with 1,000 times of 1 to 1,000 µs.
    pub(crate) fn example() -> LoadReport {
        let mut histogram = Histogram::new(3).unwrap();
        for microseconds in 1..=1_000_u64 {
            histogram.record(microseconds * 1_000).unwrap();
        }
        LoadReport {
            mode: Mode::Unary,
            arrival: "open",
            rate_pods_per_second: Some(500.0),
            assume: true,
            n_connections: 2,
            concurrency: 16,
            batch_size: 1,
            elapsed_seconds: 2.0,
            interrupted: false,
            n_requests: 1_000,
            n_pods: 998,
            n_placed: 990,
            n_unschedulable: 7,
            n_gated: 1,
            n_errors: 2,
            errors: BTreeMap::from([(
                "UNAVAILABLE".to_owned(),
                ErrorCount {
                    n_requests: 2,
                    n_pods: 2,
                    example: "the <server> is gone".to_owned(),
                    first_at: None,
                },
            )]),
            n_released: 990,
            release_failure: None,
            decisions_per_second: 499.0,
            latency: Latency::of(&histogram),
            service_time: Latency::of(&histogram),
            pending_by_reason: BTreeMap::from([("Insufficient cpu".to_owned(), 7)]),
            pending_examples: vec![PendingPods {
                message: "0/5 nodes are available: 5 Insufficient cpu.".to_owned(),
                n_pods: 7,
                example: "ns/big".to_owned(),
            }],
            gated_examples: vec![PendingPods {
                message: "SchedulingGates: waiting for scheduling gates: [quota]".to_owned(),
                n_pods: 1,
                example: "ns/later".to_owned(),
            }],
            over_time: [480, 518, 500, 500]
                .into_iter()
                .enumerate()
                .map(|(index, n_pods)| Moment {
                    from_seconds: index as f64 * 0.5,
                    seconds: 0.5,
                    n_pods,
                    p50_us: 500.0,
                    p99_us: 990.0,
                    max_us: 1_000.0,
                })
                .collect(),
            made: Made {
                version: "0.2.0".to_owned(),
                at: "2026-11-24 12:00:00 UTC".to_owned(),
                machine: "a processor, 2 threads, linux".to_owned(),
                command: "berth-loadgen run --arrival open --rate 500".to_owned(),
            },
        }
    }

    #[test]
    fn percentiles_keep_three_digits() {
        let latency = example().latency;
        assert_eq!(latency.n, 1_000);
        for (value, expected) in [
            (latency.min_us, 1.0),
            (latency.p50_us, 500.0),
            (latency.p90_us, 900.0),
            (latency.p99_us, 990.0),
            (latency.p999_us, 999.0),
            (latency.max_us, 1_000.0),
            (latency.mean_us, 500.5),
        ] {
            assert!((value - expected).abs() <= expected * 0.002, "{value} for {expected}");
        }
    }

    #[test]
    fn the_curve_rises_and_ends_at_the_maximum() {
        let latency = example().latency;
        assert!(latency.curve.is_sorted_by(|a, b| a.percentile <= b.percentile && a.us <= b.us));
        let last = latency.curve.last().unwrap();
        assert_eq!((last.percentile, last.us), (100.0, latency.max_us));
    }

    #[test]
    fn an_empty_histogram_is_all_zero() {
        let latency = Latency::of(&Histogram::new(3).unwrap());
        assert_eq!(
            (latency.n, latency.p99_us, latency.max_us, latency.curve.len()),
            (0, 0.0, 0.0, 0)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_after_the_last_answer_is_shown_and_the_last_slice_is_partial() {
        let start = tokio::time::Instant::now();
        let mut timeline = Timeline::new(start);
        timeline.record(start, 3, Some(std::time::Duration::from_millis(2)));
        let moments = over_time(&timeline, 0.25);
        let [first, empty, last] = &moments[..] else { panic!("{moments:?}") };
        assert!((first.p50_us - 2_000.0).abs() < 40.0, "{first:?}");
        assert_eq!((first.n_pods, empty.n_pods, last.n_pods), (3, 0, 0));
        assert!((last.seconds - 0.05).abs() < 1e-9, "{last:?}");
    }

    #[test]
    fn json_names_carry_their_units() {
        let json = serde_json::to_value(example()).unwrap();
        assert_eq!(json["mode"], "unary");
        assert_eq!(json["decisions_per_second"], 499.0);
        assert_eq!(json["errors"]["UNAVAILABLE"]["n_pods"], 2);
        assert_eq!(json["latency"]["n"], 1_000);
        assert_eq!(json["over_time"][1]["n_pods"], 518);
        assert_eq!(json["made"]["version"], "0.2.0");
    }
}
