//! Text: Prometheus' text format, version 0.0.4. Of histograms it has the classic buckets.

use std::fmt::Write as _;

use super::description::Kind;
use super::registry::{Gathered, Metric, Series};

/// What this format is called in `Content-Type`.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A typical answer has about so many bytes.
const USUAL_LENGTH: usize = 64 << 10;

pub(super) fn write(families: &[Gathered]) -> String {
    let mut out = String::with_capacity(USUAL_LENGTH);
    for family in families {
        let description = family.description;
        let (name, kind) = (description.name, description.kind);
        out.push_str("# HELP ");
        out.push_str(name);
        out.push(' ');
        escape(&mut out, description.help, false);
        out.push_str("\n# TYPE ");
        out.push_str(name);
        out.push(' ');
        out.push_str(kind.name());
        out.push('\n');
        for series in &family.series {
            let labels = labels(description.labels, series);
            match &series.metric {
                Metric::Counter(counter) => line(&mut out, name, "", &labels, counter.read()),
                Metric::Gauge(gauge) => line(&mut out, name, "", &labels, Double(gauge.read())),
                Metric::Histogram(histogram) => {
                    debug_assert!(matches!(kind, Kind::Histogram { .. }), "{name} is no histogram");
                    let read = histogram.read();
                    for (bound, n) in read.classic {
                        bucket(&mut out, name, &labels, Double(bound), n);
                    }
                    bucket(&mut out, name, &labels, Double(f64::INFINITY), read.n);
                    line(&mut out, name, "_sum", &labels, Double(read.sum));
                    line(&mut out, name, "_count", &labels, read.n);
                }
            }
        }
    }
    out
}

/// As between the braces.
fn labels(names: &[&str], series: &Series) -> String {
    let mut labels = String::new();
    for (name, value) in names.iter().zip(&series.values) {
        if !labels.is_empty() {
            labels.push(',');
        }
        labels.push_str(name);
        labels.push_str("=\"");
        escape(&mut labels, value, true);
        labels.push('"');
    }
    labels
}

fn line(out: &mut String, name: &str, suffix: &str, labels: &str, value: impl std::fmt::Display) {
    out.push_str(name);
    out.push_str(suffix);
    if !labels.is_empty() {
        out.push('{');
        out.push_str(labels);
        out.push('}');
    }
    // Writing to a string never fails.
    let _ = writeln!(out, " {value}");
}

fn bucket(out: &mut String, name: &str, labels: &str, bound: Double, n: u64) {
    out.push_str(name);
    out.push_str("_bucket{");
    out.push_str(labels);
    if !labels.is_empty() {
        out.push(',');
    }
    let _ = writeln!(out, "le=\"{bound}\"}} {n}");
}

/// What would end a line or, if `is_quoted`, a value.
fn escape(out: &mut String, text: &str, is_quoted: bool) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if is_quoted => out.push_str("\\\""),
            c => out.push(c),
        }
    }
}

/// As Prometheus writes doubles.
#[derive(Copy, Clone)]
struct Double(f64);

impl std::fmt::Display for Double {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            f64::INFINITY => f.write_str("+Inf"),
            f64::NEG_INFINITY => f.write_str("-Inf"),
            finite_or_nan => write!(f, "{finite_or_nan}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::description::Description;
    use crate::telemetry::registry::Registry;

    const ODD: Description = Description::gauge("odd", &["name"], "A \"help\" of\ntwo lines \\.");
    const TOOK: Description = Description::seconds("took_seconds", &["who"], &[0.5, 1.0], "Took.");

    #[test]
    fn what_would_end_a_line_is_escaped() {
        let registry = Registry::new(&[&[&ODD, &TOOK]]);
        registry.gauge(&ODD, &["a\"b\\c\nd"]).set(f64::NEG_INFINITY);
        registry.gauge(&ODD, &["ж"]).set(f64::NAN);
        assert_eq!(
            write(&registry.gather()),
            "# HELP odd A \"help\" of\\ntwo lines \\\\.\n# TYPE odd gauge\n\
             odd{name=\"a\\\"b\\\\c\\nd\"} -Inf\nodd{name=\"ж\"} NaN\n"
        );
    }

    #[test]
    fn buckets_are_cumulative() {
        let registry = Registry::new(&[&[&ODD, &TOOK]]);
        let took = registry.histogram(&TOOK, &["me"]);
        [0.25, 0.5, 0.75, 2.0].into_iter().for_each(|sample| took.record(sample));
        let text = write(&registry.gather());
        assert_eq!(
            text.lines().skip(2).collect::<Vec<_>>(),
            [
                "took_seconds_bucket{who=\"me\",le=\"0.5\"} 2",
                "took_seconds_bucket{who=\"me\",le=\"1\"} 3",
                "took_seconds_bucket{who=\"me\",le=\"+Inf\"} 4",
                "took_seconds_sum{who=\"me\"} 3.5",
                "took_seconds_count{who=\"me\"} 4",
            ]
        );
    }
}
