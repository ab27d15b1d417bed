//! Writes the JSON form of the generated messages: implementations of `crate::json::{ReadObject, WriteObject}` and of
//! serde's two traits. A derive would not do: Kubernetes lets the last of two equal keys win (W-JS-8), reads `null` as
//! absent everywhere (W-JS-4), and inlines some messages (W-JS-3), which serde can only do by buffering. Bytes, which
//! would be base64 (W-JS-6), stand in no message that has a JSON form; the build fails when one comes.

use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::fmt::Write;

use super::fields::Fields;
use heck::{ToSnakeCase, ToUpperCamelCase};
use protox::prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use protox::prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet,
};

/// Berth's own package. Its requests are read strictly: an unknown key is an error, and so are two members of one
/// `oneof`. A number may be a string, as protobuf's JSON writes 64-bit numbers.
const BERTH: &str = "berth.v1";

/// Packages with a JSON form: protobuf name, module at the crate root, whether every message is also read. Of
/// [`BERTH`], those that requests contain are read.
const PACKAGES: [(&str, &str, bool); 10] = [
    (BERTH, "berth_v1", false),
    ("k8s.io.api.apps.v1", "apps_v1", true),
    ("k8s.io.api.batch.v1", "batch_v1", true),
    ("k8s.io.api.core.v1", "core_v1", true),
    ("k8s.io.api.node.v1", "node_v1", true),
    ("k8s.io.api.policy.v1", "policy_v1", true),
    ("k8s.io.api.resource.v1", "resource_v1", true),
    ("k8s.io.api.scheduling.v1", "scheduling_v1", true),
    ("k8s.io.api.storage.v1", "storage_v1", true),
    ("k8s.io.apimachinery.pkg.apis.meta.v1", "meta_v1", true),
];

/// Files of lifecycle decisions. Examples have their responses too, so every message is read. False, zero and empty
/// lists are results there, so they are written.
const LIFECYCLE: &str = "berth/v1/lifecycle";

/// Messages without a JSON form, or with one written by hand in `src/`.
const WITHOUT: [&str; 3] = ["MicroTime", "Time", "WatchEvent"];

/// Fields of Kubernetes' messages that are written in JSON even when they are false or zero.
const ALWAYS: [(&str, &str); 5] = [
    ("ContainerStateTerminated", "exitCode"),
    ("ContainerStatus", "ready"),
    ("ContainerStatus", "restartCount"),
    ("ResourcePool", "generation"),
    ("ResourcePool", "resourceSliceCount"),
];

/// Messages that wrap one list, `items`, because a map's value cannot be a list; in JSON they are that list.
pub(crate) const LISTS: [&str; 1] = ["PreStopStarts"];

/// Fields that vanish as a level of JSON (W-JS-3).
pub(crate) const INLINED: [(&str, &str); 7] = [
    ("DeviceAllocationConfiguration", "deviceConfiguration"),
    ("DeviceClaimConfiguration", "deviceConfiguration"),
    ("DeviceClassConfiguration", "deviceConfiguration"),
    ("EphemeralContainer", "ephemeralContainerCommon"),
    ("PersistentVolumeSpec", "persistentVolumeSource"),
    ("Probe", "handler"),
    ("Volume", "volumeSource"),
];

/// Field names that Rust reserves.
const KEYWORDS: [&str; 2] = ["continue", "type"];

/// The implementations for every message of [`PACKAGES`], as Rust source.
pub(crate) fn implementations(
    descriptors: &FileDescriptorSet,
    fields: &Fields,
) -> Result<String, Box<dyn Error>> {
    let mut out = String::new();
    let requested = requested(descriptors);
    for file in &descriptors.file {
        let Some((_, module, read)) =
            PACKAGES.iter().find(|(package, ..)| *package == file.package())
        else {
            continue;
        };
        let is_berth = file.package() == BERTH;
        let is_lifecycle = file.name().starts_with(LIFECYCLE);
        for declared in &file.enum_type {
            names(declared, &mut out)?;
        }
        for message in file.message_type.iter().filter(|message| !WITHOUT.contains(&message.name()))
        {
            if LISTS.contains(&message.name()) {
                list(module, message.name(), &mut out)?;
                continue;
            }
            let object = Object { is_lifecycle, is_berth, ..Object::new(file, module, message)? };
            object.serialize(&mut out)?;
            let name = format!(".{}.{}", file.package(), message.name());
            if *read || is_lifecycle || requested.contains(&name) {
                let known = if is_berth { None } else { fields.position(module, message.name()) };
                object.deserialize(known, &mut out)?;
            }
        }
    }
    Ok(out)
}

