//! The crate's own descriptors: all messages and fields, and a path to each.

use std::collections::{HashSet, VecDeque};
use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};

use crate::kinds::KINDS;

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(berth_proto::FILE_DESCRIPTOR_SET).expect("descriptors")
});

pub(crate) fn message(full_name: &str) -> MessageDescriptor {
    POOL.get_message_by_name(full_name).unwrap_or_else(|| panic!("no message `{full_name}`"))
}

/// All messages of Kubernetes' packages.
pub(crate) fn kubernetes_messages() -> impl Iterator<Item = MessageDescriptor> {
    POOL.all_messages()
        .filter(|message| message.full_name().starts_with("k8s.io.") && !message.is_map_entry())
}

pub(crate) fn decode(full_name: &str, bytes: &[u8]) -> DynamicMessage {
    DynamicMessage::decode(message(full_name), bytes)
        .unwrap_or_else(|error| panic!("`{full_name}`: {error}"))
}

/// The message that a field holds, as its value, its elements or its map's values; not the scalars written by hand.
pub(crate) fn message_below(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    let holder = match field.kind() {
        Kind::Message(entry) if entry.is_map_entry() => entry.map_entry_value_field().kind(),
        kind => kind,
    };
    match holder {
        Kind::Message(message) if !is_scalar(&message) => Some(message),
        _ => None,
    }
}

/// A message with a form of its own in JSON.
pub(crate) fn is_scalar(message: &MessageDescriptor) -> bool {
    ["Quantity", "Time", "MicroTime", "IntOrString", "RawExtension"].contains(&message.name())
}

/// A message without a level of its own in JSON, where empty and absent are the same (W-JS-3).
pub(crate) fn is_inlined(message: &MessageDescriptor) -> bool {
    [
        "DeviceConfiguration",
        "EphemeralContainerCommon",
        "PersistentVolumeSource",
        "ProbeHandler",
        "VolumeSource",
    ]
    .contains(&message.name())
}

/// `Message.field`, as the lists of known differences name it.
pub(crate) fn label(field: &FieldDescriptor) -> String {
    format!("{}.{}", field.parent_message().name(), field.name())
}

/// For every field of every message that a kind holds: the kind, and the fields that lead there, by the shortest way.
pub(crate) fn every_field() -> Vec<(&'static str, Vec<FieldDescriptor>)> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut queue: VecDeque<(&str, MessageDescriptor, Vec<FieldDescriptor>)> =
        KINDS.iter().map(|kind| (kind.name, message(kind.name), Vec::new())).collect();
    while let Some((kind, message, way)) = queue.pop_front() {
        if !seen.insert(message.full_name().to_owned()) {
            continue;
        }
        for field in message.fields() {
            let mut path = way.clone();
            path.push(field.clone());
            if let Some(below) = message_below(&field) {
                queue.push_back((kind, below, path.clone()));
            }
            found.push((kind, path));
        }
    }
    found
}
