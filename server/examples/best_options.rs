//! Asks an expander as cluster-autoscaler would: two node groups for three pods of 1 CPU and 1 Gi.
//!
//! ```console
//! $ cargo run -p berth-server --example best_options -- http://127.0.0.1:7420
//! $ cargo run -p berth-server --example best_options -- https://localhost:7420 ca.crt
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;
use std::time::Duration;

use berth_proto::Quantity;
use berth_proto::core_v1::{Container, Node, NodeStatus, Pod, PodSpec, ResourceRequirements};
use berth_proto::grpcplugin::expander_client::ExpanderClient;
use berth_proto::grpcplugin::{BestOptionsRequest, Option as Offer};
use berth_proto::meta_v1::ObjectMeta;
use prost::Message as _;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "http://127.0.0.1:7420".to_owned());
    let mut endpoint = Endpoint::from_shared(url)?;
    if let Some(ca_file) = arguments.next() {
        let authority = Certificate::from_pem(std::fs::read(ca_file)?);
        endpoint = endpoint.tls_config(ClientTlsConfig::new().ca_certificate(authority))?;
    }
    let mut client = ExpanderClient::new(endpoint.connect().await?);
    let mut request = tonic::Request::new(question());
    // As long as cluster-autoscaler waits.
    request.set_timeout(Duration::from_secs(5));
    let answer = client.best_options(request).await?.into_inner();
    let mut out = std::io::stdout();
    for option in answer.options {
        writeln!(out, "{}: {}", option.node_group_id, option.debug)?;
    }
    Ok(())
}

/// What releases from 1.35 on send: templates and pods as serialised objects.
fn question() -> BestOptionsRequest {
    let pods: Vec<Vec<u8>> = (0..3).map(|i| pod(&format!("web-{i}")).encode_to_vec()).collect();
    let groups = [("one-large-node", 1, "16"), ("two-small-nodes", 2, "2")];
    BestOptionsRequest {
        options: groups
            .iter()
            .map(|(id, node_count, _)| Offer {
                node_group_id: (*id).to_owned(),
                node_count: *node_count,
                pod_bytes: pods.clone(),
                ..Offer::default()
            })
            .collect(),
        node_bytes_map: groups
            .iter()
            .map(|(id, _, cpu)| ((*id).to_owned(), template(cpu).encode_to_vec()))
            .collect(),
        ..BestOptionsRequest::default()
    }
}

fn pod(name: &str) -> Pod {
    let requests = resources([("cpu", "1"), ("memory", "1Gi")]);
    let resources = Some(ResourceRequirements { requests, ..ResourceRequirements::default() });
    let container = Container { name: "c".to_owned(), resources, ..Container::default() };
    Pod {
        metadata: Some(ObjectMeta {
            name: name.to_owned(),
            namespace: "default".to_owned(),
            uid: format!("uid-{name}"),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
        ..Pod::default()
    }
}

fn template(cpu: &str) -> Node {
    let capacity = resources([("cpu", cpu), ("memory", "8Gi"), ("pods", "110")]);
    let metadata = ObjectMeta { name: "template".to_owned(), ..ObjectMeta::default() };
    Node {
        metadata: Some(metadata),
        status: Some(NodeStatus {
            allocatable: capacity.clone(),
            capacity,
            ..NodeStatus::default()
        }),
        ..Node::default()
    }
}

fn resources<const N: usize>(amounts: [(&str, &str); N]) -> BTreeMap<String, Quantity> {
    amounts.map(|(name, amount)| (name.to_owned(), Quantity::new(amount))).into()
}
