//! A server with an `expander:` section, a client with or without TLS, and requests in a line each.

use std::path::{Path, PathBuf};

use berth_proto::core_v1::{Node, Pod};
use berth_proto::grpcplugin::expander_client::ExpanderClient;
use berth_proto::grpcplugin::{BestOptionsRequest, Option as Offer};
use berth_server::config::{Config, Overrides};
use berth_server::net::TlsFiles;
use berth_server::runtime::{Server, ServerOptions};
use prost::Message as _;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;
use tempfile::TempDir;
use tonic::Status;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

/// An authority of its own and a certificate for `localhost` by it, made for one test.
pub(crate) struct Identity {
    directory: TempDir,
}

impl Identity {
    pub(crate) fn new() -> Identity {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate().unwrap();
        let authority_cert = authority.self_signed(&authority_key).unwrap();
        let issuer = Issuer::new(authority, authority_key);
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let write = |name, text| std::fs::write(directory.path().join(name), text).unwrap();
        write("ca.crt", authority_cert.pem());
        write("tls.crt", cert.pem());
        write("tls.key", key.serialize_pem());
        Identity { directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn files(&self) -> TlsFiles {
        TlsFiles {
            cert_file: self.path("tls.crt"),
            key_file: self.path("tls.key"),
            client_ca_file: None,
        }
    }
}

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) client: ExpanderClient<Channel>,
}

impl World {
    /// Starts a server with this `expander:` section (empty for the default) and connects without TLS.
    pub(crate) async fn start(expander: &str) -> World {
        World::with(options(expander), None).await
    }

    /// Starts a server with this `expander:` section, and connects with TLS.
    pub(crate) async fn with_tls(expander: &str, identity: &Identity) -> World {
        let options = ServerOptions { tls: Some(identity.files()), ..options(expander) };
        World::with(options, Some(identity)).await
    }

    pub(crate) async fn with(options: ServerOptions, identity: Option<&Identity>) -> World {
        let server = Server::start(options).await.unwrap();
        let channel = channel(server.grpc_address().port(), identity).await.unwrap();
        World { server, client: ExpanderClient::new(channel) }
    }

    /// The node group ids of the answer, in order.
    pub(crate) async fn best(
        &mut self,
        request: BestOptionsRequest,
    ) -> Result<Vec<String>, Status> {
        let answer = self.client.best_options(request).await?.into_inner();
        Ok(answer.options.into_iter().map(|option| option.node_group_id).collect())
    }

    pub(crate) async fn check(&mut self, request: BestOptionsRequest, expected: &[&str]) {
        assert_eq!(self.best(request).await.unwrap(), expected);
    }
}

pub(crate) async fn channel(
    port: u16,
    identity: Option<&Identity>,
) -> Result<Channel, tonic::transport::Error> {
    let scheme = if identity.is_some() { "https" } else { "http" };
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://localhost:{port}"))?;
    if let Some(identity) = identity {
        let authority = std::fs::read(identity.path("ca.crt")).unwrap();
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority));
        endpoint = endpoint.tls_config(tls)?;
    }
    endpoint.connect().await
}

/// Options of a server whose configuration file has this `expander:` section.
pub(crate) fn options(expander: &str) -> ServerOptions {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("berth.yaml");
    let section = if expander.is_empty() {
        String::new()
    } else {
        format!("expander:\n{}\n", expander.trim_matches('\n'))
    };
    let text = format!("apiVersion: berth.dev/v1\nkind: BerthConfiguration\n{section}");
    std::fs::write(&path, text).unwrap();
    let config = resolve(&path);
    ServerOptions { expander: config.expander, ..ServerOptions::default() }
}

pub(crate) fn resolve(path: &Path) -> Config {
    Config::resolve(Some(path), &Overrides::default()).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn pod(name: &str, cpu: &str, memory: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"containers": [
            {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]},
    }))
    .unwrap()
}

pub(crate) fn node(cpu: &str, memory: &str) -> Node {
    let resources = json!({"cpu": cpu, "memory": memory, "pods": "110"});
    serde_json::from_value(json!({
        "metadata": {"name": "template-1", "labels": {"kubernetes.io/hostname": "template-1"}},
        "status": {"capacity": resources, "allocatable": resources},
    }))
    .unwrap()
}

/// Makes `n` pods of 1 cpu and 1 Gi.
pub(crate) fn pods(n: usize) -> Vec<Pod> {
    (0..n).map(|i| pod(&format!("p{i}"), "1", "1Gi")).collect()
}

/// A node group with its template, and the number of nodes and the pods of the option to grow it.
pub(crate) struct Group {
    pub(crate) id: &'static str,
    pub(crate) n_nodes: i32,
    pub(crate) pods: Vec<Pod>,
    pub(crate) template: Option<Node>,
}

pub(crate) fn group(id: &'static str, n_nodes: i32, n_pods: usize, size: (&str, &str)) -> Group {
    Group { id, n_nodes, pods: pods(n_pods), template: Some(node(size.0, size.1)) }
}

/// Form of a request, by the release of cluster-autoscaler (S-CAE-1).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// Releases up to 1.33.
    Typed,
    /// Release 1.34.
    Both,
    /// Releases from 1.35 on.
    Bytes,
}

pub(crate) fn request(groups: impl IntoIterator<Item = Group>) -> BestOptionsRequest {
    request_by(Writer::Bytes, groups)
}

pub(crate) fn request_by(
    writer: Writer,
    groups: impl IntoIterator<Item = Group>,
) -> BestOptionsRequest {
    let mut request = BestOptionsRequest::default();
    for Group { id, n_nodes, pods, template } in groups {
        let mut option =
            Offer { node_group_id: id.to_owned(), node_count: n_nodes, ..Offer::default() };
        if writer != Writer::Typed {
            option.pod_bytes = pods.iter().map(prost::Message::encode_to_vec).collect();
        }
        if writer != Writer::Bytes {
            option.pod = pods;
        }
        request.options.push(option);
        let Some(template) = template else { continue };
        if writer != Writer::Typed {
            request.node_bytes_map.insert(id.to_owned(), template.encode_to_vec());
        }
        if writer != Writer::Bytes {
            request.node_map.insert(id.to_owned(), template);
        }
    }
    request
}
