//! A small chart writer: lines over two labelled axes, as an SVG element to stand in a page.
//!
//! Colours come from the CSS variables `--line-0` to `--line-2`, `--grid` and `--text` of the surrounding page.

use std::fmt::Write as _;

/// A chart of one to three lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart<'a> {
    /// Title, read out by screen readers.
    pub title: &'a str,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Name and points (x, y) in the axes' own units.
    pub lines: Vec<(&'a str, Vec<(f64, f64)>)>,
}

/// One axis: the scale of its values and the marked values.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    label: String,
    scale: Scale,
    from: f64,
    to: f64,
    /// The marked values with their texts.
    ticks: Vec<(f64, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    /// Logarithm to base 10.
    Log,
    /// Percentiles by the logarithm of the remaining share: 90, 99 and 99.9 are equally far apart.
    Percentile,
}

impl Scale {
    fn scaled(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
            Scale::Percentile => -(1.0 - value / 100.0).max(1e-9).log10(),
        }
    }
}

impl Axis {
    /// From 0 to a round value at or above `max`, with a mark at each round step.
    pub fn linear(label: &str, max: f64) -> Self {
        let step = round_step(max / 5.0);
        let n_steps = (max / step).ceil().max(1.0) as u32;
        let ticks = (0..=n_steps)
            .map(|n| f64::from(n) * step)
            .map(|value| (value, number(value)))
            .collect();
        Self {
            label: label.to_owned(),
            scale: Scale::Linear,
            from: 0.0,
            to: f64::from(n_steps) * step,
            ticks,
        }
    }

    /// Whole powers of ten around `min..=max`, both positive, each marked with `text`.
    pub fn log(label: &str, min: f64, max: f64, text: impl Fn(f64) -> String) -> Self {
        let first = min.max(1e-3).log10().floor() as i32;
        let last = (max.max(1e-3).log10().ceil() as i32).max(first + 1);
        let ticks = (first..=last)
            .map(|power| 10_f64.powi(power))
            .map(|value| (value, text(value)))
            .collect();
        Self {
            label: label.to_owned(),
            scale: Scale::Log,
            from: 10_f64.powi(first),
            to: 10_f64.powi(last),
            ticks,
        }
    }

    /// Percentiles from 0 to the highest that `n` samples distinguish from the maximum, at least 99.
    pub fn percentile(label: &str, n: u64) -> Self {
        let last = 100.0 - 100.0 / (n.max(100) as f64);
        let marks = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];
        let ticks = marks
            .iter()
            .filter(|mark| **mark <= last + 1e-9)
            .map(|mark| (*mark, format!("{mark} %")))
            .collect();
        Self { label: label.to_owned(), scale: Scale::Percentile, from: 0.0, to: last, ticks }
    }

    /// Share of the axis before `value`, clamped to 0 and 1.
    fn position(&self, value: f64) -> f64 {
        let place = |value| self.scale.scaled(value);
        ((place(value) - place(self.from)) / (place(self.to) - place(self.from))).clamp(0.0, 1.0)
    }
}

/// 1, 2 or 5 times a power of ten, at or above `least`.
fn round_step(least: f64) -> f64 {
    if least <= 0.0 || !least.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= least * 0.999_999)
        .unwrap_or(power)
}

/// Shortens large numbers: `5000` and `250000` become `5k` and `250k`.
fn number(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e3 => format!("{}k", value / 1e3),
        value => format!("{}", (value * 1e6).round() / 1e6),
    }
}

