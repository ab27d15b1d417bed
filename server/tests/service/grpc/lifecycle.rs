//! `LifecycleService`: the stateful methods end to end, and the errors of the stateless methods for bad requests.

mod claims;
mod fences;
mod handover;
mod refusal;

use berth_proto::berth_v1::lifecycle_service_client::LifecycleServiceClient;
use berth_proto::berth_v1::{
    AcquireIdentityRequest, AcquireIdentityResponse, AdvanceFenceRequest, AdvanceFenceResponse,
    AttachVolumeRequest, AttachVolumeResponse, BreakAttachmentRequest, BreakAttachmentResponse,
    CheckTokenRequest, CheckTokenResponse, DetachVolumeRequest, DetachVolumeResponse, LedgerRecord,
    ListLedgerRecordsRequest, MayStartRequest, MayStartResponse, RecordIdentityEventRequest,
    RecordIdentityEventResponse,
};
use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::grpc::world::World;

/// A client of the ledger with an actor name.
struct Caller {
    client: LifecycleServiceClient<Channel>,
    actor: &'static str,
}

impl Caller {
    fn of<S>(world: &World<S>, actor: &'static str) -> Caller {
        Caller { client: LifecycleServiceClient::new(world.channel.clone()), actor }
    }

    async fn acquire(&mut self, name: &str, uid: &str, node: &str) -> AcquireIdentityResponse {
        let request = AcquireIdentityRequest {
            namespace: "default".into(),
            name: name.into(),
            uid: uid.into(),
            node_name: node.into(),
            actor: self.actor.into(),
        };
        self.client.acquire_identity(request).await.unwrap().into_inner()
    }

    async fn event(
        &mut self,
        name: &str,
        uid: &str,
        r#type: &str,
        token: u64,
    ) -> RecordIdentityEventResponse {
        let request = RecordIdentityEventRequest {
            namespace: "default".into(),
            name: name.into(),
            uid: uid.into(),
            r#type: r#type.into(),
            acknowledged: false,
            token,
            actor: self.actor.into(),
        };
        self.client.record_identity_event(request).await.unwrap().into_inner()
    }

    fn attach_request(&self, node: &str, pod: &str, version: Option<u64>) -> AttachVolumeRequest {
        AttachVolumeRequest {
            volume: "pv-1".into(),
            access_modes: vec!["ReadWriteOnce".into()],
            node: node.into(),
            pod_uid: pod.into(),
            expected_version: version,
            actor: self.actor.into(),
        }
    }

    async fn attach(&mut self, node: &str, pod: &str, version: u64) -> AttachVolumeResponse {
        let request = self.attach_request(node, pod, Some(version));
        self.client.attach_volume(request).await.unwrap().into_inner()
    }

    fn detach_request(&self, node: &str, pod: &str, token: u64) -> DetachVolumeRequest {
        DetachVolumeRequest {
            volume: "pv-1".into(),
            node: node.into(),
            pod_uid: pod.into(),
            expected_version: None,
            pod_gone: true,
            mounted: Some(false),
            token,
            actor: self.actor.into(),
        }
    }

    async fn detach(&mut self, request: DetachVolumeRequest) -> DetachVolumeResponse {
        self.client.detach_volume(request).await.unwrap().into_inner()
    }

    fn break_request(&self, node: &str) -> BreakAttachmentRequest {
        BreakAttachmentRequest {
            volume: "pv-1".into(),
            node: node.into(),
            actor: self.actor.into(),
            ..BreakAttachmentRequest::default()
        }
    }

    async fn break_attachment(
        &mut self,
        request: BreakAttachmentRequest,
    ) -> BreakAttachmentResponse {
        self.client.break_attachment(request).await.unwrap().into_inner()
    }

    async fn may_start(&mut self, node: &str, pod: &str) -> MayStartResponse {
        let request =
            MayStartRequest { volume: "pv-1".into(), node: node.into(), pod_uid: pod.into() };
        self.client.may_start(request).await.unwrap().into_inner()
    }

    fn fence_request(&self, node: &str, r#type: &str) -> AdvanceFenceRequest {
        AdvanceFenceRequest {
            node_name: node.into(),
            r#type: r#type.into(),
            actor: self.actor.into(),
            ..AdvanceFenceRequest::default()
        }
    }

    async fn fence(&mut self, request: AdvanceFenceRequest) -> AdvanceFenceResponse {
        self.client.advance_fence(request).await.unwrap().into_inner()
    }

    /// Decides to fence a node; returns the token that the confirmation needs.
    async fn decide(&mut self, node: &str, scope: &str) -> u64 {
        let request =
            AdvanceFenceRequest { scope: scope.into(), ..self.fence_request(node, "Decide") };
        let answer = self.fence(request).await;
        assert_eq!(answer.outcome, "Ok");
        answer.record.unwrap().token
    }

    async fn confirm(&mut self, node: &str, token: u64) -> AdvanceFenceResponse {
        let request = AdvanceFenceRequest { token, ..self.fence_request(node, "FenceConfirmed") };
        self.fence(request).await
    }

    async fn check(&mut self, kind: &str, name: &str, token: u64) -> CheckTokenResponse {
        let namespace = if kind == "identity" { "default".into() } else { String::new() };
        let request = CheckTokenRequest { kind: kind.into(), namespace, name: name.into(), token };
        self.client.check_token(request).await.unwrap().into_inner()
    }

    async fn journal(&mut self) -> Vec<LedgerRecord> {
        let request = ListLedgerRecordsRequest::default();
        self.client.list_ledger_records(request).await.unwrap().into_inner().records
    }
}

/// Actor, subject, outcome and entitlement of each journal line.
fn account(lines: &[LedgerRecord]) -> Vec<(&str, &str, &str, &str)> {
    let columns = lines.iter().map(|line| {
        let LedgerRecord { claimed_actor, subject, outcome, entitlement, .. } = line;
        (claimed_actor.as_str(), subject.as_str(), outcome.as_str(), entitlement.as_str())
    });
    columns.collect()
}

fn status<T>(answer: Result<Response<T>, Status>) -> Status {
    answer.map(|_| ()).unwrap_err()
}
