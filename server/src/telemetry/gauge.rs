//! Gauges are floats: the conversion of counts.

/// Converts a count to the value of a gauge.
#[expect(clippy::cast_precision_loss, reason = "gauges are floats; counts stay far below 2^53")]
pub(crate) fn count(n: usize) -> f64 {
    n as f64
}
