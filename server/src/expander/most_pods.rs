//! `most-pods`: the option that would place most of the pending pods.

use super::offer::Offer;
use super::verdict::{Verdict, least};
use std::cmp::Reverse;

/// Options with the maximum number of pods; those without any tie at 0.
pub(super) fn judge(asked: &[(usize, &Offer)]) -> Verdict {
    let scored = asked.iter().map(|(index, offer)| (*index, Reverse(offer.n_pods())));
    least(scored, "there are no options", |Reverse(n_pods)| format!("most-pods: {n_pods}"))
}

#[cfg(test)]
mod tests {
    use super::super::offer::tests::{offers, option, pod};
    use super::super::tests::check;

    #[test]
    fn most_pods_win_and_none_ties_at_zero() {
        let pods =
            |n: usize| -> Vec<_> { (0..n).map(|i| pod(&format!("p{i}"), "1", "1Gi")).collect() };
        let options = |counts: &[usize]| {
            let options = counts.iter().enumerate();
            offers(options.map(|(i, &n)| (option(&format!("g{i}"), 1, &pods(n)), None)).collect())
        };
        check(super::judge, &options(&[2, 3, 0, 3]), &[1, 3]);
        check(super::judge, &options(&[0, 0]), &[0, 1]);
    }
}
