//! Placement: decides where pods are placed.

pub(crate) mod batch;
pub(crate) mod cost;
pub(crate) mod entries;
pub(crate) mod gang;
pub(crate) mod reserve;
pub(crate) mod assumed;

use std::collections::HashSet;
use std::sync::Arc;

use berth_engine as engine;
use berth_proto::berth_v1::{
    Admission, Decision, ExplainRequest, ExplainResponse, PlaceBatchRequest, PlaceBatchResponse,
    PlaceMode, PlaceRequest, PlaceResponse,
};

use crate::auth::Role;
use crate::clock;
use crate::service::admission;
use crate::service::convert::{self, Mode};
use crate::service::named;
use crate::service::{
    Access, AssumeTerms, CallContext, CallError, Cancel, Deadline, Guarded, Held, SentPod, State,
    Target, Undelivered,
};
use crate::telemetry::PlaceMethod;

/// Places one pod.
///
/// # Errors
/// A bad field, a missing role, a caller that is gone.
pub(crate) async fn place(
    state: &Arc<State>,
    call: CallContext,
    request: PlaceRequest,
) -> Result<PlaceResponse, CallError> {
    state.check_decidable()?;
    let target = call.target(state, &request.session_id)?;
    check_assume(state, &call.access, &target, request.mode)?;
    let terms = AssumeTerms::of(state, &call.access, &target, request.mode, request.assume_ttl_ms)?;
    let options = Options::of(state, &request)?;
    let read = read(state, &target, request, options);
    let (pod, admission) = read.inspect_err(|_| state.metrics.count_refused(1))?;
    // An assume in a session waits for the session's other calls, which have no time limit.
    let waits = target.is_hypothetical() && options.mode == Mode::Assume;
    let is_quick = state.decides_in_microseconds(&target) && pod.is_small();
    let decided = if !waits && is_quick {
        decide(state, target, pod, options, &terms)
    } else {
        // Boxed: as a part of this future, what it holds would be moved about with it even in calls that never get here.
        Box::pin(decide_on_pool(state.clone(), target, pod, (options, terms), call.deadline)).await
    };
    let (decision, undelivered) = decided?;
    let undelivered = Undelivered::written(undelivered).await?;
    call.delivery.hold(undelivered);
    Ok(PlaceResponse { decision: Some(decision), admission })
}

/// Places many pods, or a gang entirely or not at all.
///
/// # Errors
/// A bad field of the request as a whole, a missing role, a caller that is gone.
pub(crate) async fn place_batch(
    state: &Arc<State>,
    call: CallContext,
    request: PlaceBatchRequest,
) -> Result<PlaceBatchResponse, CallError> {
    state.check_decidable()?;
    let target = call.target(state, &request.session_id)?;
    check_assume(state, &call.access, &target, request.mode)?;
    let terms = AssumeTerms::of(state, &call.access, &target, request.mode, request.assume_ttl_ms)?;
    let shared = state.clone();
    let decided = state
        .pool
        .run(call.deadline, move |cancel| match request.gang {
            Some(_) => gang::place_batch(&shared, target, request, &terms, cancel),
            None => batch::place_batch(&shared, target, request, &terms, cancel),
        })
        .await?;
    let (response, undelivered) = decided?;
    let undelivered = Undelivered::written(undelivered).await?;
    call.delivery.hold(undelivered);
    Ok(response)
}

/// Explains one pod's placement: the verdict of every node, and the changes that would help.
///
/// # Errors
/// A bad field, a caller that is gone.
pub(crate) async fn explain(
    state: &Arc<State>,
    call: CallContext,
    request: ExplainRequest,
) -> Result<ExplainResponse, CallError> {
    state.check_decidable()?;
    let target = call.target(state, &request.session_id)?;
    let shared = state.clone();
    state
        .pool
        .run(call.deadline, move |cancel| explain_now(&shared, &target, request, cancel))
        .await?
}

