//! Normalisation over the feasible nodes. Rules: S-SEL-1 and section 3's default normalisation.

/// What becomes of a plugin's raw scores.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Normalize {
    /// They stay as they are.
    No,
    /// ⌊100 · v / m⌋, m being the highest raw score; all stay when m is 0.
    Default,
    /// 100 less the same; all become 100 when m is 0.
    Reverse,
}

impl Normalize {
    /// The normalised value of a raw score from 0 to `max`.
    pub(crate) fn apply(self, raw: i64, max: i64) -> i64 {
        match (self, max) {
            (Normalize::No, _) | (Normalize::Default, 0) => raw,
            (Normalize::Default, _) => 100 * raw / max,
            (Normalize::Reverse, 0) => 100,
            (Normalize::Reverse, _) => 100 - 100 * raw / max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Normalize;

    /// Examples of S-NA-3 and S-TT-2.
    #[test]
    fn worked_examples() {
        let default = |raw| Normalize::Default.apply(raw, 80);
        assert_eq!([30, 80, 0].map(default), [37, 100, 0]);
        assert_eq!(Normalize::Default.apply(0, 0), 0);
        assert_eq!([0, 1, 2].map(|raw| Normalize::Reverse.apply(raw, 2)), [100, 50, 0]);
        assert_eq!([0, 1, 3].map(|raw| Normalize::Reverse.apply(raw, 3)), [100, 67, 0]);
        assert_eq!(Normalize::Reverse.apply(0, 0), 100);
    }
}
