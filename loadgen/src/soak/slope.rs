//! Growth of a quantity over time, as the median of the slopes between all pairs of points (the Theil-Sen estimator),
//! which is robust against outliers.

use serde::Serialize;

/// Least number of points for a judgement.
const MIN_POINTS: usize = 10;
/// Least time for a judgement: growth an hour cannot be estimated from less.
const MIN_SECONDS: f64 = 300.0;

/// Trend of a quantity over the second half of a soak.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Trend {
    /// The median slope, in the quantity's unit per hour.
    pub per_hour: f64,
    /// The median value.
    pub median: f64,
    /// Seconds from the first point to the last.
    pub seconds: f64,
    /// Whether the quantity is flat.
    pub judgement: Judgement,
}

/// Judgement of a trend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// The growth is within the limit.
    Flat,
    /// The growth exceeds the limit and the noise.
    Grows,
    /// There are too few points, or they span too little time.
    TooShort,
}

/// Judges points (seconds, value). Only the second half counts, because caches fill in the first. A quantity grows if
/// its slope exceeds `max_per_hour` and its growth over the time of the points exceeds `noise`.
pub fn judge(points: &[(f64, f64)], max_per_hour: f64, noise: f64) -> Option<Trend> {
    let half = &points[points.len() / 2..];
    let (first, last) = (half.first()?, half.last()?);
    let seconds = last.0 - first.0;
    let per_hour = 3_600.0 * slope(half);
    let grows = per_hour > max_per_hour && per_hour * seconds / 3_600.0 > noise;
    let judgement = match grows {
        _ if half.len() < MIN_POINTS || seconds < MIN_SECONDS => Judgement::TooShort,
        true => Judgement::Grows,
        false => Judgement::Flat,
    };
    let median = median(half.iter().map(|point| point.1).collect());
    Some(Trend { per_hour, median, seconds, judgement })
}

/// The median slope; 0 for fewer than two points. Cost: quadratic in the points.
fn slope(points: &[(f64, f64)]) -> f64 {
    let pairs = points.iter().enumerate().flat_map(|(n, a)| {
        points[n + 1..].iter().filter(|b| b.0 > a.0).map(move |b| (b.1 - a.1) / (b.0 - a.0))
    });
    median(pairs.collect())
}

/// The median; 0 without values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A point every 10 s for 30 minutes.
    fn points(value: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (0..180).map(|n| f64::from(n) * 10.0).map(|at| (at, value(at))).collect()
    }

    #[test]
    fn a_leak_is_found_under_noise_and_outliers() {
        let noisy =
            |at: f64| 300.0 + 5.0 * (at * 0.7).sin() + if at % 500.0 == 0.0 { 80.0 } else { 0.0 };
        let flat = judge(&points(noisy), 64.0, 4.0).unwrap();
        assert_eq!(flat.judgement, Judgement::Flat, "{flat:?}");
        let leak = judge(&points(|at| noisy(at) + at / 36.0), 64.0, 4.0).unwrap();
        assert_eq!(leak.judgement, Judgement::Grows, "{leak:?}");
        assert!((leak.per_hour - 100.0).abs() < 10.0, "{leak:?}");
    }

    #[test]
    fn growth_in_the_first_half_is_no_leak() {
        let filling = judge(&points(|at| at.min(600.0)), 1.0, 0.0).unwrap();
        assert_eq!((filling.judgement, filling.per_hour), (Judgement::Flat, 0.0));
    }

    #[test]
    fn a_step_below_the_noise_is_flat() {
        let step = judge(&points(|at| if at > 1_350.0 { 21.0 } else { 20.0 }), 0.5, 2.0).unwrap();
        assert_eq!(step.judgement, Judgement::Flat, "{step:?}");
    }

    #[test]
    fn few_points_are_not_judged() {
        let short = judge(&points(|at| at)[..25], 1.0, 0.0).unwrap();
        assert_eq!(short.judgement, Judgement::TooShort);
        assert_eq!(judge(&[], 1.0, 0.0), None);
    }
}
