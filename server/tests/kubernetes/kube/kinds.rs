//! Kinds: the fake API server and the documentation know every kind of the engine's list.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use berth_engine::ObjectKind;
use berth_fake_apiserver::FakeApiServer;
use berth_server::feed::kube::Resource;
use serde_json::Value;

use super::world::options;
use crate::probe::get;

fn is_namespaced(resource: Resource) -> bool {
    match resource {
        Resource::Nodes => false,
        Resource::Pods => true,
        Resource::Objects(kind) => kind.is_namespaced(),
    }
}

#[tokio::test]
async fn the_fake_api_server_serves_every_kind() {
    let api = FakeApiServer::start(options()).await.unwrap();
    for resource in Resource::ALL {
        let version = match resource {
            Resource::Nodes | Resource::Pods => "v1",
            Resource::Objects(kind) => kind.api_version(),
        };
        let root = if resource.group().is_empty() { "api" } else { "apis" };
        let response = get(api.address(), &format!("/{root}/{version}")).await;
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        let served = body["resources"].as_array().into_iter().flatten();
        let row = served.into_iter().find(|row| row["name"] == resource.plural());
        let row = row.unwrap_or_else(|| {
            panic!("fake-apiserver/src/resource.rs has no row for {}", resource.kind())
        });
        assert_eq!(row["kind"], resource.kind());
        assert_eq!(row["namespaced"], is_namespaced(resource), "{}", resource.kind());
    }
}

fn running() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/running.md");
    fs::read_to_string(path).unwrap()
}

#[test]
fn the_table_of_kinds_names_each() {
    let page = running();
    let (_, table) = page.split_once("| kind | used for |\n|---|---|\n").unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let cells = table.lines().map(|line| line.split('|').nth(1).unwrap());
    let named: BTreeSet<&str> = cells.flat_map(|cell| cell.split(',').map(str::trim)).collect();
    assert_eq!(named, Resource::ALL.map(Resource::kind).into(), "docs/running.md");
}

#[test]
fn the_dump_of_a_cluster_has_each() {
    let page = running();
    let (_, command) = page.split_once("kubectl get -A -o json ").unwrap();
    let (command, _) = command.split_once(" | gzip").unwrap();
    let command = command.replace("\\\n", "");
    // A resource may be followed by its group, as in `replicasets.apps`.
    let dumped = command.split(',').map(|name| name.split('.').next().unwrap());
    let dumped: BTreeSet<&str> = dumped.collect();
    assert_eq!(dumped, Resource::ALL.map(Resource::plural).into(), "docs/running.md");
}

#[test]
fn names_lead_to_their_kinds() {
    for kind in ObjectKind::ALL {
        assert_eq!(ObjectKind::from_name(kind.name()), Some(kind));
        assert_eq!(ObjectKind::ALL[kind as usize], kind);
    }
}
