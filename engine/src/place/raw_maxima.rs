//! RawMaxima: the highest raw scores of each shard and of all, so that a decision reads those of changed shards only.

use smallvec::SmallVec;

use super::shard_evaluation::Maxima;

/// The highest raw scores, 0 where a shard has no feasible row.
#[derive(Clone, Debug, Default)]
pub(super) struct RawMaxima {
    /// By shard and score.
    by_shard: Vec<i32>,
    of_all: Maxima,
    /// Whether a shard has lost what was the highest of all.
    is_stale: bool,
}

impl RawMaxima {
    /// Sets the numbers of shards and scores. New shards have 0; with another number of scores all have.
    pub(super) fn resize(&mut self, n_shards: usize, n_scores: usize) {
        if self.of_all.len() != n_scores {
            *self = RawMaxima { of_all: SmallVec::from_elem(0, n_scores), ..RawMaxima::default() };
        }
        self.by_shard.resize(n_shards * n_scores, 0);
    }

    /// Sets the highest raw scores of a shard; those that are missing are 0.
    pub(super) fn set(&mut self, shard: usize, maxima: impl Iterator<Item = i32>) {
        let n_scores = self.of_all.len();
        let known = &mut self.by_shard[shard * n_scores..][..n_scores];
        let maxima = maxima.chain(std::iter::repeat(0));
        for ((known, of_all), now) in known.iter_mut().zip(&mut self.of_all).zip(maxima) {
            let was = std::mem::replace(known, now);
            self.is_stale |= was == *of_all && now < was;
            *of_all = now.max(*of_all);
        }
    }

    /// The highest raw scores of all shards.
    pub(super) fn of_all(&mut self) -> &Maxima {
        if std::mem::take(&mut self.is_stale) {
            self.of_all.fill(0);
            for of_shard in self.by_shard.chunks_exact(self.of_all.len()) {
                let maxima = self.of_all.iter_mut().zip(of_shard);
                maxima.for_each(|(max, of_shard)| *max = (*max).max(*of_shard));
            }
        }
        &self.of_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_highest_of_all_shards() {
        const N_SHARDS: usize = 5;
        let (mut maxima, mut plain) = (RawMaxima::default(), [[0; 2]; N_SHARDS]);
        let mut n_fallen = 0;
        for step in 0..500_usize {
            maxima.resize(N_SHARDS, 2);
            let shard = step * 7 % N_SHARDS;
            let was = maxima.of_all().clone();
            plain[shard] = [(step * step % 11) as i32, (step % 13 / 6) as i32];
            maxima.set(shard, plain[shard].into_iter());
            let highest = |score: usize| plain.iter().map(|of| of[score]).max().unwrap();
            assert_eq!(maxima.of_all()[..], [highest(0), highest(1)], "step {step}");
            n_fallen += usize::from(maxima.of_all()[0] < was[0]);
        }
        assert!(n_fallen > 10, "{n_fallen}");
        maxima.set(0, [20].into_iter());
        assert_eq!(maxima.of_all()[0], 20);
        (0..N_SHARDS).for_each(|shard| maxima.set(shard, std::iter::empty()));
        assert_eq!(maxima.of_all()[..], [0, 0], "no shard has a feasible row");
        maxima.resize(N_SHARDS, 1);
        assert_eq!(maxima.of_all()[..], [0], "nothing is known of another number of scores");
    }
}
