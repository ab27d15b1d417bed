//! The encoded calls of an overload.

use std::sync::atomic::{AtomicU64, Ordering};

use berth_client::{Client, ClientError, Mode, PlaceOptions};
use berth_proto::berth_v1::{ExplainRequest, ListNodesRequest, PlaceMode, PodKey};
use berth_proto::core_v1::Pod;
use berth_synthetic::workload::{self, WorkloadSpec, renamed};
use prost::Message as _;
use prost::bytes::Bytes;
use tonic::codegen::http::uri::PathAndQuery;

use super::assumed::NAMESPACE;
use super::{OverloadError, OverloadSpec};
use crate::load::LoadSpec;
use crate::load::request::Requests;

/// The RPC of the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum WorkKind {
    /// `Place` of one pod. A decision costs little more than a refusal.
    Place,
    /// `PlaceBatch` of replicas of one pod. The cost of a decision grows with their number, the cost of a refusal does
    /// not.
    Batch,
    /// `Explain` of one pod: every node is evaluated, and the verdict of one node is returned.
    Explain,
}

/// Number of different pods; later calls repeat them under other names.
const N_PODS: usize = 256;

/// The calls of a run.
#[derive(Debug)]
pub struct Work {
    kind: WorkKind,
    dry_run: Requests,
    assuming: Requests,
    explaining: Vec<Bytes>,
    n_made: AtomicU64,
}

/// One encoded call, which can be sent again on a retry.
#[derive(Debug, Clone)]
pub struct Call {
    /// Path of the method.
    pub path: PathAndQuery,
    /// The encoded request.
    pub message: Bytes,
    /// For a call that assumes its pods, its number for [`Work::keys`].
    pub assumes: Option<u64>,
}

impl Work {
    /// Generates the pods, and requests the name of a node from the server if the calls need one.
    pub async fn new(client: &Client, spec: &OverloadSpec) -> Result<Self, OverloadError> {
        let workload = WorkloadSpec { n_pods: N_PODS, mix: spec.mix.clone(), seed: spec.seed };
        let pods = workload::generate(&workload);
        let assumed: Vec<Pod> = pods.iter().enumerate().map(assumed_pod).collect();
        let explaining = match spec.kind {
            WorkKind::Place | WorkKind::Batch => Vec::new(),
            WorkKind::Explain => explaining(&pods, first_node(client).await?),
        };
        Ok(Self {
            kind: spec.kind,
            dry_run: Requests::new(&pods, &load_spec(spec, PlaceMode::DryRun)),
            assuming: Requests::new(&assumed, &load_spec(spec, PlaceMode::Assume)),
            explaining,
            n_made: AtomicU64::new(0),
        })
    }

    /// The next call: one that assumes its pods, or a dry run.
    pub fn next(&self, assume: bool) -> Call {
        if assume {
            let request = self.assuming.next();
            let (path, message) = (self.assuming_path(), request.message.into());
            return Call { path, message, assumes: Some(request.sequence) };
        }
        let message = match self.kind {
            WorkKind::Place | WorkKind::Batch => self.dry_run.next().message.into(),
            WorkKind::Explain => {
                let number = self.n_made.fetch_add(1, Ordering::Relaxed);
                // The remainder is below the length.
                self.explaining[(number % self.explaining.len() as u64) as usize].clone()
            }
        };
        Call { path: PathAndQuery::from_static(self.path()), message, assumes: None }
    }

    /// Path of the method of all calls that assume no pods.
    pub fn path(&self) -> &'static str {
        match self.kind {
            WorkKind::Place => "/berth.v1.PlacementService/Place",
            WorkKind::Batch => "/berth.v1.PlacementService/PlaceBatch",
            WorkKind::Explain => "/berth.v1.PlacementService/Explain",
        }
    }

    /// Path of the method of calls that assume pods. `Explain` cannot assume, so `PlaceBatch` of one pod replaces it:
    /// both need the same worker threads.
    fn assuming_path(&self) -> PathAndQuery {
        PathAndQuery::from_static(match self.kind {
            WorkKind::Place => "/berth.v1.PlacementService/Place",
            WorkKind::Batch | WorkKind::Explain => "/berth.v1.PlacementService/PlaceBatch",
        })
    }

    /// Whether calls that assume pods receive a `PlaceResponse`.
    pub fn assumes_one_by_one(&self) -> bool {
        self.kind == WorkKind::Place
    }

    /// The keys of the pods of an assuming call.
    pub fn keys(&self, sequence: u64) -> Vec<PodKey> {
        self.assuming.keys(sequence)
    }
}

fn load_spec(spec: &OverloadSpec, mode: PlaceMode) -> LoadSpec {
    let n_pods = spec.pods_per_call;
    LoadSpec {
        mode: if spec.kind == WorkKind::Place { Mode::Unary } else { Mode::Batch },
        options: PlaceOptions { mode, ..PlaceOptions::default() },
        batch_size: n_pods as usize,
        replicas: n_pods,
        ..LoadSpec::default()
    }
}

/// The pod under a name of its own in [`NAMESPACE`].
fn assumed_pod((number, pod): (usize, &Pod)) -> Pod {
    let mut pod = renamed(pod, &format!("assumed-{number}"));
    NAMESPACE.clone_into(&mut pod.metadata.get_or_insert_default().namespace);
    pod
}

fn explaining(pods: &[Pod], node: String) -> Vec<Bytes> {
    let node_names = vec![node];
    pods.iter()
        .map(|pod| {
            let (pod, node_names) = (Some(pod.clone()), node_names.clone());
            ExplainRequest { pod, node_names, ..ExplainRequest::default() }.encode_to_vec().into()
        })
        .collect()
}

async fn first_node(client: &Client) -> Result<String, ClientError> {
    const METHOD: &str = "ClusterService.ListNodes";
    let request = ListNodesRequest { page_size: 1, ..ListNodesRequest::default() };
    let answer = client.cluster().list_nodes(request).await.map_err(ClientError::rpc(METHOD))?;
    let first = answer.into_inner().nodes.into_iter().next();
    first.map(|node| node.name).ok_or_else(|| ClientError::Contract {
        method: METHOD,
        reason: "the cluster has no node; give it one with `--feed synthetic`".to_owned(),
    })
}
