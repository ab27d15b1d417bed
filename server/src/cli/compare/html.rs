//! A comparison as a page: the table, and a plot of each figure over time. It needs nothing else, runs no script, and says
//! nothing that a colour alone tells.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_proto::berth_v1::{CompareResponse, FigureSample};
use ring::digest::{SHA256, digest};

use super::figures::{Comparison, percent, seconds};

/// Size of a plot, and the room around its lines.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 64.0;
const BELOW: f64 = 28.0;
const MARGIN: f64 = 12.0;
/// How lines differ, besides by their colour.
const DASHES: [&str; 4] = ["none", "8 4", "2 4", "10 4 2 4"];
const N_COLOURS: usize = 6;

const STYLE: &str = "
:root { color-scheme: light dark; --c0: #1b1b1b; --c1: #0b62c4; --c2: #b3400a; --c3: #1b7a3d; --c4: #7b3fb0; --c5: #8a6100 }
@media (prefers-color-scheme: dark) {
  :root { --c0: #eeeeee; --c1: #7db8ff; --c2: #ffa36b; --c3: #7fdc9d; --c4: #cfa6ff; --c5: #f2c14e }
}
body { font: 16px/1.5 system-ui, sans-serif; max-width: 80rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { padding: .25rem .75rem; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap }
th:first-child { text-align: left }
figure { display: inline-block; margin: 1rem 1rem 1rem 0; max-width: 100% }
svg { max-width: 100%; height: auto }
text { font: 12px system-ui, sans-serif; fill: currentColor }
.axis { stroke: currentColor; stroke-width: 1 }
";

/// The page.
pub(super) fn page(compared: &CompareResponse) -> String {
    let mut page = String::from("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    let style = STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
    // Writing to a String cannot fail.
    let _ = writeln!(
        page,
        "<meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'sha256-{style}'\">"
    );
    page.push_str("<title>Policies side by side</title>\n");
    let names: Vec<String> = compared.policies.iter().map(|it| escaped(&it.name)).collect();
    let _ = writeln!(page, "<style>{STYLE}</style>\n<h1>Policies side by side</h1>");
    let _ = writeln!(page, "<p>{}</p>", span(compared));
    page.push_str(&table(compared, &names));
    for (title, is_share, figure) in plots(compared) {
        let lines = compared.policies.iter().map(|figures| {
            let points = figures.samples.iter();
            points.filter_map(|sample| Some((micros(sample)?, figure(sample)?))).collect()
        });
        let lines: Vec<Vec<(u64, f64)>> = lines.collect();
        let _ = writeln!(page, "<figure><figcaption>{}</figcaption>", escaped(&title));
        page.push_str(&plot(&names, &lines, is_share));
        page.push_str("</figure>\n");
    }
    page.push_str("</html>\n");
    page
}

fn span(compared: &CompareResponse) -> String {
    let [from, until] = [compared.from, compared.until].map(Option::unwrap_or_default);
    format!("Recorded from {from} to {until}.")
}

/// When a sample was taken, in microseconds since 1970.
fn micros(sample: &FigureSample) -> Option<u64> {
    u64::try_from(sample.time?.unix_microseconds()?).ok()
}

fn table(compared: &CompareResponse, names: &[String]) -> String {
    let mut table = String::from("<table>\n<tr><th scope=\"col\">Figure</th>");
    for name in names {
        let _ = write!(table, "<th scope=\"col\">{name}</th>");
    }
    for (name, cells) in Comparison(compared).rows() {
        let _ = write!(table, "</tr>\n<tr><th scope=\"row\">{}</th>", escaped(&name));
        for cell in cells {
            let _ = write!(table, "<td>{}</td>", escaped(&cell));
        }
    }
    table.push_str("</tr>\n</table>\n");
    table
}

type Figure = Box<dyn Fn(&FigureSample) -> Option<f64>>;

/// The plots of the page. Each has a title, says whether its values are shares, and takes a value from a sample.
fn plots(compared: &CompareResponse) -> Vec<(String, bool, Figure)> {
    let mut plots: Vec<(String, bool, Figure)> = vec![
        ("Pods that wait".to_owned(), false, Box::new(|it| Some(f64::from(it.n_waiting)))),
        ("Nodes in use".to_owned(), false, Box::new(|it| Some(f64::from(it.n_busy)))),
    ];
    let sample = compared.policies.iter().find_map(|figures| figures.samples.last());
    for name in sample.iter().flat_map(|sample| sample.resources.keys()) {
        let (requested, unusable) = (name.clone(), name.clone());
        plots.push((
            format!("{name}: share requested"),
            true,
            Box::new(move |it| Some(it.resources.get(&requested)?.requested)),
        ));
        plots.push((
            format!("{name}: share of what is idle that the recorded pods cannot use"),
            true,
            Box::new(move |it| Some(it.resources.get(&unusable)?.fragmentation)),
        ));
    }
    plots
}

/// Lines over time, one for each name.
fn plot(names: &[String], lines: &[Vec<(u64, f64)>], is_share: bool) -> String {
    let all = || lines.iter().flatten();
    let (from, until) =
        all().fold((u64::MAX, 0), |(from, until), (at, _)| (from.min(*at), until.max(*at)));
    let most = all().map(|(_, value)| *value).fold(0.0, f64::max);
    let most = if most > 0.0 { most } else { 1.0 };
    let (across, up) = (WIDTH - LEFT - MARGIN, HEIGHT - BELOW - MARGIN);
    let x = |at: u64| {
        LEFT + across * as_f64_time(at.saturating_sub(from))
            / as_f64_time((until - from.min(until)).max(1))
    };
    let y = |value: f64| MARGIN + up * (1.0 - value / most);
    let label = |value: f64| if is_share { percent(value) } else { format!("{value:.0}") };
    let height = HEIGHT + 18.0 * as_f64(names.len());
    let mut svg =
        format!("<svg role=\"img\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\">\n");
    let (right, floor) = (WIDTH - MARGIN, HEIGHT - BELOW);
    let _ = writeln!(
        svg,
        "<path class=\"axis\" fill=\"none\" d=\"M{LEFT} {MARGIN}V{floor}H{right}\"/>"
    );
    for value in [0.0, most / 2.0, most] {
        let (x, y) = (LEFT - 6.0, y(value) + 4.0);
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>",
            label(value)
        );
    }
    let span = seconds(as_f64_time(until.saturating_sub(from)) / 1e6);
    let (at, below) = (right, HEIGHT - BELOW + 16.0);
    let _ = writeln!(svg, "<text x=\"{at}\" y=\"{below}\" text-anchor=\"end\">after {span}</text>");
    for (n, (name, points)) in names.iter().zip(lines).enumerate() {
        let (colour, dash) = (n % N_COLOURS, DASHES[n % DASHES.len()]);
        let line =
            format!("stroke=\"var(--c{colour})\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"");
        let points = points.iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value)));
        let points = points.collect::<Vec<_>>().join(" ");
        let _ = writeln!(svg, "<polyline fill=\"none\" {line} points=\"{points}\"/>");
        let y = HEIGHT + 18.0 * as_f64(n);
        let (middle, to, text) = (y - 4.0, LEFT + 40.0, LEFT + 48.0);
        let _ = writeln!(
            svg,
            "<line {line} x1=\"{LEFT}\" y1=\"{middle}\" x2=\"{to}\" y2=\"{middle}\"/>"
        );
        let _ = writeln!(svg, "<text x=\"{text}\" y=\"{y}\">{name}</text>");
    }
    svg.push_str("</svg>\n");
    svg
}

/// Text that can be no markup.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn as_f64(n: usize) -> f64 {
    n as f64
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn as_f64_time(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_proto::MicroTime;
    use berth_proto::berth_v1::PolicyFigures;

    #[test]
    fn names_are_no_markup_and_lines_stay_in_their_plot() {
        let sample = |at, n_waiting| {
            let time = Some(MicroTime::from_unix_microseconds(at));
            FigureSample { time, n_waiting, ..FigureSample::default() }
        };
        let samples = vec![sample(5, 0), sample(10, 40), sample(15, 10)];
        let name = "<b onclick='x'>&\"".to_owned();
        let first = PolicyFigures { name, samples, ..PolicyFigures::default() };
        let second = PolicyFigures { name: "b".to_owned(), ..PolicyFigures::default() };
        let policies = vec![first, second];
        let page = page(&CompareResponse { policies, ..CompareResponse::default() });
        assert!(!page.contains("<b ") && page.contains("&lt;b onclick=&#39;x&#39;&gt;&amp;&quot;"));
        assert!(!page.contains("http://") && !page.contains("<script"), "{page}");
        assert!(page.contains("points=\"64.0,192.0 346.0,12.0 628.0,147.0\""), "{page}");
        let style = page.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
        let hash = STANDARD.encode(digest(&SHA256, style.as_bytes()));
        assert!(
            page.contains(&format!("style-src 'sha256-{hash}'")),
            "what the page says of itself"
        );
        for sign in DASHES.iter().take(2) {
            assert!(page.contains(&format!("stroke-dasharray=\"{sign}\"")));
        }
    }
}
