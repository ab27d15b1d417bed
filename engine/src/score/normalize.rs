//! Normalization over the feasible nodes. Rules: S-SEL-1 and section 3's default normalization.

/// How a plugin's raw scores are normalized.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Normalize {
    /// Scores stay as they are.
    No,
    /// ⌊100 · v / m⌋, where m is the highest raw score; scores stay when m is 0.
    Default,
    /// 100 less the value of `Default`; all become 100 when m is 0.
    Reverse,
    /// From 0 for the lowest to 100 for the highest; all become 0 when they are equal (S-IS-6).
    Range,
    /// ⌊100 · (hi + lo − v) / hi⌋; all become 100 when hi is 0 (S-TS-8).
    Spread,
}

/// The lowest and the highest raw score over the feasible nodes that are normalized.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    pub(crate) lowest: i64,
    pub(crate) highest: i64,
}

impl Normalize {
    /// The normalized value of a raw score within the extent.
    pub(crate) fn apply(self, raw: i64, extent: Extent) -> i64 {
        let Extent { lowest, highest } = extent;
        let max = highest.max(0);
        match (self, max) {
            (Normalize::No, _) | (Normalize::Default, 0) => raw,
            (Normalize::Default, _) => 100 * raw / max,
            (Normalize::Reverse, 0) => 100,
            (Normalize::Reverse, _) => 100 - 100 * raw / max,
            (Normalize::Range, _) if highest == lowest => 0,
            // Evaluated in kube-scheduler's order: 29 of 100 become 28 (S-IS-6).
            (Normalize::Range, _) => {
                (100.0 * ((raw - lowest) as f64 / (highest - lowest) as f64)) as i64
            }
            (Normalize::Spread, _) if highest == 0 => 100,
            (Normalize::Spread, _) => 100 * (highest + lowest - raw) / highest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, Normalize};

    fn check(normalize: Normalize, raw: &[i64], expected: &[i64]) {
        let (lowest, highest) = (raw.iter().min().unwrap(), raw.iter().max().unwrap());
        let extent = Extent { lowest: *lowest, highest: *highest };
        let normalized: Vec<_> = raw.iter().map(|raw| normalize.apply(*raw, extent)).collect();
        assert_eq!(normalized, expected, "{normalize:?}");
    }

    /// Examples of S-NA-3, S-TT-2, S-IS-6 and S-TS-8.
    #[test]
    fn worked_examples() {
        check(Normalize::Default, &[30, 80, 0], &[37, 100, 0]);
        check(Normalize::Default, &[0], &[0]);
        check(Normalize::Reverse, &[0, 1, 2], &[100, 50, 0]);
        check(Normalize::Reverse, &[0, 1, 3], &[100, 67, 0]);
        check(Normalize::Reverse, &[0], &[100]);
        check(Normalize::Range, &[0, 29, 57, 58, 100], &[0, 28, 56, 57, 100]);
        check(Normalize::Range, &[20, 10, 11], &[100, 0, 10]);
        check(Normalize::Range, &[-5, -5], &[0, 0]);
        check(Normalize::Spread, &[9, 7, 4, 2], &[22, 44, 77, 100]);
        check(Normalize::Spread, &[15, 13, 10, 8, 2], &[13, 26, 46, 60, 100]);
        check(Normalize::Spread, &[0, 0], &[100, 100]);
    }
}
