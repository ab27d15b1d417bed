//! Writes the table of RPCs from the option `(berth.v1.access)` of each method: a method without it fails the build.

use std::error::Error;
use std::fmt;

use protox::prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, Kind, MethodDescriptor, ReflectMessage,
    ServiceDescriptor, Value,
};

const OPTION: &str = "berth.v1.access";
/// The enums of the option, each of which becomes a Rust enum without the unspecified value.
const ENUMS: [&str; 3] = ["berth.v1.Role", "berth.v1.Lane", "berth.v1.Effect"];

/// The enums of the option and the table `METHODS`, as Rust source.
///
/// # Errors
/// Names every method whose option is missing, incomplete or contradictory, and its file.
pub(crate) fn table(pool: &DescriptorPool) -> Result<String, Faults> {
    let (mut source, mut faults) = (String::new(), Vec::new());
    for name in ENUMS {
        match pool.get_enum_by_name(name) {
            Some(declared) => source += &rust_enum(&declared),
            None => faults.push(format!("no file declares the enum `{name}`")),
        }
    }
    source += "/// Every method of the `.proto` files, in their order.\npub const METHODS: &[Method] = &[\n";
    for method in pool.services().flat_map(|service| methods(&service)) {
        match row(pool, &method) {
            Ok(row) => source += &row,
            Err(fault) => {
                let file = method.parent_file();
                faults.push(format!("{}: method `{}` {fault}", file.name(), method.full_name()));
            }
        }
    }
    source += "];\n";
    if faults.is_empty() { Ok(source) } else { Err(Faults(faults)) }
}

fn methods(service: &ServiceDescriptor) -> Vec<MethodDescriptor> {
    service.methods().collect()
}

/// The method's entry in the table.
fn row(pool: &DescriptorPool, method: &MethodDescriptor) -> Result<String, String> {
    let missing = || format!("has no option `({OPTION})`");
    let extension = pool.get_extension_by_name(OPTION).ok_or_else(missing)?;
    let options = method.options();
    if !options.has_extension(&extension) {
        return Err(missing());
    }
    let access = options.get_extension(&extension);
    let access = access.as_message().ok_or_else(missing)?;
    let (role, lane, effect) =
        (value(access, "role")?, value(access, "lane")?, value(access, "effect")?);
    let condition = access.get_field_by_name("condition");
    let condition = condition.as_deref().and_then(Value::as_str).unwrap_or_default();
    let is_stream = method.is_client_streaming() || method.is_server_streaming();
    if is_stream != (lane == "Stream") {
        return Err(format!(
            "is {}a stream, and has the lane `{lane}`",
            if is_stream { "" } else { "not " }
        ));
    }
    if role == "Reader" && effect == "Changes" {
        return Err("changes something, and every reader may call it".to_owned());
    }
    if role == "Reader" && effect == "ByRequest" && condition.is_empty() {
        return Err("changes something by request, and has no `condition` for it".to_owned());
    }
    let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
    Ok(format!(
        "Method {{ path: {path:?}, is_stream: {is_stream}, role: Role::{role}, lane: Lane::{lane}, \
         effect: Effect::{effect}, condition: {condition:?} }},\n"
    ))
}

/// The Rust name of the value that a field of the option has.
fn value(access: &DynamicMessage, field: &str) -> Result<String, String> {
    let missing = || format!("sets no `{field}` in its option `({OPTION})`");
    let declared = access.descriptor().get_field_by_name(field).ok_or_else(missing)?;
    match (declared.kind(), access.get_field(&declared).as_enum_number()) {
        (Kind::Enum(of), Some(number)) if number != 0 => {
            of.get_value(number).map(|value| variant(&of, value.name())).ok_or_else(missing)
        }
        _ => Err(missing()),
    }
}

/// The Rust name of an enum's value: `ByRequest` for `EFFECT_BY_REQUEST` of the enum `Effect`.
fn variant(of: &EnumDescriptor, value: &str) -> String {
    let words = value.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        format!("{first}{}", rest.to_lowercase())
    });
    let name: String = words.collect();
    name.strip_prefix(of.name()).unwrap_or(&name).to_owned()
}

fn rust_enum(declared: &EnumDescriptor) -> String {
    let mut source = comment(declared, declared.path());
    source += "#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]\n";
    source += &format!("pub enum {} {{\n", declared.name());
    for value in declared.values().filter(|value| value.number() != 0) {
        source += &comment(declared, value.path());
        source += &format!("{},\n", variant(declared, value.name()));
    }
    source + "}\n"
}

/// The comment before the declaration at `path`, as a doc comment.
fn comment(declared: &EnumDescriptor, path: &[i32]) -> String {
    let file = declared.parent_file();
    let info = file.file_descriptor_proto().source_code_info.as_ref();
    let location =
        info.and_then(|info| info.location.iter().find(|location| location.path == path));
    let text = location.map(|location| location.leading_comments()).unwrap_or_default();
    text.lines().map(|line| format!("///{line}\n")).collect()
}

/// The methods that cannot be listed, one a line: a build script's error is shown in its debug form.
pub(crate) struct Faults(Vec<String>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for Faults {}
