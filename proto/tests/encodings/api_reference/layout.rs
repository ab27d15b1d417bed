//! Assignment of messages to pages.

use std::collections::{BTreeMap, BTreeSet};

use prost_reflect::{
    DescriptorPool, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor,
    ServiceDescriptor,
};

/// The page of the messages that several services use.
pub(crate) const SHARED: &str = "messages.md";

/// A message or an enum of Berth.
#[derive(Clone, Debug)]
pub(crate) enum Schema {
    Message(MessageDescriptor),
    Enum(EnumDescriptor),
}

impl Schema {
    /// The type of a field's values; `None` for scalars.
    pub(crate) fn of(field: &FieldDescriptor) -> Option<Schema> {
        let kind = match field.kind() {
            Kind::Message(entry) if entry.is_map_entry() => entry.map_entry_value_field().kind(),
            kind => kind,
        };
        match kind {
            Kind::Message(message) => Some(Schema::Message(message)),
            Kind::Enum(of) => Some(Schema::Enum(of)),
            _ => None,
        }
    }

    pub(crate) fn full_name(&self) -> &str {
        match self {
            Schema::Message(message) => message.full_name(),
            Schema::Enum(of) => of.full_name(),
        }
    }

    /// The name within its package: `Outer.Inner` for one that is declared in another.
    pub(crate) fn name(&self) -> &str {
        let package = match self {
            Schema::Message(message) => message.package_name().len(),
            Schema::Enum(of) => of.package_name().len(),
        };
        &self.full_name()[package + 1..]
    }

    pub(crate) fn file(&self) -> FileDescriptor {
        match self {
            Schema::Message(message) => message.parent_file(),
            Schema::Enum(of) => of.parent_file(),
        }
    }

    pub(crate) fn path(&self) -> &[i32] {
        match self {
            Schema::Message(message) => message.path(),
            Schema::Enum(of) => of.path(),
        }
    }

    /// Whether the declaration is Berth's or cluster-autoscaler's; Kubernetes' declarations get no description.
    fn is_own(&self) -> bool {
        !self.full_name().starts_with("k8s.io.")
    }
}

/// The services, and the page of every declaration that they reach.
pub(crate) struct Layout {
    pub(crate) services: Vec<ServiceDescriptor>,
    /// By full name; Berth's own only.
    pages: BTreeMap<String, String>,
    /// The declarations of each page, in the order in which methods and fields refer to them.
    schemas: BTreeMap<String, Vec<Schema>>,
}

impl Layout {
    pub(crate) fn of(pool: &DescriptorPool) -> Layout {
        let services: Vec<ServiceDescriptor> = pool.services().collect();
        let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut order: Vec<Schema> = Vec::new();
        for service in &services {
            for schema in reached(service) {
                let pages = users.entry(schema.full_name().to_owned()).or_default();
                if pages.is_empty() {
                    order.push(schema);
                }
                pages.insert(file_name(service));
            }
        }
        let pages: BTreeMap<String, String> = users
            .into_iter()
            .map(|(name, pages)| match Vec::from_iter(pages).as_slice() {
                [page] => (name, page.clone()),
                _ => (name, SHARED.to_owned()),
            })
            .collect();
        let mut schemas: BTreeMap<String, Vec<Schema>> = BTreeMap::new();
        for schema in order {
            schemas.entry(pages[schema.full_name()].clone()).or_default().push(schema);
        }
        Layout { services, pages, schemas }
    }

    /// The declarations on a page.
    pub(crate) fn schemas(&self, page: &str) -> &[Schema] {
        self.schemas.get(page).map_or(&[], Vec::as_slice)
    }

    /// A link to a declaration, for `page`.
    pub(crate) fn link(&self, schema: &Schema, page: &str) -> String {
        let name = schema.full_name();
        let Some(target) = self.pages.get(name) else {
            return format!("[`{name}`](../../proto/{})", source(&schema.file()));
        };
        let anchor = schema.name().to_lowercase().replace('.', "");
        let target = if target == page { "" } else { target };
        format!("[`{}`]({target}#{anchor})", schema.name())
    }
}

/// Path of a file in `proto/`: Kubernetes' files are below `kubernetes/`.
pub(crate) fn source(file: &FileDescriptor) -> String {
    let folder = if file.name().starts_with("k8s.io/") { "kubernetes/" } else { "" };
    format!("{folder}{}", file.name())
}

/// `placement-service.md`.
pub(crate) fn file_name(service: &ServiceDescriptor) -> String {
    let mut name = String::new();
    for char in service.name().chars() {
        if char.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(char.to_lowercase());
    }
    name + ".md"
}

/// The declarations that a service's requests and responses consist of, each once, in the order in which they are
/// found.
fn reached(service: &ServiceDescriptor) -> Vec<Schema> {
    let mut found: Vec<Schema> = Vec::new();
    let mut seen = BTreeSet::new();
    for method in service.methods() {
        for message in [method.input(), method.output()] {
            visit(Schema::Message(message), &mut seen, &mut found);
        }
    }
    found
}

fn visit(schema: Schema, seen: &mut BTreeSet<String>, found: &mut Vec<Schema>) {
    if !schema.is_own() || !seen.insert(schema.full_name().to_owned()) {
        return;
    }
    found.push(schema.clone());
    if let Schema::Message(message) = schema {
        for below in message.fields().filter_map(|field| Schema::of(&field)) {
            visit(below, seen, found);
        }
    }
}
