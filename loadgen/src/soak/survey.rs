//! A survey: the server's whole cluster as its listings show it.

use std::collections::BTreeMap;

use berth_proto::berth_v1::{
    GetClusterRequest, GetClusterResponse, ListNodesRequest, ListPodsRequest, NodeSummary,
    PodSummary,
};
use tonic::Status;

use super::model::Key;
use super::world::World;

const PAGE_SIZE: u32 = 2_000;
/// Limit of the pages of one listing, in case it never ends.
const MAX_PAGES: usize = 10_000;

/// The counts, nodes and pods that the API lists.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) cluster: GetClusterResponse,
    pub(super) nodes: BTreeMap<String, NodeSummary>,
    pub(super) pods: BTreeMap<Key, PodSummary>,
    /// Whether all pages show the same generation.
    pub(super) is_consistent: bool,
}

/// Lists all nodes and pods.
pub(super) async fn survey(world: &World) -> Result<Survey, Status> {
    let mut client = world.client.cluster();
    let cluster =
        world.call("GetCluster", client.get_cluster(GetClusterRequest::default())).await?;
    let mut survey =
        Survey { nodes: BTreeMap::new(), pods: BTreeMap::new(), is_consistent: true, cluster };
    let mut page_token = String::new();
    for _ in 0..MAX_PAGES {
        let request = ListNodesRequest { page_size: PAGE_SIZE, page_token, ..Default::default() };
        let page = world.call("ListNodes", client.list_nodes(request)).await?;
        survey.is_consistent &= page.generation == survey.cluster.generation;
        for node in page.nodes {
            if let Some(twice) = survey.nodes.insert(node.name.clone(), node) {
                world.differs(format!("node `{}` is listed twice", twice.name));
            }
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    let mut page_token = String::new();
    for _ in 0..MAX_PAGES {
        let request = ListPodsRequest { page_size: PAGE_SIZE, page_token, ..Default::default() };
        let page = world.call("ListPods", client.list_pods(request)).await?;
        survey.is_consistent &= page.generation == survey.cluster.generation;
        for pod in page.pods {
            let key = pod.key.clone().unwrap_or_default();
            let key = (key.namespace, key.name);
            if survey.pods.insert(key.clone(), pod).is_some() {
                world.differs(format!("pod `{}/{}` is listed twice", key.0, key.1));
            }
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    Ok(survey)
}