/// Checks the role that an assume needs, and that it is decided here; in their own session readers may assume too, since
/// others do not see it.
pub(crate) fn check_assume(
    state: &State,
    access: &Access,
    target: &Target,
    mode: i32,
) -> Result<(), CallError> {
    if mode != PlaceMode::Assume as i32 || target.is_hypothetical() {
        return Ok(());
    }
    state.check_commits_here()?;
    access.to_change(Role::Scheduler)
}

/// Runs [`decide`] on a thread of the pool.
async fn decide_on_pool(
    state: Arc<State>,
    target: Target,
    pod: SentPod,
    (options, terms): (Options, AssumeTerms),
    deadline: Deadline,
) -> Result<Guarded<Decision>, CallError> {
    let shared = state.clone();
    let job = move |cancel: &Cancel| {
        let decided = decide(&shared, target, pod, options, &terms)?;
        // If the caller is gone, what was assumed is given back here.
        cancel.check()?;
        Ok(decided)
    };
    state.pool.run(deadline, job).await?
}

/// How a pod is decided.
#[derive(Copy, Clone)]
struct Options {
    mode: Mode,
    tie_break: engine::TieBreak,
    /// Whether the pod is assumed with its object.
    keeps_object: bool,
}

impl Options {
    fn of(state: &State, request: &PlaceRequest) -> Result<Options, CallError> {
        let mode = convert::mode(request.mode)?;
        let tie_break = convert::tie_break(request.tie_break.as_ref(), state.tie_break)?;
        Ok(Options { mode, tie_break, keeps_object: state.keeps_objects(mode) })
    }
}

/// The pod of a request, admitted if it asks for that.
fn read(
    state: &State,
    target: &Target,
    request: PlaceRequest,
    options: Options,
) -> Result<(SentPod, Option<Box<Admission>>), CallError> {
    let mut pod = SentPod::Encoded(request.pod.ok_or_else(convert::no_pod)?);
    if !request.admit {
        pod.recall(&state.cluster, options.keeps_object)?;
        return Ok((pod, None));
    }
    let mut pod = pod.decoded()?;
    let admission = admission::admit(target, &state.profiles, Some(&mut pod), true)?;
    Ok((pod.into(), admission.map(Box::new)))
}

fn decide(
    state: &Arc<State>,
    target: Target,
    pod: SentPod,
    Options { mode, tie_break, keeps_object }: Options,
    terms: &AssumeTerms,
) -> Result<Guarded<Decision>, CallError> {
    let compiled = pod.compile(&state.cluster, &state.profiles, keeps_object);
    let (pod, policy) = compiled.inspect_err(|_| state.metrics.count_refused(1))?;
    let request =
        engine::PlaceRequest { pod: &pod, policy, tie_break, now: Some(clock::unix_seconds()) };
    let started = clock::now();
    let decided = match mode {
        Mode::DryRun => target.place(&request),
        Mode::Assume => {
            target.reserve(1)?;
            let decided = target.assume(&request);
            target.release(1 - decided.as_ref().map_or(0, batch::n_assumed));
            decided
        }
    };
    state.metrics.record_place_duration(PlaceMethod::Place, clock::now() - started);
    state.metrics.count_decision(decided.as_ref(), target.is_hypothetical());
    let decided = decided?;
    if !target.is_hypothetical() {
        state.watchers.tell(&decided);
    }
    if mode == Mode::DryRun {
        return Ok((convert::decision(decided), None));
    }
    let mut held =
        Held::of(state, target, terms, std::iter::once(&decided), Vec::new(), clock::now());
    let mut decision = convert::decision(decided);
    held.tell(&mut decision);
    Ok((decision, held.undelivered))
}