/// Width of a chart.
const WIDTH: f64 = 760.0;
/// Height of a chart.
const HEIGHT: f64 = 340.0;
/// The colours of a file that stands alone, for light and dark pages.
const STYLE: &str = "<style>
:root { --back: #fff; --text: #22272e; --grid: #d8dde3; --line-0: #5b6570; --line-1: #0b62c4; --line-2: #b3541e; }
@media (prefers-color-scheme: dark) { :root { --back: #15191e; --text: #e3e8ee; --grid: #333b45; --line-0: #9aa5b1; --line-1: #6cb2ff; --line-2: #f0a070; } }
</style>
";

/// Charts below each other, as an SVG file that needs no page.
pub fn file(title: &str, charts: &[Chart<'_>]) -> String {
    let height = HEIGHT * charts.len() as f64;
    let mut svg = String::new();
    // Writing to a `String` cannot fail.
    writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-label="{}">"#,
        escape(title)
    )
    .ok();
    svg.push_str(STYLE);
    writeln!(svg, r#"<rect width="100%" height="100%" fill="var(--back)"/>"#).ok();
    for (number, chart) in charts.iter().enumerate() {
        svg.push_str(&chart.render_at(HEIGHT * number as f64));
    }
    svg.push_str("</svg>\n");
    svg
}
const LEFT: f64 = 86.0;
/// Wide enough for half of the last mark of an axis.
const RIGHT: f64 = 40.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 52.0;

impl Chart<'_> {
    /// The `<svg>` element.
    pub fn render(&self) -> String {
        self.render_with("")
    }

    /// The `<svg>` element inside another one, `y` below its top.
    fn render_at(&self, y: f64) -> String {
        self.render_with(&format!(r#"x="0" y="{y}" width="{WIDTH}" height="{HEIGHT}" "#))
    }

    fn render_with(&self, attributes: &str) -> String {
        let mut svg = String::new();
        // Writing to a `String` cannot fail.
        writeln!(
            svg,
            r#"<svg {attributes}viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}" font-family="system-ui, sans-serif" font-size="13">"#,
            escape(self.title)
        )
        .ok();
        self.axes(&mut svg);
        for (number, (name, points)) in self.lines.iter().enumerate() {
            self.line(&mut svg, number, name, points);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn axes(&self, svg: &mut String) {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for (value, text) in &self.x.ticks {
            let x = self.x_at(*value);
            writeln!(svg, r#"<path d="M{x:.1} {TOP}V{bottom}" stroke="var(--grid)"/>"#).ok();
            let y = bottom + 19.0;
            writeln!(
                svg,
                r#"<text x="{x:.1}" y="{y}" text-anchor="middle" fill="var(--text)">{}</text>"#,
                escape(text)
            )
            .ok();
        }
        for (value, text) in &self.y.ticks {
            let y = self.y_at(*value);
            writeln!(svg, r#"<path d="M{LEFT} {y:.1}H{right}" stroke="var(--grid)"/>"#).ok();
            let (x, y) = (LEFT - 8.0, y + 4.5);
            writeln!(
                svg,
                r#"<text x="{x}" y="{y:.1}" text-anchor="end" fill="var(--text)">{}</text>"#,
                escape(text)
            )
            .ok();
        }
        let (x, y) = (f64::midpoint(LEFT, right), HEIGHT - 10.0);
        let x_label = escape(&self.x.label);
        writeln!(
            svg,
            r#"<text x="{x}" y="{y}" text-anchor="middle" fill="var(--text)">{x_label}</text>"#
        )
        .ok();
        let y = f64::midpoint(TOP, bottom);
        let y_label = escape(&self.y.label);
        writeln!(
            svg,
            r#"<text x="16" y="{y}" text-anchor="middle" fill="var(--text)" transform="rotate(-90 16 {y})">{y_label}</text>"#
        )
        .ok();
    }

    fn line(&self, svg: &mut String, number: usize, name: &str, points: &[(f64, f64)]) {
        let mut path = String::new();
        for (x, y) in points {
            let command = if path.is_empty() { 'M' } else { 'L' };
            write!(path, "{command}{:.1} {:.1}", self.x_at(*x), self.y_at(*y)).ok();
        }
        writeln!(
            svg,
            r#"<path d="{path}" fill="none" stroke="var(--line-{number})" stroke-width="2.2" stroke-linejoin="round" stroke-linecap="round"/>"#
        )
        .ok();
        let (x, y) = (LEFT + 4.0 + 200.0 * number as f64, TOP - 14.0);
        let (end, text, middle) = (x + 22.0, x + 29.0, y - 4.5);
        writeln!(
            svg,
            r#"<path d="M{x} {middle}H{end}" stroke="var(--line-{number})" stroke-width="3"/>"#
        )
        .ok();
        writeln!(svg, r#"<text x="{text}" y="{y}" fill="var(--text)">{}</text>"#, escape(name))
            .ok();
    }

    fn x_at(&self, value: f64) -> f64 {
        LEFT + self.x.position(value) * (WIDTH - LEFT - RIGHT)
    }

    fn y_at(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.position(value) * (HEIGHT - TOP - BOTTOM)
    }
}

/// Text that is safe inside HTML and attribute values.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::{Axis, Chart, round_step};

    fn ticks(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        assert_eq!(ticks(&Axis::linear("", 43.0)), ["0", "10", "20", "30", "40", "50"]);
        assert_eq!(ticks(&Axis::linear("", 0.0)), ["0", "1"]);
        assert_eq!(ticks(&Axis::linear("", 120_000.0)), ["0", "50k", "100k", "150k"]);
        assert_eq!(ticks(&Axis::linear("", 9_000.0)), ["0", "2k", "4k", "6k", "8k", "10k"]);
        let power = |value: f64| format!("{value}");
        assert_eq!(ticks(&Axis::log("", 30.0, 2_000.0, power)), ["10", "100", "1000", "10000"]);
        assert_eq!(ticks(&Axis::log("", 10.0, 10.0, power)), ["10", "100"]);
        assert_eq!(ticks(&Axis::percentile("", 1_000)), ["0 %", "50 %", "90 %", "99 %", "99.9 %"]);
        assert_eq!([round_step(0.3), round_step(1.0), round_step(7.0)], [0.5, 1.0, 10.0]);
    }

    #[test]
    fn positions_follow_the_scale() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(Axis::linear("", 50.0).position(25.0), 0.5));
        assert!(near(Axis::log("", 10.0, 1_000.0, |_| String::new()).position(100.0), 0.5));
        let percentile = Axis::percentile("", 10_000);
        assert!(near(percentile.position(99.0), 0.5));
        assert!(near(percentile.position(100.0), 1.0));
    }

    #[test]
    fn a_chart_draws_each_line_and_escapes_texts() {
        let chart = Chart {
            title: "a <b>",
            x: Axis::linear("x & y", 1.0),
            y: Axis::linear("z", 1.0),
            lines: vec![("one", vec![(0.0, 0.0), (1.0, 1.0)])],
        };
        let svg = chart.render();
        assert!(svg.contains(r#"d="M86.0 288.0L720.0 34.0""#), "{svg}");
        assert!(svg.contains("a &lt;b&gt;") && svg.contains("x &amp; y"));
    }
}
