//! The report as one self-contained page: no script, no network.

use std::fmt::Write as _;

use super::svg::{Axis, Chart, escape};
use super::table::time;
use super::{Latency, LoadReport};

/// The whole page.
pub fn render(report: &LoadReport) -> String {
    let mut page = String::new();
    page.push_str(HEAD);
    // Writing to a `String` cannot fail.
    writeln!(page, "<h1>Berth under load</h1>\n<p>{}</p>", escape(&summary(report))).ok();
    page.push_str(&figures(report));
    page.push_str("<h2>Latency by percentile</h2>\n");
    page.push_str(&latency_chart(report));
    page.push_str("<h2>Throughput over time</h2>\n");
    page.push_str(&throughput_chart(report));
    page.push_str(&pending(report));
    page.push_str(&errors(report));
    page.push_str("</main></body></html>\n");
    page
}

const HEAD: &str = r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Berth under load</title>
<style>
:root { color-scheme: light dark; --back: #fff; --text: #22272e; --soft: #5b6570; --grid: #d8dde3; --line-0: #0b62c4; --line-1: #b3541e; }
@media (prefers-color-scheme: dark) {
  :root { --back: #15191e; --text: #e3e8ee; --soft: #9aa5b1; --grid: #333b45; --line-0: #6cb2ff; --line-1: #f0a070; }
}
body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 820px; margin: 0 auto; padding: 24px 20px 48px; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
p { color: var(--soft); margin: .2rem 0 1rem; }
svg { width: 100%; height: auto; display: block; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem 1.2rem .25rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--grid); }
th { color: var(--soft); font-weight: 500; }
.scroll { overflow-x: auto; }
.figures th, .figures td { white-space: nowrap; padding-right: .9rem; }
</style></head><body><main>
"#;

fn summary(report: &LoadReport) -> String {
    let arrival = match report.rate_pods_per_second {
        Some(rate) => format!("open loop at {rate} pods/s, latency from the intended start"),
        None => "closed loop".to_owned(),
    };
    let effect = if report.assume { "pods assumed" } else { "dry run" };
    let pods = if report.batch_size == 1 { "pod" } else { "pods" };
    let mode = match report.mode {
        crate::client::Mode::Unary => "unary",
        crate::client::Mode::Batch => "batch",
        crate::client::Mode::Stream => "stream",
    };
    format!(
        "{mode}, {} {pods} a request, {arrival}, {effect}, {} connections, {} requests in flight, {:.1} s",
        report.batch_size, report.n_connections, report.concurrency, report.elapsed_seconds
    )
}

fn figures(report: &LoadReport) -> String {
    let latency = &report.latency;
    let cells = [
        ("decisions/s", format!("{:.0}", report.decisions_per_second)),
        ("pods", report.n_pods.to_string()),
        ("placed", report.n_placed.to_string()),
        ("pending", report.n_unschedulable.to_string()),
        ("gated", report.n_gated.to_string()),
        ("errors", report.n_errors.to_string()),
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

/// A power of ten of microseconds without decimals.
fn axis_time(us: f64) -> String {
    match us {
        us if us < 1_000.0 => format!("{us} µs"),
        us if us < 1_000_000.0 => format!("{} ms", us / 1_000.0),
        us => format!("{} s", us / 1_000_000.0),
    }
}

fn throughput_chart(report: &LoadReport) -> String {
    let rates = rates(report);
    let n_seconds = rates.len().max(1) as f64;
    let greatest = rates.iter().copied().fold(0.0, f64::max);
    let end = report.elapsed_seconds.max(n_seconds - 1.0);
    // A step a second: the count is of that whole second, not of an instant.
    let points: Vec<(f64, f64)> = rates
        .iter()
        .enumerate()
        .flat_map(|(second, rate)| {
            [(second as f64, *rate), ((second as f64 + 1.0).min(end), *rate)]
        })
        .collect();
    let chart = Chart {
        title: "Pods answered in each second of the run",
        x: Axis::linear("seconds since the start", n_seconds),
        // A little headroom keeps a steady line off the frame.
        y: Axis::linear("pods answered a second", greatest * 1.05),
        lines: vec![("pods a second", points)],
    };
    chart.render()
}

/// Pods a second; the last second is scaled up from the part of it that belongs to the run.
fn rates(report: &LoadReport) -> Vec<f64> {
    let mut rates: Vec<f64> = report.pods_by_second.iter().map(|n_pods| *n_pods as f64).collect();
    let part = report.elapsed_seconds - (rates.len().max(1) - 1) as f64;
    if let Some(last) = rates.last_mut()
        && (0.05..1.0).contains(&part)
    {
        *last /= part;
    }
    rates
}

fn pending(report: &LoadReport) -> String {
    if report.pending_by_reason.is_empty() {
        return String::new();
    }
    let rows: String = report
        .pending_by_reason
        .iter()
        .map(|(reason, n_pods)| format!("<tr><td>{}</td><td>{n_pods}</td></tr>\n", escape(reason)))
        .collect();
    let examples: String = report
        .pending_examples
        .iter()
        .map(|pending| {
            format!(
                "<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                escape(&pending.example),
                pending.n_pods,
                escape(&pending.message)
            )
        })
        .collect();
    format!(
        "<h2>Why pods are pending</h2>\n<table><tr><th>reason on at least one node</th><th>pods</th></tr>\n{rows}</table>\n\
         <h2>Some of them</h2>\n<table><tr><th>pod</th><th>pods like it</th><th>message</th></tr>\n{examples}</table>\n"
    )
}

fn errors(report: &LoadReport) -> String {
    if report.errors.is_empty() {
        return String::new();
    }
    let rows: String = report
        .errors
        .iter()
        .map(|(code, count)| {
            format!(
                "<tr><td>{code}</td><td>{}</td><td>{}</td></tr>\n",
                count.n_pods,
                escape(&count.example)
            )
        })
        .collect();
    format!(
        "<h2>Errors</h2>\n<table><tr><th>code</th><th>pods</th><th>first message</th></tr>\n{rows}</table>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::{rates, render};
    use crate::report::tests::example;

    #[test]
    fn page_stands_alone_and_escapes_what_the_server_said() {
        let page = render(&example());
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert_eq!(page.matches("<svg").count(), 2);
        assert!(page.contains("the &lt;server&gt; is gone") && !page.contains("<server>"));
        assert!(!page.contains("http://") && !page.contains("<script"));
        for text in [
            "percentile of requests",
            "latency of a request",
            "seconds since the start",
            "from intended start",
        ] {
            assert!(page.contains(text), "{text}");
        }
    }

    #[test]
    fn last_second_is_scaled_by_its_part() {
        let mut report = example();
        assert_eq!(rates(&report), [480.0, 520.0]);
        report.elapsed_seconds = 1.5;
        assert_eq!(rates(&report), [480.0, 1040.0]);
        report.pods_by_second.clear();
        assert!(rates(&report).is_empty());
        assert!(render(&report).contains("</svg>"));
    }
}
