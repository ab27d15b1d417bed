//! `least-nodes`: the option that adds the fewest nodes.

use super::node_group_option::NodeGroupOption;
use super::verdict::{Verdict, least};

/// Keeps the options with the fewest nodes; those that add none (or fewer) are skipped.
pub(super) fn judge(options: &[(usize, &NodeGroupOption)]) -> Verdict {
    let counted = options.iter().map(|(index, option)| (*index, option.n_nodes));
    let scored = counted.filter(|&(_, n_nodes)| n_nodes > 0);
    least(scored, "no option adds a node", |n_nodes| format!("least-nodes: {n_nodes}"))
}

#[cfg(test)]
mod tests {
    use super::super::node_group_option::tests::{option, read_options};
    use super::super::tests::{check, check_undecided};

    #[test]
    fn fewest_nodes_win_and_none_at_all_is_skipped() {
        let options = |counts: &[i32]| {
            let options = counts.iter().enumerate();
            read_options(options.map(|(i, &n)| (option(&format!("g{i}"), n, &[]), None)).collect())
        };
        check(super::judge, &options(&[3, 2, 0, 2, -7]), &[1, 3]);
        check_undecided(
            &super::judge(&super::super::tests::all(&options(&[0, -1]))),
            "no option adds",
        );
    }
}
