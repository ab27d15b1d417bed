//! Upkeep: periodic work of a running server.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use super::ledger_upkeep::LedgerUpkeep;
use crate::clock;
use crate::service::readiness::readiness;
use crate::service::{Kept, State};

/// Interval of the checks for contradictions, idle sessions, slow readers and a failed ledger.
const UPKEEP: Duration = Duration::from_secs(1);

/// Interval of the checks for assumed pods whose time to live is over.
const EXPIRY: Duration = Duration::from_millis(100);

/// Interval of the search for assumptions that feeds have ended, where the ledger keeps them.
const SWEEP: Duration = Duration::from_secs(1);

/// Ends assumptions whose time to live is over. Runs until it is aborted.
pub(super) async fn expire_assumptions(state: Arc<State>) {
    let mut tick = tokio::time::interval(EXPIRY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut swept = (clock::now(), state.cluster.snapshot().generation());
    loop {
        tick.tick().await;
        let now = clock::now();
        let generation = state.cluster.snapshot().generation();
        // Ended assumptions leave the ledger soon, so that the next server does not restore them.
        let is_kept_longer = state.assumptions.are_kept() && generation != swept.1;
        let sweeps = state.assumptions.are_many_ended()
            || is_kept_longer && now.saturating_duration_since(swept.0) >= SWEEP;
        if !state.assumptions.is_any_due(now) && !sweeps {
            continue;
        }
        if sweeps {
            swept = (now, generation);
        }
        let shared = state.clone();
        // Changes of the cluster may have to wait for others.
        let expired = tokio::task::spawn_blocking(move || {
            let _busy = shared.long_write();
            shared.assumptions.expire(now);
            if sweeps {
                shared.assumptions.forget_ended();
            }
        });
        if let Err(error) = expired.await {
            tracing::error!(%error, "assumptions could not be ended");
        }
    }
}

/// Restores assumptions of earlier runs once the cluster was fed, before anything is decided: the future does it. Without
/// any it ends at once.
pub(super) fn begin_restore(
    state: &Arc<State>,
    kept: Kept,
) -> impl Future<Output = ()> + Send + use<> {
    let fed = (!kept.is_empty()).then(|| state.freshness.begin_restore());
    let state = state.clone();
    async move {
        let Some(mut fed) = fed else { return };
        if fed.wait_for(|&is_fed| is_fed).await.is_err() {
            return;
        }
        let shared = state.clone();
        let restored = tokio::task::spawn_blocking(move || {
            let _busy = shared.long_write();
            shared.assumptions.restore(kept, &shared.responses, clock::now());
            shared.freshness.end_restore();
        });
        if let Err(error) = restored.await {
            tracing::error!(%error, "the reservations of earlier runs could not be restored");
        }
    }
}

/// Runs until it is aborted.
pub(super) async fn keep_up(state: Arc<State>, health: HealthReporter) {
    let mut draining = state.draining.clone();
    let mut completed = state.freshness.completed();
    let mut ledger = LedgerUpkeep::default();
    let mut tick = tokio::time::interval(UPKEEP);
    loop {
        tokio::select! {
            _ = tick.tick() => {
                state.sessions.drop_expired(clock::now());
                let n_cut = state.slow_readers.cut_slow(clock::now(), state.limits.load.slow_reader_timeout);
                (0..n_cut).for_each(|_| state.metrics.admission().count_slow_reader());
                ledger.run(&state, clock::now());
            }
            Ok(()) = draining.changed() => {}
            Ok(()) = completed.changed() => {}
        }
        report_health(&state, &health).await;
    }
}

/// Reports gRPC health: placements are served once the server is ready, the cluster's feed as soon as the server runs.
pub(super) async fn report_health(state: &State, health: &HealthReporter) {
    let serving = |yes: bool| {
        if yes { ServingStatus::Serving } else { ServingStatus::NotServing }
    };
    let ready = readiness(state).iter().all(|(_, outcome)| outcome.is_ok());
    let draining = *state.draining.borrow();
    health.set_service_status("", serving(ready)).await;
    for service in ["AutoscalerService", "PlacementService", "PreemptionService", "SessionService"]
    {
        health.set_service_status(format!("berth.v1.{service}"), serving(ready)).await;
    }
    // Without a cluster the expander still chooses by the contents of a request.
    health.set_service_status("grpcplugin.Expander", serving(!draining)).await;
    for service in ["ClusterService", "DecisionService", "LifecycleService"] {
        health.set_service_status(format!("berth.v1.{service}"), serving(!draining)).await;
    }
}