/// The names of all messages that requests of [`BERTH`] contain; a stream has no JSON form.
fn requested(descriptors: &FileDescriptorSet) -> BTreeSet<String> {
    let messages: HashMap<String, &DescriptorProto> = descriptors
        .file
        .iter()
        .flat_map(|file| {
            let name =
                |message: &DescriptorProto| format!(".{}.{}", file.package(), message.name());
            file.message_type.iter().map(move |message| (name(message), message))
        })
        .collect();
    let files = descriptors.file.iter().filter(|file| file.package() == BERTH);
    let methods = files.flat_map(|file| &file.service).flat_map(|service| &service.method);
    let unary = methods.filter(|method| !method.client_streaming() && !method.server_streaming());
    let mut left: Vec<String> = unary.map(|method| method.input_type().to_owned()).collect();
    let mut found = BTreeSet::new();
    while let Some(name) = left.pop() {
        let Some(message) = messages.get(&name) else { continue };
        if found.insert(name) {
            // The value of a map is a field of an entry that is declared inside of the message.
            let entries = message.nested_type.iter().flat_map(|entry| &entry.field);
            let fields = message.field.iter().chain(entries);
            left.extend(fields.map(|field| field.type_name().to_owned()));
        }
    }
    found
}

/// Writes the table of an enum's names and numbers.
fn names(declared: &EnumDescriptorProto, out: &mut String) -> Result<(), std::fmt::Error> {
    let table = table(declared.name());
    writeln!(out, "const {table}: &[(&str, i32)] = &[")?;
    for value in &declared.value {
        writeln!(out, "({:?}, {}),", value.name(), value.number())?;
    }
    writeln!(out, "];")
}

/// The constant with the names of an enum: `PLACE_MODE_NAMES` for `.berth.v1.PlaceMode`.
fn table(type_name: &str) -> String {
    let name = type_name.rsplit('.').next().unwrap_or_default();
    format!("{}_NAMES", name.to_snake_case().to_uppercase())
}

/// Writes the JSON form of a message that wraps a list.
fn list(module: &str, name: &str, out: &mut String) -> Result<(), std::fmt::Error> {
    let path = format!("crate::{module}::{}", name.to_upper_camel_case());
    writeln!(
        out,
        "impl serde::Serialize for {path} {{
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {{
            serde::Serialize::serialize(&self.items, serializer)
        }}
        }}
        impl<'de> serde::Deserialize<'de> for {path} {{
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {{
            Ok(Self {{ items: crate::json::read_list(deserializer)? }})
        }}
        }}"
    )
}

/// A message whose JSON form is written.
struct Object<'a> {
    message: &'a DescriptorProto,
    module: &'a str,
    /// Rust path of the type.
    path: String,
    fields: Vec<Field<'a>>,
    /// Whether false, zero and the empty list are written.
    is_lifecycle: bool,
    /// Whether it is read strictly.
    is_berth: bool,
}

struct Field<'a> {
    descriptor: &'a FieldDescriptorProto,
    ident: String,
    json: &'a str,
    /// Rust path of the type that is inlined here.
    inlined: Option<String>,
}

