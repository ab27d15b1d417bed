//! The pages as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use prost_reflect::{
    FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor, ServiceDescriptor,
};

use super::access;
use super::comment::Comment;
use super::layout::{Layout, SHARED, Schema, file_name, source};

/// The index, a page a service, and the shared messages, by file name.
pub(crate) fn all(layout: &Layout) -> BTreeMap<String, String> {
    let mut pages = BTreeMap::from([
        ("README.md".to_owned(), index(layout)),
        (SHARED.to_owned(), shared(layout)),
    ]);
    for service in &layout.services {
        let name = file_name(service);
        let text = of_service(layout, service, &name);
        pages.insert(name, text);
    }
    pages
}

fn opening(title: &str) -> String {
    format!(
        "<!-- Made from the comments in proto/ by proto/tests/encodings/api_reference.rs; edit those. -->\n# {title}\n\n"
    )
}

fn index(layout: &Layout) -> String {
    let mut text = opening("API reference");
    text += "Every service, method, message and field of the gRPC API, as the `.proto` files have them. [The guide](../api.md) says how they \
        are used. Each method has the [role](../security.md#roles) that its caller needs, the lane in which it competes with other calls, and \
        whether it changes anything that others see. A field of a type `k8s.io.…` is Kubernetes' own message, with \
        upstream's field numbers: only the fields that decisions read are declared, others are skipped.\n\n";
    text += "| service | methods | |\n|---|---|---|\n";
    for service in &layout.services {
        let comment = Comment::of(&service.parent_file(), service.path());
        let n_methods = service.methods().count();
        let (name, page) = (service.full_name(), file_name(service));
        writeln!(text, "| [`{name}`]({page}) | {n_methods} | {} |", comment.summary())
            .expect("written");
    }
    text + &format!(
        "\nMessages that several services use are in [messages]({SHARED}). Besides these the server has `grpc.health.v1.Health` and \
         `grpc.reflection.v1.ServerReflection`.\n"
    )
}

fn shared(layout: &Layout) -> String {
    let text = opening("Messages of several services");
    text + &declarations(layout, SHARED, "##")
}

fn of_service(layout: &Layout, service: &ServiceDescriptor, page: &str) -> String {
    let file = service.parent_file();
    let mut text = opening(service.full_name());
    text += &Comment::of(&file, service.path()).body();
    let (package, source) = (service.package_name(), source(&file));
    write!(text, "\n\nDeclared in [{source}](../../proto/{source}), package `{package}`.\n\n")
        .expect("written");
    text += "| method | |\n|---|---|\n";
    for method in service.methods() {
        let (name, comment) = (method.name(), Comment::of(&file, method.path()));
        let anchor = format!("rpc-{}", name.to_lowercase());
        writeln!(text, "| [`{name}`](#{anchor}) | {} |", comment.summary()).expect("written");
    }
    text += "\n## Methods\n";
    let groups: Vec<Option<String>> =
        service.methods().map(|method| Comment::of(&file, method.path()).group).collect();
    let depth = if groups.iter().any(Option::is_some) { "####" } else { "###" };
    for (method, group) in service.methods().zip(groups) {
        if let Some(group) = group {
            write!(text, "\n### Group: {group}\n").expect("written");
        }
        text += &of_method(layout, &method, page, depth);
    }
    text += "\n## Messages\n\n";
    text + &declarations(layout, page, "###")
}

fn of_method(layout: &Layout, method: &MethodDescriptor, page: &str, depth: &str) -> String {
    let comment = Comment::of(&method.parent_file(), method.path());
    let streamed = |is_stream: bool| if is_stream { "stream " } else { "" };
    let (input, output) = (method.input(), method.output());
    let (sent, answered) =
        (streamed(method.is_client_streaming()), streamed(method.is_server_streaming()));
    let name = method.name();
    let access = access::line(&format!("/{}/{name}", method.parent_service().full_name()));
    format!(
        "\n{depth} rpc {name}\n\n`rpc {name}({sent}{}) returns ({answered}{})`: {}, {}\n\n{}\n\n{access}\n",
        input.name(),
        output.name(),
        layout.link(&Schema::Message(input.clone()), page),
        layout.link(&Schema::Message(output.clone()), page),
        comment.body()
    )
}

/// Every message and enum of a page, under headings of this depth.
fn declarations(layout: &Layout, page: &str, depth: &str) -> String {
    let mut text = String::new();
    for schema in layout.schemas(page) {
        write!(text, "\n{depth} {}\n\n", schema.name()).expect("written");
        let comment = Comment::of(&schema.file(), schema.path()).body();
        if !comment.is_empty() {
            write!(text, "{comment}\n\n").expect("written");
        }
        text += &match schema {
            Schema::Message(message) => fields(layout, message, page),
            Schema::Enum(of) => {
                let mut table = "| value | number | |\n|---|---|---|\n".to_owned();
                for value in of.values() {
                    let comment = Comment::of(&of.parent_file(), value.path()).cell();
                    writeln!(table, "| `{}` | {} | {comment} |", value.name(), value.number())
                        .expect("written");
                }
                table
            }
        };
    }
    text.trim_start().to_owned()
}

fn fields(layout: &Layout, message: &MessageDescriptor, page: &str) -> String {
    if message.fields().len() == 0 {
        return "No fields.\n".to_owned();
    }
    let mut fields: Vec<FieldDescriptor> = message.fields().collect();
    // In the order of declaration, not by number.
    fields.sort_by_key(|field| field.path().last().copied());
    let mut table = "| field | number | type | |\n|---|---|---|---|\n".to_owned();
    for field in fields {
        let comment = Comment::of(&message.parent_file(), field.path()).cell();
        let of = field.containing_oneof().filter(|oneof| !oneof.is_synthetic());
        let one_of = of.map(|oneof| format!("One of `{}`. ", oneof.name())).unwrap_or_default();
        let (name, number) = (field.name(), field.number());
        writeln!(
            table,
            "| `{name}` | {number} | {} | {one_of}{comment} |",
            type_of(layout, &field, page)
        )
        .expect("written");
    }
    table
}

fn type_of(layout: &Layout, field: &FieldDescriptor, page: &str) -> String {
    let one = |field: &FieldDescriptor| match Schema::of(field) {
        Some(schema) => layout.link(&schema, page),
        None => format!("`{:?}`", field.kind()),
    };
    if let Kind::Message(entry) = field.kind()
        && entry.is_map_entry()
    {
        let (key, value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
        return format!("map of {} to {}", one(&key), one(&value));
    }
    if field.is_list() {
        return format!("repeated {}", one(field));
    }
    let is_optional = field.containing_oneof().is_some_and(|oneof| oneof.is_synthetic());
    let optional = if is_optional { "optional " } else { "" };
    format!("{optional}{}", one(field))
}
