//! A running server, called on its live cluster or in a session.

use berth_engine::PodKey;
use berth_engine::workload::DaemonNode;
use berth_proto::berth_v1::{
    self as wire, BatchEntry, ExplainRequest, ExplainResponse, GetClusterRequest, GetPodRequest,
    ListCandidatesRequest, ListCandidatesResponse, ListNodesRequest, PlaceBatchRequest,
    PlaceBatchResponse, PreemptOptions, PreemptRequest, PreemptResponse,
    SessionServiceApplyRequest, SessionServiceCloseRequest, SessionServiceOpenRequest,
};
use berth_proto::core_v1;

use super::counts::Counts;
use crate::cli::CliError;
use crate::cli::asked::Asked;
use crate::cli::what_if::Change;
use crate::feed::file::UnknownFields;

/// Number of changes in one call: few round trips, and far below every limit on messages.
const CHANGES_PER_APPLY: usize = 500;

/// Number of nodes in one response.
const NODES_PER_PAGE: u32 = 5_000;
/// Number of pods with their objects in one response.
const OBJECTS_PER_PAGE: u32 = 500;

/// One connection to a server.
pub(in crate::cli) struct Remote {
    asked: Asked,
    /// Tie-breaking rule, if one was given.
    tie_break: Option<wire::TieBreak>,
    /// Id of the session; empty for the live cluster.
    session_id: String,
    /// Whether the session belongs to this command, which closes it.
    is_own_session: bool,
    pub(super) what_if: Option<String>,
    pub(super) unknown_fields: UnknownFields,
}

impl Remote {
    pub(super) fn new(
        asked: Asked,
        tie_break: Option<wire::TieBreak>,
        unknown_fields: UnknownFields,
    ) -> Remote {
        Remote {
            asked,
            tie_break,
            session_id: String::new(),
            is_own_session: false,
            what_if: None,
            unknown_fields,
        }
    }

    /// The same server, in a session that somebody else opened.
    pub(super) fn within(self, session_id: Option<&str>) -> Remote {
        Remote { session_id: session_id.unwrap_or_default().to_owned(), ..self }
    }

    pub(super) async fn place(
        &self,
        entries: Vec<BatchEntry>,
        assume: bool,
        gang: Option<wire::Gang>,
    ) -> Result<PlaceBatchResponse, CliError> {
        let mode = if assume { wire::PlaceMode::Assume } else { wire::PlaceMode::DryRun };
        let (tie_break, session_id) = (self.tie_break, self.session_id.clone());
        let mode = mode.into();
        let request = PlaceBatchRequest {
            entries,
            mode,
            tie_break,
            session_id,
            gang,
            admit: true,
            ..PlaceBatchRequest::default()
        };
        self.answer(self.asked.client.placement(0).place_batch(request).await)
    }

    pub(super) async fn explain(
        &self,
        pod: core_v1::Pod,
        node_names: Vec<String>,
    ) -> Result<ExplainResponse, CliError> {
        let (tie_break, session_id) = (self.tie_break, self.session_id.clone());
        let request = ExplainRequest {
            pod: Some(pod),
            tie_break,
            node_names,
            session_id,
            admit: true,
            key: None,
        };
        self.answer(self.asked.client.placement(0).explain(request).await)
    }

    pub(super) async fn preempt(
        &self,
        pod: core_v1::Pod,
        options: PreemptOptions,
    ) -> Result<PreemptResponse, CliError> {
        let request = PreemptRequest {
            pod: Some(pod),
            tie_break: self.tie_break,
            options: Some(options),
            nominate: false,
            session_id: self.session_id.clone(),
            admit: true,
            key: None,
        };
        self.answer(self.asked.client.preemption().preempt(request).await)
    }

    pub(super) async fn list_candidates(
        &self,
        pod: core_v1::Pod,
        options: PreemptOptions,
    ) -> Result<ListCandidatesResponse, CliError> {
        let request = ListCandidatesRequest {
            pod: Some(pod),
            tie_break: self.tie_break,
            options: Some(options),
            session_id: self.session_id.clone(),
            admit: true,
            key: None,
        };
        self.answer(self.asked.client.preemption().list_candidates(request).await)
    }

    pub(super) async fn simulate_drain(
        &self,
        request: wire::SimulateDrainRequest,
    ) -> Result<wire::SimulateDrainResponse, CliError> {
        let (tie_break, session_id) = (self.tie_break, self.session_id.clone());
        let request = wire::SimulateDrainRequest { tie_break, session_id, ..request };
        self.answer(self.asked.client.autoscaler().simulate_drain(request).await)
    }

    pub(super) async fn simulate_scale_up(
        &self,
        request: wire::SimulateScaleUpRequest,
    ) -> Result<wire::SimulateScaleUpResponse, CliError> {
        let session_id = self.session_id.clone();
        let request = wire::SimulateScaleUpRequest { session_id, ..request };
        self.answer(self.asked.client.autoscaler().simulate_scale_up(request).await)
    }

    pub(super) async fn fit(
        &self,
        request: wire::FitRequest,
    ) -> Result<wire::FitResponse, CliError> {
        let session_id = self.session_id.clone();
        let request = wire::FitRequest { session_id, ..request };
        self.answer(self.asked.client.autoscaler().fit(request).await)
    }

    pub(super) async fn consolidate(
        &self,
        request: wire::ConsolidateRequest,
    ) -> Result<wire::ConsolidateResponse, CliError> {
        let (tie_break, session_id) = (self.tie_break, self.session_id.clone());
        let request = wire::ConsolidateRequest { tie_break, session_id, ..request };
        self.answer(self.asked.client.autoscaler().consolidate(request).await)
    }

