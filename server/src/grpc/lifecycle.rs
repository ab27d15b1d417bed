//! `berth.v1.LifecycleService`: lifecycle decisions. Most methods are functions of their request; those of the ledger
//! have state.

mod evaluate;

use std::sync::Arc;

use berth_engine::ModelError;
use berth_engine::lifecycle;
use berth_proto::berth_v1 as wire;
use berth_proto::berth_v1::lifecycle_service_server::LifecycleService;
use prost::Message;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::parts::parts;
use crate::ledger::Grants;
use crate::lifecycle::each_function;
use crate::service::lifecycle::LedgerMethod;
use crate::service::{State, lifecycle as service};

pub(crate) struct LifecycleHandler {
    state: Arc<State>,
}

impl LifecycleHandler {
    pub(crate) fn new(state: Arc<State>) -> LifecycleHandler {
        LifecycleHandler { state }
    }

    /// Calls a stateless function with the request.
    async fn decide<Q, A>(
        &self,
        request: Request<Q>,
        function: fn(&Q) -> Result<A, ModelError>,
    ) -> Result<Response<A>, Status>
    where
        Q: Message + 'static,
        A: Send + 'static,
    {
        let (call, question) = parts(request);
        Ok(Response::new(service::decide(&self.state, &call, question, function).await?))
    }

    /// Calls the ledger, which may wait for the disk.
    async fn keep<Q, A>(
        &self,
        request: Request<Q>,
        method: LedgerMethod<Q, A>,
    ) -> Result<Response<A>, Status>
    where
        Q: Send + 'static,
        A: Send + 'static,
    {
        let (call, question) = parts(request);
        Ok(Response::new(service::keep(&self.state, &call, question, method).await?))
    }
}

/// Passes the list of the ledger's methods to `handlers`, after that of the functions.
macro_rules! with_ledger {
    ($($functions:tt)+) => {
        handlers! {
            functions { $($functions)+ }
            ledger {
                acquire_identity(AcquireIdentityRequest) -> AcquireIdentityResponse;
                get_identity(GetIdentityRequest) -> GetIdentityResponse;
                attach_volume(AttachVolumeRequest) -> AttachVolumeResponse;
                detach_volume(DetachVolumeRequest) -> DetachVolumeResponse;
                break_attachment(BreakAttachmentRequest) -> BreakAttachmentResponse;
                may_start(MayStartRequest) -> MayStartResponse;
                get_volume(GetVolumeRequest) -> GetVolumeResponse;
                get_fence(GetFenceRequest) -> GetFenceResponse;
                check_token(CheckTokenRequest) -> CheckTokenResponse;
                list_ledger_records(ListLedgerRecordsRequest) -> ListLedgerRecordsResponse;
            }
        }
    };
}

macro_rules! handlers {
    (
        functions {
            $($group:literal $name:literal $module:ident::$function:ident($request:ident) -> $response:ident;)+
        }
        ledger { $($method:ident($ledger_request:ident) -> $ledger_response:ident;)+ }
    ) => {
        #[tonic::async_trait]
        impl LifecycleService for LifecycleHandler {
            type EvaluatePodsStream = ReceiverStream<Result<wire::EvaluatePodsResponse, Status>>;

            async fn evaluate_pods(
                &self,
                request: Request<Streaming<wire::EvaluatePodsRequest>>,
            ) -> Result<Response<Self::EvaluatePodsStream>, Status> {
                let (call, requests) = parts(request);
                Ok(Response::new(evaluate::serve(self.state.clone(), requests, call.deadline)))
            }

            async fn record_identity_event(
                &self,
                request: Request<wire::RecordIdentityEventRequest>,
            ) -> Result<Response<wire::RecordIdentityEventResponse>, Status> {
                let (call, request) = parts(request);
                let response = service::record_identity_event(&self.state, &call, request);
                Ok(Response::new(response.await?))
            }

            async fn advance_fence(
                &self,
                request: Request<wire::AdvanceFenceRequest>,
            ) -> Result<Response<wire::AdvanceFenceResponse>, Status> {
                let (call, request) = parts(request);
                Ok(Response::new(service::advance_fence(&self.state, &call, request).await?))
            }

            $(async fn $function(
                &self,
                request: Request<wire::$request>,
            ) -> Result<Response<wire::$response>, Status> {
                self.decide(request, lifecycle::$module::$function).await
            })+

            $(async fn $method(
                &self,
                request: Request<wire::$ledger_request>,
            ) -> Result<Response<wire::$ledger_response>, Status> {
                self.keep(request, Grants::$method).await
            })+
        }
    };
}

each_function!(with_ledger);
