//! Preemption, engine ↔ wire.

use berth_engine as engine;
use berth_engine::{GivenUp, Nomination, PostFilterCode, VictimPlacement};
use berth_proto::berth_v1 as wire;

use super::{decision, node_verdict, pod_key, saturate};
use crate::service::CallError;

/// Options of a preemption request; `path` is the field path of the options.
pub(crate) fn preempt_options(
    options: Option<&wire::PreemptOptions>,
    path: &str,
) -> Result<engine::PreemptOptions, CallError> {
    let Some(options) = options else {
        return Ok(engine::PreemptOptions::default());
    };
    let wire::PreemptOptions { sample_seed, refuse_pdb_violations, victim_placement } = *options;
    use wire::VictimPlacement as Wire;
    let victim_placement = match Wire::try_from(victim_placement) {
        Ok(Wire::Unspecified | Wire::Ignore) => VictimPlacement::Ignore,
        Ok(Wire::Report) => VictimPlacement::Report,
        Ok(Wire::Prefer) => VictimPlacement::Prefer,
        Err(_) => {
            return Err(CallError::field(
                format!("{path}.victim_placement"),
                format!("`{victim_placement}` is no victim placement"),
            ));
        }
    };
    Ok(engine::PreemptOptions { sample: sample_seed, refuse_pdb_violations, victim_placement })
}

/// Options of a preemption, for a record of it.
pub(crate) fn recorded_options(options: engine::PreemptOptions) -> wire::PreemptOptions {
    let engine::PreemptOptions { sample, refuse_pdb_violations, victim_placement } = options;
    let victim_placement = match victim_placement {
        VictimPlacement::Ignore => wire::VictimPlacement::Ignore,
        VictimPlacement::Report => wire::VictimPlacement::Report,
        VictimPlacement::Prefer => wire::VictimPlacement::Prefer,
    };
    wire::PreemptOptions {
        sample_seed: sample,
        refuse_pdb_violations,
        victim_placement: victim_placement.into(),
    }
}

/// Result of a whole attempt; its nominations are not applied here.
pub(crate) fn preemption(preemption: engine::Preemption) -> wire::PreemptResponse {
    let engine::Preemption { decision: decided, post_filter: ran } = preemption;
    wire::PreemptResponse {
        decision: Some(decision(decided)),
        post_filter: ran.map(post_filter),
        nomination_generation: None,
        admission: None,
    }
}

pub(crate) fn candidate_list(list: engine::CandidateList) -> wire::ListCandidatesResponse {
    let engine::CandidateList { preemption: attempt, candidates, best, not_helped } = list;
    let wire::PreemptResponse { decision, post_filter, .. } = preemption(attempt);
    wire::ListCandidatesResponse {
        decision,
        post_filter,
        candidates: candidates.into_iter().map(candidate).collect(),
        best_node_names: best.iter().map(ToString::to_string).collect(),
        not_helped: not_helped.into_iter().map(node_verdict).collect(),
        admission: None,
    }
}

fn post_filter(post_filter: engine::PostFilter) -> wire::PostFilter {
    let engine::PostFilter {
        code,
        message,
        nomination,
        chosen,
        n_candidates,
        n_best,
        cleared_nominations,
        given_up,
    } = post_filter;
    let (deallocatable_claims, deletable_claim) = match given_up {
        GivenUp::Nothing => (Vec::new(), String::new()),
        GivenUp::OneOf(claims) => (claims.iter().map(ToString::to_string).collect(), String::new()),
        GivenUp::Extended(claim) => (Vec::new(), claim.to_string()),
    };
    let code = match code {
        PostFilterCode::Success => wire::PostFilterCode::Success,
        PostFilterCode::Unschedulable => wire::PostFilterCode::Unschedulable,
        PostFilterCode::Error => wire::PostFilterCode::Error,
    };
    let (nomination, node) = match nomination {
        Nomination::Unchanged => (wire::NominationChange::None, None),
        Nomination::Cleared => (wire::NominationChange::Clear, None),
        Nomination::Node(node) => (wire::NominationChange::Set, Some(node)),
    };
    wire::PostFilter {
        code: code.into(),
        message,
        nomination: nomination.into(),
        nominated_node_name: node.map_or_else(String::new, |node| node.to_string()),
        chosen: chosen.map(candidate),
        n_candidates,
        n_best,
        // The engine names them by key: a nomination belongs to whichever pod has the name.
        cleared_nominations: cleared_nominations.iter().map(|key| pod_key(key, "")).collect(),
        deallocatable_claims,
        deletable_claim,
    }
}

fn candidate(candidate: engine::Candidate) -> wire::Candidate {
    let engine::Candidate { node, victims, n_pdb_violations } = candidate;
    wire::Candidate {
        node_name: node.to_string(),
        victims: victims.into_iter().map(victim).collect(),
        n_pdb_violations,
    }
}

fn victim(victim: engine::Victim) -> wire::Victim {
    use wire::elsewhere::Outcome;
    let engine::Victim { pod, uid, priority, is_terminating, elsewhere } = victim;
    let elsewhere = elsewhere.map(|elsewhere| match elsewhere {
        engine::Elsewhere::Node(node) => Outcome::NodeName(node.to_string()),
        engine::Elsewhere::Nowhere(message) => Outcome::UnschedulableMessage(message),
    });
    wire::Victim {
        pod: Some(pod_key(&pod, &uid)),
        priority,
        is_terminating,
        elsewhere: elsewhere.map(|outcome| wire::Elsewhere { outcome: Some(outcome) }),
    }
}

