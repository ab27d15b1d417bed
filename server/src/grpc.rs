//! gRPC services, one file each. A handler unpacks the request, calls its transport-free half in [`crate::service`],
//! and packs the response; every failure becomes a status in `status`.

mod call;
mod follow;
mod layer;
mod parts;
mod placement;
mod preemption;
mod session;
mod lifecycle;
mod autoscaler;
mod cluster;
mod decisions;
mod expander;
mod status;
pub mod timeout;

use std::sync::Arc;

use berth_proto::berth_v1::autoscaler_service_server::AutoscalerServiceServer;
use berth_proto::berth_v1::cluster_service_server::ClusterServiceServer;
use berth_proto::berth_v1::decision_service_server::DecisionServiceServer;
use berth_proto::berth_v1::lifecycle_service_server::LifecycleServiceServer;
use berth_proto::berth_v1::placement_service_server::PlacementServiceServer;
use berth_proto::berth_v1::preemption_service_server::PreemptionServiceServer;
use berth_proto::berth_v1::session_service_server::SessionServiceServer;
use tonic::service::Routes;
use tonic_health::server::{HealthReporter, HealthService};

use crate::service::State;
pub(crate) use layer::CallService;

/// The services of `berth.v1`, health and reflection.
///
/// # Errors
/// If the built-in descriptors cannot be read, which a test rules out.
pub(crate) fn routes(
    state: &Arc<State>,
    health: HealthReporter,
) -> Result<Routes, tonic_reflection::server::Error> {
    let max_bytes = state.limits.max_message_bytes;
    let cluster = ClusterServiceServer::new(cluster::ClusterHandler::new(state.clone()))
        .max_decoding_message_size(max_bytes);
    let placement = PlacementServiceServer::new(placement::PlacementHandler::new(state.clone()))
        .max_decoding_message_size(max_bytes);
    let preemption =
        PreemptionServiceServer::new(preemption::PreemptionHandler::new(state.clone()))
            .max_decoding_message_size(max_bytes);
    let session = SessionServiceServer::new(session::SessionHandler::new(state.clone()))
        .max_decoding_message_size(max_bytes);
    let lifecycle = LifecycleServiceServer::new(lifecycle::LifecycleHandler::new(state.clone()))
        .max_decoding_message_size(max_bytes);
    let autoscaler =
        AutoscalerServiceServer::new(autoscaler::AutoscalerHandler::new(state.clone()))
            .max_decoding_message_size(max_bytes);
    let decisions = DecisionServiceServer::new(decisions::DecisionHandler::new(state.clone()))
        .max_decoding_message_size(max_bytes);
    let expander = expander::ExpanderService::new(state.clone());
    let health = tonic_health::pb::health_server::HealthServer::new(
        HealthService::from_health_reporter(health),
    );
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(berth_proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(Routes::new(cluster)
        .add_service(placement)
        .add_service(preemption)
        .add_service(session)
        .add_service(lifecycle)
        .add_service(autoscaler)
        .add_service(decisions)
        .add_service(expander)
        .add_service(health)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?)
        .prepare())
}
