//! Reserve: assumes and nominates pods on nodes that were chosen before, all of them or none.

use std::collections::HashMap;
use std::sync::Arc;

use berth_engine::{self as engine, Planned, Pod, PodKey, Policy};
use berth_proto::berth_v1::{
    ReserveEntry, ReserveRequest, ReserveResponse, ReservedPod, reserve_entry,
};

use super::{batch, entries};
use crate::clock;
use crate::service::convert::{self, Mode, saturate};
use crate::service::{
    AssumeTerms, CallContext, CallError, Cancel, Guarded, Held, State, Undelivered,
};

/// Carries out decisions that were made elsewhere.
///
/// # Errors
/// A bad field, [`CallError::NotReserved`], a caller that is gone.
pub(crate) async fn reserve(
    state: &Arc<State>,
    call: CallContext,
    request: ReserveRequest,
) -> Result<ReserveResponse, CallError> {
    state.check_decidable()?;
    state.check_commits_here()?;
    let terms = AssumeTerms::of_commit(state, &call.access, request.assume_ttl_ms)?;
    let shared = state.clone();
    let job = move |cancel: &Cancel| {
        let reserved = reserve_now(&shared, request.entries, &terms, cancel)?;
        // If the caller is gone, what was assumed is given back here.
        cancel.check()?;
        Ok::<_, CallError>(reserved)
    };
    let (response, undelivered) = state.pool.run(call.deadline, job).await??;
    let undelivered = Undelivered::written(undelivered).await?;
    call.delivery.hold(undelivered);
    Ok(response)
}

fn reserve_now(
    state: &Arc<State>,
    entries: Vec<ReserveEntry>,
    terms: &AssumeTerms,
    cancel: &Cancel,
) -> Result<Guarded<ReserveResponse>, CallError> {
    batch::check_number(entries.len() as u64, state.limits.max_pods_per_request)?;
    let mut policies = HashMap::new();
    let mut planned = Vec::with_capacity(entries.len());
    for (at, entry) in entries.into_iter().enumerate() {
        cancel.check()?;
        planned.push(plan(state, at, entry, &mut policies)?);
    }
    let policy_of = |pod: &Pod| policies.get(pod.key()).copied();
    let request = engine::ReserveRequest {
        planned: &planned,
        policy_of: &policy_of,
        now: Some(clock::unix_seconds()),
        cancelled: &|| cancel.is_cancelled(),
    };
    let _busy = state.long_write();
    let reserved = state.cluster.reserve(&request)?;
    let mut held = Held::of_commit(state, terms, &reserved, clock::now());
    let response = ReserveResponse {
        generation: reserved.generation.get(),
        n_nominated_pods: saturate(reserved.nominated.len()),
        nominated_pods: Held::nominated(&reserved),
        assumed_pods: held.tell_commit(reserved.assumed),
    };
    Ok((response, held.undelivered))
}

/// Compiles an entry, and notes the profile of a pod that is to be assumed.
fn plan<'s>(
    state: &'s State,
    at: usize,
    entry: ReserveEntry,
    policies: &mut HashMap<PodKey, &'s Policy>,
) -> Result<Planned, CallError> {
    let (field, ReservedPod { pod, node_name }) = match entry.decision {
        Some(reserve_entry::Decision::ClearNomination(key)) => {
            if key.name.is_empty() {
                let field = format!("entries[{at}].clear_nomination.name");
                return Err(CallError::field(field, "must not be empty"));
            }
            let namespace = if key.namespace.is_empty() { "default" } else { &key.namespace };
            return Ok(Planned::Clear { pod: PodKey::new(namespace, &key.name) });
        }
        Some(reserve_entry::Decision::Assume(pod)) => ("assume", pod),
        Some(reserve_entry::Decision::Nominate(pod)) => ("nominate", pod),
        None => {
            let reason = "must be set: one of `assume`, `nominate` and `clear_nomination`";
            return Err(CallError::field(format!("entries[{at}]"), reason));
        }
    };
    let prefix = format!("entries[{at}].{field}");
    if node_name.is_empty() {
        return Err(CallError::field(format!("{prefix}.node_name"), "must be set"));
    }
    let keeps = state.keeps_objects(Mode::Assume);
    let compiled = convert::pod_to_place(&state.cluster, &state.profiles, pod.as_ref(), keeps);
    let (pod, policy) =
        compiled.map_err(|error| entries::within(&format!("{prefix}.pod"), error))?;
    let node = node_name.into();
    if field == "nominate" {
        return Ok(Planned::Nominate { pod, node });
    }
    policies.insert(pod.key().clone(), policy);
    Ok(Planned::Assume { pod, node })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::fixture;

    fn on(name: &str, cpu: &str, node: &str) -> ReserveEntry {
        let pod = ReservedPod { pod: Some(fixture::pod(name, cpu, 0)), node_name: node.to_owned() };
        ReserveEntry { decision: Some(reserve_entry::Decision::Assume(pod)) }
    }

    async fn ask(
        state: &Arc<State>,
        entries: Vec<ReserveEntry>,
    ) -> Result<ReserveResponse, CallError> {
        let request = ReserveRequest { entries, assume_ttl_ms: Some(5_000) };
        reserve(state, CallContext::open(), request).await
    }

    #[tokio::test]
    async fn pods_are_reserved_together_and_have_tokens() {
        let state = fixture::state(&[("n0", "4"), ("n1", "4")]);
        let response = ask(&state, vec![on("a", "3", "n1"), on("b", "1", "n1")]).await.unwrap();
        let of = |it: &berth_proto::berth_v1::CommittedPod| {
            let assumption = it.assumption.as_ref().unwrap();
            (it.node_name.clone(), assumption.token, assumption.time_left_ms)
        };
        let reserved: Vec<_> = response.assumed_pods.iter().map(of).collect();
        let [(on_a, first, Some(5_000)), (on_b, second, Some(5_000))] = &reserved[..] else {
            panic!("{reserved:?}")
        };
        assert_eq!((&**on_a, &**on_b, *second), ("n1", "n1", first + 1));
        let refused = ask(&state, vec![on("c", "1", "n0"), on("d", "1", "n1")]).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
        assert!(refused.to_string().contains("`default/d` does not fit node `n1`"), "{refused}");
        assert_eq!(state.cluster.snapshot().n_assumed(), 2);
    }

    #[tokio::test]
    async fn a_bad_entry_is_named() {
        let state = fixture::state(&[("n0", "4")]);
        let check = async |entry: ReserveEntry, field: &str| {
            let error = ask(&state, vec![on("good", "1", "n0"), entry]).await.unwrap_err();
            let named = error.violation().map(|(field, _)| field.to_owned());
            assert_eq!(named.as_deref(), Some(field), "{error}");
        };
        check(ReserveEntry::default(), "entries[1]").await;
        check(on("p", "1", ""), "entries[1].assume.node_name").await;
        check(
            on("p", "-1", "n0"),
            "entries[1].assume.pod.spec.containers[0].resources.requests[cpu]",
        )
        .await;
        let decision = reserve_entry::Decision::ClearNomination(Default::default());
        let entry = ReserveEntry { decision: Some(decision) };
        check(entry, "entries[1].clear_nomination.name").await;
        let none = ReservedPod { pod: None, node_name: "n0".to_owned() };
        let entry = ReserveEntry { decision: Some(reserve_entry::Decision::Nominate(none)) };
        check(entry, "entries[1].nominate.pod").await;
        assert_eq!(state.cluster.snapshot().n_assumed(), 0);
    }
}
