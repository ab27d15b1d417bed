//! Options of cluster-autoscaler's request, read leniently: an object that does not decode is ignored, and the rest is
//! judged. Objects come without magic bytes and envelope (W-ENV-2). Rules: S-CAE-1, S-CAE-2, S-CAE-4.

use std::collections::{BTreeMap, HashSet};
use std::sync::OnceLock;

use berth_engine::requested;
use berth_proto::{Amount, core_v1};
use prost::Message;
use prost::bytes::Bytes;

use super::wire::{Fields, Malformed, Value};

/// Maximum number of node groups in one request; cluster-autoscaler has hundreds at most.
const MAX_OPTIONS: usize = 10_000;
/// Maximum number of pods in one request, all options together: more than fit into its bytes, unless they are empty.
const MAX_PODS: usize = 1_000_000;
/// Largest object that is decoded. etcd stores none of more than 1.5 MiB; decoded, an object may take hundreds of times
/// its size.
const MAX_OBJECT_BYTES: usize = 2 << 20;

/// One node group, and the result of growing it.
#[derive(Debug)]
pub(crate) struct NodeGroupOption {
    /// The node group's id, as it was sent.
    pub(crate) id: String,
    /// Number of nodes that would be added, as it was sent; a sane caller sends no negative number.
    pub(crate) n_nodes: i32,
    /// A node of the group, without DaemonSet pods.
    template: Option<Bytes>,
    /// The pods that would then fit, in whichever of the two forms the caller chose; both have the same encoding.
    pods: Vec<Bytes>,
    requested: OnceLock<Requested>,
}

/// Exact sum of the requests of an option's pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requested {
    pub(crate) cpu: Amount,
    pub(crate) memory: Amount,
    pub(crate) gpus: Amount,
    /// Number of pods that are not counted: they do not decode, or one of their amounts is malformed.
    pub(crate) n_unreadable: usize,
}

