//! `most-pods`: the option that would place most of the pending pods.

use super::node_group_option::NodeGroupOption;
use super::verdict::{Verdict, least};
use std::cmp::Reverse;

/// Keeps the options with the most pods; those without any tie at 0.
pub(super) fn judge(options: &[(usize, &NodeGroupOption)]) -> Verdict {
    let scored = options.iter().map(|(index, option)| (*index, Reverse(option.n_pods())));
    least(scored, "there are no options", |Reverse(n_pods)| format!("most-pods: {n_pods}"))
}

#[cfg(test)]
mod tests {
    use super::super::node_group_option::tests::{option, pod, read_options};
    use super::super::tests::check;

    #[test]
    fn most_pods_win_and_none_ties_at_zero() {
        let pods =
            |n: usize| -> Vec<_> { (0..n).map(|i| pod(&format!("p{i}"), "1", "1Gi")).collect() };
        let options = |counts: &[usize]| {
            let options = counts.iter().enumerate();
            read_options(
                options.map(|(i, &n)| (option(&format!("g{i}"), 1, &pods(n)), None)).collect(),
            )
        };
        check(super::judge, &options(&[2, 3, 0, 3]), &[1, 3]);
        check(super::judge, &options(&[0, 0]), &[0, 1]);
    }
}
