//! Writes the parts of the OpenAPI document that the `.proto` files determine: a JSON Schema of every message that a
//! unary method of `berth.v1` takes or returns, in the JSON form that `build/json.rs` writes, and each such method with
//! its comment.

use std::collections::BTreeMap;
use std::error::Error;

use protox::prost_reflect::{
    DescriptorPool, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor,
    MethodDescriptor,
};
use serde_json::{Map, Value, json};

use crate::json::{INLINED, LISTS};

/// The package whose methods are described.
const PACKAGE: &str = "berth.v1";
/// Beginning of a reference to a schema of the document.
const SCHEMAS: &str = "#/components/schemas/";

/// The tables `SCHEMAS` and `OPERATIONS`, as Rust source.
///
/// # Errors
/// If a field has a type without a JSON form.
pub(crate) fn tables(pool: &DescriptorPool) -> Result<String, Box<dyn Error>> {
    let mut schemas = BTreeMap::new();
    let mut operations = String::new();
    let services = pool.services().filter(|service| service.package_name() == PACKAGE);
    for method in services.flat_map(|service| service.methods().collect::<Vec<_>>()) {
        if method.is_client_streaming() || method.is_server_streaming() {
            continue;
        }
        operations += &operation(&method);
        for message in [method.input(), method.output()] {
            describe(&message, &mut schemas)?;
        }
    }
    let mut source = String::new();
    source += "/// JSON Schemas by name, sorted; a reference to another one is `#/components/schemas/NAME`.\n";
    source += "pub const SCHEMAS: &[(&str, &str)] = &[\n";
    for (name, schema) in schemas {
        source += &format!("({name:?}, {:?}),\n", schema.to_string());
    }
    source += "];\n/// Every unary method of `berth.v1`, in the order of the files.\n";
    source += "pub const OPERATIONS: &[Operation] = &[\n";
    source += &operations;
    Ok(source + "];\n")
}

fn operation(method: &MethodDescriptor) -> String {
    let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
    let description = comment(&method.parent_file(), method.path());
    let (request, response) = (name(&method.input()), name(&method.output()));
    format!(
        "Operation {{ path: {path:?}, description: {description:?}, request: {request:?}, response: {response:?} }},\n"
    )
}

/// Name of a message's schema. Kubernetes' own OpenAPI document begins its names with the reversed domain, too.
fn name(message: &MessageDescriptor) -> String {
    schema_name(message.full_name())
}

fn schema_name(full_name: &str) -> String {
    match full_name.strip_prefix("k8s.io.") {
        Some(rest) => format!("io.k8s.{rest}"),
        None => full_name.to_owned(),
    }
}

/// Adds the schema of a message, and those of all messages and enums that it contains.
fn describe(
    message: &MessageDescriptor,
    schemas: &mut BTreeMap<String, Value>,
) -> Result<(), Box<dyn Error>> {
    let name = name(message);
    if schemas.contains_key(&name) {
        return Ok(());
    }
    let description = comment(&message.parent_file(), message.path());
    let form = scalar(message.name());
    // Recursive messages refer to themselves.
    schemas.insert(name.clone(), Value::Null);
    let mut schema = match form {
        Some(form) => form,
        None if LISTS.contains(&message.name()) => list(message, schemas)?,
        None => object(message, schemas)?,
    };
    set_description(&mut schema, &description);
    schemas.insert(name, schema);
    Ok(())
}

/// The schema of a message that is a scalar in JSON.
fn scalar(name: &str) -> Option<Value> {
    Some(match name {
        "Quantity" => json!({"type": ["string", "number"], "examples": ["500m", "1.5Gi", 2]}),
        "Time" | "MicroTime" => json!({"type": "string", "format": "date-time"}),
        "RawExtension" => json!({}),
        "IntOrString" => json!({"type": ["integer", "string"], "examples": [1, "25%"]}),
        _ => return None,
    })
}

fn list(
    message: &MessageDescriptor,
    schemas: &mut BTreeMap<String, Value>,
) -> Result<Value, Box<dyn Error>> {
    let items = message.get_field_by_name("items").ok_or("a list without `items`")?;
    field(&items, schemas)
}