/// Compiles the gang options of a request with `n_pods` pods.
pub(crate) fn gang(gang: &wire::Gang, n_pods: usize) -> Result<engine::Gang, CallError> {
    let wire::Gang { min_count, preempt, preempt_options: options } = gang;
    let path = "gang.preempt_options";
    if options.is_some() && !preempt {
        return Err(CallError::field(path, "has no effect without `gang.preempt`"));
    }
    let options = preempt_options(options.as_ref(), path)?;
    let min_count = usize::try_from(*min_count).unwrap_or(usize::MAX);
    if min_count > n_pods {
        let reason = format!("asks for {min_count} of {n_pods} pods");
        return Err(CallError::field("gang.min_count", reason));
    }
    Ok(engine::Gang { min_count, preempt: preempt.then_some(options) })
}

/// The options of a gang, as a request has them.
pub(crate) fn recorded_gang(gang: engine::Gang) -> wire::Gang {
    let engine::Gang { min_count, preempt } = gang;
    wire::Gang {
        min_count: saturate(min_count),
        preempt: preempt.is_some(),
        preempt_options: preempt.map(recorded_options),
    }
}

/// Outcome of a gang as a whole; positions are those of the request.
pub(crate) fn gang_outcome(outcome: engine::GangOutcome) -> wire::GangOutcome {
    let engine::GangOutcome { placed, n_placed, preemptions, nominated } = outcome;
    let preemption = |preempted: engine::GangPreemption| {
        let engine::GangPreemption { index, post_filter: ran } = preempted;
        wire::GangPreemption { index: saturate(index), post_filter: Some(post_filter(ran)) }
    };
    wire::GangOutcome {
        placed,
        n_placed: saturate(n_placed),
        preemptions: preemptions.into_iter().map(preemption).collect(),
        nominated: nominated.into_iter().map(saturate).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_engine::PodKey;

    #[test]
    fn options_are_off_by_default() {
        let off = engine::PreemptOptions::default();
        assert_eq!(preempt_options(None, "options").unwrap(), off);
        let wire = wire::PreemptOptions::default();
        assert_eq!(preempt_options(Some(&wire), "options").unwrap(), off);
        let wire = wire::PreemptOptions {
            sample_seed: Some(0),
            refuse_pdb_violations: true,
            victim_placement: 3,
        };
        let expected = engine::PreemptOptions {
            sample: Some(0),
            refuse_pdb_violations: true,
            victim_placement: VictimPlacement::Prefer,
        };
        assert_eq!(preempt_options(Some(&wire), "options").unwrap(), expected);
        let wire = wire::PreemptOptions { victim_placement: 4, ..wire };
        assert_eq!(
            preempt_options(Some(&wire), "gang.preempt_options").unwrap_err().to_string(),
            "`gang.preempt_options.victim_placement`: `4` is no victim placement"
        );
    }

    #[test]
    fn a_victim_has_its_identity_and_its_placement_elsewhere() {
        let check = |elsewhere: Option<engine::Elsewhere>, expected: Option<&str>| {
            let converted = victim(engine::Victim {
                pod: PodKey::new("ns", "p"),
                uid: "u".into(),
                priority: -3,
                is_terminating: true,
                elsewhere,
            });
            let key = converted.pod.unwrap();
            assert_eq!((&*key.namespace, &*key.name, &*key.uid), ("ns", "p", "u"));
            assert_eq!((converted.priority, converted.is_terminating), (-3, true));
            let outcome = converted.elsewhere.map(|elsewhere| match elsewhere.outcome.unwrap() {
                wire::elsewhere::Outcome::NodeName(node) => node,
                wire::elsewhere::Outcome::UnschedulableMessage(message) => message,
            });
            assert_eq!(outcome.as_deref(), expected);
        };
        check(None, None);
        check(Some(engine::Elsewhere::Node("n".into())), Some("n"));
        check(Some(engine::Elsewhere::Nowhere("0/1 nodes".into())), Some("0/1 nodes"));
    }

    #[test]
    fn a_nomination_is_reported_as_a_change() {
        let check = |nomination, change: wire::NominationChange, node: &str| {
            let converted = post_filter(engine::PostFilter {
                code: PostFilterCode::Unschedulable,
                message: "preemption: x".to_owned(),
                nomination,
                chosen: None,
                n_candidates: 2,
                n_best: 1,
                cleared_nominations: vec![PodKey::new("ns", "low")],
                given_up: GivenUp::OneOf(vec!["gpu".into()]),
            });
            assert_eq!((converted.nomination(), &*converted.nominated_node_name), (change, node));
            assert_eq!(converted.code(), wire::PostFilterCode::Unschedulable);
            assert_eq!(converted.cleared_nominations[0].name, "low");
        };
        check(Nomination::Unchanged, wire::NominationChange::None, "");
        check(Nomination::Cleared, wire::NominationChange::Clear, "");
        check(Nomination::Node("n".into()), wire::NominationChange::Set, "n");
    }
}