/// Reason why a request cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The bytes are not a valid request.
    #[error("{0}")]
    Malformed(String),
    /// The request holds more items of one kind than any cluster has.
    #[error("the request holds more than {limit} {what}")]
    TooMany {
        /// `options`, `templates` or `pods`.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

impl From<Malformed> for ReadError {
    fn from(error: Malformed) -> ReadError {
        ReadError::Malformed(error.to_string())
    }
}

/// Resources that are graphics processors, as named by the vendors' device plugins.
const GPUS: [&str; 4] = ["nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe"];

/// Field numbers of `BestOptionsRequest`, of an entry of its maps, and of `Option`.
mod field {
    pub(super) const OPTIONS: u32 = 1;
    pub(super) const NODE_MAP: u32 = 2;
    pub(super) const NODE_BYTES_MAP: u32 = 3;
    pub(super) const KEY: u32 = 1;
    pub(super) const VALUE: u32 = 2;
    pub(super) const NODE_GROUP_ID: u32 = 1;
    pub(super) const NODE_COUNT: u32 = 2;
    pub(super) const POD: u32 = 4;
    pub(super) const POD_BYTES: u32 = 5;
}

/// Reads the options of a `BestOptionsRequest` in its order, each id once: the first of several counts (S-CAE-4).
/// Serialised objects are taken if there are any, else the typed ones (S-CAE-1). The objects themselves are not decoded
/// yet.
///
/// # Errors
/// [`ReadError`]; objects that do not decode are no error.
pub(crate) fn read(request: Bytes) -> Result<Vec<NodeGroupOption>, ReadError> {
    let mut options: Vec<NodeGroupOption> = Vec::new();
    let (mut typed, mut serialised) = (Templates::default(), Templates::default());
    let mut n_pods = 0;
    for read in Fields::of(request) {
        match read? {
            (field::OPTIONS, Value::Bytes(option)) => {
                let option = NodeGroupOption::read(option, &mut n_pods)?;
                push(&mut options, option, "options", MAX_OPTIONS)?;
            }
            (field::NODE_MAP, Value::Bytes(entry)) => typed.read(entry)?,
            (field::NODE_BYTES_MAP, Value::Bytes(entry)) => serialised.read(entry)?,
            _ => {}
        }
    }
    let mut templates = if serialised.0.is_empty() { typed } else { serialised };
    let mut seen = HashSet::with_capacity(options.len());
    options.retain(|option| seen.insert(option.id.clone()));
    for option in &mut options {
        option.template = templates.0.remove(&option.id);
    }
    Ok(options)
}

/// Templates by node group.
#[derive(Default)]
struct Templates(BTreeMap<String, Bytes>);

impl Templates {
    fn read(&mut self, entry: Bytes) -> Result<(), ReadError> {
        let (mut id, mut node) = (String::new(), Bytes::new());
        for read in Fields::of(entry) {
            match read? {
                (field::KEY, Value::Bytes(key)) => id = text(&key, "a key of the node map")?,
                (field::VALUE, Value::Bytes(value)) => node = value,
                _ => {}
            }
        }
        self.0.insert(id, node);
        match self.0.len() > MAX_OPTIONS {
            true => Err(ReadError::TooMany { what: "templates", limit: MAX_OPTIONS }),
            false => Ok(()),
        }
    }
}

fn push<T>(list: &mut Vec<T>, item: T, what: &'static str, limit: usize) -> Result<(), ReadError> {
    if list.len() == limit {
        return Err(ReadError::TooMany { what, limit });
    }
    list.push(item);
    Ok(())
}

fn text(bytes: &[u8], what: &str) -> Result<String, ReadError> {
    let text = str::from_utf8(bytes).map(str::to_owned);
    text.map_err(|_| ReadError::Malformed(format!("{what} is not UTF-8")))
}

fn decode<T: Message + Default>(object: &Bytes) -> Result<T, String> {
    if object.len() > MAX_OBJECT_BYTES {
        return Err(format!("it is larger than {MAX_OBJECT_BYTES} bytes"));
    }
    T::decode(&**object).map_err(|error| error.to_string())
}

impl NodeGroupOption {
    /// Reads an option without its template. `n_pods` is the number of pods in the request so far.
    fn read(option: Bytes, n_pods: &mut usize) -> Result<NodeGroupOption, ReadError> {
        let (mut id, mut n_nodes) = (String::new(), 0);
        let (mut typed, mut serialised) = (Vec::new(), Vec::new());
        for read in Fields::of(option) {
            match read? {
                (field::NODE_GROUP_ID, Value::Bytes(bytes)) => id = text(&bytes, "`nodeGroupId`")?,
                (field::NODE_COUNT, Value::Number(number)) => n_nodes = signed(number),
                (tag @ (field::POD | field::POD_BYTES), Value::Bytes(pod)) => {
                    *n_pods += 1;
                    if *n_pods > MAX_PODS {
                        return Err(ReadError::TooMany { what: "pods", limit: MAX_PODS });
                    }
                    let pods = if tag == field::POD { &mut typed } else { &mut serialised };
                    pods.push(pod);
                }
                _ => {}
            }
        }
        let pods = if serialised.is_empty() { typed } else { serialised };
        Ok(NodeGroupOption { id, n_nodes, template: None, pods, requested: OnceLock::new() })
    }

    /// Number of pods that were sent, including those that cannot be read.
    pub(crate) fn n_pods(&self) -> usize {
        self.pods.len()
    }

    /// The pods in their order, or the error for one that does not decode. They are decoded anew on every pass: decoded
    /// pods of a large request would take many times its size.
    pub(crate) fn pods(&self) -> impl Iterator<Item = Result<core_v1::Pod, String>> {
        self.pods.iter().map(decode)
    }

    /// Decodes a node of the group, or returns the error; decoded anew each time, as the pods are.
    pub(crate) fn template(&self) -> Result<core_v1::Node, String> {
        let template = self.template.as_ref().ok_or("no template")?;
        decode(template).map_err(|error| format!("its template does not decode: {error}"))
    }

    /// Sum of the pods' requests, computed on the first call; `None` if `is_over` becomes true before that.
    pub(crate) fn requested(&self, is_over: impl Fn() -> bool) -> Option<&Requested> {
        if let Some(sum) = self.requested.get() {
            return Some(sum);
        }
        let mut sum = Requested::default();
        for pod in self.pods() {
            if is_over() {
                return None;
            }
            if !pod.is_ok_and(|pod| sum.add(&pod)) {
                sum.n_unreadable += 1;
            }
        }
        Some(self.requested.get_or_init(|| sum))
    }

    /// Notes for the caller on the objects that were ignored.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let unreadable = self.requested.get().map_or(0, |sum| sum.n_unreadable);
        let unreadable = (unreadable > 0)
            .then(|| format!("{unreadable} of {} pods cannot be read", self.n_pods()));
        self.template().err().into_iter().chain(unreadable)
    }
}

