//! Columns: nodes as arrays that a browser reads without looking at each value.
//!
//! A buffer is `BERTHC1\n`, the length of a header (u32), the header in JSON, zeros up to a multiple of 8, and the columns,
//! each at its offset behind that. Numbers are little-endian. The header has the generation, the names of resources, the
//! tables of texts that columns of numbers refer to, and type, offset and length in bytes of each column:
//!
//! | column | type | |
//! |---|---|---|
//! | `row` | u32 | row of the node in the snapshot |
//! | `names`, `nameEnd` | u8, u32 | names one after the other, and where each ends |
//! | `flags` | u16 | bits of [`flags`] |
//! | `pods`, `allowedPods` | u32 | pods on the node, and how many it takes |
//! | `zone`, `pool`, `rack`, `instanceType` | u16 | position in the table of this name |
//! | `allocatable.N`, `requested.N` | f32 | amounts of resource N: cpu in milli-units, everything else in whole units |

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_engine::{Amounts, NodeView, RowView};
use serde_json::{Map, Value, json};

use crate::node_labels;

const MAGIC: &[u8; 8] = b"BERTHC1\n";
/// Columns begin at multiples of this many bytes, so that they can be read in place.
const ALIGNMENT: usize = 8;
/// Maximum number of texts in a table; nodes with another one are put into the group of the last.
const MAX_TEXTS: usize = u16::MAX as usize;
const OTHER: &str = "(other values)";
/// Maximum number of amounts of a kind; resources that few nodes have are left out beyond it, and counted in the header.
const MAX_AMOUNTS: usize = 8 << 20;

/// Bits of a row without a node.
const GONE: u16 = 32_768;
/// Bit of a node under a fence of the ledger.
const FENCED: u16 = 128;
/// Bit of a taint that keeps pods away, other than those of [`TAINTS`].
const OTHER_TAINT: u16 = 256;
/// Bits of the taints that Kubernetes itself adds.
const TAINTS: [(&str, u16); 7] = [
    ("node.kubernetes.io/unschedulable", 1),
    ("node.kubernetes.io/not-ready", 2),
    ("node.kubernetes.io/unreachable", 4),
    ("node.kubernetes.io/memory-pressure", 8),
    ("node.kubernetes.io/disk-pressure", 16),
    ("node.kubernetes.io/pid-pressure", 32),
    ("node.kubernetes.io/network-unavailable", 64),
];

/// Writes rows of a snapshot. `mix` are the requests of pods with the number of those pods.
pub(super) fn encode(rows: &[RowView], generation: u64, mix: &[(Amounts, u64)]) -> Vec<u8> {
    let all_resources = resources(rows);
    let n_kept = (MAX_AMOUNTS / rows.len().max(1)).max(1).min(all_resources.len());
    let resources = &all_resources[..n_kept];
    let mut columns = Columns::default();
    columns.add("row", "u32", of(rows, |row| saturate(row.row).to_le_bytes()));
    add_names(&mut columns, rows);
    columns.add("flags", "u16", of(rows, |row| flags(row).to_le_bytes()));
    let number = |of: fn(&NodeView) -> u32| {
        move |row: &RowView| row.node.as_ref().map_or(0, of).to_le_bytes()
    };
    columns.add("pods", "u32", self::of(rows, number(|node| node.n_pods)));
    let allowed = |node: &NodeView| u32::try_from(node.allowed_pods.max(0)).unwrap_or(u32::MAX);
    columns.add("allowedPods", "u32", self::of(rows, number(allowed)));
    let zone = [node_labels::ZONE];
    let instance_type = [node_labels::INSTANCE_TYPE];
    let groups: [(&str, &[&str]); 4] = [
        ("zone", &zone),
        ("pool", &node_labels::POOL),
        ("rack", &node_labels::RACK),
        ("instanceType", &instance_type),
    ];
    let mut strings = Map::new();
    for (name, labels) in groups {
        let (texts, column) = group(rows, labels);
        columns.add(name, "u16", column);
        strings.insert(name.to_owned(), json!(texts));
    }
    for (i, resource) in resources.iter().enumerate() {
        let amounts = |of: fn(&NodeView) -> &Amounts| {
            self::of(rows, |row| amount(row, of, resource).to_le_bytes())
        };
        columns.add(&format!("allocatable.{i}"), "f32", amounts(|node| &node.allocatable));
        columns.add(&format!("requested.{i}"), "f32", amounts(|node| &node.requested));
    }
    let header = json!({
        "generation": generation,
        "resources": resources,
        "nOtherResources": all_resources.len() - n_kept,
        "strings": strings,
        "columns": columns.described,
        "mix": shares(mix),
    });
    framed(&header, &columns.data)
}

