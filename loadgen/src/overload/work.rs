//! What a call of the overload asks, encoded.

use std::sync::atomic::{AtomicU64, Ordering};

use berth_client::{Client, ClientError, Mode, PlaceOptions};
use berth_proto::berth_v1::{ExplainRequest, ListNodesRequest, PlaceMode, PodKey};
use berth_proto::core_v1::Pod;
use berth_synthetic::workload::{self, WorkloadSpec, renamed};
use prost::Message as _;
use prost::bytes::Bytes;
use tonic::codegen::http::uri::PathAndQuery;

use super::account::NAMESPACE;
use super::{OverloadError, OverloadSpec};
use crate::load::LoadSpec;
use crate::load::request::Requests;

/// What a call asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum WorkKind {
    /// `Place`: one pod. Deciding costs little more than refusing.
    Place,
    /// `PlaceBatch`: replicas of one pod. Deciding costs by their number, refusing does not.
    Batch,
    /// `Explain`: one pod on every node, the verdict of one of them answered.
    Explain,
}

/// Different pods that are asked about; they come around again under other names.
const N_PODS: usize = 256;

/// The calls of a run.
#[derive(Debug)]
pub struct Work {
    kind: WorkKind,
    dry: Requests,
    assuming: Requests,
    explaining: Vec<Bytes>,
    n_made: AtomicU64,
}

/// One call, ready to be sent, again if need be.
#[derive(Debug, Clone)]
pub struct Call {
    /// The method.
    pub path: PathAndQuery,
    /// Its message.
    pub message: Bytes,
    /// For a call whose pods are to take their room, by what [`Work::keys`] knows it.
    pub assumes: Option<u64>,
}

impl Work {
    /// Makes the pods; asks the server for the name of a node where a call needs one.
    pub async fn new(client: &Client, spec: &OverloadSpec) -> Result<Self, OverloadError> {
        let of = WorkloadSpec { n_pods: N_PODS, mix: spec.mix.clone(), seed: spec.seed };
        let pods = workload::generate(&of);
        let assumed: Vec<Pod> = pods.iter().enumerate().map(assumed_pod).collect();
        let explaining = match spec.kind {
            WorkKind::Place | WorkKind::Batch => Vec::new(),
            WorkKind::Explain => explaining(&pods, first_node(client).await?),
        };
        Ok(Self {
            kind: spec.kind,
            dry: Requests::new(&pods, &load_spec(spec, PlaceMode::DryRun)),
            assuming: Requests::new(&assumed, &load_spec(spec, PlaceMode::Assume)),
            explaining,
            n_made: AtomicU64::new(0),
        })
    }

    /// The next call, as a dry run or not.
    pub fn next(&self, assume: bool) -> Call {
        if assume {
            let request = self.assuming.next();
            let (path, message) = (self.assuming_path(), request.message.into());
            return Call { path, message, assumes: Some(request.sequence) };
        }
        let message = match self.kind {
            WorkKind::Place | WorkKind::Batch => self.dry.next().message.into(),
            WorkKind::Explain => {
                let number = self.n_made.fetch_add(1, Ordering::Relaxed);
                // The remainder is below the length.
                self.explaining[(number % self.explaining.len() as u64) as usize].clone()
            }
        };
        Call { path: PathAndQuery::from_static(self.path()), message, assumes: None }
    }

    /// The method that all calls go to that assume nothing.
    pub fn path(&self) -> &'static str {
        match self.kind {
            WorkKind::Place => "/berth.v1.PlacementService/Place",
            WorkKind::Batch => "/berth.v1.PlacementService/PlaceBatch",
            WorkKind::Explain => "/berth.v1.PlacementService/Explain",
        }
    }

    /// The method of calls that assume: an explanation assumes nothing, and a batch of one competes for the same threads.
    fn assuming_path(&self) -> PathAndQuery {
        PathAndQuery::from_static(match self.kind {
            WorkKind::Place => "/berth.v1.PlacementService/Place",
            WorkKind::Batch | WorkKind::Explain => "/berth.v1.PlacementService/PlaceBatch",
        })
    }

    /// Whether calls that assume are answered as `Place` answers.
    pub fn assumes_one_by_one(&self) -> bool {
        self.kind == WorkKind::Place
    }

    /// The pods of a call that assumes.
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

/// A pod of its own name, where no other pods are.
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
