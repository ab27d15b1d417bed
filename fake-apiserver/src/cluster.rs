//! Initial objects: files of `kubectl get`, and synthetic clusters.

use std::io::Read as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::field;
use crate::status::Refusal;
use crate::store::Store;

/// Reason why the objects of a file could not be added.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Read(String),
    /// The file is not JSON.
    #[error("is no JSON: {0} (YAML files must be named .yaml or .yml)")]
    Json(String),
    /// The file is not YAML.
    #[error("is no YAML: {0}")]
    Yaml(String),
    /// The store refused an object.
    #[error("holds an invalid object: number {position} of kind `{kind}`: {refusal}")]
    Refused {
        /// Position in the file, from 0.
        position: usize,
        /// The object's kind as written in the file.
        kind: String,
        /// Reason of the store.
        refusal: Refusal,
    },
}

/// Adds the objects of a file: one object, or a list as `kubectl get -o json` and `-o yaml` print it, also gzipped.
/// Objects of kinds that are not served are skipped. Returns the number of added objects.
pub fn load(store: &Store, file: &Path) -> Result<usize, LoadError> {
    let name = file.to_string_lossy().to_lowercase();
    let unreadable = |error: std::io::Error| LoadError::Read(error.to_string());
    let mut bytes = std::fs::read(file).map_err(unreadable)?;
    let mut name = name.as_str();
    if let Some(inner) = name.strip_suffix(".gz") {
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(bytes.as_slice())
            .read_to_end(&mut text)
            .map_err(unreadable)?;
        (bytes, name) = (text, inner);
    }
    let value: Value = if name.ends_with(".yaml") || name.ends_with(".yml") {
        serde_saphyr::from_slice(&bytes).map_err(|error| LoadError::Yaml(error.to_string()))?
    } else {
        serde_json::from_slice(&bytes).map_err(|error| LoadError::Json(error.to_string()))?
    };
    add_all(store, value)
}

fn add_all(store: &Store, mut value: Value) -> Result<usize, LoadError> {
    let list_kind = field::text(&value, "kind").to_owned();
    let api_version = field::text(&value, "apiVersion").to_owned();
    let items = match value.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => vec![value],
    };
    let mut n_added = 0;
    for (position, mut item) in items.into_iter().enumerate() {
        fill_type(&mut item, &list_kind, &api_version);
        let kind = field::text(&item, "kind").to_owned();
        let is_served = crate::resource::by_kind(field::text(&item, "apiVersion"), &kind).is_some();
        if !is_served && !kind.is_empty() {
            continue;
        }
        match store.create(item) {
            Ok(_) => n_added += 1,
            Err(refusal) if refusal.reason == "AlreadyExists" && kind == "Namespace" => {}
            Err(refusal) => return Err(LoadError::Refused { position, kind, refusal }),
        }
    }
    Ok(n_added)
}

/// Fills in what the items of typed lists leave out, which is both fields, and what people leave out, which is the
/// version.
fn fill_type(item: &mut Value, list_kind: &str, list_version: &str) {
    let Value::Object(fields) = item else { return };
    if let (false, Some(kind)) = (fields.contains_key("kind"), list_kind.strip_suffix("List")) {
        fields.insert("kind".into(), kind.into());
        fields.insert("apiVersion".into(), list_version.into());
    }
    if fields.contains_key("apiVersion") {
        return;
    }
    let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
    if let Some(resource) = crate::resource::of_kind(kind) {
        fields.insert("apiVersion".into(), resource.api_version().into());
    }
}

/// Adds a namespace unless it exists.
pub fn add_namespace(store: &Store, name: &str) -> Result<(), Refusal> {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    match store.create(object) {
        Err(refusal) if refusal.reason != "AlreadyExists" => Err(refusal),
        _ => Ok(()),
    }
}

