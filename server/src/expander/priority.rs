//! `priority`: the option whose group has the highest priority in the operator's list, which has the form of
//! cluster-autoscaler's ConfigMap `cluster-autoscaler-priority-expander`: numbers, each with patterns of groups.

use std::cmp::Reverse;

use super::node_group_option::NodeGroupOption;
use super::priorities::{Priorities, PrioritySource};
use super::verdict::{Verdict, least};

impl Priorities {
    /// The highest number with a pattern that matches `id`.
    fn of(&self, id: &str) -> Option<i64> {
        let matching = self
            .levels
            .iter()
            .filter(|(_, patterns)| patterns.iter().any(|pattern| pattern.is_found_in(id)));
        matching.map(|(priority, _)| *priority).max()
    }
}

/// Keeps the options of the highest priority. Undecided if the list cannot be read or matches nothing.
pub(super) fn judge(source: &PrioritySource, options: &[(usize, &NodeGroupOption)]) -> Verdict {
    let priorities = match source.read() {
        Ok(priorities) => priorities,
        Err(error) => return Verdict::Undecided(error.to_string()),
    };
    let scored = options
        .iter()
        .filter_map(|(index, option)| Some((*index, Reverse(priorities.of(&option.id)?))));
    least(scored, "no pattern matches any of the groups", |Reverse(priority)| {
        format!("priority: {priority}")
    })
}

#[cfg(test)]
mod tests {
    use super::super::node_group_option::tests::{option, read_options};
    use super::super::pattern::Pattern;
    use super::super::tests::{all, check, check_undecided};
    use super::*;

    fn source(levels: &[(i64, &[&str])]) -> PrioritySource {
        let levels = levels.iter().map(|(number, texts)| {
            (*number, texts.iter().map(|text| Pattern::new(text).unwrap()).collect())
        });
        PrioritySource::Inline(Priorities { levels: levels.collect() })
    }

    #[test]
    fn the_highest_number_wins_whatever_the_order() {
        let ids = ["m4.4xlarge-a", "t2.small", "m4.4xlarge-b", "t2.large", "other"];
        let options = read_options(ids.map(|id| (option(id, 1, &[]), None)).into());
        let two =
            source(&[(10, &[".*t2\\.large.*", ".*t2\\.small.*"]), (50, &[".*m4\\.4xlarge.*"])]);
        check(|options| judge(&two, options), &options, &[0, 2]);
        // A group has the highest of the numbers that match it.
        let all_low = source(&[(1, &[".*"]), (-3, &["m4"]), (20, &["small", "other"])]);
        check(|options| judge(&all_low, options), &options, &[1, 4]);
        let none = source(&[(1, &["^x"])]);
        check_undecided(&judge(&none, &all(&options)), "no pattern matches");
    }

    #[test]
    fn a_file_is_read_anew_and_an_unreadable_one_is_undecided() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("priorities");
        let source = PrioritySource::File(path.clone());
        let options = read_options(["a", "b"].map(|id| (option(id, 1, &[]), None)).into());
        check_undecided(&judge(&source, &all(&options)), "cannot read");
        std::fs::write(&path, "10: [a]\n20: [b]\n").unwrap();
        check(|options| judge(&source, options), &options, &[1]);
        std::fs::write(&path, "10: [a]\n5: [b]\n").unwrap();
        check(|options| judge(&source, options), &options, &[0]);
        std::fs::write(&path, "10: [a]\n5: ['(']\n").unwrap();
        check_undecided(&judge(&source, &all(&options)), "line 2");
    }
}
