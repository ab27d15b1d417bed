//! Text and tables for the result of PostFilter.

use berth_proto::berth_v1::{
    Candidate, Decision, NodeVerdict, PodKey, PostFilter, PostFilterCode, Victim,
    decision::Outcome, elsewhere::Outcome as Elsewhere,
};

use crate::cli::{outcome, output};

/// Number of victims that are listed for a candidate.
const N_EXAMPLES: usize = 3;

/// The outcome for the pod, and the pods to evict for it.
pub(super) fn summary(
    name: &str,
    decision: Option<&Decision>,
    post_filter: Option<&PostFilter>,
) -> String {
    let decided = outcome::summary(name, decision);
    let Some(ran) = post_filter else {
        let is_unschedulable = decision
            .and_then(|decision| decision.outcome.as_ref())
            .is_some_and(|outcome| matches!(outcome, Outcome::Unschedulable(_)));
        return if is_unschedulable {
            format!("{decided}\nnobody is displaced: the profile has no plugin for it")
        } else {
            format!("{decided}\nnobody has to go")
        };
    };
    let Some(chosen) = &ran.chosen else {
        return format!("{decided}\nnobody is displaced");
    };
    let mut lines = vec![decided, choice(chosen, ran)];
    if !ran.cleared_nominations.is_empty() {
        let others: Vec<String> = ran.cleared_nominations.iter().map(pod_name).collect();
        lines.push(format!(
            "takes the nomination to {} from {}",
            chosen.node_name,
            others.join(", ")
        ));
    }
    lines.join("\n")
}

/// Describes the choice: ``evicting 2 pods makes room on n1: one of 2 equal candidates, of 5; violates no disruption
/// budget``.
fn choice(chosen: &Candidate, ran: &PostFilter) -> String {
    let n_candidates = output::count(ran.n_candidates, "candidate");
    let among = match (ran.n_candidates, ran.n_best) {
        (1, _) => "the only candidate".to_owned(),
        (_, 0 | 1) => format!("the best of {n_candidates}"),
        (_, n_best) => format!("one of {} equal, of {n_candidates}", output::grouped(n_best)),
    };
    format!(
        "evicting {} makes room on {}: {among}; {}",
        output::count(chosen.victims.len(), "pod"),
        chosen.node_name,
        violations(chosen.n_pdb_violations)
    )
}

fn violations(n: u32) -> String {
    match n {
        0 => "violates no disruption budget".to_owned(),
        n => format!("a disruption budget would keep {} of them", output::grouped(n)),
    }
}

/// Table of the chosen candidate's victims, the most important first.
pub(super) fn victims(chosen: &Candidate) -> String {
    let looked = chosen.victims.iter().any(|victim| victim.elsewhere.is_some());
    let headings = ["VICTIM", "PRIORITY", "TERMINATING", "COULD GO TO"];
    let mut table = output::Table::new(&headings[..if looked { 4 } else { 3 }]);
    if looked {
        table = table.wrapping(3);
    }
    for victim in &chosen.victims {
        let mut row = vec![
            victim.pod.as_ref().map(pod_name).unwrap_or_default(),
            victim.priority.to_string(),
            yes_or_no(victim.is_terminating).to_owned(),
        ];
        row.extend(looked.then(|| elsewhere(victim)));
        table.add_row(row);
    }
    table.text()
}

fn elsewhere(victim: &Victim) -> String {
    match victim.elsewhere.as_ref().and_then(|elsewhere| elsewhere.outcome.as_ref()) {
        Some(Elsewhere::NodeName(node)) => node.clone(),
        Some(Elsewhere::UnschedulableMessage(message)) => format!("nowhere: {message}"),
        None => "-".to_owned(),
    }
}