/// Columns, one after the other, and what the header says of them.
#[derive(Default)]
struct Columns {
    data: Vec<u8>,
    described: Vec<Value>,
}

impl Columns {
    fn add(&mut self, name: &str, kind: &str, bytes: Vec<u8>) {
        let (offset, length) = (self.data.len(), bytes.len());
        self.described
            .push(json!({"name": name, "type": kind, "offset": offset, "length": length}));
        self.data.extend(bytes);
        self.data.resize(self.data.len().next_multiple_of(ALIGNMENT), 0);
    }
}

fn framed(header: &Value, data: &[u8]) -> Vec<u8> {
    let header = header.to_string();
    let mut buffer = Vec::with_capacity(MAGIC.len() + 4 + header.len() + ALIGNMENT + data.len());
    buffer.extend(MAGIC);
    buffer.extend(saturate(header.len()).to_le_bytes());
    buffer.extend(header.as_bytes());
    buffer.resize(buffer.len().next_multiple_of(ALIGNMENT), 0);
    buffer.extend(data);
    buffer
}

/// The bytes of a value for each row.
fn of<const N: usize>(rows: &[RowView], value: impl Fn(&RowView) -> [u8; N]) -> Vec<u8> {
    rows.iter().flat_map(value).collect()
}

fn add_names(columns: &mut Columns, rows: &[RowView]) {
    let (mut names, mut ends) = (Vec::new(), Vec::new());
    for row in rows {
        names.extend(row.node.iter().flat_map(|node| node.name.bytes()));
        ends.extend(saturate(names.len()).to_le_bytes());
    }
    columns.add("names", "u8", names);
    columns.add("nameEnd", "u32", ends);
}

fn flags(row: &RowView) -> u16 {
    let Some(node) = &row.node else { return GONE };
    let cordoned = if node.unschedulable { TAINTS[0].1 } else { 0 };
    let fenced = if row.is_fenced { FENCED } else { 0 };
    node.taints.iter().fold(cordoned | fenced, |flags, taint| flags | flag_of(taint))
}

/// The bit of a taint in the form `key=value:Effect`.
fn flag_of(taint: &str) -> u16 {
    let (name, effect) = taint.rsplit_once(':').unwrap_or((taint, ""));
    let key = name.split('=').next().unwrap_or_default();
    let known = TAINTS.iter().find(|(known, _)| *known == key).map(|(_, bit)| *bit);
    let other = if effect == "PreferNoSchedule" { 0 } else { OTHER_TAINT };
    known.unwrap_or(other)
}

/// The values of a label, with the position of each row's value among them. Of several labels the first counts that a node
/// has.
fn group(rows: &[RowView], labels: &[&str]) -> (Vec<Arc<str>>, Vec<u8>) {
    let mut texts: Vec<Arc<str>> = vec!["".into()];
    let mut positions = BTreeMap::from([(texts[0].clone(), 0_u16)]);
    let mut column = Vec::with_capacity(rows.len() * 2);
    for row in rows {
        let value = row.node.as_ref().and_then(|node| label(node, labels));
        let mut value = value.unwrap_or_else(|| texts[0].clone());
        if !positions.contains_key(&value) && texts.len() >= MAX_TEXTS - 1 {
            value = OTHER.into();
        }
        let next = u16::try_from(texts.len()).unwrap_or(u16::MAX);
        let position = *positions.entry(value.clone()).or_insert_with(|| {
            texts.push(value);
            next
        });
        column.extend(position.to_le_bytes());
    }
    (texts, column)
}

