//! Text: writes Prometheus' text format, version 0.0.4. Histograms have their classic buckets.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use metrics::Label;

use super::registry::{Cell, Gathered};

/// Value of `Content-Type` for this format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// About the length of a typical response, in bytes.
const USUAL_LENGTH: usize = 64 << 10;

pub(super) fn write(families: &[Gathered]) -> String {
    let mut out = String::with_capacity(USUAL_LENGTH);
    for family in families {
        let name = family.name.as_str();
        head(&mut out, family);
        for series in &family.series {
            let labels = labels(&series.labels);
            match &series.cell {
                Cell::Counter(cell) => {
                    line(&mut out, name, "", &labels, cell.load(Ordering::Relaxed));
                }
                Cell::Gauge(cell) => {
                    let value = f64::from_bits(cell.load(Ordering::Relaxed));
                    line(&mut out, name, "", &labels, Double(value));
                }
                Cell::Histogram(cells) => {
                    let read = cells.read();
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

/// Writes the lines with help and type. A metric that was never described has no help.
fn head(out: &mut String, family: &Gathered) {
    let name = family.name.as_str();
    if !family.help.is_empty() {
        out.push_str("# HELP ");
        out.push_str(name);
        out.push(' ');
        escape(out, &family.help, false);
        out.push('\n');
    }
    out.push_str("# TYPE ");
    out.push_str(name);
    out.push(' ');
    out.push_str(family.kind.name());
    out.push('\n');
}

/// The text between the braces.
fn labels(labels: &[Label]) -> String {
    let mut text = String::new();
    for label in labels {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(label.key());
        text.push_str("=\"");
        escape(&mut text, label.value(), true);
        text.push('"');
    }
    text
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

/// Escapes characters that would end a line or, if `is_quoted`, a value.
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

/// A double in Prometheus' notation.
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
    fn characters_that_end_a_line_are_escaped() {
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