/// Table of all candidates by name.
pub(super) fn candidates(candidates: &[Candidate], best: &[String]) -> Option<String> {
    if candidates.is_empty() {
        return None;
    }
    let headings =
        ["CANDIDATE", "BEST", "VICTIMS", "HIGHEST PRIORITY", "BUDGET VIOLATIONS", "EVICTED"];
    let mut table = output::Table::new(&headings).wrapping(5).dropping([4, 3]);
    for candidate in candidates {
        let first = candidate.victims.first();
        table.add_row([
            candidate.node_name.clone(),
            yes_or_no(best.contains(&candidate.node_name)).to_owned(),
            output::grouped(candidate.victims.len()),
            first.map_or_else(|| "-".to_owned(), |victim| victim.priority.to_string()),
            output::grouped(candidate.n_pdb_violations),
            victims_of(candidate),
        ]);
    }
    Some(table.text())
}

/// Table of the nodes where evicting does not help, by name, with what refuses the pod there without all pods of lower
/// priority.
pub(super) fn not_helped(nodes: &[NodeVerdict]) -> Option<String> {
    if nodes.is_empty() {
        return None;
    }
    let mut table = output::Table::new(&["NOT HELPED", "REJECTED BY", "REASON"]).wrapping(2);
    for node in nodes {
        let rejection = node.rejection.as_ref();
        let by = rejection.map_or("", |rejection| rejection.plugin.as_str());
        let reasons = rejection.map(|rejection| rejection.reasons.join(", ")).unwrap_or_default();
        table.add_row([node.node_name.as_str(), if by.is_empty() { "-" } else { by }, &reasons]);
    }
    Some(table.text())
}

/// Short form for a pod that fits nowhere: the pods that it could evict.
pub(in crate::cli) fn in_short(ran: &PostFilter) -> String {
    match &ran.chosen {
        Some(chosen) => format!("{}\n{}", choice(chosen, ran), victims(chosen)),
        None if ran.code() == PostFilterCode::Error => {
            "nobody to displace: that is not looked at for a pod refused as a whole".to_owned()
        }
        None => {
            let reason = ran.message.rsplit_once("preemption: ").map_or(&*ran.message, |(_, x)| x);
            format!("nobody to displace: {reason}")
        }
    }
}

/// Lists victims: `shop/a, shop/b, shop/c and 4 more`.
pub(in crate::cli) fn victims_of(candidate: &Candidate) -> String {
    let names = candidate.victims.iter().take(N_EXAMPLES);
    let names: Vec<String> =
        names.map(|victim| victim.pod.as_ref().map(pod_name).unwrap_or_default()).collect();
    match candidate.victims.len().saturating_sub(N_EXAMPLES) {
        0 => names.join(", "),
        n => format!("{} and {} more", names.join(", "), output::grouped(n)),
    }
}

fn pod_name(key: &PodKey) -> String {
    format!("{}/{}", key.namespace, key.name)
}

fn yes_or_no(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(n_victims: usize, n_pdb_violations: u32) -> Candidate {
        let victim = |i| Victim {
            pod: Some(PodKey {
                namespace: "d".to_owned(),
                name: format!("v{i}"),
                uid: String::new(),
            }),
            ..Victim::default()
        };
        let victims = (0..n_victims).map(victim).collect();
        Candidate { node_name: "n1".to_owned(), victims, n_pdb_violations }
    }

    #[test]
    fn a_choice_names_the_number_of_candidates() {
        let check = |n_candidates, n_best, candidate: &Candidate, expected: &str| {
            let ran = PostFilter { n_candidates, n_best, ..PostFilter::default() };
            assert_eq!(choice(candidate, &ran), expected);
        };
        let room = "evicting 1 pod makes room on n1";
        let none = "violates no disruption budget";
        let one = candidate(1, 0);
        check(1, 1, &one, &format!("{room}: the only candidate; {none}"));
        check(7, 1, &one, &format!("{room}: the best of 7 candidates; {none}"));
        check(7, 3, &one, &format!("{room}: one of 3 equal, of 7 candidates; {none}"));
        let two = candidate(2, 2);
        let kept = "a disruption budget would keep 2 of them";
        check(1, 1, &two, &format!("evicting 2 pods makes room on n1: the only candidate; {kept}"));
    }

    #[test]
    fn many_victims_are_listed_by_the_first() {
        assert_eq!(victims_of(&candidate(3, 0)), "d/v0, d/v1, d/v2");
        assert_eq!(victims_of(&candidate(5, 0)), "d/v0, d/v1, d/v2 and 2 more");
    }
}