impl<'a> Object<'a> {
    fn new(
        file: &'a FileDescriptorProto,
        module: &'a str,
        message: &'a DescriptorProto,
    ) -> Result<Object<'a>, Box<dyn Error>> {
        let mut fields = Vec::new();
        for descriptor in &message.field {
            if descriptor.r#type() == Type::Bytes {
                let (message, field) = (message.name(), descriptor.name());
                return Err(format!(
                    "`{message}.{field}` is of bytes, which have no JSON form here"
                )
                .into());
            }
            let snake = descriptor.name().to_snake_case();
            let ident = if KEYWORDS.contains(&&*snake) { format!("r#{snake}") } else { snake };
            let inlined = INLINED.contains(&(message.name(), descriptor.name())).then(|| {
                let name = descriptor.type_name().rsplit('.').next().unwrap_or_default();
                format!("crate::{module}::{}", name.to_upper_camel_case())
            });
            let json = descriptor.json_name();
            fields.push(Field { descriptor, ident, json, inlined });
        }
        if file.syntax() != "proto3" {
            return Err(format!("`{}` is not proto3", file.name()).into());
        }
        let path = format!("crate::{module}::{}", message.name().to_upper_camel_case());
        Ok(Object { message, module, path, fields, is_lifecycle: false, is_berth: false })
    }

    fn serialize(&self, out: &mut String) -> Result<(), Box<dyn Error>> {
        let path = &self.path;
        writeln!(out, "impl crate::json::WriteObject for {path} {{")?;
        // A message without fields writes nothing.
        let map = if self.fields.is_empty() { "_" } else { "map" };
        writeln!(
            out,
            "fn write<M: serde::ser::SerializeMap>(&self, {map}: &mut M) -> Result<(), M::Error> {{"
        )?;
        for (index, oneof) in self.message.oneof_decl.iter().enumerate() {
            self.serialize_oneof(out, index, oneof.name())?;
        }
        for field in self.fields.iter().filter(|field| !field.in_oneof()) {
            let Field { ident, json, .. } = field;
            if field.inlined.is_some() {
                writeln!(out, "crate::json::write_inlined(map, self.{ident}.as_ref())?;")?;
            } else if field.descriptor.r#type() == Type::Enum {
                if field.descriptor.label() == Label::Repeated {
                    return Err(format!(
                        "`{}.{json}` is a list of enums, which have no JSON form here",
                        self.message.name()
                    )
                    .into());
                }
                let table = table(field.descriptor.type_name());
                writeln!(
                    out,
                    "if self.{ident} != 0 {{ crate::json::write_enum(map, {json:?}, {table}, self.{ident})?; }}"
                )?;
            } else if self.is_lifecycle && field.is_answer()
                || ALWAYS.contains(&(self.message.name(), *json))
            {
                writeln!(out, "map.serialize_entry({json:?}, &self.{ident})?;")?;
            } else {
                writeln!(out, "crate::json::write_field(map, {json:?}, &self.{ident})?;")?;
            }
        }
        writeln!(out, "Ok(())\n}}\n}}")?;
        writeln!(out, "impl serde::Serialize for {path} {{")?;
        writeln!(
            out,
            "fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {{"
        )?;
        writeln!(out, "crate::json::write_object(self, serializer)\n}}\n}}")?;
        Ok(())
    }

    /// Writes the member that is set as one of the object's fields, under its own name.
    fn serialize_oneof(
        &self,
        out: &mut String,
        index: usize,
        name: &str,
    ) -> Result<(), Box<dyn Error>> {
        let index = i32::try_from(index)?;
        let members = || {
            self.fields
                .iter()
                .filter(|field| field.in_oneof() && field.descriptor.oneof_index() == index)
        };
        if members().next().is_none() {
            return Ok(()); // the presence of a proto3 `optional`
        }
        let variants = self.variants(name);
        writeln!(out, "match &self.{} {{ None => {{}}", name.to_snake_case())?;
        for Field { descriptor, json, .. } in members() {
            let variant = descriptor.name().to_upper_camel_case();
            let write = match descriptor.r#type() {
                Type::Enum => {
                    let table = table(descriptor.type_name());
                    format!("crate::json::write_enum(map, {json:?}, {table}, *value)?")
                }
                _ => format!("map.serialize_entry({json:?}, value)?"),
            };
            writeln!(out, "Some({variants}::{variant}(value)) => {write},")?;
        }
        writeln!(out, "}}")?;
        Ok(())
    }

    /// Rust path of the enum that holds a member of a `oneof`.
    fn variants(&self, oneof: &str) -> String {
        let message = self.message.name().to_snake_case();
        format!("crate::{}::{message}::{}", self.module, oneof.to_upper_camel_case())
    }

    /// Writes how the message is read; `known` is its position in the table of all fields of Kubernetes' objects.
    fn deserialize(&self, known: Option<usize>, out: &mut String) -> Result<(), Box<dyn Error>> {
        let path = &self.path;
        writeln!(out, "impl crate::json::ReadObject for {path} {{")?;
        writeln!(out, "const KIND: &'static str = {:?};", self.message.name())?;
        writeln!(out, "const IS_STRICT: bool = {};", self.is_berth)?;
        let known = match known {
            Some(at) => format!("Some(crate::fields::Message({at}))"),
            None => "None".to_owned(),
        };
        writeln!(out, "const FIELDS: Option<crate::fields::Message> = {known};")?;
        writeln!(out, "fn position(key: &str) -> Option<u32> {{\nmatch key {{")?;
        for Field { descriptor, json, .. } in
            self.fields.iter().filter(|field| field.inlined.is_none())
        {
            writeln!(out, "{json:?} => Some({}),", descriptor.number())?;
        }
        match self.fields.iter().find_map(|field| field.inlined.as_ref()) {
            Some(inner) => writeln!(out, "_ => crate::json::inlined_position::<{inner}>(key),")?,
            None => writeln!(out, "_ => None,")?,
        }
        writeln!(out, "}}\n}}")?;
        writeln!(out, "fn read<'de, A: serde::de::MapAccess<'de>>(")?;
        writeln!(
            out,
            "&mut self, position: u32, map: &mut A) -> Result<(), A::Error> {{\nmatch position {{"
        )?;
        for field in self.fields.iter().filter(|field| field.inlined.is_none()) {
            writeln!(out, "{} => {},", field.descriptor.number(), self.read(field)?)?;
        }
        match self.fields.iter().find(|field| field.inlined.is_some()) {
            Some(Field { ident, .. }) => {
                writeln!(
                    out,
                    "_ => crate::json::read_inlined(&mut self.{ident}, position, map)?,"
                )?;
            }
            None => writeln!(out, "_ => crate::json::skip(map)?,")?,
        }
        writeln!(out, "}}\nOk(())\n}}\n}}")?;
        writeln!(out, "impl<'de> serde::Deserialize<'de> for {path} {{")?;
        writeln!(
            out,
            "fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {{"
        )?;
        writeln!(out, "crate::json::read_object(deserializer)\n}}\n}}")?;
        Ok(())
    }
}