fn object(
    message: &MessageDescriptor,
    schemas: &mut BTreeMap<String, Value>,
) -> Result<Value, Box<dyn Error>> {
    let mut properties = Map::new();
    add_properties(message, &mut properties, schemas)?;
    let mut schema = json!({"type": "object", "properties": properties});
    // Kubernetes' objects have fields that Berth does not read.
    if message.package_name() == PACKAGE {
        schema["additionalProperties"] = false.into();
    }
    let exclusive: Vec<String> = message
        .oneofs()
        .filter(|oneof| !oneof.is_synthetic())
        .map(|oneof| {
            let members: Vec<String> =
                oneof.fields().map(|field| format!("`{}`", field.json_name())).collect();
            format!("At most one of {} is set.", members.join(", "))
        })
        .collect();
    if !exclusive.is_empty() {
        schema["$comment"] = exclusive.join(" ").into();
    }
    Ok(schema)
}

fn add_properties(
    message: &MessageDescriptor,
    properties: &mut Map<String, Value>,
    schemas: &mut BTreeMap<String, Value>,
) -> Result<(), Box<dyn Error>> {
    for declared in message.fields() {
        if INLINED.contains(&(message.name(), declared.name()))
            && let Kind::Message(inlined) = declared.kind()
        {
            add_properties(&inlined, properties, schemas)?;
            continue;
        }
        let mut schema = field(&declared, schemas)?;
        let description = comment(&message.parent_file(), declared.path());
        set_description(&mut schema, &description);
        properties.insert(declared.json_name().to_owned(), schema);
    }
    Ok(())
}

/// The schema of a field's value.
fn field(
    declared: &FieldDescriptor,
    schemas: &mut BTreeMap<String, Value>,
) -> Result<Value, Box<dyn Error>> {
    if let (true, Kind::Message(entry)) = (declared.is_map(), declared.kind()) {
        let value = entry.map_entry_value_field();
        return Ok(json!({"type": "object", "additionalProperties": kind(value.kind(), schemas)?}));
    }
    let one = kind(declared.kind(), schemas)?;
    Ok(if declared.is_list() { json!({"type": "array", "items": one}) } else { one })
}

fn kind(kind: Kind, schemas: &mut BTreeMap<String, Value>) -> Result<Value, Box<dyn Error>> {
    Ok(match kind {
        Kind::String => json!({"type": "string"}),
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Double => json!({"type": "number", "format": "double"}),
        Kind::Int32 => json!({"type": "integer", "format": "int32"}),
        Kind::Int64 => json!({"type": "integer", "format": "int64"}),
        Kind::Uint32 => json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}),
        Kind::Uint64 => json!({"type": "integer", "minimum": 0}),
        Kind::Enum(declared) => {
            let name = schema_name(declared.full_name());
            let schema = words(&declared);
            let reference = json!({"$ref": format!("{SCHEMAS}{name}")});
            schemas.insert(name, schema);
            reference
        }
        Kind::Message(message) => {
            describe(&message, schemas)?;
            json!({"$ref": format!("{SCHEMAS}{}", name(&message))})
        }
        other => return Err(format!("{other:?} has no JSON form here").into()),
    })
}

/// The schema of an enum: its names.
fn words(declared: &EnumDescriptor) -> Value {
    let file = declared.parent_file();
    let names: Vec<String> = declared.values().map(|value| value.name().to_owned()).collect();
    let mut lines = vec![comment(&file, declared.path())];
    lines.extend(declared.values().filter_map(|value| {
        let text = comment(&file, value.path());
        (!text.is_empty()).then(|| format!("* `{}`: {text}", value.name()))
    }));
    lines.retain(|line| !line.is_empty());
    let mut schema = json!({"type": "string", "enum": names});
    set_description(&mut schema, &lines.join("\n"));
    schema
}

fn set_description(schema: &mut Value, text: &str) {
    if !text.is_empty() {
        schema["description"] = text.into();
    }
}

/// The comment of the declaration at `path`, with its lines joined to paragraphs.
fn comment(file: &FileDescriptor, path: &[i32]) -> String {
    let info = file.file_descriptor_proto().source_code_info.as_ref();
    let location =
        info.and_then(|info| info.location.iter().find(|location| location.path == path));
    let Some(location) = location else { return String::new() };
    let leading = location.leading_comments();
    let text = if leading.is_empty() { location.trailing_comments() } else { leading };
    let paragraphs = text.split("\n\n").map(|paragraph| {
        paragraph
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    });
    paragraphs.filter(|paragraph| !paragraph.is_empty()).collect::<Vec<_>>().join("\n\n")
}