fn label(node: &NodeView, labels: &[&str]) -> Option<Arc<str>> {
    labels.iter().find_map(|label| {
        let at = node.labels.binary_search_by(|(key, _)| (**key).cmp(label)).ok()?;
        Some(node.labels[at].1.clone())
    })
}

/// Names of all resources, those first that most nodes have.
fn resources(rows: &[RowView]) -> Vec<Arc<str>> {
    let mut n_nodes = BTreeMap::<&Arc<str>, usize>::new();
    for (name, _) in rows.iter().flat_map(|row| &row.node).flat_map(|node| &node.allocatable) {
        *n_nodes.entry(name).or_default() += 1;
    }
    let mut named: Vec<_> = n_nodes.into_iter().collect();
    named.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    named.into_iter().map(|(name, _)| name.clone()).collect()
}

fn amount(row: &RowView, of: fn(&NodeView) -> &Amounts, resource: &str) -> f32 {
    let listed = row.node.as_ref().map(of);
    let found = listed.and_then(|listed| listed.iter().find(|(name, _)| **name == *resource));
    // A picture needs no more digits than these.
    #[expect(clippy::cast_precision_loss, reason = "as the line above says")]
    found.map_or(0.0, |(_, amount)| *amount as f32)
}

/// The mix with each entry's share of the pods in it.
fn shares(mix: &[(Amounts, u64)]) -> Vec<Value> {
    let all: u64 = mix.iter().map(|(_, n_pods)| n_pods).sum();
    mix.iter()
        .map(|(amounts, n_pods)| {
            let requests: Map<String, Value> =
                amounts.iter().map(|(name, amount)| (name.to_string(), json!(amount))).collect();
            #[expect(clippy::cast_precision_loss, reason = "a share")]
            let share = *n_pods as f64 / all.max(1) as f64;
            json!({"share": share, "requests": requests})
        })
        .collect()
}