fn explain_now(
    state: &State,
    target: &Target,
    request: ExplainRequest,
    cancel: &Cancel,
) -> Result<ExplainResponse, CallError> {
    let mut asked = named::to_place(target, request.pod, request.key.as_ref())?;
    let (profiles, admit) = (&state.profiles, request.admit);
    let admission = admission::admit(target, profiles, Some(&mut asked.pod), admit)?;
    let tie_break = convert::tie_break(request.tie_break.as_ref(), state.tie_break)?;
    let (pod, policy) = convert::pod_to_place(&state.cluster, profiles, Some(&asked.pod), false)?;
    let started = clock::now();
    let asking =
        engine::PlaceRequest { pod: &pod, policy, tie_break, now: Some(clock::unix_seconds()) };
    let named: HashSet<&str> = request.node_names.iter().map(String::as_str).collect();
    let is_detailed = |node: &str| named.contains(node);
    let explained = asked
        .cluster()
        .explain_unless(&asking, &is_detailed, &|| cancel.is_cancelled())
        .map_err(CallError::undecided)?;
    state.metrics.record_place_duration(PlaceMethod::Explain, clock::now() - started);
    check_named(&explained.nodes, &request.node_names)?;
    let answer = convert::explanation(explained, &request.node_names, || cancel.check())?;
    Ok(ExplainResponse { admission, ..answer })
}

