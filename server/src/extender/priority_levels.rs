//! Levels: weighted totals mapped to the 11 scores of the protocol. Rules: S-EXT-12, S-EXT-16.
//!
//! 11 scores cannot carry the order of thousands of totals, and kube-scheduler adds them to totals of its own, of which
//! it takes the highest: so the best totals are distinguished. The best total is 10 and no other is. If there are no
//! more distinct totals than scores, they are spread evenly from 10 down to the lowest score and keep their order; if
//! there are more, each of the best gets a score of its own and the rest share the lowest.

use berth_engine::Standing;

/// Highest score of the protocol, `MaxExtenderPriority`.
const HIGHEST: usize = 10;

/// The scores of the nodes of one call.
pub(super) struct Levels {
    /// Distinct totals and their scores, the highest first; every other total has the lowest score.
    best: Vec<(i32, usize)>,
    lowest: usize,
}

impl Levels {
    pub(super) fn of(standings: &[Standing]) -> Levels {
        // 0 is reserved for nodes that the filters refuse, if there are any.
        let is_refused = |s: &Standing| matches!(s, Standing::Refused(_) | Standing::Unknown);
        let lowest = usize::from(standings.iter().any(is_refused));
        let n_scores = HIGHEST + 1 - lowest;
        let mut totals = best_totals(standings, n_scores + 1);
        if totals.len() > n_scores {
            totals.truncate(n_scores - 1);
            let best = totals.into_iter().zip((lowest + 1..=HIGHEST).rev()).collect();
            return Levels { best, lowest };
        }
        let n_steps = totals.len().saturating_sub(1).max(1);
        let score = |i: usize| HIGHEST - i * (HIGHEST - lowest) / n_steps;
        let best = totals.into_iter().enumerate().map(|(i, total)| (total, score(i))).collect();
        Levels { best, lowest }
    }

    /// Score of a node, 0 to 10.
    pub(super) fn score(&self, standing: Standing) -> usize {
        let Standing::Feasible { total } = standing else { return 0 };
        let at = self.best.binary_search_by(|(known, _)| total.cmp(known));
        at.map_or(self.lowest, |at| self.best[at].1)
    }
}

/// The highest distinct totals, highest first, at most `n`.
fn best_totals(standings: &[Standing], n: usize) -> Vec<i32> {
    let mut best: Vec<i32> = Vec::with_capacity(n + 1);
    for standing in standings {
        let Standing::Feasible { total } = standing else { continue };
        if best.len() == n && best.last().is_some_and(|last| total < last) {
            continue;
        }
        if let Err(at) = best.binary_search_by(|known| total.cmp(known)) {
            best.insert(at, *total);
            best.truncate(n);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(totals: &[i32], refused: bool) -> Vec<usize> {
        let mut standings: Vec<Standing> =
            totals.iter().map(|total| Standing::Feasible { total: *total }).collect();
        standings.extend(refused.then_some(Standing::Refused(0)));
        let levels = Levels::of(&standings);
        standings.iter().map(|standing| levels.score(*standing)).collect()
    }

    #[test]
    fn few_totals_are_spread_evenly() {
        assert_eq!(scores(&[], false), [0; 0]);
        assert_eq!(scores(&[-7], false), [10]);
        assert_eq!(scores(&[5, 5, 5], false), [10; 3]);
        assert_eq!(scores(&[3, 5, 3], false), [0, 10, 0]);
        assert_eq!(scores(&[473, 388, 400], false), [10, 0, 5]);
        assert_eq!(scores(&[473, 388, 400], true), [10, 1, 6, 0]);
        let eleven: Vec<i32> = (0..11).collect();
        assert_eq!(scores(&eleven, false), (0..=10).collect::<Vec<_>>());
    }

    #[test]
    fn the_best_of_many_totals_get_distinct_scores() {
        let many: Vec<i32> = (0..1000).rev().collect();
        let found = scores(&many, false);
        assert_eq!(found[..12], [10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0]);
        assert!(found[12..].iter().all(|score| *score == 0));
        let found = scores(&many, true);
        assert_eq!(found[..11], [10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 1]);
        assert_eq!((found[999], found[1000]), (1, 0));
    }

    /// A higher total never has a lower score, only the highest has 10, and totals are distinguished as far as scores
    /// suffice.
    #[test]
    fn the_order_is_kept() {
        let mut seed = 7_u64;
        let mut next = |n: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for _ in 0..500 {
            let (n, range) = (next(40) as usize + 1, next(60) + 1);
            let totals: Vec<i32> = (0..n).map(|_| next(range) as i32 - 20).collect();
            let is_refused = next(2) == 1;
            let found = scores(&totals, is_refused);
            let highest = totals.iter().max().unwrap();
            let mut distinct = totals.clone();
            distinct.sort_unstable();
            distinct.dedup();
            for (a, of_a) in totals.iter().zip(&found) {
                assert_eq!(*of_a == 10, a == highest, "{totals:?} {found:?}");
                assert!(*of_a >= usize::from(is_refused));
                for (b, of_b) in totals.iter().zip(&found) {
                    assert!(a <= b || of_a >= of_b, "{totals:?} {found:?}");
                    let is_strict = distinct.len() <= 11 - usize::from(is_refused);
                    assert!(!is_strict || (a > b) == (of_a > of_b), "{totals:?} {found:?}");
                }
            }
        }
    }
}
