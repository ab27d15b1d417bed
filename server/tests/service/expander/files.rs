//! Files and commands that an operator copies: manifests of `deploy/`, and commands and configuration of the page in
//! `docs/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use berth_proto::grpcplugin::BestOptionsRequest;
use berth_server::auth::Role;
use berth_server::config::Config;
use berth_server::document::tree::{self as document, Value};
use berth_server::expander::Expander;
use berth_server::expander::priorities::PrioritySource;
use berth_server::net::TlsFiles;
use berth_server::runtime::ServerOptions;
use berth_testing::recorded;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

use crate::expander::world::{World, resolve};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(workspace().join(path)).unwrap()
}

/// The value of the field at a path such as `data.berth.yaml`, whose last step may contain dots.
fn field<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    let Some((first, rest)) = path.split_first() else { return Some(value) };
    let Value::Map(entries) = value else { return None };
    field(&entries.iter().find(|entry| entry.key == *first)?.value.value, rest)
}

fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    match field(value, path) {
        Some(Value::Text(text)) => text,
        other => panic!("{path:?}: {other:?}"),
    }
}

/// Writes a configuration to a file and reads it as the server does.
fn config(text: &str) -> Config {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("berth.yaml");
    std::fs::write(&path, text).unwrap();
    resolve(&path)
}

#[test]
fn the_manifests_say_what_they_should() {
    let manifests = read("deploy/cluster-autoscaler/berth.yaml");
    let documents: Vec<Value> = manifests
        .split("\n---\n")
        .map(|text| document::parse(text).unwrap_or_else(|problem| panic!("{problem}")).value)
        .collect();
    let kinds: Vec<&str> = documents.iter().map(|document| text(document, &["kind"])).collect();
    assert_eq!(kinds, ["ConfigMap", "ConfigMap", "Deployment", "Service", "NetworkPolicy"]);
    let config = config(text(&documents[0], &["data", "berth.yaml"]));
    let mounted = |path: &str| PathBuf::from("/etc/berth").join(path);
    let tls = TlsFiles {
        cert_file: mounted("tls/tls.crt"),
        key_file: mounted("tls/tls.key"),
        client_ca_file: None,
    };
    assert_eq!(config.tls, Some(tls));
    assert!(config.kube.is_some() && !config.insecure && !config.extender.bind);
    let [reader] = &config.auth.role_bindings[..] else { panic!("{:?}", config.auth) };
    assert_eq!(
        (reader.role, &reader.users[..]),
        (Role::Reader, &["system:anonymous".to_owned()][..])
    );
    let file = PrioritySource::File(mounted("priorities/priorities"));
    assert_eq!(config.expander.priorities, Some(file));
    // The list of priorities, as the volume holds it and inside the ConfigMap.
    let directory = tempfile::tempdir().unwrap();
    let list = text(&documents[1], &["data", "priorities"]);
    let whole = manifests.split("\n---\n").nth(1).unwrap();
    for (name, text) in [("priorities", list), ("configmap.yaml", whole)] {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        let source = PrioritySource::File(path);
        let numbers: Vec<i64> =
            source.read().unwrap().levels.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [10, 50], "{name}");
    }
    let patch = document::parse(&read("deploy/cluster-autoscaler/cluster-autoscaler-patch.yaml"));
    assert_eq!(text(&patch.unwrap().value, &["metadata", "name"]), "cluster-autoscaler");
}

/// The fenced code blocks of one language, in order.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut rest = page;
    let fence = format!("\n```{language}\n");
    while let Some((_, tail)) = rest.split_once(&fence) {
        let (block, tail) = tail.split_once("\n```\n").unwrap();
        blocks.push(block.to_owned());
        rest = tail;
    }
    blocks
}

#[test]
fn the_configuration_of_the_page_is_accepted() {
    let page = read("docs/cluster-autoscaler.md");
    let blocks = blocks(&page, "yaml");
    assert_eq!(blocks.len(), 1);
    let config = config(&blocks[0]);
    assert_eq!(config.expander.strategies.len(), 3);
    assert_eq!(config.expander.prices.as_ref().unwrap().nodes.len(), 2);
    Expander::new(&config.expander).unwrap();
}

/// The page's own commands make a certificate, and clients trust a server that has it.
#[tokio::test]
async fn the_certificate_of_the_page_is_of_use() {
    if Command::new("openssl").arg("version").output().is_err() {
        recorded::skip(
            "the certificate commands of docs/cluster-autoscaler.md: openssl is missing",
        );
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let commands = blocks(&read("docs/cluster-autoscaler.md"), "console").swap_remove(0);
    // A backslash at the end of a line continues the command.
    for command in commands.replace("\\\n", "").lines() {
        let command = command.strip_prefix("$ ").unwrap();
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
    }
    let path = |name: &str| directory.path().join(name);
    let tls =
        TlsFiles { cert_file: path("tls.crt"), key_file: path("tls.key"), client_ca_file: None };
    let options = ServerOptions { tls: Some(tls), ..ServerOptions::default() };
    let server = berth_server::runtime::Server::start(options).await.unwrap();
    let port = server.grpc_address().port();
    let authority = Certificate::from_pem(std::fs::read(path("ca.crt")).unwrap());
    // The server name that cluster-autoscaler uses.
    let tls = ClientTlsConfig::new().ca_certificate(authority).domain_name("berth.berth.svc");
    let endpoint = Endpoint::from_shared(format!("https://127.0.0.1:{port}")).unwrap();
    let channel = endpoint.tls_config(tls).unwrap().connect().await.unwrap();
    let client = berth_proto::grpcplugin::expander_client::ExpanderClient::new(channel);
    World { server, client }.check(BestOptionsRequest::default(), &[]).await;
}
