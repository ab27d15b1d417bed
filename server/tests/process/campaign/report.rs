//! Report of a campaign: figures, and a picture of its course.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::callers::Shared;
use super::history::{Operation, What};
use super::troubles::Trouble;

/// A trouble that was made.
#[derive(Copy, Clone, Debug)]
pub(super) struct Made {
    pub(super) trouble: Trouble,
    pub(super) began: Duration,
    pub(super) ended: Duration,
}

/// Width of the picture's course, and height of a row, in pixels.
const WIDTH: f64 = 1_000.0;
const ROW: f64 = 18.0;
/// Left of the course, and height of the curve.
const LEFT: f64 = 150.0;
const CURVE: f64 = 120.0;
/// Number of intervals of the curve.
const N_INTERVALS: usize = 250;

pub(super) struct Report<'a> {
    made: &'a [Made],
    length: Duration,
    n_of: BTreeMap<&'static str, usize>,
    n_refused: usize,
    n_grants: usize,
    n_violations: usize,
    /// Reservations by interval of the time.
    curve: Vec<usize>,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        operations: &[Operation],
        made: &'a [Made],
        shared: &Shared,
        n_grants: usize,
        n_violations: usize,
    ) -> Report<'a> {
        let length = operations.iter().map(|it| it.returned).max().unwrap_or_default();
        let (mut n_of, mut curve) = (BTreeMap::new(), vec![0; N_INTERVALS]);
        for Operation { returned, what, .. } in operations {
            let (name, n) = match what {
                What::Reserved { pods, .. } => {
                    let share = returned.as_secs_f64() / length.as_secs_f64();
                    let at = (share * N_INTERVALS as f64) as usize;
                    curve[at.min(N_INTERVALS - 1)] += pods.len();
                    ("reservations", pods.len())
                }
                What::Repeated { .. } => ("named requests repeated", 1),
                What::Extended { .. } => ("confirmed or extended", 1),
                What::Released { is_certain: true, .. } => ("released", 1),
                What::Released { .. } => ("releases in doubt", 1),
                What::Bound { .. } => ("bound", 1),
                What::Deleted { .. } => ("deleted after they were bound", 1),
                What::Denied { .. } => ("denied", 1),
                What::Listed { .. } => ("listings", 1),
            };
            *n_of.entry(name).or_default() += n;
        }
        let n_refused = shared.n_refused.load(Ordering::Relaxed);
        Report { made, length, n_of, n_refused, n_grants, n_violations, curve }
    }

    fn n_made(&self, trouble: Trouble) -> usize {
        self.made.iter().filter(|made| made.trouble == trouble).count()
    }

    /// Writes the report, and the picture.
    pub(super) fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::write(folder.join("campaign.md"), self.to_string())?;
        std::fs::write(folder.join("campaign.svg"), self.picture())
    }

    fn picture(&self) -> String {
        let height = CURVE + ROW * (Trouble::ALL.len() as f64 + 3.0);
        let width = LEFT + WIDTH + 20.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n"
        );
        let x = |at: Duration| LEFT + WIDTH * at.as_secs_f64() / self.length.as_secs_f64();
        let most = self.curve.iter().copied().max().unwrap_or(0).max(1);
        let mut points = format!("{LEFT},{CURVE}");
        for (n, count) in self.curve.iter().enumerate() {
            let at = LEFT + WIDTH * (n as f64 + 0.5) / N_INTERVALS as f64;
            let y = CURVE - (CURVE - ROW) * *count as f64 / most as f64;
            let _ = write!(points, " {at:.1},{y:.1}");
        }
        let _ = write!(points, " {},{CURVE}", LEFT + WIDTH);
        let _ = writeln!(svg, "<polygon points=\"{points}\" fill=\"#9ecae1\"/>");
        let per_second = most as f64 * N_INTERVALS as f64 / self.length.as_secs_f64();
        let _ = writeln!(
            svg,
            "<text x=\"4\" y=\"{ROW}\">{per_second:.0} reservations/s</text><text x=\"4\" y=\"{CURVE}\">0</text>"
        );
        for (row, trouble) in Trouble::ALL.into_iter().enumerate() {
            let y = CURVE + ROW * (row as f64 + 1.0);
            let _ = writeln!(svg, "<text x=\"4\" y=\"{:.0}\">{trouble:?}</text>", y + 12.0);
            for made in self.made.iter().filter(|made| made.trouble == trouble) {
                let (from, to) = (x(made.began), x(made.ended));
                let _ = writeln!(
                    svg,
                    "<rect x=\"{from:.1}\" y=\"{y:.0}\" width=\"{:.1}\" height=\"14\" fill=\"#cb181d\"/>",
                    (to - from).max(0.6)
                );
            }
        }
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{:.0}\">0</text><text x=\"{:.0}\" y=\"{0:.0}\" text-anchor=\"end\">{:.0} s</text>\n</svg>",
            height - 6.0,
            LEFT + WIDTH,
            self.length.as_secs_f64()
        );
        svg
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.length.as_secs_f64();
        writeln!(f, "{} violations in {seconds:.0} s\n", self.n_violations)?;
        writeln!(f, "| what | number |\n|---|---|")?;
        for (name, n) in &self.n_of {
            writeln!(f, "| {name} | {n} |")?;
        }
        writeln!(f, "| calls refused | {} |", self.n_refused)?;
        writeln!(f, "| changes of names, volumes and fences | {} |", self.n_grants)?;
        writeln!(f, "| troubles | {} |", self.made.len())?;
        for trouble in Trouble::ALL {
            writeln!(f, "| {trouble:?} | {} |", self.n_made(trouble))?;
        }
        Ok(())
    }
}
