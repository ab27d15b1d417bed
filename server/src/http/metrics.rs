//! `/metrics`: everything that [`crate::telemetry`] counts, in Prometheus' text format.

use std::sync::Arc;

use axum::extract::State as Shared;
use axum::http::header::{CONTENT_TYPE, HeaderName};

use crate::clock;
use crate::grpc::State;

pub(super) async fn metrics(
    Shared(state): Shared<Arc<State>>,
) -> ([(HeaderName, &'static str); 1], String) {
    if let Some(watches) = state.freshness.watches() {
        let ages = watches.ages(clock::now());
        ages.into_iter().for_each(|(kind, age)| state.metrics.feed().set_staleness(kind, age));
    }
    let text = state.metrics.render(
        &state.cluster.snapshot(),
        state.cluster.n_shapes(),
        state.freshness.staleness(),
    );
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}
