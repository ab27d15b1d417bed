//! The console: a page that shows the cluster, what was decided and how the server does. Its files are in the binary and
//! for everybody, since they tell nothing about a cluster; what it reads needs the role `reader`: the calls below `/v1`,
//! and here all nodes at once and a stream of events.

mod asset;
mod columns;
mod compress;
mod events;
mod live;
mod nodes;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use crate::service::State;
pub(super) use asset::is_asset;
use live::Live;

/// The routes of the console.
pub(super) fn routes(state: Arc<State>) -> Router {
    let files = Router::new()
        .route("/", get(asset::get))
        .route("/console/{*path}", get(asset::get))
        .route("/console/nodes", get(nodes::get))
        .with_state(state.clone());
    let stream = Router::new().route("/console/events", get(events::get));
    files.merge(stream.with_state(Arc::new(Live::new(state))))
}