/// Adds nodes `node-00000` … with 16 processors and 64 GiB in zones `a`, `b` and `c`, and pending pods `pod-000000` …
/// of five sizes in namespace `default`.
pub fn add_synthetic(
    store: &Store,
    n_nodes: usize,
    n_pods: usize,
    scheduler_name: &str,
) -> Result<(), Refusal> {
    for i in 0..n_nodes {
        store.create(synthetic_node(i))?;
    }
    for i in 0..n_pods {
        store.create(synthetic_pod(i, scheduler_name))?;
    }
    Ok(())
}

/// The `i`th synthetic node.
pub fn synthetic_node(i: usize) -> Value {
    let (name, zone) = (format!("node-{i:05}"), ["a", "b", "c"][i % 3]);
    let resources =
        json!({"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "200Gi"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/region": "berth", "topology.kubernetes.io/zone": zone,
        }},
        "spec": {},
        "status": {
            "capacity": resources, "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    })
}

/// The `i`th synthetic pod, pending.
pub fn synthetic_pod(i: usize, scheduler_name: &str) -> Value {
    let (cpu, memory) =
        [("100m", "128Mi"), ("250m", "256Mi"), ("500m", "1Gi"), ("1", "2Gi"), ("2", "4Gi")][i % 5];
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("pod-{i:06}"), "namespace": "default", "labels": {"app": format!("app-{}", i % 50)},
        },
        "spec": {
            "schedulerName": scheduler_name,
            "containers": [{
                "name": "main", "image": "registry.example.com/app:v1",
                "resources": {"requests": {"cpu": cpu, "memory": memory}},
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    fn loaded(name: &str, bytes: &[u8]) -> (Store, Result<usize, String>) {
        let store = Store::new(&Options::default());
        let path = std::env::temp_dir().join(format!("berth-fake-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let outcome = load(&store, &path).map_err(|error| error.to_string());
        std::fs::remove_file(&path).unwrap();
        (store, outcome)
    }

    #[test]
    fn lists_load_in_every_form() {
        let list = r#"{"kind":"List","apiVersion":"v1","items":[
            {"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}},
            {"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"s","namespace":"d"}}]}"#;
        let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut zipped, list.as_bytes()).unwrap();
        let zipped = zipped.finish().unwrap();
        let yaml = b"apiVersion: v1\nkind: NodeList\nitems:\n- metadata:\n    name: one\n";
        let one = br#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}"#;
        let by_kind = br#"{"kind":"List","items":[{"kind":"Node","metadata":{"name":"n"}}]}"#;
        for (name, bytes) in [
            ("list.json", list.as_bytes()),
            ("list.json.gz", &zipped),
            ("typed.yaml", &yaml[..]),
            ("one.json", &one[..]),
            ("by-kind.json", &by_kind[..]),
        ] {
            let (store, outcome) = loaded(name, bytes);
            assert_eq!((outcome, store.n("Node")), (Ok(1), 1), "{name}");
        }
    }

    #[test]
    fn invalid_files_and_objects_are_named() {
        for (name, text, expected) in [
            ("a.json", "x", "is no JSON: "),
            ("a.yaml", "x: [", "is no YAML: "),
            ("a.json.gz", "x", "cannot be read: "),
            ("b.json", "{}", "number 0 of kind ``: "),
            (
                "c.json",
                r#"{"items":[{"apiVersion":"v1","kind":"Node"}]}"#,
                "number 0 of kind `Node`: ",
            ),
        ] {
            let error = loaded(name, text.as_bytes()).1.unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn synthetic_clusters_are_pending_and_fit() {
        let store = Store::new(&Options::default());
        add_synthetic(&store, 3, 10, "berth").unwrap();
        add_namespace(&store, "default").unwrap();
        add_namespace(&store, "default").unwrap();
        assert_eq!((store.n("Node"), store.n("Pod"), store.n("Namespace")), (3, 10, 1));
        let pod = store.get("Pod", "default", "pod-000009").unwrap();
        assert_eq!(
            (&pod["spec"]["schedulerName"], &pod["status"]["phase"]),
            (&json!("berth"), &json!("Pending"))
        );
        assert!(store.overcommitted().is_empty());
    }
}
