//! Shape: the configured function of utilization of RequestedToCapacityRatio and VolumeBinding. Rules: S-RS-7, S-137-13.

/// A point of a function of utilization, as configured for RequestedToCapacityRatio or VolumeBinding.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ShapePoint {
    /// Utilization in percent, 0 to 100.
    pub utilization: i64,
    /// Score, 0 to 10.
    pub score: i64,
}

/// The piecewise linear function through the points, whose scores count tenfold; integer arithmetic, truncating.
pub(crate) fn interpolate(shape: &[ShapePoint], utilization: i64) -> i64 {
    let mut previous: Option<&ShapePoint> = None;
    for point in shape {
        if utilization <= point.utilization {
            let Some(before) = previous else {
                return 10 * point.score;
            };
            let rise = 10 * (point.score - before.score);
            let run = point.utilization - before.utilization;
            return 10 * before.score + rise * (utilization - before.utilization) / run;
        }
        previous = Some(point);
    }
    previous.map_or(0, |last| 10 * last.score)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(points: &[(i64, i64)], utilization: i64, expected: i64) {
        let shape: Vec<_> =
            points.iter().map(|&(utilization, score)| ShapePoint { utilization, score }).collect();
        assert_eq!(interpolate(&shape, utilization), expected, "{points:?} at {utilization}");
    }

    /// Values of the worked examples under S-RS-9.
    #[test]
    fn worked_examples() {
        let rising = [(0, 0), (100, 10)];
        check(&rising, 37, 37);
        check(&rising, 25, 25);
        check(&rising, 0, 0);
        let falling = [(0, 10), (50, 5), (100, 0)];
        check(&falling, 37, 63);
        check(&falling, 25, 75);
        check(&falling, 100, 0);
        check(&[(20, 3), (40, 7)], 10, 30);
        check(&[(20, 3), (40, 7)], 90, 70);
    }
}