/// Converts an `int32` from the wire, where it is the lower half of a 64-bit number.
fn signed(number: u64) -> i32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// Capacity of one node of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) cpu: Amount,
    pub(crate) memory: Amount,
    pub(crate) gpus: Amount,
}

impl Capacity {
    /// Capacity from a template's `status.capacity`. An amount that is absent or malformed counts as 0.
    pub(crate) fn of(template: &core_v1::Node) -> Capacity {
        let status = template.status.as_ref();
        let amount = |name: &str| {
            let quantity = status.and_then(|status| status.capacity.get(name));
            quantity.and_then(|quantity| quantity.parse().ok()).unwrap_or_default()
        };
        let gpus = GPUS.into_iter().map(amount).sum();
        Capacity { cpu: amount("cpu"), memory: amount("memory"), gpus }
    }
}

impl Requested {
    /// Adds the requests of a pod; returns whether the pod could be read.
    fn add(&mut self, pod: &core_v1::Pod) -> bool {
        let Ok(amounts) = requested(pod) else { return false };
        let of = |name: &str| amounts.get(name).copied().unwrap_or_default();
        self.cpu += of("cpu");
        self.memory += of("memory");
        self.gpus += GPUS.into_iter().map(of).sum();
        true
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use berth_proto::core_v1::{Node, Pod};
    use berth_proto::grpcplugin::{BestOptionsRequest, Option as WireOption};

    pub(crate) fn pod(name: &str, cpu: &str, memory: &str) -> Pod {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
            "spec": {"containers": [
                {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]},
        }))
        .unwrap()
    }

    pub(crate) fn node(cpu: &str, memory: &str) -> Node {
        let resources = serde_json::json!({"cpu": cpu, "memory": memory, "pods": "110"});
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "template", "labels": {"kubernetes.io/hostname": "template"}},
            "status": {"capacity": resources, "allocatable": resources},
        }))
        .unwrap()
    }

    /// An option of `n_nodes` with these pods.
    pub(crate) fn option(id: &str, n_nodes: i32, pods: &[Pod]) -> WireOption {
        let pod_bytes = pods.iter().map(prost::Message::encode_to_vec).collect();
        WireOption {
            node_group_id: id.to_owned(),
            node_count: n_nodes,
            pod_bytes,
            ..WireOption::default()
        }
    }

    /// Reads options with a template each, encoded as the newest callers do.
    pub(crate) fn read_options(options: Vec<(WireOption, Option<Node>)>) -> Vec<NodeGroupOption> {
        let mut request = BestOptionsRequest::default();
        for (option, template) in options {
            if let Some(node) = template {
                request.node_bytes_map.insert(option.node_group_id.clone(), node.encode_to_vec());
            }
            request.options.push(option);
        }
        read(request.encode_to_vec().into()).unwrap()
    }

    #[test]
    fn serialised_objects_are_preferred_and_broken_ones_ignored() {
        let mut request = BestOptionsRequest::default();
        let mut option = option("a", 1, &[pod("new", "1", "1Gi"), pod("newer", "1", "1Gi")]);
        option.pod = vec![pod("old", "7", "7Gi")];
        option.pod_bytes.push(vec![0xff]);
        request.options = vec![option.clone(), option, WireOption::default()];
        request.node_map.insert("a".to_owned(), node("2", "2Gi"));
        request.node_bytes_map.insert("a".to_owned(), node("8", "8Gi").encode_to_vec());
        request.node_bytes_map.insert(String::new(), vec![0xff]);
        let options = read(request.encode_to_vec().into()).unwrap();
        assert_eq!(options.iter().map(|option| &*option.id).collect::<Vec<_>>(), ["a", ""]);
        assert_eq!(options[0].n_pods(), 3);
        assert_eq!(options[0].requested(|| false).unwrap().cpu, Amount::from_value(2));
        assert_eq!(Capacity::of(&options[0].template().unwrap()).cpu, Amount::from_value(8));
        assert_eq!(options[0].notes().collect::<Vec<_>>(), ["1 of 3 pods cannot be read"]);
        let notes: Vec<String> = options[1].notes().collect();
        assert!(notes[0].starts_with("its template does not decode: "), "{notes:?}");
    }

    /// Typed objects are decoded as the generated decoder does, negative counts included.
    #[test]
    fn typed_objects_are_read_where_there_are_no_others() {
        let mut option = option("a", -3, &[]);
        option.pod = vec![pod("p", "1", "1Gi"), pod("q", "2", "1Gi")];
        let mut request = BestOptionsRequest::default();
        request.node_map.insert("a".to_owned(), node("2", "2Gi"));
        // A pod that does not decode does not affect the others (S-CAE-2): its metadata is truncated.
        let option = [option.encode_to_vec(), b"\x22\x02\x0a\x05".to_vec()].concat();
        let option = [vec![0x0a], length(option.len()), option].concat();
        let options = read([request.encode_to_vec(), option].concat().into()).unwrap();
        assert_eq!((options[0].n_nodes, options[0].n_pods()), (-3, 3));
        assert_eq!(options[0].requested(|| false).unwrap().n_unreadable, 1);
        assert_eq!(options[0].requested(|| false).unwrap().cpu, Amount::from_value(3));
        assert_eq!(options[0].template(), Ok(node("2", "2Gi")));
    }

    /// A message of two-byte fields is hundreds of times larger when decoded, so the number of its items is limited.
    #[test]
    fn the_number_of_items_is_limited() {
        let check = |request: Vec<u8>, expected: &str| {
            let outcome = read(request.into()).map(|options| options.len());
            assert_eq!(outcome.map_err(|error| error.to_string()), Err(expected.to_owned()));
        };
        let options = b"\x0a\0".repeat(MAX_OPTIONS);
        assert_eq!(read(options.clone().into()).unwrap().len(), 1);
        check([&options[..], b"\x0a\0"].concat(), "the request holds more than 10000 options");
        for tag in [b'\x22', b'\x2a'] {
            let pods = [tag, 0].repeat(MAX_PODS);
            let within = [vec![0x0a], length(pods.len()), pods].concat();
            assert_eq!(read(within.clone().into()).unwrap()[0].n_pods(), MAX_PODS);
            let beyond = [&within[..], &[0x0a, 2, tag, 0]].concat();
            check(beyond, "the request holds more than 1000000 pods");
        }
    }

    fn length(n: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        prost::encoding::encode_varint(n as u64, &mut bytes);
        bytes
    }

    #[test]
    fn malformed_messages_are_errors_and_large_objects_ignored() {
        for (bytes, expected) in [
            (&b"\x0a\x05x"[..], "field 1 is longer than the message"),
            (b"\x0a\x03\x0a\x01\xff", "`nodeGroupId` is not UTF-8"),
            (b"\x1a\x03\x0a\x01\xff", "a key of the node map is not UTF-8"),
        ] {
            let error = read(Bytes::from_static(bytes)).unwrap_err().to_string();
            assert_eq!(error, expected);
        }
        let mut heavy = pod("heavy", "1", "1Gi");
        let annotations = &mut heavy.metadata.as_mut().unwrap().annotations;
        annotations.insert("note".to_owned(), "x".repeat(MAX_OBJECT_BYTES));
        let options = read_options(vec![(option("a", 1, &[heavy, pod("p", "1", "1Gi")]), None)]);
        assert_eq!(options[0].requested(|| false).unwrap().cpu, Amount::from_value(1));
        let notes: Vec<String> = options[0].notes().collect();
        assert_eq!(notes, ["no template", "1 of 2 pods cannot be read"]);
    }
}