/// Refuses a name that none of the nodes has; `nodes` are in name order.
fn check_named(nodes: &[engine::NodeVerdict], names: &[String]) -> Result<(), CallError> {
    if nodes.is_empty() {
        return Ok(());
    }
    for (index, name) in names.iter().enumerate() {
        if nodes.binary_search_by(|verdict| (*verdict.node).cmp(name.as_str())).is_err() {
            let why = format!("the cluster has no node `{name}`");
            return Err(CallError::field(format!("node_names[{index}]"), why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::fixture::{self, Holder};
    use crate::service::{CancelOnDrop, Delivery, UntilDelivered, session};
    use berth_proto::berth_v1::decision::Outcome;

    fn place_request(name: &str, mode: PlaceMode, session_id: &str) -> PlaceRequest {
        PlaceRequest {
            pod: Some(fixture::pod(name, "1", 0).into()),
            mode: mode as i32,
            session_id: session_id.to_owned(),
            ..PlaceRequest::default()
        }
    }

    /// The runtime of this test has one thread: if the call blocked it, no other call could run, and nothing would
    /// release the lock.
    #[tokio::test]
    async fn waits_for_the_write_lock_are_off_the_reactor() {
        let state = fixture::state(&[("n0", "4")]);
        let session_id =
            state.sessions.open(clock::now(), "anonymous", || state.cluster.fork()).unwrap();

        let others_are_answered = async |holder: Holder| {
            let request = place_request("other", PlaceMode::DryRun, "");
            place(&state, CallContext::open(), request).await.unwrap();
            holder.let_go()
        };
        let holder = fixture::hold(&state, state.target_of(&session_id).unwrap());
        let request = place_request("p", PlaceMode::Assume, &session_id);
        let waits = place(&state, CallContext::open(), request);
        let (placed, was_in_time) = tokio::join!(waits, others_are_answered(holder));
        assert!(placed.is_ok());
        assert!(was_in_time, "a placement in a session kept the others waiting");
        assert_eq!(state.target_of(&session_id).unwrap().snapshot().n_assumed(), 2);

        let holder = fixture::hold(&state, state.target_of("").unwrap());
        let waits = session::open(&state, CallContext::open());
        let (opened, was_in_time) = tokio::join!(waits, others_are_answered(holder));
        assert!(opened.is_ok());
        assert!(was_in_time, "opening a session kept the others waiting");
    }

    #[test]
    fn an_explanation_ends_when_its_caller_is_gone() {
        let state = fixture::state(&[("n0", "4")]);
        let target = state.target_of("").unwrap();
        let caller = CancelOnDrop::new(Deadline(None));
        let token = caller.token();
        let ask = |cpu| {
            let pod = Some(fixture::pod("p", cpu, 0));
            let request = ExplainRequest { pod, ..ExplainRequest::default() };
            explain_now(&state, &target, request, &token)
        };
        assert_eq!(ask("1").unwrap().nodes.len(), 1);
        assert!(!ask("8").unwrap().remedies.is_empty());
        drop(caller);
        assert_eq!(ask("1").unwrap_err(), CallError::DeadlineExceeded);
        assert_eq!(ask("8").unwrap_err(), CallError::DeadlineExceeded);
    }

    #[tokio::test]
    async fn a_pod_assumed_for_a_response_that_is_dropped_is_given_back() {
        let state = fixture::state(&[("n0", "4")]);
        let delivery = Delivery::watched();
        let call = || CallContext { delivery: delivery.clone(), ..CallContext::open() };
        let assume = |name| place(&state, call(), place_request(name, PlaceMode::Assume, ""));
        let n_assumed = || state.cluster.snapshot().n_assumed();
        assume("p").await.unwrap();
        assert_eq!(n_assumed(), 1);
        delivery.delivered();
        drop(UntilDelivered(delivery.clone()));
        assert_eq!(n_assumed(), 1);
        assume("q").await.unwrap();
        assert_eq!(n_assumed(), 2);
        drop(UntilDelivered(delivery.clone()));
        assert_eq!(n_assumed(), 1);
        // Deleted, and assumed anew for somebody else: the late end of the first assumption does not meet the second.
        assume("r").await.unwrap();
        let key = engine::PodKey::new("default", "r");
        state.cluster.apply(vec![engine::Delta::DeletePod { key, uid: None }]);
        let request = place_request("r", PlaceMode::Assume, "");
        place(&state, CallContext::open(), request).await.unwrap();
        drop(UntilDelivered(delivery));
        assert_eq!(n_assumed(), 2);
    }

    #[tokio::test]
    async fn a_time_to_live_needs_an_assumption_in_the_live_cluster() {
        let state = fixture::state(&[("n0", "4")]);
        let session_id =
            state.sessions.open(clock::now(), "anonymous", || state.cluster.fork()).unwrap();
        let check = async |mode,
                           session_id: &str,
                           assume_ttl_ms,
                           expected: Result<Option<u64>, &str>| {
            let request = PlaceRequest { assume_ttl_ms, ..place_request("p", mode, session_id) };
            let answer = place(&state, CallContext::open(), request).await;
            let assumption =
                |answer: PlaceResponse| match answer.decision.and_then(|decision| decision.outcome)
                {
                    Some(Outcome::Placement(placement)) => placement.assumption,
                    outcome => panic!("{outcome:?}"),
                };
            let found = answer.map(|answer| assumption(answer).map(|it| it.time_left_ms));
            match (found, expected) {
                (Err(error), Err(text)) => assert!(error.to_string().contains(text), "{error}"),
                (found, expected) => assert_eq!(found.map(Option::flatten), Ok(expected.unwrap())),
            }
            let key = engine::PodKey::new("default", "p");
            state.cluster.apply(vec![engine::Delta::DeletePod { key, uid: None }]);
        };
        check(PlaceMode::DryRun, "", Some(1), Err("needs the mode PLACE_MODE_ASSUME")).await;
        check(PlaceMode::Assume, &session_id, Some(1), Err("is not for a session")).await;
        check(PlaceMode::Assume, "", Some(u64::MAX), Err("must be at most 31622400000")).await;
        check(PlaceMode::Assume, "", None, Ok(Some(300_000))).await;
        check(PlaceMode::Assume, "", Some(0), Ok(None)).await;
        check(PlaceMode::Assume, "", Some(1_500), Ok(Some(1_500))).await;
        check(PlaceMode::DryRun, "", None, Ok(None)).await;
        check(PlaceMode::Assume, &session_id, None, Ok(None)).await;
    }
}