fn saturate(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeView {
        NodeView {
            name: name.into(),
            unschedulable: false,
            labels: Vec::new(),
            taints: Vec::new(),
            allocatable: Vec::new(),
            requested: Vec::new(),
            n_pods: 0,
            allowed_pods: 0,
        }
    }

    fn row(row: usize, node: Option<NodeView>) -> RowView {
        RowView { row, node, is_fenced: false }
    }

    /// The header, and the bytes of a column.
    fn read(buffer: &[u8]) -> (Value, impl Fn(&str) -> Vec<u8> + use<>) {
        assert_eq!(&buffer[..8], MAGIC);
        let length = u32::from_le_bytes(buffer[8..12].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&buffer[12..12 + length]).unwrap();
        let data = buffer[(12 + length).next_multiple_of(8)..].to_vec();
        let columns = header["columns"].clone();
        let column = move |name: &str| {
            let found = columns.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
            let at = |key: &str| found[key].as_u64().unwrap() as usize;
            assert_eq!(at("offset") % 8, 0);
            data[at("offset")..at("offset") + at("length")].to_vec()
        };
        (header, column)
    }

    fn u16s(bytes: &[u8]) -> Vec<u16> {
        bytes.chunks(2).map(|it| u16::from_le_bytes(it.try_into().unwrap())).collect()
    }

    fn u32s(bytes: &[u8]) -> Vec<u32> {
        bytes.chunks(4).map(|it| u32::from_le_bytes(it.try_into().unwrap())).collect()
    }

    fn f32s(bytes: &[u8]) -> Vec<f32> {
        bytes.chunks(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect()
    }

    #[test]
    fn what_a_node_has_is_in_its_columns() {
        let first = NodeView {
            labels: vec![("pool".into(), "ü".into()), (node_labels::ZONE.into(), "a".into())],
            allocatable: vec![("cpu".into(), 4_000), ("memory".into(), 1 << 33)],
            requested: vec![("cpu".into(), 1_500)],
            n_pods: 3,
            allowed_pods: 110,
            ..node("n1")
        };
        let second = NodeView {
            labels: vec![(node_labels::ZONE.into(), "a".into())],
            allocatable: vec![("cpu".into(), 8_000), ("example.com/gpu".into(), 2)],
            ..node("größer")
        };
        let rows = [row(7, Some(first)), row(9, None), row(12, Some(second))];
        let mix = [(vec![("cpu".into(), 500)], 30), (vec![("cpu".into(), 900)], 10)];
        let (header, column) = read(&encode(&rows, 42, &mix));
        assert_eq!(header["generation"], 42);
        assert_eq!(header["resources"], json!(["cpu", "example.com/gpu", "memory"]));
        assert_eq!(u32s(&column("row")), [7, 9, 12]);
        assert_eq!(column("names"), "n1größer".as_bytes());
        assert_eq!(u32s(&column("nameEnd")), [2, 2, 10]);
        assert_eq!(u16s(&column("flags")), [0, GONE, 0]);
        assert_eq!(u32s(&column("pods")), [3, 0, 0]);
        assert_eq!(u32s(&column("allowedPods")), [110, 0, 0]);
        assert_eq!(header["strings"]["zone"], json!(["", "a"]));
        assert_eq!(u16s(&column("zone")), [1, 0, 1]);
        assert_eq!(header["strings"]["pool"], json!(["", "ü"]));
        assert_eq!(f32s(&column("allocatable.0")), [4_000.0, 0.0, 8_000.0]);
        assert_eq!(f32s(&column("allocatable.1")), [0.0, 0.0, 2.0]);
        assert_eq!(f32s(&column("requested.0")), [1_500.0, 0.0, 0.0]);
        let cpu = |amount: u64| json!({"cpu": amount});
        assert_eq!(header["mix"][0], json!({"share": 0.75, "requests": cpu(500)}));
        assert_eq!(header["mix"][1], json!({"share": 0.25, "requests": cpu(900)}));
    }

    #[test]
    fn flags_say_what_is_the_matter() {
        let with = |taints: &[&str]| NodeView {
            taints: taints.iter().map(|taint| (*taint).to_owned()).collect(),
            ..node("n")
        };
        let flags = |node| flags(&row(0, Some(node)));
        assert_eq!(flags(with(&["node.kubernetes.io/not-ready:NoExecute"])), 2);
        let two = ["node.kubernetes.io/memory-pressure:NoSchedule", "gpu=yes:NoSchedule"];
        assert_eq!(flags(with(&two)), 8 | OTHER_TAINT);
        assert_eq!(flags(with(&["gpu=yes:PreferNoSchedule"])), 0);
        assert_eq!(flags(NodeView { unschedulable: true, ..node("n") }), 1);
        assert_eq!(super::flags(&RowView { is_fenced: true, ..row(0, Some(node("n"))) }), FENCED);
    }

    #[test]
    fn values_beyond_the_table_share_a_group() {
        let rows: Vec<RowView> = (0..MAX_TEXTS + 9)
            .map(|i| {
                let labels = vec![(node_labels::ZONE.into(), format!("z{i}").into())];
                row(i, Some(NodeView { labels, ..node("n") }))
            })
            .collect();
        let (texts, column) = group(&rows, &[node_labels::ZONE]);
        assert_eq!((texts.len(), &*texts[MAX_TEXTS - 1]), (MAX_TEXTS, OTHER));
        let positions = u16s(&column);
        assert_eq!(positions[..3], [1, 2, 3]);
        assert!(positions[MAX_TEXTS..].iter().all(|it| *it == u16::MAX - 1));
    }

    #[test]
    fn no_rows_are_a_buffer_too() {
        let (header, column) = read(&encode(&[], 1, &[]));
        assert_eq!(header["resources"], json!([]));
        assert!(column("row").is_empty());
    }
}
