//! Stamp: tells one assumption of a pod from earlier and later ones of the same name.

use std::num::NonZeroU32;

use super::generation::Generation;

/// Mark of an assumed pod: the generation in which it was assumed.
///
/// A name is assumed at most once in a generation, so that a caller who holds a stamp can end this assumption and no
/// other. Only the lower 32 bits are kept, because every pod on a node has a place for it; two assumptions of one name
/// would have to be exactly 2³² generations apart to be confused.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct AssumptionStamp(NonZeroU32);

impl AssumptionStamp {
    /// Stamp of pods that are assumed on a draft which is thrown away.
    pub(crate) const OF_A_DRAFT: AssumptionStamp = AssumptionStamp(NonZeroU32::MIN);

    /// Stamp of pods that are assumed in the generation after `published`.
    pub(crate) fn after(published: Generation) -> AssumptionStamp {
        let next = published.get().wrapping_add(1);
        #[expect(clippy::cast_possible_truncation, reason = "the lower bits are what is wanted")]
        let bits = next as u32;
        // A multiple of 2³² shares the stamp of the generation after it.
        AssumptionStamp(NonZeroU32::new(bits).unwrap_or(NonZeroU32::MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_generations_have_different_stamps() {
        let stamps = [1, 2, 3, (1 << 32) - 3, (1 << 32) - 2, 1 << 32]
            .map(|published| AssumptionStamp::after(Generation(published)).0.get());
        assert_eq!(stamps, [2, 3, 4, u32::MAX - 1, u32::MAX, 1]);
    }
}
