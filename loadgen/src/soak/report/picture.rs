//! Picture of a soak: memory, descriptors and pods over time, as one SVG file.

use super::{Sample, SoakReport, mebibytes};
use crate::report::svg::{self, Axis, Chart};

impl SoakReport {
    /// The picture as an `.svg` file.
    pub fn picture(&self) -> String {
        svg::file("A soak", &self.charts())
    }

    fn charts(&self) -> Vec<Chart<'static>> {
        let chart = |title, label, lines: Vec<(&'static str, Vec<(f64, f64)>)>| {
            let points = || lines.iter().flat_map(|(_, points)| points);
            let most = points().map(|point| point.1).fold(1.0, f64::max);
            let x = Axis::linear("minutes", self.elapsed_seconds / 60.0);
            let is_empty = points().next().is_none();
            (!is_empty).then_some(Chart { title, x, y: Axis::linear(label, most), lines })
        };
        let usage = |value: fn(&super::Usage) -> f64| {
            self.points(move |sample| sample.usage.as_ref().map(value))
        };
        let sessions = self.points(|sample| sample.n_sessions.map(|n| n as f64));
        let pods = self.points(|sample| Some(sample.n_pods as f64));
        let assumed = self.points(|sample| Some(sample.n_assumed as f64));
        let charts = [
            chart("Resident memory over time", "MiB", vec![("memory (VmRSS)", usage(mebibytes))]),
            chart(
                "File descriptors and threads over time",
                "number",
                vec![
                    ("file descriptors", usage(|usage| usage.n_fds as f64)),
                    ("threads", usage(|usage| usage.n_threads as f64)),
                ],
            ),
            chart("Sessions over time", "number", vec![("open sessions", sessions)]),
            chart(
                "Pods over time",
                "number",
                vec![("pods on nodes", pods), ("of them assumed", assumed)],
            ),
        ];
        charts.into_iter().flatten().collect()
    }

    fn points(&self, value: impl Fn(&Sample) -> Option<f64>) -> Vec<(f64, f64)> {
        let point = |sample: &Sample| Some((sample.at_seconds / 60.0, value(sample)?));
        self.samples.iter().filter_map(point).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;

    #[test]
    fn each_chart_has_its_place_in_one_file() {
        let mut report = example(10.0);
        let svg = report.picture();
        assert!(
            svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 760 1360\"")
        );
        for (y, title) in [(0, "Resident memory"), (340, "File descriptors"), (680, "Sessions")] {
            let placed = format!("<svg x=\"0\" y=\"{y}\" width=\"760\" height=\"340\" viewBox=");
            let chart = svg.split(&placed).nth(1).unwrap();
            assert!(chart.lines().next().unwrap().contains(title), "{title}");
        }
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
        report.samples.iter_mut().for_each(|sample| sample.usage = None);
        assert!(!report.picture().contains("Resident memory"));
    }
}