impl Object<'_> {
    /// The expression that reads the value of a field.
    fn read(&self, field: &Field<'_>) -> Result<String, Box<dyn Error>> {
        let Field { descriptor, ident, json, .. } = field;
        let is_enum = descriptor.r#type() == Type::Enum;
        if field.in_oneof() {
            let index = usize::try_from(descriptor.oneof_index())?;
            let oneof = self.message.oneof_decl.get(index).map_or("", |oneof| oneof.name());
            if is_enum || field.is_integer() {
                return Err(format!("`{}.{json}` is a member that is not read", self.path).into());
            }
            let (variants, variant) =
                (self.variants(oneof), descriptor.name().to_upper_camel_case());
            let slot = oneof.to_snake_case();
            return Ok(format!(
                "crate::json::read_member({json:?}, {oneof:?}, &mut self.{slot}, {variants}::{variant}, map)?"
            ));
        }
        if is_enum {
            if descriptor.proto3_optional() {
                return Err(format!("`{}.{json}` is an optional enum", self.path).into());
            }
            let table = table(descriptor.type_name());
            return Ok(format!("self.{ident} = crate::json::read_enum({json:?}, {table}, map)?"));
        }
        let read = if self.is_berth && field.is_integer() { "read_integer" } else { "read_field" };
        Ok(format!("self.{ident} = crate::json::{read}({json:?}, map)?"))
    }
}

impl Field<'_> {
    fn is_integer(&self) -> bool {
        matches!(self.descriptor.r#type(), Type::Int32 | Type::Int64 | Type::Uint32 | Type::Uint64)
    }

    /// Whether the field is always written: numbers, booleans and lists are; text, messages and maps are absent when
    /// empty.
    fn is_answer(&self) -> bool {
        let is_scalar = !matches!(self.descriptor.r#type(), Type::Message | Type::String);
        let is_map = self.descriptor.type_name().ends_with("Entry");
        match self.descriptor.label() {
            Label::Repeated => !is_map,
            _ => is_scalar && !self.descriptor.proto3_optional(),
        }
    }

    /// A member of a real `oneof`, not the presence of a proto3 `optional`.
    fn in_oneof(&self) -> bool {
        self.descriptor.oneof_index.is_some() && !self.descriptor.proto3_optional()
    }
}
