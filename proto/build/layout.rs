//! Writes the layout of every message that requests contain: its size in memory and that of what its fields hold, so that a message can be
//! measured before it is decoded (`src/layout.rs`).

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;

use heck::ToUpperCamelCase;
use protox::prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};

/// Lists of Kubernetes' objects that are long without being unusual: each element is small.
const LONG: [&str; 1] = ["k8s.io.api.core.v1.NodeStatus.images"];

/// The layouts and the table of the requests of all methods, as Rust source. `by_hand` are the messages that `src/` writes
/// by hand, which hold a few words.
pub(crate) fn tables(
    pool: &DescriptorPool,
    by_hand: &[(&str, &str)],
) -> Result<String, Box<dyn Error>> {
    let mut out = String::new();
    let is_by_hand = |message: &MessageDescriptor| {
        by_hand.iter().any(|(name, _)| name[1..] == *message.full_name())
    };
    for message in requested(pool).values() {
        if message.is_map_entry() || is_by_hand(message) {
            continue;
        }
        let name = message.full_name();
        let mut fields: Vec<FieldDescriptor> = message.fields().collect();
        fields.sort_by_key(FieldDescriptor::number);
        writeln!(out, "static {}: Layout = Layout {{", constant(message))?;
        writeln!(out, "name: {name:?}, is_object: {},", name.starts_with("k8s.io."))?;
        writeln!(out, "n_bytes: size_of::<{}>(),", rust_path(message))?;
        writeln!(out, "fields: &[")?;
        for field in fields {
            let held = held(&field, &is_by_hand);
            writeln!(
                out,
                "Field {{ number: {}, name: {:?}, is_list: {}, is_long: {}, held: {held} }},",
                field.number(),
                field.json_name(),
                field.is_list() || field.is_map(),
                LONG.contains(&field.full_name())
            )?;
        }
        writeln!(out, "] }};")?;
    }
    writeln!(out, "static REQUESTS: &[(&str, &Layout)] = &[")?;
    for method in pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()) {
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
        writeln!(out, "({path:?}, &{}),", constant(&method.input()))?;
    }
    writeln!(out, "];")?;
    Ok(out)
}

/// The messages that requests contain, by name.
fn requested(pool: &DescriptorPool) -> BTreeMap<String, MessageDescriptor> {
    let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let mut left: Vec<MessageDescriptor> = methods.map(|method| method.input()).collect();
    let mut found = BTreeMap::new();
    while let Some(message) = left.pop() {
        if found.insert(message.full_name().to_owned(), message.clone()).is_none() {
            let kinds = message.fields().map(|field| field.kind());
            left.extend(kinds.filter_map(|kind| kind.as_message().cloned()));
        }
    }
    found
}

/// What one element of a field holds.
fn held(field: &FieldDescriptor, is_by_hand: &impl Fn(&MessageDescriptor) -> bool) -> String {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => match entry.map_entry_value_field().kind() {
            Kind::Message(value) if !is_by_hand(&value) => {
                format!("Held::Map(Some(&{}))", constant(&value))
            }
            _ => "Held::Map(None)".to_owned(),
        },
        Kind::Message(message) if is_by_hand(&message) => "Held::Text".to_owned(),
        Kind::Message(message) => format!("Held::Message(&{})", constant(&message)),
        Kind::String | Kind::Bytes => "Held::Text".to_owned(),
        _ => "Held::Number".to_owned(),
    }
}

fn constant(message: &MessageDescriptor) -> String {
    message.full_name().replace('.', "_").to_uppercase()
}

fn rust_path(message: &MessageDescriptor) -> String {
    let module = message.package_name().replace('.', "::");
    format!("crate::generated::{module}::{}", message.name().to_upper_camel_case())
}