    pub(super) async fn choose_scale_in(
        &self,
        request: wire::ChooseScaleInRequest,
    ) -> Result<wire::ChooseScaleInResponse, CliError> {
        let session_id = self.session_id.clone();
        let request = wire::ChooseScaleInRequest { session_id, ..request };
        self.answer(self.asked.client.autoscaler().choose_scale_in(request).await)
    }

    pub(super) async fn headroom(
        &self,
        request: wire::HeadroomRequest,
    ) -> Result<wire::HeadroomResponse, CliError> {
        let (tie_break, session_id) = (self.tie_break, self.session_id.clone());
        let request = wire::HeadroomRequest { tie_break, session_id, ..request };
        self.answer(self.asked.client.autoscaler().headroom(request).await)
    }

    pub(super) async fn pod(&self, key: &PodKey) -> Result<Option<wire::GetPodResponse>, CliError> {
        let key = wire::PodKey {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            uid: String::new(),
        };
        let request = GetPodRequest { key: Some(key), session_id: self.session_id.clone() };
        match self.asked.client.cluster().get_pod(request).await {
            Err(status) if status.code() == tonic::Code::NotFound => Ok(None),
            answer => self.answer(answer).map(Some),
        }
    }

    pub(super) async fn list_pods(
        &self,
        mut request: wire::ListPodsRequest,
    ) -> Result<Vec<wire::PodSummary>, CliError> {
        request.session_id.clone_from(&self.session_id);
        request.page_size = if request.with_objects { OBJECTS_PER_PAGE } else { NODES_PER_PAGE };
        let mut pods = Vec::new();
        loop {
            let page = self.answer(self.asked.client.cluster().list_pods(request.clone()).await)?;
            pods.extend(page.pods);
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                return Ok(pods);
            }
        }
    }

    pub(super) async fn list_nodes(
        &self,
        label_selector: String,
    ) -> Result<Vec<wire::NodeSummary>, CliError> {
        let session_id = self.session_id.clone();
        let page_size = NODES_PER_PAGE;
        let mut request =
            ListNodesRequest { page_size, label_selector, session_id, ..Default::default() };
        let mut nodes = Vec::new();
        loop {
            let page =
                self.answer(self.asked.client.cluster().list_nodes(request.clone()).await)?;
            nodes.extend(page.nodes);
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                return Ok(nodes);
            }
        }
    }

    pub(super) async fn list_pending(
        &self,
        mut request: wire::ListPendingRequest,
    ) -> Result<wire::ListPendingResponse, CliError> {
        request.session_id.clone_from(&self.session_id);
        self.answer(self.asked.client.cluster().list_pending(request).await)
    }

    pub(super) async fn cluster(&self) -> Result<wire::GetClusterResponse, CliError> {
        let request = GetClusterRequest { session_id: self.session_id.clone() };
        self.answer(self.asked.client.cluster().get_cluster(request).await)
    }

    pub(super) fn has_session(&self) -> bool {
        !self.session_id.is_empty()
    }

    pub(super) async fn open_session(&mut self, what_if: Option<String>) -> Result<(), CliError> {
        let opened = self.asked.client.session().open(SessionServiceOpenRequest {}).await;
        self.session_id = self.answer(opened)?.session_id;
        self.is_own_session = true;
        self.what_if = what_if;
        Ok(())
    }

    /// The nodes, as the controller of DaemonSets reads them, by name.
    pub(super) async fn daemon_nodes(&self) -> Result<Vec<DaemonNode>, CliError> {
        let nodes = self.list_nodes(String::new()).await?.into_iter().map(|node| {
            DaemonNode::listed(&node.name, node.labels, node.taints.iter().map(String::as_str))
        });
        Ok(nodes.collect())
    }

    /// Applies changes to the session; returns the index and reason of refused ones. With `keep_existing`, objects that
    /// the session has stay as they are.
    pub(super) async fn apply(
        &self,
        changes: Vec<Change>,
        keep_existing: bool,
    ) -> Result<Vec<(usize, String)>, CliError> {
        let mut deltas: Vec<wire::Delta> = changes.into_iter().map(Change::into_wire).collect();
        let mut refused = Vec::new();
        let mut n_applied = 0;
        while !deltas.is_empty() {
            let rest = deltas.split_off(deltas.len().min(CHANGES_PER_APPLY));
            let chunk = std::mem::replace(&mut deltas, rest);
            let n_deltas = chunk.len();
            let session_id = self.session_id.clone();
            let request = SessionServiceApplyRequest {
                session_id,
                deltas: chunk,
                keep_existing,
                admit: true,
            };
            let answer = self.answer(self.asked.client.session().apply(request).await)?;
            refused.extend(answer.rejections.into_iter().map(|rejection| {
                let wire::Rejection { index, field, reason, object } = rejection;
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                (index.saturating_add(n_applied), format!("{object}: `{field}`: {reason}"))
            }));
            n_applied += n_deltas;
        }
        Ok(refused)
    }

    pub(super) async fn counts(&self) -> Result<Counts, CliError> {
        let cluster = self.cluster().await?;
        let n_orphaned_pods = u64::from(cluster.n_orphaned_pods);
        let n_known = u64::from(cluster.n_pods) + u64::from(cluster.n_pending_pods);
        Ok(Counts {
            n_nodes: cluster.n_nodes.into(),
            n_all_pods: n_known + n_orphaned_pods,
            n_orphaned_pods,
        })
    }

    pub(super) async fn close(self) {
        if self.is_own_session {
            let request = SessionServiceCloseRequest { session_id: self.session_id };
            drop(self.asked.client.session().close(request).await);
        }
    }

    fn answer<T>(&self, answer: Result<tonic::Response<T>, tonic::Status>) -> Result<T, CliError> {
        self.asked.answer(answer)
    }
}
