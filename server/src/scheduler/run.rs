//! Run: the main loop. Takes batches from the queue, lets the engine decide, and passes each outcome to a task that
//! writes it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::attempt::{Attempt, Outcome, Rejection};
use super::hints::Changes;
use super::publish::Publisher;
use super::queue::Batch;
use super::shared::Shared;
use super::ticket::Ticket;
use super::{bind, hand_off, report};
use crate::apiserver::event::Event;
use crate::apiserver::leadership::Mandate;
use crate::apiserver::status::UnscheduledReason;
use crate::clock;
use crate::service::{HeldPod, Holder, Written};
use crate::telemetry::AttemptResult;

/// Maximum number of pods whose outcome is being written: beyond it the loop waits, so that decisions are not long out
/// of date when they are written.
const MAX_UNDER_WAY: usize = 8_192;
/// Time to live of the room of a pod that is being bound. Whatever becomes of the binding, the feed says so before.
const BIND_TTL: Duration = Duration::from_secs(300);
/// Interval at which the leadership is checked.
const TICK: Duration = Duration::from_millis(500);
/// Minimum time between two settings of the gauges.
const GAUGE_INTERVAL: Duration = Duration::from_millis(100);

/// Schedules until `stop`; returns whether all work under way ended.
pub(super) async fn run(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) -> bool {
    let (mut publisher, mut gauges_due) = (Publisher::new(), clock::now());
    let mut work = JoinSet::new();
    let mut term = Term::default();
    let mut leadership = shared.leadership.clone();
    let mut lifts = shared.state.fences.lifts();
    loop {
        while let Some(ended) = work.try_join_next() {
            log_panic(ended);
        }
        let now = clock::now();
        if gauges_due <= now {
            publish(&shared, &mut publisher);
            gauges_due = now + GAUGE_INTERVAL;
        }
        shared.log_failures(now);
        let mut wake_at = now + TICK;
        if let Some(mandate) = term.mandate(&shared, now)
            && shared.is_synced()
            && work.len() < MAX_UNDER_WAY
        {
            for batch in hand_off::expired(&shared, now) {
                attempt(&shared, &mandate, batch, &mut work).await;
            }
            // The guard must be dropped before the next await.
            let batch = shared.queue().pop(now, shared.options.max_batch);
            if let Some(batch) = batch {
                tokio::select! {
                    () = attempt(&shared, &mandate, batch, &mut work) => continue,
                    _ = stop.wait_for(|&stop| stop) => break,
                }
            }
            wake_at = shared.queue().next_move().map_or(wake_at, |next| next.min(wake_at));
        }
        tokio::select! {
            () = shared.wake.notified() => {}
            () = tokio::time::sleep_until(wake_at.max(now + Duration::from_millis(1)).into()) => {}
            () = leadership.changed() => {}
            // As if the node were no longer cordoned.
            Ok(()) = lifts.changed() => shared.note_changed(Changes::NODE_TAINTS),
            // Until then those that ended are taken out whenever the loop goes round.
            Some(ended) = work.join_next(), if work.len() >= MAX_UNDER_WAY => log_panic(ended),
            _ = stop.wait_for(|&stop| stop) => break,
        }
    }
    let ended = async {
        while let Some(ended) = work.join_next().await {
            log_panic(ended);
        }
    };
    tokio::time::timeout(shared.options.stop_timeout, ended).await.is_ok()
}

/// The term in which this instance leads.
#[derive(Default)]
struct Term {
    number: u64,
    began: Option<Instant>,
}

impl Term {
    /// The mandate to decide and to write, if this instance leads and knows everything that the previous leader did: a
    /// new term begins with a list of all pods that was requested in it, since the watch may be behind.
    fn mandate(&mut self, shared: &Shared, now: Instant) -> Option<Mandate> {
        // Where servers share a ledger, the one that commits decides for all.
        let mandate =
            shared.leadership.mandate(now).filter(|_| shared.state.assumptions.are_made_here())?;
        if shared.options.lease.is_none() {
            return Some(mandate);
        }
        if self.number != mandate.number() {
            *self = Term { number: mandate.number(), began: Some(now) };
            shared.ask_for_pods();
        }
        (shared.pods_listed() >= self.began).then_some(mandate)
    }
}

fn publish(shared: &Shared, publisher: &mut Publisher) {
    let (counts, tally) = {
        let queue = shared.queue();
        (queue.counts(), queue.tally().clone())
    };
    publisher.publish(shared.counts(), counts, &tally);
    shared.counts().set_leading(shared.is_leading());
    shared.counts().set_bind_limit(shared.bind_slots.limit());
    shared.counts().set_events_dropped(shared.events.n_dropped());
}

