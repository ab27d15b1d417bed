//! The report of a load run as one self-contained page without scripts or links.

use std::fmt::Write as _;

use super::made::Made;
use super::number::{counted, grouped, rounded};
use super::svg::{Axis, Chart, escape};
use super::table::{most_frequent_first, pods_per_second, time};
use super::{Latency, LoadReport, Moment};
use berth_client::outcome::PendingPods;

/// The whole page.
pub fn render(report: &LoadReport) -> String {
    let mut page = String::new();
    page.push_str(HEAD);
    // Writing to a `String` cannot fail.
    writeln!(page, "<h1>Berth under load</h1>\n<p>{}</p>", escape(&summary(report))).ok();
    page.push_str(&made(report));
    page.push_str(&figures(report));
    page.push_str("<h2>Latency by percentile</h2>\n");
    page.push_str(&latency_chart(report));
    page.push_str("<h2>Latency over time</h2>\n");
    page.push_str(&latency_over_time_chart(report));
    page.push_str("<h2>Throughput over time</h2>\n");
    page.push_str(&throughput_chart(report));
    page.push_str(&pending(report));
    page.push_str(&gated(report));
    page.push_str(&errors(report));
    page.push_str("</main></body></html>\n");
    page
}

const HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Berth under load</title>
<style>
:root { color-scheme: light dark; --back: #fff; --text: #22272e; --soft: #5b6570; --grid: #d8dde3; --line-0: #0b62c4; --line-1: #b3541e; --line-2: #2f7d4f; }
@media (prefers-color-scheme: dark) {
  :root { --back: #15191e; --text: #e3e8ee; --soft: #9aa5b1; --grid: #333b45; --line-0: #6cb2ff; --line-1: #f0a070; --line-2: #7ccf9b; }
}
body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 820px; margin: 0 auto; padding: 24px 20px 48px; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
p { color: var(--soft); margin: .2rem 0 1rem; }
svg { width: 100%; height: auto; display: block; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem 1.2rem .25rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--grid); }
th { color: var(--soft); font-weight: 500; }
code { overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
.figures th, .figures td { white-space: nowrap; padding-right: .9rem; }
</style></head><body><main>
"#;

fn summary(report: &LoadReport) -> String {
    let arrival = match report.rate_pods_per_second {
        Some(rate) => format!(
            "open loop at {} pods/s, latency from the intended start",
            pods_per_second(rate)
        ),
        None => "closed loop".to_owned(),
    };
    let effect = if report.assume { "pods assumed" } else { "dry run" };
    let mode = match report.mode {
        berth_client::Mode::Unary => "unary",
        berth_client::Mode::Batch => "batch",
        berth_client::Mode::Stream => "stream",
    };
    let early = if report.interrupted { ", interrupted" } else { "" };
    format!(
        "{mode}, {} a request, {arrival}, {effect}, {}, {} in flight, {:.1} s{early}",
        counted(report.batch_size as u64, "pod"),
        counted(report.n_connections as u64, "connection"),
        counted(report.concurrency as u64, "request"),
        report.elapsed_seconds
    )
}

fn figures(report: &LoadReport) -> String {
    let latency = &report.latency;
    let cells = [
        ("decisions/s", rounded(report.decisions_per_second)),
        ("pods", grouped(report.n_pods)),
        ("placed", grouped(report.n_placed)),
        ("pending", grouped(report.n_unschedulable)),
        ("gated", grouped(report.n_gated)),
        ("errors", grouped(report.n_errors)),
        ("p50", time(latency.p50_us)),
        ("p99", time(latency.p99_us)),
        ("p99.9", time(latency.p999_us)),
        ("max", time(latency.max_us)),
    ];
    let head: String = cells.iter().map(|(name, _)| format!("<th>{name}</th>")).collect();
    let row: String = cells.iter().map(|(_, value)| format!("<td>{value}</td>")).collect();
    format!(
        "<div class=\"scroll\"><table class=\"figures\"><tr>{head}</tr><tr>{row}</tr></table></div>\n"
    )
}

fn latency_chart(report: &LoadReport) -> String {
    if report.latency.n == 0 {
        return "<p>no request was answered</p>\n".to_owned();
    }
    let points = |latency: &Latency| {
        latency.curve.iter().map(|point| (point.percentile, point.us)).collect()
    };
    let mut lines = Vec::new();
    let mut least = report.latency.min_us;
    if report.rate_pods_per_second.is_some() {
        lines.push(("from intended start", points(&report.latency)));
        lines.push(("from sending", points(&report.service_time)));
        least = least.min(report.service_time.min_us);
    } else {
        lines.push(("latency", points(&report.latency)));
    }
    let chart = Chart {
        title: "Latency of a request by percentile, on a logarithmic axis",
        x: Axis::percentile("percentile of requests", report.latency.n),
        y: Axis::log("latency of a request", least, report.latency.max_us, axis_time),
        lines,
    };
    chart.render()
}

/// The text of a power of ten of microseconds, without decimals.
fn axis_time(us: f64) -> String {
    match us {
        us if us < 1_000.0 => format!("{us} µs"),
        us if us < 1_000_000.0 => format!("{} ms", us / 1_000.0),
        us => format!("{} s", us / 1_000_000.0),
    }
}

fn throughput_chart(report: &LoadReport) -> String {
    let rates: Vec<(&Moment, f64)> = report.over_time.iter().filter_map(rated).collect();
    let greatest = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let points = steps(&rates);
    let chart = Chart {
        title: "Pods decided a second, over the time of the run",
        x: Axis::linear("seconds since the start", report.elapsed_seconds),
        // A little headroom keeps a steady line off the frame.
        y: Axis::linear("pods decided a second", greatest * 1.05),
        lines: vec![("pods a second", points)],
    };
    chart.render()
}

/// A step for each moment, because its count belongs to all of it.
fn steps(moments: &[(&Moment, f64)]) -> Vec<(f64, f64)> {
    moments
        .iter()
        .flat_map(|(moment, y)| {
            let from = moment.from_seconds;
            [(from, *y), (from + moment.seconds, *y)]
        })
        .collect()
}

/// Pods a second; `None` for a last moment that is too short to tell.
fn rated(moment: &Moment) -> Option<(&Moment, f64)> {
    const SHORTEST: f64 = 0.02;
    (moment.seconds >= SHORTEST).then(|| (moment, moment.n_pods as f64 / moment.seconds))
}

fn latency_over_time_chart(report: &LoadReport) -> String {
    let answered = || report.over_time.iter().filter(|moment| moment.max_us > 0.0);
    let least = answered().map(|moment| moment.p50_us).fold(f64::INFINITY, f64::min);
    let greatest = answered().map(|moment| moment.max_us).fold(0.0, f64::max);
    if greatest <= 0.0 {
        return "<p>no request was answered</p>\n".to_owned();
    }
    let of = |value: fn(&Moment) -> f64| {
        steps(&answered().map(|moment| (moment, value(moment))).collect::<Vec<_>>())
    };
    let chart = Chart {
        title: "Latency of requests over the time of the run, on a logarithmic axis",
        x: Axis::linear("seconds since the start", report.elapsed_seconds),
        y: Axis::log("latency of a request", least, greatest, axis_time),
        lines: vec![
            ("median", of(|moment| moment.p50_us)),
            ("99th percentile", of(|moment| moment.p99_us)),
            ("maximum", of(|moment| moment.max_us)),
        ],
    };
    chart.render()
}

/// How the report was made.
fn made(report: &LoadReport) -> String {
    let Made { version, at, machine, command } = &report.made;
    let text = format!("berth-loadgen {version}, {at}, {machine}");
    format!("<p>{}<br><code>{}</code></p>\n", escape(&text), escape(command))
}

fn pending(report: &LoadReport) -> String {
    if report.pending_by_reason.is_empty() {
        return String::new();
    }
    let reasons = most_frequent_first(report)
        .into_iter()
        .map(|(reason, n_pods)| vec![reason.to_owned(), grouped(n_pods)]);
    let reasons = rows(&["reason on at least one node", "pods"], reasons);
    let examples = examples(&report.pending_examples);
    format!("<h2>Why pods are pending</h2>\n{reasons}<h2>Some of them</h2>\n{examples}")
}

fn gated(report: &LoadReport) -> String {
    if report.gated_examples.is_empty() {
        return String::new();
    }
    format!("<h2>Gated pods</h2>\n{}", examples(&report.gated_examples))
}

fn examples(pods: &[PendingPods]) -> String {
    let examples = pods
        .iter()
        .map(|pods| vec![pods.example.clone(), grouped(pods.n_pods), pods.message.clone()]);
    rows(&["pod", "pods like it", "message"], examples)
}

fn errors(report: &LoadReport) -> String {
    if report.errors.is_empty() {
        return String::new();
    }
    let errors = report.errors.iter().map(|(code, count)| {
        let numbers = [count.n_pods, count.n_requests].map(grouped);
        let [n_pods, n_requests] = numbers;
        vec![code.clone(), n_pods, n_requests, count.example.clone()]
    });
    let errors = rows(&["code", "pods", "failed requests", "first message"], errors);
    format!("<h2>Errors</h2>\n{errors}")
}

/// A table that scrolls on its own where the page is narrow; every text is escaped.
fn rows(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let head: String = header.iter().map(|name| format!("<th>{}</th>", escape(name))).collect();
    let body: String = rows
        .map(|cells| {
            let cells: String =
                cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
            format!("<tr>{cells}</tr>\n")
        })
        .collect();
    format!("<div class=\"scroll\"><table><tr>{head}</tr>\n{body}</table></div>\n")
}

#[cfg(test)]
mod tests {
    use super::{Moment, rated, render};
    use crate::report::tests::example;

    #[test]
    fn page_stands_alone_and_escapes_texts_of_the_server() {
        let page = render(&example());
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert_eq!(page.matches("<svg").count(), 3);
        assert!(page.contains("the &lt;server&gt; is gone") && !page.contains("<server>"));
        assert!(!page.contains("http://") && !page.contains("<script"));
        for text in [
            "percentile of requests",
            "latency of a request",
            "seconds since the start",
            "from intended start",
            "99th percentile",
            "berth-loadgen 0.2.0, 2026-11-24 12:00:00 UTC, a processor, 2 threads, linux",
            "berth-loadgen run --arrival open --rate 500",
        ] {
            assert!(page.contains(text), "{text}");
        }
    }

    #[test]
    fn a_short_last_moment_is_scaled_by_its_length_or_left_out() {
        let moment = example().over_time[0];
        assert_eq!(rated(&moment).map(|(_, rate)| rate), Some(960.0));
        let short = Moment { seconds: 0.25, ..moment };
        assert_eq!(rated(&short).map(|(_, rate)| rate), Some(1_920.0));
        assert!(rated(&Moment { seconds: 0.01, ..moment }).is_none());
        let mut report = example();
        report.over_time.clear();
        assert!(render(&report).contains("</svg>"));
    }
}
