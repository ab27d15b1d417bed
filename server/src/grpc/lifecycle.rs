//! `berth.v1.LifecycleService`: what happens next? Most methods are functions of their request; those of the ledger remember.

mod evaluate;

use std::sync::Arc;

use berth_engine::ModelError;
use berth_engine::lifecycle;
use berth_proto::berth_v1 as wire;
use berth_proto::berth_v1::lifecycle_service_server::LifecycleService;
use prost::Message;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::State;
use super::deadline::Deadline;
use super::status::CallError;
use crate::auth::{Access, Role};
use crate::clock;
use crate::ledger::{GrantError, Grants};
use crate::lifecycle::each_function;

/// A request of more than this many bytes leaves the reactor.
const MAX_INLINE_BYTES: usize = 64 << 10;

pub(crate) struct LifecycleHandler {
    state: Arc<State>,
}

impl LifecycleHandler {
    pub(crate) fn new(state: Arc<State>) -> LifecycleHandler {
        LifecycleHandler { state }
    }

    /// A function of its request alone.
    async fn decide<Question, Answer>(
        &self,
        request: Request<Question>,
        function: fn(&Question) -> Result<Answer, ModelError>,
    ) -> Result<Response<Answer>, Status>
    where
        Question: Message + 'static,
        Answer: Send + 'static,
    {
        let deadline = Deadline::of(&request);
        let question = request.into_inner();
        let answer = if question.encoded_len() <= MAX_INLINE_BYTES {
            function(&question)
        } else {
            self.state.pool.run(deadline, move |_| function(&question)).await?
        };
        Ok(Response::new(answer.map_err(CallError::from)?))
    }

    /// A question to the ledger, which may wait for the disk. A change that has begun is made even if nobody waits for the
    /// answer any more.
    async fn keep<Question, Answer>(
        &self,
        request: Request<Question>,
        method: fn(&Grants, &Question, i64) -> Result<Answer, GrantError>,
    ) -> Result<Response<Answer>, Status>
    where
        Question: Send + 'static,
        Answer: Send + 'static,
    {
        let (deadline, grants) = (Deadline::of(&request), self.state.grants.clone());
        let question = request.into_inner();
        let answer = self
            .state
            .ledger_pool
            .run(deadline, move |_| method(&grants, &question, clock::unix_seconds()))
            .await?;
        Ok(Response::new(answer.map_err(CallError::from)?))
    }
}

/// The identity event that releases a name whose process may be running.
const FORCE_DELETED: &str = "ForceDeletedByUser";
/// The fence event that breaks an attachment which is not in the ledger.
const BREAK_ATTACHMENT: &str = "BreakAttachment";

/// What releases or breaks something by force is an administrator's to say.
fn check_force<T>(request: &Request<T>, is_force: bool) -> Result<(), CallError> {
    match is_force {
        true => Access::of(request.extensions()).caller().check(Role::Admin),
        false => Ok(()),
    }
}

/// Hands the list of the ledger's methods to `handlers`, behind that of the functions.
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
        ledger { $($method:ident($asked:ident) -> $answered:ident;)+ }
    ) => {
        #[tonic::async_trait]
        impl LifecycleService for LifecycleHandler {
            type EvaluatePodsStream = ReceiverStream<Result<wire::EvaluatePodsResponse, Status>>;

            async fn evaluate_pods(
                &self,
                request: Request<Streaming<wire::EvaluatePodsRequest>>,
            ) -> Result<Response<Self::EvaluatePodsStream>, Status> {
                let deadline = Deadline::of(&request);
                let answers = evaluate::serve(self.state.clone(), request.into_inner(), deadline);
                Ok(Response::new(answers))
            }

            async fn record_identity_event(
                &self,
                request: Request<wire::RecordIdentityEventRequest>,
            ) -> Result<Response<wire::RecordIdentityEventResponse>, Status> {
                check_force(&request, request.get_ref().r#type == FORCE_DELETED)?;
                self.keep(request, Grants::record_identity_event).await
            }

            async fn advance_fence(
                &self,
                request: Request<wire::AdvanceFenceRequest>,
            ) -> Result<Response<wire::AdvanceFenceResponse>, Status> {
                check_force(&request, request.get_ref().r#type == BREAK_ATTACHMENT)?;
                self.keep(request, Grants::advance_fence).await
            }

            $(async fn $function(
                &self,
                request: Request<wire::$request>,
            ) -> Result<Response<wire::$response>, Status> {
                self.decide(request, lifecycle::$module::$function).await
            })+

            $(async fn $method(
                &self,
                request: Request<wire::$asked>,
            ) -> Result<Response<wire::$answered>, Status> {
                self.keep(request, Grants::$method).await
            })+
        }
    };
}

each_function!(with_ledger);