async fn attempt(
    shared: &Arc<Shared>,
    mandate: &Mandate,
    mut batch: Batch,
    work: &mut JoinSet<()>,
) {
    drop_deleting(shared, mandate, &mut batch);
    let tickets = batch.pods.iter().map(|popped| Ticket::new(shared, mandate, popped.clone()));
    let mut tickets: Vec<Ticket> = tickets.collect();
    if tickets.is_empty() {
        return;
    }
    let began = clock::now();
    let decided = {
        let (shared, batch) = (shared.clone(), batch);
        tokio::task::spawn_blocking(move || decide(&shared, &batch)).await
    };
    let decided = match decided {
        Ok((outcomes, written)) => {
            written.await.map(|()| outcomes).map_err(|error| error.to_string())
        }
        Err(_) => Err("it crashed".to_owned()),
    };
    // Without outcomes the tickets fail when they are dropped, and release the room that they may have taken.
    let outcomes = match decided {
        Ok(outcomes) => outcomes,
        Err(reason) => {
            tickets.iter_mut().for_each(Ticket::placed);
            return tracing::error!(reason, "an attempt failed; its pods are retried");
        }
    };
    let n_pods = u32::try_from(tickets.len()).unwrap_or(u32::MAX);
    let each = clock::now().saturating_duration_since(began) / n_pods;
    for (ticket, outcome) in tickets.into_iter().zip(outcomes) {
        shared.counts().record_algorithm(each);
        if let Outcome::Rejected(rejection) = &outcome {
            ticket.count(result_of(rejection));
        }
        carry_out(shared, ticket, outcome, work);
    }
}

/// Drops pods that are being deleted, with an event (S-Q-9).
fn drop_deleting(shared: &Arc<Shared>, mandate: &Mandate, batch: &mut Batch) {
    batch.pods.retain(|popped| {
        let pending = &popped.pending;
        if !pending.is_terminating {
            return true;
        }
        let text = format!("skip schedule deleting pod: {}", pending.key);
        if !shared.options.hand_off {
            shared.events.record(Event::failed_scheduling(&pending.name, &text, &pending.profile));
        }
        Ticket::new(shared, mandate, popped.clone()).dropped();
        false
    });
}

/// Decides the batch, and has what it assumes written where servers share a ledger: so the next one that decides knows of
/// a pod whose binding its feed has not reported.
fn decide(shared: &Shared, batch: &Batch) -> (Vec<Outcome>, Written) {
    let Some(policy) = shared.state.profiles.get(&batch.profile) else {
        return (Vec::new(), Written::default());
    };
    let attempt = Attempt {
        cluster: shared.cluster(),
        policy,
        tie_break: shared.state.tie_break,
        metrics: &shared.state.metrics,
        watchers: &shared.state.watchers,
        may_preempt: !shared.options.hand_off,
        now: Some(clock::unix_seconds()),
    };
    let outcomes = attempt.decide(batch);
    if shared.state.replicas.is_none() {
        return (outcomes, Written::default());
    }
    let placed = batch.pods.iter().zip(&outcomes).filter_map(|(popped, outcome)| match outcome {
        Outcome::Placed { bindings, .. } => Some(HeldPod {
            key: popped.pending.key.clone(),
            stamp: bindings.stamp?,
            volumes: bindings.volumes.clone(),
            devices: bindings.devices.clone(),
        }),
        _ => None,
    });
    let placed: Vec<HeldPod> = placed.collect();
    let user = shared.options.instance.as_str().into();
    let holder = Holder { user: &user, ttl: Some(BIND_TTL), request: None };
    let (_, written) = shared.state.assumptions.record_all(&placed, [], holder, clock::now());
    (outcomes, written)
}

/// Result as which a pod without a node is counted.
fn result_of(rejection: &Rejection) -> AttemptResult {
    match rejection.reason {
        UnscheduledReason::Unschedulable => AttemptResult::Unschedulable,
        UnscheduledReason::SchedulerError => AttemptResult::Error,
    }
}

fn carry_out(shared: &Arc<Shared>, mut ticket: Ticket, outcome: Outcome, work: &mut JoinSet<()>) {
    let shared = shared.clone();
    match outcome {
        Outcome::Placed { node, .. } if shared.options.hand_off => {
            ticket.placed();
            work.spawn(async move { hand_off::nominate(&shared, ticket, node).await });
        }
        Outcome::Placed { node, bindings } => {
            ticket.placed();
            work.spawn(async move { bind::bind(&shared, ticket, &node, &bindings).await });
        }
        Outcome::Rejected(rejection) if shared.options.hand_off => {
            work.spawn(async move { hand_off::reject(&shared, ticket, *rejection).await });
        }
        Outcome::Rejected(rejection) => {
            work.spawn(async move { report::report(&shared, ticket, *rejection).await });
        }
        Outcome::Gated => ticket.gate(),
        Outcome::HeldBack(wanted) => ticket.defer(wanted),
        Outcome::Overtaken => ticket.fail(),
        Outcome::Again => ticket.retry(),
    }
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if ended.is_err_and(|error| error.is_panic()) {
        tracing::error!("a scheduler task crashed; its pod is retried");
    }
}
